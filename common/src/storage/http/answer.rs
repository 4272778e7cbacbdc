//! What an answer of an HTTP server means: pure functions of its status and its headers.

use crate::storage::StorageErrorKind::{self, Changed, NotFound, PermissionDenied, Unavailable};

/// Why a request failed.
#[derive(Debug, Clone)]
pub(super) struct HttpFailure {
    /// What it means to a caller; [`Unavailable`] is worth another attempt.
    pub(super) kind: StorageErrorKind,
    /// In words, for people, without any secret.
    pub(super) message: String,
    /// Seconds after which the server wants to be asked again, where it says so.
    pub(super) retry_after: Option<u64>,
}

impl HttpFailure {
    pub(super) fn of(kind: StorageErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// No whole answer came.
    pub(super) fn unanswered(message: impl Into<String>) -> Self {
        Self::of(Unavailable, message)
    }

    /// The file is not what was asked for.
    pub(super) fn replaced() -> Self {
        Self::of(Changed, "the server has another file there now")
    }

    /// What the status of an answer that is no success means.
    pub(super) fn of_status(status: u16, retry_after: Option<&str>) -> Self {
        let (kind, remedy) = match status {
            404 | 410 => (NotFound, "check the URL"),
            401 | 407 => {
                (PermissionDenied, "check the user and password in the URL (https://user:password@host/path)")
            }
            403 => (
                PermissionDenied,
                "the server refuses access: check the URL; a signed one may have run out, then sign it anew and submit \
                 the job again as a new one",
            ),
            412 => return Self::replaced(),
            408 | 421 | 425 | 429 | 500 | 502..=504 | 507.. => (Unavailable, "the server fails for now"),
            _ => (
                PermissionDenied,
                "the server does not give the file: open the URL with another program to see why",
            ),
        };
        let reason = reason(status).map(|reason| format!(" {reason}")).unwrap_or_default();
        let retry_after = retry_after.and_then(|seconds| seconds.trim().parse().ok());
        Self { kind, message: format!("HTTP {status}{reason}; {remedy}"), retry_after }
    }
}

fn reason(status: u16) -> Option<&'static str> {
    Some(match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => return None,
    })
}

/// What `Content-Range` says: the first byte, where there is a part, and the size of the whole, where it is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) part: Option<(u64, u64)>,
    pub(super) size: Option<u64>,
}

impl ContentRange {
    /// Reads `bytes 0-9/100`, `bytes 0-9/*` and `bytes */100`.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (part, size) = header.trim().strip_prefix("bytes")?.trim().split_once('/')?;
        let size = if size == "*" { None } else { Some(size.parse().ok()?) };
        let part = match part.split_once('-') {
            Some((first, last)) => Some((first.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?)),
            None if part == "*" => None,
            None => return None,
        };
        Some(Self { part: part.filter(|(start, end)| start < end), size })
    }
}

/// Whether HEAD may be what the server refuses, and not the file: it, or a signature, may be for GET alone.
pub(super) fn may_be_over_head(status: u16) -> bool {
    matches!(status, 400 | 401 | 403 | 405 | 406 | 500 | 501)
}

/// Refuses what came compressed though it was asked not to be. A file that is compressed by its name may be described so.
pub(super) fn check_encoding(encoding: Option<&str>, path: &str) -> Result<(), HttpFailure> {
    let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
    let path = path.to_ascii_lowercase();
    let is_by_name =
        [".gz", ".tgz", ".zst", ".z", ".bz2", ".xz", ".br"].iter().any(|end| path.ends_with(end));
    if is_by_name || matches!(&*encoding, "" | "identity" | "aws-chunked") {
        return Ok(());
    }
    Err(HttpFailure::of(
        PermissionDenied,
        format!(
            "the server compresses what it sends (Content-Encoding: {}) though it was asked not to: turn that off there, \
             or give the file a name that ends in .gz",
            encoding.escape_debug()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_one_meaning() {
        for (status, kind, says) in [
            (404, NotFound, "HTTP 404 Not Found; check the URL"),
            (410, NotFound, "410 Gone"),
            (401, PermissionDenied, "user and password"),
            (403, PermissionDenied, "sign it anew"),
            (412, Changed, "another file"),
            (429, Unavailable, "429"),
            (500, Unavailable, "500"),
            (503, Unavailable, "503"),
            (501, PermissionDenied, "501"),
            (418, PermissionDenied, "418"),
        ] {
            let failure = HttpFailure::of_status(status, Some(" 7 "));
            assert!(failure.kind == kind && failure.message.contains(says), "{status}: {failure:?}");
        }
        assert_eq!(HttpFailure::of_status(503, Some("7")).retry_after, Some(7));
        assert_eq!(HttpFailure::of_status(503, Some("Mon, 01 Jan 2035 00:00:00 GMT")).retry_after, None);
    }

    #[test]
    fn parts_are_read_as_they_are_told() {
        let range = |part, size| Some(ContentRange { part, size });
        for (header, expected) in [
            ("bytes 0-9/100", range(Some((0, 10)), Some(100))),
            ("bytes 5-5/*", range(Some((5, 6)), None)),
            ("bytes */100", range(None, Some(100))),
            ("bytes 9-5/100", range(None, Some(100))),
            ("bytes 0-9", None),
            ("rows 0-9/10", None),
            ("bytes a-9/10", None),
            ("bytes 0-18446744073709551615/10", None),
        ] {
            assert_eq!(ContentRange::parse(header), expected, "{header}");
        }
    }

    #[test]
    fn what_came_compressed_is_taken_by_its_name() {
        for (encoding, path, is_taken) in [
            (None, "a.csv", true),
            (Some("identity"), "a.csv", true),
            (Some("gzip"), "a.csv.GZ", true),
            (Some("gzip"), "a.csv", false),
            (Some("br"), "a.csv", false),
        ] {
            assert_eq!(check_encoding(encoding, path).is_ok(), is_taken, "{encoding:?} {path}");
        }
    }
}
