//! Workers that die, stop, leave, and look alike.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use prs_tests::harness::{Fleet, Random};
use rustix::process::Signal;

use crate::chaos_run::{ChaosJob, ChaosRun, Expected};

/// How long the chaos lasts; it may end the job, or not.
const CHAOS: Duration = Duration::from_secs(12);
/// How long a worker may take to leave in order, with what it runs.
const LEAVE: Duration = Duration::from_secs(10);

fn between(random: &mut Random, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + random.below(most - least))
}

fn one_of(random: &mut Random, chaos: &ChaosRun<'_>) -> usize {
    random.below(chaos.crew.len() as u64) as usize
}

/// `kill -9` of random workers, each replaced, and of random Python processes.
pub(crate) fn are_killed(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, ChaosJob { nodes: 3, ..ChaosJob::default() });
    chaos.wait_for_work(5);
    let mut processes = 0;
    // Every third is a process.
    let mut turn = random.below(3);
    let end = Instant::now() + CHAOS;
    while chaos.result().is_none() && Instant::now() < end {
        turn += 1;
        if turn.is_multiple_of(3) {
            processes += u32::from(chaos.kill_process(random));
        } else {
            chaos.kill(one_of(random, &chaos));
            chaos.hire(&[]);
        }
        chaos.pass(between(random, 300, 1500));
    }
    assert!(chaos.kills >= 3 && processes >= 1, "{} workers and {processes} processes", chaos.kills);
    chaos.ends(&Expected::default());
}

/// `SIGSTOP` of random workers, also longer than it takes to be thought lost.
pub(crate) fn are_stopped(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, ChaosJob { nodes: 3, ..ChaosJob::default() });
    chaos.wait_for_work(5);
    let mut stops = 0;
    let end = Instant::now() + CHAOS;
    while chaos.result().is_none() && Instant::now() < end {
        let long = if stops % 3 == 0 { between(random, 5000, 10_000) } else { between(random, 300, 6000) };
        chaos.stop(one_of(random, &chaos), long);
        stops += 1;
        chaos.pass(between(random, 300, 1500));
    }
    assert!(stops >= 3, "{stops} workers");
    chaos.ends(&Expected::default());
}

/// `SIGTERM` in mid-job: the worker leaves in order, another takes its place, and nothing is blamed for it.
pub(crate) fn are_drained(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, ChaosJob { pause: 300, mini_batches: 180, ..ChaosJob::default() });
    chaos.wait_for_work(5);
    for twice in [false, true] {
        chaos.wait_for_nodes(2);
        chaos.pass(between(random, 300, 1500));
        let at = one_of(random, &chaos);
        let mut leaving = chaos.crew.remove(at);
        chaos.hire(&[]);
        let start = Instant::now();
        assert!(leaving.live.signal(Signal::TERM));
        // Two signals of one kind are one while the first is not taken.
        leaving.live.wait_until_said("asked to end: what runs may end");
        assert!(!twice || leaving.live.signal(Signal::TERM), "it had ended before it was told again");
        let ended = leaving.live.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(start.elapsed() < LEAVE, "it took {:?} to leave\n{}", start.elapsed(), ended.stderr);
        assert!(chaos.result().is_none(), "the job was over before");
    }
    // Each was begun once, but for what the second signal stopped.
    let twice = chaos.shape.mini_batches + chaos.shape.processes as usize;
    chaos.ends_with(&Expected::default(), |chaos| {
        let begun = chaos.begun();
        assert!(begun <= twice, "{begun} mini-batches were begun, not {twice} at most\n{}", chaos.story());
    });
}

/// Workers that go by the same name.
pub(crate) fn have_one_name(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::new(fleet, ChaosJob::default());
    for _ in 0..2 {
        chaos.hire(&[("PRS_WORKER_NAME", "the-one")]);
    }
    chaos.submit(&[]);
    chaos.wait_for_nodes(2);
    chaos.wait_for_work(20);
    chaos.kill(one_of(random, &chaos));
    chaos.hire(&[("PRS_WORKER_NAME", "the-one")]);
    chaos.ends_with(&Expected::default(), |chaos| {
        let decisions = chaos.decisions();
        let of_the_name = decisions.iter().filter_map(|(_, words)| words.split_once(" joined: the-one-"));
        let nodes: BTreeSet<&str> = of_the_name.map(|(node, _)| node).collect();
        assert!(nodes.len() >= 2, "{nodes:?} have the name\n{}", chaos.story());
    });
}
