//! Whether who asks has the newest already (RFC 9110, 13.1.2).

use axum::http::header::{ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Answers with `body` under `tag`, which is quoted already, or that nothing changed.
pub(crate) fn answer(headers: &HeaderMap, tag: &str, body: impl IntoResponse) -> Response {
    answer_lazily(headers, tag, || body)
}

/// The same with a body that is made only where it is sent.
pub(crate) fn answer_lazily<B: IntoResponse>(
    headers: &HeaderMap,
    tag: &str,
    body: impl FnOnce() -> B,
) -> Response {
    let mut response =
        if has(headers, tag) { StatusCode::NOT_MODIFIED.into_response() } else { body().into_response() };
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The beginning of a checksum of `bytes`, for names and tags that change with them.
pub(crate) fn short_checksum(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    URL_SAFE_NO_PAD.encode(&digest[..9])
}

/// Whether a request with `headers` names what has this tag. Tags are compared weakly.
pub(crate) fn has(headers: &HeaderMap, tag: &str) -> bool {
    let plain = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let tags = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    tags.flat_map(|tags| tags.split(',')).any(|each| each.trim() == "*" || plain(each) == plain(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly() {
        let headers = |value: &str| HeaderMap::from_iter([(IF_NONE_MATCH, value.parse().unwrap())]);
        for (given, expected) in [
            ("W/\"1.7\"", true),
            ("\"1.7\"", true),
            ("\"0\", W/\"1.7\"", true),
            ("*", true),
            ("\"1.8\"", false),
        ] {
            assert_eq!(has(&headers(given), "W/\"1.7\""), expected, "{given}");
        }
        assert!(!has(&HeaderMap::new(), "W/\"1.7\""));
    }
}
