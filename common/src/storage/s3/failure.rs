//! What an answer of the server, or its absence, means.
//!
//! The table is pure: an HTTP status and the server's own word for the error give the kind, and what a person
//! can do about it. No header and no body of a request ever gets into a message.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::storage::StorageErrorKind::{
    self, AlreadyExists, Changed, Full, InvalidKey, NotFound, PermissionDenied, Unavailable,
};

/// The server's word for an upload that it does not know any more.
pub(super) const NO_UPLOAD: &str = "NoSuchUpload";

/// Why one request failed.
#[derive(Debug, Clone)]
pub(super) struct S3Failure {
    /// What it means to a caller; [`Unavailable`] is worth another attempt.
    pub(super) kind: StorageErrorKind,
    /// The server's word for it, empty when it said none.
    pub(super) code: String,
    /// In words, for people.
    pub(super) message: String,
    /// Requests made, this one included.
    pub(super) attempts: u32,
    /// The server refuses who asks, and not what is asked.
    pub(super) is_refusal: bool,
}

impl S3Failure {
    /// One that no answer of the server tells.
    pub(super) fn of(kind: StorageErrorKind, message: impl Into<String>) -> Self {
        Self { kind, code: String::new(), message: message.into(), attempts: 1, is_refusal: false }
    }

    /// A request that no whole answer came to.
    pub(super) fn unanswered(message: impl Into<String>) -> Self {
        Self::of(Unavailable, message)
    }

    /// A success without what an S3 server says with it: something else answered, and nothing was done.
    pub(super) fn no_s3_answer(what_is_missing: &str) -> Self {
        Self::unanswered(format!("the answer is not that of an S3 server: {what_is_missing}"))
    }

    /// The object is another version than the one that was asked for.
    pub(super) fn replaced() -> Self {
        Self::of(Changed, "the object was replaced by another one")
    }

    /// Whether a server may have refused the request for a checksum or a condition in it: there are some that take only
    /// what they know.
    pub(super) fn may_be_over_headers(&self) -> bool {
        matches!(self.code.as_str(), "InvalidArgument" | "InvalidRequest" | "NotImplemented")
    }
}

impl<E: ProvideErrorMetadata + Error + 'static> From<SdkError<E>> for S3Failure {
    fn from(error: SdkError<E>) -> Self {
        let Some(answer) = error.raw_response() else {
            return Self::unanswered(format!("no answer: {}", causes(error.source().unwrap_or(&error))));
        };
        let status = answer.status().as_u16();
        let code = error.code().unwrap_or_default();
        let mut message = match (error.message(), code) {
            (Some(message), code) if !message.is_empty() => format!("{message} ({code}, HTTP {status})"),
            (_, "") => format!("HTTP {status}"),
            (_, code) => format!("{code} (HTTP {status})"),
        };
        if let (300..400, Some(region)) = (status, answer.headers().get("x-amz-bucket-region")) {
            message = format!("{message}; the bucket is in region {region}: set AWS_REGION to it");
        } else if let Some(remedy) = remedy(code) {
            message = format!("{message}; {remedy}");
        }
        let (kind, is_refusal) = (meaning(status, code), is_refusal(status, code));
        Self { kind, code: code.to_owned(), message, attempts: 1, is_refusal }
    }
}

/// The error and what caused it, from the outside in, without repetitions.
pub(in crate::storage) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let told = inner.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = inner.source();
    }
    text
}

fn meaning(status: u16, code: &str) -> StorageErrorKind {
    match code {
        "NoSuchKey" | "NoSuchBucket" | NO_UPLOAD | "NotFound" => NotFound,
        "PreconditionFailed" => AlreadyExists,
        "KeyTooLongError" | "InvalidBucketName" | "InvalidObjectName" | "XMinioInvalidObjectName" => {
            InvalidKey
        }
        "XMinioStorageFull" | "QuotaExceeded" | "XMinioAdminBucketQuotaExceeded" => Full,
        // Answers of the 4xx range that the next attempt may not get: the request was damaged or slow on its
        // way, or met another one on the same object.
        "BadDigest"
        | "IncompleteBody"
        | "RequestTimeout"
        | "XAmzContentSHA256Mismatch"
        | "ConditionalRequestConflict"
        | "OperationAborted"
        | "SlowDown"
        | "Throttling"
        | "InternalError" => Unavailable,
        // A success that could not be read was cut, or is no S3 server's.
        "" if status < 300 => Unavailable,
        _ => match status {
            404 => NotFound,
            412 => AlreadyExists,
            507 => Full,
            501 => PermissionDenied,
            408 | 409 | 425 | 429 | 500.. => Unavailable,
            _ => PermissionDenied,
        },
    }
}

/// Whether the server refuses who asks. Codes of credentials come with 400, too.
fn is_refusal(status: u16, code: &str) -> bool {
    let is_of_credentials = matches!(
        code,
        "ExpiredToken"
            | "InvalidToken"
            | "TokenRefreshRequired"
            | "InvalidAccessKeyId"
            | "RequestTimeTooSkewed"
    );
    is_of_credentials || (matches!(status, 401 | 403) && meaning(status, code) == PermissionDenied)
}

fn remedy(code: &str) -> Option<&'static str> {
    Some(match code {
        // `NotSignedUp` is what some servers say for a key they do not know.
        "InvalidAccessKeyId" | "NotSignedUp" => {
            "the server does not know this access key: check AWS_ACCESS_KEY_ID or the profile"
        }
        "SignatureDoesNotMatch" => {
            "the secret does not belong to this access key: check AWS_SECRET_ACCESS_KEY or the profile"
        }
        "RequestTimeTooSkewed" => "the clock of this host is wrong: set it, for example with NTP",
        "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => {
            "the session of these credentials has ended: get new ones"
        }
        "AccessDenied" => "these credentials lack the permission for it: ask the owner of the bucket",
        "NoSuchBucket" => "the bucket does not exist: check the name and the endpoint, or make it first",
        "AuthorizationHeaderMalformed" | "PermanentRedirect" => {
            "the bucket is in another region or at another endpoint: check AWS_REGION"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_one_meaning() {
        for (status, code, expected) in [
            (200, "", Unavailable),
            (404, "NoSuchKey", NotFound),
            (404, "", NotFound),
            (403, "AccessDenied", PermissionDenied),
            (403, "", PermissionDenied),
            (403, "RequestTimeTooSkewed", PermissionDenied),
            (412, "PreconditionFailed", AlreadyExists),
            (412, "", AlreadyExists),
            (409, "ConditionalRequestConflict", Unavailable),
            (400, "InvalidArgument", PermissionDenied),
            (400, "RequestTimeout", Unavailable),
            (400, "BadDigest", Unavailable),
            (400, "KeyTooLongError", InvalidKey),
            (429, "", Unavailable),
            (500, "InternalError", Unavailable),
            (501, "NotImplemented", PermissionDenied),
            (503, "SlowDown", Unavailable),
            (507, "XMinioStorageFull", Full),
            (301, "PermanentRedirect", PermissionDenied),
        ] {
            assert_eq!(meaning(status, code), expected, "{status} {code}");
        }
    }

    #[test]
    fn who_asks_is_refused_or_what_is_asked() {
        for (status, code, expected) in [
            (403, "AccessDenied", true),
            (403, "", true),
            (401, "", true),
            (403, "SignatureDoesNotMatch", true),
            (403, "RequestTimeTooSkewed", true),
            (400, "ExpiredToken", true),
            (400, "InvalidArgument", false),
            (501, "NotImplemented", false),
            (301, "PermanentRedirect", false),
            (403, "QuotaExceeded", false),
            (404, "NoSuchKey", false),
            (503, "SlowDown", false),
        ] {
            assert_eq!(is_refusal(status, code), expected, "{status} {code}");
        }
    }
}
