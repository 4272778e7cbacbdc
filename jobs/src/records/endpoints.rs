//! Endpoints, their deployments, and jobs as Azure's REST has them.

use std::collections::BTreeMap;

use prs_common::job::{Deployed, hide_secrets};
use prs_common::ledger::JobState;
use prs_common::registry;
use prs_common::timestamp::format_us;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Versioned;
use crate::homes::Seen;

/// What `provisioning_state` says of all that there is: it is there.
const SUCCEEDED: &str = "Succeeded";

/// An endpoint.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Endpoint {
    /// The name.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// What people tell endpoints apart by.
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    pub properties: BTreeMap<String, String>,
    /// What answers a call.
    pub defaults: Defaults,
    /// Where it is called; null where no server is known (`PRS_SERVER_URL`).
    pub scoring_uri: Option<String>,
    /// How callers show who they are: by a token of prs, whatever Azure calls it.
    pub auth_mode: &'static str,
    /// That it is there: `Succeeded`.
    pub provisioning_state: &'static str,
    /// The names of its deployments.
    pub deployments: Vec<String>,
    /// When it was created: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub created_at: String,
}

/// What answers a call.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Defaults {
    /// The deployment that answers where a call names none; null where none was chosen.
    pub deployment_name: Option<String>,
}

impl Endpoint {
    /// An endpoint of a server with this address.
    pub fn new(endpoint: registry::Endpoint, server: Option<&str>) -> Self {
        let scoring_uri = server.map(|url| scoring_uri(url, &endpoint.name));
        Self {
            deployments: endpoint.names().into_iter().map(str::to_owned).collect(),
            name: endpoint.name,
            description: endpoint.description,
            tags: endpoint.tags,
            properties: endpoint.properties,
            defaults: Defaults { deployment_name: endpoint.default_deployment },
            scoring_uri,
            auth_mode: "aad_token",
            provisioning_state: SUCCEEDED,
            created_at: format_us(endpoint.created_us),
        }
    }
}

/// Where the endpoint is called at a server with the address `url`.
pub fn scoring_uri(url: &str, endpoint: &str) -> String {
    format!("{}/endpoints/{endpoint}/jobs", url.trim_end_matches('/'))
}

/// Endpoints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Endpoints {
    /// The endpoints, by name.
    pub endpoints: Vec<Versioned<Endpoint>>,
}

/// A deployment of an endpoint.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deployment {
    /// The name.
    pub name: String,
    /// The endpoint.
    pub endpoint_name: String,
    /// For people.
    pub description: Option<String>,
    /// What people tell deployments apart by.
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    pub properties: BTreeMap<String, String>,
    /// What it runs.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["model", "pipeline"])))]
    pub kind: &'static str,
    /// Whether it answers calls that name none.
    pub is_default: bool,
    /// How often it was created or changed, from 1.
    pub revision: u64,
    /// What its file says that it does; values of variables whose names speak of secrets are hidden.
    pub definition: Map<String, Value>,
    /// That it is there: `Succeeded`.
    pub provisioning_state: &'static str,
    /// When it was created: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub created_at: String,
    /// When this revision was: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub revised_at: String,
}

impl Deployment {
    /// A deployment of `endpoint`.
    pub fn new(endpoint: &registry::Endpoint, deployment: &registry::Deployment) -> Self {
        let deployment = deployment.clone();
        let answers = endpoint.route(None).is_ok_and(|one| one.name == deployment.name);
        let mut definition = Value::Object(deployment.settings);
        hide_secrets(&mut definition);
        Self {
            is_default: answers,
            endpoint_name: endpoint.name.clone(),
            name: deployment.name,
            description: deployment.description,
            tags: deployment.tags,
            properties: deployment.properties,
            kind: deployment.kind.as_str(),
            revision: deployment.revision,
            definition: definition.as_object().cloned().unwrap_or_default(),
            provisioning_state: SUCCEEDED,
            created_at: format_us(deployment.created_us),
            revised_at: format_us(deployment.revised_us),
        }
    }
}

/// Deployments of an endpoint.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deployments {
    /// The deployments, in the order of their creation.
    pub deployments: Vec<Versioned<Deployment>>,
}

/// A job as Azure's REST has it (dialects C.8).
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AzureJob {
    /// What ends in `/jobs/` and the name.
    pub id: String,
    /// The id of the job.
    pub name: String,
    /// What Azure calls it.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What there is to know of it.
    pub properties: Map<String, Value>,
    /// How it stands, in Azure's words.
    pub status: &'static str,
    /// When it was submitted.
    pub system_data: Value,
    /// The endpoint that was called; null for another job.
    pub endpoint: Option<String>,
    /// The deployment that answered; null for another job.
    pub deployment: Option<String>,
}

impl AzureJob {
    /// A job as it is seen; `portal` is the address of its page, where there is one.
    pub fn seen(seen: &Seen, portal: Option<&str>) -> Self {
        let (spec, result) = (&seen.record.spec, &seen.result);
        let status = status(seen);
        let of_deployment = |one: fn(&Deployed) -> &str| spec.deployed.as_ref().map(|it| one(it).to_owned());
        let endpoint = of_deployment(|it| &it.endpoint);
        let output = result.output.folder().trim_end_matches('/');
        let outputs: Map<String, Value> = match &seen.record.pipeline {
            Some(plan) => {
                let names = plan.pipeline.outputs.iter().map(|one| one.name.clone());
                names.map(|name| (name.clone(), json!({ "uri": format!("{output}/{name}") }))).collect()
            }
            None => [("score".to_owned(), json!({ "uri": output }))].into_iter().collect(),
        };
        let mut properties = json!({
            "status": status,
            "displayName": spec.display_name.as_ref().unwrap_or(&spec.name),
            "experimentName": spec.experiment_name,
            "tags": spec.tags,
            "provisioningState": SUCCEEDED,
            "outputs": outputs,
            "output": outputs,
        });
        if let Some(portal) = portal {
            properties["interactionEndpoints"] = json!({ "Studio": { "endpoint": portal } });
        }
        if let (JobState::Failed, Some(reason)) = (result.state, &result.reason) {
            properties["error"] = json!({ "code": "UserError", "message": reason, "details": [] });
        }
        let below = endpoint.as_ref().map(|name| format!("/endpoints/{name}")).unwrap_or_default();
        Self {
            id: format!("{below}/jobs/{}", result.job_id),
            name: result.job_id.clone(),
            kind: "Microsoft.MachineLearningServices/workspaces/batchEndpoints/jobs",
            properties: properties.as_object().cloned().unwrap_or_default(),
            status,
            system_data: json!({ "createdAt": format_us(result.submitted_us) }),
            endpoint,
            deployment: of_deployment(|it| &it.deployment),
        }
    }
}

/// Jobs as Azure's REST has them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AzureJobs {
    /// The jobs, the newest first.
    pub jobs: Vec<Versioned<AzureJob>>,
}

/// What of a job was copied to this machine.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Downloaded {
    /// The folders that were made.
    pub folders: Vec<String>,
}

/// How a job stands, in Azure's words (dialects C.8).
fn status(seen: &Seen) -> &'static str {
    let conclusion = seen.record.status.progress.conclusion.as_ref();
    let is_canceled = conclusion.is_some_and(|conclusion| conclusion.state == JobState::Canceled);
    match seen.result.state {
        JobState::Completed => "Completed",
        JobState::Failed => "Failed",
        JobState::Canceled => "Canceled",
        _ if is_canceled => "CancelRequested",
        JobState::Queued => "Queued",
        JobState::Scheduling if seen.result.mini_batches.succeeded == 0 => "Preparing",
        JobState::Scheduling | JobState::Running => "Running",
        JobState::Finalizing => "Finalizing",
    }
}
