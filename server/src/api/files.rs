//! Files of a job as answers: whole or a range, piece by piece, never as a page of this server.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use prs_common::hexadecimal::bytes_of;
use prs_common::storage::{
    GetOptions, Presign, Presigned, Storage, StorageError, StorageErrorKind, is_valid_key,
};
use tracing::warn;

use crate::http::conditional;
use crate::http::range::{Asked, asked};
use crate::problem::{Kind, Problem};

/// The policy of an answer with what a user wrote: a browser runs and loads nothing of it.
pub(crate) const SANDBOX: &str = "default-src 'none'; sandbox";

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;
/// What stands as it is in the name of a file in a header (RFC 8187).
const NAMES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-');

/// A file to be given.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) key: String,
    /// Whether a browser may show it, as text; else it keeps it.
    pub(crate) is_text: bool,
    /// Only so many bytes at its end, from the beginning of a line on.
    pub(crate) tail: Option<u64>,
    /// The SHA-256 of all of it, in hexadecimal digits, where that is known.
    pub(crate) sha256: Option<String>,
}

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The digest of a whole file as RFC 9530 has it.
fn repr_digest(sha256: &str) -> Option<HeaderValue> {
    let digest = bytes_of(sha256).filter(|digest| digest.len() == 32)?;
    HeaderValue::from_str(&format!("sha-256=:{}:", STANDARD.encode(digest))).ok()
}

/// How long a file can be had straight from the storage.
const DIRECT: Duration = Duration::from_mins(5);

impl File {
    /// The answer to a request with `headers`.
    pub(crate) async fn answer(self, headers: &HeaderMap) -> Result<Response, Problem> {
        if !is_valid_key(&self.key) {
            return Err(absent(&self.key));
        }
        self.given(headers).await
    }

    /// The same; where `is_direct`, who asks with `method` is sent on to the storage, if that gives files itself.
    pub(crate) async fn answer_or_send_on(
        self,
        (is_direct, method): (bool, &Method),
        headers: &HeaderMap,
    ) -> Result<Response, Problem> {
        if !is_valid_key(&self.key) {
            return Err(absent(&self.key));
        }
        if !is_direct || *method != Method::GET {
            return self.given(headers).await;
        }
        // What is not there is told here.
        self.storage.head(&self.key).await.map_err(|error| of_storage(&error))?;
        let what = Presign::Read { name: self.name() };
        match self.storage.presign(&self.key, &what, DIRECT).await.map_err(|error| of_storage(&error))? {
            Some(Presigned { url, .. }) => {
                let headers = [(LOCATION, url), (CACHE_CONTROL, "no-store".to_owned())];
                Ok((StatusCode::TEMPORARY_REDIRECT, headers).into_response())
            }
            None => self.given(headers).await,
        }
    }

    /// Its name, as RFC 8187 has it.
    fn name(&self) -> String {
        let name = self.key.rsplit('/').next().unwrap_or_default();
        utf8_percent_encode(name, NAMES).to_string()
    }

    async fn given(self, headers: &HeaderMap) -> Result<Response, Problem> {
        let meta = self.storage.head(&self.key).await.map_err(|error| of_storage(&error))?;
        let tag = format!("\"{}\"", meta.version.replace(['"', '\\'], ""));
        if self.tail.is_none() && conditional::has(headers, &tag) {
            return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response());
        }
        let size = meta.size;
        let (status, range) = match (self.tail, asked(headers, size)) {
            (Some(tail), _) => (StatusCode::OK, self.line_from(size.saturating_sub(tail)).await?..size),
            (None, Asked::All) => (StatusCode::OK, 0..size),
            (None, Asked::Part(range)) => (StatusCode::PARTIAL_CONTENT, range),
            (None, Asked::Nothing) => {
                let problem = Problem::new(Kind::BAD_RANGE, format_args!("The file has {size} bytes."));
                let mut response = problem.into_response();
                response.headers_mut().extend(header(CONTENT_RANGE, &format!("bytes */{size}")));
                return Ok(response);
            }
        };
        let name = self.name();
        let kind = if self.is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
        let mut found = HeaderMap::new();
        found.extend(header(CONTENT_TYPE, kind));
        found.extend(header(CONTENT_LENGTH, &(range.end - range.start).to_string()));
        found.extend(header(ACCEPT_RANGES, "bytes"));
        found.extend(header(ETAG, &tag));
        // Of a part, too, it is that of the whole.
        found.extend(self.sha256.as_deref().and_then(repr_digest).map(|digest| (REPR_DIGEST, digest)));
        found.extend(header(CONTENT_SECURITY_POLICY, SANDBOX));
        if !self.is_text {
            found.extend(header(CONTENT_DISPOSITION, &format!("attachment; filename*=UTF-8''{name}")));
        }
        if status == StatusCode::PARTIAL_CONTENT {
            let part = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            found.extend(header(CONTENT_RANGE, &part));
        }
        // What grows or is replaced meanwhile gives its beginning as it was told, or breaks off.
        let version = Some(meta.version).filter(|_| !self.is_text);
        Ok((status, found, self.body(range, version)).into_response())
    }

    /// Where the first line begins at or behind `from`.
    async fn line_from(&self, from: u64) -> Result<u64, Problem> {
        if from == 0 {
            return Ok(0);
        }
        let options = GetOptions { range: Some(from - 1..from - 1 + (64 << 10)), version: None };
        let found = self.storage.get_opts(&self.key, options).await.map_err(|error| of_storage(&error))?;
        let newline = found.bytes.iter().position(|byte| *byte == b'\n');
        Ok(newline.map_or(from, |at| from + at as u64))
    }

    fn body(self, range: Range<u64>, version: Option<String>) -> Body {
        let pieces =
            futures_util::stream::try_unfold((self, range, version), |(file, range, version)| async move {
                if range.is_empty() {
                    return Ok(None);
                }
                let piece = range.start..range.end.min(range.start + PIECE);
                let options = GetOptions { range: Some(piece), version: version.clone() };
                let read = file.storage.get_opts(&file.key, options).await.inspect_err(|error| {
                    warn!(%error, "a file breaks off");
                })?;
                if read.bytes.is_empty() {
                    return Err(StorageError {
                        kind: StorageErrorKind::Changed,
                        place: file.storage.to_string(),
                        key: file.key.clone(),
                        message: "it became shorter".to_owned(),
                    });
                }
                let rest = range.start + read.bytes.len() as u64..range.end;
                Ok(Some((read.bytes, (file, rest, version))))
            });
        Body::from_stream(pieces.boxed())
    }
}

fn header(name: HeaderName, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((name, HeaderValue::from_str(value).ok()?))
}

/// The problem that there is no such file.
pub(crate) fn absent(name: &str) -> Problem {
    Problem::new(Kind::FILE_NOT_FOUND, format_args!("The job has no file {name:?}."))
}

/// What it means that storage fails.
pub(crate) fn of_storage(error: &StorageError) -> Problem {
    match error.kind {
        StorageErrorKind::NotFound | StorageErrorKind::InvalidKey => absent(&error.key),
        StorageErrorKind::Unavailable => {
            warn!(%error, "storage does not answer");
            Problem::new(Kind::SERVERS_UNREACHABLE, "The storage of the jobs does not answer.").retry_after(5)
        }
        _ => {
            warn!(%error, "storage answers wrongly");
            Problem::new(Kind::BAD_SERVERS, "The storage of the jobs does not give the file.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_as_rfc_9530_has_it() {
        // Of the empty text.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let expected = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";
        assert_eq!(repr_digest(empty).unwrap(), expected);
        assert_eq!((repr_digest(""), repr_digest("zz"), repr_digest("e3b0")), (None, None, None));
    }
}
