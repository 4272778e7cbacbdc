//! Inputs of a job of a fleet whose rows are put together in steps, changed before it goes on.

use prs_tests::harness::{Fleet, GROUPED, Job};
use serde_json::json;

#[test]
fn rows_that_were_put_together_are_of_the_inputs_as_they_were() {
    let fleet = Fleet::shared();
    let job = Job::new(GROUPED).with("allowed_failed_count", 5).with("run_max_try", 1);
    job.data("in/1.csv", "k,n\na,1\nb,2\na,3\n");
    job.data("in/2.csv", "k,n\na,4\nbad,5\n");
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/in", "mode": "direct" }]));
    let job = fleet.job(job).with("partition_keys", json!(["k"])).with("compute_target", "split-corrected");
    let _worker = fleet.worker(&job, &["--target", "split-corrected"]);
    let printed = fleet.start_submit(&job, &[]).wait().json();
    assert_eq!(printed["mini_batches"]["failed"], 1, "{printed}");
    let id = printed["job_id"].as_str().unwrap();
    job.data("in/2.csv", "k,n\na,4\nmended,5\n");
    let refused = job.command(&["resume", id]);
    refused.expect_code(2);
    for part in ["step split: ", "in/2.csv has other content there, and mini-batch 1 had it", "prs resubmit"]
    {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    job.data("in/2.csv", "k,n\na,4\nbad,5\n");
    job.script(&GROUPED.replace("raise ValueError", "print"));
    let ended = job.command(&["resume", id, "--code", "new", "-o", "json"]);
    ended.expect_code(0);
    assert_eq!(fleet.stored(&format!("{id}-run")).result(), b"a 1\na 3\na 4\nb 2\nbad 5\n");
}
