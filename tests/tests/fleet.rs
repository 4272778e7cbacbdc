//! A job on a fleet: the same bytes as embedded, from real servers and real workers.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use prs_common::queue::{Answer, Queue, RabbitMqQueue, settle_all};
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Live};
use serde_json::{Value, json};

const UPPER: &str = "
def run(mini_batch):
    return [open(path).read().upper() for path in mini_batch]
";
/// Says what it has begun, and goes on when it is told to.
const WAITS: &str = "
import marks
def run(mini_batch):
    print('begun', flush=True)
    marks.mark('begun')
    marks.wait_for('go')
    return [open(path).read() for path in mini_batch]
";
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(45);

/// The servers that all tests share; each test has a compute target of its own.
static FLEET: LazyLock<Fleet> = LazyLock::new(Fleet::start);

fn on_fleet(target: &str, script: &str) -> Job {
    FLEET.job(Job::new(script)).with("compute_target", target)
}

fn worker(job: &Job, target: &str, more: &[&str]) -> Live {
    FLEET.worker(job, &[&["--target", target], more].concat())
}

fn id(result: &Value) -> &str {
    result["job_id"].as_str().unwrap()
}

/// Hands `job` in and returns its id.
fn detached(job: &Job) -> String {
    let ended = FLEET.start_submit(job, &["--detach"]).wait();
    ended.expect_code(0);
    id(&ended.json()).to_owned()
}

#[test]
fn direct_inputs_give_the_same_bytes_as_embedded() {
    let embedded = Job::new(UPPER).with_files(101);
    embedded.completes();
    let job = on_fleet("direct", UPPER)
        .with_files(101)
        .with("inputs", json!([{ "type": "file", "path": "data", "mode": "direct" }]))
        .with("node_count", 2);
    let _workers = [worker(&job, "direct", &[]), worker(&job, "direct", &[])];
    let result = FLEET.completes(&job);
    assert_eq!(FLEET.stored(id(&result)).result(), embedded.run().result());
    assert_eq!(result["mini_batches"], json!({ "scheduled": 51, "succeeded": 51, "failed": 0 }));
}

#[test]
fn local_inputs_are_uploaded_and_reach_every_node() {
    let files = Job::new(UPPER).with_files(25);
    files.completes();
    let doubles = "def run(frame):\n    frame['value'] = frame['value'] * 2\n    return frame\n";
    let with_tables = |job: Job| job.with_tables(&[400, 3, 1_000]).with("mini_batch_size", "1KB");
    let tables = with_tables(Job::new(doubles));
    tables.completes();
    let job = on_fleet("uploads", UPPER).with_files(25).with("node_count", 2);
    let _workers = [worker(&job, "uploads", &[]), worker(&job, "uploads", &[])];
    let result = FLEET.completes(&job);
    assert_eq!(FLEET.stored(id(&result)).result(), files.run().result());
    let result = FLEET.completes(&with_tables(on_fleet("uploads", doubles)).with("node_count", 2));
    assert_eq!(FLEET.stored(id(&result)).result(), tables.run().result());
}

#[test]
fn mini_batches_that_are_published_twice_count_once() {
    let name = "published-twice";
    let job = on_fleet("twice", UPPER).with_files(200).with("mini_batch_size", 1).with("name", name);
    let mut submitting = FLEET.start_submit(&job, &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut job_id = None;
    submitting.wait_until("the id of the job", || {
        job_id = handed_in(&job, name);
        job_id.is_some()
    });
    let queue_name = format!("prs.job.{}", job_id.unwrap());
    runtime.block_on(async {
        let queue = RabbitMqQueue::connect(&FLEET.broker.url()).await.unwrap();
        let mut bodies = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while queue.depth(&queue_name).await.map_or(0, |depth| depth.ready) < 200 {
            assert!(Instant::now() < deadline, "the plan is not published");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut deliveries = queue.consume(&queue_name, 500).await.unwrap();
        let mut held = Vec::new();
        while held.len() < 200 {
            held.extend(deliveries.next(500).await);
        }
        bodies.extend(held.iter().map(|delivery| delivery.body.clone()));
        settle_all(held, Answer::Ack).await.unwrap();
        let pairs = bodies.iter().flat_map(|body| [body.clone(), body.clone()]).collect();
        queue.publish(&queue_name, pairs).await.unwrap();
        drop(deliveries);
        queue.close().await;
    });
    let _worker = worker(&job, "twice", &[]);
    let ended = submitting.wait();
    ended.expect_code(0);
    let result = ended.json();
    assert_eq!(FLEET.stored(id(&result)).result(), expected(&job), "{}", FLEET.story());
    assert_eq!(result["mini_batches"], json!({ "scheduled": 200, "succeeded": 200, "failed": 0 }));
}

/// The id of the only job of this name.
fn handed_in(job: &Job, name: &str) -> Option<String> {
    let listed = job.command(&["list", "-o", "json"]).json();
    let mut ids = listed.as_array()?.iter().map(id);
    ids.find(|id| id.starts_with(name)).map(str::to_owned)
}

#[test]
fn a_threshold_that_is_exceeded_ends_the_job_within_two_seconds() {
    let script = "
import time
def run(mini_batch):
    if any('0003' in path for path in mini_batch):
        raise ValueError('bad item')
    time.sleep(0.2)
    return mini_batch
";
    let job = on_fleet("threshold", script)
        .with_files(400)
        .with("error_threshold", 1)
        .with("run_max_try", 1)
        .with("node_count", 2);
    let _workers = [worker(&job, "threshold", &[]), worker(&job, "threshold", &[])];
    let ended = FLEET.submit(&job);
    ended.expect_code(42);
    let result = ended.json();
    assert_eq!(result["state"], "failed", "{}", FLEET.story());
    let stored = FLEET.stored(id(&result));
    assert!(
        stored.text("logs/job_result.txt").starts_with("failed: 2 items failed, more than error_threshold 1")
    );
    assert!(result["mini_batches"]["succeeded"].as_u64().unwrap() < 100, "it ended soon: {result}");
    assert!(stored.keys().iter().any(|key| key.starts_with("segments/")), "what is done is kept");
    assert!(!stored.keys().iter().any(|key| key.starts_with("output/parallel")), "it has no result");
}

#[test]
fn logs_are_in_storage_while_the_job_runs() {
    let job = on_fleet("logs", WAITS).with_files(2);
    let _worker = worker(&job, "logs", &[]);
    let job_id = detached(&job);
    wait_for("the first mini-batch", PATIENCE, || (!job.marks("begun").is_empty()).then_some(()));
    let begun = Instant::now();
    let stored = FLEET.stored(&job_id);
    wait_for("its output in storage", PATIENCE, || {
        let keys = stored.keys();
        let mut stdout = keys.iter().filter(|key| key.starts_with("logs/user/stdout/0/"));
        stdout.any(|key| stored.text(key).contains("begun")).then_some(())
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    job.mark("go");
    wait_for("the result", PATIENCE, || {
        stored.keys().contains(&"logs/job_result.txt".to_owned()).then_some(())
    });
    for log in ["logs/readme.txt", "logs/sys/master_role.txt", "logs/sys/node/0/_main.txt"] {
        assert!(!stored.text(log).is_empty(), "{log}");
    }
}

#[test]
fn a_worker_for_one_job_ends_as_the_job_does() {
    let fails = on_fleet("one", "def run(mini_batch):\n    raise ValueError('no')\n").with_files(2);
    let job_id = detached(&fails);
    worker(&fails, "other", &["--job", &job_id]).wait().expect_code(42);
    let completes = on_fleet("one", UPPER).with_files(2);
    let job_id = detached(&completes);
    worker(&completes, "other", &["--job", &job_id]).wait().expect_code(0);
    worker(&completes, "other", &["--job", &job_id]).wait().expect_code(0);
    worker(&completes, "other", &["--job", "no-such-job"]).wait().expect_code(2);

    let goes_on = on_fleet("one", WAITS).with_files(4);
    let job_id = detached(&goes_on);
    let mut leaves = worker(&goes_on, "other", &["--job", &job_id, "--slots", "1"]);
    leaves.wait_until("the first mini-batch", || !goes_on.marks("begun").is_empty());
    leaves.interrupt();
    goes_on.mark("go");
    leaves.wait().expect_code(41);
    // The tickets of all three, and of the first two as well, are still there: idle workers settle them.
    worker(&goes_on, "one", &["--exit-when-idle", "3"]).wait().expect_code(0);
    assert_eq!(goes_on.command(&["status", &job_id, "-o", "json"]).json()["state"], "completed");
}

#[test]
fn one_worker_serves_several_targets_and_many_run_on_one_host() {
    let first = on_fleet("several-a", UPPER).with_files(40).with("node_count", 6);
    let second = on_fleet("several-b", UPPER).with_files(6);
    let workers: Vec<Live> =
        (0..6).map(|_| worker(&first, "several-a,several-b", &["--slots", "1", "--name", "twin"])).collect();
    for job in [&first, &second] {
        let result = FLEET.completes(job);
        assert_eq!(FLEET.stored(id(&result)).result(), expected(job));
    }
    drop(workers);
}

fn expected(job: &Job) -> Vec<u8> {
    let count = std::fs::read_dir(job.path("data")).unwrap().count();
    (0..count).flat_map(|number| format!("ITEM {number}\n").into_bytes()).collect()
}
