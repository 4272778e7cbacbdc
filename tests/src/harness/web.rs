//! A server of the program under test, and a client for it that sends exactly what a test says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

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
        let arguments = [&["serve", "--listen", "127.0.0.1:0", "-o", "json"], more].concat();
        let mut program = job.start(&arguments);
        program.wait_until_printed("\n");
        let record: Value = serde_json::from_str(&program.stdout()).expect("the record of a server");
        let url = record["url"].as_str().expect("an address").to_owned();
        let address = url.trim_start_matches("http://").parse().expect("a socket address");
        let link = record["link"].as_str().unwrap_or_default().to_owned();
        Self { program, url, link, address, token: String::new() }
    }

    /// The port that it listens at.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From here on requests have this token.
    pub fn set_token(&mut self, token: &str) {
        token.clone_into(&mut self.token);
    }

    /// The answer to a request that has these headers, and no others but the host, the token and the length.
    #[track_caller]
    pub fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let mut all: Vec<(&str, String)> =
            headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            all.push(("Host", self.address.to_string()));
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
        stream.write_all(request).expect("the server reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the server answers");
        answer
    }
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
