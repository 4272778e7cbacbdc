//! Requests to an HTTP server: TLS, proxies, redirects, and how long an answer may take.
//!
//! One request is one attempt; `read` decides about further ones. Certificates are those of the system, or of the file that
//! `SSL_CERT_FILE` names; proxies those of `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Connector, tls};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorSettings};
use base64::Engine as _;
use bytes::Bytes;
use url::Url;

use super::answer::HttpFailure;
use super::guard::{Guard, NOT_PUBLIC, PublicNames, check_public, refused};
use super::version::SeenState;
use crate::dataset::http_url;
use crate::storage::Reach;
use crate::storage::StorageErrorKind::{InvalidKey, PermissionDenied};
use crate::storage::s3::causes;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// Redirects that are followed, one after the other.
const REDIRECTS: usize = 10;

/// What makes connections, and keeps them; to public addresses alone where `names` looks them up.
pub(super) fn connector(names: Option<PublicNames>) -> Connector {
    let builder = Connector::builder()
        .connector_settings(HttpConnectorSettings::builder().connect_timeout(CONNECT).build())
        .proxy_config(ProxyConfig::from_env())
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring));
    match names {
        Some(names) => builder.build_with_resolver(names),
        None => builder.build(),
    }
}

/// An HTTP server, and who asks it.
pub(super) struct Server {
    /// `https://host:port`, without credentials.
    pub(super) url: String,
    /// The value of `Authorization`.
    authorization: Option<String>,
    connector: Connector,
    /// What of it may be read, where that is not everything.
    guard: Option<Guard>,
    /// How long an answer, or the next bytes of it, may stay away.
    pub(super) stall: Duration,
}

/// An answer: its headers, and a body that has not come yet.
pub(super) struct Answer {
    pub(super) status: u16,
    response: HttpResponse,
    stall: Duration,
}

impl Server {
    /// The server at `url`, which may hold credentials.
    pub(super) fn new(url: &str, stall: Duration, reach: Option<Arc<Reach>>) -> Self {
        let encode = |user: String| {
            let user = if user.contains(':') { user } else { format!("{user}:") };
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user))
        };
        Self {
            url: http_url::host_shown(url).into_owned(),
            authorization: http_url::credentials(url).map(encode),
            connector: connector(None),
            guard: reach.map(|reach| Guard { reach, connector: connector(Some(PublicNames::new())) }),
            stall,
        }
    }

    /// The answer to one request for `key`, behind redirects. Any status counts as one.
    pub(super) async fn ask(
        &self,
        method: &str,
        key: &str,
        headers: &[(&'static str, String)],
    ) -> Result<Answer, HttpFailure> {
        let malformed =
            |error: url::ParseError| HttpFailure::of(InvalidKey, format!("the URL is malformed: {error}"));
        let own = Url::parse(&format!("{}/", self.url)).map_err(malformed)?;
        let mut url = own.join(&format!("/{key}")).map_err(malformed)?;
        if url.origin() != own.origin() {
            // A key that begins with a slash of its own would name another server.
            url = Url::parse(&format!("{}/{key}", self.url)).map_err(malformed)?;
        }
        for _ in 0..=REDIRECTS {
            let is_own = url.origin() == own.origin();
            let connector = match &self.guard {
                Some(guard) if guard.names(&url) => &self.connector,
                Some(guard) => {
                    check_public(&url, &own).await?;
                    &guard.connector
                }
                None => &self.connector,
            };
            let authorization = self.authorization.as_ref().filter(|_| is_own);
            let answer = self
                .once(connector, method, &url, (headers, authorization))
                .await
                .map_err(|failure| if is_own { failure } else { elsewhere(&url, failure) })?;
            if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let refused = |why: &str| {
                let status = answer.status;
                Err(HttpFailure::of(PermissionDenied, format!("HTTP {status}: the server redirects {why}")))
            };
            let Some(target) = answer.header("location").and_then(|to| url.join(to).ok()) else {
                return refused("to nowhere");
            };
            if !matches!(target.scheme(), "http" | "https") {
                return refused("to what is no HTTP server");
            }
            if url.scheme() == "https" && target.scheme() == "http" {
                return refused(&format!(
                    "to {}, which is not encrypted: give that URL itself if it is meant",
                    http_url::shown(target.as_str())
                ));
            }
            url = target;
        }
        Err(HttpFailure::of(PermissionDenied, format!("the server redirects more than {REDIRECTS} times")))
    }

    async fn once(
        &self,
        connector: &Connector,
        method: &str,
        url: &Url,
        (headers, authorization): (&[(&'static str, String)], Option<&String>),
    ) -> Result<Answer, HttpFailure> {
        let malformed =
            |error: String| HttpFailure::of(InvalidKey, format!("the request is malformed: {error}"));
        let mut plain = url.clone();
        // Credentials are a header; in the URL a proxy would see them.
        let _ = (plain.set_username(""), plain.set_password(None));
        plain.set_fragment(None);
        let mut request = HttpRequest::new(SdkBody::empty());
        request.set_method(method).map_err(|error| malformed(error.to_string()))?;
        request.set_uri(plain.as_str()).map_err(|_| malformed("its URL".to_owned()))?;
        let mut insert = |name: &'static str, value: String| {
            let inserted = request.headers_mut().try_insert(name, value);
            inserted.map(drop).map_err(|_| malformed(format!("its header {name}")))
        };
        insert("accept", "*/*".to_owned())?;
        insert("accept-encoding", "identity".to_owned())?;
        insert("user-agent", concat!("prs/", env!("CARGO_PKG_VERSION")).to_owned())?;
        for (name, value) in headers {
            insert(name, value.clone())?;
        }
        if let Some(authorization) = authorization {
            insert("authorization", authorization.clone())?;
        }
        let answered = tokio::time::timeout(self.stall, connector.call(request)).await;
        let answered = answered.map_err(|_| stalled("no answer", self.stall))?;
        let response = answered.map_err(|error| {
            let why = causes(&error);
            if why.contains(NOT_PUBLIC) {
                return refused(url);
            }
            let remedy = if why.contains("certificate") || why.contains("UnknownIssuer") {
                "; install the certificate of its authority, or name its file in SSL_CERT_FILE"
            } else {
                ""
            };
            HttpFailure::unanswered(format!("no answer: {why}{remedy}"))
        })?;
        Ok(Answer { status: response.status().as_u16(), response, stall: self.stall })
    }
}

/// What went wrong at a server that a redirect leads to.
fn elsewhere(url: &Url, failure: HttpFailure) -> HttpFailure {
    let shown = http_url::shown(url.as_str());
    let HttpFailure { kind, message, retry_after } = failure;
    HttpFailure { kind, message: format!("redirected to {shown}: {message}"), retry_after }
}

fn stalled(what: &str, after: Duration) -> HttpFailure {
    HttpFailure::unanswered(format!("{what} for {} s", after.as_secs_f64()))
}

impl Answer {
    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get_bytes(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// `Content-Length`.
    pub(super) fn length(&self) -> Option<u64> {
        self.header("content-length")?.trim().parse().ok()
    }

    /// What it says of the state of the file, whose size it may have told otherwise.
    pub(super) fn seen(&self, size: u64) -> SeenState {
        let text = |name| self.header(name).unwrap_or_default().trim().to_owned();
        SeenState { etag: text("etag"), modified: text("last-modified"), size }
    }

    /// What its status means, which is no success.
    pub(super) fn failure(&self) -> HttpFailure {
        HttpFailure::of_status(self.status, self.header("retry-after"))
    }

    /// Its body.
    pub(super) fn into_body(self) -> Body {
        Body { stream: ByteStream::new(self.response.into_body()), stall: self.stall }
    }
}

/// The body of an answer, as it comes.
pub(super) struct Body {
    stream: ByteStream,
    stall: Duration,
}

impl Body {
    /// The next bytes; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, HttpFailure> {
        let next = tokio::time::timeout(self.stall, self.stream.next()).await;
        let next = next.map_err(|_| stalled("the answer stopped", self.stall))?;
        let broke_off = |error| HttpFailure::unanswered(format!("the answer broke off: {}", causes(&error)));
        next.transpose().map_err(broke_off)
    }
}
