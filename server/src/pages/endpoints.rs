//! Endpoints: the list, one of them, and forms that change it.

use std::sync::Arc;

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::job::EndpointFile;
use prs_common::ledger::JobState;
use prs_common::registry::{self as common, DeploymentKind, Endpoint};
use prs_common::timestamp::now_us;
use prs_jobs::FailureKind;
use prs_jobs::endpoints::{self, Expected, IfThere};
use prs_jobs::records::{Deployment, scoring_uri};
use prs_portal::text::times::machine;
use prs_portal::view::{
    CallsOf, DeletePage, DeploymentRow, EndpointEditPage, EndpointPage, EndpointRow, EndpointsPage, Refused,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tracing::info;

use super::invoke::setting;
use super::jobs::row as job_row;
use super::registry::Typed;
use super::submit::said;
use crate::api::endpoints::problem;
use crate::api::received::pairs;
use crate::app::App;
use crate::auth::{May, MayRead, MaySubmit, Principal, Role};
use crate::http::expected::tag_of;
use crate::http::params::Params;
use crate::index::Summary;
use crate::problem::{Kind, Problem};

/// How long after a form its second press counts as the same, microseconds.
const TWICE_US: u64 = 60 * 1_000_000;

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
            if is_made(&app, &name, &file).await {
                return Ok(Redirect::to(&format!("/endpoints/{name}")).into_response());
            }
            let refused = said(&app, problem(&failure))?;
            Ok(all_of_them(&app, &who, (name, description), refused).await?.into_response())
        }
    }
}

/// Who presses twice has what they wanted: whether the endpoint was made so a moment ago.
async fn is_made(app: &App, name: &str, file: &EndpointFile) -> bool {
    let there = endpoints::endpoint(name, &app.whereabouts).await;
    there.is_ok_and(|there| {
        let is_new = now_us().saturating_sub(there.created_us) < TWICE_US;
        is_new && there.deployments.is_empty() && there.description == file.description
    })
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
    match endpoints::delete(&name, &app.whereabouts).await {
        Ok(_) => info!(endpoint = name, who = who.name, "an endpoint is deleted"),
        // Who presses twice has what they wanted.
        Err(failure) if failure.kind == FailureKind::NotFound => {}
        Err(failure) => return Err(problem(&failure)),
    }
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
        Err(failure) if failure.kind == FailureKind::NotFound => {
            Ok(Redirect::to(&format!("/endpoints/{endpoint}")).into_response())
        }
        Err(failure) => {
            Ok(question_of(&app, &endpoint, &name, said(&app, problem(&failure))?).into_response())
        }
    }
}

/// How long ago calls count, microseconds.
const DAY_US: u64 = 24 * 3600 * 1_000_000;
/// Jobs of an endpoint on its page.
const JOBS: usize = 10;

/// What the jobs of a deployment, of which the newest stands first, say of it.
fn calls_of<'a>(jobs: impl Iterator<Item = &'a Arc<Summary>>, now_us: u64) -> CallsOf {
    let mut calls = CallsOf::default();
    let mut seconds = Vec::new();
    for (at, job) in jobs.enumerate() {
        if at == 0 {
            calls.last = Some(job_row(job));
        }
        if job.submitted_us + DAY_US < now_us {
            continue;
        }
        match job.state {
            JobState::Completed => {
                calls.succeeded += 1;
                seconds.push(job.seconds);
            }
            JobState::Failed => calls.failed += 1,
            _ => {}
        }
    }
    seconds.sort_by(f64::total_cmp);
    calls.median_seconds = seconds.get(seconds.len() / 2).copied();
    calls
}

/// What a key of a deployment names, in a word.
fn named(definition: &Map<String, Value>, key: &str) -> String {
    match definition.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(of)) => {
            let text = |key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
            ["path", "name", "image"]
                .into_iter()
                .find_map(text)
                .unwrap_or_else(|| "written in its file".to_owned())
        }
        _ => String::new(),
    }
}

fn deployment_row(endpoint: &Endpoint, one: &common::Deployment, calls: CallsOf) -> DeploymentRow {
    let record = Deployment::new(endpoint, one);
    let is_model = one.kind == DeploymentKind::Model;
    let setting = |key| if is_model { setting(&record.definition, key) } else { String::new() };
    let runs = named(&record.definition, if is_model { "model" } else { "component" });
    let registered = runs.strip_prefix("azureml:").and_then(|named| named.rsplit_once(':'));
    let kind = if is_model { "models" } else { "components" };
    DeploymentRow {
        is_default: record.is_default,
        revision: record.revision,
        since: moment(one.revised_us),
        runs_at: registered
            .map(|(name, version)| format!("/registry/{kind}/{name}/{version}"))
            .unwrap_or_default(),
        runs,
        is_model,
        environment: named(&record.definition, "environment"),
        nodes: setting("resources.instance_count"),
        processes: setting("max_concurrency_per_instance"),
        mini_batch_size: setting("mini_batch_size"),
        calls,
        definition: serde_json::to_string_pretty(&record.definition).unwrap_or_default(),
        name: record.name,
    }
}

/// `GET /endpoints/{endpoint}`.
pub(super) async fn one(
    May(who): MayRead,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let found = endpoints::endpoint(&name, &app.whereabouts).await;
    let endpoint = found.map_err(|failure| problem(&failure))?;
    let snapshot = app.index.snapshot().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    let is_of = |job: &Summary, deployment: Option<&str>| {
        job.deployed.as_ref().is_some_and(|(of, answered)| {
            of.eq_ignore_ascii_case(&endpoint.name)
                && deployment.is_none_or(|name| answered.eq_ignore_ascii_case(name))
        })
    };
    let row = |one: &common::Deployment| {
        let jobs = snapshot.jobs.iter().filter(|job| is_of(job, Some(&one.name)));
        deployment_row(&endpoint, one, calls_of(jobs, snapshot.made_us))
    };
    let jobs = snapshot.jobs.iter().filter(|job| is_of(job, None)).take(JOBS);
    let page = EndpointPage {
        chrome: &app.chrome,
        name: &endpoint.name,
        description: endpoint.description.as_deref().unwrap_or_default(),
        url: &app.url,
        scoring_uri: &scoring_uri(&app.url, &endpoint.name),
        deployments: endpoint.deployments.iter().map(row).collect(),
        jobs: jobs.map(|job| (job_row(job), job.deployed.clone().unwrap_or_default().1)).collect(),
        may_call: who.role.allows(Role::Submit),
    };
    Ok(Html(page.html()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_last_day_are_counted_and_the_newest_is_told() {
        let job = |id: &str, state, submitted_us, seconds| {
            let made = serde_json::json!({
                "job_id": id, "name": id, "state": state, "target": "", "submitted_us": submitted_us, "seconds": seconds,
                "mini_batches": {"scheduled": 1, "succeeded": 0, "failed": 0}, "items": {"total": 0, "succeeded": 0, "failed": 0}, "per_second": 0.0, "started_us": 0, "start": 1, "as_of_us": 0,
            });
            Arc::new(serde_json::from_value::<Summary>(made).unwrap())
        };
        let jobs = [
            job("newest", "running", 2 * DAY_US, 1.0),
            job("slow", "completed", 2 * DAY_US, 9.0),
            job("quick", "completed", 2 * DAY_US, 3.0),
            job("bad", "failed", 2 * DAY_US, 5.0),
            job("old", "failed", DAY_US / 2, 5.0),
        ];
        let calls = calls_of(jobs.iter(), 2 * DAY_US + 1);
        assert_eq!((calls.succeeded, calls.failed, calls.median_seconds), (2, 1, Some(9.0)));
        assert_eq!(calls.last.unwrap().job_id, "newest");
    }
}
