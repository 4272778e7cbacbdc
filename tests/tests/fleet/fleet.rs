//! A job on a fleet: the same bytes as embedded, from real servers and real workers.

use std::time::{Duration, Instant};

use prs_common::queue::{Queue, RabbitMqQueue, ack_all};
use prs_tests::deadline::{Stopwatch, wait_for};
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

/// How long a job that exceeds a threshold may still begin mini-batches: two seconds, and as much again for a machine
/// that is busy with other things.
const WITHIN: Duration = Duration::from_secs(4);

/// A job for the workers of `target`.
fn on_fleet(fleet: &Fleet, target: &str, script: &str) -> Job {
    fleet.job(Job::new(script)).with("compute_target", target)
}

fn worker(fleet: &Fleet, job: &Job, target: &str) -> Live {
    fleet.worker(job, &["--target", target])
}

fn id(result: &Value) -> &str {
    result["job_id"].as_str().unwrap()
}

#[test]
fn direct_inputs_give_the_same_bytes_as_embedded() {
    let fleet = Fleet::shared();
    let embedded = Job::new(UPPER).with_files(101);
    embedded.completes();
    let job = on_fleet(fleet, "direct", UPPER)
        .with_files(101)
        .with("inputs", json!([{ "type": "file", "path": "data", "mode": "direct" }]))
        .with("node_count", 2);
    let _workers = [worker(fleet, &job, "direct"), worker(fleet, &job, "direct")];
    let result = fleet.completes(&job);
    assert_eq!(fleet.stored(id(&result)).result(), embedded.run().result());
    assert_eq!(result["mini_batches"], json!({ "scheduled": 51, "succeeded": 51, "failed": 0 }));
}

#[test]
fn local_inputs_are_uploaded_and_reach_every_node() {
    let fleet = Fleet::shared();
    let files = Job::new(UPPER).with_files(25);
    files.completes();
    let doubles = "def run(frame):\n    frame['value'] = frame['value'] * 2\n    return frame\n";
    let with_tables = |job: Job| job.with_tables(&[400, 3, 1_000]).with("mini_batch_size", "1KB");
    let tables = with_tables(Job::new(doubles));
    tables.completes();
    let job = on_fleet(fleet, "uploads", UPPER).with_files(25).with("node_count", 2);
    let _workers = [worker(fleet, &job, "uploads"), worker(fleet, &job, "uploads")];
    let result = fleet.completes(&job);
    assert_eq!(fleet.stored(id(&result)).result(), files.run().result());
    let result = fleet.completes(&with_tables(on_fleet(fleet, "uploads", doubles)).with("node_count", 2));
    assert_eq!(fleet.stored(id(&result)).result(), tables.run().result());
}

#[test]
fn mini_batches_that_are_published_twice_count_once() {
    let fleet = Fleet::shared();
    let name = "published-twice";
    let job = on_fleet(fleet, "twice", UPPER).with_files(200).with("mini_batch_size", 1).with("name", name);
    let mut submitting = fleet.start_submit(&job, &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut job_id = None;
    submitting.wait_until("the id of the job", || {
        job_id = fleet.id_of(name);
        job_id.is_some()
    });
    let queue_name = format!("prs.job.{}", job_id.unwrap());
    runtime.block_on(async {
        let queue = RabbitMqQueue::connect(&fleet.broker_url()).await.unwrap();
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
        ack_all(held).unwrap();
        let pairs = bodies.iter().flat_map(|body| [body.clone(), body.clone()]).collect();
        queue.publish(&queue_name, pairs).await.unwrap();
        drop(deliveries);
        queue.close().await;
    });
    let _worker = worker(fleet, &job, "twice");
    let ended = submitting.wait();
    ended.expect_code(0);
    let result = ended.json();
    assert_eq!(fleet.stored(id(&result)).result(), expected(&job), "{}", fleet.story());
    assert_eq!(result["mini_batches"], json!({ "scheduled": 200, "succeeded": 200, "failed": 0 }));
}

#[test]
fn a_threshold_that_is_exceeded_ends_the_job_within_two_seconds() {
    let fleet = Fleet::shared();
    let script = "
import time
import marks
def run(mini_batch):
    if any('0003' in path for path in mini_batch):
        marks.mark('raised', time.time())
        raise ValueError('bad item')
    marks.mark('began', time.time())
    time.sleep(0.2)
    return mini_batch
";
    let job = on_fleet(fleet, "threshold", script)
        .with_files(400)
        .with("error_threshold", 1)
        .with("run_max_try", 1)
        .with("node_count", 2);
    let _workers = [worker(fleet, &job, "threshold"), worker(fleet, &job, "threshold")];
    let watch = Stopwatch::start();
    let ended = fleet.submit(&job);
    ended.expect_code(42);
    let result = ended.json();
    assert_eq!(result["state"], "failed", "{}", fleet.story());
    let stored = fleet.stored(id(&result));
    assert!(
        stored.text("logs/job_result.txt").starts_with("failed: 2 items failed, more than error_threshold 1")
    );
    let times = |name| job.marks(name).iter().map(|time| time.parse::<f64>().unwrap()).collect::<Vec<_>>();
    let (raised, began) = (times("raised"), times("began"));
    assert_eq!(raised.len(), 1);
    let last = Duration::from_secs_f64(began.iter().copied().fold(raised[0], f64::max) - raised[0]);
    assert!(watch.left_of(last) < WITHIN, "a mini-batch began {last:?} after the failure\n{}", fleet.story());
    assert!(began.len() < 199, "nothing was left to be held back");
    assert!(stored.keys().iter().any(|key| key.starts_with("segments/")), "what is done is kept");
    assert!(!stored.keys().iter().any(|key| key.starts_with("output/parallel")), "it has no result");
}

#[test]
fn logs_are_in_storage_while_the_job_runs() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "logs", WAITS).with_files(2);
    let _worker = worker(fleet, &job, "logs");
    let job_id = fleet.hand_in(&job);
    wait_for("the first mini-batch", PATIENCE, || (!job.marks("begun").is_empty()).then_some(()));
    let begun = Instant::now();
    let stored = fleet.stored(&job_id);
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

fn expected(job: &Job) -> Vec<u8> {
    let count = std::fs::read_dir(job.path("data")).unwrap().count();
    (0..count).flat_map(|number| format!("ITEM {number}\n").into_bytes()).collect()
}
