//! Inputs that are corrected before a job of a fleet goes on (spec S11): whoever publishes the plan finds the corrected one.

use prs_tests::harness::{Fleet, Job, PICKY, picky_table};
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
