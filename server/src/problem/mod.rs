//! What can go wrong, as RFC 9457 has it: a kind, which a page of this server explains, and what it was this time.

mod failure;
mod kinds;
mod places;

use std::fmt::Display;

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use prs_common::job::keys::words_of;
use serde::Serialize;

pub(crate) use kinds::{ALL, Kind};
pub(crate) use places::Places;

/// The media type of a problem.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// Something that went wrong with a request.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) kind: &'static Kind,
    /// What it was this time.
    pub(crate) detail: String,
    /// What to do next: a command, an address.
    pub(crate) hint: Option<String>,
    /// Seconds after which the same request may succeed.
    pub(crate) retry_after: Option<u32>,
    /// All that is wrong with what was sent, where that is known one by one.
    pub(crate) errors: Vec<ErrorAt>,
}

/// One thing that is wrong with what was sent.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ErrorAt {
    /// Where in the request, as RFC 6901 has it.
    pub(crate) pointer: String,
    /// The key of the job file, with its place; empty where the file as a whole is meant.
    pub(crate) key: String,
    /// Line in the job file, from 1.
    pub(crate) line: Option<usize>,
    /// The value, what is allowed and the remedy.
    pub(crate) detail: String,
}

impl Problem {
    /// A problem of this kind.
    pub(crate) fn new(kind: &'static Kind, detail: impl Display) -> Self {
        Self { kind, detail: detail.to_string(), hint: None, retry_after: None, errors: Vec::new() }
    }

    /// The same, with what to do next.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// The same, with the seconds after which to ask again.
    #[must_use]
    pub(crate) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The same, with all that is wrong one by one.
    #[must_use]
    pub(crate) fn with_errors(self, errors: Vec<ErrorAt>) -> Self {
        Self { errors, ..self }
    }

    /// The document, for a request with this path and number.
    pub(crate) fn document<'a>(&'a self, instance: &'a str, request_id: &'a str) -> Document<'a> {
        Document {
            r#type: format!("/problems/{}", self.kind.slug),
            title: self.kind.title,
            status: self.kind.status,
            detail: &self.detail,
            instance,
            request_id,
            hint: self.hint.as_deref(),
            errors: self
                .errors
                .iter()
                .map(|error| ErrorShown { error, allowed: words_of(&error.key) })
                .collect(),
        }
    }

    /// The document as an answer.
    pub(crate) fn answer(&self, instance: &str, request_id: &str) -> Response {
        let status = StatusCode::from_u16(self.kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.document(instance, request_id))).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        self.add_headers(&mut response);
        response
    }

    /// Adds what an answer with this problem says in its headers.
    pub(crate) fn add_headers(&self, response: &mut Response) {
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if self.kind.status == StatusCode::UNAUTHORIZED.as_u16() {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
    }
}

/// A problem as programs read it.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    /// The page that explains the kind of problem.
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    /// The path of the request.
    instance: &'a str,
    /// The number of the request, as in the log of the server.
    request_id: &'a str,
    hint: Option<&'a str>,
    errors: Vec<ErrorShown<'a>>,
}

/// One thing that is wrong with what was sent, as programs read it.
#[derive(Debug, Serialize)]
struct ErrorShown<'a> {
    #[serde(flatten)]
    error: &'a ErrorAt,
    /// The words that the key takes; null where it takes others than a few words.
    allowed: Option<&'static [&'static str]>,
}

/// Left in an answer for the layer that knows the request: it writes the document, or the page.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
