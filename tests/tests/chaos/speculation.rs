//! A straggler that runs twice, while either of its two runs loses its process or its node, or sleeps until the other one
//! is committed.

use std::time::Duration;

use prs_tests::deadline::comes_within;
use prs_tests::harness::{Fleet, Random};
use rustix::process::{Pid, Signal, kill_process};

use crate::chaos_run::{ChaosJob, ChaosRun, END, Expected};

/// Longer than any job here.
const LONG: Duration = Duration::from_mins(5);

/// A run of the straggler: its process, and the worker that has it.
#[derive(Debug, Clone, Copy)]
struct Run {
    process: i32,
    worker: u32,
}

/// What happens to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    ProcessKilled,
    WorkerKilled,
    /// Until the job has its result.
    WorkerStopped,
}

/// A job at the moment when one mini-batch runs on both nodes; each run waits for the mark `go`.
fn twice(fleet: &mut Fleet) -> (ChaosRun<'_>, [Run; 2]) {
    let shape = ChaosJob {
        mini_batches: 100,
        pause: 30,
        processes: 1,
        first: "if index == 7:\n    mark('ran', f'{os.getpid()} {os.getppid()}')\n    wait_for('go')",
        ..ChaosJob::default()
    };
    let mut chaos = ChaosRun::begin(fleet, shape);
    let runs = |chaos: &ChaosRun<'_>| -> Vec<Run> {
        let lines = chaos.job.marks("ran").into_iter();
        let run = |line: String| {
            let (process, worker) = line.split_once(' ').expect("two numbers");
            Run { process: process.parse().unwrap(), worker: worker.parse().unwrap() }
        };
        lines.map(run).collect()
    };
    chaos.wait_for_work(chaos.shape.mini_batches);
    let found = comes_within(END, || <[Run; 2]>::try_from(runs(&chaos)).ok());
    let runs = found.unwrap_or_else(|| panic!("there is no second run\n{}", chaos.story()));
    assert_ne!(runs[0].worker, runs[1].worker, "a copy runs on the other node");
    (chaos, runs)
}

/// `what` happens to the first run, or to the copy; the other one goes on, or both do.
pub(crate) fn a_run_meets(fleet: &mut Fleet, random: &mut Random, what: What) {
    let (mut chaos, runs) = twice(fleet);
    let run = runs[random.below(2) as usize];
    match what {
        What::ProcessKilled => {
            let pid = Pid::from_raw(run.process).expect("a process id");
            kill_process(pid, Signal::KILL).expect("it lives");
        }
        What::WorkerKilled => {
            chaos.kill(chaos.place_of(run.worker).expect("a worker"));
            chaos.hire(&[]);
        }
        What::WorkerStopped => {
            let at = chaos.place_of(run.worker).expect("a worker");
            chaos.stop(at, LONG);
        }
    }
    if random.below(2) == 0 {
        // Long enough that the loss is seen first.
        chaos.pass(Duration::from_secs(2));
    }
    assert!(chaos.result().is_none(), "the job is over before the fault");
    chaos.job.mark("go");
    // The oracle lets who was stopped go on first: what it has comes after the result.
    chaos.ends(&Expected::default());
}

/// Both of its nodes die.
pub(crate) fn both_nodes_die(fleet: &mut Fleet, random: &mut Random) {
    let (mut chaos, _) = twice(fleet);
    for _ in 0..2 {
        chaos.kill(0);
        chaos.pass(Duration::from_millis(random.below(2000)));
    }
    chaos.hire(&[]);
    chaos.hire(&[]);
    chaos.job.mark("go");
    chaos.ends(&Expected::default());
}

/// The ledger forgets that there is a copy.
pub(crate) fn redis_is_wiped(fleet: &mut Fleet, random: &mut Random) {
    let (mut chaos, _) = twice(fleet);
    chaos.fleet.redis.wipe_and_restart();
    chaos.pass(Duration::from_millis(random.below(4000)));
    chaos.job.mark("go");
    chaos.ends(&Expected::default());
}
