//! Messages that nobody of prs has sent, or that are not what was sent.

use std::time::Duration;

use bytes::Bytes;
use prs_common::ledger::{Ledger, Offer, RedisLedger};
use prs_common::mini_batch::{MiniBatch, Work};
use prs_common::queue::{Queue, RabbitMqQueue};
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Random};

use crate::chaos_run::{ChaosJob, ChaosRun, Expected};

/// The compute target of all jobs here.
const TARGET: &str = "default";

fn on_the_broker<T>(fleet: &Fleet, work: impl AsyncFnOnce(&RabbitMqQueue) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let broker = RabbitMqQueue::connect(&fleet.broker.url()).await.unwrap();
        let done = work(&broker).await;
        broker.close().await;
        done
    })
}

fn publish(fleet: &Fleet, queue: &str, bodies: Vec<Bytes>) {
    on_the_broker(fleet, async |broker| broker.publish(queue, bodies).await.unwrap());
}

/// Garbage in the queue of the job goes to the dead letters; garbage among the offers is left alone.
pub(crate) fn that_are_none(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, ChaosJob { mini_batches: 160, ..ChaosJob::default() });
    chaos.wait_for_work(5);
    let queue = format!("prs.job.{}", chaos.id());
    let noise: Vec<u8> = (0..=random.below(2000)).map(|_| random.below(256) as u8).collect();
    // One in the form of a mini-batch, and a whole one, of no job whatever.
    let torn = [&[0x93, 0xcf][..], &7u64.to_be_bytes(), &[0x00, 0x90]].concat();
    let work = Work::Files { base: "", paths: vec!["/nowhere"], versions: &[], names: Vec::new() };
    let beyond = MiniBatch::new(1 << 40, 0, work).encode();
    let odd: Vec<Bytes> =
        vec!["".into(), "{}".into(), noise.into(), "\u{93}\u{7}".into(), torn.into(), beyond.into()];
    let count = odd.len() as u64;
    publish(chaos.fleet, &queue, odd);
    let offers = format!("prs:{{@{TARGET}}}:offers");
    for (run, offer) in [("", ""), ("noise", "no offer"), ("../../etc", "\u{1}"), ("a\nline", "{}")] {
        chaos.fleet.redis.cli(&["hset", &offers, run, offer]);
    }
    // Offers are read by who is free.
    chaos.hire(&[]);
    chaos.until_ended(|_| {});
    assert!(chaos.fleet.story().contains("an offer in the ledger is left alone"));
    for run in ["", "noise", "../../etc", "a\nline"] {
        chaos.fleet.redis.cli(&["hdel", &offers, run]);
    }
    chaos.ends(&Expected { dead: count, ..Expected::default() });
}

/// A well-formed mini-batch of other files, under indices that the plan has, will not have, and cannot have.
pub(crate) fn are_forged(fleet: &mut Fleet, random: &mut Random) {
    let (mut chaos, queue) = published(fleet, 160);
    let all = chaos.shape.mini_batches as u64;
    let files = chaos.job.path("data").display().to_string();
    let forged = |index: u64| -> Bytes {
        let work = Work::Files { base: &files, paths: vec!["0000.txt"], versions: &[], names: Vec::new() };
        MiniBatch::new(index, 0, work).encode().into()
    };
    let own = [random.below(all), random.below(all)];
    let beyond = [all, all + 1 + random.below(60_000), 30_000_000, u64::from(u32::MAX)];
    // First in line: the true ones come when these have their outcomes.
    let mut bodies: Vec<Bytes> = own.into_iter().chain(beyond).map(forged).collect();
    bodies.extend(taken(chaos.fleet, &queue));
    publish(chaos.fleet, &queue, bodies);
    chaos.hire(&[]);
    chaos.hire(&[]);
    chaos.until_ended(|_| {});
    let peak = chaos.crew.iter().map(|member| member.live.peak_memory()).max().unwrap();
    assert!(peak < 400 << 20, "{peak} bytes in a worker");
    chaos.ends_with(&Expected { dead: beyond.len() as u64, ..Expected::default() }, |chaos| {
        let found = |words: &str| words.contains("not of the mini-batch that was planned");
        assert!(chaos.decisions().iter().any(|(_, words)| found(words)), "{}", chaos.story());
    });
}

/// One bit of each of some messages is another.
pub(crate) fn are_damaged(fleet: &mut Fleet, random: &mut Random) {
    let (mut chaos, queue) = published(fleet, 80);
    let mut bodies = taken(chaos.fleet, &queue);
    for _ in 0..8 {
        let at = random.below(bodies.len() as u64) as usize;
        flip(&mut bodies[at], random);
    }
    publish(chaos.fleet, &queue, bodies);
    chaos.hire(&[]);
    chaos.hire(&[]);
    chaos.until_ended(|_| {});
    let dead = waiting(chaos.fleet, "prs.dead");
    chaos.ends(&Expected { dead, ..Expected::default() });
}

/// A job whose mini-batches wait, all of them, in the queue that is named, and nobody to take them yet.
fn published(fleet: &mut Fleet, mini_batches: usize) -> (ChaosRun<'_>, String) {
    let mut chaos = ChaosRun::new(fleet, ChaosJob { mini_batches, ..ChaosJob::default() });
    chaos.submit(&[]);
    let queue = format!("prs.job.{}", chaos.id());
    wait_for("the plan to be published", Duration::from_mins(1), || {
        (waiting(chaos.fleet, &queue) == mini_batches as u64).then_some(())
    });
    (chaos, queue)
}

/// Makes one bit of a message another.
fn flip(message: &mut Bytes, random: &mut Random) {
    let mut changed = message.to_vec();
    let bit = random.below(changed.len() as u64 * 8) as usize;
    changed[bit / 8] ^= 1 << (bit % 8);
    *message = changed.into();
}

/// Messages that wait in a queue; 0 while there is no such queue.
fn waiting(fleet: &Fleet, queue: &str) -> u64 {
    on_the_broker(fleet, async |broker| broker.depth(queue).await.map_or(0, |depth| depth.ready))
}

/// Takes every message from a queue.
fn taken(fleet: &Fleet, queue: &str) -> Vec<Bytes> {
    let all = waiting(fleet, queue) as usize;
    on_the_broker(fleet, async |broker| {
        let mut deliveries = broker.consume(queue, all).await.unwrap();
        let mut bodies = Vec::new();
        while bodies.len() < all {
            for delivery in deliveries.next(all).await {
                bodies.push(delivery.body.clone());
                delivery.ack().unwrap();
            }
        }
        bodies
    })
}

/// A job of another version is left to others, loudly, and disturbs nobody.
pub(crate) fn of_another_version(fleet: &mut Fleet, _: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, ChaosJob { mini_batches: 160, ..ChaosJob::default() });
    chaos.wait_for_work(5);
    let foreign = Offer {
        job_id: "foreign".to_owned(),
        incarnation: 1,
        run: "foreign".to_owned(),
        prs_version: "99.0.0".to_owned(),
        nodes: 1,
        started_us: 0,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ledger = runtime.block_on(RedisLedger::connect(&chaos.fleet.redis.url())).unwrap();
    runtime.block_on(ledger.offer(TARGET, &foreign)).unwrap();
    chaos.hire(&[]);
    wait_for("the refusal to be logged", Duration::from_mins(1), || {
        let story = chaos.fleet.story();
        (story.contains("the job is of another version of prs") && story.contains("99.0.0")).then_some(())
    });
    chaos.until_ended(|_| {});
    // There may be a worker of that version somewhere.
    let offered = runtime.block_on(ledger.offers(TARGET, None, Duration::ZERO)).unwrap().offered;
    assert!(offered.iter().any(|offered| offered.offer == foreign), "{offered:?}");
    runtime.block_on(ledger.withdraw(TARGET, "foreign")).unwrap();
    chaos.ends(&Expected::default());
}
