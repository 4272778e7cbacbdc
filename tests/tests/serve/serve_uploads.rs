//! Files that programs send to a server before the job, the call or the version that names them.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use prs_common::hexadecimal;
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, Web, host_of};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const BYTES: (&str, &str) = ("Content-Type", "application/octet-stream");
const PATIENCE: Duration = Duration::from_mins(2);
const SCRIPT: &str = "
import os
def run(mini_batch):
    return [f'{os.path.basename(path)},{open(path).read()}' for path in mini_batch]
";
const JOB: &str = "name: sent\nentry_script: score.py\ninputs: [{name: rows, type: file, path: rows}]\nmini_batch_size: 2\n";
const DEPLOYMENT: &str = "
type: model
model: {path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
";

fn job() -> Job {
    let job = Job::new("");
    for (name, text) in [("src/score.py", SCRIPT), ("model/weights", "one"), ("deployment.yml", DEPLOYMENT)] {
        let path = job.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::create_dir(job.path("runtime")).unwrap();
    let (runtime, cache) =
        (job.path("runtime").display().to_string(), job.path("cache").display().to_string());
    job.with_own_variable("XDG_RUNTIME_DIR", &runtime).with_own_variable("XDG_CACHE_HOME", &cache)
}

fn run(job: &Job, words: &str) -> String {
    let ended = job.command(&words.split_whitespace().collect::<Vec<_>>());
    ended.expect_code(0);
    ended.stdout
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &[])
}

fn digest(body: &[u8]) -> String {
    hexadecimal(&Sha256::digest(body))
}

fn put(web: &Web, name: &str, body: &[u8]) -> Answer {
    web.send("PUT", &format!("/api/v1/blobs/{name}"), &[BYTES], body)
}

fn post(web: &Web, path: &str, body: &Value) -> Answer {
    web.send("POST", path, &[JSON], body.to_string().as_bytes())
}

/// Sends a file, and gives its name.
fn sent(web: &Web, body: &[u8]) -> String {
    let name = digest(body);
    let status = put(web, &name, body).status;
    assert!([200, 201].contains(&status), "{status}");
    name
}

/// A manifest of these files, which are sent unless they are `kept` back.
fn manifest(web: &Web, files: &[(&str, &str)], kept: &str) -> String {
    let lines = files.iter().map(|(path, text)| {
        let body = text.as_bytes();
        if *text != kept {
            sent(web, body);
        }
        json!({ "path": path, "bytes": body.len(), "sha256": digest(body) }).to_string() + "\n"
    });
    sent(web, lines.collect::<String>().as_bytes())
}

/// The code of the job as an archive.
fn archive(job: &Job) -> Vec<u8> {
    let path = job.path("code.tar.gz");
    let made = std::process::Command::new("tar")
        .args(["czf", path.to_str().unwrap(), "-C", job.path("src").to_str().unwrap(), "."])
        .status();
    assert!(made.unwrap().success());
    fs::read(path).unwrap()
}

fn rows(web: &Web, id: &str) -> String {
    let ended = wait_for("the job ends", PATIENCE, || {
        let job = web.get(&format!("/api/v1/jobs/{id}")).json(200);
        ["completed", "failed", "canceled"].contains(&job["state"].as_str().unwrap()).then_some(job)
    });
    assert_eq!(ended["state"], "completed", "{ended}");
    web.get(&format!("/api/v1/jobs/{id}/result")).text()
}

fn submission(code: &str, manifest: &str) -> Value {
    json!({ "yaml": JOB, "code": { "archive_sha256": code }, "inputs": { "rows": { "manifest_sha256": manifest } } })
}

#[test]
fn a_blob_is_kept_where_it_is_what_its_name_says() {
    let job = job();
    let mut web = served(&job);
    let name = digest(b"rows");
    let ask = |web: &Web| {
        post(web, "/api/v1/uploads/missing", &json!({ "blobs": [{ "sha256": name, "bytes": 4 }] }))
    };
    assert_eq!(
        ask(&web).json(200)["missing"],
        json!([{ "sha256": name, "upload_url": null, "upload_headers": {} }])
    );
    let wrong = put(&web, &name, b"rows!").json(422);
    assert_eq!(wrong["type"], "/problems/digest-mismatch");
    assert_eq!(web.get(&format!("/api/v1/blobs/{name}")).status, 404);
    assert_eq!((put(&web, &name, b"rows").status, put(&web, &name, b"rows").status), (201, 200));
    assert_eq!(ask(&web).json(200)["missing"], json!([]));
    assert_eq!(put(&web, &name, b"cows").json(422)["type"], "/problems/digest-mismatch");
    assert_eq!(web.get(&format!("/api/v1/blobs/{name}")).text(), "rows");
    // One that is there is read to its end, so that the connection goes on; who waits to be told to send it need not.
    let large = vec![b'x'; 3 << 20];
    let large_name = sent(&web, &large);
    let token = run(&job, "token create again --role submit -q").trim().to_owned();
    let ahead = |more: &str| {
        format!(
            "PUT /api/v1/blobs/{large_name} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n{more}\r\n",
            web.port(),
            large.len()
        )
    };
    let one = [ahead("").into_bytes(), large.clone()].concat();
    let last = [ahead("Connection: close\r\n").into_bytes(), large.clone()].concat();
    let answers = String::from_utf8_lossy(&web.exchange(&[one, last].concat())).into_owned();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    let told = web.exchange(ahead("Expect: 100-continue\r\nConnection: close\r\n").as_bytes());
    assert!(told.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&told));
    let head = web.send("HEAD", &format!("/api/v1/blobs/{name}"), &[], b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some("4")));
    assert_eq!(web.get(&format!("/api/v1/blobs/{name}")).text(), "rows");
    for bad in ["abc", &name.to_uppercase(), "..%2f..%2fetc%2fpasswd"] {
        assert_eq!(put(&web, bad, b"x").status, 400, "{bad}");
    }
    assert_eq!(web.send("PUT", &format!("/api/v1/blobs/{name}"), &[JSON], b"x").status, 415);
    let large = json!({ "blobs": [{ "sha256": name, "bytes": (5_u64 << 30) + 1 }] });
    assert_eq!(post(&web, "/api/v1/uploads/missing", &large).status, 413);
    let many: Vec<Value> = (0..1001).map(|_| json!({ "sha256": name, "bytes": 4 })).collect();
    assert_eq!(post(&web, "/api/v1/uploads/missing", &json!({ "blobs": many })).status, 413);

    // Without its size, and broken off in the middle: nothing is kept.
    let other = digest(b"other");
    let token = run(&job, "token create sender --role invoke --endpoint * -q").trim().to_owned();
    let head = |more: &str| {
        format!(
            "PUT /api/v1/blobs/{other} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/octet-stream\r\nConnection: close\r\n{more}\r\n\r\n",
            web.port()
        )
    };
    let chunked = head("Transfer-Encoding: chunked") + "5\r\nother\r\n0\r\n\r\n";
    let answer = String::from_utf8_lossy(&web.exchange(chunked.as_bytes())).into_owned();
    assert!(answer.starts_with("HTTP/1.1 411"), "{answer}");
    let mut cut = web.connect();
    cut.write_all((head("Content-Length: 5") + "oth").as_bytes()).unwrap();
    cut.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = cut.read_to_end(&mut Vec::new());
    assert_eq!(web.get(&format!("/api/v1/blobs/{other}")).status, 404);
    web.set_token(&token);
    assert_eq!(put(&web, &other, b"other").status, 201);
    assert_eq!(web.get(&format!("/api/v1/blobs/{other}")).status, 403, "who calls endpoints reads no blobs");
}

#[test]
fn what_was_sent_becomes_code_inputs_and_versions() {
    let job = job();
    let web = served(&job);
    let code = sent(&web, &archive(&job));
    let files = [("a.txt", "1"), ("sub/b.txt", "2"), ("sub/c.txt", "3")];
    let held_back = manifest(&web, &files, "3");
    let refused = post(&web, "/api/v1/jobs", &submission(&code, &held_back)).json(422);
    assert_eq!(refused["type"], "/problems/upload-missing");
    let [error] = &refused["errors"].as_array().unwrap()[..] else { panic!("{refused}") };
    assert_eq!(
        (&error["key"], &error["pointer"]),
        (&json!(digest(b"3")), &json!("#/inputs/rows/manifest_sha256"))
    );
    let absent = post(&web, "/api/v1/jobs", &submission(&"0".repeat(64), &held_back)).json(422);
    assert_eq!(absent["errors"][0]["pointer"], "#/code/archive_sha256");
    let all = manifest(&web, &files, "");
    assert_eq!(all, held_back, "a manifest is named by what it says");
    let made = post(&web, "/api/v1/jobs", &submission(&code, &all)).json(201);
    let lines = rows(&web, made["job_id"].as_str().unwrap());
    assert_eq!(lines, "a.txt,1\nb.txt,2\nc.txt,3\n");
    for (wrong, status) in [
        (json!({ "rows": { "manifest_sha256": code } }), 422),
        (json!({ "rows": { "manifest_sha256": "abc" } }), 400),
        (json!({ "other": { "manifest_sha256": all } }), 422),
        (json!({ "../x": { "manifest_sha256": all } }), 422),
        (json!({ "rows": { "sha256": all } }), 400),
    ] {
        let mut body = submission(&code, &all);
        body["inputs"] = wrong;
        assert_eq!(post(&web, "/api/v1/jobs", &body).status, status, "{body}");
    }

    // A call of an endpoint, and versions.
    run(&job, "endpoint create -n hearts");
    run(&job, "deployment create -f deployment.yml -e hearts -n xgb");
    let one = manifest(&web, &[("only.csv", "7")], "");
    for (input, expected) in [
        (json!({ "manifest_sha256": all }), "a.txt,1\nb.txt,2\nc.txt,3\n"),
        (json!({ "manifest_sha256": one, "type": "uri_file" }), "only.csv,7\n"),
    ] {
        let call = json!({ "inputs": { "data": input } });
        let called = post(&web, "/api/v1/endpoints/hearts/invoke", &call).json(202);
        assert_eq!(rows(&web, called["job_id"].as_str().unwrap()), expected, "{call}");
    }
    let data = json!({ "type": "uri_folder", "path": { "manifest_sha256": all } });
    let data = post(&web, "/api/v1/registry/data/sent/versions", &data).json(201);
    assert!(data["content"].is_string(), "{data}");
    let file = json!({ "type": "uri_file", "path": { "manifest_sha256": one } });
    post(&web, "/api/v1/registry/data/one/versions", &file).json(201);
    let weights = manifest(&web, &[("model/weights", "two"), ("model/more/x", "3")], "");
    let model = json!({ "path": { "manifest_sha256": weights } });
    let model = post(&web, "/api/v1/registry/models/sent/versions", &model).json(201);
    assert!(!model["given"].as_str().unwrap().contains('/'), "{model}");
    let listed = web.get("/api/v1/registry/models/sent/versions/1/files").json(200);
    let paths: Vec<&str> =
        listed["value"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["model/more/x", "model/weights"]);
}

/// Makes files below `folder` look as if they had been written `days` days ago.
fn age(folder: &Path, days: u64) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            age(&entry.path(), days);
        } else {
            let at = SystemTime::now() - Duration::from_hours(24 * days);
            fs::File::open(entry.path()).unwrap().set_modified(at).unwrap();
        }
    }
}

#[test]
fn what_nothing_needs_goes_after_a_while_and_nothing_that_was_asked_for() {
    let job = job();
    let web = served(&job);
    let (wanted, old) = (sent(&web, b"wanted"), sent(&web, b"old"));
    let there = |name: &str| web.get(&format!("/api/v1/blobs/{name}")).status == 200;
    let registry = job.path("prs-runs/.registry");
    age(&registry.join("inputs"), 3);
    run(&job, "gc --yes");
    assert!(there(&wanted) && there(&old), "they were sent today");
    age(&registry.join("uploads"), 3);
    let ask = json!({ "blobs": [{ "sha256": wanted, "bytes": 6 }] });
    assert_eq!(post(&web, "/api/v1/uploads/missing", &ask).json(200)["missing"], json!([]));
    let shown = run(&job, "gc");
    assert!(shown.contains("1 uploaded file that no job names"), "{shown}");
    run(&job, "gc --yes");
    assert!(there(&wanted) && !there(&old));
}

#[test]
fn a_fleet_takes_what_was_sent_to_one_server_at_another() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let _worker = fleet.worker_with(&job, &[], &host_of(&job, &job.path("worker-cache")));
    let (one, other) = (served(&job), served(&job));
    let code = sent(&one, &archive(&job));
    let all = manifest(&other, &[("x.txt", "fleet-1"), ("y.txt", "fleet-2")], "");
    let made = post(&one, "/api/v1/jobs", &submission(&code, &all)).json(201);
    assert_eq!(rows(&other, made["job_id"].as_str().unwrap()), "x.txt,fleet-1\ny.txt,fleet-2\n");
    let model = manifest(&one, &[("model/weights", "of a fleet")], "");
    let model = json!({ "path": { "manifest_sha256": model } });
    post(&other, "/api/v1/registry/models/sent-to-fleet/versions", &model).json(201);
    let path = "/api/v1/registry/models/sent-to-fleet/versions/1/files/model/weights";
    assert_eq!(one.get(path).text(), "of a fleet");
}
