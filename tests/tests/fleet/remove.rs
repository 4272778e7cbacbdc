//! `rm`: what goes, what stays, and who is asked.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, HOLDS, Job};
use rustix::process::Signal;
use serde_json::json;

const ECHO: &str =
    "import os\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";

fn submit(job: Job, name: &str) -> (Job, String) {
    let job = job.with("name", name);
    job.script(ECHO);
    job.write_job_file();
    let ended = job.command(&["submit", "job.yml", "-o", "json"]);
    ended.expect_code(0);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    (job, id)
}

#[track_caller]
fn is_refused(job: &Job, arguments: &[&str], parts: &[&str]) {
    let ended = job.command(&[&["rm"], arguments].concat());
    ended.expect_code(2);
    for part in parts {
        assert!(ended.stderr.contains(part), "{arguments:?}: {part:?} is not said: {}", ended.stderr);
    }
}

/// Removes, and returns the ids of what was removed.
#[track_caller]
fn removes(job: &Job, arguments: &[&str]) -> Vec<String> {
    let ended = job.command(&[&["rm", "--yes", "-o", "json"], arguments].concat());
    ended.expect_code(0);
    let removed = ended.json();
    assert!(
        removed["jobs"].as_array().unwrap().iter().all(|one| one["bytes"].as_u64() > Some(0)),
        "{removed}"
    );
    removed["jobs"].as_array().unwrap().iter().map(|one| one["job_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_job_goes_with_its_folder_and_its_output_elsewhere_stays() {
    let job = Job::new(ECHO).with_files(3);
    let (job, first) = submit(job, "rows");
    let (job, second) = submit(job, "rows");
    let (job, other) = submit(job, "other");
    let (job, kept) = submit(job.with("output", "kept"), "kept");
    let folder = |id: &str| job.path("prs-runs").join(id);

    let ended = job.command(&["rm", &first]);
    ended.expect_code(2);
    assert!(ended.stdout.contains(&first) && ended.stderr.contains("--yes"), "{ended:?}");
    assert!(folder(&first).is_dir());
    is_refused(&job, &[], &["--state"]);
    is_refused(&job, &["nothing", "--yes"], &["there is no job \"nothing\""]);
    is_refused(&job, &[&first, "--state", "completed"], &["cannot be used with"]);

    assert_eq!(removes(&job, &["rows", &second]), [second.as_str()]);
    assert!(!folder(&second).exists() && folder(&first).is_dir());
    assert_eq!(removes(&job, &["--name", "rows", "--older", "0s"]), [first.as_str()]);
    assert_eq!(removes(&job, &["--older", "1h"]), [""; 0]);
    assert_eq!(removes(&job, &[&kept]), [kept.as_str()]);
    assert!(!folder(&kept).exists() && job.path("kept/parallel_run_step.txt").is_file());
    assert_eq!(removes(&job, &["--state", "completed"]), [other]);
    assert_eq!(fs::read_dir(job.path("prs-runs")).unwrap().count(), 0);
}

#[test]
fn a_job_that_runs_stays() {
    let job = Job::new(HOLDS).with_files(6).with("run_invocation_timeout", 600);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("a held mini-batch", || !job.marks("held").is_empty());
    let run = job.run().path().display().to_string();
    is_refused(&job, &[&run, "--yes"], &["has not ended", "cancel"]);
    job.command(&["cancel", &run]).expect_code(0);
    submit.wait().expect_code(130);
    assert_eq!(removes(&job, &[&run]).len(), 1);
    assert!(!job.run().path().exists());
}

/// The id of a job that is removed as soon as its record says that it has ended.
fn removed_at_its_end(fleet: &Fleet, job: &Job) -> String {
    let id = fleet.hand_in(job);
    let status = || job.command(&["status", &id, "-o", "json"]).json();
    wait_for("its end", Duration::from_secs(20), || (status()["state"] == "completed").then_some(()));
    assert_eq!(removes(job, &[&id]), [id.as_str()]);
    id
}

#[test]
fn a_job_of_a_fleet_goes_with_all_it_has_in_storage() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(ECHO).with_files(2));
    let job = job
        .with("name", "first")
        .with("inputs", json!([{ "type": "file", "path": "data", "mode": "direct" }]));
    let mut worker = fleet.worker(&job, &[]);
    // Right after its end: its node and its orchestrator are about to write their last logs.
    let first: Vec<String> = (0..4).map(|_| removed_at_its_end(&fleet, &job)).collect();
    let (job, second) = submit(job, "second");
    wait_for("all jobs tidied up", Duration::from_secs(20), || fleet.active().is_empty().then_some(()));
    worker.signal(Signal::TERM);
    worker.wait().expect_code(0);
    for id in &first {
        assert_eq!(fleet.stored(id).keys(), [""; 0]);
    }
    assert!(fleet.id_of("first").is_none() && fleet.id_of("second").is_some());
    assert!(!fleet.stored(&second).keys().is_empty());

    // A command was stopped while it was removed.
    fleet.stored(&second).delete("job.json");
    let ended = job.command(&["rm", &second, "--yes"]);
    ended.expect_code(0);
    assert!(ended.stdout.starts_with("1 job removed, "), "{}", ended.stdout);
    assert_eq!(fleet.stored(&second).keys(), [""; 0]);
    let list = job.command(&["list", "-o", "json"]);
    assert_eq!(list.json()["jobs"], json!([]));
    is_refused(&job, &[&second, "--yes"], &["there is no job"]);
}
