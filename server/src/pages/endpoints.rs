//! Endpoints: the list, one of them, and a call of it by a form.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::hexadecimal;
use prs_common::job::{EndpointFile, Invocation};
use prs_common::registry::Endpoint;
use prs_jobs::endpoints::{self, Expected, IfThere};
use prs_jobs::intake::Call;
use prs_jobs::records::{Deployment, scoring_uri};
use prs_portal::text::times::machine;
use prs_portal::view::{
    DeletePage, DeploymentRow, EndpointEditPage, EndpointPage, EndpointRow, EndpointsPage, GivenCall, Refused,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tracing::info;

use super::registry::Typed;
use super::submit::said;
use crate::api::endpoints::{call_once, problem};
use crate::api::received::pairs;
use crate::api::submit::Key;
use crate::app::App;
use crate::auth::{May, MayRead, MaySubmit, Principal, Role, random_text};
use crate::http::expected::tag_of;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// A moment for people and for programs.
fn moment(us: u64) -> (String, String) {
    let text = machine(us);
    (format!("{} UTC", text[..16].replace('T', " ")), text)
}

/// `GET /endpoints`.
pub(super) async fn list(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    all_of_them(&app, &who, (String::new(), String::new()), Refused::default()).await
}

/// The page of all endpoints, with what was given of a new one.
async fn all_of_them(
    app: &App,
    who: &Principal,
    given: (String, String),
    refused: Refused,
) -> Result<Html<String>, Problem> {
    let all = endpoints::all(&app.whereabouts).await.map_err(|failure| problem(&failure))?;
    let row = |one: Endpoint| EndpointRow {
        deployments: one.names().join(", "),
        name: one.name,
        description: one.description.unwrap_or_default(),
        default: one.default_deployment.unwrap_or_default(),
        created: moment(one.created_us),
    };
    let page = EndpointsPage {
        chrome: &app.chrome,
        endpoints: all.into_iter().map(row).collect(),
        may_create: who.role.allows(Role::Submit),
        given,
        refused,
    };
    Ok(Html(page.html()))
}

/// What the form of a new endpoint sends.
#[derive(Debug, Deserialize)]
pub(super) struct New {
    name: String,
    #[serde(default)]
    description: String,
}

/// `POST /endpoints`.
pub(super) async fn create(
    May(who): MaySubmit,
    State(app): State<App>,
    Form(New { name, description }): Form<New>,
) -> Result<Response, Problem> {
    let name = name.trim().to_owned();
    let file = EndpointFile { description: filled(&description), ..EndpointFile::default() };
    match endpoints::create(&name, &file, IfThere::Refuse, &app.whereabouts).await {
        Ok(endpoint) => {
            info!(endpoint = endpoint.name, who = who.name, "an endpoint is created");
            Ok(Redirect::to(&format!("/endpoints/{}", endpoint.name)).into_response())
        }
        Err(failure) => {
            let refused = said(&app, problem(&failure))?;
            Ok(all_of_them(&app, &who, (name, description), refused).await?.into_response())
        }
    }
}

/// A text that a person filled in.
fn filled(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The form that changes an endpoint, with what is there or was given.
fn edit_page(app: &App, endpoint: &Endpoint, fields: &Edited, refused: Refused) -> Html<String> {
    let page = EndpointEditPage {
        chrome: &app.chrome,
        name: &endpoint.name,
        tag: &fields.tag,
        description: &fields.description,
        tags: &fields.tags,
        deployments: endpoint.names().into_iter().map(str::to_owned).collect(),
        default: &fields.default,
        refused,
    };
    Html(page.html())
}

/// What the form of an endpoint has in its fields.
#[derive(Debug, Deserialize)]
pub(super) struct Edited {
    tag: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    tags: String,
    #[serde(default)]
    default: String,
}

/// `GET /endpoints/{endpoint}/edit`.
pub(super) async fn edit(
    _: MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Html<String>, Problem> {
    let found = endpoints::versioned(&name, &app.whereabouts).await;
    let (endpoint, version) = found.map_err(|failure| problem(&failure))?;
    let tags: Vec<String> = endpoint.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let fields = Edited {
        tag: tag_of(&version),
        description: endpoint.description.clone().unwrap_or_default(),
        tags: tags.join("\n"),
        default: endpoint.default_deployment.clone().unwrap_or_default(),
    };
    Ok(edit_page(&app, &endpoint, &fields, Refused::default()))
}

/// `POST /endpoints/{endpoint}/edit`.
pub(super) async fn save(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    Form(fields): Form<Edited>,
) -> Result<Response, Problem> {
    let endpoint = endpoints::endpoint(&name, &app.whereabouts).await.map_err(|failure| problem(&failure))?;
    let again = |problem: Problem| {
        said(&app, problem).map(|refused| edit_page(&app, &endpoint, &fields, refused).into_response())
    };
    let tags = match pairs("tags", &fields.tags) {
        Ok(tags) => tags.into_iter().collect(),
        Err(problem) => return again(problem),
    };
    let file = EndpointFile {
        description: filled(&fields.description),
        tags,
        properties: endpoint.properties.clone(),
        default_deployment: filled(&fields.default),
        ..EndpointFile::default()
    };
    let check = |version: Option<&str>| version.map(tag_of).as_ref() == Some(&fields.tag);
    let put = endpoints::put(&name, &file, IfThere::Overwrite, Expected(&check), &app.whereabouts).await;
    match put {
        Ok(Some(_)) => {
            info!(endpoint = name, who = who.name, "an endpoint is changed");
            Ok(Redirect::to(&format!("/endpoints/{}", endpoint.name)).into_response())
        }
        Ok(None) => {
            let says = "The endpoint was changed meanwhile: open the form again.".to_owned();
            let refused = Refused { says, problems: Vec::new() };
            Ok(edit_page(&app, &endpoint, &fields, refused).into_response())
        }
        Err(failure) => again(problem(&failure)),
    }
}

/// The deployment that is to answer calls that name none.
#[derive(Debug, Deserialize)]
pub(super) struct NewDefault {
    deployment: String,
}

/// `POST /endpoints/{endpoint}/default`.
pub(super) async fn set_default(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    Form(NewDefault { deployment }): Form<NewDefault>,
) -> Result<Redirect, Problem> {
    let file = EndpointFile { default_deployment: Some(deployment), ..EndpointFile::default() };
    let changed = endpoints::update(&name, &file, &app.whereabouts).await;
    let endpoint = changed.map_err(|failure| problem(&failure))?;
    info!(endpoint = endpoint.name, who = who.name, "an endpoint has another default");
    Ok(Redirect::to(&format!("/endpoints/{}", endpoint.name)))
}

/// The question before an endpoint goes.
fn question(app: &App, name: &str, refused: Refused) -> Html<String> {
    let page = DeletePage {
        chrome: &app.chrome,
        title: &format!("Delete endpoint {name}?"),
        says: "Its deployments go with it, and calls of it are refused from then on. Jobs go on and stay, with their results. The name is free at once.",
        name,
        action: &format!("/endpoints/{name}/delete"),
        back: &format!("/endpoints/{name}"),
        refused,
    };
    Html(page.html())
}

/// `GET /endpoints/{endpoint}/delete`.
pub(super) async fn ask_to_delete(
    _: MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Html<String>, Problem> {
    let found = endpoints::endpoint(&name, &app.whereabouts).await;
    Ok(question(&app, &found.map_err(|failure| problem(&failure))?.name, Refused::default()))
}

/// `POST /endpoints/{endpoint}/delete`.
pub(super) async fn delete(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    Form(typed): Form<Typed>,
) -> Result<Response, Problem> {
    if let Some(refused) = typed.refused(&name) {
        return Ok(question(&app, &name, refused).into_response());
    }
    endpoints::delete(&name, &app.whereabouts).await.map_err(|failure| problem(&failure))?;
    info!(endpoint = name, who = who.name, "an endpoint is deleted");
    Ok(Redirect::to("/endpoints").into_response())
}

/// The question before a deployment goes.
fn question_of(app: &App, endpoint: &str, name: &str, refused: Refused) -> Html<String> {
    let page = DeletePage {
        chrome: &app.chrome,
        title: &format!("Delete deployment {name} of {endpoint}?"),
        says: "Calls that name it are refused from then on. Jobs go on and stay. The default among several is deleted once another one is the default.",
        name,
        action: &format!("/endpoints/{endpoint}/deployments/{name}/delete"),
        back: &format!("/endpoints/{endpoint}"),
        refused,
    };
    Html(page.html())
}

/// `GET /endpoints/{endpoint}/deployments/{deployment}/delete`.
pub(super) async fn ask_to_undeploy(
    _: MaySubmit,
    State(app): State<App>,
    Path((endpoint, name)): Path<(String, String)>,
) -> Result<Html<String>, Problem> {
    let found =
        endpoints::endpoint(&endpoint, &app.whereabouts).await.map_err(|failure| problem(&failure))?;
    let one = found.deployment(&name).map_err(|error| Problem::new(Kind::ENDPOINT_NOT_FOUND, error))?;
    Ok(question_of(&app, &found.name, &one.name, Refused::default()))
}

/// `POST /endpoints/{endpoint}/deployments/{deployment}/delete`.
pub(super) async fn undeploy(
    May(who): MaySubmit,
    State(app): State<App>,
    Path((endpoint, name)): Path<(String, String)>,
    Form(typed): Form<Typed>,
) -> Result<Response, Problem> {
    if let Some(refused) = typed.refused(&name) {
        return Ok(question_of(&app, &endpoint, &name, refused).into_response());
    }
    match endpoints::delete_deployment(&endpoint, &name, false, &app.whereabouts).await {
        Ok(_) => {
            info!(endpoint, deployment = name, who = who.name, "a deployment is deleted");
            Ok(Redirect::to(&format!("/endpoints/{endpoint}")).into_response())
        }
        Err(failure) => {
            Ok(question_of(&app, &endpoint, &name, said(&app, problem(&failure))?).into_response())
        }
    }
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
        Err(problem) => Ok(page(&app, &who, &name, given, said(&app, problem)?).await?.into_response()),
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
