//! What every queue must do (the contract is on [`Queue`]).

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::future::join_all;
use prs_common::queue::{Deliveries, Delivery, Queue, QueueError, QueueErrorKind, QueueOptions, ack_all};

use super::unique;
use crate::deadline::{eventually, stays_pending, within};

/// Hands the list of cases to `$crate::$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __queue_cases {
    ($expand:ident, $($context:tt)+) => {
        $crate::$expand! { $($context)+;
            self {
                delivers_every_message
                delivers_to_one_consumer_in_published_order
                delivers_bodies_as_they_are
                wakes_a_consumer_that_waits
                prefetch_bounds_what_is_unacknowledged
                prefetch_can_be_changed
                max_bounds_what_is_returned
                requeued_message_comes_again
                dropped_delivery_comes_again
                deliveries_of_a_dropped_consumer_come_again
                requeued_message_reaches_another_consumer
                rejected_message_never_comes_again
                depth_counts_messages_and_consumers
                declaring_twice_changes_nothing
                declaring_with_other_options_keeps_the_queue
                absent_queue_is_not_found
                deleting_an_absent_queue_succeeds
                deleting_ends_the_streams
                deleted_queue_starts_afresh
                settling_after_deletion_disturbs_nobody
                interrupted_wait_loses_nothing
                two_consumers_share_without_loss
                consumers_that_die_lose_nothing
                a_hundred_thousand_messages
            }
        }
    };
}

/// One test for each case: `queue_conformance!((queue, kept))`.
#[macro_export]
macro_rules! queue_conformance {
    ($factory:expr) => {
        $crate::__queue_cases!(__expand_cases, tests queue, $factory);
    };
}

__queue_cases!(__expand_cases, run dyn Queue);

async fn fresh(queue: &dyn Queue, case: &str) -> String {
    let name = unique(case);
    queue.declare(&name, QueueOptions::default()).await.unwrap();
    name
}

fn numbered(range: std::ops::Range<u64>) -> Vec<Bytes> {
    range.map(|number| Bytes::from(number.to_string())).collect()
}

fn number(delivery: &Delivery) -> u64 {
    str::from_utf8(&delivery.body).unwrap().parse().unwrap()
}

/// Takes exactly `count` deliveries.
async fn take(deliveries: &mut dyn Deliveries, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let more = within("a delivery", deliveries.next(count - taken.len())).await;
        assert!(!more.is_empty(), "the stream ended after {} of {count} deliveries", taken.len());
        taken.extend(more);
    }
    taken
}

async fn take_one(deliveries: &mut dyn Deliveries) -> Delivery {
    take(deliveries, 1).await.remove(0)
}

async fn has_depth(queue: &dyn Queue, name: &str, ready: u64) {
    eventually(&format!("{ready} messages in the queue"), || async {
        (queue.depth(name).await.unwrap().ready == ready).then_some(())
    })
    .await;
}

fn kind<T>(outcome: Result<T, QueueError>) -> QueueErrorKind {
    outcome.err().expect("the call must fail").kind
}

async fn delivers_every_message(queue: &dyn Queue) {
    let name = fresh(queue, "every").await;
    queue.publish(&name, numbered(0..40)).await.unwrap();
    let mut deliveries = queue.consume(&name, 1_000).await.unwrap();
    queue.publish(&name, numbered(40..80)).await.unwrap();
    queue.publish(&name, Vec::new()).await.unwrap();
    queue.publish(&name, numbered(80..100)).await.unwrap();
    let taken = take(deliveries.as_mut(), 100).await;
    assert!(!taken.iter().any(|delivery| delivery.redelivered));
    let seen: BTreeSet<u64> = taken.iter().map(number).collect();
    assert_eq!(seen, (0..100).collect());
    ack_all(taken).unwrap();
    has_depth(queue, &name, 0).await;
    stays_pending("an acknowledged message", deliveries.next(1)).await;
    queue.delete(&name).await.unwrap();
}

async fn delivers_to_one_consumer_in_published_order(queue: &dyn Queue) {
    let name = fresh(queue, "order").await;
    for first in (0..60).step_by(20) {
        queue.publish(&name, numbered(first..first + 20)).await.unwrap();
    }
    let mut deliveries = queue.consume(&name, 7).await.unwrap();
    for expected in 0..60 {
        let delivery = take_one(deliveries.as_mut()).await;
        assert_eq!(number(&delivery), expected);
        delivery.ack().unwrap();
    }
    queue.delete(&name).await.unwrap();
}

async fn delivers_bodies_as_they_are(queue: &dyn Queue) {
    let name = fresh(queue, "bodies").await;
    let every_byte: Bytes = (0..=u8::MAX).collect();
    let large = Bytes::from(vec![0xA5; 1 << 20]);
    let bodies = vec![Bytes::new(), every_byte, large];
    queue.publish(&name, bodies.clone()).await.unwrap();
    let mut deliveries = queue.consume(&name, 10).await.unwrap();
    let taken = take(deliveries.as_mut(), bodies.len()).await;
    assert!(taken.iter().map(|delivery| &delivery.body).eq(&bodies), "a body changed on its way");
    ack_all(taken).unwrap();
    queue.delete(&name).await.unwrap();
}

async fn wakes_a_consumer_that_waits(queue: &dyn Queue) {
    let name = fresh(queue, "wakes").await;
    let mut deliveries = queue.consume(&name, 10).await.unwrap();
    for round in 0..20 {
        let publish = queue.publish(&name, numbered(round..round + 1));
        let (taken, published) = tokio::join!(take_one(deliveries.as_mut()), publish);
        published.unwrap();
        assert_eq!(number(&taken), round);
        taken.ack().unwrap();
    }
    queue.delete(&name).await.unwrap();
}

async fn prefetch_bounds_what_is_unacknowledged(queue: &dyn Queue) {
    let name = fresh(queue, "prefetch").await;
    queue.publish(&name, numbered(0..10)).await.unwrap();
    let mut deliveries = queue.consume(&name, 3).await.unwrap();
    let mut held = take(deliveries.as_mut(), 3).await;
    stays_pending("a fourth delivery", deliveries.next(10)).await;
    held.remove(0).ack().unwrap();
    held.extend(take(deliveries.as_mut(), 1).await);
    stays_pending("a delivery past the prefetch", deliveries.next(10)).await;
    // Whatever the answer is, it makes room.
    held.remove(0).reject().unwrap();
    held.extend(take(deliveries.as_mut(), 1).await);
    drop(held.remove(0));
    held.extend(take(deliveries.as_mut(), 1).await);
    assert_eq!(held.len(), 3);
    queue.delete(&name).await.unwrap();
}

async fn prefetch_can_be_changed(queue: &dyn Queue) {
    let name = fresh(queue, "change").await;
    queue.publish(&name, numbered(0..100)).await.unwrap();
    let mut deliveries = queue.consume(&name, 2).await.unwrap();
    let mut held = take(deliveries.as_mut(), 2).await;
    stays_pending("a third message", deliveries.next(1)).await;
    deliveries.set_prefetch(50).await.unwrap();
    held.extend(take(deliveries.as_mut(), 40).await);
    // What was taken before the change can still be settled, and nothing comes twice. What was on its way during the
    // change may count as delivered before: a broker takes it back and sends it again.
    let mut seen: BTreeSet<u64> = held.iter().map(number).collect();
    assert_eq!(seen.len(), 42);
    ack_all(held).unwrap();
    deliveries.set_prefetch(3).await.unwrap();
    while seen.len() < 100 {
        let taken = within("a delivery", deliveries.next(100)).await;
        assert!(!taken.is_empty(), "the stream ended after {}", seen.len());
        for delivery in &taken {
            assert!(seen.insert(number(delivery)), "message {} came twice", number(delivery));
        }
        ack_all(taken).unwrap();
    }
    has_depth(queue, &name, 0).await;
    queue.delete(&name).await.unwrap();
}

async fn max_bounds_what_is_returned(queue: &dyn Queue) {
    let name = fresh(queue, "max").await;
    queue.publish(&name, numbered(0..30)).await.unwrap();
    let mut deliveries = queue.consume(&name, 100).await.unwrap();
    let mut taken = Vec::new();
    while taken.len() < 30 {
        let more = within("a delivery", deliveries.next(4)).await;
        assert!((1..=4).contains(&more.len()), "{} deliveries", more.len());
        taken.extend(more);
    }
    queue.delete(&name).await.unwrap();
}

async fn requeued_message_comes_again(queue: &dyn Queue) {
    let name = fresh(queue, "requeue").await;
    queue.publish(&name, numbered(7..8)).await.unwrap();
    let mut deliveries = queue.consume(&name, 1).await.unwrap();
    let first = take_one(deliveries.as_mut()).await;
    assert!(!first.redelivered);
    first.requeue().unwrap();
    for _ in 0..3 {
        let again = take_one(deliveries.as_mut()).await;
        assert_eq!(number(&again), 7);
        assert!(again.redelivered);
        again.requeue().unwrap();
    }
    take_one(deliveries.as_mut()).await.ack().unwrap();
    stays_pending("an acknowledged message", deliveries.next(1)).await;
    queue.delete(&name).await.unwrap();
}

async fn dropped_delivery_comes_again(queue: &dyn Queue) {
    let name = fresh(queue, "drop").await;
    queue.publish(&name, numbered(7..8)).await.unwrap();
    let mut deliveries = queue.consume(&name, 1).await.unwrap();
    for round in 0..3 {
        let delivery = take_one(deliveries.as_mut()).await;
        assert_eq!(number(&delivery), 7);
        assert_eq!(delivery.redelivered, round > 0, "round {round}: {delivery:?}");
        drop(delivery);
    }
    take_one(deliveries.as_mut()).await.ack().unwrap();
    has_depth(queue, &name, 0).await;
    queue.delete(&name).await.unwrap();
}

async fn deliveries_of_a_dropped_consumer_come_again(queue: &dyn Queue) {
    let name = fresh(queue, "consumer").await;
    queue.publish(&name, numbered(0..4)).await.unwrap();
    let mut dies = queue.consume(&name, 10).await.unwrap();
    let held = take(dies.as_mut(), 4).await;
    drop(dies);
    let mut lives = queue.consume(&name, 10).await.unwrap();
    let again = take(lives.as_mut(), 4).await;
    assert_eq!(again.iter().map(number).collect::<BTreeSet<_>>(), (0..4).collect());
    assert!(again.iter().all(|delivery| delivery.redelivered), "{again:?}");
    // What the dead consumer says now, or leaves unsaid, comes too late: the messages are another's.
    for (at, late) in held.into_iter().enumerate() {
        match at {
            0 => drop(late),
            1 => drop(late.requeue()),
            2 => drop(late.reject()),
            _ => assert!(late.ack().is_err(), "this message was delivered again"),
        }
    }
    stays_pending("a message that is held by its consumer", lives.next(1)).await;
    ack_all(again).unwrap();
    has_depth(queue, &name, 0).await;
    queue.delete(&name).await.unwrap();
}

async fn requeued_message_reaches_another_consumer(queue: &dyn Queue) {
    let name = fresh(queue, "another").await;
    queue.publish(&name, numbered(0..2)).await.unwrap();
    let mut busy = queue.consume(&name, 1).await.unwrap();
    let first = take_one(busy.as_mut()).await;
    let mut idle = queue.consume(&name, 10).await.unwrap();
    let second = take_one(idle.as_mut()).await;
    let given = number(&second);
    assert_ne!(number(&first), given);
    second.requeue().unwrap();
    // `busy` is at its prefetch, so nobody else can have it.
    let again = take_one(idle.as_mut()).await;
    assert_eq!(number(&again), given);
    ack_all([first, again]).unwrap();
    queue.delete(&name).await.unwrap();
}

async fn rejected_message_never_comes_again(queue: &dyn Queue) {
    let name = fresh(queue, "reject").await;
    queue.publish(&name, numbered(0..3)).await.unwrap();
    let mut deliveries = queue.consume(&name, 1).await.unwrap();
    take_one(deliveries.as_mut()).await.reject().unwrap();
    for expected in 1..3 {
        let delivery = take_one(deliveries.as_mut()).await;
        assert_eq!(number(&delivery), expected);
        delivery.ack().unwrap();
    }
    stays_pending("a rejected message", deliveries.next(1)).await;
    drop(deliveries);
    let mut later = queue.consume(&name, 1).await.unwrap();
    stays_pending("a rejected message, for a later consumer", later.next(1)).await;
    queue.delete(&name).await.unwrap();
}

async fn depth_counts_messages_and_consumers(queue: &dyn Queue) {
    let name = fresh(queue, "depth").await;
    assert_eq!(queue.depth(&name).await.unwrap().consumers, 0);
    queue.publish(&name, numbered(0..25)).await.unwrap();
    has_depth(queue, &name, 25).await;
    let consumers = |count| {
        let name = &name;
        eventually("the number of consumers", move || async move {
            (queue.depth(name).await.unwrap().consumers == count).then_some(())
        })
    };
    let mut first = queue.consume(&name, 10).await.unwrap();
    let held = take(first.as_mut(), 10).await;
    has_depth(queue, &name, 15).await;
    consumers(1).await;
    let second = queue.consume(&name, 1).await.unwrap();
    consumers(2).await;
    drop(second);
    consumers(1).await;
    drop(held);
    drop(first);
    consumers(0).await;
    has_depth(queue, &name, 25).await;
    queue.delete(&name).await.unwrap();
}

async fn declaring_twice_changes_nothing(queue: &dyn Queue) {
    let name = fresh(queue, "twice").await;
    queue.publish(&name, numbered(0..3)).await.unwrap();
    let mut deliveries = queue.consume(&name, 1).await.unwrap();
    let held = take_one(deliveries.as_mut()).await;
    queue.declare(&name, QueueOptions::default()).await.unwrap();
    held.ack().unwrap();
    assert_eq!(number(&take_one(deliveries.as_mut()).await), 1);
    queue.delete(&name).await.unwrap();
}

async fn declaring_with_other_options_keeps_the_queue(queue: &dyn Queue) {
    let name = unique("options");
    let options = |minutes: u64| QueueOptions { consumer_timeout: Some(minutes * 60) };
    queue.declare(&name, options(10)).await.unwrap();
    queue.publish(&name, numbered(0..1)).await.unwrap();
    // Whether it is refused is the server's choice.
    if let Err(refused) = queue.declare(&name, options(20)).await {
        assert_eq!(refused.kind, QueueErrorKind::Refused);
        assert!(!refused.is_retryable());
        assert!(refused.to_string().contains(&name), "{refused}");
    }
    queue.declare(&name, options(10)).await.unwrap();
    has_depth(queue, &name, 1).await;
    queue.delete(&name).await.unwrap();
}

async fn absent_queue_is_not_found(queue: &dyn Queue) {
    let name = unique("absent");
    assert_eq!(kind(queue.publish(&name, numbered(0..1)).await), QueueErrorKind::NotFound);
    assert_eq!(kind(queue.depth(&name).await), QueueErrorKind::NotFound);
    assert_eq!(kind(queue.consume(&name, 1).await), QueueErrorKind::NotFound);
    // A call that failed made no queue either.
    assert_eq!(kind(queue.depth(&name).await), QueueErrorKind::NotFound);
}

async fn deleting_an_absent_queue_succeeds(queue: &dyn Queue) {
    let name = unique("absent");
    queue.delete(&name).await.unwrap();
    queue.declare(&name, QueueOptions::default()).await.unwrap();
    queue.delete(&name).await.unwrap();
    queue.delete(&name).await.unwrap();
    assert_eq!(kind(queue.depth(&name).await), QueueErrorKind::NotFound);
}

async fn deleting_ends_the_streams(queue: &dyn Queue) {
    let name = fresh(queue, "ends").await;
    queue.publish(&name, numbered(0..1)).await.unwrap();
    let mut waits = queue.consume(&name, 1).await.unwrap();
    let held = take_one(waits.as_mut()).await;
    let mut late = queue.consume(&name, 1).await.unwrap();
    let (ended, deleted) = tokio::join!(within("the end of the stream", waits.next(1)), queue.delete(&name));
    deleted.unwrap();
    assert!(ended.is_empty());
    assert!(within("the end of the stream", late.next(1)).await.is_empty());
    // It stays ended.
    assert!(within("the end of the stream", waits.next(1)).await.is_empty());
    drop(held);
    assert_eq!(kind(queue.publish(&name, numbered(1..2)).await), QueueErrorKind::NotFound);
}

async fn deleted_queue_starts_afresh(queue: &dyn Queue) {
    let name = fresh(queue, "afresh").await;
    queue.publish(&name, numbered(0..5)).await.unwrap();
    queue.delete(&name).await.unwrap();
    let other = QueueOptions { consumer_timeout: Some(3_600) };
    queue.declare(&name, other).await.unwrap();
    has_depth(queue, &name, 0).await;
    queue.publish(&name, numbered(9..10)).await.unwrap();
    let mut deliveries = queue.consume(&name, 10).await.unwrap();
    let only = take_one(deliveries.as_mut()).await;
    assert_eq!((number(&only), only.redelivered), (9, false));
    stays_pending("a message of the deleted queue", deliveries.next(1)).await;
    queue.delete(&name).await.unwrap();
}

async fn settling_after_deletion_disturbs_nobody(queue: &dyn Queue) {
    let name = fresh(queue, "late").await;
    queue.publish(&name, numbered(0..4)).await.unwrap();
    let mut deliveries = queue.consume(&name, 10).await.unwrap();
    let mut held = take(deliveries.as_mut(), 4).await;
    queue.delete(&name).await.unwrap();
    // RabbitMQ moves a consumer that has not seen the end yet over to a new queue of this name.
    assert!(within("the end of the stream", deliveries.next(1)).await.is_empty());
    queue.declare(&name, QueueOptions::default()).await.unwrap();
    // Whether an acknowledgement is refused is the implementation's choice; that nothing comes of it is not.
    for acknowledge in [Delivery::ack, Delivery::requeue, Delivery::reject] {
        drop(acknowledge(held.remove(0)));
    }
    drop(held);
    queue.publish(&name, numbered(50..51)).await.unwrap();
    let mut afresh = queue.consume(&name, 10).await.unwrap();
    assert_eq!(number(&take_one(afresh.as_mut()).await), 50);
    queue.delete(&name).await.unwrap();
}

async fn interrupted_wait_loses_nothing(queue: &dyn Queue) {
    const MESSAGES: u64 = 2_000;
    let name = fresh(queue, "cancel").await;
    let mut deliveries = queue.consume(&name, 8).await.unwrap();
    let publish = async {
        for first in (0..MESSAGES).step_by(10) {
            queue.publish(&name, numbered(first..first + 10)).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let consume = async {
        let mut seen = BTreeSet::new();
        let mut interrupted = 0;
        let mut tick = tokio::time::interval(std::time::Duration::from_millis(1));
        while (seen.len() as u64) < MESSAGES || interrupted < 20 {
            tokio::select! {
                biased;
                _ = tick.tick() => interrupted += 1,
                // Always ready: interrupts `next` at its first pause.
                () = tokio::task::yield_now(), if seen.len() % 3 == 0 && interrupted % 2 == 0 => interrupted += 1,
                taken = deliveries.next(3) => {
                    assert!(!taken.is_empty(), "the stream ended");
                    for delivery in taken {
                        assert!(!delivery.redelivered, "an interrupted wait must not lose a message");
                        assert!(seen.insert(number(&delivery)), "message {} came twice", number(&delivery));
                        delivery.ack().unwrap();
                    }
                }
            }
        }
        seen
    };
    let (seen, ()) = within("all messages", async { tokio::join!(consume, publish) }).await;
    assert_eq!(seen, (0..MESSAGES).collect());
    has_depth(queue, &name, 0).await;
    queue.delete(&name).await.unwrap();
}

async fn two_consumers_share_without_loss(queue: &dyn Queue) {
    let name = fresh(queue, "share").await;
    queue.publish(&name, numbered(0..10)).await.unwrap();
    let mut consumers = [queue.consume(&name, 5).await.unwrap(), queue.consume(&name, 5).await.unwrap()];
    let [first, second] = &mut consumers;
    let (left, right) = tokio::join!(take(first.as_mut(), 5), take(second.as_mut(), 5));
    let seen: BTreeSet<u64> = left.iter().chain(&right).map(number).collect();
    assert_eq!(seen, (0..10).collect(), "a message is with one consumer at a time");
    ack_all(left.into_iter().chain(right)).unwrap();

    // The same with settling under way: every message once, whichever consumer gets it.
    queue.publish(&name, numbered(0..1_000)).await.unwrap();
    let count = std::sync::atomic::AtomicU64::new(0);
    let shares = consumers.iter_mut().map(|consumer| async {
        let mut share = Vec::new();
        while count.load(std::sync::atomic::Ordering::SeqCst) < 1_000 {
            let waited = tokio::time::timeout(std::time::Duration::from_millis(50), consumer.next(3)).await;
            for delivery in waited.unwrap_or_default() {
                share.push(number(&delivery));
                delivery.ack().unwrap();
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
        share
    });
    let mut all = within("all messages", join_all(shares)).await.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..1_000), "each message once");
    queue.delete(&name).await.unwrap();
}

async fn consumers_that_die_lose_nothing(queue: &dyn Queue) {
    let name = fresh(queue, "die").await;
    queue.publish(&name, numbered(0..500)).await.unwrap();
    let mut done = BTreeSet::new();
    let mut lives = 0;
    while done.len() < 500 {
        lives += 1;
        let mut consumer = queue.consume(&name, 20).await.unwrap();
        let mut held = take(consumer.as_mut(), 20.min(500 - done.len())).await;
        // Half is finished when the consumer dies, with or without its deliveries.
        for delivery in held.split_off(held.len() / 2) {
            assert!(done.insert(number(&delivery)), "an acknowledged message came again");
            delivery.ack().unwrap();
        }
        if lives % 2 == 0 {
            drop(held);
            drop(consumer);
        } else {
            drop(consumer);
            drop(held);
        }
    }
    assert_eq!(done, (0..500).collect());
    assert!(lives > 40, "half of each prefetch must come again, {lives} consumers were enough");
    has_depth(queue, &name, 0).await;
    queue.delete(&name).await.unwrap();
}

async fn a_hundred_thousand_messages(queue: &dyn Queue) {
    const MESSAGES: u64 = 100_000;
    let name = fresh(queue, "many").await;
    let mut deliveries = queue.consume(&name, 2_000).await.unwrap();
    let publish = async {
        for first in (0..MESSAGES).step_by(5_000) {
            within("confirms", queue.publish(&name, numbered(first..first + 5_000))).await.unwrap();
        }
    };
    let consume = async {
        let mut seen = vec![false; MESSAGES as usize];
        let mut count = 0;
        while count < MESSAGES {
            let taken = within("a delivery", deliveries.next(500)).await;
            assert!(!taken.is_empty(), "the stream ended after {count}");
            for delivery in &taken {
                let first = !std::mem::replace(&mut seen[number(delivery) as usize], true);
                assert!(first, "message {} came twice", number(delivery));
                count += 1;
            }
            ack_all(taken).unwrap();
        }
    };
    tokio::join!(publish, consume);
    has_depth(queue, &name, 0).await;
    queue.delete(&name).await.unwrap();
}
