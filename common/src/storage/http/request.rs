//! One request to an HTTP server and its answer, for what is no storage: no redirect is followed, nothing is repeated, and what comes
//! is small. Certificates and proxies are those of inputs.

use std::time::Duration;

use aws_sdk_s3::config::http::HttpRequest;
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use bytes::{Bytes, BytesMut};

use super::client::connector;
use crate::storage::s3::causes;

/// How long an answer may take, all of it.
const ANSWER: Duration = Duration::from_secs(10);
/// Bytes of the body of an answer.
const LARGEST: usize = 1 << 20;

/// Makes requests, and keeps connections.
pub struct HttpClient {
    connector: Connector,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HttpClient")
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers, as far as they are text.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Bytes,
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpClient {
    /// Connects to nothing yet.
    pub fn new() -> Self {
        Self { connector: connector(None) }
    }

    /// The answer to one request, whatever its status; otherwise why there is none, in words. It takes ten seconds at most.
    pub async fn ask(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<HttpAnswer, String> {
        let answered = tokio::time::timeout(ANSWER, self.once(method, url, headers, body)).await;
        answered.unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER.as_secs())))
    }

    async fn once(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<HttpAnswer, String> {
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method(method).map_err(|error| error.to_string())?;
        request.set_uri(url).map_err(|_| "its URL is malformed".to_owned())?;
        for (name, value) in headers {
            let inserted = request.headers_mut().try_insert(name.clone(), value.clone());
            inserted.map_err(|_| format!("the header {name} is malformed"))?;
        }
        let response = self.connector.call(request).await.map_err(|error| causes(&error))?;
        let status = response.status().as_u16();
        let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let headers = response.headers().iter().map(text).collect();
        let (mut stream, mut body) = (ByteStream::new(response.into_body()), BytesMut::new());
        while let Some(piece) = stream.next().await {
            body.extend_from_slice(&piece.map_err(|error| causes(&error))?);
            if body.len() > LARGEST {
                return Err(format!("the answer is larger than {LARGEST} bytes"));
            }
        }
        Ok(HttpAnswer { status, headers, body: body.freeze() })
    }
}
