//! `output` on a fleet: a local folder that the command fills that waits for the job; one that does not wait says so.

use std::fs;
use std::time::Duration;

use prs_common::hexadecimal;
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Ended, Fleet, Job, RunFolder, sealed};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

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
    let job = job(fleet, "again", FAILS).with("run_max_try", 1);
    let _worker = fleet.worker(&job, &["--target", "again"]);
    let first = fleet.completes(&job);
    let place = RunFolder::new(job.path("place"));
    assert_eq!(first["output"]["file"], json!(job.path("place").join(RESULT)));
    assert_eq!(place.text(RESULT), "0000.txt\n0001.txt\n");
    assert_eq!(place.files(""), [FAILURES, RESULT]);

    job.mark("go");
    let resumed = job.command(&["resume", first["job_id"].as_str().unwrap(), "-o", "json"]);
    resumed.expect_code(0);
    assert_eq!(resumed.json()["output"]["file"], first["output"]["file"]);
    assert_eq!(place.text(RESULT), "0000.txt\n0001.txt\n0002.txt\n0003.txt\n");
    assert_eq!(place.files(""), [RESULT], "nothing failed any more");
}

#[test]
fn a_result_is_told_though_its_copy_fails() {
    let fleet = Fleet::shared();
    let job = job(fleet, "taken", WAITS);
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
    let remedy = format!("prs result {} --output-path", told["job_id"].as_str().unwrap());
    for part in ["exists already", "`output` is not filled", &remedy] {
        assert!(ended.stderr.contains(part), "{part:?} is not said: {}", ended.stderr);
    }
    assert_eq!(fs::read_to_string(job.path("place").join(RESULT)).unwrap(), "mine");
}

#[test]
fn a_command_that_does_not_wait_says_that_nothing_is_filled() {
    let fleet = Fleet::shared();
    let job = job(fleet, "left", WAITS);
    let hears = |said: &str, id: &str| {
        let remedy = format!("prs result {id} --output-path {}", job.path("place").display());
        assert!(said.contains("`output` is not filled") && said.contains(&remedy), "{said}");
    };
    let detached = fleet.start_submit(&job, &["--detach"]).wait();
    detached.expect_code(0);
    let id = detached.json()["job_id"].as_str().unwrap().to_owned();
    hears(&detached.stderr, &id);
    // Who looks at the job later reads it, too.
    let notes =
        serde_json::from_str::<Value>(&fleet.stored(&id).text("job.json")).unwrap()["spec"]["notes"].clone();
    assert!(notes.to_string().contains(&format!("prs result {id} --output-path DIR")), "{notes}");
    job.command(&["cancel", &id]).expect_code(0);

    let mut submit = job.start(&["resume", &id]);
    submit.wait_until_said("goes on");
    submit.interrupt();
    let left = submit.wait();
    left.expect_code(130);
    hears(&left.stderr, &id);
    job.command(&["cancel", &id]).expect_code(0);
}

#[test]
fn an_output_that_a_submit_waits_to_fill_is_no_other_jobs() {
    let fleet = Fleet::shared();
    let job = job(fleet, "claimed", WAITS);
    let _worker = fleet.worker(&job, &["--target", "claimed"]);
    let mut submit = fleet.start_submit(&job, &[]);
    submit.wait_until("the first mini-batch", || !job.marks("begun").is_empty());
    let is_refused = |ended: Ended| {
        ended.expect_code(2);
        assert!(ended.stderr.contains("is being filled by job test-job-"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("is handed in"), "{}", ended.stderr);
    };
    is_refused(fleet.submit(&job));
    // A run on this machine and a copy are told as well.
    let file = job.write_job_file().display().to_string();
    is_refused(job.command(&["submit", &file, "--run-dir", "here", "--local"]));
    let done = fleet.hand_in(&job);
    job.command(&["cancel", &done]).expect_code(0);

    // Whom it belonged to is dead: another may have it, and then the first one again.
    assert!(submit.kill());
    let mut other = fleet.start_submit(&job, &[]);
    other.wait_until_said("is handed in");
    assert!(other.kill());
    job.mark("go");
    fleet.completes(&job);
    let place = RunFolder::new(job.path("place"));
    assert_eq!(place.text(RESULT), "row\nrow\n");
    assert_eq!(place.files(""), [FAILURES, RESULT], "one row for two files");
}

#[test]
fn what_a_user_made_of_a_copy_is_not_replaced() {
    let fleet = Fleet::shared();
    let job = job(fleet, "edited", FAILS).with("run_max_try", 1);
    let _worker = fleet.worker(&job, &["--target", "edited"]);
    let id = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    let there = job.path("place").join(RESULT);
    fs::write(&there, "edited").unwrap();
    job.mark("go");
    let refused = job.command(&["resume", &id]);
    refused.expect_code(2);
    let told = format!("{} is not what job {id} brought", there.display());
    assert!(refused.stderr.contains(&told) && !refused.stderr.contains("goes on"), "{}", refused.stderr);
    fs::remove_file(&there).unwrap();
    job.command(&["resume", &id]).expect_code(0);
    let place = RunFolder::new(job.path("place"));
    assert_eq!(place.text(RESULT), "0000.txt\n0001.txt\n0002.txt\n0003.txt\n");
    assert_eq!(place.files(""), [RESULT]);
}

#[test]
fn a_copy_with_other_bytes_than_the_job_wrote_is_refused() {
    let fleet = Fleet::shared();
    let job = job(fleet, "flipped", WAITS);
    let _worker = fleet.worker(&job, &["--target", "flipped"]);
    job.mark("go");
    let id = fleet.completes(&job)["job_id"].as_str().unwrap().to_owned();
    let stored = fleet.stored(&id);
    let key = format!("output/{RESULT}");
    let rows = stored.bytes(&key);
    let mut flipped = rows.clone();
    flipped[4] ^= 1;
    stored.replace(&key, &flipped);
    let copy = job.path("copy").display().to_string();
    let told = job.command(&["result", &id, "--output-path", &copy]);
    told.expect_code(42);
    let sums = [&rows, &flipped].map(|bytes| hexadecimal(&Sha256::digest(bytes)));
    for part in [&format!("/jobs/{id}/{key}"), &sums[0], &sums[1]] {
        assert!(told.stderr.contains(part), "{part:?} is not said: {}", told.stderr);
    }
    assert!(!job.path("copy").exists(), "nothing is left of the copy");
    stored.replace(&key, &rows);
    job.command(&["result", &id, "--output-path", &copy]).expect_code(0);
    assert_eq!(fs::read(job.path("copy").join(RESULT)).unwrap(), rows);
    stored.replace(&key, &rows[1..]);
    job.command(&["result", &id]).expect_code(42);
    job.command(&["resume", &id]).expect_code(42);
}

#[test]
fn a_stored_name_that_prs_uses_fails_the_job_with_the_reason() {
    let fleet = Fleet::shared();
    let job = job(fleet, "named", WAITS);
    let id = fleet.hand_in(&job);
    let mut record: Value = serde_json::from_slice(&fleet.stored(&id).bytes("job.json")).unwrap();
    record["spec"]["append_row_file_name"] = json!(FAILURES);
    fleet.stored(&id).replace("job.json", sealed(record).as_bytes());
    let worker = fleet.worker(&job, &["--target", "named", "--job", &id]).wait();
    assert_ne!(worker.code, Some(0), "{}", worker.stderr);
    let result = job.command(&["stream", &id, "-o", "json"]).json();
    assert_eq!(result["state"], "failed", "{result}");
    let reason = result["reason"].as_str().unwrap();
    assert!(reason.contains("append_row_file_name") && reason.contains(FAILURES), "{reason}");
    assert!(job.marks("begun").is_empty());
    let refused = job.command(&["resume", &id]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("append_row_file_name"), "{}", refused.stderr);
}

#[test]
fn a_result_that_lies_in_the_way_fails_the_job_and_stays() {
    let fleet = Fleet::shared();
    let job = job(fleet, "in-the-way", WAITS);
    let _worker = fleet.worker(&job, &["--target", "in-the-way"]);
    let id = fleet.hand_in(&job);
    wait_for("the first mini-batch", Duration::from_mins(1), || {
        (!job.marks("begun").is_empty()).then_some(())
    });
    let key = format!("output/{RESULT}");
    fleet.stored(&id).replace(&key, b"precious");
    job.mark("go");
    let result = job.command(&["stream", &id, "-o", "json"]).json();
    assert_eq!(result["state"], "failed", "{result}");
    let reason = result["reason"].as_str().unwrap();
    assert!(reason.contains(RESULT) && reason.contains("move it away and resume"), "{reason}");
    assert_eq!(fleet.stored(&id).bytes(&key), b"precious");
}

#[test]
fn a_path_that_is_too_long_for_the_bucket_fails_its_mini_batch_alone() {
    let script = r#"
import os
from azureml_user.parallel_run import EntryScript

def run(mini_batch, context):
    # As long as names may be, with what stands before them in the bucket and may be added to them; and one more byte.
    longest = 1024 - len(os.environ["BEFORE"]) - len(os.environ["AZUREML_RUN_ID"])
    length = longest + (context.minibatch_index == 1)
    path = "/".join(["p" * 200] * 4 + [""])
    path += "q" * (length - len(path))
    path = os.path.join(EntryScript().output_dir, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(str(context.minibatch_index))
    return [context.minibatch_index]
"#;
    let fleet = Fleet::shared();
    let target = "long-output";
    let staged = "files/0001-00000-01234567-process000-4294967295/";
    let before = format!("prs/jobs//{staged}");
    let job = fleet.job(Job::new(script).with_files(3)).with("compute_target", target);
    let job = job.with("mini_batch_size", 1).with("run_max_try", 1).with("process_count_per_node", 1);
    let job = job.with_variable("BEFORE", &before);
    let _worker = fleet.worker(&job, &["--target", target]);
    let result = fleet.completes(&job);
    assert_eq!(result["mini_batches"], json!({ "scheduled": 3, "succeeded": 2, "failed": 1 }));
    let stored = fleet.stored(result["job_id"].as_str().unwrap());
    let failed = stored.text("output/failed_mini_batches.jsonl");
    assert!(failed.contains("its path below EntryScript().output_dir has "), "{failed}");
    let keys = stored.keys();
    let published: Vec<_> = keys.iter().filter(|key| key.starts_with("output/ppp")).collect();
    assert!(published.len() == 2 && published[1].contains(".mb-0000000002"), "{published:?}");
}
