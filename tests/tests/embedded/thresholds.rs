//! Thresholds: what is exceeded aborts the job within two seconds and keeps what was committed (spec S7).

use std::time::{Duration, SystemTime};

use prs_tests::deadline::Stopwatch;
use prs_tests::harness::{Job, Row};
use serde_json::json;

/// Longest time from the failure that is too much to the end of the program.
const LIMIT: Duration = Duration::from_secs(2);

/// Mini-batches of one file; those below the number in `FAIL` raise.
const FAILS_FIRST: &str = r#"
import os

def run(mini_batch, context):
    if context.minibatch_index < int(os.environ["FAIL"]) and not os.path.exists(os.environ["CURE"]):
        raise ValueError("no good")
    return [os.path.basename(mini_batch[0])]
"#;

fn failing(count: u32, files: usize) -> Job {
    let job = Job::new(FAILS_FIRST).with_files(files).with("mini_batch_size", 1).with("run_max_try", 1);
    let cure = job.path("cure").display().to_string();
    job.with_variable("FAIL", &count.to_string()).with_variable("CURE", &cure)
}

fn end_of(row: &Row) -> SystemTime {
    let start: jiff::Timestamp = row["Start Time"].parse().unwrap();
    SystemTime::from(start) + Duration::from_secs_f64(row["Elapsed Seconds"].parse().unwrap())
}

#[test]
fn a_threshold_that_is_reached_is_not_exceeded() {
    let job = failing(3, 10).with("allowed_failed_percent", 30);
    let printed = job.completes();
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 10, "succeeded": 7, "failed": 3 }));
    assert_eq!(job.run().rows().len(), 7);
    assert_eq!(job.run().failed_mini_batches().len(), 3);
}

#[test]
fn a_threshold_that_is_exceeded_fails_the_job_and_names_itself() {
    let named = "allowed_failed_percent 29.9";
    let job = failing(3, 10).with("allowed_failed_percent", 29.9);
    job.fails(&[named, "more than", "; the most frequent error: ValueError: no good (", "main.py:6 in run"]);
    assert!(!job.run().path().join("output/parallel_run_step.txt").exists());
    assert!(job.run().text("logs/sys/master_role.txt").contains(named), "{}", job.run().story());
}

#[test]
fn minus_one_ignores_every_failure() {
    let job = failing(9, 10).with("allowed_failed_count", -1).with("error_threshold", -1);
    assert_eq!(job.completes()["mini_batches"], json!({ "scheduled": 10, "succeeded": 1, "failed": 9 }));
}

#[test]
fn missing_items_count_against_error_threshold() {
    let script = "def run(mini_batch):\n    return mini_batch[:1]\n";
    let job = |threshold: u32| {
        Job::new(script).with_files(12).with("mini_batch_size", 3).with("error_threshold", threshold)
    };
    assert_eq!(job(8).completes()["items"], json!({ "total": 12, "succeeded": 4, "failed": 8 }));
    job(7).fails(&["error_threshold 7"]);
}

#[test]
fn a_later_try_that_succeeds_is_no_failure() {
    let script = r#"
def run(mini_batch, context):
    if context.retry_count == 0:
        raise ValueError("first try")
    return mini_batch
"#;
    Job::new(script).with_files(6).with("allowed_failed_count", 0).with("error_threshold", 0).completes();
}

#[test]
fn exceeding_stops_what_runs_within_two_seconds() {
    // One mini-batch fails as soon as the other is running, which would take a quarter of an hour.
    let script = r#"
import time
from marks import mark, wait_for

def run(mini_batch, context):
    mark("started", context.minibatch_index)
    if context.minibatch_index == 0:
        wait_for("long")
        raise ValueError("no good")
    mark("long")
    time.sleep(900)
"#;
    let job = Job::new(script).with_files(40).with("mini_batch_size", 1).with("run_max_try", 1);
    let job = job.with("allowed_failed_count", 0).with("run_invocation_timeout", 1000);
    let watch = Stopwatch::start();
    let ended = job.submit();
    job.has_failed(&ended, &["1 mini-batch failed", "allowed_failed_count 0"]);
    let tries = job.run().tries();
    let failed = tries.iter().find(|row| row["Mini-batch Id"] == "mb-0000000000").unwrap();
    let late = watch.left_of(ended.at.duration_since(end_of(failed)).unwrap());
    assert!(late < LIMIT, "the program ended {late:?} after the failure");
    let started = job.marks("started");
    assert!(started.len() <= 3, "no new mini-batch starts: {started:?}");
}

#[test]
fn what_was_committed_before_an_abort_is_kept_for_resume() {
    let script = r#"
import os
from marks import mark, wait_for, is_marked

def run(mini_batch, context):
    index = context.minibatch_index
    mark("ran", index)
    if index == 20 and not is_marked("cure"):
        wait_for("fail")
        raise ValueError("no good")
    return [f"{index} {os.path.basename(mini_batch[0])}"]
"#;
    let mut job = Job::new(script).with_files(30).with("mini_batch_size", 1).with("run_max_try", 1);
    job.set("allowed_failed_count", 0);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("ten mini-batches that are committed", || {
        let path = job.run().path().join("logs/sys/job_report/processed_mini-batches.csv");
        std::fs::read_to_string(path).is_ok_and(|text| text.lines().count() > 10)
    });
    job.mark("fail");
    let printed = job.has_failed(&submit.wait(), &["allowed_failed_count 0"]);
    let kept = printed["mini_batches"]["succeeded"].as_u64().unwrap() as usize;
    assert!((10..30).contains(&kept), "{printed}");
    let done: Vec<_> = job.run().tries().into_iter().filter(|row| row["Status"] == "RUN_DONE").collect();
    assert_eq!(done.len(), kept);

    job.mark("cure");
    job.has_completed(&job.resume());
    let rows: Vec<_> = (0..30).map(|index| format!("{index} {index:04}.txt")).collect();
    assert_eq!(job.run().rows(), rows);
    for row in done {
        let index = row["Mini-batch Id"].trim_start_matches("mb-").trim_start_matches('0');
        let index = if index.is_empty() { "0" } else { index };
        let times = job.marks("ran").iter().filter(|ran| *ran == index).count();
        assert_eq!(times, 1, "mini-batch {index} was committed and must not run again");
    }
}

#[test]
fn set_overrides_a_threshold() {
    let job = failing(3, 10).with("allowed_failed_count", 0);
    let ended = job.start_submit(&["--set", "allowed_failed_count=3"]).wait();
    assert_eq!(job.has_completed(&ended)["mini_batches"]["failed"], 3);
    let job = failing(3, 10);
    let ended = job.start_submit(&["--set", "allowed_failed_count=1", "--set", "run_max_try=2"]).wait();
    job.has_failed(&ended, &["allowed_failed_count 1"]);
    assert!(
        job.run().statuses().values().any(|statuses| statuses.len() == 2),
        "run_max_try=2 counts as well"
    );
}
