//! Connections to a server: one that asks again and again, and one that follows a stream of events.

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// A connection that stays open.
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    host: String,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Failed> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string() })
    }

    /// The beginning of an answer.
    pub(crate) async fn begin(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response<Incoming>, Failed> {
        let mut request = Request::get(path).header("host", &self.host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Empty::new())?).await?)
    }

    /// A whole answer: its status, its tag and its body.
    pub(crate) async fn get(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(u16, String, Bytes), Failed> {
        let answer = self.begin(path, headers).await?;
        let status = answer.status().as_u16();
        let tag =
            answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, tag, body))
    }
}

/// When events of one name came on a stream, until `until`. The connection ends with it.
pub(crate) async fn events(
    address: SocketAddr,
    path: String,
    name: &'static str,
    until: Instant,
) -> Result<Vec<Instant>, Failed> {
    let mut connection = Connection::open(address).await?;
    let answer = connection.begin(&path, &[("accept", "text/event-stream")]).await?;
    if answer.status() != 200 {
        return Err(format!("{path}: {}", answer.status()).into());
    }
    let mut body = answer.into_body();
    let wanted = format!("event: {name}");
    let mut came = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(frame) = tokio::time::timeout(left.max(Duration::from_millis(1)), body.frame()).await else {
            return Ok(came);
        };
        let Some(frame) = frame else { return Ok(came) };
        // What begins an event is in its first frame.
        if frame?.data_ref().is_some_and(|data| contains(data, wanted.as_bytes())) {
            came.push(Instant::now());
        }
        if left.is_zero() {
            return Ok(came);
        }
    }
}

fn contains(data: &[u8], wanted: &[u8]) -> bool {
    data.windows(wanted.len()).any(|window| window == wanted)
}
