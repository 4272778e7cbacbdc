//! Stragglers: a mini-batch that takes much longer than others is started a second time while processes are idle, the first
//! outcome counts, and the other run is stopped without a trace in the result.

use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Live, RunFolder};
use rustix::process::{Pid, Signal, kill_process};

/// Mini-batches of a job here, and the one that is slow.
const COUNT: usize = 100;
const SLOW: &str = "mb-0000000007";
/// How long the slow one sleeps where nothing is to wait for that.
const LONG: Duration = Duration::from_mins(10);
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// What the orchestrator notes.
const AGAIN: &str = "mini-batch 7 runs for ";

/// What the runs of mini-batch 7 do, in their order, and all after the second.
fn script(first: &str, second: &str, third: &str) -> String {
    format!(
        r#"
import os, time
from azureml_user.parallel_run import EntryScript
from marks import mark, count, wait_for

def write(name):
    with open(os.path.join(EntryScript().output_dir, name), "w") as file:
        file.write(name)

def first():
    {first}

def second():
    {second}

def third():
    {third}

def run(mini_batch, context):
    time.sleep(0.03)
    if context.minibatch_index == 7:
        mark("ran", f"{{os.getpid()}} {{os.getppid()}} {{context.retry_count}}")
        run_before = count("ran")
        if run_before == 1:
            first()
        elif run_before == 2:
            second()
        else:
            third()
    return [open(path).read() for path in mini_batch]
"#
    )
}

fn job(first: &str, second: &str) -> Job {
    job_of(&script(first, second, "pass"))
}

fn job_of(script: &str) -> Job {
    let job = Job::new(script).with_files(COUNT).with("mini_batch_size", 1);
    job.with("run_invocation_timeout", 700)
}

fn rows() -> Vec<u8> {
    (0..COUNT).flat_map(|number| format!("item {number}\n").into_bytes()).collect()
}

/// What the runs of the slow mini-batch say: process, parent, failed tries.
fn runs(job: &Job) -> Vec<[i32; 3]> {
    let parse = |line: String| {
        let words: Vec<i32> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        words.try_into().unwrap()
    };
    job.marks("ran").into_iter().map(parse).collect()
}

fn master(run: &RunFolder) -> String {
    run.text("logs/sys/master_role.txt")
}

#[test]
fn a_straggler_is_started_again_and_the_first_outcome_counts() {
    let job = job("write('of the first'); time.sleep(600)", "write('of the second')");
    let began = Instant::now();
    job.completes();
    assert!(began.elapsed() < LONG / 4, "it took {:?}", began.elapsed());
    assert_eq!(runs(&job).len(), 2);
    assert_eq!(job.run().result(), rows());
    assert_eq!(job.run().statuses()[SLOW], ["RUN_DONE"]);
    assert!(job.run().failed_mini_batches().is_empty());
    assert_eq!(job.run().tries().len(), COUNT, "the run that lost is no try");
    let brought = ["output/of the second", "output/parallel_run_step.txt"];
    assert_eq!(job.run().files("output"), brought, "what the run that lost wrote is gone");
    let said = master(job.run());
    assert_eq!(said.matches(AGAIN).count(), 1, "{said}");
    assert!(said.contains("it is started a second time"), "{said}");
    job.has_left_nothing();
}

#[test]
fn nothing_is_started_again_where_the_job_says_so_or_has_one_try() {
    for (key, value) in [("speculation", serde_json::json!(false)), ("run_max_try", serde_json::json!(1))] {
        let job = job("time.sleep(5)", "pass").with(key, value);
        job.completes();
        assert_eq!(runs(&job).len(), 1, "{key}");
        assert!(!master(job.run()).contains(AGAIN), "{key}");
    }
}

#[test]
fn a_run_that_fails_leaves_the_other_its_try() {
    let fails = job("wait_for('failed'); time.sleep(1)", "mark('failed'); raise ValueError('no')");
    fails.completes();
    assert_eq!(fails.run().result(), rows());
    let statuses = &fails.run().statuses()[SLOW];
    assert!(statuses.contains(&"RUN_DONE".to_owned()), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| *status == "RUN_EXCEPTION").count(), 1, "{statuses:?}");
    assert!(fails.run().failed_mini_batches().is_empty());
}

#[test]
fn two_runs_that_fail_are_two_failed_tries() {
    let two_fail = |third: &str| {
        job_of(&script(
            "wait_for('second'); raise OSError('first')",
            "mark('second'); time.sleep(0.5); mark('both'); raise ValueError('second')",
            &format!("wait_for('both'); time.sleep(1); {third}"),
        ))
    };
    let fails = two_fail("pass");
    fails.completes();
    assert_eq!(fails.run().result(), rows());
    assert_eq!(fails.run().statuses()[SLOW], ["RUN_EXCEPTION", "RUN_EXCEPTION", "RUN_DONE"]);
    // A third one is the last.
    let fails = two_fail("raise OSError('third')");
    fails.submit().expect_code(10);
    assert_eq!(fails.run().statuses()[SLOW], ["RUN_EXCEPTION"; 3]);
    assert_eq!(fails.run().failed_mini_batches().len(), 1);
}

/// A job on two nodes with one process each, at the moment when the slow mini-batch runs on both: once in each.
struct Twice<'a> {
    fleet: &'a Fleet,
    job: Job,
    id: String,
    workers: Vec<Live>,
    runs: Vec<[i32; 3]>,
}

impl<'a> Twice<'a> {
    fn begin(fleet: &'a Fleet, target: &str, first: &str, second: &str, stop_first: bool) -> Self {
        let job = fleet.job(job(first, second)).with("compute_target", target);
        let job = job.with("node_count", 2).with("process_count_per_node", 1);
        let worker = || fleet.worker(&job, &["--target", target, "--slots", "1"]);
        let workers = vec![worker(), worker()];
        let id = fleet.hand_in(&job);
        wait_for("the slow mini-batch", PATIENCE, || (!runs(&job).is_empty()).then_some(()));
        if stop_first {
            kill_process(Pid::from_raw(runs(&job)[0][0]).unwrap(), Signal::STOP).unwrap();
        }
        let runs = wait_for("its second run", PATIENCE, || Some(runs(&job)).filter(|runs| runs.len() > 1));
        assert_ne!(runs[0][1], runs[1][1], "it runs on the other node");
        Self { fleet, job, id, workers, runs }
    }

    /// Kills the node of the run `which`.
    fn kill_node(&mut self, which: usize) {
        let worker = self.runs[which][1] as u32;
        let at = self.workers.iter().position(|live| live.id() == worker).expect("a worker");
        assert!(self.workers.remove(at).kill());
    }

    fn completes(self) {
        self.job.command(&["stream", &self.id]).expect_code(0);
        let stored = self.fleet.stored(&self.id);
        assert_eq!(stored.result(), rows());
        let said = stored.text("logs/sys/master_role.txt");
        let told = said.matches(AGAIN).count();
        // A node that was killed takes what it logged last along, and it may have been the orchestrator.
        let is_whole = self.workers.len() == 2;
        assert!(told == 1 || (told == 0 && !is_whole), "{said}");
    }
}

#[test]
fn a_process_that_is_stopped_keeps_no_job_waiting() {
    let fleet = Fleet::shared();
    let twice = Twice::begin(fleet, "stopped", "time.sleep(600)", "pass", true);
    let began = Instant::now();
    let stopped = Pid::from_raw(twice.runs[0][0]).unwrap();
    twice.completes();
    assert!(began.elapsed() < LONG / 4, "it took {:?}", began.elapsed());
    wait_for("the end of the run that lost", PATIENCE, || {
        rustix::process::test_kill_process(stopped).is_err().then_some(())
    });
}

#[test]
fn the_node_of_either_run_may_die() {
    let fleet = Fleet::shared();
    for which in [0, 1] {
        let target = format!("dies-{which}");
        let mut twice = Twice::begin(fleet, &target, "wait_for('go')", "wait_for('go')", false);
        twice.kill_node(which);
        twice.job.mark("go");
        twice.completes();
    }
}

#[test]
fn both_runs_may_end_at_once() {
    let fleet = Fleet::shared();
    let twice = Twice::begin(fleet, "both", "wait_for('go')", "wait_for('go')", false);
    twice.job.mark("go");
    twice.completes();
}
