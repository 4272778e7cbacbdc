//! The log of the programs as lines of JSON: what each line has, of a worker with a job, of a server with requests.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Web};
use serde_json::Value;

const ECHO: &str = "
def run(mini_batch):
    return mini_batch
";
const PATIENCE: Duration = Duration::from_mins(1);
const AS_JSON: (&str, &str) = ("PRS_LOG_FORMAT", "json");

/// The lines, each of which is an object with what all have.
#[track_caller]
fn lines(said: &str) -> Vec<Value> {
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
        .collect();
    for line in &lines {
        let ts = line["ts"].as_str().unwrap();
        assert!(ts.ends_with('Z') && ts.len() == "2026-11-21T12:08:28.000000Z".len(), "{line}");
        for name in ["level", "target", "message"] {
            assert!(line[name].is_string(), "no {name}: {line}");
        }
    }
    lines
}

#[test]
fn a_worker_says_of_each_line_which_job_and_node_it_is_about() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(ECHO).with_files(4).with("mini_batch_size", 1));
    let variables = [AS_JSON, ("PRS_LOG", "debug")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let id = fleet.hand_in(&job);
    let worker = fleet.worker_with(&job, &["--exit-when-idle", "1"], &variables);
    let ended = worker.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = lines(&ended.stderr);
    let serving = lines.iter().find(|line| line["message"] == "serving the job").unwrap();
    assert_eq!(serving["job_id"], id.as_str());
    assert_eq!(
        (&serving["target"], &serving["level"]),
        (&"prs_worker::serve::service".into(), &"INFO".into())
    );
    assert!(serving.get("job").is_none() && serving["worker"].is_string(), "{serving}");
    assert!(lines.iter().any(|line| line["job_id"] == id.as_str() && line["node_id"] == 0), "{lines:?}");
    let last = lines.iter().find(|line| line["message"].as_str().unwrap().contains("nothing to do")).unwrap();
    assert!(last.get("job_id").is_none(), "{last}");
}

#[test]
fn a_server_has_a_line_for_every_request() {
    let job = Job::new(ECHO).with_files(1);
    let runtime = job.path("runtime");
    fs::create_dir(&runtime).unwrap();
    let job = job
        .with_own_variable("XDG_RUNTIME_DIR", &runtime.display().to_string())
        .with_own_variable(AS_JSON.0, AS_JSON.1)
        .with_own_variable("PRS_LOG", "info");
    let mut web = Web::start(&job, &[]);
    let told = fs::read(runtime.join(format!("prs/serve-{}.json", web.port()))).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(web.get("/api/v1/jobs/none-20260101-000000-aaaa").status, 401);
    web.set_token(told["token"].as_str().unwrap());
    let asked = [("X-Request-Id", "mine-1")];
    let answer = web.ask_with("GET", "/api/v1/jobs?limit=5", &asked, "");
    let missing = web.get("/api/v1/jobs/none-20260101-000000-aaaa");
    assert_eq!((answer.status, missing.status), (200, 404));
    let said = |number: &str| {
        wait_for("the request has its line", PATIENCE, || {
            let said = web.program.stderr();
            said.lines().any(|line| line.contains(number)).then_some(said)
        })
    };
    let number = missing.header("x-request-id").unwrap();
    let lines = lines(&said(number));
    let of = |number: &str| lines.iter().find(|line| line["request_id"] == number).unwrap();
    let line = of("mine-1");
    assert_eq!(line["message"], "answered");
    assert_eq!((&line["method"], &line["route"]), (&"GET".into(), &"/api/v1/jobs".into()));
    assert_eq!((&line["status"], &line["principal"]), (&200.into(), &"local".into()));
    assert!(line["ms"].is_u64(), "{line}");
    assert_eq!(line["bytes"], answer.body.len());
    let line = of(number);
    assert_eq!((&line["route"], &line["status"]), (&"/api/v1/jobs/{job}".into(), &404.into()));
    // Who did not say who they are has no name.
    let refused = lines.iter().find(|line| line["status"] == 401).unwrap();
    assert!(refused.get("principal").is_none(), "{refused}");
}

#[test]
fn another_form_is_refused() {
    let job = Job::new(ECHO).with_own_variable(AS_JSON.0, "logfmt");
    let ended = job.command(&["list"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("PRS_LOG_FORMAT=logfmt is no form of log lines; give text, or json"),
        "{}",
        ended.stderr
    );
}
