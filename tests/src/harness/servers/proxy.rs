//! What stands between a program and a server to make the way unsafe.
//!
//! [`TcpProxy`] carries bytes and can be cut off: from then on nothing arrives and nobody is told, as when a cable
//! is pulled. It can be as long as a real way is. [`HttpProxy`] is one with a reverse proxy behind it, which spoils a share of the requests; every
//! spoiled one is counted, so that a test can assert that it happened.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::runtime::Runtime;

use super::in_process;
pub use super::tcp_proxy::TcpProxy;
use super::tcp_proxy::accept;
use crate::harness::Random;

/// What may become of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It never reaches the server, which seems to answer 500.
    Error,
    /// It waits for a while before it goes on.
    Stall,
    /// The connection closes before it reaches the server.
    CutBefore,
    /// The server does it, and the connection closes instead of an answer.
    CutAfter,
    /// The server does it, and the connection closes in the middle of the answer.
    CutMiddle,
    /// It never reaches the server; a server of web pages answers 200.
    WebPage,
    /// The answer to a request for a range has half of it, and says so in its length.
    Short,
    /// One bit of what was read is another; not one of [`Self::ALL`], for no store can notice it in a range.
    Flip,
    /// The server does it, and nothing comes any more from the middle of the answer on; not one of [`Self::ALL`], it takes
    /// as long as a client waits.
    StopMiddle,
    /// It never reaches the server, which seems to refuse who asks (403); not one of [`Self::ALL`], it happens where
    /// [`HttpProxy::spoil`] says so.
    Refuse,
}

impl Fault {
    /// Those that a client can notice by itself.
    pub const ALL: [Self; 7] = [
        Self::Error,
        Self::Stall,
        Self::CutBefore,
        Self::CutAfter,
        Self::CutMiddle,
        Self::WebPage,
        Self::Short,
    ];
}

/// What is spoiled, and how often.
#[derive(Debug, Clone)]
pub struct HttpFaults {
    /// The same seed spoils the same requests, as far as they come in the same order.
    pub seed: u64,
    /// Of a hundred requests, how many.
    pub percent: u64,
    /// How long a stalled request waits.
    pub stall: Duration,
    /// Which faults there are.
    pub kinds: Vec<Fault>,
}

impl Default for HttpFaults {
    fn default() -> Self {
        Self { seed: 1, percent: 20, stall: Duration::from_secs(5), kinds: Fault::ALL.to_vec() }
    }
}

/// A way to an HTTP server on which requests are spoiled.
#[derive(Debug)]
pub struct HttpProxy {
    front: TcpProxy,
    spoiler: Arc<Spoiler>,
    runtime: Option<Runtime>,
}

impl HttpProxy {
    /// Opens a way to `server` at a free port.
    pub fn start(server: SocketAddr, faults: HttpFaults) -> Self {
        let runtime = in_process::runtime();
        let listener = in_process::listen(&runtime, 0);
        let front = TcpProxy::start(listener.local_addr().unwrap());
        let spoiler = Arc::new(Spoiler {
            server,
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
            random: Mutex::new(Random::new(faults.seed)),
            faults,
            requests: AtomicU64::new(0),
            counts: Default::default(),
            chosen: Mutex::default(),
        });
        let shared = Arc::clone(&spoiler);
        runtime.spawn(accept(listener, move |connection| {
            let spoiler = Arc::clone(&shared);
            async move {
                let service = service_fn(move |request| Arc::clone(&spoiler).serve(request));
                let http = hyper::server::conn::http1::Builder::new();
                // A connection that is cut ends with an error.
                let _ = http.serve_connection(TokioIo::new(connection), service).await;
            }
        }));
        Self { front, spoiler, runtime: Some(runtime) }
    }

    /// Where programs connect.
    pub fn address(&self) -> SocketAddr {
        self.front.address()
    }

    /// The URL that clients call their endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// As [`TcpProxy::cut_off`].
    pub fn cut_off(&self) {
        self.front.cut_off();
    }

    /// As [`TcpProxy::restore`].
    pub fn restore(&self) {
        self.front.restore();
    }

    /// Refuses from now on what [`spoil`](Self::spoil) says.
    pub fn refuse(&self, what: &str) {
        self.spoil(what, Fault::Refuse);
    }

    /// Lets every request meet `fault` from now on that begins like `what`: a method, and a path (`GET /bucket/key`); or a
    /// path alone (`/bucket`), whatever the method. Empty: everything.
    pub fn spoil(&self, what: &str, fault: Fault) {
        *self.spoiler.chosen.lock().unwrap() = Some((what.to_owned(), fault));
    }

    /// Spoils no more requests than its share.
    pub fn accept(&self) {
        *self.spoiler.chosen.lock().unwrap() = None;
    }

    /// Requests that came, spoiled or not.
    pub fn requests(&self) -> u64 {
        self.spoiler.requests.load(Ordering::Relaxed)
    }

    /// How often `fault` happened.
    pub fn count(&self, fault: Fault) -> u64 {
        self.spoiler.counts[fault as usize].load(Ordering::Relaxed)
    }

    /// How often any fault happened.
    pub fn faults(&self) -> u64 {
        self.spoiler.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type Answer = Response<BoxBody<Bytes, Cut>>;

/// Ends a connection.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for Cut {}

#[derive(Debug)]
struct Spoiler {
    server: SocketAddr,
    client: Client<HttpConnector, Incoming>,
    faults: HttpFaults,
    random: Mutex<Random>,
    requests: AtomicU64,
    counts: [AtomicU64; Fault::ALL.len() + 3],
    /// What requests begin with that meet a fault, and which.
    chosen: Mutex<Option<(String, Fault)>>,
}

impl Spoiler {
    fn choose(&self) -> Option<Fault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut random = self.random.lock().unwrap();
        let spoiled = random.below(100) < self.faults.percent && !self.faults.kinds.is_empty();
        spoiled.then(|| self.faults.kinds[random.below(self.faults.kinds.len() as u64) as usize])
    }

    fn count(&self, fault: Fault) {
        self.counts[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    async fn serve(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, Cut> {
        let begin = format!("{} {}", request.method(), request.uri().path());
        let chosen = self.chosen.lock().unwrap().clone();
        let path = request.uri().path();
        let chosen = chosen.filter(|(what, _)| begin.starts_with(what) || path.starts_with(what));
        let fault = chosen.map_or_else(|| self.choose(), |(_, fault)| Some(fault));
        match fault {
            // Counted where it is known that there is something to spoil.
            Some(Fault::Short | Fault::Flip) | None => {}
            Some(fault) => self.count(fault),
        }
        match fault {
            Some(Fault::Error) => {
                let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed());
                *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                return Ok(answer);
            }
            Some(Fault::Refuse) => {
                let said = "<Error><Code>AccessDenied</Code><Message>told to refuse</Message></Error>";
                let said = Bytes::from_static(said.as_bytes());
                let mut answer =
                    Response::new(BodyExt::boxed(Full::new(said).map_err(|never| match never {})));
                *answer.status_mut() = StatusCode::FORBIDDEN;
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
                return Ok(answer);
            }
            Some(Fault::CutBefore) => return Err(Cut),
            Some(Fault::Stall) => tokio::time::sleep(self.faults.stall).await,
            Some(Fault::WebPage) => {
                let page = Bytes::from_static(b"<html><p>It works!</p></html>");
                let mut answer =
                    Response::new(BodyExt::boxed(Full::new(page).map_err(|never| match never {})));
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
                return Ok(answer);
            }
            Some(Fault::CutAfter | Fault::CutMiddle | Fault::StopMiddle | Fault::Short | Fault::Flip)
            | None => {}
        }
        let reads = request.method() == Method::GET;
        let answer = self.forward(request).await?;
        match fault {
            Some(fault @ (Fault::CutAfter | Fault::CutMiddle | Fault::StopMiddle)) => {
                let (head, body) = answer.into_parts();
                let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
                if fault == Fault::CutAfter || body.is_empty() {
                    return Err(Cut);
                }
                // The head promises the whole.
                let half = Ok(Frame::data(body.slice(..body.len() / 2)));
                // Later than the half, which would otherwise never leave.
                let cut = stream::once(async move {
                    let stop =
                        if fault == Fault::StopMiddle { Duration::MAX } else { Duration::from_millis(20) };
                    tokio::time::sleep(stop).await;
                    Err(Cut)
                });
                let spoiled = StreamBody::new(stream::iter([half]).chain(cut));
                let mut answer = Response::from_parts(head, BodyExt::boxed(spoiled));
                answer.headers_mut().insert(CONTENT_LENGTH, body.len().into());
                Ok(answer)
            }
            Some(Fault::Short) if answer.status() == StatusCode::PARTIAL_CONTENT => {
                self.change(Fault::Short, answer, |body| body.truncate(body.len() / 2)).await
            }
            Some(Fault::Flip) if reads && answer.status().is_success() => {
                let at = self.random.lock().unwrap().below(u64::MAX);
                let flip = |body: &mut Vec<u8>| {
                    let bits = body.len() as u64 * 8;
                    body[(at % bits / 8) as usize] ^= 1 << (at % 8);
                };
                self.change(Fault::Flip, answer, flip).await
            }
            _ => Ok(answer.map(|body| body.map_err(|_| Cut).boxed())),
        }
    }

    /// An answer with another body, and everything else as it was but the length.
    async fn change(
        &self,
        fault: Fault,
        answer: Response<Incoming>,
        change: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Answer, Cut> {
        let (mut head, body) = answer.into_parts();
        let mut body = body.collect().await.map_err(|_| Cut)?.to_bytes().to_vec();
        if body.len() > 1 {
            self.count(fault);
            change(&mut body);
        }
        head.headers.insert(CONTENT_LENGTH, body.len().into());
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
        Ok(Response::from_parts(head, BodyExt::boxed(body)))
    }

    /// The host that the client named stays as it is: it is part of what the client signed.
    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<Incoming>, Cut> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = Uri::builder()
            .scheme("http")
            .authority(self.server.to_string())
            .path_and_query(path)
            .build()
            .map_err(|_| Cut)?;
        self.client.request(request).await.map_err(|_| Cut)
    }
}
