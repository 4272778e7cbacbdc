//! Workers of a fleet: whom they serve, how long they wait, and how they leave.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prs_common::statistics::{Live as Standing, Part, decode};
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Live};
use rustix::process::Signal;
use serde_json::Value;

/// Says who has begun, and goes on when it is told to.
const WAITS: &str = "
import os
import marks
def run(mini_batch):
    marks.mark('began', os.getppid())
    marks.wait_for('go')
    return [open(path).read() for path in mini_batch]
";
const ECHO: &str = "
def run(mini_batch):
    return [open(path).read() for path in mini_batch]
";
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// What a worker says when it is asked to end while it serves a job.
const DRAINS: &str = "asked to end: what runs may end";

fn on_fleet(fleet: &Fleet, target: &str, script: &str) -> Job {
    let job = fleet.job(Job::new(script)).with("compute_target", target);
    job.with("run_invocation_timeout", 600)
}

fn worker(fleet: &Fleet, job: &Job, target: &str, more: &[&str]) -> Live {
    fleet.worker(job, &[&["--target", target], more].concat())
}

fn state(job: &Job, id: &str) -> String {
    job.command(&["status", id, "-o", "json"]).json()["state"].as_str().unwrap().to_owned()
}

fn rows(count: usize) -> Vec<u8> {
    (0..count).flat_map(|number| format!("item {number}\n").into_bytes()).collect()
}

#[test]
fn a_worker_for_one_job_ends_as_the_job_does() {
    let fleet = Fleet::shared();
    let fails = on_fleet(fleet, "one", "def run(mini_batch):\n    raise ValueError('no')\n").with_files(2);
    let id = fleet.hand_in(&fails);
    worker(fleet, &fails, "other", &["--job", &id]).wait().expect_code(42);
    let completes = on_fleet(fleet, "one", ECHO).with_files(2);
    let id = fleet.hand_in(&completes);
    worker(fleet, &completes, "other", &["--job", &id]).wait().expect_code(0);
    worker(fleet, &completes, "other", &["--job", &id]).wait().expect_code(0);
    worker(fleet, &completes, "other", &["--job", "no-such-job"]).wait().expect_code(2);

    let goes_on = on_fleet(fleet, "one", WAITS).with_files(4);
    let id = fleet.hand_in(&goes_on);
    let mut leaves = worker(fleet, &goes_on, "other", &["--job", &id, "--slots", "1"]);
    leaves.wait_until("the first mini-batch", || !goes_on.marks("began").is_empty());
    leaves.interrupt();
    // Before that, it would go on with the second mini-batch.
    leaves.wait_until_said(DRAINS);
    goes_on.mark("go");
    leaves.wait().expect_code(41);
    assert_eq!(goes_on.marks("began").len(), 1, "it took nothing more");
    // All three still want a node, or are to be tidied up.
    worker(fleet, &goes_on, "one", &["--exit-when-idle", "3"]).wait().expect_code(0);
    assert_eq!(state(&goes_on, &id), "completed");
}

#[test]
fn a_worker_for_a_job_of_another_version_says_so() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "version", ECHO).with_files(2);
    let id = fleet.hand_in(&job);
    let stored = fleet.stored(&id);
    let record = stored.bytes("job.json");
    let mut foreign: Value = serde_json::from_slice(&record).unwrap();
    foreign["prs_version"] = "99.0.0".into();
    stored.replace("job.json", foreign.to_string().as_bytes());
    let ended = worker(fleet, &job, "other", &["--job", &id]).wait();
    ended.expect_code(2);
    for part in ["the job is of another version of prs", "99.0.0"] {
        assert!(ended.stderr.contains(part), "{part:?} is not said: {}", ended.stderr);
    }
    // It has done nothing to the job.
    stored.replace("job.json", &record);
    worker(fleet, &job, "other", &["--job", &id]).wait().expect_code(0);
    assert_eq!(stored.result(), rows(2));
}

#[test]
fn one_worker_serves_several_targets_and_many_run_on_one_host() {
    const MANY: usize = 20;
    let fleet = Fleet::shared();
    let first = on_fleet(fleet, "several-a", WAITS)
        .with_files(3 * MANY)
        .with("mini_batch_size", 1)
        .with("node_count", MANY)
        .with("process_count_per_node", 1);
    let targets = "several-a,several-b";
    let mut workers: Vec<Live> =
        (0..MANY).map(|_| worker(fleet, &first, targets, &["--slots", "1", "--name", "twin"])).collect();
    let id = fleet.hand_in(&first);
    wait_for("all of them at work", PATIENCE, || {
        let who: BTreeSet<String> = first.marks("began").into_iter().collect();
        (who.len() == MANY).then_some(())
    });
    wait_for("all of them to be known", PATIENCE, || {
        let status = first.command(&["status", &id, "-o", "json"]).json();
        (status["nodes"] == MANY && status["processes"] == MANY).then_some(())
    });
    first.mark("go");
    first.command(&["stream", &id]).expect_code(0);
    assert_eq!(fleet.stored(&id).result(), rows(3 * MANY));
    assert_eq!(first.marks("began").len(), 3 * MANY, "each mini-batch ran once");

    let second = on_fleet(fleet, "several-b", ECHO).with_files(6);
    let result = fleet.completes(&second);
    assert_eq!(fleet.stored(result["job_id"].as_str().unwrap()).result(), rows(6));
    for worker in &mut workers {
        assert!(!worker.has_ended(), "a worker has ended by itself\n{}", worker.stderr());
    }
}

#[test]
fn a_worker_that_slept_over_the_end_of_its_job_leaves_nothing_in_storage() {
    let fleet = Fleet::shared();
    let job =
        on_fleet(fleet, "sleeper", WAITS).with_files(12).with("mini_batch_size", 1).with("node_count", 2);
    let id = fleet.hand_in(&job);
    let one_slot = ["--target", "sleeper", "--slots", "1"];
    let _other = fleet.worker(&job, &one_slot);
    wait_for("the orchestrator, and a mini-batch", PATIENCE, || {
        (fleet.orchestrator_of(&id).is_some() && !job.marks("began").is_empty()).then_some(())
    });
    let stops = [("PRS_FAILPOINT".to_owned(), "segment_sealed:1:stop".to_owned())];
    let mut sleeper = fleet.worker_with(&job, &one_slot, &stops);
    wait_for("a mini-batch at the other worker", PATIENCE, || (job.marks("began").len() == 2).then_some(()));
    job.mark("go");
    wait_for("the worker with a segment in hand", PATIENCE, || sleeper.is_stopped().then_some(()));
    job.command(&["stream", &id]).expect_code(0);
    let segments = || {
        let keys = fleet.stored(&id).keys();
        keys.into_iter()
            .filter(|key| key.starts_with("segments/") || key.starts_with("files/"))
            .collect::<Vec<_>>()
    };
    wait_for("the end of the segments", PATIENCE, || segments().is_empty().then_some(()));
    assert!(sleeper.signal(Signal::CONT));
    sleeper.wait_until_said("this worker stops serving the job");
    assert_eq!(segments(), Vec::<String>::new(), "{}", sleeper.stderr());
    assert_eq!(fleet.stored(&id).result(), rows(12));
}

#[test]
fn the_second_signal_stops_what_the_first_lets_end() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "signals", WAITS).with_files(1);
    let id = fleet.hand_in(&job);
    let mut leaves = worker(fleet, &job, "signals", &[]);
    leaves.wait_until("the mini-batch", || job.marks("began").len() == 1);
    assert!(leaves.signal(Signal::TERM));
    leaves.wait_until_said(DRAINS);
    let drains_until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < drains_until {
        assert!(!leaves.has_ended(), "it did not wait for what runs\n{}", leaves.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(job.script_processes().len(), 1, "the mini-batch still runs");
    assert!(leaves.signal(Signal::TERM));
    let second = Instant::now();
    let ended = leaves.wait();
    assert!(second.elapsed() < Duration::from_secs(5), "{:?}\n{}", second.elapsed(), ended.stderr);
    ended.expect_code(0);
    job.has_left_nothing();

    let _other = worker(fleet, &job, "signals", &[]);
    wait_for("the mini-batch elsewhere", PATIENCE, || (job.marks("began").len() == 2).then_some(()));
    job.mark("go");
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(fleet.stored(&id).result(), rows(1));
}

#[test]
fn an_idle_worker_ends_after_its_time_and_work_begins_it_anew() {
    const IDLE: Duration = Duration::from_secs(3);
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "idle", WAITS).with_files(1);
    let ended = worker(fleet, &job, "idle", &["--exit-when-idle", "3"]).wait();
    ended.expect_code(0);
    assert!(ended.took >= IDLE, "{:?}", ended.took);

    let id = fleet.hand_in(&job);
    let mut works = worker(fleet, &job, "idle", &["--exit-when-idle", "3"]);
    works.wait_until("the mini-batch", || job.marks("began").len() == 1);
    let busy_until = Instant::now() + IDLE + Duration::from_secs(1);
    while Instant::now() < busy_until {
        assert!(!works.has_ended(), "it has ended over its work\n{}", works.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = Instant::now();
    job.mark("go");
    works.wait().expect_code(0);
    assert!(told.elapsed() >= IDLE, "{:?} after its work", told.elapsed());
    assert_eq!(state(&job, &id), "completed");
}

#[test]
fn a_worker_is_connected_to_the_broker_while_it_has_a_job() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "broker", WAITS).with_files(1);
    let mut worker = worker(fleet, &job, "broker", &[]);
    worker.wait_until_said("the worker is ready");
    let name = format!("-{}", worker.id());
    // `prs HOST-PID`, and the same with ` publishing` behind it.
    let is_connected = || {
        let connections = fleet.broker.control(&["list_connections", "--quiet", "client_properties"]);
        let mut names = connections.split('"').filter(|part| part.starts_with("prs "));
        names.any(|connection| connection.trim_end_matches(" publishing").ends_with(&name))
    };
    worker.wait_until("no connection", || !is_connected());

    let id = fleet.hand_in(&job);
    worker.wait_until("the mini-batch", || job.marks("began").len() == 1);
    assert!(
        is_connected(),
        "{}",
        fleet.broker.control(&["list_connections", "--quiet", "client_properties"])
    );
    job.mark("go");
    worker.wait_until("no connection again", || !is_connected());
    assert_eq!(state(&job, &id), "completed");
    assert!(!worker.stderr().contains("does not answer"), "{}", worker.stderr());
    worker.interrupt();
    worker.wait().expect_code(0);
}

#[test]
fn small_inputs_lie_in_memory_and_go_with_the_next_worker_when_theirs_is_killed() {
    // Scripts see a link; where it leads is the file. A name of its own keeps the link from the other jobs of this host.
    let script = "
import os
import marks
def run(mini_batch):
    marks.mark('path', os.path.realpath(mini_batch[0]))
    marks.wait_for('go')
    return [open(path).read() for path in mini_batch]
";
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "memory", script).with_files(1).with("name", "in-memory");
    let id = fleet.hand_in(&job);
    let mut killed = worker(fleet, &job, "memory", &[]);
    killed.wait_until("the mini-batch", || job.marks("path").len() == 1);
    let in_memory = PathBuf::from(&job.marks("path")[0]);
    assert!(in_memory.starts_with("/dev/shm") && in_memory.ends_with("0000.txt"), "{}", in_memory.display());
    assert!(in_memory.exists());
    killed.kill();
    let _next = worker(fleet, &job, "memory", &["--cache-memory-mib", "0"]);
    wait_for("the mini-batch elsewhere", PATIENCE, || (job.marks("path").len() == 2).then_some(()));
    let on_disk = PathBuf::from(&job.marks("path")[1]);
    assert!(!on_disk.starts_with("/dev/shm") && on_disk.ends_with("0000.txt"), "{}", on_disk.display());
    assert!(!in_memory.exists(), "what the killed worker left");
    job.mark("go");
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(fleet.stored(&id).result(), rows(1));

    let job = on_fleet(fleet, "memory-2", script).with_files(1).with("name", "in-memory-2");
    job.mark("go");
    let id = fleet.hand_in(&job);
    worker(fleet, &job, "memory-2", &["--job", &id]).wait().expect_code(0);
    let in_memory = PathBuf::from(&job.marks("path")[0]);
    assert!(in_memory.starts_with("/dev/shm") && !in_memory.exists(), "{}", in_memory.display());
    let folder = in_memory.ancestors().find(|path| path.parent().is_some_and(|up| up.ends_with("shm")));
    assert!(!folder.unwrap().exists(), "it goes with the job");
}

#[test]
fn a_worker_that_is_lost_once_is_among_the_errors_and_costs_nothing() {
    let fleet = Fleet::shared();
    let job =
        on_fleet(fleet, "lost-once", WAITS).with_files(4).with("mini_batch_size", 1).with("node_count", 2);
    let id = fleet.hand_in(&job);
    let lost = worker(fleet, &job, "lost-once", &[]);
    wait_for("its node says that it has work", PATIENCE, || {
        let key = format!("prs/jobs/{id}/logs/sys/statistics/{}", Standing::NAME);
        let standing: Standing = decode(&fleet.s3.object(fleet.bucket(), &key)?).ok()?;
        (standing.in_flight > 0).then_some(())
    });
    assert!(lost.kill());
    let _other = worker(fleet, &job, "lost-once", &[]);
    let known = wait_for("the node is missed", PATIENCE, || {
        let errors = job.command(&["errors", &id, "-o", "json"]).json();
        errors["errors"].as_array().is_some_and(|errors| !errors.is_empty()).then_some(errors)
    });
    job.mark("go");
    job.command(&["stream", &id, "-o", "json"]).expect_code(0);
    let error = &known["errors"][0];
    assert_eq!((&error["status"], &error["tries"]), (&"NODE_LOST".into(), &1.into()), "{known}");
    assert_eq!((&known["failed_tries"], &error["group"]), (&0.into(), &Value::Null), "no try failed");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("worker ") && message.contains("was not heard of any more"), "{message}");
    let said = job.command(&["errors", &id]).stdout;
    assert!(said.contains("NodeLost: worker") && said.contains("1 node was lost; node"), "{said}");
    assert_eq!(job.command(&["status", &id, "-o", "json"]).json()["complete"], true);
}

/// The one node of a job that watches over it dies, and what is left is a worker that lacks what the script needs.
#[test]
fn who_is_of_no_use_ends_a_job_that_nobody_watches_over() {
    let fleet = Fleet::shared();
    let script = format!("import os\nif 'LACKS' in os.environ:\n    import no_such_module\n{WAITS}");
    let job = on_fleet(fleet, "left-over", &script)
        .with_files(4)
        .with("mini_batch_size", 1)
        .with("node_count", 2)
        .with("process_count_per_node", 1)
        .with("progress_update_timeout", 2);
    let id = fleet.hand_in(&job);
    let works = worker(fleet, &job, "left-over", &[]);
    wait_for("a mini-batch to begin", PATIENCE, || (!job.marks("began").is_empty()).then_some(()));
    let lacks = [("LACKS".to_owned(), "1".to_owned())];
    let lacks = fleet.worker_with(&job, &["--target", "left-over"], &lacks);
    wait_for("the worker to be of no use", PATIENCE, || {
        lacks.stderr().contains("this worker is of no use to it").then_some(())
    });
    assert!(works.kill());
    let ended = wait_for("the job to end", PATIENCE, || {
        let status = job.command(&["status", &id, "-o", "json"]).json();
        (status["state"] == "failed").then_some(status)
    });
    assert!(ended["reason"].as_str().is_some_and(|reason| reason.contains("no_such_module")), "{ended}");
}
