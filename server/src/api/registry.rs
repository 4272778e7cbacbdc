//! What is registered: names, versions, who uses one; versions created, changed, archived and deleted; their files.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::{HeaderName, LOCATION};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use prs_common::registry::{About, AssetVersion, Edit, Edited, Kind as AssetKind, Use, Which};
use prs_jobs::assets::{self, Deletion, NewVersion, Used};
use prs_jobs::homes::registry as homes;
use prs_jobs::records::{Registered, RegisteredName, Versioned};
use prs_jobs::{Failure, FailureKind};
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::info;

use super::asset_file::AssetText;
use super::files::File;
use super::jobs::Page;
use super::once::{Once, begin, end, key_in, to_the_end};
use super::outputs::files;
use super::received::json;
use crate::app::App;
use crate::auth::{May, MayAdmin, MayRead, MaySubmit, Principal};
use crate::http::conditional;
use crate::http::cursor;
use crate::http::expected::{Expects, changed_meanwhile, with_tag};
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// Names that are read at a time until a page is full.
const READ_AT_ONCE: usize = 64;
/// Jobs that are named among those that use a version.
const JOBS: usize = 10;
/// Keys that a version has and that never change.
const FIXED: [&str; 9] =
    ["name", "version", "type", "path", "given", "content", "flavors", "created_at", "created_by"];
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The words for the kinds in addresses.
pub(crate) const KINDS: [(&str, AssetKind); 4] = [
    ("data", AssetKind::Data),
    ("models", AssetKind::Model),
    ("environments", AssetKind::Environment),
    ("components", AssetKind::Component),
];

/// The kind that an address has as `word`.
pub(crate) fn kind_of(word: &str) -> Result<AssetKind, Problem> {
    let found = KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
    found.ok_or_else(|| {
        let known = KINDS.map(|(known, _)| known).join(", ");
        Problem::new(Kind::ASSET_NOT_FOUND, format_args!("There is no kind {word:?}; there are: {known}."))
    })
}

/// The word for `kind` in addresses.
pub(crate) fn word_of(kind: AssetKind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).map_or("data", |(word, _)| word)
}

/// Which version an address means: `@latest`, `@LABEL` or a version.
pub(crate) fn which(version: &str) -> Which {
    match version.strip_prefix('@') {
        Some(label) => Which::Label(label.to_owned()),
        None => Which::Version(version.to_owned()),
    }
}

/// What it means that a call about what is registered failed.
pub(crate) fn problem(failure: &Failure) -> Problem {
    match failure.kind {
        FailureKind::NotFound => Problem::new(Kind::ASSET_NOT_FOUND, failure),
        _ => Problem::of(failure, Kind::ASSET_FILE),
    }
}

/// The tag of a version, of all that can be changed.
pub(crate) fn tag_of(one: &AssetVersion) -> String {
    let text = format!("{:?}", (&one.about, &one.labels, one.archived, &one.created));
    conditional::short_checksum(text.as_bytes())
}

/// A job that uses a version.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct UsingJob {
    pub(crate) job_id: String,
    pub(crate) state: &'static str,
}

/// What uses a version.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct UsedBy {
    #[serde(flatten)]
    pub(crate) used: Used,
    /// The last jobs, the newest first.
    pub(crate) jobs: Vec<UsingJob>,
    /// How many jobs there are.
    pub(crate) jobs_total: u64,
    #[serde(skip)]
    pub(crate) active: Vec<String>,
}

/// Finds what uses a version.
pub(crate) async fn used_by(app: &App, one: &AssetVersion) -> Result<UsedBy, Problem> {
    let used = assets::used_by(one.kind.kind(), &one.name, &one.version, &app.whereabouts).await;
    let used = used.map_err(|failure| problem(&failure))?;
    let snapshot = app.index.snapshot().await.map_err(|failure| problem(&failure))?;
    let it = Use::of(one);
    let using: Vec<_> = snapshot.jobs.iter().filter(|job| job.uses.contains(&it)).collect();
    let active = using.iter().filter(|job| !job.state.is_final()).map(|job| job.job_id.clone()).collect();
    let jobs = using.iter().take(JOBS);
    let jobs = jobs.map(|job| UsingJob { job_id: job.job_id.clone(), state: job.state.as_str() }).collect();
    Ok(UsedBy { used, jobs, jobs_total: using.len() as u64, active })
}

/// Which names are asked for.
pub(crate) struct Wanted {
    query: Option<String>,
    tags: Vec<(String, String)>,
    archived: bool,
    of: String,
}

impl Wanted {
    pub(crate) fn parse(kind: AssetKind, params: &Params) -> Result<Self, Problem> {
        let tag = |text: &str| {
            let pair = text.split_once(':').map(|(key, value)| (key.to_owned(), value.to_owned()));
            pair.ok_or_else(|| bad("tag", format_args!("{text:?} is not key:value")))
        };
        Ok(Self {
            query: params.one("q")?.map(str::to_lowercase),
            tags: params.all("tag").into_iter().map(tag).collect::<Result<_, _>>()?,
            archived: params.flag("archived")?,
            of: format!("registry {}?{}", word_of(kind), params.without(&["limit", "cursor"])),
        })
    }

    fn fits(&self, one: &RegisteredName) -> bool {
        let contains =
            |text: &str| self.query.as_deref().is_none_or(|query| text.to_lowercase().contains(query));
        (self.archived || !one.archived)
            && (contains(&one.name) || one.description.as_deref().is_some_and(contains))
            && self.tags.iter().all(|(key, _)| {
                let mut wanted = self.tags.iter().filter(|(each, _)| each == key);
                one.tags.get(key).is_some_and(|value| wanted.any(|(_, each)| each == value))
            })
    }
}

/// A page of names, and the cursor of the next.
pub(crate) async fn names(
    app: &App,
    kind: AssetKind,
    params: &Params,
) -> Result<(Vec<RegisteredName>, Option<String>), Problem> {
    let wanted = Wanted::parse(kind, params)?;
    let limit = params.limit()?;
    let after: Option<String> =
        params.one("cursor")?.map(|text| cursor::read(&wanted.of, text)).transpose()?;
    let all = assets::names(kind, &app.whereabouts).await.map_err(|failure| problem(&failure))?;
    let rest: Vec<String> =
        all.into_iter().filter(|name| after.as_ref().is_none_or(|after| name > after)).collect();
    let mut found = Vec::new();
    for names in rest.chunks(READ_AT_ONCE) {
        let read = assets::of_names(kind, names, &app.whereabouts).await;
        let read = read.map_err(|failure| problem(&failure))?;
        let shown = read.iter().filter_map(|versions| RegisteredName::of(versions));
        found.extend(shown.filter(|one| wanted.fits(one)));
        if found.len() > limit {
            break;
        }
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|last| cursor::write(&wanted.of, &last.name));
    Ok((found, next))
}

/// `GET /registry/{kind}`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(kind): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["q", "tag", "archived", "limit", "cursor"])?;
    let (value, next_cursor) = names(&app, kind_of(&kind)?, &params).await?;
    Ok(Page::now(value, next_cursor, None).answer(&params))
}

/// A page of versions, the newest first.
pub(crate) struct Versions {
    pub(crate) value: Vec<AssetVersion>,
    /// The one that `@latest` means.
    pub(crate) latest: Option<String>,
    pub(crate) next_cursor: Option<String>,
    total: u64,
}

/// A page of the versions of a name.
pub(crate) async fn versions_page(
    app: &App,
    kind: AssetKind,
    name: &str,
    params: &Params,
) -> Result<Versions, Problem> {
    let limit = params.limit()?;
    let of = format!("registry {} {name}", word_of(kind));
    let before: Option<String> = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?;
    let all = assets::versions(kind, name, &app.whereabouts).await.map_err(|failure| problem(&failure))?;
    let total = all.len() as u64;
    let latest = all.iter().rev().find(|one| !one.archived).map(|one| one.version.clone());
    let mut versions: Vec<AssetVersion> = all.into_iter().rev().collect();
    if let Some(before) = before {
        let at = versions.iter().position(|one| one.version == before);
        versions = versions.split_off(at.map_or(versions.len(), |at| at + 1));
    }
    let has_more = versions.len() > limit;
    versions.truncate(limit);
    let next_cursor = versions.last().filter(|_| has_more).map(|last| cursor::write(&of, &last.version));
    Ok(Versions { value: versions, latest, next_cursor, total })
}

/// `GET /registry/{kind}/{name}` and `GET /registry/{kind}/{name}/versions`.
pub(crate) async fn versions(
    _: MayRead,
    State(app): State<App>,
    Path((kind, name)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["limit", "cursor"])?;
    let Versions { value, latest, next_cursor, total } =
        versions_page(&app, kind_of(&kind)?, &name, &params).await?;
    let record = |one: AssetVersion| {
        let is_latest = latest.as_ref() == Some(&one.version);
        Versioned::from(Registered::new(one, Some(is_latest)))
    };
    let value: Vec<_> = value.into_iter().map(record).collect();
    Ok(Page::now(value, next_cursor, Some(total)).answer(&params))
}

/// A version with who uses it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "RegisteredAndUsed"))]
pub(crate) struct WithUses {
    #[serde(flatten)]
    registered: Versioned<Registered>,
    used_by: UsedBy,
}

/// `GET /registry/{kind}/{name}/versions/{version}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((kind, name, version)): Path<(String, String, String)>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let found = assets::find(kind_of(&kind)?, &name, &which(&version), &app.whereabouts).await;
    let (one, is_latest) = found.map_err(|failure| problem(&failure))?;
    let used_by = used_by(&app, &one).await?;
    // What is said of it, and behind the dot what else is in the answer.
    let rest = format!("{is_latest} {used_by:?}");
    let tag = format!("\"{}.{}\"", tag_of(&one), conditional::short_checksum(rest.as_bytes()));
    let body = WithUses { registered: Registered::new(one, Some(is_latest)).into(), used_by };
    Ok(conditional::answer(&headers, &tag, Json(body)))
}

/// The answer about a version.
fn answer(one: AssetVersion, status: StatusCode) -> Response {
    let at = format!("/api/v1/registry/{}/{}/versions/{}", word_of(one.kind.kind()), one.name, one.version);
    let tag = format!("\"{}\"", tag_of(&one));
    let body = Json(Versioned::from(Registered::new(one, None)));
    with_tag(&tag, (status, [(LOCATION, at)], body))
}

/// Creates a version of what was sent; tells whether it is new.
pub(crate) async fn create_version(
    app: &App,
    who: &Principal,
    (kind, name, version): (AssetKind, &str, Option<&str>),
    sent: &AssetText,
) -> Result<(AssetVersion, bool), Failure> {
    let (file, fence) = (sent.path(), sent.fence(app));
    let new = NewVersion {
        text: Some(&sent.text),
        file: Some(&file),
        name: Some(name),
        version,
        created_by: Some(&who.name),
        hidden: Some(sent.staging.path()),
        fence: Some(&fence),
        if_same: true,
        ..NewVersion::of(kind)
    };
    let made = Box::pin(assets::create(&new, &|_| {}, &app.whereabouts)).await?;
    let (one, is_new) = &made;
    info!(kind = kind.noun(), name, version = one.version, who = who.name, is_new, "a version is registered");
    Ok(made)
}

/// What it is to who sent it that no version came of it.
pub(super) async fn not_created(
    app: &App,
    failure: &Failure,
    (kind, name, version): (AssetKind, &str, Option<&str>),
    sent: &AssetText,
) -> Problem {
    if let Some(version) = version.filter(|_| failure.is_usage() && failure.job_file().is_none()) {
        let there = assets::find(kind, name, &Which::Version(version.to_owned()), &app.whereabouts).await;
        if there.is_ok() || failure.to_string().contains("was deleted") {
            return Problem::new(Kind::VERSION_EXISTS, failure);
        }
    }
    match failure.kind {
        FailureKind::NotFound => Problem::new(Kind::ASSET_FILE, failure),
        _ => sent.refused(failure, Kind::ASSET_FILE, kind.noun()),
    }
}

/// `POST /registry/{kind}/{name}/versions`.
pub(crate) async fn create(
    May(who): MaySubmit,
    State(app): State<App>,
    Path((kind, name)): Path<(String, String)>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let kind = kind_of(&kind)?;
    let key = key_in(request.headers())?;
    let sent = AssetText::receive(&app, request, (&name, kind == AssetKind::Data)).await?;
    to_the_end(move || async move {
        let route = format!("POST /api/v1/registry/{}/{name}/versions", word_of(kind));
        let mut held = match begin(&app, &who, &route, key.as_deref(), &sent.fingerprint).await? {
            Once::Do(held) => held,
            Once::Done(version) => {
                let found = assets::find(kind, &name, &Which::Version(version), &app.whereabouts).await;
                let (one, _) = found.map_err(|failure| problem(&failure))?;
                let mut response = answer(one, StatusCode::CREATED);
                response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
                return Ok(response);
            }
        };
        let work = Box::pin(create_version(&app, &who, (kind, &name, None), &sent));
        let made = match &mut held {
            Some(held) => held.keep(work).await,
            None => work.await,
        };
        end(held, made.as_ref().map(|(one, _)| one.version.as_str())).await;
        match made {
            Ok((one, true)) => Ok(answer(one, StatusCode::CREATED)),
            Ok((one, false)) => Ok(answer(one, StatusCode::OK)),
            Err(failure) => Err(not_created(&app, &failure, (kind, &name, None), &sent).await),
        }
    })
    .await
}

/// `PUT /registry/{kind}/{name}/versions/{version}`.
pub(crate) async fn put(
    May(who): MaySubmit,
    State(app): State<App>,
    Path((kind, name, version)): Path<(String, String, String)>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let kind = kind_of(&kind)?;
    let sent = AssetText::receive(&app, request, (&name, kind == AssetKind::Data)).await?;
    to_the_end(move || async move {
        let meant = (kind, &*name, Some(&*version));
        match Box::pin(create_version(&app, &who, meant, &sent)).await {
            Ok((one, true)) => Ok(answer(one, StatusCode::CREATED)),
            Ok((one, false)) => Ok(answer(one, StatusCode::OK)),
            Err(failure) => Err(not_created(&app, &failure, meant, &sent).await),
        }
    })
    .await
}

/// What of a version a request changes.
#[derive(Debug, Default)]
struct Change {
    /// Whether the description changes, and to what.
    description: (bool, Option<String>),
    stage: (bool, Option<String>),
    tags: Vec<(String, Option<String>)>,
    properties: Vec<(String, Option<String>)>,
    labels: Option<BTreeSet<String>>,
    archived: Option<bool>,
}

impl Change {
    fn of(body: Map<String, Value>) -> Result<Self, Problem> {
        let mut change = Self::default();
        let wrong = |key: &str, takes: &str| {
            Problem::new(Kind::BAD_REQUEST, format_args!("The key {key} takes {takes}."))
        };
        let text = |key: &str, value: Value| match value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(wrong(key, "a text, or null for none")),
        };
        let texts = |key: &str, value: Value| match value {
            Value::Object(entries) => {
                let one = |(name, value): (String, Value)| Ok((name, text(key, value)?));
                entries.into_iter().map(one).collect::<Result<Vec<_>, Problem>>()
            }
            _ => Err(wrong(key, "an object of texts; null takes one away")),
        };
        for (key, value) in body {
            match &*key {
                "description" => change.description = (true, text(&key, value)?),
                "stage" => change.stage = (true, text(&key, value)?),
                "tags" => change.tags = texts(&key, value)?,
                "properties" => change.properties = texts(&key, value)?,
                "labels" => {
                    let labels = serde_json::from_value(value);
                    change.labels = Some(labels.map_err(|_| wrong(&key, "a list of texts"))?);
                }
                "archived" => {
                    change.archived = Some(value.as_bool().ok_or_else(|| wrong(&key, "true or false"))?);
                }
                _ if FIXED.contains(&&*key) => {
                    let detail =
                        format_args!("The key {key} of a version does not change: create another version.");
                    return Err(Problem::new(Kind::IMMUTABLE, detail));
                }
                _ => {
                    let known = "description, stage, tags, properties, labels, archived";
                    let detail = format_args!("There is no key {key:?}. Known: {known}.");
                    return Err(Problem::new(Kind::BAD_REQUEST, detail));
                }
            }
        }
        Ok(change)
    }

    /// What becomes of a version.
    fn put_on(&self, there: &AssetVersion) -> Edited {
        let mut about: About = there.about.clone();
        for (own, (changes, text)) in
            [(&mut about.description, &self.description), (&mut about.stage, &self.stage)]
        {
            if *changes {
                own.clone_from(text);
            }
        }
        for (texts, changes) in [(&mut about.tags, &self.tags), (&mut about.properties, &self.properties)] {
            for (name, value) in changes {
                match value {
                    Some(value) => drop(texts.insert(name.clone(), value.clone())),
                    None => drop(texts.remove(name)),
                }
            }
        }
        Edited {
            about,
            labels: self.labels.clone().unwrap_or_else(|| there.labels.clone()),
            archived: self.archived.unwrap_or(there.archived),
        }
    }
}

/// Whether a version is what a request expects.
fn is_expected(expects: Option<&Expects>, there: &AssetVersion) -> bool {
    expects.is_none_or(|expects| expects.holds(Some(&tag_of(there))))
}

/// `PATCH /registry/{kind}/{name}/versions/{version}`.
pub(crate) async fn patch(
    May(who): MaySubmit,
    State(app): State<App>,
    Path((kind, name, version)): Path<(String, String, String)>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let kind = kind_of(&kind)?;
    let expects = Expects::of(request.headers(), true)?;
    let (body, _): (Map<String, Value>, _) = json(request).await?;
    let change = Change::of(body)?;
    let decide = |there: &AssetVersion| {
        is_expected(expects.as_ref(), there).then(|| Edit::Change(change.put_on(there)))
    };
    let changed = assets::edit(kind, &name, &version, decide, &app.whereabouts).await;
    let one = changed.map_err(|failure| problem(&failure))?.ok_or_else(changed_meanwhile)?;
    info!(kind = kind.noun(), name, version, who = who.name, "a version is changed");
    Ok(answer(one, StatusCode::OK))
}

/// Deletes a version that nothing uses, where it is what is expected.
pub(crate) async fn delete_version(
    app: &App,
    who: &Principal,
    (kind, name, version): (AssetKind, &str, &str),
    expects: Option<&Expects>,
) -> Result<(), Problem> {
    let in_use = |by: String| {
        Problem::new(
            Kind::IN_USE,
            format_args!("Version {version} of {} {name} is used by {by}.", kind.noun()),
        )
        .hint("archive it: PATCH with {\"archived\": true} hides it from lists and from @latest")
    };
    let found = assets::find(kind, name, &Which::Version(version.to_owned()), &app.whereabouts).await;
    let (one, _) = found.map_err(|failure| problem(&failure))?;
    let used = used_by(app, &one).await?;
    if !used.active.is_empty() {
        return Err(in_use(format!("jobs at work: {}", used.active.join(", "))));
    }
    let expected = |there: &AssetVersion| is_expected(expects, there);
    let deleted = assets::delete(kind, name, version, expected, &app.whereabouts).await;
    match deleted.map_err(|failure| problem(&failure))? {
        Deletion::Done => {
            info!(kind = kind.noun(), name, version, who = who.name, "a version is deleted");
            Ok(())
        }
        Deletion::IsOther => Err(changed_meanwhile()),
        Deletion::InUse(used) => Err(in_use(used.shown())),
    }
}

/// `DELETE /registry/{kind}/{name}/versions/{version}`.
pub(crate) async fn delete(
    May(who): MayAdmin,
    State(app): State<App>,
    Path((kind, name, version)): Path<(String, String, String)>,
    headers: HeaderMap,
    params: Params,
) -> Result<StatusCode, Problem> {
    params.check(&[])?;
    let expects = Expects::of(&headers, true)?;
    delete_version(&app, &who, (kind_of(&kind)?, &name, &version), expects.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The registry's own files of a version.
pub(crate) async fn store(
    app: &App,
    (kind, name, version): (AssetKind, &str, &str),
) -> Result<std::sync::Arc<dyn prs_common::storage::Storage>, Problem> {
    let found = assets::find(kind, name, &which(version), &app.whereabouts).await;
    let (one, _) = found.map_err(|failure| problem(&failure))?;
    if one.content.is_none() {
        let detail = format_args!(
            "The files are not in the registry, but at {}.",
            prs_common::dataset::http_url::shown(&one.path)
        );
        return Err(Problem::new(Kind::REFUSED, detail));
    }
    let registry = homes::open(&app.whereabouts).await.map_err(|failure| problem(&failure))?;
    registry.files(kind, name, &one.version).await.map_err(|error| problem(&homes::failure(error)))
}

/// `GET /registry/{kind}/{name}/versions/{version}/files`.
pub(crate) async fn list_files(
    _: MayRead,
    State(app): State<App>,
    Path((kind, name, version)): Path<(String, String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["prefix", "limit", "cursor"])?;
    let (limit, prefix) = (params.limit()?, params.one("prefix")?.unwrap_or_default());
    let of = format!("files of {kind} {name} {version}?{prefix}");
    let after: Option<String> = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?;
    let storage = store(&app, (kind_of(&kind)?, &name, &version)).await?;
    let (value, has_more) = files(&*storage, prefix, after.as_deref().unwrap_or_default(), limit).await?;
    let next_cursor = value.last().filter(|_| has_more).map(|file| cursor::write(&of, &file.path));
    Ok(Page::now(value, next_cursor, None).answer(&params))
}

/// `GET /registry/{kind}/{name}/versions/{version}/files/{path}`.
pub(crate) async fn one_file(
    _: MayRead,
    State(app): State<App>,
    Path((kind, name, version, path)): Path<(String, String, String, String)>,
    method: Method,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let storage = store(&app, (kind_of(&kind)?, &name, &version)).await?;
    let file = File { storage, key: path, is_text: false, tail: None, sha256: None };
    file.answer_or_send_on((app.direct.downloads, &method), &headers).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(body: Value) -> Result<Change, Problem> {
        let Value::Object(body) = body else { panic!("{body}") };
        Change::of(body)
    }

    #[test]
    fn of_a_version_changes_what_people_say_of_it() {
        let made = change(json!({ "description": null, "tags": { "a": "1", "b": null }, "archived": true }));
        let made = made.unwrap();
        assert_eq!((made.description, made.archived, made.stage), ((true, None), Some(true), (false, None)));
        assert_eq!(made.tags, [("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)]);
        for (body, kind) in [
            (json!({ "path": "s3://b/x" }), Kind::IMMUTABLE),
            (json!({ "type": "uri_file" }), Kind::IMMUTABLE),
            (json!({ "tag": {} }), Kind::BAD_REQUEST),
            (json!({ "archived": "yes" }), Kind::BAD_REQUEST),
            (json!({ "labels": "prod" }), Kind::BAD_REQUEST),
            (json!({ "tags": { "a": 1 } }), Kind::BAD_REQUEST),
        ] {
            assert_eq!(change(body.clone()).unwrap_err().kind, kind, "{body}");
        }
    }

    #[test]
    fn kinds_and_versions_have_their_words() {
        for (word, kind) in KINDS {
            assert_eq!((kind_of(word).unwrap(), word_of(kind)), (kind, word));
        }
        assert_eq!(kind_of("model").unwrap_err().kind, Kind::ASSET_NOT_FOUND);
        assert_eq!(which("@latest"), Which::Label("latest".to_owned()));
        assert_eq!(which("3"), Which::Version("3".to_owned()));
    }
}
