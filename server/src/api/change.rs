//! What is changed of a job that is there: what people say of it, and that it is removed.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use prs_common::registry::Kind as AssetKind;
use prs_jobs::homes::{Home, Seen, registry};
use prs_jobs::update::{Words, update};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tracing::{info, warn};

use super::job_object::JobObject;
use super::received::json;
use crate::app::App;
use crate::auth::{May, MaySubmit, Principal, Role};
use crate::http::params::{Params, bad};
use crate::problem::{ErrorAt, Kind, Problem};

/// How long who asks for a removal is kept waiting for its end; it goes on behind that.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a request says of a job. A key that is not there changes nothing; null takes something away.
#[expect(clippy::option_option, reason = "a key that is absent is told from one that is null")]
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JobWords"))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Body {
    #[serde(deserialize_with = "given")]
    display_name: Option<Option<String>>,
    #[serde(deserialize_with = "given")]
    description: Option<Option<String>>,
    tags: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "given")]
    keep_until: Option<Option<String>>,
}

/// That a key is there, also with null.
#[expect(clippy::option_option, reason = "a key that is absent is told from one that is null")]
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl Body {
    fn words(self) -> Result<Words, Problem> {
        let keep_until_us = match self.keep_until {
            Some(Some(text)) => {
                let at = text.parse::<jiff::Timestamp>().ok();
                let at = at.and_then(|at| u64::try_from(at.as_microsecond()).ok());
                let wrong = || {
                    let why = format!("{text:?} is no moment such as 2027-01-31T12:00:00Z, in RFC 3339");
                    refused(vec![("keep_until".to_owned(), why)])
                };
                Some(Some(at.ok_or_else(wrong)?))
            }
            Some(None) => Some(None),
            None => None,
        };
        let Self { display_name, description, tags, .. } = self;
        let words = Words { display_name, description, tags, tag: BTreeMap::new(), keep_until_us };
        let problems = words.problems();
        if problems.is_empty() { Ok(words) } else { Err(refused(problems)) }
    }
}

/// The problem of what cannot be said, each with its key.
fn refused(problems: Vec<(String, String)>) -> Problem {
    let errors = problems.into_iter().map(|(key, detail)| ErrorAt {
        pointer: format!("#/{}", key.replacen('.', "/", 1)),
        key,
        line: None,
        detail,
    });
    Problem::new(Kind::BAD_FIELD, "Something is to be said of the job that cannot be said.")
        .with_errors(errors.collect())
}

/// `PATCH /jobs/{job}`.
pub(crate) async fn patch(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let headers = request.headers().clone();
    let (body, _): (Map<String, Value>, _) = json(request).await?;
    let body: Body = serde_json::from_value(body.into()).map_err(|error| {
        Problem::new(Kind::BAD_REQUEST, format_args!("The body is not what the address takes: {error}."))
    })?;
    let words = body.words()?;
    let home = app.home(&id).await?;
    if words.is_empty() {
        // Nothing is changed, and it is told all the same whether there is such a job.
        home.record().await.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    } else {
        update(&*home, &words).await.map_err(|failure| Problem::of(&failure, Kind::BAD_FIELD))?;
        app.index.forget(&home.called()).await;
        info!(job_id = id, who = who.name, "is called otherwise");
    }
    let told = app.told(&id).await?;
    let (seen, live) = &*told;
    app.index.note(seen).await;
    let mut headers = headers;
    headers.remove(axum::http::header::IF_NONE_MATCH);
    JobObject::with(seen, live.as_ref()).answer(&headers, None)
}

/// Whether `who` may remove the job: one that they handed in, or any with the role `admin`.
pub(crate) fn may_remove(who: &Principal, seen: &Seen) -> bool {
    who.role.allows(Role::Admin) || (who.role.allows(Role::Submit) && who.owns(&seen.record.spec))
}

/// Refuses the removal of a job by who may not, and of one that has not ended or whose result others need.
pub(crate) async fn check_removal(
    app: &App,
    who: &Principal,
    (home, seen): (&Home, &Seen),
    keeps_output: bool,
) -> Result<(), Problem> {
    if !may_remove(who, seen) {
        let detail = format!(
            "{} has the role {} and did not hand this job in; the jobs of others need the role admin.",
            who.name, who.role
        );
        return Err(Problem::new(Kind::FORBIDDEN, detail));
    }
    if !home.has_ended(&seen.record) {
        return Err(Problem::new(Kind::JOB_IS_ACTIVE, "The job has not ended: cancel it first."));
    }
    if keeps_output {
        return Ok(());
    }
    let output = home.output(&seen.record).uri("").trim_end_matches('/').to_owned();
    match user_of(app, &output).await? {
        Some(user) => Err(Problem::new(
            Kind::OUTPUT_IN_USE,
            format_args!("The output of the job is registered as {user}."),
        )
        .hint("output=keep removes the rest of the job and leaves its output")),
        None => Ok(()),
    }
}

/// What is registered that lies in the folder `output`.
async fn user_of(app: &App, output: &str) -> Result<Option<String>, Problem> {
    let failed = |failure| Problem::of(&failure, Kind::INTERNAL);
    let registry = registry::open(&app.whereabouts).await.map_err(failed)?;
    for kind in [AssetKind::Data, AssetKind::Model] {
        let (all, _) = registry.list(kind).await.map_err(|error| failed(registry::failure(error)))?;
        let mut versions = all.iter().flatten();
        let lies_there = |path: &str| {
            path.strip_prefix(output).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some(found) = versions.find(|version| lies_there(&version.path)) {
            return Ok(Some(format!("{} {}:{}", kind.noun(), found.name, found.version)));
        }
    }
    Ok(None)
}

/// Removes a job that was looked at, and waits for a while; what takes longer goes on by itself.
pub(crate) async fn remove_seen(app: &App, home: Home, keeps_output: bool) -> Result<(), Problem> {
    let refused = |failure| Problem::of(&failure, Kind::REFUSED);
    let start = home.leftover().await.map_err(refused)?.start();
    let called = home.called();
    let removal = tokio::spawn(async move {
        let removed = home.remove_but(start, keeps_output).await;
        if let Err(failure) = &removed {
            warn!(job_id = home.called(), %failure, "cannot remove the job");
        }
        removed
    });
    let removed = match tokio::time::timeout(PATIENCE, removal).await {
        Ok(Ok(removed)) => removed.map_err(refused),
        Ok(Err(_)) => Err(Problem::new(Kind::INTERNAL, "The removal broke off; ask for it again.")),
        Err(_) => Ok(()),
    };
    app.index.forget(&called).await;
    removed
}

/// Whether there is no such job, or not any more.
pub(crate) fn is_gone(problem: &Problem) -> bool {
    problem.kind == Kind::JOB_NOT_FOUND
}

/// `DELETE /jobs/{job}`.
pub(crate) async fn delete(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["output"])?;
    let keeps_output = match params.one("output")?.unwrap_or("keep") {
        "keep" => true,
        "remove" => false,
        other => return Err(bad("output", format_args!("{other:?} is neither keep nor remove"))),
    };
    let (home, seen) = app.seen(&id).await?;
    Box::pin(check_removal(&app, &who, (&home, &seen), keeps_output)).await?;
    Box::pin(remove_seen(&app, home, keeps_output)).await?;
    info!(job_id = id, who = who.name, keeps_output, "removed");
    Ok(StatusCode::ACCEPTED.into_response())
}
