//! Starts of a pipeline of a fleet that fail or are canceled after one that completed: what that brought stands.

use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{BROKEN, Ended, Fleet, GROUPED, Job};
use serde_json::{Value, json};

/// Waits for the mark `go` before it is ready.
const HANGS: &str = "
import os
from marks import mark, wait_for

def init():
    mark('hangs')
    wait_for('go')

def run(mini_batch):
    return mini_batch
";

/// Asserts that a start `start` of `job` ended so, and that what `printed` tells of start 1 stands.
#[track_caller]
fn stands(job: &Job, ended: &Ended, printed: &Value, (start, state, code): (u32, &str, i32)) {
    assert_eq!(ended.code, Some(code), "{}\n{}", ended.stdout, ended.stderr);
    let told = ended.json();
    let last = &told["last_start"];
    let expected = (&json!(start), &json!(1), &json!(state));
    assert_eq!((&last["start"], &last["result_of"], &last["state"]), expected, "{told}");
    for name in ["state", "reason", "mini_batches", "items", "output", "complete", "seconds", "steps"] {
        assert_eq!(told[name], printed[name], "{name}: {}", ended.stderr);
    }
    let line = format!("start {start} {state}");
    let id = printed["job_id"].as_str().unwrap();
    job.command(&["result", id]).expect_code(0);
    for command in [&["status", id][..], &["list", "--all"]] {
        let told = job.command(command);
        assert!(told.stdout.contains(&line), "{command:?}: {}", told.stdout);
    }
}

#[test]
fn a_job_whose_rows_are_put_together_keeps_what_it_completed() {
    let fleet = Fleet::shared();
    let job = Job::new(GROUPED).with("allowed_failed_count", 5).with("run_max_try", 1);
    job.data("in/1.csv", "k,n\na,1\nb,2\na,3\n");
    job.data("in/2.csv", "k,n\na,4\nbad,5\n");
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/in" }]));
    let job = fleet.job(job).with("partition_keys", json!(["k"])).with("compute_target", "regrouped");
    let _worker = fleet.worker(&job, &["--target", "regrouped"]);
    let printed = fleet.start_submit(&job, &[]).wait().json();
    assert_eq!(printed["mini_batches"]["failed"], 1, "{printed}");
    let id = printed["job_id"].as_str().unwrap();
    let main = fleet.stored(&format!("{id}-run"));
    let (rows, failures) = (main.result(), main.bytes("output/failed_mini_batches.jsonl"));
    let is_as_it_was = || {
        (main.result(), main.bytes("output/failed_mini_batches.jsonl")) == (rows.clone(), failures.clone())
    };

    job.script(BROKEN);
    let ended = job.command(&["resume", id, "--code", "new", "-o", "json"]);
    stands(&job, &ended, &printed, (2, "failed", 42));
    assert!(ended.json()["last_start"]["reason"].as_str().unwrap().contains("broken"), "{}", ended.stdout);
    assert!(is_as_it_was());
    let report = fleet.stored(id).text("logs/job_result.txt");
    assert!(report.starts_with("completed") && report.contains("\nlast start    start 2 failed"), "{report}");

    job.script(HANGS);
    job.command(&["resume", id, "--code", "new", "--detach"]).expect_code(0);
    wait_for("init()", Duration::from_mins(1), || (!job.marks("hangs").is_empty()).then_some(()));
    // The result of before is there while another start runs.
    job.command(&["result", id]).expect_code(0);
    stands(&job, &job.command(&["cancel", id, "-o", "json"]), &printed, (3, "canceled", 0));
    stands(&job, &job.command(&["stream", id, "-o", "json"]), &printed, (3, "canceled", 130));
    assert!(is_as_it_was());

    job.script(&GROUPED.replace("raise ValueError", "print"));
    let ended = job.command(&["resume", id, "--code", "new", "-o", "json"]);
    assert_eq!((ended.code, &ended.json()["last_start"]), (Some(0), &Value::Null), "{}", ended.stderr);
    assert_eq!(main.result(), b"a 1\na 3\na 4\nb 2\nbad 5\n");
}
