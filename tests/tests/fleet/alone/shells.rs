//! Completions of jobs of a fleet: a shell waits for its servers for a moment and no longer.

use std::net::TcpListener;

use prs_tests::harness::{Fleet, Job};

use crate::shells::{ECHO, offered};

#[test]
fn jobs_of_a_fleet_are_offered_and_a_server_that_is_silent_is_not_waited_for() {
    let fleet = Fleet::shared();
    let job = fleet.job(Job::new(ECHO).with_files(1)).with("compute_target", "nobody-completes");
    job.write_job_file();
    let ended = job.command(&["submit", "job.yml", "--detach"]);
    ended.expect_code(0);
    let id = ended.stdout.trim().to_owned();
    // The storage may be slow for once on a machine that is busy.
    let is_offered = || offered(&job, &["cancel"]).contains(&id);
    assert!((0..50).any(|_| is_offered()), "{id} is not offered");
    job.command(&["cancel", &id]).expect_code(0);

    // Takes connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let job = job
        .with_own_variable("AWS_ENDPOINT_URL_S3", &url)
        .with_own_variable("PRS_STORAGE_URL", "s3://silent");
    let jobs = offered(&job, &["cancel"]);
    assert_eq!(jobs[..2], ["@latest", "@failed"], "{jobs:?}");
}
