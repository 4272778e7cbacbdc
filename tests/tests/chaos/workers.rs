//! Workers that die, stop, leave, and look alike.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use prs_tests::harness::{Fleet, Random};
use rustix::process::Signal;

use crate::scene::{Expected, Plot, Scene};

/// How long the chaos lasts; it may end the job, or not.
const CHAOS: Duration = Duration::from_secs(12);
/// How long a worker may take to leave in order, with what it runs.
const LEAVE: Duration = Duration::from_secs(10);

fn between(random: &mut Random, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + random.below(most - least))
}

fn one_of(random: &mut Random, scene: &Scene<'_>) -> usize {
    random.below(scene.crew.len() as u64) as usize
}

/// `kill -9` of random workers, each replaced, and of random Python processes.
pub(crate) fn are_killed(fleet: &mut Fleet, random: &mut Random) {
    let mut scene = Scene::begin(fleet, Plot { nodes: 3, ..Plot::default() });
    scene.wait_for_work(5);
    let mut processes = 0;
    // Every third is a process.
    let mut turn = random.below(3);
    let end = Instant::now() + CHAOS;
    while scene.result().is_none() && Instant::now() < end {
        turn += 1;
        if turn.is_multiple_of(3) {
            processes += u32::from(scene.kill_process(random));
        } else {
            scene.kill(one_of(random, &scene));
            scene.hire(&[]);
        }
        scene.pass(between(random, 300, 1500));
    }
    assert!(scene.kills >= 3 && processes >= 1, "{} workers and {processes} processes", scene.kills);
    scene.ends(&Expected::default());
}

/// `SIGSTOP` of random workers, also longer than it takes to be thought lost.
pub(crate) fn are_stopped(fleet: &mut Fleet, random: &mut Random) {
    let mut scene = Scene::begin(fleet, Plot { nodes: 3, ..Plot::default() });
    scene.wait_for_work(5);
    let mut stops = 0;
    let end = Instant::now() + CHAOS;
    while scene.result().is_none() && Instant::now() < end {
        let long = if stops % 3 == 0 { between(random, 5000, 10_000) } else { between(random, 300, 6000) };
        scene.stop(one_of(random, &scene), long);
        stops += 1;
        scene.pass(between(random, 300, 1500));
    }
    assert!(stops >= 3, "{stops} workers");
    scene.ends(&Expected::default());
}

/// `SIGTERM` in mid-job: the worker leaves in order, another takes its place, and nothing is blamed for it.
pub(crate) fn are_drained(fleet: &mut Fleet, random: &mut Random) {
    let mut scene = Scene::begin(fleet, Plot { pause: 300, mini_batches: 180, ..Plot::default() });
    scene.wait_for_work(5);
    for twice in [false, true] {
        scene.wait_for_nodes(2);
        scene.pass(between(random, 300, 1500));
        let at = one_of(random, &scene);
        let mut leaving = scene.crew.remove(at);
        scene.hire(&[]);
        let start = Instant::now();
        assert!(leaving.live.signal(Signal::TERM));
        // Two signals of one kind are one while the first is not taken.
        leaving.live.wait_until_said("asked to end: what runs may end");
        assert!(!twice || leaving.live.signal(Signal::TERM), "it had ended before it was told again");
        let ended = leaving.live.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(start.elapsed() < LEAVE, "it took {:?} to leave\n{}", start.elapsed(), ended.stderr);
        assert!(scene.result().is_none(), "the job was over before");
    }
    // Each was begun once, but for what the second signal stopped.
    let twice = scene.plot.mini_batches + scene.plot.processes as usize;
    scene.ends_with(&Expected::default(), |scene| {
        let begun = scene.begun();
        assert!(begun <= twice, "{begun} mini-batches were begun, not {twice} at most\n{}", scene.story());
    });
}

/// Workers that go by the same name.
pub(crate) fn have_one_name(fleet: &mut Fleet, random: &mut Random) {
    let mut scene = Scene::new(fleet, Plot::default());
    for _ in 0..2 {
        scene.hire(&[("PRS_WORKER_NAME", "the-one")]);
    }
    scene.submit(&[]);
    scene.wait_for_nodes(2);
    scene.wait_for_work(20);
    scene.kill(one_of(random, &scene));
    scene.hire(&[("PRS_WORKER_NAME", "the-one")]);
    scene.ends_with(&Expected::default(), |scene| {
        let decisions = scene.decisions();
        let of_the_name = decisions.iter().filter_map(|(_, words)| words.split_once(" joined: the-one-"));
        let nodes: BTreeSet<&str> = of_the_name.map(|(node, _)| node).collect();
        assert!(nodes.len() >= 2, "{nodes:?} have the name\n{}", scene.story());
    });
}
