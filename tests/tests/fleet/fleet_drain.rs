//! Workers that an administrator asks to leave, by the command line, the API and the page; and the pages of the fleet.

use std::thread;
use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Web};
use rustix::process::Signal;
use serde_json::Value;

/// Says who has begun, and goes on when it is told to.
const WAITS: &str = "
import os
import marks
def run(mini_batch):
    marks.mark('began', os.getppid())
    marks.wait_for('go')
    return [open(path).read() for path in mini_batch]
";
const PATIENCE: Duration = Duration::from_mins(2);
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

fn served(job: &Job) -> Web {
    Web::of_user(job, &[])
}

/// The workers that a list of the server has.
fn workers(web: &Web, filter: &str) -> Vec<Value> {
    let list = web.get(&format!("/api/v1/workers?{filter}")).json(200);
    list["value"].as_array().unwrap().clone()
}

fn name_of(worker: &Value) -> String {
    worker["worker"].as_str().unwrap().to_owned()
}

#[test]
fn a_worker_that_is_drained_lets_what_runs_end_and_leaves() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(WAITS)).with_files(4).with("mini_batch_size", 1).with("node_count", 2);
    let job = job.with_runtime_folder();
    let web = served(&job);
    let (mut first, idle) =
        (fleet.worker(&job, &["--slots", "1"]), fleet.worker(&job, &["--target", "other"]));
    let id = fleet.hand_in(&job);
    let serving = wait_for("the worker at work", PATIENCE, || {
        workers(&web, &format!("state=serving&job={id}")).into_iter().find(|worker| worker["busy_slots"] == 1)
    });
    assert_eq!((&serving["node_id"], &serving["drain_reason"]), (&0.into(), &Value::Null), "{serving}");
    assert!(serving["python"].as_str().unwrap().contains("python"), "{serving}");
    let name = name_of(&serving);
    assert_eq!(workers(&web, &format!("q={name}")).len(), 1);
    assert_eq!(workers(&web, "q=nothing-of-this-name").len(), 0);
    web.get("/api/v1/workers?state=odd").json(400);
    for (body, status) in [("{\"reasn\": \"x\"}", 400), ("[", 400)] {
        let answer = web.ask_with("POST", &format!("/api/v1/workers/{name}/drain"), &JSON, body);
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    assert_eq!(web.ask_with("POST", "/api/v1/workers/nobody/drain", &[], "").status, 404);

    // One that is idle ends at once, by the command.
    let resting = wait_for("the idle worker", PATIENCE, || workers(&web, "state=idle&target=other").pop());
    let resting = name_of(&resting);
    job.command(&["workers", "drain", "nobody"]).expect_code(2);
    job.command(&["workers", "drain", &resting, "--reason", "the host is updated"]).expect_code(0);
    let left = idle.wait();
    left.expect_code(0);
    assert!(left.stderr.contains("an administrator asked this worker to leave"), "{}", left.stderr);
    assert_eq!(workers(&web, "target=other").len(), 0, "it is forgotten at once");

    // One at work lets its mini-batch end.
    let asked =
        web.ask_with("POST", &format!("/api/v1/workers/{name}/drain"), &JSON, "{\"reason\": \"disk\"}");
    assert_eq!(asked.json(202)["state"], "draining");
    let draining = wait_for("it is draining", PATIENCE, || workers(&web, "state=draining").pop());
    assert_eq!(draining["drain_reason"], "disk (local)", "{draining}");
    first.wait_until_said("asked to end: what runs may end");
    let page = web.page(&format!("/workers/{name}"));
    assert!(
        page.status == 200 && page.text().contains("It was asked to leave: disk (local)"),
        "{}",
        page.text()
    );
    job.mark("go");
    first.wait().expect_code(0);
    assert!(workers(&web, "").is_empty());
    assert_eq!(web.page(&format!("/workers/{name}")).status, 404);

    let _next = fleet.worker(&job, &[]);
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(job.marks("began").len(), 4, "each mini-batch ran once");
}

#[test]
fn what_runs_longer_than_a_worker_waits_runs_again_elsewhere() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(WAITS)).with_files(2).with("mini_batch_size", 1);
    let first = fleet.worker(&job, &["--slots", "1", "--drain-timeout", "1"]);
    let id = fleet.hand_in(&job);
    wait_for("a mini-batch has begun", PATIENCE, || job.marks("began").pop());
    let workers = job.command(&["workers", "-o", "json"]).json();
    job.command(&["workers", "drain", &name_of(&workers["workers"][0])]).expect_code(0);
    let asked = Instant::now();
    first.wait().expect_code(0);
    assert!(asked.elapsed() < Duration::from_secs(25), "{:?}", asked.elapsed());
    job.mark("go");
    let _next = fleet.worker(&job, &[]);
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(job.marks("began").len(), 3, "the one that was cut off ran again");
}

#[test]
fn time_in_which_a_worker_was_stopped_takes_nothing_from_what_runs() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(WAITS)).with_files(1).with("mini_batch_size", 1);
    let mut worker = fleet.worker(&job, &["--slots", "1", "--drain-timeout", "5"]);
    let id = fleet.hand_in(&job);
    wait_for("a mini-batch has begun", PATIENCE, || job.marks("began").pop());
    assert!(worker.signal(Signal::TERM));
    worker.wait_until_said("asked to end: what runs may end");
    assert!(worker.signal(Signal::STOP));
    thread::sleep(Duration::from_secs(8));
    assert!(worker.signal(Signal::CONT));
    // It looks every few milliseconds.
    thread::sleep(Duration::from_millis(500));
    job.mark("go");
    worker.wait().expect_code(0);
    let _next = fleet.worker(&job, &[]);
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(job.marks("began").len(), 1, "it was not cut off");
}

#[test]
fn the_pages_of_a_fleet_show_targets_workers_and_the_last_day() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(WAITS)).with_files(2).with("mini_batch_size", 1);
    let job = job.with_runtime_folder();
    let web = served(&job);
    let id = fleet.hand_in(&job);
    // Only who may do nothing else counts as an autoscaler.
    web.get("/api/v1/targets/default").json(200);
    let says = |what: &str| web.page("/fleet").text().contains(what).then_some(());
    wait_for("nobody serves the job", PATIENCE, || says("No worker. Start one: prs worker --target default"));
    let keda = job.command(&["token", "create", "keda", "--role", "metrics", "-o", "json"]).json();
    // Another server behind the same address is asked.
    let other = served(&job);
    other.ask_as(keda["secret"].as_str().unwrap(), "/api/v1/targets/default").json(200);
    wait_for("all servers tell that", PATIENCE, || says("No worker. An autoscaler last asked "));
    drop(other);
    let _worker = fleet.worker(&job, &["--slots", "1"]);
    let serving = wait_for("the worker at work", PATIENCE, || workers(&web, "state=serving").pop());
    let name = name_of(&serving);
    let page = wait_for("the history has a step", PATIENCE, || {
        let page = web.page("/fleet");
        assert_eq!(page.status, 200, "{}", page.text());
        Some(page.text()).filter(|text| text.contains("default, last 24 hours"))
    });
    for part in [
        "1 worker: 1 serving.",
        "href=\"/fleet/default\"",
        &format!("href=\"/workers/{name}\""),
        &format!("href=\"/workers/{name}/drain\""),
        &format!("href=\"/jobs/{id}\""),
        "href=\"/fleet?state=silent\"",
    ] {
        assert!(page.contains(part), "{part:?} is not in {page}");
    }
    assert!(!page.contains("style=") && page.len() < 50 << 10, "{}", page.len());
    let target = web.page("/fleet/default").text();
    assert!(target.contains("Target default") && target.contains(&name), "{target}");
    assert!(web.page("/fleet/nobody").text().contains("Target nobody"));
    let rows = web.page("/fleet?part=rows").text();
    assert!(!rows.contains("<html") && rows.contains(&name), "{rows}");
    assert_eq!(web.page("/fleet?state=odd").status, 400);
    assert!(web.page(&format!("/workers/{name}/drain")).text().contains("It lets what it runs"));
    let counts = fleet.redis_cli(&["HVALS", "prs:{@default}:history"]);
    assert_eq!(counts.trim().split(' ').count(), 5, "{counts}");
    job.mark("go");
    job.command(&["stream", &id]).expect_code(0);
}
