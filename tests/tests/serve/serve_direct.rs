//! Files that go past a server, by URLs that it signs for the storage behind it.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prs_common::hexadecimal;
use prs_tests::harness::{Fleet, Job, Web};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const SCRIPT: &str = "import os\ndef run(batch): return [os.path.basename(path) for path in batch]\n";

/// What a server says to a request for a URL: the status, and all of the answer.
fn asked(method: &str, url: &str, headers: &[(String, String)], body: &[u8]) -> (u16, String) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let mut request = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    if method == "PUT" {
        request.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
    }
    let own = ["host", "content-length"];
    for (name, value) in headers.iter().filter(|(name, _)| !own.contains(&name.to_lowercase().as_str())) {
        request.extend([name, ": ", value, "\r\n"]);
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

fn token(job: &Job, words: &[&str]) -> String {
    let made = job.command(&[&["token", "create", "t"], words, &["-o", "json"]].concat());
    made.json()["secret"].as_str().unwrap().to_owned()
}

fn missing(web: &Web, bytes: &[u8]) -> Value {
    let blob = json!({ "sha256": hexadecimal(&Sha256::digest(bytes)), "bytes": bytes.len() });
    let body = json!({ "blobs": [blob] }).to_string();
    web.send("POST", "/api/v1/uploads/missing", &[JSON], body.as_bytes()).json(200)["missing"].clone()
}

fn headers_of(one: &Value) -> Vec<(String, String)> {
    let headers = one["upload_headers"].as_object().unwrap();
    headers.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

#[test]
fn results_come_straight_from_the_storage() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(SCRIPT).with_files(3));
    let _worker = fleet.worker(&job, &[]);
    let id = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    let secret = token(&job, &["--role", "read"]);
    let mut web = Web::start(&job, &["--direct-downloads"]);
    web.set_token(&secret);
    let at = format!("/api/v1/jobs/{id}/result");
    let sent_on = web.get(&at);
    assert_eq!(
        (sent_on.status, sent_on.header("cache-control")),
        (307, Some("no-store")),
        "{}",
        sent_on.text()
    );
    let url = sent_on.header("location").unwrap();
    let (status, answer) = asked("GET", url, &[], b"");
    assert_eq!(status, 200, "{answer}");
    assert!(answer.ends_with("0000.txt\n0001.txt\n0002.txt\n"), "{answer}");
    assert!(answer.to_lowercase().contains("content-disposition: attachment; filename*=utf-8''"), "{answer}");
    let range = [("Range".to_owned(), "bytes=9-16".to_owned())];
    let (status, answer) = asked("GET", url, &range, b"");
    assert!(status == 206 && answer.ends_with("0001.txt"), "{answer}");
    // It is signed for this one object.
    let other = url.replacen(&id, "another", 1);
    assert_eq!(asked("GET", &other, &[], b"").0, 403);
    // Who looks gets headers here, and what is not there is told here.
    assert_eq!(web.ask_with("HEAD", &at, &[], "").status, 200);
    assert_eq!(web.get(&format!("/api/v1/jobs/{id}/outputs/absent")).status, 404);
    let name = web.get(&format!("/api/v1/jobs/{id}/outputs")).json(200)["value"][0]["path"].clone();
    assert_eq!(web.get(&format!("/api/v1/jobs/{id}/outputs/{}", name.as_str().unwrap())).status, 307);
    let mut plain = Web::start(&job, &[]);
    plain.set_token(&secret);
    assert_eq!(plain.get(&at).text(), "0000.txt\n0001.txt\n0002.txt\n");
}

#[test]
fn blobs_go_straight_to_the_storage() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(SCRIPT).with_files(1));
    let (submits, invokes) =
        (token(&job, &["--role", "submit"]), token(&job, &["--role", "invoke", "--endpoint", "e"]));
    let mut web = Web::start(&job, &["--direct-uploads"]);
    web.set_token(&submits);
    let blob = b"straight to the storage";
    let found = missing(&web, blob);
    let url = found[0]["upload_url"].as_str().unwrap();
    let headers = headers_of(&found[0]);
    let sum = STANDARD.encode(Sha256::digest(blob));
    assert!(url.contains("X-Amz-Signature") && format!("{found}").contains(&sum), "{found}");
    // Neither other bytes nor another name.
    let mut other = blob.to_vec();
    other[0] = b'S';
    let (status, answer) = asked("PUT", url, &headers, &other);
    assert!((400..500).contains(&status), "{answer}");
    assert_eq!(missing(&web, blob).as_array().unwrap().len(), 1, "nothing of it is there");
    assert_eq!(asked("PUT", &url.replacen("inputs", "inputt", 1), &headers, blob).0, 403);
    let (status, answer) = asked("PUT", url, &headers, blob);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(missing(&web, blob), json!([]));
    let path = format!("/api/v1/blobs/{}", hexadecimal(&Sha256::digest(blob)));
    assert_eq!(web.get(&path).body, blob);
    // Who chooses data and no code sends it to the server.
    web.set_token(&invokes);
    let found = missing(&web, b"of a call");
    assert_eq!((&found[0]["upload_url"], &found[0]["upload_headers"]), (&Value::Null, &json!({})));
}

#[test]
fn a_folder_has_no_such_urls() {
    let job = Job::new(SCRIPT).with_files(1);
    let runtime = job.path(".").display().to_string();
    let job = job.with_own_variable("XDG_RUNTIME_DIR", &runtime);
    job.completes();
    let mut web = Web::start(&job, &["--direct-downloads", "--direct-uploads"]);
    web.set_token(&token(&job, &["--role", "admin"]));
    assert_eq!(missing(&web, b"x")[0]["upload_url"], Value::Null);
}
