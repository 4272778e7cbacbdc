//! A server of the program under test, and a client for it that sends exactly what a test says.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpSocket;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::servers::{Certificates, free_port};
use super::{Job, Live};

/// A server that runs.
#[derive(Debug)]
pub struct Web {
    /// The program.
    pub program: Live,
    /// Its address, as `http://127.0.0.1:PORT`.
    pub url: String,
    /// The link that it printed.
    pub link: String,
    address: SocketAddr,
    /// What a request names as its host.
    host: String,
    /// The certificate of the authority that the server's is of, where it speaks TLS.
    authority: Option<PathBuf>,
    token: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, of an answer with this status.
    #[track_caller]
    pub fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Web {
    /// Serves the jobs of `job`'s folder, at a port that is free.
    #[track_caller]
    pub fn start(job: &Job, more: &[&str]) -> Self {
        Self::start_at(job, 0, more)
    }

    /// The same at this port; 0 is any.
    #[track_caller]
    pub fn start_at(job: &Job, port: u16, more: &[&str]) -> Self {
        let listen = format!("127.0.0.1:{port}");
        let arguments = [&["serve", "--listen", &listen, "-o", "json"], more].concat();
        let mut program = job.start(&arguments);
        program.wait_until_printed("\n");
        let record: Value = serde_json::from_str(&program.stdout()).expect("the record of a server");
        let url = record["url"].as_str().expect("an address").to_owned();
        let address: SocketAddr = url.trim_start_matches("http://").parse().expect("a socket address");
        let link = record["link"].as_str().unwrap_or_default().to_owned();
        let host = address.to_string();
        Self { program, url, link, address, host, authority: None, token: String::new() }
    }

    /// As [`Web::start`], and requests are those of a program of the server's user: with the secret that the server tells
    /// in the folder of [`Job::with_runtime_folder`].
    #[track_caller]
    pub fn of_user(job: &Job, more: &[&str]) -> Self {
        let mut web = Self::start(job, more);
        web.take_secret(job);
        web
    }

    /// Ends it as `kill -9` does, and starts another at its port, which is shown the same token.
    #[track_caller]
    #[must_use]
    pub fn killed_and_restarted(self, job: &Job, more: &[&str]) -> Self {
        let (port, token) = (self.port(), self.token);
        assert!(self.program.kill(), "the server ran");
        Self { token, ..Self::start_at(job, port, more) }
    }

    /// From here on requests have the secret that the server tells.
    fn take_secret(&mut self, job: &Job) {
        let file = job.path("runtime").join(format!("prs/serve-{}.json", self.port()));
        let told = std::fs::read(file).expect("the server tells of itself");
        let told: Value = serde_json::from_slice(&told).expect("what a server tells of itself");
        self.set_token(told["token"].as_str().expect("a secret"));
    }

    /// Serves the jobs of `job`'s folder for other machines, under the name `localhost` and at a port that is free: with these
    /// `certificates`, or in the clear.
    #[track_caller]
    pub fn for_others(job: &Job, certificates: Option<&Certificates>, more: &[&str]) -> Self {
        let port = free_port();
        let listen = format!("0.0.0.0:{port}");
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://localhost:{port}");
        let mut arguments = vec!["serve", "--listen", &listen, "--url", &url, "-o", "json"];
        let files =
            certificates.map(|of| (of.certificate.display().to_string(), of.key.display().to_string()));
        match &files {
            Some((certificate, key)) => arguments.extend(["--tls-cert", certificate, "--tls-key", key]),
            None => arguments.push("--insecure-http"),
        }
        arguments.extend(more);
        let mut program = job.start(&arguments);
        program.wait_until_printed("\n");
        let record: Value = serde_json::from_str(&program.stdout()).expect("the record of a server");
        assert_eq!((&record["url"], &record["link"]), (&Value::from(url.as_str()), &Value::Null));
        Self {
            program,
            url,
            link: String::new(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            host: format!("localhost:{port}"),
            authority: certificates.map(|of| of.authority.clone()),
            token: String::new(),
        }
    }

    /// The port that it listens at.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From here on the server's certificate is one of these.
    pub fn trust(&mut self, certificates: &Certificates) {
        self.authority = Some(certificates.authority.clone());
    }

    /// From here on requests go to this port of the program.
    pub fn ask_at(&mut self, port: u16) {
        self.address.set_port(port);
    }

    /// From here on requests have this token.
    pub fn set_token(&mut self, token: &str) {
        token.clone_into(&mut self.token);
    }

    /// The token that requests have.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The answer to a request that has these headers, and no others but the host, the token and the length.
    #[track_caller]
    pub fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let mut all: Vec<(&str, String)> =
            headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            all.push(("Host", self.host.clone()));
        }
        if !self.token.is_empty() {
            all.push(("Authorization", format!("Bearer {}", self.token)));
        }
        if !body.is_empty() {
            all.push(("Content-Length", body.len().to_string()));
        }
        for (name, value) in all {
            text.extend([name, ": ", &value, "\r\n"]);
        }
        text.extend(["\r\n", body]);
        parse(&self.exchange(text.as_bytes()))
    }

    /// The answer to a request with a body that may be no text.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_send(method, path, headers, body).expect("the server answers")
    }

    /// The same; nothing where the server ends without a word.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Answer> {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nHost: {}\r\n", self.address);
        if !self.token.is_empty() {
            request.extend(["Authorization: Bearer ", &self.token, "\r\n"]);
        }
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            request.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
        }
        for (name, value) in headers {
            request.extend([*name, ": ", *value, "\r\n"]);
        }
        request.push_str("\r\n");
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        // It may answer before it has read all.
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        (!answer.is_empty()).then(|| parse(&answer))
    }

    /// The answer to `GET`.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.ask_with("GET", path, &[], "")
    }

    /// The answer to `GET` with another token.
    #[track_caller]
    pub fn ask_as(&self, token: &str, path: &str) -> Answer {
        let request = format!(
            "GET {path} HTTP/1.1\r\nConnection: close\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            self.host
        );
        parse(&self.exchange(request.as_bytes()))
    }

    /// The page that a browser gets.
    #[track_caller]
    pub fn page(&self, path: &str) -> Answer {
        self.ask_with("GET", path, &[("Accept", "text/html")], "")
    }

    /// All that the server says to these bytes, until it closes the connection.
    #[track_caller]
    pub fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        match &self.authority {
            None => whole_answer(&mut stream, request),
            Some(authority) => whole_answer(&mut with_tls(stream, authority), request),
        }
    }

    /// A connection on which nothing was said yet.
    #[track_caller]
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("the server listens")
    }

    /// The answer to a request that comes from another loopback address, such as 127.0.0.2.
    #[track_caller]
    pub fn ask_from(
        &self,
        source: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let source: IpAddr = source.parse().expect("an address");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(SocketAddr::new(source, 0)).expect("an address of this machine");
            socket.connect(self.address).await.expect("the server listens").into_std().expect("a stream")
        });
        stream.set_nonblocking(false).expect("a stream that waits");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text.extend(["Host: ", &self.host, "\r\n"]);
        }
        for (name, value) in headers {
            text.extend([*name, ": ", *value, "\r\n"]);
        }
        text.extend(["Content-Length: ", &body.len().to_string(), "\r\n\r\n", body]);
        let mut stream = stream;
        parse(&whole_answer(&mut stream, text.as_bytes()))
    }
}

#[track_caller]
fn whole_answer(stream: &mut (impl Read + Write), request: &[u8]) -> Vec<u8> {
    stream.write_all(request).expect("the server reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the server answers");
    answer
}

/// A connection with TLS to the server of the name `localhost`, whose certificate is of this authority.
fn with_tls(stream: TcpStream, authority: &Path) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(authority).expect("a certificate");
    roots.add(authority).expect("a certificate of an authority");
    // Named, because other crates may bring another one along.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions that it knows");
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(connection, stream)
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);

#[track_caller]
fn parse(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer with headers");
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<_> = lines.filter_map(header).collect();
    let mut body = answer[end + 4..].to_vec();
    if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
        body = unchunked(&body);
    }
    Answer { status, headers, body }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let size =
            std::str::from_utf8(&body[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(size) = size.filter(|size| *size > 0) else { break };
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
    whole
}
