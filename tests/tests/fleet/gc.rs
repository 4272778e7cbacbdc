//! `gc` and `keep`: what goes, what stays, and submissions that meet a collection.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Live, sealed};
use rustix::process::Signal;
use serde_json::{Value, json};

const ECHO: &str = "import os\ndef run(mini_batch):\n    return [open(path).read() for path in mini_batch]\n";

/// Mini-batch 1 fails until the mark `cure`.
const CURABLE: &str = r#"
from marks import is_marked

def run(mini_batch, context):
    if context.minibatch_index == 1 and not is_marked("cure"):
        raise ValueError("not yet")
    return mini_batch
"#;

const PATIENCE: Duration = Duration::from_secs(90);

/// Programs stop where this says so.
fn stopping(place: &str) -> (String, String) {
    ("PRS_FAILPOINT".to_owned(), format!("{place}:stop"))
}

#[track_caller]
fn gc(job: &Job, more: &[&str]) -> Value {
    let ended = job.command(&[&["gc", "-o", "json"], more].concat());
    ended.expect_code(0);
    ended.json()
}

fn uploaded(fleet: &Fleet) -> usize {
    fleet.s3.objects(fleet.bucket()).iter().filter(|(key, _)| key.starts_with("prs/inputs/")).count()
}

/// The last logs of a job, and its entry among those to be served, go a moment after its end.
fn wait_until_tidy(fleet: &Fleet) {
    wait_for("the job to be tidied up", PATIENCE, || fleet.active().is_empty().then_some(()));
}

/// The record of a job that was kept until it ended.
fn expired(record: &[u8]) -> String {
    let mut record: Value = serde_json::from_slice(record).unwrap();
    record["result"]["kept_until_us"] = record["result"]["ended_us"].clone();
    sealed(record)
}

fn expire(fleet: &Fleet, id: &str) {
    wait_until_tidy(fleet);
    let stored = fleet.stored(id);
    stored.replace("job.json", expired(&stored.bytes("job.json")).as_bytes());
}

/// Whose programs stop, or end, at a place.
fn armed(fleet: &Fleet, failpoint: &str) -> Job {
    fleet.job(Job::new(ECHO)).with_own_variable("PRS_FAILPOINT", failpoint)
}

fn wait_until_stopped(program: &mut Live) {
    wait_for("it to stop", PATIENCE, || program.is_stopped().then_some(()));
}

fn remove(fleet: &Fleet, job: &Job, id: &str) {
    wait_until_tidy(fleet);
    job.command(&["rm", id, "--yes"]).expect_code(0);
}

#[test]
fn uploaded_inputs_go_when_no_job_names_them() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(ECHO).with_files(4));
    let _worker = fleet.worker(&job, &[]);
    let first = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    job.data("0004.txt", "item 4");
    fs::remove_file(job.path("data/0000.txt")).unwrap();
    let second = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    assert_eq!(uploaded(&fleet), 5);
    assert_eq!(gc(&job, &["--older", "0s"])["inputs"]["objects"], 0);

    remove(&fleet, &job, &first);
    assert_eq!(gc(&job, &[])["inputs"]["objects"], 0, "they are of today");
    let shown = job.command(&["gc", "--older", "0s"]);
    shown.expect_code(0);
    assert_eq!(shown.stdout, "1 uploaded file that no job names, 6 B\n");
    assert!(shown.stderr.contains("prs gc --yes"), "{}", shown.stderr);
    assert_eq!(uploaded(&fleet), 5);
    let collected = gc(&job, &["--older", "0s", "--yes"]);
    assert_eq!(collected["inputs"], json!({ "objects": 1, "bytes": 6 }));
    assert_eq!((collected["removed"].clone(), uploaded(&fleet)), (json!(true), 4));

    let again = job.command(&["resubmit", &second, "-o", "json"]);
    again.expect_code(0);
    assert_eq!(again.json()["items"]["succeeded"], 4);
    assert_eq!(fleet.completes(&job)["items"]["succeeded"], 4);
}

#[test]
fn a_submission_sends_again_what_was_removed_behind_its_back() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(ECHO).with_files(3));
    let _worker = fleet.worker(&job, &[]);
    let first = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    remove(&fleet, &job, &first);

    let (name, place) = stopping("inputs_located");
    let stopped = fleet.job(Job::new(ECHO).with_files(3)).with_own_variable(&name, &place);
    let mut submit = fleet.start_submit(&stopped, &[]);
    wait_for("it has found its inputs", PATIENCE, || submit.is_stopped().then_some(()));
    // Nothing names them yet, so they go.
    assert_eq!(gc(&job, &["--older", "0s", "--yes"])["inputs"]["objects"], 3);
    assert_eq!(uploaded(&fleet), 0);
    submit.signal(Signal::CONT);
    let ended = submit.wait();
    assert!(ended.stderr.contains("prs gc was at work meanwhile"), "{}", ended.stderr);
    assert_eq!(ended.expect_completed()["items"]["succeeded"], 3);
    assert_eq!(uploaded(&fleet), 3);
}

#[test]
fn a_submission_waits_for_a_collection_under_way() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(ECHO).with_files(3));
    let _worker = fleet.worker(&job, &[]);
    let first = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    remove(&fleet, &job, &first);

    let (name, place) = stopping("gc_removes");
    let stopped = fleet.job(Job::new(ECHO)).with_own_variable(&name, &place);
    let mut collection = stopped.start(&["gc", "--older", "0s", "--yes"]);
    wait_for("it is about to remove", PATIENCE, || collection.is_stopped().then_some(()));
    let mut submit = fleet.start_submit(&job, &[]);
    submit.wait_until_said("waiting for prs gc of");
    assert!(!submit.has_ended());
    collection.signal(Signal::CONT);
    collection.wait().expect_code(0);
    assert_eq!(submit.wait().expect_completed()["items"]["succeeded"], 3);
    assert_eq!(uploaded(&fleet), 3);
}

#[test]
fn a_job_is_kept_as_long_as_its_file_says() {
    let job = Job::new(ECHO).with_files(2).with("keep", "12h");
    job.completes();
    let run = job.run().path().display().to_string();
    let runs = job.path(".").display().to_string();
    let status = job.command(&["status", &run]);
    assert!(status.stdout.contains("kept until ") && status.stdout.contains("prs gc"), "{}", status.stdout);
    assert_eq!(gc(&job, &["--runs", &runs, "--yes"])["jobs"], json!([]));

    let path = job.run().path().join("job.json");
    let record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let (ended, until) = (&record["result"]["ended_us"], &record["result"]["kept_until_us"]);
    assert_eq!(until.as_u64().unwrap() - ended.as_u64().unwrap(), 12 * 3600 * 1_000_000);
    fs::write(&path, expired(&fs::read(&path).unwrap())).unwrap();
    let shown = job.command(&["gc", "--runs", &runs]);
    assert!(shown.stdout.starts_with("job run, kept until "), "{}", shown.stdout);
    assert!(job.run().path().is_dir());
    assert_eq!(gc(&job, &["--runs", &runs, "--yes"])["jobs"].as_array().unwrap().len(), 1);
    assert!(!job.run().path().exists());
}

#[test]
fn a_job_of_this_machine_that_is_resumed_meanwhile_stays() {
    let (name, place) = stopping("removes_job");
    let job = Job::new(CURABLE).with_files(4).with("keep", "12h");
    job.completes();
    let path = job.run().path().join("job.json");
    fs::write(&path, expired(&fs::read(&path).unwrap())).unwrap();
    let (run, runs) = (job.run().path().display().to_string(), job.path(".").display().to_string());
    let job = job.with_own_variable(&name, &place);
    let mut collection = job.start(&["gc", "--runs", &runs, "--yes", "-o", "json"]);
    let mut removal = job.start(&["rm", &run, "--yes"]);
    for program in [&mut collection, &mut removal] {
        wait_until_stopped(program);
    }
    job.mark("cure");
    job.command(&["resume", &run]).expect_code(0);
    for program in [&mut collection, &mut removal] {
        program.signal(Signal::CONT);
    }
    let collection = collection.wait();
    collection.expect_code(0);
    assert_eq!(collection.json()["jobs"], json!([]));
    assert!(collection.stderr.contains("was started again meanwhile"), "{}", collection.stderr);
    let removal = removal.wait();
    removal.expect_code(2);
    assert!(removal.stderr.contains("was started again meanwhile"), "{}", removal.stderr);
    assert_eq!(job.run().rows().len(), 4);
}

#[test]
fn a_job_of_a_fleet_that_is_resumed_meanwhile_stays_and_an_interrupted_removal_is_taken_up() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(CURABLE).with_files(4).with("keep", "12h"));
    let _worker = fleet.worker(&job, &[]);
    let id = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    expire(&fleet, &id);
    let stopping = armed(&fleet, "removes_job:stop");
    let mut collection = stopping.start(&["gc", "--yes"]);
    let mut removal = stopping.start(&["rm", &id, "--yes"]);
    for program in [&mut collection, &mut removal] {
        wait_until_stopped(program);
    }
    job.mark("cure");
    job.command(&["resume", &id]).expect_code(0);
    for program in [&mut collection, &mut removal] {
        program.signal(Signal::CONT);
    }
    for (program, code) in [(collection, 0), (removal, 2)] {
        let ended = program.wait();
        ended.expect_code(code);
        assert!(ended.stderr.contains("was started again meanwhile"), "{}", ended.stderr);
    }
    assert!(!fleet.stored(&id).result().is_empty());

    expire(&fleet, &id);
    assert_ne!(armed(&fleet, "job_withdrawn").command(&["gc", "--yes"]).code, Some(0));
    let resumed = job.command(&["resume", &id]);
    resumed.expect_code(2);
    assert!(resumed.stderr.contains(&format!("{id} is being removed")), "{}", resumed.stderr);
    let left = gc(&job, &[])["leftovers"].clone();
    assert_eq!(left[0]["job_id"], json!(id));
    assert_eq!(gc(&job, &["--yes"])["leftovers"], left);
    assert_eq!(fleet.stored(&id).keys(), [""; 0]);
    assert_eq!(job.command(&["list", "-o", "json"]).json()["jobs"], json!([]));
}

#[test]
fn a_job_that_is_removed_meanwhile_names_nothing_and_a_failure_says_what_went() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(ECHO).with_files(3).with("keep", "12h"));
    let _worker = fleet.worker(&job, &[]);
    let first = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    let stopping = armed(&fleet, "gc_listed:stop");
    let mut collection = stopping.start(&["gc", "--older", "0s", "--yes", "-o", "json"]);
    wait_until_stopped(&mut collection);
    remove(&fleet, &job, &first);
    collection.signal(Signal::CONT);
    let collection = collection.wait();
    collection.expect_code(0);
    assert_eq!((collection.json()["inputs"]["objects"].clone(), uploaded(&fleet)), (json!(3), 0));

    let [damaged, over] = [(); 2].map(|()| fleet.completes(&job)["job_id"].as_str().unwrap().to_owned());
    expire(&fleet, &over);
    let stored = fleet.stored(&damaged);
    let listing = stored.keys().into_iter().find(|key| key.starts_with("inputs/")).unwrap();
    stored.replace(&listing, b"damaged");
    let failed = job.command(&["gc", "--older", "0s", "--yes"]);
    failed.expect_code(2);
    for part in [&format!("job {damaged}: the listing"), &format!("removed before that: {over}")] {
        assert!(failed.stderr.contains(part), "{}", failed.stderr);
    }
    assert_eq!((uploaded(&fleet), fleet.stored(&over).keys().len()), (3, 0));
}

#[test]
fn what_the_ledger_has_of_a_removed_job_goes_with_it() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(ECHO).with_files(2).with("keep", "12h"));
    let _worker = fleet.worker(&job, &[]);
    let id = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    expire(&fleet, &id);
    // As a worker leaves them that is killed while it tidies up.
    for key in ["job", "leases"] {
        fleet.redis_cli(&["hset", &format!("prs:{{{id}}}:{key}"), "state", "completed"]);
    }
    fleet.redis_cli(&["rpush", &format!("prs:{{{id}}}:segments"), "segment"]);
    assert_eq!(gc(&job, &["--yes"])["jobs"][0]["job_id"], json!(id));
    assert_eq!(fleet.redis_cli(&["--scan", "--pattern", &format!("prs:{{{id}*")]).trim(), "");
}

#[test]
fn an_interrupted_removal_leaves_the_ledger_nothing() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(CURABLE).with_files(4));
    let _worker = fleet.worker(&job, &[]);
    for place in ["job_withdrawn", "job_emptied"] {
        let id = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
        job.mark("cure");
        job.command(&["resume", &id]).expect_code(0);
        job.unmark("cure");
        wait_until_tidy(&fleet);
        // As a worker leaves them that is killed while it tidies up.
        for run in [id.clone(), format!("{id}.2")] {
            fleet.redis_cli(&["hset", &format!("prs:{{{run}}}:job"), "state", "completed"]);
        }
        let left = || fleet.redis_cli(&["--scan", "--pattern", &format!("prs:{{{id}*")]).trim().to_owned();
        assert_eq!(armed(&fleet, place).command(&["rm", &id, "--yes"]).code, None);
        assert_ne!(left(), "", "{place}");
        gc(&job, &["--yes"]);
        assert_eq!((left(), fleet.stored(&id).keys()), (String::new(), Vec::new()), "{place}");
    }
}
