//! Pages of other origins that may ask for what programs ask for (CORS): with a token of their own, never with the session of a browser.

use std::fmt;
use std::str::FromStr;

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use url::Url;

/// What such a page may send beside what every page may.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-match, if-none-match, range, traceparent, x-request-id, azureml-model-deployment",
);
/// What it may read of an answer beside what every page may.
const READ: HeaderValue = HeaderValue::from_static(
    "etag, link, location, retry-after, idempotency-replayed, accept-ranges, content-disposition, content-range, repr-digest, www-authenticate, x-request-id",
);
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Seconds that a browser remembers what it may ask.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// The origin of pages: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url: Url = text.parse().map_err(|error| format!("{error}"))?;
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || !is_plain || !url.username().is_empty() {
            return Err("it is an origin such as https://dashboards.example.org, without a path".to_owned());
        }
        Ok(Self(url.origin().ascii_serialization()))
    }
}

/// The origin that a request came from, where it is one of these and what it asks for is for programs.
pub(crate) fn of<'a>(allowed: &'a [Origin], path: &str, headers: &HeaderMap) -> Option<&'a Origin> {
    let origin = headers.get(ORIGIN)?.to_str().ok()?;
    let is_for_programs =
        path.starts_with("/api/") || path.starts_with("/endpoints/") || path == "/openapi.json";
    allowed.iter().find(|one| is_for_programs && one.0 == origin)
}

/// The answer to a browser that asks whether a page of this origin may make a request; nothing where it asks something else.
pub(crate) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    (*method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)).then(|| {
        let allowed = [
            (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
            (ACCESS_CONTROL_MAX_AGE, REMEMBERED),
        ];
        (StatusCode::NO_CONTENT, allowed).into_response()
    })
}

/// Lets a page of this origin read an answer.
pub(crate) fn let_read(origin: &Origin, headers: &mut HeaderMap) {
    let Ok(origin) = HeaderValue::from_str(&origin.0) else { return };
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READ);
    headers.append(VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_path() {
        for (text, expected) in [
            ("https://a.example.org", Some("https://a.example.org")),
            ("https://A.example.org:443/", Some("https://a.example.org")),
            ("http://localhost:3000", Some("http://localhost:3000")),
            ("https://a.example.org/x", None),
            ("https://a.example.org?x", None),
            ("https://me@a.example.org", None),
            ("a.example.org", None),
            ("*", None),
            ("null", None),
        ] {
            assert_eq!(text.parse::<Origin>().ok().map(|origin| origin.0).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn pages_of_named_origins_ask_for_what_programs_ask_for() {
        let allowed = ["https://a.example.org".parse::<Origin>().unwrap()];
        let from = |origin: &str| HeaderMap::from_iter([(ORIGIN, origin.parse().unwrap())]);
        for (origin, path, expected) in [
            ("https://a.example.org", "/api/v1/jobs", true),
            ("https://a.example.org", "/endpoints/heart/jobs", true),
            ("https://a.example.org", "/jobs", false),
            ("https://b.example.org", "/api/v1/jobs", false),
            ("null", "/api/v1/jobs", false),
        ] {
            assert_eq!(of(&allowed, path, &from(origin)).is_some(), expected, "{origin} {path}");
        }
        assert_eq!(of(&allowed, "/api/v1/jobs", &HeaderMap::new()), None);
    }
}
