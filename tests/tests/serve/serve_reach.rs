//! Which URLs a server reads for a caller who hands a job in: its own bucket, public hosts, and what its operator allows; and that this holds
//! for the programs and workers that read later.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::servers::http::HttpServer;
use prs_tests::harness::{Answer, Fleet, Job, NAMES, Web};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const PATIENCE: Duration = Duration::from_mins(2);

/// A job whose code the server may read, with the authority of the HTTP server.
fn job(server: &HttpServer) -> Job {
    let job = Job::new(NAMES);
    let job = job.with_runtime_folder();
    job.with_own_variable("SSL_CERT_FILE", &server.authority().display().to_string())
}

fn served(job: &Job, more: &[&str]) -> Web {
    let code = job.path("code").display().to_string();
    Web::of_user(job, &[&["--write-rate", "1000", "--allow-path", &code], more].concat())
}

/// Hands in a job with this input, and what else there is.
fn hand_in(web: &Web, job: &Job, url: &str, more: &Value) -> Answer {
    let mut spec = json!({
        "name": "reach", "source_directory": job.path("code"), "entry_script": "main.py",
        "inputs": [{"name": "pictures", "type": "file", "path": url}],
        "mini_batch_size": 1, "run_max_try": 1, "process_count_per_node": 1, "error_threshold": 0,
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = json!({ "spec": spec }).to_string();
    web.send("POST", "/api/v1/jobs", &[JSON], body.as_bytes())
}

#[track_caller]
fn is_refused(answer: &Answer, says: &str) {
    let problem = answer.json(422);
    assert_eq!(problem["type"], "/problems/job-file", "{problem}");
    let told = problem.to_string();
    assert!(told.contains(says) && !told.contains("hush"), "{problem}");
}

fn completes(web: &Web, answer: &Answer) -> Value {
    let id = answer.json(201)["job_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/jobs/{id}?wait_for=ended&timeout=60");
    let ended = wait_for("the job ends", PATIENCE, || {
        let object = web.get(&path).json(200);
        ["completed", "failed", "canceled"].contains(&object["state"].as_str().unwrap()).then_some(object)
    });
    assert_eq!(ended["state"], "completed", "{ended}");
    ended
}

#[test]
fn a_server_reads_no_address_of_its_own_network_but_what_is_allowed() {
    let server = HttpServer::start_with_tls();
    server.put("in/a.txt", "one");
    server.put("out/b.txt", "two");
    let job = job(&server);
    let web = served(&job, &[]);
    let none = json!({});
    let port = server.address().port();
    for (url, says) in [
        (format!("http://127.0.0.1:{port}/in/a.txt"), "not encrypted"),
        (server.url("in/a.txt"), "not a public one"),
        (format!("https://127.0.0.1:{port}/in/a.txt"), "not a public one"),
        (format!("https://me:hush@2130706433:{port}/in/a.txt?sig=hush"), "not a public one"),
        (format!("https://[::1]:{port}/in/a.txt"), "not a public one"),
        (format!("https://[::ffff:127.0.0.1]:{port}/in/a.txt"), "not a public one"),
        ("https://169.254.169.254/latest/meta-data/iam".to_owned(), "not a public one"),
        ("s3://other/pictures/".to_owned(), "--allow-input s3://other"),
    ] {
        is_refused(&hand_in(&web, &job, &url, &none), says);
        let side = json!({ "side_inputs": { "labels": url } });
        is_refused(&hand_in(&web, &job, &job.path("code").display().to_string(), &side), says);
        let model = json!({ "model": url });
        is_refused(&hand_in(&web, &job, &job.path("code").display().to_string(), &model), says);
    }
    // A list may name anything.
    let list = job.path("code/list.txt");
    fs::write(&list, server.url("in/a.txt")).unwrap();
    let listed = json!({ "inputs": [{ "type": "file", "list": list }] });
    is_refused(&hand_in(&web, &job, "", &listed), "a list may name any path");
    assert!(server.seen().is_empty(), "nothing was asked: {:?}", server.seen());
    let dry = json!({ "spec": { "name": "reach", "source_directory": job.path("code"), "entry_script": "main.py",
        "inputs": [{ "type": "file", "path": server.url("in/a.txt") }] } });
    let dry = web.send("POST", "/api/v1/jobs?dry_run=true", &[JSON], dry.to_string().as_bytes());
    is_refused(&dry, "not a public one");

    let allowed = server.url("in");
    let web = served(&job, &["--allow-input", &allowed]);
    let ended = completes(&web, &hand_in(&web, &job, &server.url("in/a.txt"), &none));
    // Who runs it again by a command reads no more for its author.
    let id = ended["job_id"].as_str().unwrap();
    let again = job.command(&["resubmit", id, "-o", "json"]);
    again.expect_code(0);
    let reach = |id: &str| {
        let record = fs::read_to_string(job.path("prs-runs").join(id).join("job.json")).unwrap();
        serde_json::from_str::<Value>(&record).unwrap()["spec"]["reach"].clone()
    };
    let of_again = reach(again.json()["job_id"].as_str().unwrap());
    assert!(of_again.is_object() && of_again == reach(id), "{of_again}");
    is_refused(&hand_in(&web, &job, &server.url("out/b.txt"), &none), "not a public one");
    is_refused(&hand_in(&web, &job, &server.url("in/../out/b.txt"), &none), "not a public one");
    is_refused(&hand_in(&web, &job, &server.url("in/%2e%2e/out/b.txt"), &none), "not a public one");
    // A command of the same user asks nobody.
    let text = json!({ "name": "mine", "source_directory": job.path("code"), "entry_script": "main.py",
        "inputs": [{ "type": "file", "path": server.url("out/b.txt") }] });
    fs::write(job.path("mine.yml"), text.to_string()).unwrap();
    job.command(&["submit", &job.path("mine.yml").display().to_string()]).expect_code(0);
    for wrong in ["http://host/a", "file:///data", "https://me:x@host/a", "s3://b*"] {
        let refused = job.command(&["serve", "--allow-input", wrong]);
        refused.expect_code(2);
        assert!(refused.stderr.contains("give s3://bucket"), "{}", refused.stderr);
    }
}

#[test]
fn jobs_of_a_fleet_read_its_bucket_but_no_secret_of_it() {
    let server = HttpServer::start_with_tls();
    let fleet = Fleet::apart();
    fleet.s3.put_object(fleet.bucket(), "pictures/a.txt", b"one");
    fleet.s3.make_bucket("elsewhere");
    fleet.s3.put_object("elsewhere", "in/a.txt", b"one");
    fleet.s3.put_object("elsewhere", "out/a.txt", b"one");
    let job = fleet.job(job(&server));
    let web = served(&job, &["--allow-input", "s3://elsewhere/in"]);
    let _worker = fleet.worker(&job, &[]);
    let none = json!({});
    let own = format!("s3://{}", fleet.bucket());
    for url in [
        &format!("{own}/prs/registry/keys/session-1"),
        &format!("{own}/prs/registry/tokens/"),
        &format!("{own}/prs/audit/2026/"),
        "s3://elsewhere/out/a.txt",
        "s3://elsewhere/**/*.txt",
    ] {
        is_refused(&hand_in(&web, &job, url, &none), "s3://");
    }
    completes(&web, &hand_in(&web, &job, &format!("{own}/pictures/"), &none));
    completes(&web, &hand_in(&web, &job, "s3://elsewhere/in/", &none));
    // The record has the rule, which the workers keep to.
    let id = completes(&web, &hand_in(&web, &job, "s3://elsewhere/in/a.txt", &none));
    let record: Value =
        serde_json::from_str(&fleet.stored(id["job_id"].as_str().unwrap()).text("job.json")).unwrap();
    let reach = &record["spec"]["reach"];
    assert_eq!(reach["own"], format!("{own}/prs"), "{record}");
    assert_eq!(reach["allowed"], json!(["s3://elsewhere/in"]), "{record}");
}
