//! Bytes of files that come and go, by what they are: counted as they pass, whatever becomes of the request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

/// What bytes are of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// What comes.
const UPLOADS: [&str; 2] = ["blob", "form"];
/// What goes, by how its address goes on behind that of a job, of the registry, or of all.
const DOWNLOADS: [(&str, &[&str]); 5] = [
    ("output", &["/jobs/{job}/outputs/{*path}", "/jobs/{job}/result"]),
    ("log", &["/jobs/{job}/logs/{*path}", "/jobs/{job}/logs.tar.gz"]),
    ("code", &["/jobs/{job}/code/{*path}", "/jobs/{job}/code.tar.gz"]),
    ("registry", &["/registry/{kind}/{name}/versions/{version}/files/{*path}"]),
    ("blob", &["/blobs/{sha256}"]),
];

/// Bytes that came and went.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    uploads: Family<Kind, Counter>,
    downloads: Family<Kind, Counter>,
}

impl Traffic {
    pub(super) fn register(&self, registry: &mut Registry) {
        for kind in UPLOADS {
            drop(self.uploads.get_or_create(&Kind { kind }));
        }
        for (kind, _) in DOWNLOADS {
            drop(self.downloads.get_or_create(&Kind { kind }));
        }
        registry.register_with_unit(
            "prs_upload",
            "Bytes of files that came with requests",
            Unit::Bytes,
            self.uploads.clone(),
        );
        registry.register_with_unit(
            "prs_download",
            "Bytes of files that were given, before they are packed for the way",
            Unit::Bytes,
            self.downloads.clone(),
        );
    }

    /// The body of a request with these headers, of which files are counted.
    pub(super) fn comes(&self, headers: &HeaderMap, body: Body) -> Body {
        let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = match media {
            "application/octet-stream" => "blob",
            _ if media.starts_with("multipart/") => "form",
            _ => return body,
        };
        Body::new(Counted { body, bytes: self.uploads.get_or_create_owned(&Kind { kind }) })
    }

    /// The body of an answer of the address `route`, where it is a file.
    pub(super) fn goes(&self, route: Option<&str>, body: Body) -> Body {
        let path = route.and_then(|route| route.strip_prefix("/api/v1")).unwrap_or_default();
        match DOWNLOADS.iter().find(|(_, paths)| paths.contains(&path)) {
            Some((kind, _)) => {
                Body::new(Counted { body, bytes: self.downloads.get_or_create_owned(&Kind { kind }) })
            }
            None => body,
        }
    }
}

/// A body whose bytes are counted.
struct Counted {
    body: Body,
    bytes: Counter,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.bytes.inc_by(frame.data_ref().map_or(0, Bytes::len) as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;
    use crate::api::ROUTES;

    #[test]
    fn what_is_counted_is_an_address_of_the_api() {
        for path in DOWNLOADS.iter().flat_map(|(_, paths)| *paths) {
            let path = format!("/api/v1{}", path.replace("{*", "{"));
            assert!(ROUTES.iter().any(|route| route.method == "get" && route.path == path), "{path}");
        }
    }

    #[tokio::test]
    async fn bytes_are_counted_as_they_pass_and_a_body_keeps_its_size() {
        let traffic = Traffic::default();
        let headers =
            HeaderMap::from_iter([(CONTENT_TYPE, "multipart/form-data; boundary=x".parse().unwrap())]);
        let body = traffic.comes(&headers, Body::from("12345"));
        assert_eq!(body.size_hint().exact(), Some(5));
        let form = Kind { kind: "form" };
        assert_eq!(traffic.uploads.get_or_create(&form).get(), 0);
        to_bytes(body, 10).await.unwrap();
        assert_eq!(traffic.uploads.get_or_create(&form).get(), 5);
        let body = traffic.goes(Some("/api/v1/jobs/{job}/result"), Body::from("123"));
        to_bytes(body, 10).await.unwrap();
        to_bytes(traffic.goes(Some("/api/v1/jobs"), Body::from("12")), 10).await.unwrap();
        assert_eq!(traffic.downloads.get_or_create(&Kind { kind: "output" }).get(), 3);
    }
}
