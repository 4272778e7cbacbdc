//! A script sees an item under one path, on every host, in every run and in every try.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Live};
use serde_json::json;

/// Gives the path and the first line of each file, which a child of it can read, too. Holds every mini-batch until two
/// nodes have one in hand and the mark `go` is there.
const PATHS: &str = "
import subprocess
from azureml_user.parallel_run import EntryScript
from marks import mark, wait_for

def run(mini_batch, context):
    mark(f'node-{EntryScript().node_id}')
    mark('held')
    for name in ('node-0', 'node-1', 'go'):
        wait_for(name)
    [path] = mini_batch
    subprocess.check_call(['test', '-s', path])
    return [f'{path} {open(path).readline().rstrip()}']
";
/// Raises what names its item.
const RAISES: &str = "
def run(mini_batch):
    raise ValueError(f'cannot parse {mini_batch[0]}')
";
/// Longer than a node takes to leave a job on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A name for a job that no other test has, nor the same one that runs beside it.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

/// Where the job's inputs are said to be.
fn place(name: &str) -> PathBuf {
    Path::new("/tmp").join(format!("prs-job-{name}"))
}

fn job(fleet: &Fleet, name: &str, script: &str) -> Job {
    let job = fleet.job(Job::new(script)).with("name", name).with("compute_target", name);
    for number in 0..30 {
        let folder = ["a", "b c"][number % 2];
        // Some of them are too large for memory.
        let filling = if number % 10 == 0 { " ".repeat(2 << 20) } else { String::new() };
        job.data(&format!("{folder}/{number:02}.txt"), format!("item {number}\n{filling}"));
    }
    job.with("inputs", json!([{ "type": "file", "name": "items", "path": "data" }]))
        .with("mini_batch_size", 1)
        .with("node_count", 2)
}

/// The rows of a job whose scripts saw all items where they are said to be.
fn expected(name: &str) -> String {
    let row = |number: usize| {
        let folder = ["a", "b c"][number % 2];
        format!("{}/inputs/items/{folder}/{number:02}.txt item {number}\n", place(name).display())
    };
    (0..30).step_by(2).chain((1..30).step_by(2)).map(row).collect()
}

fn worker(fleet: &Fleet, job: &Job, name: &str, folder: &str) -> Live {
    fleet.worker_anywhere(job, &["--target", name, "--work-dir", folder], &[])
}

#[track_caller]
fn is_soon_gone(place: &Path) {
    wait_for("the end of the link", PATIENCE, || (!place.exists()).then_some(()));
}

#[test]
fn workers_of_one_host_show_items_under_one_path_and_leave_nothing() {
    let fleet = Fleet::shared();
    let name = name("item-paths");
    let place = place(&name);
    for (first, second) in [("one", "two"), ("three/four", "one")] {
        let job = job(fleet, &name, PATHS);
        let workers = [worker(fleet, &job, &name, first), worker(fleet, &job, &name, second)];
        job.mark("go");
        let result = fleet.completes(&job);
        let rows = fleet.stored(result["job_id"].as_str().unwrap()).result();
        assert_eq!(String::from_utf8(rows).unwrap(), expected(&name), "{}", fleet.story());
        is_soon_gone(&place);
        drop(workers);
    }
}

#[test]
fn a_worker_that_is_killed_takes_the_path_from_nobody() {
    let fleet = Fleet::shared();
    let name = name("killed-link");
    let job = job(fleet, &name, PATHS);
    let mut submitted = fleet.start_submit(&job, &[]);
    let first = worker(fleet, &job, &name, "one");
    submitted.wait_until("mini-batches that are held", || job.marks("held").len() >= 2);
    let before = fs::read_link(place(&name).join("inputs")).unwrap();
    let _second = worker(fleet, &job, &name, "two");
    submitted.wait_until("both nodes", || !job.marks("node-1").is_empty());
    assert!(first.kill());
    assert_eq!(fs::read_link(place(&name).join("inputs")).unwrap(), before, "nobody was there to remove it");
    let _third = worker(fleet, &job, &name, "three");
    submitted.wait_until("the third node", || !job.marks("node-2").is_empty());
    assert_ne!(fs::read_link(place(&name).join("inputs")).unwrap(), before);
    job.mark("go");
    let ended = submitted.wait();
    ended.expect_code(0);
    let rows = fleet.stored(ended.json()["job_id"].as_str().unwrap()).result();
    assert_eq!(String::from_utf8(rows).unwrap(), expected(&name), "{}", fleet.story());
    is_soon_gone(&place(&name));
}

#[test]
fn a_run_without_a_fleet_goes_on_with_the_paths_that_it_had() {
    let fleet = Fleet::shared();
    let name = name("bucket-paths");
    for number in 0..20 {
        fleet.s3.put_object(
            fleet.bucket(),
            &format!("{name}/{number:02}.txt"),
            format!("item {number}").as_bytes(),
        );
    }
    let job = || {
        let job = Job::new(
            "
from marks import mark, wait_for
def run(mini_batch, context):
    if context.minibatch_index >= 5:
        mark('waits')
        wait_for('go')
    return [f'{path} {open(path).read()}' for path in mini_batch]
",
        );
        let input = json!({ "type": "file", "name": "items", "path": format!("s3://fleet/{name}") });
        let job = job.with("inputs", json!([input])).with("mini_batch_size", 2).with("name", &*name);
        let s3 = fleet.s3.env();
        s3.iter().fold(job, |job, (name, value)| job.with_own_variable(name, value))
    };
    let (quiet, killed) = (job(), job());
    quiet.mark("go");
    quiet.completes();
    let mut running = killed.start_submit(&[]);
    running.wait_until("a mini-batch that waits", || !killed.marks("waits").is_empty());
    assert!(running.kill());
    killed.soon_leaves_nothing();
    killed.mark("go");
    killed.has_completed(&killed.resume());
    let rows = String::from_utf8(killed.run().result()).unwrap();
    assert_eq!(rows, String::from_utf8(quiet.run().result()).unwrap());
    assert!(rows.starts_with(&format!("{}/inputs/items/00.txt item 0\n", place(&name).display())), "{rows}");
    assert!(!place(&name).exists());
}

#[test]
fn where_processes_have_no_namespace_of_their_own_one_node_has_the_path_and_the_others_work() {
    let fleet = Fleet::shared();
    let name = name("no-namespaces");
    let job = job(fleet, &name, PATHS);
    let workers = ["one", "two"]
        .map(|folder| fleet.worker_without_namespaces(&job, &["--target", &name, "--work-dir", folder]));
    job.mark("go");
    let result = fleet.completes(&job);
    let stored = fleet.stored(result["job_id"].as_str().unwrap());
    let rows = String::from_utf8(stored.result()).unwrap();
    let start = place(&name).join("inputs").display().to_string();
    let (same, own): (Vec<&str>, Vec<&str>) = rows.lines().partition(|row| row.starts_with(&start));
    assert!(!same.is_empty() && !own.is_empty(), "{rows}");
    let ends = |rows: &str| -> Vec<String> {
        rows.lines().map(|row| row.split_once("/inputs/items/").unwrap().1.to_owned()).collect()
    };
    assert_eq!(ends(&rows), ends(&expected(&name)));
    wait_for("the log of the node that says why", PATIENCE, || {
        let logs = stored.keys().into_iter().filter(|key| key.ends_with("/_main.txt"));
        let says = |key: String| stored.text(&key).contains("a path of this node alone: another worker has");
        (logs.map(says).filter(|says| *says).count() == 1).then_some(())
    });
    is_soon_gone(&place(&name));
    drop(workers);
}

#[test]
fn try_shows_the_path_that_the_job_had() {
    let fleet = Fleet::shared();
    let name = name("tried-paths");
    let job =
        job(fleet, &name, RAISES).with("node_count", 1).with("run_max_try", 1).with("error_threshold", -1);
    let _worker = worker(fleet, &job, &name, "one");
    let ended = fleet.submit(&job);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let message = format!("cannot parse {}/inputs/items/a/00.txt", place(&name).display());
    let tried = job.command(&["try", &id, "--failed", "-o", "json"]);
    assert_eq!(tried.json()["error"]["message"], message, "{}\n{}", tried.stdout, tried.stderr);
    assert!(!tried.stderr.contains("sees inputs"), "{}", tried.stderr);
    // Where that cannot be had, it says so.
    is_soon_gone(&place(&name));
    std::os::unix::fs::symlink("/elsewhere", place(&name)).unwrap();
    let elsewhere = job.command(&["try", &id, "--failed"]);
    fs::remove_file(place(&name)).unwrap();
    let told = elsewhere.stderr.split_once("note: the script sees inputs below ").unwrap().1;
    assert!(told.contains(&format!("{} is a link", place(&name).display())), "{}", elsewhere.stderr);
    let printed = job.command(&["errors", &id]);
    let paths = format!("cannot parse {}/inputs/items/", place(&name).display());
    assert!(printed.stdout.contains(&paths), "{}", printed.stdout);
}
