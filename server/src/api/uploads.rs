//! Files that are sent before what needs them: which are not there, and one of them. And what names them in other requests.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use prs_common::storage::{Presign, Presigned};
#[cfg(test)]
use prs_jobs::blobs::LARGEST;
use prs_jobs::blobs::{BlobError, Blobs, Listed, is_digest, key_of};
use prs_jobs::intake::Staging;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::info;

use super::files::{File, of_storage};
use super::received::{check_plain, escaped, json as json_body, media_type, wrong_type};
use crate::app::App;
use crate::auth::{Known, MaySubmit, Role};
use crate::http::params::Params;
use crate::problem::{ErrorAt, Kind, Problem};

/// Blobs that are asked for at once.
const AT_ONCE: usize = 1_000;
/// Missing blobs that an answer names.
const NAMED: usize = 1_000;
const TYPE: &str = "application/octet-stream";

/// A blob that a caller has.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "OwnBlob"))]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9a-f]{64}$")))]
    sha256: String,
    #[cfg_attr(test, schemars(range(max = LARGEST)))]
    bytes: u64,
}

/// Blobs that a caller has.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "OwnBlobs"))]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    #[cfg_attr(test, schemars(length(max = AT_ONCE)))]
    blobs: Vec<Wanted>,
}

/// A blob that is not there.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MissingBlob"))]
struct Missing {
    sha256: String,
    /// Where to send it past the server, with `PUT`, within the hour; null where it comes to the server.
    upload_url: Option<String>,
    /// The headers that it has to come there with; empty where it comes to the server.
    upload_headers: BTreeMap<String, String>,
}

/// How long a blob can be sent straight to the storage.
const DIRECT: Duration = Duration::from_hours(1);

/// Those of the blobs that are not there.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MissingBlobs {
    missing: Vec<Missing>,
}

/// What was sent before: an archive, which is unpacked, files, or both in one folder.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SentBefore"))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SentRef {
    /// The archive: tar.gz or zip.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9a-f]{64}$")))]
    archive_sha256: Option<String>,
    /// The manifest that lists the files.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9a-f]{64}$")))]
    manifest_sha256: Option<String>,
    /// Whether the one file of the manifest is meant, and no folder that it is in.
    is_file: bool,
}

impl SentRef {
    /// Refuses one that names nothing.
    fn check(&self, pointer: &str) -> Result<(), Problem> {
        if self.archive_sha256.is_some() || self.manifest_sha256.is_some() {
            return Ok(());
        }
        let detail = format_args!("{pointer} names nothing: give archive_sha256, manifest_sha256, or both.");
        Err(Problem::new(Kind::BAD_REQUEST, detail))
    }
}

fn check_digest(digest: &str) -> Result<(), Problem> {
    if is_digest(digest) {
        return Ok(());
    }
    let detail = format_args!("{digest:?} is no SHA-256: give 64 hexadecimal digits, in small letters.");
    Err(Problem::new(Kind::BAD_REQUEST, detail))
}

/// What it means that a blob cannot be used.
fn problem(error: BlobError, digest: &str) -> Problem {
    match error {
        BlobError::Missing(digests) => missing(&digests, "#", "blob"),
        BlobError::Mismatch(found) => Problem::new(
            Kind::DIGEST_MISMATCH,
            format_args!("What came has the SHA-256 {found}, and not {digest}. Nothing of it is kept."),
        ),
        BlobError::BrokenOff(why) => {
            Problem::new(Kind::BAD_REQUEST, format_args!("The body broke off: {why}. Send it again."))
        }
        BlobError::Full => no_room(),
        BlobError::Failed(failure) => Problem::of(&failure, Kind::BAD_UPLOAD),
    }
}

fn no_room() -> Problem {
    Problem::new(Kind::NO_ROOM, "There is no room for it where the jobs are.")
}

/// The problem that blobs are not there which the request names at `pointer`.
fn missing(digests: &[String], pointer: &str, what: &str) -> Problem {
    let error = |digest: &String| ErrorAt {
        pointer: pointer.to_owned(),
        key: digest.clone(),
        line: None,
        detail: format!("the {what} {digest} is not there: PUT /api/v1/blobs/{digest}"),
    };
    let count = digests.len();
    Problem::new(Kind::UPLOAD_MISSING, format_args!("{count} blob(s) that the request names are not there."))
        .hint("send them with PUT /api/v1/blobs/SHA256, and the request again; POST /api/v1/uploads/missing tells which")
        .with_errors(digests.iter().take(NAMED).map(error).collect())
}

async fn blobs(app: &App) -> Result<Blobs, Problem> {
    app.desk.blobs().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))
}

/// `POST /uploads/missing`.
pub(crate) async fn ask(
    Known(who): Known,
    State(app): State<App>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (asked, _): (Asked, _) = json_body(request).await?;
    if asked.blobs.len() > AT_ONCE {
        return Err(Problem::new(
            Kind::TOO_LARGE,
            format_args!("A request asks for {AT_ONCE} blobs at most."),
        ));
    }
    for Wanted { sha256, bytes } in &asked.blobs {
        check_digest(sha256)?;
        if *bytes > app.limits.sizes.blob {
            return Err(too_large(*bytes, app.limits.sizes.blob));
        }
    }
    let blobs = blobs(&app).await?;
    let digests: Vec<&str> = asked.blobs.iter().map(|one| &*one.sha256).collect();
    let absent = blobs.missing(&digests).await.map_err(|error| problem(error, ""))?;
    let wanted = asked.blobs.iter().filter(|one| absent.contains(&one.sha256));
    if blobs.is_too_much(wanted.map(|one| one.bytes).sum()) {
        return Err(no_room());
    }
    // Whether what comes there is what its name says is for the storage to compare, which not all do: who may run code may do worse.
    let is_direct = app.direct.uploads && who.role.allows(Role::Submit);
    let mut missing = Vec::with_capacity(absent.len());
    for sha256 in absent {
        let size = asked.blobs.iter().find(|one| one.sha256 == sha256).map_or(0, |one| one.bytes);
        let sent = if is_direct { direct(&blobs, &sha256, size).await? } else { None };
        let (upload_url, headers) = sent.map_or((None, Vec::new()), |of| (Some(of.url), of.headers));
        missing.push(Missing { sha256, upload_url, upload_headers: headers.into_iter().collect() });
    }
    Ok(Json(MissingBlobs { missing }).into_response())
}

/// How a blob is sent straight to the storage; nothing where that takes none.
async fn direct(blobs: &Blobs, digest: &str, bytes: u64) -> Result<Option<Presigned>, Problem> {
    let mut sha256 = [0; 32];
    for (byte, pair) in sha256.iter_mut().zip(digest.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).unwrap_or_default();
        *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
    }
    let what = Presign::Write { bytes, sha256 };
    blobs.storage().presign(&key_of(digest), &what, DIRECT).await.map_err(|error| of_storage(&error))
}

fn too_large(bytes: u64, most: u64) -> Problem {
    Problem::new(
        Kind::TOO_LARGE,
        format_args!("A blob of {bytes} bytes is larger than {most} bytes: cut it."),
    )
}

/// `PUT /blobs/{sha256}`.
pub(crate) async fn put(
    Known(who): Known,
    State(app): State<App>,
    Path(digest): Path<String>,
    params: Params,
    request: Request,
) -> Result<StatusCode, Problem> {
    params.check(&[])?;
    check_digest(&digest)?;
    check_plain(request.headers())?;
    if !media_type(request.headers()).eq_ignore_ascii_case(TYPE) {
        return Err(wrong_type(TYPE));
    }
    let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let length: u64 = length.ok_or_else(|| {
        Problem::new(
            Kind::LENGTH_REQUIRED,
            "The header Content-Length is missing: a blob says its size first.",
        )
    })?;
    if length > app.limits.sizes.blob {
        return Err(too_large(length, app.limits.sizes.blob));
    }
    let blobs = blobs(&app).await?;
    if blobs.is_too_much(length) {
        return Err(no_room());
    }
    // Who waits to be told to send it need not.
    if is_asked_for(request.headers())
        && blobs.has(&digest, length).await.map_err(|error| problem(error, &digest))?
    {
        return Ok(StatusCode::OK);
    }
    let body = request.into_body().into_data_stream();
    let idle = app.limits.times.idle;
    let body = futures_util::stream::unfold(Some(body), move |body| async move {
        let mut body = body?;
        match tokio::time::timeout(idle, body.next()).await {
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(body))),
            Ok(Some(Err(error))) => Some((Err(error.to_string()), None)),
            Ok(None) => None,
            Err(_) => Some((Err(format!("nothing came for {} s", idle.as_secs())), None)),
        }
    });
    let is_new = blobs.take(&digest, length, body).await.map_err(|error| problem(error, &digest))?;
    if is_new {
        info!(digest, bytes = length, who = who.name, "a blob is sent");
    }
    Ok(if is_new { StatusCode::CREATED } else { StatusCode::OK })
}

/// Whether a client waits until it is told to send the body.
fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|expects| expects.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// `GET /blobs/{sha256}`.
pub(crate) async fn get(
    _: MaySubmit,
    State(app): State<App>,
    Path(digest): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    check_digest(&digest)?;
    let storage = blobs(&app).await?.storage().clone();
    let (key, sha256) = (key_of(&digest), Some(digest.clone()));
    let answer = File { storage, key, is_text: false, tail: None, sha256 }.answer(&headers).await;
    answer.map_err(|problem| match problem.kind {
        Kind::FILE_NOT_FOUND => {
            Problem::new(Kind::FILE_NOT_FOUND, format_args!("There is no blob {digest}."))
        }
        _ => problem,
    })
}

/// Takes what a request names of what was sent before: code, and inputs, by their places in the request.
pub(crate) async fn take(
    app: &App,
    staging: &mut Staging,
    code: Option<&SentRef>,
    inputs: &BTreeMap<String, (&'static str, SentRef)>,
) -> Result<(), Problem> {
    if code.is_none() && inputs.is_empty() {
        return Ok(());
    }
    let blobs = blobs(app).await?;
    if let Some(sent) = code {
        sent.check("#/code")?;
        if let Some(digest) = &sent.archive_sha256 {
            take_code(&blobs, staging, digest, "#/code/archive_sha256").await?;
        }
        if let Some(digest) = &sent.manifest_sha256 {
            let pointer = "#/code/manifest_sha256";
            let files = listed(&blobs, digest, pointer).await?;
            let taken = staging.take_code_files(&blobs, &files).await;
            taken.map_err(|error| at(error, digest, pointer))?;
        }
    }
    for (name, (place, sent)) in inputs {
        let pointer = format!("#/{place}/{}", escaped(name));
        sent.check(&pointer)?;
        if let Some(digest) = &sent.archive_sha256 {
            let pointer = format!("{pointer}/archive_sha256");
            check_digest(digest)?;
            blobs.need(&[digest]).await.map_err(|error| at(error, digest, &pointer))?;
            let taken = staging.take_input_blob(&blobs, name, digest).await;
            taken.map_err(|error| at(error, digest, &pointer))?;
        }
        if let Some(digest) = &sent.manifest_sha256 {
            let pointer = format!("{pointer}/manifest_sha256");
            let files = listed(&blobs, digest, &pointer).await?;
            let taken = match files.as_slice() {
                [file] if sent.is_file => staging.take_input_file(&blobs, name, file).await,
                files => staging.take_manifest(&blobs, name, files).await,
            };
            taken.map_err(|error| at(error, digest, &pointer))?;
        }
    }
    Ok(())
}

/// The files of a manifest that a request names at `pointer`.
pub(crate) async fn manifest(app: &App, digest: &str, pointer: &str) -> Result<Vec<Listed>, Problem> {
    listed(&blobs(app).await?, digest, pointer).await
}

async fn listed(blobs: &Blobs, digest: &str, pointer: &str) -> Result<Vec<Listed>, Problem> {
    check_digest(digest)?;
    blobs.manifest(digest).await.map_err(|error| at(error, digest, pointer))
}

async fn take_code(blobs: &Blobs, staging: &mut Staging, digest: &str, pointer: &str) -> Result<(), Problem> {
    check_digest(digest)?;
    blobs.need(&[digest]).await.map_err(|error| at(error, digest, pointer))?;
    staging.take_code_blob(blobs, digest).await.map_err(|error| at(error, digest, pointer))
}

/// The same as [`problem`], of what a request names at `pointer`.
fn at(error: BlobError, digest: &str, pointer: &str) -> Problem {
    match error {
        BlobError::Missing(digests) => missing(&digests, pointer, "blob"),
        BlobError::Failed(failure) if failure.is_usage() => {
            let error = ErrorAt {
                pointer: pointer.to_owned(),
                key: digest.to_owned(),
                line: None,
                detail: failure.to_string(),
            };
            Problem::new(Kind::BAD_UPLOAD, failure).with_errors(vec![error])
        }
        error => problem(error, digest),
    }
}

/// What stands in a file of JSON in the place of a path: `{"archive_sha256"}` is the code, which paths begin in;
/// `{"manifest_sha256"}` a folder called `name`, or what is all there is in it, but for a folder where it `is_data`. Both are
/// replaced by paths.
pub(crate) async fn take_all(
    app: &App,
    staging: &mut Staging,
    document: &mut Value,
    (name, is_data): (&str, bool),
) -> Result<(), Problem> {
    let mut found = Vec::new();
    find(document, String::new(), &mut found);
    if found.is_empty() {
        return Ok(());
    }
    let blobs = blobs(app).await?;
    for (place, named) in found {
        let pointer = format!("#{place}/{}", if named.0 { "archive_sha256" } else { "manifest_sha256" });
        let digest = &named.1;
        let path = if named.0 {
            take_code(&blobs, staging, digest, &pointer).await?;
            ".".to_owned()
        } else {
            let files = listed(&blobs, digest, &pointer).await?;
            let folder = staging.take_files(&blobs, name, &files).await;
            let folder = folder.map_err(|error| at(error, digest, &pointer))?;
            let mut path = folder;
            let kind = document.get("type").and_then(Value::as_str);
            let is_folder = is_data && kind != Some("uri_file");
            if let Some(only) = only_entry(&files).filter(|_| !is_folder) {
                path.push(only);
            }
            path.display().to_string()
        };
        if let Some(value) = document.pointer_mut(&place) {
            *value = Value::String(path);
        }
    }
    Ok(())
}

/// The file or folder that all files are in, or are.
fn only_entry(files: &[Listed]) -> Option<&str> {
    let entry = |file: &Listed| file.path.split('/').next().map(str::len);
    let first = files.first()?;
    let only = &first.path[..entry(first)?];
    let is_in = |file: &Listed| file.path.split('/').next() == Some(only);
    files.iter().all(is_in).then_some(only)
}

/// Where `value` names something that was sent before, as pointers; whether that is an archive, and its digest.
fn find(value: &Value, place: String, found: &mut Vec<(String, (bool, String))>) {
    match value {
        Value::Object(entries) => {
            if let (Some((key, Value::String(digest))), 1) = (entries.iter().next(), entries.len())
                && (key == "archive_sha256" || key == "manifest_sha256")
            {
                found.push((place, (key == "archive_sha256", digest.clone())));
                return;
            }
            for (key, value) in entries {
                find(value, format!("{place}/{}", escaped(key)), found);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                find(item, format!("{place}/{at}"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_sent_is_found_wherever_it_stands() {
        let document = json!({
            "path": { "manifest_sha256": "a" },
            "task": { "code": { "archive_sha256": "b" } },
            "steps": [{ "x/y": { "manifest_sha256": "c" } }],
            "tags": { "manifest_sha256": "d", "other": "e" },
        });
        let mut found = Vec::new();
        find(&document, String::new(), &mut found);
        let expected = [("/path", false, "a"), ("/steps/0/x~1y", false, "c"), ("/task/code", true, "b")];
        found.sort();
        let found: Vec<_> =
            found.iter().map(|(place, (code, digest))| (&**place, *code, &**digest)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_manifest_may_be_one_file_or_one_folder() {
        let files = |paths: &[&str]| {
            let listed = |path: &&str| Listed { path: (*path).to_owned(), bytes: 1, sha256: String::new() };
            paths.iter().map(listed).collect::<Vec<_>>()
        };
        assert_eq!(only_entry(&files(&["model/a", "model/b/c"])), Some("model"));
        assert_eq!(only_entry(&files(&["model.pkl"])), Some("model.pkl"));
        assert_eq!(only_entry(&files(&["a", "b"])), None);
        assert_eq!(only_entry(&files(&["a/x", "ab/x"])), None);
    }
}
