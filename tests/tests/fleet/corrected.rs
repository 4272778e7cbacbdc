//! Inputs that are corrected before a job of a fleet goes on (spec S11): whoever publishes the plan finds the corrected one.

use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, PICKY, picky_table};
use rustix::process::Signal;
use serde_json::json;

/// A table of which these records have another text.
fn table(other: &[(usize, &str)]) -> String {
    picky_table("as it was", other)
}

/// The rows of a job that runs on this table alone.
fn rows(table: &str) -> String {
    let rows = table.lines().skip(1).map(|line| line.replacen(',', " ", 1) + "\n");
    rows.collect()
}

#[test]
fn corrected_inputs_run_whoever_publishes_them() {
    let fleet = Fleet::shared();
    let job = Job::new(PICKY).with("mini_batch_size", 64).with("run_max_try", 1);
    let job = fleet.job(job).with("compute_target", "corrected");
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/*.csv", "mode": "direct" }]));
    job.data("t.csv", table(&[(9, "bad"), (30, "bad")]));
    let _worker = fleet.worker(&job, &["--target", "corrected"]);
    let printed = fleet.completes(&job);
    assert_eq!(printed["mini_batches"]["failed"], 2);
    let id = printed["job_id"].as_str().unwrap();

    // By the program that resumes the job; by the worker.
    let corrected = table(&[(9, "much longer than it was\n77,added"), (30, "bad")]);
    job.data("t.csv", &corrected);
    let ended = job.command(&["resume", id, "-o", "json"]);
    ended.expect_code(10);
    assert!(ended.stderr.contains("inputs were corrected"), "{}", ended.stderr);
    let corrected = corrected.replace("30,bad\n", "");
    job.data("t.csv", &corrected);
    job.command(&["resume", id, "--detach", "-o", "json"]).expect_code(0);
    let ended = job.command(&["stream", id, "-o", "json"]);
    ended.expect_code(0);
    assert_eq!(ended.json()["items"], json!({ "total": 40, "succeeded": 40, "failed": 0 }));
    assert_eq!(String::from_utf8(fleet.stored(id).result()).unwrap(), rows(&corrected));
}

#[test]
fn a_start_that_is_refused_or_fails_leaves_the_result() {
    let fleet = Fleet::shared();
    let job = Job::new(PICKY).with("mini_batch_size", 64).with("run_max_try", 1);
    let job = fleet.job(job).with("compute_target", "uncorrected");
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/*.csv", "mode": "direct" }]));
    job.data("t.csv", table(&[(9, "bad")]));
    let _worker = fleet.worker(&job, &["--target", "uncorrected"]);
    let printed = fleet.completes(&job);
    let id = printed["job_id"].as_str().unwrap();
    let result = fleet.stored(id).result();
    job.data("t.csv", table(&[(1, "other")]));
    let refused = job.command(&["resume", id]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("t.csv has other content there"), "{}", refused.stderr);
    job.data("t.csv", table(&[(9, "bad")]));
    job.script("import os\nif 'AZUREML_BI_OUTPUT_PATH' in os.environ: raise RuntimeError('broken')\ndef run(mini_batch):\n    return mini_batch\n");
    let ended = job.command(&["resume", id, "--code", "new", "-o", "json"]);
    ended.expect_code(42);
    assert_eq!(ended.json()["last_start"]["state"], "failed");
    for name in ["state", "mini_batches", "items", "output"] {
        assert_eq!(ended.json()[name], printed[name], "{name}");
    }
    assert_eq!(fleet.stored(id).result(), result);
    let looked = job.command(&["status", id, "-o", "json"]).json();
    assert_eq!((&looked["state"], &looked["last_start"]["start"]), (&json!("completed"), &json!(2)));
}

/// A job of which one record failed, whose worker has ended; and its id.
fn without_worker(fleet: &Fleet, target: &str) -> (Job, String) {
    let job = Job::new(PICKY).with("mini_batch_size", 64).with("run_max_try", 1);
    let job = fleet.job(job).with("compute_target", target);
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/*.csv", "mode": "direct" }]));
    job.data("t.csv", table(&[(9, "bad")]));
    let worker = fleet.worker(&job, &["--target", target]);
    let id = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    worker.kill();
    (job, id)
}

#[test]
fn of_two_that_resume_a_job_at_once_one_does_and_writes_nothing_over() {
    let fleet = Fleet::shared();
    for place in ["start_stores", "start_stored"] {
        let target = format!("twice-{place}");
        let (job, id) = without_worker(fleet, &target);
        job.data("t.csv", table(&[(9, "another text\n77,and one more")]));
        let job = job.with_own_variable("PRS_FAILPOINT", &format!("{place}:stop"));
        let mut first = job.start(&["resume", &id, "--detach"]);
        wait_for("it to stop", Duration::from_mins(1), || first.is_stopped().then_some(()));
        let job = job.with_own_variable("PRS_FAILPOINT", "");
        let corrected = table(&[(9, "much longer than it was")]);
        job.data("t.csv", &corrected);
        job.command(&["resume", &id, "--detach"]).expect_code(0);
        let stored = fleet.stored(&id);
        let plan = || stored.keys().into_iter().filter(|key| key.starts_with("plan/"));
        let before: Vec<_> = plan().map(|key| (stored.bytes(&key), key)).collect();
        first.signal(Signal::CONT);
        let lost = first.wait();
        lost.expect_code(2);
        let told = format!("another resume of job {id} began at this moment, its start 2");
        assert!(lost.stderr.contains(&told), "{place}: {}", lost.stderr);
        for (bytes, key) in before {
            assert!(stored.bytes(&key) == bytes, "{place}: {key} is as it was");
        }
        let _worker = fleet.worker(&job, &["--target", &target]);
        let ended = job.command(&["stream", &id, "-o", "json"]);
        ended.expect_code(0);
        assert_eq!(String::from_utf8(stored.result()).unwrap(), rows(&corrected), "{place}");
    }
}

#[test]
fn two_that_begin_together_leave_one_start() {
    let fleet = Fleet::shared();
    let (job, id) = without_worker(fleet, "together");
    let corrected = table(&[(9, "much longer than it was")]);
    job.data("t.csv", &corrected);
    let both = [(); 2].map(|()| job.start(&["resume", &id, "--detach"]));
    let mut codes = both.map(|one| one.wait().code);
    codes.sort_unstable();
    assert!(codes[0] == Some(0) && [Some(0), Some(2)].contains(&codes[1]), "{codes:?}");
    let _worker = fleet.worker(&job, &["--target", "together"]);
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(String::from_utf8(fleet.stored(&id).result()).unwrap(), rows(&corrected));
}
