//! Servers that go away, come back, and forget everything, several times in one job.

use std::time::Duration;

use prs_tests::deadline::{comes_within, wait_for};
use prs_tests::harness::{Fleet, Random};

use crate::chaos_run::{ChaosJob, ChaosRun, END, Expected};

/// A job that outlasts its faults: its last mini-batch waits until they are done.
fn long() -> ChaosJob {
    ChaosJob {
        mini_batches: 400,
        pause: 150,
        first: "if index == 399:\n    wait_for('faults are done')",
        ..ChaosJob::default()
    }
}

/// Waits until a few more mini-batches have begun. On a slow machine all may have; the last one waits for the end of the faults.
fn wait_for_more(chaos: &mut ChaosRun<'_>) {
    let more = (chaos.begun() + 5).min(399);
    chaos.wait_for_work(more);
}

fn faults_are_done(chaos: &ChaosRun<'_>) {
    chaos.job.mark("faults are done");
}

/// Does something to the servers `times` times in one job, while there is work.
fn do_while_it_works(
    fleet: &mut Fleet,
    random: &mut Random,
    times: u32,
    mut what: impl FnMut(&mut Fleet, &mut Random),
) {
    let mut chaos = ChaosRun::begin(fleet, long());
    for done in 0..times {
        wait_for_more(&mut chaos);
        chaos.pass(Duration::from_millis(random.below(1500)));
        assert!(chaos.result().is_none(), "the job was over before fault {done}");
        what(chaos.fleet, random);
    }
    faults_are_done(&chaos);
    chaos.ends(&Expected::default());
}

fn a_while(random: &mut Random) {
    std::thread::sleep(Duration::from_millis(random.below(4000)));
}

pub(crate) fn broker_is_restarted(fleet: &mut Fleet, random: &mut Random) {
    do_while_it_works(fleet, random, 2, |fleet, random| {
        // RabbitMQ 3.10 forgets where a queue lies that was made some moments before it is killed.
        fleet.broker.write_out_declarations();
        fleet.broker.kill();
        a_while(random);
        fleet.broker.restart();
    });
}

pub(crate) fn store_is_restarted(fleet: &mut Fleet, random: &mut Random) {
    do_while_it_works(fleet, random, 2, |fleet, random| {
        fleet.s3.kill();
        a_while(random);
        fleet.s3.restart();
    });
}

/// The broker is killed before what it was told of the job's queue is on its disk. Some versions come back with a queue
/// that they list and do not serve.
pub(crate) fn broker_dies_at_once(fleet: &mut Fleet, random: &mut Random) {
    // A queue that many jobs share is an operator's to mend: it is there since another job.
    ChaosRun::begin(fleet, ChaosJob { mini_batches: 4, ..ChaosJob::default() }).ends(&Expected::default());
    fleet.broker.write_out_declarations();
    let mut chaos = ChaosRun::begin(fleet, ChaosJob { mini_batches: 40, ..ChaosJob::default() });
    chaos.wait_until_handed_in();
    chaos.pass(Duration::from_millis(random.below(300)));
    chaos.fleet.broker.kill();
    assert!(chaos.result().is_none(), "the job was over before");
    chaos.fleet.broker.restart();
    chaos.ends(&Expected::default());
}

/// The queue of the job loses its leader while there is work, and gets it back or not.
pub(crate) fn queue_is_not_served(fleet: &mut Fleet, random: &mut Random) {
    let mut is_to_come_back = random.below(2) == 0;
    let mut chaos = ChaosRun::begin(fleet, long());
    let queue = format!("prs.job.{}", chaos.id());
    chaos.wait_for_work(20);
    chaos.pass(Duration::from_millis(random.below(1500)));
    assert!(chaos.result().is_none(), "the job was over before");
    chaos.fleet.broker.stop_serving(&queue);
    faults_are_done(&chaos);
    let next = format!("{queue}~1");
    chaos.until_ended(|chaos| {
        let listed = chaos.fleet.broker.queues();
        assert!(listed.contains(&queue) || chaos.result().is_some(), "nobody deletes it: {listed:?}");
        if listed.contains(&next) && std::mem::take(&mut is_to_come_back) {
            chaos.fleet.broker.serve_again(&queue);
        }
    });
    chaos.ends_with(&Expected::default(), |chaos| {
        let left = |words: &str| words.contains(&format!("does not serve the queue {queue} of the job"));
        assert!(chaos.decisions().iter().any(|(_, words)| left(words)), "{}", chaos.story());
    });
}

pub(crate) fn broker_is_wiped(fleet: &mut Fleet, random: &mut Random) {
    do_while_it_works(fleet, random, 2, |fleet, _| fleet.broker.wipe_and_restart());
}

pub(crate) fn redis_is_restarted(fleet: &mut Fleet, random: &mut Random) {
    do_while_it_works(fleet, random, 3, |fleet, random| {
        fleet.redis.kill();
        a_while(random);
        fleet.redis.restart();
    });
}

pub(crate) fn redis_is_wiped(fleet: &mut Fleet, random: &mut Random) {
    do_while_it_works(fleet, random, 2, |fleet, _| fleet.redis.wipe_and_restart());
}

pub(crate) fn both_are_wiped(fleet: &mut Fleet, random: &mut Random) {
    do_while_it_works(fleet, random, 1, |fleet, random| {
        fleet.redis.kill();
        fleet.broker.kill();
        a_while(random);
        fleet.redis.wipe_and_restart();
        fleet.broker.wipe_and_restart();
    });
}

/// The list of segments is deleted by hand, and what else the ledger knows of the job stays.
pub(crate) fn segments_are_deleted(fleet: &mut Fleet, _: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, long());
    let key = format!("prs:{{{}}}:segments", chaos.id());
    for _ in 0..2 {
        wait_for_more(&mut chaos);
        // The orchestrator has followed some of these. While the job is entered again there is none.
        wait_for("a list to delete", END, || {
            let redis = &chaos.fleet.redis;
            let is_long = redis.cli(&["llen", &key]).parse::<u64>().is_ok_and(|segments| segments > 5);
            (is_long && redis.cli(&["del", &key]) == "1").then_some(())
        });
    }
    faults_are_done(&chaos);
    chaos.ends_with(&Expected::default(), |chaos| {
        assert!(chaos.fleet.story().contains("the ledger lost a part of the job"), "{}", chaos.story());
    });
}

/// Keys that Redis has of a job, beside those of its copies, which few jobs have.
const KINDS: [&str; 9] =
    ["job", "ended", "segments", "segment_keys", "tries", "nodes", "workers", "heard", "leases"];
/// Fields of hashes among these.
const FIELDS: [&str; 8] = [
    "state",
    "succeeded",
    "scheduled",
    "planned",
    "moved_us",
    "run_max_try",
    "watch:until",
    "schedule:fence",
];

/// Keys of the job are deleted, and replaced by what they are not, from its first moment on and in each phase.
pub(crate) fn keys_are_damaged(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, long());
    let id = chaos.id();
    for _ in 0..24 {
        let key = format!("prs:{{{id}}}:{}", KINDS[random.below(KINDS.len() as u64) as usize]);
        let field = FIELDS[random.below(FIELDS.len() as u64) as usize];
        let replaced = "redis.call('DEL', KEYS[1]); return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
        let damage: &[&str] = match random.below(5) {
            0 => &["del", &key],
            1 => &["set", &key, "rubbish"],
            2 => &["eval", replaced, "1", &key, "RPUSH", "rubbish"],
            3 => &["eval", replaced, "1", &key, "HSET", "0", "rubbish"],
            // One that is no hash stays as it is.
            _ => &["hset", &key, field, "rubbish"],
        };
        chaos.fleet.redis_cli(damage);
        chaos.note(&damage.join(" "));
        chaos.pass(Duration::from_millis(300 + random.below(900)));
    }
    faults_are_done(&chaos);
    chaos.ends_with(&Expected::default(), |chaos| {
        assert!(chaos.fleet.story().contains("the ledger lost a part of the job"), "{}", chaos.story());
    });
}

/// The queue of the job is deleted by hand.
pub(crate) fn queue_is_deleted(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, long());
    let queue = format!("prs.job.{}", chaos.id());
    for _ in 0..2 {
        wait_for_more(&mut chaos);
        chaos.pass(Duration::from_millis(random.below(1500)));
        chaos.fleet.broker.control(&["delete_queue", &queue]);
        let listed = || chaos.fleet.broker.control(&["list_queues", "--no-table-headers", "name"]);
        let is_there = || listed().lines().any(|name| name == queue).then_some(());
        let came = comes_within(Duration::from_secs(30), is_there);
        assert!(came.is_some(), "the queue did not come back\n{}", chaos.story());
    }
    faults_are_done(&chaos);
    chaos.ends_with(&Expected::default(), |chaos| {
        let noticed =
            chaos.decisions().iter().filter(|(_, words)| words.contains("queue of the job was lost")).count();
        assert!(noticed >= 2, "noticed {noticed} times\n{}", chaos.story());
    });
}
