//! Servers that go away, come back, and forget everything, several times in one job.

use std::time::Duration;

use prs_tests::deadline::comes_within;
use prs_tests::harness::{Fleet, Random};

use crate::scene::{Expected, Plot, Scene};

/// A job that outlasts its faults: its last mini-batch waits until they are done.
fn long() -> Plot {
    Plot {
        mini_batches: 400,
        pause: 150,
        first: "if index == 399:\n    wait_for('faults are done')",
        ..Plot::default()
    }
}

fn faults_are_done(scene: &Scene<'_>) {
    scene.job.mark("faults are done");
}

/// Does something to the servers `times` times in one job, while there is work.
fn spoil(fleet: &mut Fleet, random: &mut Random, times: u32, mut what: impl FnMut(&mut Fleet, &mut Random)) {
    let mut scene = Scene::begin(fleet, long());
    for done in 0..times {
        let more = scene.begun() + 5;
        scene.wait_for_work(more);
        scene.pass(Duration::from_millis(random.below(1500)));
        assert!(scene.result().is_none(), "the job was over before fault {done}");
        what(scene.fleet, random);
    }
    faults_are_done(&scene);
    scene.ends(&Expected::default());
}

fn a_while(random: &mut Random) {
    std::thread::sleep(Duration::from_millis(random.below(4000)));
}

pub(crate) fn broker_is_restarted(fleet: &mut Fleet, random: &mut Random) {
    spoil(fleet, random, 2, |fleet, random| {
        // RabbitMQ 3.10 forgets where a queue lies that was made some moments before it is killed.
        fleet.broker.write_out_declarations();
        fleet.broker.kill();
        a_while(random);
        fleet.broker.restart();
    });
}

/// The broker is killed before what it was told of the job's queue is on its disk. Some versions come back with a queue
/// that they list and do not serve.
pub(crate) fn broker_dies_at_once(fleet: &mut Fleet, random: &mut Random) {
    // A queue that many jobs share is an operator's to mend: it is there since another job.
    Scene::begin(fleet, Plot { mini_batches: 4, ..Plot::default() }).ends(&Expected::default());
    fleet.broker.write_out_declarations();
    let mut scene = Scene::begin(fleet, Plot { mini_batches: 40, ..Plot::default() });
    scene.wait_until_handed_in();
    scene.pass(Duration::from_millis(random.below(300)));
    scene.fleet.broker.kill();
    assert!(scene.result().is_none(), "the job was over before");
    scene.fleet.broker.restart();
    scene.ends(&Expected::default());
}

/// The queue of the job loses its leader while there is work, and gets it back or not.
pub(crate) fn queue_is_not_served(fleet: &mut Fleet, random: &mut Random) {
    let mut is_to_come_back = random.below(2) == 0;
    let mut scene = Scene::begin(fleet, long());
    let queue = format!("prs.job.{}", scene.id());
    scene.wait_for_work(20);
    scene.pass(Duration::from_millis(random.below(1500)));
    assert!(scene.result().is_none(), "the job was over before");
    scene.fleet.broker.stop_serving(&queue);
    faults_are_done(&scene);
    let next = format!("{queue}~1");
    scene.until_ended(|scene| {
        let listed = scene.fleet.broker.queues();
        assert!(listed.contains(&queue) || scene.result().is_some(), "nobody deletes it: {listed:?}");
        if listed.contains(&next) && std::mem::take(&mut is_to_come_back) {
            scene.fleet.broker.serve_again(&queue);
        }
    });
    scene.ends_with(&Expected::default(), |scene| {
        let left = |words: &str| words.contains(&format!("does not serve the queue {queue} of the job"));
        assert!(scene.decisions().iter().any(|(_, words)| left(words)), "{}", scene.story());
    });
}

pub(crate) fn broker_is_wiped(fleet: &mut Fleet, random: &mut Random) {
    spoil(fleet, random, 2, |fleet, _| fleet.broker.wipe_and_restart());
}

pub(crate) fn redis_is_restarted(fleet: &mut Fleet, random: &mut Random) {
    spoil(fleet, random, 3, |fleet, random| {
        fleet.redis.kill();
        a_while(random);
        fleet.redis.restart();
    });
}

pub(crate) fn redis_is_wiped(fleet: &mut Fleet, random: &mut Random) {
    spoil(fleet, random, 2, |fleet, _| fleet.redis.wipe_and_restart());
}

pub(crate) fn both_are_wiped(fleet: &mut Fleet, random: &mut Random) {
    spoil(fleet, random, 1, |fleet, random| {
        fleet.redis.kill();
        fleet.broker.kill();
        a_while(random);
        fleet.redis.wipe_and_restart();
        fleet.broker.wipe_and_restart();
    });
}

/// The queue of the job is deleted by hand.
pub(crate) fn queue_is_deleted(fleet: &mut Fleet, random: &mut Random) {
    let mut scene = Scene::begin(fleet, long());
    let queue = format!("prs.job.{}", scene.id());
    for _ in 0..2 {
        let more = scene.begun() + 5;
        scene.wait_for_work(more);
        scene.pass(Duration::from_millis(random.below(1500)));
        scene.fleet.broker.control(&["delete_queue", &queue]);
        let listed = || scene.fleet.broker.control(&["list_queues", "--no-table-headers", "name"]);
        let is_there = || listed().lines().any(|name| name == queue).then_some(());
        let came = comes_within(Duration::from_secs(30), is_there);
        assert!(came.is_some(), "the queue did not come back\n{}", scene.story());
    }
    faults_are_done(&scene);
    scene.ends_with(&Expected::default(), |scene| {
        let noticed =
            scene.decisions().iter().filter(|(_, words)| words.contains("queue of the job was lost")).count();
        assert!(noticed >= 2, "noticed {noticed} times\n{}", scene.story());
    });
}
