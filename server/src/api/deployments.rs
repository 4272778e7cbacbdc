//! The deployments of an endpoint: list, one; created, changed and deleted.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use prs_common::job::JobText;
use prs_common::registry;
use prs_jobs::endpoints::{self, ExpectedDeployment, IfThere, Made, NewDeployment, Patch, ScriptRefused};
use prs_jobs::records::{Deployment, Versioned};
use prs_jobs::{Failure, FailureKind};
use serde_json::{Map, Value};
use tracing::info;

use super::asset_file::AssetText;
use super::endpoints::{problem, problem_of_reading, text_of};
use super::once::to_the_end;
use super::received::{Form, json, refused};
use crate::app::App;
use crate::auth::{May, MayRead, MaySubmit, Principal};
use crate::http::conditional;
use crate::http::expected::{Expects, changed_meanwhile, with_tag};
use crate::http::page::slice;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

const KNOWN: [&str; 2] = ["set_default", "skip_script_validation"];
/// How deep the settings of a change may be nested.
const DEEPEST: usize = 16;

fn record(endpoint: &registry::Endpoint, one: &registry::Deployment) -> Versioned<Deployment> {
    Deployment::new(endpoint, one).into()
}

/// The tag of a deployment: of its revision, and behind the dot whether it is the default.
fn tag_of(endpoint: &registry::Endpoint, one: &registry::Deployment) -> String {
    let text = format!("{} {} {}", one.created_us, one.revision, one.revised_us);
    let is_default = endpoint.default_deployment.as_ref() == Some(&one.name);
    format!("\"{}.{}\"", conditional::short_checksum(text.as_bytes()), u8::from(is_default))
}

/// `GET /endpoints/{endpoint}/deployments`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["limit", "cursor"])?;
    let endpoint = endpoints::endpoint(&name, &app.whereabouts).await;
    let endpoint = endpoint.map_err(|failure| problem_of_reading(&failure))?;
    let all = endpoint.deployments.iter().map(|one| record(&endpoint, one)).collect();
    Ok(slice(all, &format!("deployments of {}", endpoint.name), &params)?.answer(&params))
}

/// `GET /endpoints/{endpoint}/deployments/{deployment}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((name, deployment)): Path<(String, String)>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let endpoint = endpoints::endpoint(&name, &app.whereabouts).await;
    let endpoint = endpoint.map_err(|failure| problem_of_reading(&failure))?;
    let found = endpoint.deployment(&deployment);
    let found = found.map_err(|error| Problem::new(Kind::ENDPOINT_NOT_FOUND, error))?;
    Ok(conditional::answer(&headers, &tag_of(&endpoint, found), Json(record(&endpoint, found))))
}

/// The answer about a deployment that was created or changed.
fn answer(made: &Made) -> Result<Response, Problem> {
    let Made { endpoint, name, is_new } = made;
    let one = endpoint.deployment(name).map_err(|error| Problem::new(Kind::ENDPOINT_NOT_FOUND, error))?;
    let at = format!("/api/v1/endpoints/{}/deployments/{}", endpoint.name, one.name);
    let status = if *is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(with_tag(&tag_of(endpoint, one), (status, [(LOCATION, at)], Json(record(endpoint, one)))))
}

/// What it means that a deployment is refused; `said` is the problem where nothing more is known.
fn refusal(failure: &Failure, said: Problem) -> Problem {
    if failure.kind == FailureKind::NotFound {
        return Problem::new(Kind::ENDPOINT_NOT_FOUND, failure);
    }
    let kind = if failure.cause::<ScriptRefused>().is_some() {
        Kind::SCORING_SCRIPT
    } else {
        let problems = failure.job_file().map(|file| &file.problems[..]).unwrap_or_default();
        let lacks = |key: &str| {
            problems.iter().any(|one| one.key.starts_with(key) && one.message.contains("missing"))
        };
        if said.kind != Kind::ASSET_FILE {
            return said;
        } else if lacks("environment") {
            Kind::ENVIRONMENT_MISSING
        } else if lacks("code_configuration") {
            Kind::SCORING_SCRIPT
        } else {
            return said;
        }
    };
    Problem { kind, ..said }
}

/// `PUT /endpoints/{endpoint}/deployments/{deployment}`.
pub(crate) async fn put(
    May(who): MaySubmit,
    State(app): State<App>,
    Path((endpoint, name)): Path<(String, String)>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&KNOWN)?;
    let (set_default, skip_script_validation) =
        (params.flag("set_default")?, params.flag("skip_script_validation")?);
    let expects = Expects::of(request.headers(), true)?;
    let sent = AssetText::receive(&app, request, ("model", false)).await?;
    let options = (set_default, skip_script_validation);
    let made = put_sent(&app, who, (endpoint, name), sent, options, expects).await?;
    answer(&made)
}

/// Creates or replaces a deployment, as what was sent says; with whether it becomes the default, and whether nobody looks at its script.
pub(super) async fn put_sent(
    app: &App,
    who: Principal,
    (endpoint, name): (String, String),
    sent: AssetText,
    (set_default, skip_script_validation): (bool, bool),
    expects: Option<Expects>,
) -> Result<Made, Problem> {
    let app = app.clone();
    to_the_end(move || async move {
        let (code, fence) = (sent.staging.code(), sent.fence(&app));
        let check = |endpoint: &registry::Endpoint, there: Option<&registry::Deployment>| {
            let tag = there.map(|one| tag_of(endpoint, one));
            expects.as_ref().is_none_or(|expects| expects.holds(tag.as_deref()))
        };
        let new = NewDeployment {
            file: &sent.path(),
            text: Some(JobText {
                text: &sent.text,
                folder: &code,
                root: &code,
                allowed: &fence,
                sent: None,
                reach: app.whereabouts.reach.as_deref(),
            }),
            expected: Some(ExpectedDeployment(&check)),
            set: &[],
            name: Some(&name),
            endpoint: Some(&endpoint),
            if_there: IfThere::Overwrite,
            set_default,
            skip_script_validation,
        };
        let made = Box::pin(endpoints::put_deployment(&new, &app.whereabouts)).await;
        let made = made
            .map_err(|failure| refusal(&failure, sent.refused(&failure, Kind::ASSET_FILE, "deployment")))?;
        let made = made.ok_or_else(changed_meanwhile)?;
        info!(endpoint, deployment = name, who = who.name, is_new = made.is_new, "a deployment is put");
        Ok(made)
    })
    .await
}

/// What a body changes, as `--set` has it.
fn flattened(
    place: &str,
    value: Value,
    depth: usize,
    set: &mut Vec<(String, String)>,
) -> Result<(), Problem> {
    match value {
        Value::Object(entries) if depth < DEEPEST => {
            for (key, value) in entries {
                let place = if place.is_empty() { key } else { format!("{place}.{key}") };
                flattened(&place, value, depth + 1, set)?;
            }
            Ok(())
        }
        value => match text_of(&value) {
            Some(text) => {
                set.push((place.to_owned(), text));
                Ok(())
            }
            None => Err(Problem::new(
                Kind::BAD_REQUEST,
                format_args!(
                    "{place} is no text, number, true or false: PUT replaces all of the deployment."
                ),
            )),
        },
    }
}

/// `PATCH /endpoints/{endpoint}/deployments/{deployment}`.
pub(crate) async fn patch(
    May(who): MaySubmit,
    State(app): State<App>,
    Path((endpoint, name)): Path<(String, String)>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&KNOWN)?;
    let (set_default, skip_script_validation) =
        (params.flag("set_default")?, params.flag("skip_script_validation")?);
    let expects = Expects::of(request.headers(), true)?;
    let (body, _): (Map<String, Value>, _) = json(request).await?;
    let mut set = Vec::new();
    flattened("", Value::Object(body), 0, &mut set)?;
    if let Some((key, _)) = set.iter().find(|(key, _)| ["name", "endpoint_name", "type"].contains(&&**key)) {
        return Err(Problem::new(
            Kind::IMMUTABLE,
            format_args!("The {key} of a deployment does not change."),
        ));
    }
    to_the_end(move || async move {
        let check = |endpoint: &registry::Endpoint, there: Option<&registry::Deployment>| {
            let tag = there.map(|one| tag_of(endpoint, one));
            expects.as_ref().is_none_or(|expects| expects.holds(tag.as_deref()))
        };
        let patch = Patch {
            expected: Some(ExpectedDeployment(&check)),
            allowed: Some(app.desk.allowed()),
            set_default,
            skip_script_validation,
        };
        let meant = (&*endpoint, &*name);
        let made = Box::pin(endpoints::patch_deployment(meant, &set, &patch, &app.whereabouts)).await;
        let said = |failure: &Failure| {
            let problem = refused(failure, Some(Form::Change));
            let kind = if problem.kind == Kind::JOB_FILE { Kind::ASSET_FILE } else { problem.kind };
            refusal(failure, Problem { kind, ..problem })
        };
        let made = made.map_err(|failure| said(&failure))?.ok_or_else(changed_meanwhile)?;
        info!(endpoint, deployment = name, who = who.name, "a deployment is changed");
        answer(&made)
    })
    .await
}

/// `DELETE /endpoints/{endpoint}/deployments/{deployment}`.
pub(crate) async fn delete(
    May(who): MaySubmit,
    State(app): State<App>,
    Path((name, deployment)): Path<(String, String)>,
    headers: HeaderMap,
    params: Params,
) -> Result<StatusCode, Problem> {
    params.check(&["yes"])?;
    let anyway = params.flag("yes")?;
    let expects = Expects::of(&headers, true)?;
    let check = |endpoint: &registry::Endpoint, there: Option<&registry::Deployment>| {
        let tag = there.map(|one| tag_of(endpoint, one));
        expects.as_ref().is_none_or(|expects| expects.holds(tag.as_deref()))
    };
    let expected = ExpectedDeployment(&check);
    let meant = (&*name, &*deployment);
    let deleted = endpoints::delete_expected_deployment(meant, anyway, expected, &app.whereabouts).await;
    deleted.map_err(|failure| problem(&failure))?.ok_or_else(changed_meanwhile)?;
    info!(endpoint = name, deployment, who = who.name, "a deployment is deleted");
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_a_list_of_settings() {
        let mut set = Vec::new();
        let body = json!({ "description": "new", "settings": { "retry_settings": { "timeout": 40 } } });
        flattened("", body, 0, &mut set).unwrap();
        let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(set, [own("description", "new"), own("settings.retry_settings.timeout", "40")]);
        for wrong in [json!({ "tags": null }), json!({ "settings": [1] })] {
            assert_eq!(flattened("", wrong, 0, &mut set).unwrap_err().kind, Kind::BAD_REQUEST);
        }
    }
}
