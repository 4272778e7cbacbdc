//! What a job brought: its result file, and the files of its output.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use futures_util::StreamExt;
use prs_common::job::OutputAction;
use prs_common::storage::{ObjectMeta, Storage, StorageErrorKind, is_kept_by_stores};
use prs_common::timestamp::format_us;
use prs_jobs::download::place_of;
use prs_jobs::homes::{Home, Seen};
use serde::Serialize;

use super::files::{File, of_storage};
use super::jobs::Page;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::cursor;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// A file of the output.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OutputFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    modified_at: Option<String>,
    /// The SHA-256 of its bytes, in hexadecimal; null where that is not known, as of files that the script wrote.
    sha256: Option<String>,
}

impl OutputFile {
    fn of(object: ObjectMeta) -> Self {
        let modified_at = object.modified.map(|seconds| format_us(seconds * 1_000_000));
        Self { path: object.key, bytes: object.size, modified_at, sha256: None }
    }
}

/// The files of an output behind `after`, at most `limit`; and whether there are more.
pub(crate) async fn files(
    storage: &dyn Storage,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<(Vec<OutputFile>, bool), Problem> {
    // A listing takes folders; the rest of the prefix is compared.
    let folder = prefix.rfind('/').map_or("", |at| &prefix[..=at]);
    let mut listing = storage.list(folder, after);
    let mut files = Vec::new();
    while let Some(object) = listing.next().await {
        let object = match object {
            Ok(object) => object,
            Err(error) if error.kind == StorageErrorKind::NotFound => break,
            Err(error) => return Err(of_storage(&error)),
        };
        if !object.key.starts_with(prefix) || is_kept_by_stores(&object.key) {
            continue;
        }
        if files.len() == limit {
            return Ok((files, true));
        }
        files.push(OutputFile::of(object));
    }
    Ok((files, false))
}

/// The same of the output at `place`, a file or a folder of the whole; of the whole where it is empty.
async fn files_of(
    storage: &dyn Storage,
    place: &str,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<(Vec<OutputFile>, bool), Problem> {
    if place.is_empty() {
        return files(storage, prefix, after, limit).await;
    }
    let folder = format!("{place}/");
    // What is both in the place and has names that begin so.
    let below = match (prefix.strip_prefix(&folder), folder.starts_with(prefix)) {
        (Some(_), _) => Some(prefix),
        (None, true) => Some(&*folder),
        (None, false) => None,
    };
    let found = match below {
        Some(below) => files(storage, below, after, limit).await?,
        None => (Vec::new(), false),
    };
    if !found.0.is_empty() || !after.is_empty() || !place.starts_with(prefix) {
        return Ok(found);
    }
    match storage.head(place).await {
        Ok(object) => Ok((vec![OutputFile::of(object)], false)),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(found),
        Err(error) => Err(of_storage(&error)),
    }
}

/// `GET /jobs/{job}/outputs`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["prefix", "output", "limit", "cursor"])?;
    let (limit, prefix) = (params.limit()?, params.one("prefix")?.unwrap_or_default());
    let of = format!("outputs of {id}?{}", params.without(&["limit", "cursor"]));
    let after: Option<String> = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?;
    let (home, seen) = app.seen(&id).await?;
    let place = params.one("output")?.map(|name| place_of(&seen.record, name)).transpose();
    let place = place.map_err(|why| bad("output", why))?.unwrap_or_default();
    let output = home.output(&seen.record);
    let after = after.as_deref().unwrap_or_default();
    let (mut value, has_more) = files_of(&*output, &place, prefix, after, limit).await?;
    if let Ok((_, result)) = result_file(&home, &seen)
        && let Some(file) = value.iter_mut().find(|file| file.path == result)
    {
        file.sha256.clone_from(&seen.result.output.sha256);
    }
    let next_cursor = value.last().filter(|_| has_more).map(|file| cursor::write(&of, &file.path));
    Ok(Page::now(value, next_cursor, None).answer(&params))
}

/// `GET /jobs/{job}/outputs/{path}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, path)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (home, seen) = app.seen(&id).await?;
    let sha256 = result_file(&home, &seen).ok().filter(|(_, result)| *result == path);
    let sha256 = sha256.and(seen.result.output.sha256.clone());
    let file = File { storage: home.output(&seen.record), key: path, is_text: false, tail: None, sha256 };
    file.answer_or_send_on((app.direct.downloads, &method), &headers).await
}

/// The result file of a job: where it is, and its name there.
pub(crate) fn result_file(home: &Home, seen: &Seen) -> Result<(Arc<dyn Storage>, String), Problem> {
    let result = &seen.result;
    let spec = &seen.record.spec;
    if seen.record.pipeline.is_none() && spec.output_action == OutputAction::SummaryOnly {
        let detail = "The job has no result file: its output_action is summary_only.";
        return Err(Problem::new(Kind::NO_RESULT, detail));
    }
    if !result.has_result() {
        let why = result.reason.as_deref().unwrap_or("it is not done yet");
        return Err(Problem::new(
            Kind::NO_RESULT_YET,
            format_args!("The job is {}: {why}.", result.state.as_str()),
        ));
    }
    let folder = result.output.folder().trim_end_matches('/');
    let name = result.output.file().and_then(|file| file.strip_prefix(folder)?.strip_prefix('/'));
    let name = name.ok_or_else(|| Problem::new(Kind::NO_RESULT, "The job has no result file."))?;
    Ok((home.output(&seen.record), name.to_owned()))
}

/// `GET /jobs/{job}/result`.
pub(crate) async fn result(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (home, seen) = app.seen(&id).await?;
    let (storage, key) = result_file(&home, &seen)?;
    let sha256 = seen.result.output.sha256.clone();
    let file = File { storage, key, is_text: false, tail: None, sha256 };
    file.answer_or_send_on((app.direct.downloads, &method), &headers).await
}
