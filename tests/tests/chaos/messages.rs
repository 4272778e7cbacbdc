//! Messages that nobody of prs has sent.

use std::time::Duration;

use bytes::Bytes;
use prs_common::mini_batch::{MiniBatch, Work};
use prs_common::queue::{Queue, RabbitMqQueue};
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Random};
use serde_json::json;

use crate::scene::{Expected, Plot, Scene};

const TICKETS: &str = "prs.fleet.default";

fn publish(fleet: &Fleet, queue: &str, bodies: Vec<Bytes>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let broker = RabbitMqQueue::connect(&fleet.broker.url()).await.unwrap();
        broker.publish(queue, bodies).await.unwrap();
        broker.close().await;
    });
}

/// Garbage in the queue of the job and among the tickets goes to the dead letters.
pub(crate) fn that_are_none(fleet: &mut Fleet, random: &mut Random) {
    let mut scene = Scene::begin(fleet, Plot { mini_batches: 160, ..Plot::default() });
    scene.wait_for_work(5);
    let queue = format!("prs.job.{}", scene.id());
    let noise: Vec<u8> = (0..=random.below(2000)).map(|_| random.below(256) as u8).collect();
    // One in the form of a mini-batch, and a whole one, of no job whatever.
    let torn = [&[0x93, 0xcf][..], &7u64.to_be_bytes(), &[0x00, 0x90]].concat();
    let work = Work::Files { base: "", paths: vec!["/nowhere"] };
    let beyond = MiniBatch { index: 1 << 40, input: 0, work }.encode();
    let odd: Vec<Bytes> =
        vec!["".into(), "{}".into(), noise.into(), "\u{93}\u{7}".into(), torn.into(), beyond.into()];
    let count = odd.len() as u64;
    publish(scene.fleet, &queue, odd);
    let tickets: Vec<Bytes> = vec!["".into(), "no ticket".into(), "{\"prs_version\": 7}".into()];
    let dead = count + tickets.len() as u64;
    publish(scene.fleet, TICKETS, tickets);
    // Tickets are read by who is free.
    scene.hire(&[]);
    scene.ends(&Expected { dead, ..Expected::default() });
}

/// A ticket of another version is left to others, loudly, and disturbs nobody.
pub(crate) fn of_another_version(fleet: &mut Fleet, _: &mut Random) {
    let mut scene = Scene::begin(fleet, Plot { mini_batches: 160, ..Plot::default() });
    scene.wait_for_work(5);
    let id = scene.id();
    let foreign = json!({ "prs_version": "99.0.0", "job_id": id, "incarnation": 1 });
    publish(scene.fleet, TICKETS, vec![foreign.to_string().into()]);
    scene.hire(&[]);
    wait_for("the refusal to be logged", Duration::from_mins(1), || {
        let story = scene.fleet.story();
        (story.contains("a job of another version of prs") && story.contains("99.0.0")).then_some(())
    });
    // It goes back each time: there may be a worker of that version somewhere.
    scene.ends(&Expected { tickets: 1, ..Expected::default() });
}
