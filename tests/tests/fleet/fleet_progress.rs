//! Whether workers serve a job of a fleet, and on which host: what a waiting user reads.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Live, python};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);
const ECHO: &str = "
def run(mini_batch):
    return [open(path).read() for path in mini_batch]
";
/// Needs a module that only some hosts have.
const NEEDS_MODULE: &str = "
import rare_module
def run(mini_batch):
    return [open(path).read() for path in mini_batch]
";
const HOLDS: &str = "
import marks
def run(mini_batch):
    marks.mark('began')
    marks.wait_for('go')
    return [open(path).read() for path in mini_batch]
";

fn on_fleet(fleet: &Fleet, target: &str, script: &str) -> Job {
    let job = fleet.job(Job::new(script)).with_files(4).with("compute_target", target);
    job.with("run_invocation_timeout", 600).with("process_count_per_node", 1)
}

fn worker(fleet: &Fleet, job: &Job, target: &str) -> Live {
    fleet.worker(job, &["--target", target])
}

/// A worker whose Python finds `rare_module`.
fn worker_with_module(fleet: &Fleet, job: &Job, target: &str) -> Live {
    let folder = job.path("site");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("rare_module.py"), "").unwrap();
    let path = [("PYTHONPATH".to_owned(), folder.display().to_string())];
    fleet.worker_with(job, &["--target", target], &path)
}

fn rows(count: usize) -> Vec<u8> {
    (0..count).flat_map(|number| format!("item {number}\n").into_bytes()).collect()
}

/// Waits until so many workers of the target are idle.
#[track_caller]
fn until_idle(job: &Job, target: &str, count: usize) {
    wait_for("idle workers", PATIENCE, || {
        let told = workers(job, target);
        let idle = told.iter().filter(|worker| worker["job_id"].is_null()).count();
        (idle == count).then_some(())
    });
}

#[track_caller]
fn workers(job: &Job, target: &str) -> Vec<Value> {
    let ended = job.command(&["workers", "--target", target, "-o", "json"]);
    ended.expect_code(0);
    let told = ended.json();
    assert_eq!(told["schema"], 1, "{told}");
    told["workers"].as_array().unwrap().clone()
}

#[test]
fn a_job_that_no_worker_serves_says_so_everywhere() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "nobody", ECHO);
    let _elsewhere = worker(fleet, &job, "somebody");
    until_idle(&job, "somebody", 1);
    let told = "no worker serves the compute target nobody";
    let remedy = "prs worker --target nobody";

    let mut waits = fleet.start_submit(&job, &[]);
    // The line of the progress says `told` as well, and may come first.
    waits.wait_until_said(remedy);
    assert!(waits.stderr().contains(told), "{}", waits.stderr());
    assert!(waits.stderr().contains("1 worker serves somebody"), "{}", waits.stderr());
    waits.interrupt();
    let left = waits.wait();
    left.expect_code(130);
    assert!(left.stderr.contains("the job goes on; prs stream "), "{}", left.stderr);

    let detached = fleet.start_submit(&job, &["--detach"]).wait();
    detached.expect_code(0);
    assert!(detached.stderr.contains(told) && detached.stderr.contains(remedy), "{}", detached.stderr);
    let id = detached.json()["job_id"].as_str().unwrap().to_owned();
    let status = job.command(&["status", &id]).stdout;
    assert!(status.contains(told) && status.contains(remedy), "{status}");
    let list = job.command(&["list"]).stdout;
    let line = list.lines().find(|line| line.starts_with(&id)).unwrap();
    assert!(line.contains("queued") && line.contains(told), "{list}");

    let _worker = worker(fleet, &job, "nobody");
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(fleet.stored(&id).result(), rows(4));
}

#[test]
fn a_terminal_shows_that_a_job_waits_for_a_worker() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "nobody-seen", ECHO);
    let file = job.write_job_file().display().to_string();
    let shows = "no worker serves the compute target nobody-seen";
    let start = || {
        let mut submit = job.start_on_terminal(80, &["submit", &file]);
        let seen = submit.stdout_file();
        submit.wait_until("the phase", || seen().contains("waiting 0:0") && seen().contains(shows));
        // Ctrl-C is pressed.
        assert!(submit.signal(Signal::USR2));
        submit.wait_until_printed("once more leaves it");
        submit
    };
    let mut left = start();
    assert!(left.signal(Signal::USR2));
    left.wait().expect_code(130);
    let submit = start();
    let _worker = worker(fleet, &job, "nobody-seen");
    submit.wait().expect_code(0);
}

#[test]
fn what_init_prints_on_a_node_is_told() {
    let fleet = Fleet::shared();
    let script = "
import marks
def init():
    print('Downloading shards: 40 %')
    marks.wait_for('go')
def run(mini_batch):
    return [open(path).read() for path in mini_batch]
";
    let job = on_fleet(fleet, "loads", script);
    let _worker = worker(fleet, &job, "loads");
    let id = fleet.hand_in(&job);
    let printed = wait_for("what init() prints", PATIENCE, || {
        let printed = job.command(&["status", &id, "-o", "json"]).json()["printed"].clone();
        (!printed.is_null()).then_some(printed)
    });
    assert_eq!((&printed["node_id"], &printed["process"]), (&json!(0), &json!("process000")), "{printed}");
    assert_eq!(printed["line"], "Downloading shards: 40 %");
    let mut stream = job.start(&["stream", &id]);
    stream.wait_until_said("  process000: Downloading shards: 40 %");
    job.mark("go");
    stream.wait().expect_code(0);
    assert_eq!(fleet.stored(&id).result(), rows(4));
}

#[test]
fn a_node_that_hangs_in_init_says_where_and_may_come_out_of_it() {
    let fleet = Fleet::shared();
    let script = "
import os, time, marks
def init():
    marks.mark('init')
    if marks.count('init') == 1:
        print('asks for a licence')
        marks.wait_for('told')
def run(mini_batch):
    if not marks.is_marked('told'):
        time.sleep(0.25)
    return [open(path).read() for path in mini_batch]
";
    let job = on_fleet(fleet, "hangs", script).with_files(300).with("mini_batch_size", 1);
    let job = job.with("run_invocation_timeout", 3).with("node_count", 2);
    let _hangs = worker(fleet, &job, "hangs");
    let mut submit = fleet.start_submit(&job, &[]);
    submit.wait_until("a process in init()", || job.marks("init").len() == 1);
    let _works = worker(fleet, &job, "hangs");
    submit.wait_until_said(
        "✗ process000 of node 0: Timeout: init() took longer than 3 * run_invocation_timeout + 30 (39 s)",
    );
    job.mark("told");
    let ended = submit.wait();
    ended.expect_code(0);
    assert_eq!(job.marks("init").len(), 2, "it goes on, and nobody else starts");
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let errors = job.command(&["errors", &id]).stdout;
    assert!(errors.contains("Timeout: init()") && errors.contains("main.py\", line 7 in init"), "{errors}");
    assert_eq!(fleet.stored(&id).result(), rows(300));
}

#[test]
fn a_host_without_the_module_leaves_the_job_to_one_that_has_it() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "module", NEEDS_MODULE);
    let lacks = worker(fleet, &job, "module");
    let mut has = worker_with_module(fleet, &job, "module");
    until_idle(&job, "module", 2);
    // The one without it comes first.
    assert!(has.signal(Signal::STOP));
    let mut submit = fleet.start_submit(&job, &[]);
    submit.wait_until_said("✗ importing the script failed on ");
    assert!(has.signal(Signal::CONT));
    let ended = submit.wait();
    ended.expect_code(0);
    assert!(ended.stderr.contains("ModuleNotFoundError: No module named 'rare_module'"), "{}", ended.stderr);
    assert!(ended.stderr.contains("code/main.py:2"), "{}", ended.stderr);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(fleet.stored(&id).result(), rows(4), "{}", lacks.stderr());
}

#[test]
fn a_module_that_no_host_has_fails_the_job_after_a_try_on_each() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "no-module", NEEDS_MODULE).with("node_count", 3);
    let _workers = [worker(fleet, &job, "no-module"), worker(fleet, &job, "no-module")];
    until_idle(&job, "no-module", 2);
    let ended = fleet.submit(&job);
    ended.expect_code(42);
    let told = ended.json();
    let reason = told["reason"].as_str().unwrap();
    for part in [
        "the script cannot be imported: ModuleNotFoundError: No module named 'rare_module'",
        "code/main.py:2    import rare_module",
        "host ",
        "-m pip install rare_module",
        "on 2 hosts",
    ] {
        assert!(reason.contains(part), "{part:?} is not the reason: {reason}");
    }
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
}

#[test]
fn an_interpreter_is_looked_for_where_the_job_runs() {
    let fleet = Fleet::shared();
    let folder = tempfile_in(fleet);
    let later = folder.join("bin/python");
    let job = on_fleet(fleet, "interpreter", ECHO).with("environment", later.display().to_string());
    let id = fleet.hand_in(&job);
    fs::create_dir_all(later.parent().unwrap()).unwrap();
    symlink(python(), &later).unwrap();
    let worker = worker(fleet, &job, "interpreter");
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(fleet.stored(&id).result(), rows(4));

    let never = folder.join("no-such-python").display().to_string();
    let job = job.with("environment", never.clone());
    let ended = fleet.submit(&job);
    ended.expect_code(42);
    let told = ended.json();
    let reason = told["reason"].as_str().unwrap();
    for part in ["environment", &never, "host "] {
        assert!(reason.contains(part), "{part:?} is not the reason: {reason}\n{}", worker.stderr());
    }
    // Without a fleet it is this machine's affair, before anything is made.
    let here = Job::new(ECHO).with_files(1).with("environment", never.clone());
    here.is_refused(&["environment", &never]);
}

fn tempfile_in(fleet: &Fleet) -> std::path::PathBuf {
    let folder = fleet.work_folder().with_file_name("interpreters");
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn workers_are_listed_with_what_they_do() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "listed", HOLDS);
    assert_eq!(workers(&job, "listed"), Vec::<Value>::new());
    let _workers = [worker(fleet, &job, "listed"), worker(fleet, &job, "listed")];
    until_idle(&job, "listed", 2);
    let handed_in = fleet.start_submit(&job, &["--detach"]).wait();
    handed_in.expect_code(0);
    let id = handed_in.json()["job_id"].as_str().unwrap().to_owned();
    wait_for("a mini-batch", PATIENCE, || (!job.marks("began").is_empty()).then_some(()));
    let told = workers(&job, "listed");
    assert_eq!(told.len(), 2, "{told:?}");
    let busy: Vec<_> = told.iter().filter(|worker| worker["job_id"] == json!(id)).collect();
    assert_eq!(busy.len(), 1, "{told:?}");
    for worker in &told {
        assert_eq!(
            (&worker["target"], &worker["targets"]),
            (&json!("listed"), &json!(["listed"])),
            "{worker}"
        );
        assert_eq!(worker["unavailable"], json!([]), "{worker}");
        assert!(worker["since"].as_str().unwrap().ends_with('Z'), "{worker}");
        assert_eq!(worker["version"], json!(env!("CARGO_PKG_VERSION")), "{worker}");
        assert!(worker["last_seen_seconds"].as_f64().unwrap() < 6.0, "{worker}");
        for key in ["worker", "host", "ip"] {
            assert!(!worker[key].as_str().unwrap().is_empty(), "{key}: {worker}");
        }
    }
    let memory = wait_for("what the busy one uses", PATIENCE, || {
        let told = workers(&job, "listed");
        let busy = told.into_iter().find(|worker| worker["job_id"] == json!(id))?;
        busy["cpu_percent"].as_u64()?;
        busy["memory"].as_u64()
    });
    assert!((10 << 20..2 << 30).contains(&memory), "agent and process: {memory}");
    let table = job.command(&["workers"]);
    table.expect_code(0);
    assert!(table.stdout.starts_with("WORKER"), "{}", table.stdout);
    let of_target: Vec<_> = table.stdout.lines().filter(|line| line.contains(" listed ")).collect();
    assert_eq!(of_target.len(), 2, "{}", table.stdout);
    assert_eq!(of_target.iter().filter(|line| line.contains(&id)).count(), 1, "{}", table.stdout);
    assert_eq!(of_target.iter().filter(|line| line.contains(" idle ")).count(), 1, "{}", table.stdout);
    let noted = "note: 1 of 2 free workers is used (node_count 1); --set node_count=2 uses all";
    assert!(handed_in.stderr.contains(noted), "{}", handed_in.stderr);
    let mut stream = job.start(&["stream", &id]);
    stream.wait_until_said(noted);
    job.mark("go");
    stream.wait().expect_code(0);

    let nowhere = Job::new(ECHO).command(&["workers"]);
    nowhere.expect_code(2);
    assert!(nowhere.stderr.contains("workers are those of a fleet"), "{}", nowhere.stderr);
}
