//! A call of an endpoint: the deployment that answers it runs as a job, with the data that the call gives (dialects C.7).

use prs_common::job::{Called, Deployed, Given, Invocation};
use prs_common::registry::{Deployment, Registry};

use super::deploy::unpacked;
use crate::failure::Failure;
use crate::homes::{Whereabouts, registry};
use crate::submit::{Ended, Start, submit};

/// What a call gives.
#[derive(Debug, Clone, Copy)]
pub struct Invoke<'a> {
    /// The endpoint.
    pub endpoint: &'a str,
    /// The deployment; the default one, or the only one, without it.
    pub deployment: Option<&'a str>,
    /// Settings and named inputs of this call: keys with their places, and values.
    pub set: &'a [(String, String)],
    /// The data, and what else this call says.
    pub invocation: &'a Invocation,
    /// What the job is called.
    pub called: &'a Called,
}

/// The deployment that answers a call.
pub(crate) struct Routed {
    /// The registry that has it.
    pub(crate) registry: Registry,
    /// What answers.
    pub(crate) deployment: Deployment,
    /// What the job of the call knows of it.
    pub(crate) deployed: Deployed,
}

/// Finds the deployment that answers a call.
pub(crate) async fn route(
    endpoint: &str,
    deployment: Option<&str>,
    whereabouts: &Whereabouts,
) -> Result<Routed, Failure> {
    let registry = registry::open(whereabouts).await?;
    let (endpoint, _) = registry.endpoint(endpoint).await.map_err(registry::failure)?;
    let deployment = endpoint.route(deployment).map_err(Failure::not_found)?.clone();
    let deployed = Deployed {
        endpoint: endpoint.name,
        deployment: deployment.name.clone(),
        revision: deployment.revision,
        called_by: None,
    };
    Ok(Routed { registry, deployment, deployed })
}

/// Calls an endpoint: runs a job to its end, or hands it in.
///
/// # Errors
/// No deployment answers, what the call gives is wrong, or the job cannot be run.
pub async fn invoke(call: &Invoke<'_>, start: &Start<'_>) -> Result<Ended, Failure> {
    let routed = route(call.endpoint, call.deployment, start.whereabouts).await?;
    let Routed { registry, deployment, deployed } = &routed;
    let file = unpacked(registry, deployment).await?;
    let names = start.whereabouts.names.anew();
    let shown = format!("deployment {} of endpoint {}", deployed.deployment, deployed.endpoint);
    let called = Called { deployed: Some(deployed.clone()), ..call.called.clone() };
    let invocation = Invocation { is_deployment: true, ..call.invocation.clone() };
    let given = Given {
        overrides: call.set,
        invocation: Some(&invocation),
        names: Some(&names),
        called: Some(&called),
        shown: Some(&shown),
        ..Given::default()
    };
    Box::pin(submit(&file, given, start)).await
}
