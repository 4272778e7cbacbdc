//! Jobs whose `job.json` cannot be read: they hold no worker, and go when a person says so.

use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, HOLDS, Job, NAMES, Stored};
use serde_json::json;

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(45);

fn flip(record: &Stored<'_>) {
    let mut bytes = record.bytes("job.json");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    record.replace("job.json", &bytes);
}

fn cut(record: &Stored<'_>) {
    let bytes = record.bytes("job.json");
    record.replace("job.json", &bytes[..bytes.len() / 3]);
}

#[test]
fn a_record_that_cannot_be_read_holds_no_worker_back_and_can_be_removed() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(NAMES).with_files(4)).with("mini_batch_size", 1);
    let holds = fleet.job(Job::new(HOLDS).with_files(4));
    let damages: [fn(&Stored<'_>); 4] =
        [flip, cut, |record| record.replace("job.json", b"{}"), |record| record.replace("job.json", b"")];
    let mut unread = Vec::new();
    for damage in damages {
        let id = fleet.hand_in(&job);
        damage(&fleet.stored(&id));
        unread.push(id);
    }
    let other = fleet.hand_in(&job);
    fleet.stored(&other).replace("job.json", b"{\"prs_version\": \"99.0.0\"}");
    // The newest: all others come first.
    let held = fleet.hand_in(&holds);
    let mut worker = fleet.worker(&job, &[]);
    wait_for("a held mini-batch", PATIENCE, || (!holds.marks("held").is_empty()).then_some(()));
    flip(&fleet.stored(&held));
    holds.mark("go");
    unread.push(held);
    // It is handed in while the job before it cannot be ended.
    let good = fleet.completes(&job);
    assert_eq!(good["output"]["rows"], 4);

    let listed = job.command(&["list", "-o", "json"]);
    listed.expect_code(0);
    assert_eq!(listed.json()["jobs"].as_array().unwrap().len(), 1, "{}", listed.stdout);
    for id in &unread {
        let refused = |arguments: &[&str]| {
            let ended = job.command(arguments);
            ended.expect_code(2);
            for part in ["job.json", &format!("prs cancel {id}"), &format!("prs rm {id}")] {
                assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
            }
        };
        refused(&["status", id]);
        refused(&["rm", id, "--yes"]);
        let canceled = job.command(&["cancel", id, "-o", "json"]);
        canceled.expect_code(0);
        assert_eq!(canceled.json()["state"], "canceled", "{}", canceled.stdout);
        refused(&["cancel", id]);
        job.command(&["rm", id, "--yes"]).expect_code(0);
        assert_eq!(fleet.stored(id).keys(), [""; 0]);
    }
    let refused = job.command(&["cancel", &other]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("99.0.0"), "{}", refused.stderr);
    job.command(&["gc", "--yes"]).expect_code(0);
    let left = || fleet.active().iter().all(|active| active.contains(&other)).then_some(());
    wait_for("the end of all that was damaged", PATIENCE, left);
    let left = |run: &String| fleet.redis_cli(&["--raw", "keys", &format!("prs:{{{run}}}:*")]);
    assert!(unread.iter().all(|run| left(run).is_empty()));
    assert_eq!(fleet.completes(&job)["mini_batches"], json!({ "scheduled": 4, "succeeded": 4, "failed": 0 }));
    assert!(!worker.has_ended(), "{}", worker.stderr());
}
