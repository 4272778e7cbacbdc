//! How long a job may take over things, as the job file, `--set` and a resubmission say it.

use std::time::Duration;

use prs_tests::harness::Job;
use serde_json::json;

const SLEEPS: &str = "
import time
def run(mini_batch):
    time.sleep(60)
    return mini_batch
";
const NO_PROGRESS: &str =
    "No progress update in 3 seconds: no mini-batch ended, and progress_update_timeout allows 2 s";

#[test]
fn a_job_without_progress_ends_after_progress_update_timeout() {
    let job =
        Job::new(SLEEPS).with_files(4).with("run_invocation_timeout", 100).with("progress_update_timeout", 2);
    let ended = job.submit();
    job.has_failed(&ended, &[NO_PROGRESS]);
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
}

#[test]
fn time_limits_are_set_at_submission_and_at_resubmission() {
    let job = Job::new(SLEEPS).with_files(4).with("run_invocation_timeout", 100);
    let limits = ["--set", "progress_update_timeout=2", "--set", "resource_monitor_interval=0"];
    let ended = job.start_submit(&limits).wait();
    job.has_failed(&ended, &[NO_PROGRESS]);
    let run = job.run().path().display().to_string();
    let shown = job.command(&["show", &run, "-o", "json"]).json();
    assert_eq!(shown["spec"]["progress_update_timeout"], 2);
    let again = [
        "resubmit",
        &run,
        "--set",
        "progress_update_timeout=1",
        "--set",
        "first_task_creation_timeout=7",
        "--set",
        "task_overhead_timeout=8",
        "--set",
        "environment=bin/python",
        "--run-dir",
        "again",
        "-o",
        "json",
    ];
    // A relative path starts from the current folder, as that of `resume`.
    std::fs::create_dir(job.path("bin")).unwrap();
    std::os::unix::fs::symlink(prs_tests::harness::python(), job.path("bin/python")).unwrap();
    let ended = job.command(&again);
    ended.expect_code(42);
    let reason =
        "No progress update in 2 seconds: no mini-batch ended, and progress_update_timeout allows 1 s";
    assert_eq!(ended.json()["reason"], reason);
    let spec = job.command(&["show", "again", "-o", "json"]).json()["spec"].clone();
    let expected = [("first_task_creation_timeout", json!(7)), ("task_overhead_timeout", json!(8))];
    for (key, value) in expected {
        assert_eq!(spec[key], value, "{key}");
    }
    assert_eq!(spec["environment"], json!(job.path("bin/python")));
}
