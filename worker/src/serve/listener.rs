//! The HTTP listener of a worker: `GET /metrics` for Prometheus, `GET /livez` for what starts workers again.
//!
//! One request a connection, so that nobody holds one for long; what takes longer than the time for it is cut off.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::metrics::Metrics;

/// Connections at a time; others wait in the queue of the kernel.
const CONNECTIONS: usize = 32;
/// How long a request may take to come.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may last.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a connection could not be taken: there may be no file descriptor for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The longest header, bytes.
const HEADER_BYTES: usize = 16 << 10;

const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const ONLY_GET: HeaderValue = HeaderValue::from_static("GET");

/// That nothing can be served at an address.
#[derive(Debug, thiserror::Error)]
#[error(
    "metrics cannot be served on {address}: {source}; give --metrics (PRS_METRICS) an address of this host and a port \
     that is free, or port 0 for any"
)]
pub struct NotServed {
    address: SocketAddr,
    source: io::Error,
}

/// A listener for collectors of metrics.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Takes the address.
    pub async fn bind(address: SocketAddr) -> Result<Self, NotServed> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            Ok(Self { address: listener.local_addr()?, listener })
        };
        bound.await.map_err(|source| NotServed { address, source })
    }

    /// The address, with its port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests. Never returns.
    pub async fn serve(self, metrics: Metrics) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let permit = Arc::clone(&connections).acquire_owned().await;
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let metrics = metrics.clone();
                    tokio::spawn(async move {
                        // Who asks and does not read is nobody's business.
                        let _ = timeout(WHOLE_TIMEOUT, answer_one(stream, metrics)).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "a collector of metrics has to wait");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Answers the one request of a connection.
async fn answer_one(stream: TcpStream, metrics: Metrics) {
    let service = service_fn(|request: Request<_>| {
        let answer = answer(request.method(), request.uri().path(), &metrics);
        async { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a collector of metrics got no answer");
    }
}

fn answer(method: &Method, path: &str, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, kind, body) = match path {
        "/metrics" | "/livez" if method != Method::GET => {
            let mut refused =
                response(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET is answered\n".into());
            refused.headers_mut().insert(ALLOW, ONLY_GET);
            return refused;
        }
        "/metrics" => (StatusCode::OK, OPEN_METRICS, metrics.text()),
        "/livez" if metrics.is_alive() => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
        "/livez" => {
            let seconds = metrics.silent().as_secs();
            let text =
                format!("for {seconds} s the worker has neither looked for a job nor told of itself\n");
            (StatusCode::SERVICE_UNAVAILABLE, PLAIN, text)
        }
        _ => (StatusCode::NOT_FOUND, PLAIN, "there are /metrics and /livez here\n".to_owned()),
    };
    response(status, kind, body)
}

fn response(status: StatusCode, kind: HeaderValue, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn two_paths_are_answered_to_get_alone() {
        let metrics = Metrics::counted(&[]);
        let table = [
            (Method::GET, "/metrics", 200),
            (Method::GET, "/livez", 200),
            (Method::POST, "/metrics", 405),
            (Method::HEAD, "/livez", 405),
            (Method::GET, "/", 404),
            (Method::DELETE, "/metrics/x", 404),
        ];
        for (method, path, expected) in table {
            let answer = answer(&method, path, &metrics);
            assert_eq!(answer.status(), expected, "{method} {path}");
            assert_eq!(answer.headers().contains_key(ALLOW), expected == 405);
        }
        let answer = answer(&Method::GET, "/metrics", &metrics);
        assert_eq!(answer.headers()[CONTENT_TYPE], OPEN_METRICS);
    }

    #[tokio::test]
    async fn a_taken_port_is_told_with_the_remedy() {
        let first = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let error = Listener::bind(first.address()).await.unwrap_err().to_string();
        let named = first.address().to_string();
        for part in [&*named, "in use", "--metrics (PRS_METRICS)"] {
            assert!(error.contains(part), "{part:?} is not said: {error}");
        }
    }

    #[tokio::test]
    async fn who_says_nothing_keeps_nobody_from_an_answer() {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.address();
        let serving = tokio::spawn(listener.serve(Metrics::counted(&[])));
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS + 3 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asks = TcpStream::connect(address).await.unwrap();
        asks.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut said = String::new();
        asks.read_to_string(&mut said).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("ok\n"), "{said}");
        serving.abort();
    }
}
