//! `output` on a fleet: a local folder that whoever waits for the job gets filled, and who does not hears about.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

use std::fs;

use prs_tests::harness::{Fleet, Job, RunFolder};
use serde_json::json;

/// Fails with the second mini-batch until the mark `go`.
const FAILS: &str = "
import os
from marks import is_marked
def run(mini_batch, context):
    if context.minibatch_index == 1 and not is_marked('go'):
        raise RuntimeError('not yet')
    return [os.path.basename(path) for path in mini_batch]
";
/// Waits for the mark `go`.
const WAITS: &str = "
from marks import mark, wait_for
def run(mini_batch):
    mark('begun')
    wait_for('go')
    return ['row']
";
const RESULT: &str = "parallel_run_step.txt";
const FAILURES: &str = "failed_mini_batches.jsonl";

fn job(fleet: &Fleet, target: &str, script: &str) -> Job {
    fleet.job(Job::new(script).with_files(4)).with("compute_target", target).with("output", "place")
}

#[test]
fn a_job_that_goes_on_replaces_what_it_brought_before() {
    let fleet = Fleet::shared();
    let job = job(&fleet, "again", FAILS).with("run_max_try", 1);
    let _worker = fleet.worker(&job, &["--target", "again"]);
    let first = fleet.completes(&job);
    let place = RunFolder::new(job.path("place"));
    assert_eq!(first["output"]["uri"], json!(job.path("place").join(RESULT)));
    assert_eq!(place.text(RESULT), "0000.txt\n0001.txt\n");
    assert_eq!(place.files(""), [FAILURES, RESULT]);

    job.mark("go");
    let resumed = job.command(&["resume", first["job_id"].as_str().unwrap(), "-o", "json"]);
    resumed.expect_code(0);
    assert_eq!(resumed.json()["output"]["uri"], first["output"]["uri"]);
    assert_eq!(place.text(RESULT), "0000.txt\n0001.txt\n0002.txt\n0003.txt\n");
    assert_eq!(place.files(""), [RESULT], "nothing failed any more");
}

#[test]
fn a_result_is_told_though_its_copy_fails() {
    let fleet = Fleet::shared();
    let job = job(&fleet, "taken", WAITS);
    let _worker = fleet.worker(&job, &["--target", "taken"]);
    let mut submit = fleet.start_submit(&job, &[]);
    submit.wait_until("the first mini-batch", || !job.marks("begun").is_empty());
    fs::write(job.path("place").join(RESULT), "mine").unwrap();
    job.mark("go");
    let ended = submit.wait();
    ended.expect_code(2);
    let told = ended.json();
    assert_eq!(told["state"], "completed");
    assert!(told["output"]["uri"].as_str().unwrap().starts_with("s3://"), "{told}");
    let remedy = format!("prs-producer result {} --output-path", told["job_id"].as_str().unwrap());
    for part in ["exists already", "`output` is not filled", &remedy] {
        assert!(ended.stderr.contains(part), "{part:?} is not said: {}", ended.stderr);
    }
    assert_eq!(fs::read_to_string(job.path("place").join(RESULT)).unwrap(), "mine");
}

#[test]
fn whoever_does_not_wait_hears_that_nothing_is_filled() {
    let fleet = Fleet::shared();
    let job = job(&fleet, "left", WAITS);
    let hears = |said: &str, id: &str| {
        let remedy = format!("prs-producer result {id} --output-path {}", job.path("place").display());
        assert!(said.contains("`output` is not filled") && said.contains(&remedy), "{said}");
    };
    let detached = fleet.start_submit(&job, &["--detach"]).wait();
    detached.expect_code(0);
    let id = detached.json()["job_id"].as_str().unwrap().to_owned();
    hears(&detached.stderr, &id);
    job.command(&["cancel", &id]).expect_code(0);

    let mut submit = job.start(&["resume", &id]);
    submit.wait_until_said("goes on");
    submit.interrupt();
    submit.wait_until_said("once more leaves it");
    submit.interrupt();
    let left = submit.wait();
    left.expect_code(130);
    hears(&left.stderr, &id);
    job.command(&["cancel", &id]).expect_code(0);
}
