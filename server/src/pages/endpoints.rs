//! Endpoints: the list, one of them, and a call of it by a form.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::hexadecimal;
use prs_common::job::Invocation;
use prs_common::registry::Endpoint;
use prs_common::timestamp::format_us;
use prs_jobs::endpoints;
use prs_jobs::intake::Call;
use prs_jobs::records::{Deployment, scoring_uri};
use prs_portal::view::{DeploymentRow, EndpointPage, EndpointRow, EndpointsPage, GivenCall, Refused};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::submit::said;
use crate::api::endpoints::{call_once, problem};
use crate::api::received::pairs;
use crate::api::submit::Key;
use crate::app::App;
use crate::auth::{May, MayRead, MaySubmit, Principal, Role, random_text};
use crate::http::params::Params;
use crate::problem::Problem;

/// A moment for people and for programs.
fn moment(us: u64) -> (String, String) {
    let text = format_us(us);
    (format!("{} UTC", text[..16].replace('T', " ")), text)
}

/// `GET /endpoints`.
pub(super) async fn list(
    _: MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let all = endpoints::all(&app.whereabouts).await.map_err(|failure| problem(&failure))?;
    let row = |one: Endpoint| EndpointRow {
        deployments: one.names().join(", "),
        name: one.name,
        description: one.description.unwrap_or_default(),
        default: one.default_deployment.unwrap_or_default(),
        created: moment(one.created_us),
    };
    let page = EndpointsPage { chrome: &app.chrome, endpoints: all.into_iter().map(row).collect() };
    Ok(Html(page.html()))
}

/// The page about an endpoint, with what was given before.
async fn page(
    app: &App,
    who: &Principal,
    name: &str,
    given: GivenCall,
    refused: Refused,
) -> Result<Html<String>, Problem> {
    let found = endpoints::endpoint(name, &app.whereabouts).await;
    let endpoint = found.map_err(|failure| problem(&failure))?;
    let row = |one| {
        let record = Deployment::new(&endpoint, one);
        DeploymentRow {
            name: record.name,
            runs: record.kind,
            is_default: record.is_default,
            revision: record.revision,
            since: moment(one.revised_us),
            definition: serde_json::to_string_pretty(&record.definition).unwrap_or_default(),
        }
    };
    let page = EndpointPage {
        chrome: &app.chrome,
        name: &endpoint.name,
        description: endpoint.description.as_deref().unwrap_or_default(),
        scoring_uri: &scoring_uri(&app.url, &endpoint.name),
        deployments: endpoint.deployments.iter().map(row).collect(),
        may_call: who.role.allows(Role::Submit),
        key: &random_text::<16>(),
        given,
        refused,
    };
    Ok(Html(page.html()))
}

/// `GET /endpoints/{endpoint}`.
pub(super) async fn one(
    May(who): MayRead,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    page(&app, &who, &name, GivenCall::default(), Refused::default()).await
}

/// What the form sends.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    #[serde(default)]
    idempotency_key: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    deployment: String,
    #[serde(default)]
    set: String,
}

/// `POST /endpoints/{endpoint}`.
pub(super) async fn call(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    Form(fields): Form<Fields>,
) -> Result<Response, Problem> {
    let Fields { idempotency_key, input, deployment, set } = fields;
    let given = GivenCall { deployment, input, set };
    match made(&app, who.clone(), &name, idempotency_key, &given).await {
        Ok(job_id) => Ok(Redirect::to(&format!("/jobs/{job_id}")).into_response()),
        Err(problem) => Ok(page(&app, &who, &name, given, said(problem)?).await?.into_response()),
    }
}

/// The job that comes of what was given.
async fn made(
    app: &App,
    who: Principal,
    name: &str,
    key: String,
    given: &GivenCall,
) -> Result<String, Problem> {
    let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let call = Call {
        endpoint: name.to_owned(),
        deployment: filled(&given.deployment),
        set: pairs("set", &given.set)?,
        invocation: Invocation { input: filled(&given.input), ..Invocation::default() },
        ..Call::default()
    };
    let fingerprint = hexadecimal(&Sha256::digest(format!("{call:?}")));
    let key = Key::OfPage(Some(key).filter(|key| !key.is_empty()));
    call_once(app, who, key, fingerprint, call).await.map(|(job_id, _)| job_id)
}
