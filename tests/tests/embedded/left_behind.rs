//! What a script leaves behind: no child outlives the job, however it hides and however the job ends, and what
//! cannot be removed is no failure.

use std::path::PathBuf;
use std::time::Duration;

use prs_tests::deadline::{Stopwatch, wait_for};
use prs_tests::harness::{Job, Tmpfs, is_running};
use rustix::process::{Pid, Signal, kill_process};

/// Starts children of every kind in the first call of each process, and tells their ids.
const STARTS_CHILDREN: &str = r#"
import multiprocessing, os, signal, subprocess, sys, time
from marks import mark, count, wait_for, is_marked

def stay():
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_IGN)
    time.sleep(1000)
    os._exit(0)

def plain_fork():
    pid = os.fork()
    if pid == 0:
        stay()
    mark("child", pid)

def daemon():
    # Forks twice and leads a session of its own: its parent is the first process of the system.
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            mark("child", os.getpid())
            stay()
        os._exit(0)
    os.waitpid(pid, 0)

def popen():
    mark("child", subprocess.Popen(["sleep", "1000"]).pid)
    mark("child", subprocess.Popen(["setsid", "sleep", "1000"], start_new_session=True).pid)

def pool():
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(1000,), daemon=True)
    process.start()
    mark("child", process.pid)

started = False

def start_children():
    global started
    if not started:
        started = True
        for start in (plain_fork, daemon, popen, pool):
            start()

def run(mini_batch):
    start_children()
    mark("ready", os.getpid())
    if is_marked("hold"):
        wait_for("never")
    return [os.path.basename(path) for path in mini_batch]
"#;

/// Children for each process.
const CHILDREN: usize = 5;

fn job() -> Job {
    Job::new(STARTS_CHILDREN).with_files(12)
}

#[test]
fn no_child_outlives_a_job_that_completes() {
    let job = job();
    job.completes();
    assert_eq!(job.run().rows().len(), 12);
    assert!(job.marks("child").len() >= CHILDREN, "{:?}", job.marks("child"));
    let main = job.run().text("logs/sys/node/0/_main.txt");
    let told = main.lines().find_map(|line| line.split_once(" left ")?.1.split_once(" processes behind"));
    let count: usize = told.unwrap_or_else(|| panic!("it is not told:\n{main}")).0.parse().unwrap();
    // Those in the process's own group may go with it untold; `multiprocessing` has a helper of its own.
    assert!((2..=CHILDREN + 1).contains(&count), "{count} children are told:\n{main}");
}

#[test]
fn no_child_outlives_its_process() {
    // The process times out; its children go with it while the job goes on. They start before the time is taken.
    let script = format!("{STARTS_CHILDREN}\ndef init():\n    start_children()\n");
    let job = Job::new(&script).with_files(12).with("run_invocation_timeout", 2);
    let job = job.with("run_max_try", 1).with("process_count_per_node", 1);
    job.mark("hold");
    let mut submit = job.start_submit(&[]);
    submit.wait_until("the first children", || !job.marks("ready").is_empty());
    let children = job.marks("child");
    let first: Vec<i32> = children.iter().take(CHILDREN).map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(first.len(), CHILDREN);
    job.unmark("hold");
    submit.wait_until("the end of the first process's children", || {
        job.processes().iter().all(|found| !first.contains(&found.pid))
    });
    job.has_completed(&submit.wait());
}

#[test]
fn no_child_outlives_a_job_that_is_aborted() {
    let script = STARTS_CHILDREN.replace("    return [", "    raise ValueError('no good')\n    return [");
    let job = Job::new(&script).with_files(12).with("error_threshold", 0).with("run_max_try", 1);
    job.fails(&["error_threshold 0"]);
}

#[test]
fn no_child_outlives_an_interrupt() {
    let job = job();
    job.mark("hold");
    let mut submit = job.start_submit(&[]);
    submit.wait_until("both processes with children", || job.marks("ready").len() == 2);
    let watch = Stopwatch::start();
    submit.interrupt();
    submit.wait().expect_code(130);
    assert!(watch.elapsed() < Duration::from_secs(2), "{:?}", watch.elapsed());
    job.has_left_nothing();
}

#[test]
fn no_process_outlives_the_program_when_it_is_killed() {
    // Nobody is left to clean up: the processes notice by themselves, and end what is in their groups.
    let script = r#"
import os, subprocess, time
from marks import mark, wait_for

def run(mini_batch):
    subprocess.Popen(["sleep", "1000"])
    mark("ready")
    wait_for("never")
"#;
    let job = Job::new(script).with_files(4);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("both processes", || job.marks("ready").len() == 2);
    assert!(submit.kill());
    job.soon_leaves_nothing();
}

#[test]
fn a_child_that_outlives_the_program_is_ended_by_resume() {
    // In a session of its own it is in no group that the process could end with itself.
    let script = r#"
import os, subprocess
from marks import mark, is_marked, wait_for

def run(mini_batch, context):
    if not is_marked("child"):
        mark("child", subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
    mark("ready", context.minibatch_index)
    wait_for("go")
    return [os.path.basename(path) for path in mini_batch]
"#;
    let job = Job::new(script).with_files(4).with("process_count_per_node", 1);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("a child", || job.marks("ready").len() == 1);
    let child: i32 = job.marks("child")[0].parse().unwrap();
    let lives = || job.processes().iter().any(|found| found.pid == child);
    assert!(submit.kill());
    wait_for("the end of the process", Duration::from_secs(10), || {
        job.script_processes().is_empty().then_some(())
    });
    assert!(lives(), "there is nothing to test: the child is gone already");

    let mut resume = job.start_resume();
    resume.wait_until("the end of the child, and work", || !lives() && job.marks("ready").len() == 2);
    job.mark("go");
    job.has_completed(&resume.wait());
    assert_eq!(job.run().rows(), ["0000.txt", "0001.txt", "0002.txt", "0003.txt"]);
}

/// A function that starts a daemon: a child of a child, in a session of its own, with nothing in its environment. It
/// marks the daemon's id as `daemon`.
const HIDES: &str = r#"
import os
from marks import mark, is_marked, wait_for

def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            mark("daemon", f"{os.getpid()} {os.getppid()}")
            os.execve("/bin/sleep", ["sleep", "1000"], {})
        os._exit(0)
    os.wait()
"#;

/// The daemons that were started. They are in no environment, so the job does not end them by itself.
struct Daemons<'a>(&'a Job);

impl Daemons<'_> {
    fn all(&self) -> Vec<i32> {
        let marks = self.0.marks("daemon");
        marks.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
    }

    fn running(&self) -> Vec<i32> {
        self.all().into_iter().filter(|pid| is_running(*pid)).collect()
    }

    #[track_caller]
    fn have_ended(&self, count: usize) {
        assert_eq!(self.all().len(), count);
        assert_eq!(self.running(), Vec::<i32>::new(), "they are left behind");
    }
}

impl Drop for Daemons<'_> {
    fn drop(&mut self) {
        for pid in self.running() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

fn hiding(run: &str) -> Job {
    Job::new(&format!("{HIDES}\n{run}")).with_files(4)
}

/// Each process starts a daemon and then waits.
const EACH_HIDES: &str = r#"
def run(mini_batch):
    daemon()
    mark("ready")
    wait_for("go")
    return [os.path.basename(path) for path in mini_batch]
"#;

#[test]
fn a_daemon_without_an_environment_is_ended_with_the_job() {
    let job = hiding(EACH_HIDES);
    let daemons = Daemons(&job);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("both daemons", || job.marks("ready").len() == 2 && daemons.running().len() == 2);
    job.mark("go");
    job.has_completed(&submit.wait());
    daemons.have_ended(2);
    drop(daemons);

    let job = hiding(EACH_HIDES);
    let daemons = Daemons(&job);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("both daemons", || job.marks("ready").len() == 2 && daemons.running().len() == 2);
    submit.interrupt();
    submit.wait().expect_code(130);
    daemons.have_ended(2);
}

#[test]
fn a_daemon_is_ended_with_its_own_process_and_no_other() {
    // One process dies while the other works on; then its daemon dies and that of the other does not.
    let job = hiding(
        r#"
def run(mini_batch, context):
    if context.retry_count == 0:
        daemon()
        mark("ready")
        wait_for(f"go-{context.minibatch_index}")
        if context.minibatch_index == 0:
            os._exit(3)
    return [os.path.basename(path) for path in mini_batch]
"#,
    );
    let daemons = Daemons(&job);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("both daemons", || job.marks("ready").len() == 2 && daemons.running().len() == 2);
    job.mark("go-0");
    submit.wait_until("the end of one daemon", || daemons.running().len() == 1);
    submit.wait_until("the process's death and another try", || {
        job.run().text_so_far("logs/sys/job_report/processed_mini-batches.csv").contains("RUN_DONE")
    });
    assert_eq!(daemons.running().len(), 1, "a process that lives keeps what it started");
    let main = job.run().text("logs/sys/node/0/_main.txt");
    assert!(main.contains("left 1 processes behind; they are killed"), "{main}");
    job.mark("go-1");
    job.has_completed(&submit.wait());
    daemons.have_ended(2);
}

#[test]
fn a_daemon_that_outlives_the_program_is_ended_by_resume() {
    let job = hiding(EACH_HIDES);
    let daemons = Daemons(&job);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("both daemons", || job.marks("ready").len() == 2 && daemons.running().len() == 2);
    assert!(submit.kill());
    job.soon_leaves_nothing();
    assert_eq!(daemons.running().len(), 2, "there is nothing to test: they are gone already");
    let mut resume = job.start_resume();
    resume.wait_until("the end of the first daemons", || {
        daemons.running().len() == 2 && daemons.all().len() == 4
    });
    job.mark("go");
    job.has_completed(&resume.wait());
    daemons.have_ended(4);
}

#[test]
fn children_of_a_process_that_lives_are_its_own() {
    // A helper that was started once serves many mini-batches, also one that has left its parent.
    let script = r#"
import multiprocessing, os, subprocess
from marks import mark

helper = None

def serve(requests, answers):
    for request in iter(requests.get, None):
        answers.put(request * 2)

def init():
    global helper, requests, answers, shell
    context = multiprocessing.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    helper = context.Process(target=serve, args=(requests, answers))
    helper.start()
    shell = subprocess.Popen(["sh", "-c", "exec 3<&0; setsid sh -c 'while read line; do echo $line$line; done' <&3 & wait"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env={})

def run(mini_batch, context):
    requests.put(context.minibatch_index)
    shell.stdin.write("a\n")
    return [f"{answers.get()} {subprocess.run(['echo', 'b'], capture_output=True, text=True).stdout.strip()}"]

def shutdown():
    requests.put(None)
    helper.join()
    shell.stdin.close()
    mark("ended", helper.exitcode)
"#;
    let job = Job::new(script).with_files(40);
    job.completes();
    let expected: Vec<String> = (0..20).map(|index| format!("{} b", 2 * index)).collect();
    assert_eq!(job.run().rows(), expected);
    assert!(!job.marks("ended").is_empty() && job.marks("ended").iter().all(|code| code == "0"));
}

#[test]
fn what_cannot_be_removed_does_not_spoil_the_job() {
    // Nobody, not even root, can remove a folder that something is mounted on.
    let script = r#"
import os
from azureml_user.parallel_run import EntryScript
from marks import mark, wait_for

def run(mini_batch, context):
    if context.minibatch_index == 0:
        os.mkdir(os.path.join(EntryScript().working_dir, "busy"))
        mark("busy", os.path.join(EntryScript().working_dir, "busy"))
        wait_for("go")
    return [os.path.basename(path) for path in mini_batch]
"#;
    let job = Job::new(script).with_files(4);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("a folder", || !job.marks("busy").is_empty());
    let busy = PathBuf::from(&job.marks("busy")[0]);
    let mounted = Tmpfs::mount_on(&busy, "1m");
    job.mark("go");
    let ended = submit.wait();
    job.has_completed(&ended);
    assert_eq!(job.run().rows(), ["0000.txt", "0001.txt", "0002.txt", "0003.txt"]);
    assert!(mounted.path().is_dir(), "there was nothing that cannot be removed");
    let left = job.run().path().join("work").display().to_string();
    assert!(ended.stderr.contains(&left), "what is left is named:\n{}", ended.stderr);
    // The result is as usable as any.
    job.command(&["result", &job.run().path().display().to_string()]).expect_code(0);
}
