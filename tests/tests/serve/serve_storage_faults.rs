//! A server whose storage fails: it refuses, breaks, is slow, or stops in the middle of its answers. Pages and calls of all kinds
//! tell what is known, or what is away, in time; streams say so; and all is there again soon after. The client of the store
//! reports other faults as one of these (`tests/tests/servers/s3_answers.rs`, `s3.rs`).

use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::served::{HANDING_IN, Orchestrator, RECOVERY, WRITE, Watching, is_honest, two_jobs};
use prs_tests::harness::servers::proxy::{Fault, HttpFaults, HttpProxy};
use prs_tests::harness::{Job, Web};
use serde_json::json;

const JSON: (&str, &str) = ("Content-Type", "application/json");
/// Bytes of memory that a server has at most.
const MEMORY: u64 = 300 << 20;
/// How long everything is asked for while the storage fails, again and again.
const LASTS: Duration = Duration::from_secs(20);

/// A method, an address, headers, a body, and how long the answer may take.
type Change<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, Duration);

/// Asks for changes of all kinds at once, each of which is honest and in time, whether it is made or not.
fn all_changes_are_honest(web: &Web) {
    let spec = json!({ "name": "new", "source_directory": "code", "entry_script": "main.py",
        "inputs": [{ "type": "file", "path": "s3://fleet/data/" }] });
    let submission = json!({ "spec": spec }).to_string();
    let token = json!({ "name": "new", "role": "read" }).to_string();
    let name = json!({ "display_name": "new" }).to_string();
    let missing = json!({ "blobs": [{ "sha256": "0".repeat(64), "bytes": 3 }] }).to_string();
    let endpoint = json!({ "description": "new" }).to_string();
    let new = ("If-None-Match", "*");
    let changes: [Change<'_>; 8] = [
        ("PATCH", "/api/v1/jobs/ended", &[JSON], &name, WRITE),
        ("POST", "/api/v1/tokens", &[JSON], &token, WRITE),
        ("POST", "/api/v1/jobs/running/cancel", &[JSON], "{}", WRITE),
        ("PUT", "/api/v1/endpoints/fresh", &[JSON, new], &endpoint, WRITE),
        ("DELETE", "/api/v1/endpoints/absent", &[("If-Match", "\"a\"")], "", WRITE),
        ("POST", "/api/v1/uploads/missing", &[JSON], &missing, WRITE),
        ("POST", "/api/v1/jobs", &[JSON, ("Idempotency-Key", "faulty")], &submission, HANDING_IN),
        ("POST", "/api/v1/jobs/ended/resubmit", &[JSON, ("Idempotency-Key", "again")], "{}", HANDING_IN),
    ];
    std::thread::scope(|scope| {
        for (method, path, headers, body, limit) in changes {
            scope.spawn(move || {
                let asked = Instant::now();
                let answer = web.send(method, path, headers, body.as_bytes());
                let what = format!("{method} {path}");
                // What is wrong with a request is told where it can be.
                if !matches!(answer.status, 404 | 409 | 412 | 422) {
                    is_honest(&what, &answer);
                }
                assert!(asked.elapsed() < limit, "{what}: {:?}", asked.elapsed());
            });
        }
    });
}

/// Both lists have both jobs, whatever storage does.
fn list_has_both(web: &Web) {
    let list = web.get("/api/v1/jobs").json(200);
    assert_eq!(list["total"], 2, "{list}");
    let page = web.page("/jobs");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("/jobs/ended") && page.text().contains("/jobs/running"));
}

/// Has the storage meet `fault` while everything is asked for.
fn met(fault: Fault) {
    let job = Job::new("").with_runtime_folder();
    let (fleet, running, fence) = two_jobs(&job);
    let faults = HttpFaults { seed: 1, percent: 0, stall: Duration::from_secs(30), kinds: vec![] };
    let proxy = HttpProxy::start(prs_tests::harness::servers::Store::address(&fleet.s3), faults);
    let variables = fleet.variables();
    let job = variables.iter().fold(job, |job, (name, value)| job.with_own_variable(name, value));
    let job = job.with_own_variable("AWS_ENDPOINT_URL_S3", &proxy.endpoint());
    let rates = ["--read-rate", "10000", "--write-rate", "1000", "--max-requests-of-one", "500"];
    let web = Web::of_user(&job, &rates);
    // The other one knows its caller from the storage.
    let made = web.send("POST", "/api/v1/tokens", &[JSON], br#"{"name": "other", "role": "admin"}"#);
    let secret = made.json(201)["secret"].as_str().unwrap().to_owned();
    let _orchestrator = Orchestrator::start(&fleet, running, fence);
    web.all_is_there("the start");
    wait_for("the list is whole", RECOVERY, || {
        (web.get("/api/v1/jobs").json(200)["total"] == 2).then_some(())
    });
    let watching = Watching::start(&web, "running");
    proxy.spoil("", fault);
    let until = Instant::now() + LASTS;
    let mut rounds = 0;
    while Instant::now() < until || rounds == 0 {
        web.all_is_honest();
        list_has_both(&web);
        rounds += 1;
    }
    all_changes_are_honest(&web);
    let by_token = web.ask_as(&secret, "/api/v1/jobs");
    is_honest("with a token", &by_token);
    watching.hears("stale");
    assert!(proxy.count(fault) > 0, "{fault:?} happened");
    list_has_both(&web);
    proxy.accept();
    web.all_is_there(&format!("{fault:?}"));
    watching.hears("fresh");
    wait_for("a token is taken again", RECOVERY, || {
        (web.ask_as(&secret, "/api/v1/jobs").status == 200).then_some(())
    });
    web.has_not_panicked();
    assert!(web.program.peak_memory() < MEMORY, "{}", web.program.peak_memory());
}

#[test]
fn a_storage_that_refuses_is_told() {
    met(Fault::Refuse);
}

#[test]
fn a_storage_that_breaks_is_told() {
    met(Fault::Error);
}

#[test]
fn a_storage_that_is_slow_holds_nobody_up() {
    met(Fault::Stall);
}

#[test]
fn a_storage_that_stops_in_the_middle_holds_nobody_up() {
    met(Fault::StopMiddle);
}
