//! What a request that changes something expects to be there (RFC 9110, 13.1).

use axum::http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

use super::conditional::short_checksum;
use crate::problem::{Kind, Problem};

/// What is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expects {
    /// Nothing.
    Nothing,
    /// Something.
    Something,
    /// What has one of these tags.
    Tags(Vec<String>),
}

impl Expects {
    /// What a request with these headers expects; a problem where it `must_say` and does not.
    pub(crate) fn of(headers: &HeaderMap, must_say: bool) -> Result<Option<Self>, Problem> {
        let given = |name: HeaderName| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            let values: Vec<String> =
                values.flat_map(|value| value.split(',')).map(|tag| tag.trim().to_owned()).collect();
            Some(values).filter(|values| !values.is_empty())
        };
        match (given(IF_MATCH), given(IF_NONE_MATCH)) {
            (Some(_), Some(_)) => Err(Problem::new(
                Kind::BAD_REQUEST,
                "If-Match and If-None-Match cannot both hold: send one of the two.",
            )),
            (None, Some(tags)) if tags == ["*"] => Ok(Some(Self::Nothing)),
            (None, Some(_)) => Err(Problem::new(Kind::BAD_REQUEST, "If-None-Match takes * here.")),
            (Some(tags), None) if tags.iter().any(|tag| tag == "*") => Ok(Some(Self::Something)),
            (Some(tags), None) => Ok(Some(Self::Tags(tags))),
            (None, None) if must_say => Err(Problem::new(
                Kind::PRECONDITION_MISSING,
                "Send If-Match with the ETag of what is to change, so that no change of another is lost; or If-None-Match: * to create.",
            )),
            (None, None) => Ok(None),
        }
    }

    /// Whether what is there, with this tag, or that nothing is, is what is expected. What stands behind a dot in a tag is no part of
    /// what can be changed.
    pub(crate) fn holds(&self, tag: Option<&str>) -> bool {
        match (self, tag) {
            (Self::Nothing, None) | (Self::Something, Some(_)) => true,
            (Self::Tags(tags), Some(tag)) => tags.iter().any(|each| own(each) == own(tag)),
            _ => false,
        }
    }
}

fn own(tag: &str) -> &str {
    tag.trim_matches('"').split('.').next().unwrap_or_default()
}

/// The tag of a version of an object.
pub(crate) fn tag_of(version: &str) -> String {
    format!("\"{}\"", short_checksum(version.as_bytes()))
}

/// An answer with the tag of what it is about.
pub(crate) fn with_tag(tag: &str, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The problem that something is not what was expected.
pub(crate) fn changed_meanwhile() -> Problem {
    Problem::new(
        Kind::PRECONDITION_FAILED,
        "It is not what the request expects: get it again, and decide anew.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_says_what_it_expects() {
        let of = |headers: &[(HeaderName, &str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            Expects::of(&headers.collect::<HeaderMap>(), true)
        };
        let holds = |headers: &[(HeaderName, &str)], tag| of(headers).unwrap().unwrap().holds(tag);
        for (tags, tag, expected) in [
            ("\"a\"", Some("\"a\""), true),
            ("\"b\", \"a\"", Some("\"a\""), true),
            ("\"a.1\"", Some("\"a.2\""), true),
            ("\"b\"", Some("\"a\""), false),
            ("*", Some("\"a\""), true),
            ("*", None, false),
            ("\"a\"", None, false),
        ] {
            assert_eq!(holds(&[(IF_MATCH, tags)], tag), expected, "{tags} {tag:?}");
        }
        assert!(holds(&[(IF_NONE_MATCH, "*")], None) && !holds(&[(IF_NONE_MATCH, "*")], Some("\"a\"")));
        for (headers, kind) in [
            (&[][..], Kind::PRECONDITION_MISSING),
            (&[(IF_NONE_MATCH, "\"a\"")], Kind::BAD_REQUEST),
            (&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")], Kind::BAD_REQUEST),
        ] {
            assert_eq!(of(headers).unwrap_err().kind, kind);
        }
    }
}
