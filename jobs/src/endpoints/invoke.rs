//! A call of an endpoint: the deployment that answers it runs as a job, with the data that the call gives (dialects C.7).

use prs_common::job::{Called, Deployed, Given, Invocation};

use super::deploy::unpacked;
use crate::failure::Failure;
use crate::homes::registry;
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

/// Calls an endpoint: runs a job to its end, or hands it in.
///
/// # Errors
/// No deployment answers, what the call gives is wrong, or the job cannot be run.
pub async fn invoke(call: &Invoke<'_>, start: &Start<'_>) -> Result<Ended, Failure> {
    let registry = registry::open(start.whereabouts).await?;
    let (endpoint, _) = registry.endpoint(call.endpoint).await.map_err(registry::failure)?;
    let deployment = endpoint.route(call.deployment).map_err(Failure::not_found)?;
    let file = unpacked(&registry, deployment).await?;
    let names = start.whereabouts.names.anew();
    let deployed = Deployed {
        endpoint: endpoint.name.clone(),
        deployment: deployment.name.clone(),
        revision: deployment.revision,
    };
    let shown = format!("deployment {} of endpoint {}", deployment.name, endpoint.name);
    let called = Called { deployed: Some(deployed), ..call.called.clone() };
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
