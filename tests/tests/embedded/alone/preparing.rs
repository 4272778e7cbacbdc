//! Ctrl-C while a job of this machine is prepared.

use std::net::TcpListener;
use std::time::Duration;

use prs_tests::deadline::Stopwatch;
use prs_tests::harness::Job;
use serde_json::json;

/// Longest time from the signal to the end of the program.
const LIMIT: Duration = Duration::from_secs(2);

#[test]
fn ctrl_c_is_heard_while_a_bucket_that_does_not_answer_is_listed() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n")
        .with("inputs", json!([{ "type": "file", "path": "s3://bucket/data" }]))
        .with_own_variable("AWS_ENDPOINT_URL_S3", &format!("http://{}", silent.local_addr().unwrap()))
        .with_own_variable("AWS_REGION", "us-east-1")
        .with_own_variable("AWS_ACCESS_KEY_ID", "key")
        .with_own_variable("AWS_SECRET_ACCESS_KEY", "secret");
    let mut submit = job.start_submit(&[]);
    silent.set_nonblocking(true).unwrap();
    let mut asked = Vec::new();
    submit.wait_until("a question to the bucket", || {
        asked.extend(silent.accept());
        !asked.is_empty()
    });
    submit.interrupt();
    let watch = Stopwatch::start();
    let ended = submit.wait();
    assert!(watch.elapsed() < LIMIT, "{:?}", watch.elapsed());
    ended.expect_code(130);
    for part in ["interrupted (Ctrl-C)", "run holds a job that has not run"] {
        assert!(ended.stderr.contains(part), "{part:?} is not said: {}", ended.stderr);
    }
    ended.has_no_data();
    assert!(!job.run().path().join("job.json").exists());
    job.has_left_nothing();
}
