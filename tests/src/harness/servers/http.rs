//! An HTTP server with files, inside the test's process, which behaves as the servers of the world do: some without HEAD,
//! ranges, lengths or `ETag`s, some busy, slow or cut off, some that lead elsewhere. Also a container of Azure's blob storage,
//! and a proxy to all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Runtime;

use super::certificates::Certificates;
use super::in_process::{listen, runtime};

/// Files in one page of a listing.
const PAGE: usize = 2;

/// How the server departs from what is best, for one file.
#[derive(Debug, Clone)]
pub enum HttpFault {
    /// HEAD is refused with 405.
    NoHead,
    /// `Range` is not looked at.
    NoRanges,
    /// No `Content-Length`: the body comes in chunks.
    NoLength,
    /// Neither an `ETag` nor a time of change.
    NoVersion,
    /// Weak `ETag`s.
    WeakVersion,
    /// HEAD tells this length.
    WrongLength(u64),
    /// So many requests by GET get 503.
    Busy(u32),
    /// So many answers to GET end after so many bytes of the body.
    Cut(u32, usize),
    /// So many answers to GET say nothing more after so many bytes of the body.
    Silent(u32, usize),
    /// The answer has this status.
    Status(u16),
    /// It leads there.
    Redirect(String),
    /// Only these credentials see it, `user:password` in base64.
    Password(String),
    /// After so many requests by GET it is another file.
    Changes(u32, Vec<u8>),
    /// It is said to be compressed.
    Encoding(String),
}

/// A request, as it came.
#[derive(Debug, Clone)]
pub struct HttpSeen {
    /// Its method.
    pub method: String,
    /// What it asked for, as it stands in the first line.
    pub target: String,
    /// Its headers, in lower case.
    pub headers: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, (Vec<u8>, u32)>,
    faults: BTreeMap<String, Vec<HttpFault>>,
    seen: Vec<HttpSeen>,
    versions: u32,
}

/// The server.
#[derive(Debug)]
pub struct HttpServer {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    certificates: Option<(Certificates, TempDir)>,
    runtime: Option<Runtime>,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl HttpServer {
    /// Starts one without files.
    pub fn start() -> Self {
        Self::begin(None)
    }

    /// Starts one that speaks TLS, with a certificate for `localhost` of an [authority](Self::authority) that nobody knows.
    pub fn start_with_tls() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::begin(Some((Certificates::make(folder.path()), folder)))
    }

    fn begin(certificates: Option<(Certificates, TempDir)>) -> Self {
        let runtime = runtime();
        let listener = listen(&runtime, 0);
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let acceptor = certificates.as_ref().map(|(certificates, _)| certificates.acceptor());
        let shared = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (state, acceptor) = (Arc::clone(&shared), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(socket, state).await,
                        Some(acceptor) => match acceptor.accept(socket).await {
                            Ok(socket) => serve(socket, state).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { state, address, certificates, runtime: Some(runtime) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of the authority that has signed its own.
    pub fn authority(&self) -> PathBuf {
        self.certificates.as_ref().expect("it speaks TLS").0.authority.clone()
    }

    /// The URL of a file.
    pub fn url(&self, path: &str) -> String {
        let port = self.address.port();
        match self.certificates {
            Some(_) => format!("https://localhost:{port}/{path}"),
            None => format!("http://127.0.0.1:{port}/{path}"),
        }
    }

    /// Puts a file at `path`, another version than before.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state();
        state.versions += 1;
        let version = state.versions;
        state.files.insert(path.to_owned(), (bytes.into(), version));
    }

    /// Has `path` behave so, beside what it did before.
    pub fn fault(&self, path: &str, fault: HttpFault) {
        self.state().faults.entry(path.to_owned()).or_default().push(fault);
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<HttpSeen> {
        self.state().seen.clone()
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.state().seen.clear();
    }
}

/// What one answer is.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Bytes of the body after which it ends, and whether it says nothing more then instead.
    ends: Option<(usize, bool)>,
    in_chunks: bool,
}

impl Answer {
    fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), ends: None, in_chunks: false }
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

async fn serve(mut socket: impl AsyncRead + AsyncWrite + Unpin, state: Arc<Mutex<State>>) -> Option<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.ok()?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let seen = HttpSeen { method, target, headers };
        let answer = {
            let mut state = state.lock().unwrap();
            state.seen.push(seen.clone());
            answer(&mut state, &seen)
        };
        let mut text = format!("HTTP/1.1 {} Test\r\n", answer.status);
        for (name, value) in &answer.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let has_length = answer.headers.iter().any(|(name, _)| name == "content-length");
        if answer.in_chunks {
            text += "transfer-encoding: chunked\r\n";
        } else if !has_length {
            let _ = write!(text, "content-length: {}\r\n", answer.body.len());
        }
        text += "\r\n";
        socket.write_all(text.as_bytes()).await.ok()?;
        if seen.method == "HEAD" {
            continue;
        }
        let end = answer.ends.map_or(answer.body.len(), |(after, _)| after.min(answer.body.len()));
        for piece in answer.body[..end].chunks(64 << 10) {
            if answer.in_chunks {
                socket.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await.ok()?;
            }
            socket.write_all(piece).await.ok()?;
            if answer.in_chunks {
                socket.write_all(b"\r\n").await.ok()?;
            }
        }
        socket.flush().await.ok()?;
        match answer.ends {
            None if answer.in_chunks => socket.write_all(b"0\r\n\r\n").await.ok()?,
            None => {}
            Some((_, true)) => {
                tokio::time::sleep(Duration::from_mins(10)).await;
                return None;
            }
            Some((_, false)) => {
                let _ = socket.shutdown().await;
                return None;
            }
        }
    }
}

/// Takes one from a count; false where none is left.
fn take(left: &mut u32) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

fn answer(state: &mut State, seen: &HttpSeen) -> Answer {
    // A proxy is asked by the whole URL.
    let target = match seen.target.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => seen.target.trim_start_matches('/'),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if query.contains("comp=list") {
        return listing(state, path, query);
    }
    let is_get = seen.method == "GET";
    let versions = state.versions + 1;
    let (mut has_ranges, mut in_chunks, mut has_version, mut mark) = (true, false, true, "");
    let (mut ends, mut length, mut encoding) = (None, None, None);
    let mut changed = None;
    for fault in state.faults.get_mut(path).into_iter().flatten() {
        match fault {
            HttpFault::NoHead if !is_get => return Answer::of(405, ""),
            HttpFault::NoHead => {}
            HttpFault::NoRanges => has_ranges = false,
            HttpFault::NoLength => in_chunks = true,
            HttpFault::NoVersion => has_version = false,
            HttpFault::WeakVersion => mark = "W/",
            HttpFault::WrongLength(told) => length = Some(*told).filter(|_| !is_get),
            HttpFault::Busy(left) => {
                if is_get && take(left) {
                    return Answer::of(503, "busy").with("retry-after", "0");
                }
            }
            HttpFault::Cut(left, after) => ends = ends.or((is_get && take(left)).then_some((*after, false))),
            HttpFault::Silent(left, after) => {
                ends = ends.or((is_get && take(left)).then_some((*after, true)));
            }
            HttpFault::Status(status) => return Answer::of(*status, "no"),
            HttpFault::Redirect(to) => return Answer::of(302, "").with("location", to.clone()),
            HttpFault::Password(expected) => {
                if seen.headers.get("authorization") != Some(&format!("Basic {expected}")) {
                    return Answer::of(401, "who");
                }
            }
            HttpFault::Changes(left, bytes) => {
                if is_get && !take(left) {
                    changed = Some(std::mem::take(bytes));
                }
            }
            HttpFault::Encoding(given) => encoding = Some(given.clone()),
        }
    }
    if let Some(bytes) = changed.filter(|bytes| !bytes.is_empty()) {
        state.versions = versions;
        state.files.insert(path.to_owned(), (bytes, versions));
    }
    let Some((bytes, version)) = state.files.get(path) else { return Answer::of(404, "nothing here") };
    let etag = format!("{mark}\"v{version}\"");
    let header = |name: &str| seen.headers.get(name);
    if header("if-match").is_some_and(|wanted| *wanted != etag) {
        return Answer::of(412, "");
    }
    let size = bytes.len();
    let range = header("range").filter(|_| has_ranges).and_then(|range| {
        let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
        let end = if end.is_empty() { size } else { size.min(end.parse::<usize>().ok()? + 1) };
        Some((start.parse::<usize>().ok()?, end))
    });
    let mut answer = match range {
        Some((start, _)) if start >= size => {
            Answer::of(416, "").with("content-range", format!("bytes */{size}"))
        }
        Some((start, end)) => {
            let told = format!("bytes {start}-{}/{size}", end - 1);
            Answer::of(206, &bytes[start..end]).with("content-range", told)
        }
        None => Answer::of(200, bytes.clone()),
    };
    if has_version {
        answer = answer.with("etag", etag).with("last-modified", "Mon, 02 Nov 2026 10:00:00 GMT");
    }
    if let Some(encoding) = encoding {
        answer = answer.with("content-encoding", encoding);
    }
    if let Some(length) = length {
        answer = answer.with("content-length", length.to_string());
    }
    (answer.ends, answer.in_chunks) = (ends, in_chunks);
    answer
}

/// A page of a container, as Azure's blob storage writes it.
fn listing(state: &State, container: &str, query: &str) -> Answer {
    let value = |key: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).map_or("", |(_, value)| value).replace("%20", " ")
    };
    let (prefix, marker) = (value("prefix"), value("marker"));
    let names = state.files.iter().filter_map(|(path, (bytes, version))| {
        let name = path.strip_prefix(container)?.strip_prefix('/')?.replace("%20", " ");
        (name.starts_with(&prefix) && name > marker).then_some((name, bytes.len(), *version))
    });
    let names: Vec<_> = names.collect();
    let mut page =
        String::from("\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs>");
    for (name, size, version) in names.iter().take(PAGE) {
        let _ = write!(
            page,
            "<Blob><Name>{name}</Name><Properties><Last-Modified>Mon, 02 Nov 2026 10:00:00 GMT</Last-Modified>\
             <Etag>v{version}</Etag><Content-Length>{size}</Content-Length></Properties></Blob>"
        );
    }
    let next = if names.len() > PAGE { names[PAGE - 1].0.as_str() } else { "" };
    let _ = write!(page, "</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>");
    Answer::of(200, page).with("content-type", "application/xml")
}
