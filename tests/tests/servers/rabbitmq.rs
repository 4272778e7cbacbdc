//! RabbitMQ passes what the embedded queue passes, and keeps its promises when the broker is killed, wiped or
//! refuses.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::queue::{
    DEAD_LETTERS, Deliveries, Delivery, Depth, Queue, QueueError, QueueErrorKind, QueueOptions,
    RabbitMqQueue, ack_all,
};
use prs_tests::deadline::{eventually, within};
use prs_tests::harness::servers::{RabbitMq, free_port};

/// Set where a test runs itself again with another trust in certificates.
const TLS_URL: &str = "PRS_TEST_AMQPS_URL";

mod conformance {
    use super::*;

    prs_tests::queue_conformance!((RabbitMqQueue::connect(&RabbitMq::shared().url()).await.unwrap(), ()));
}

async fn connected() -> RabbitMqQueue {
    RabbitMqQueue::connect(&RabbitMq::shared().url()).await.unwrap()
}

/// How connecting fails: the kind and the words, which come in time and without the password.
async fn refusal(url: &str) -> (QueueErrorKind, String) {
    let start = Instant::now();
    let error = RabbitMqQueue::connect(url).await.expect_err("nobody can connect there");
    let words = error.to_string();
    assert!(start.elapsed() < Duration::from_secs(15), "after {:?}: {words}", start.elapsed());
    assert!(!words.contains("secret") && !format!("{error:?}").contains("secret"), "{error:?}");
    (error.kind, words)
}

fn numbered(range: std::ops::Range<u32>) -> Vec<Bytes> {
    range.map(|number| Bytes::from(number.to_string())).collect()
}

fn numbers(deliveries: &[Delivery]) -> BTreeSet<u32> {
    deliveries.iter().map(|delivery| str::from_utf8(&delivery.body).unwrap().parse().unwrap()).collect()
}

async fn take(deliveries: &mut dyn Deliveries, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let more = within("a delivery", deliveries.next(count - taken.len())).await;
        assert!(!more.is_empty(), "the stream ended after {} of {count} deliveries", taken.len());
        taken.extend(more);
    }
    taken
}

/// Calls again while the connection is being built; every single call ends soon.
async fn at_last<T, F: Future<Output = Result<T, QueueError>>>(what: &str, mut call: impl FnMut() -> F) -> T {
    eventually(what, || {
        let calling = call();
        async move {
            let start = Instant::now();
            let outcome = calling.await;
            assert!(start.elapsed() < Duration::from_secs(10), "a call took {:?}", start.elapsed());
            match outcome {
                Ok(value) => Some(value),
                Err(error) => {
                    assert!(error.is_retryable(), "{what}: {error}");
                    None
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn broker_that_does_not_listen_is_unavailable() {
    let (kind, words) = refusal(&format!("amqp://user:secret@127.0.0.1:{}/%2f", free_port())).await;
    assert_eq!(kind, QueueErrorKind::Unavailable);
    assert!(words.contains("is the broker running"), "{words}");
}

#[tokio::test]
async fn host_without_an_address_is_unavailable() {
    let (kind, words) = refusal("amqp://user:secret@no-such-host.invalid/%2f").await;
    assert_eq!(kind, QueueErrorKind::Unavailable);
    assert!(words.contains("no address is known for the host no-such-host.invalid"), "{words}");
}

#[tokio::test]
async fn server_that_says_nothing_is_unavailable() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    for scheme in ["amqp", "amqps"] {
        let (kind, words) = refusal(&format!("{scheme}://user:secret@127.0.0.1:{port}/%2f")).await;
        assert_eq!(kind, QueueErrorKind::Unavailable, "{words}");
    }
}

#[tokio::test]
async fn wrong_user_or_password_is_refused() {
    let server = RabbitMq::shared();
    for url in [server.url_of("guest", "secret", "%2f"), server.url_of("nobody", "secret", "%2f")] {
        let (kind, words) = refusal(&url).await;
        assert_eq!(kind, QueueErrorKind::Refused);
        assert!(words.contains("with this password"), "{words}");
    }
}

#[tokio::test]
async fn absent_or_forbidden_vhost_is_refused() {
    let server = RabbitMq::shared();
    server.control(&["add_user", "outsider", "secret"]);
    for (url, user, vhost) in [
        (server.url_of("guest", "guest", "nowhere"), "guest", "nowhere"),
        (server.url_of("outsider", "secret", "%2f"), "outsider", "/"),
    ] {
        let (kind, words) = refusal(&url).await;
        assert_eq!(kind, QueueErrorKind::Refused);
        assert!(words.contains(&format!("does not let user {user} into the vhost {vhost} ")), "{words}");
        assert!(words.contains("rabbitmqctl"), "{words}");
    }
}

#[tokio::test]
async fn malformed_url_is_refused() {
    for url in
        ["", "rabbit", "http://user:secret@host", "amqp://user:secret@host:port", "amqp://user:secret@"]
    {
        let (kind, words) = refusal(url).await;
        assert_eq!(kind, QueueErrorKind::Refused, "{words}");
        assert!(words.contains("malformed"), "{words}");
    }
}

#[tokio::test]
async fn certificate_nobody_vouches_for_is_refused() {
    let (kind, words) = refusal(&RabbitMq::shared().tls_url()).await;
    assert_eq!(kind, QueueErrorKind::Refused);
    assert!(words.contains("SSL_CERT_FILE"), "{words}");
}

#[tokio::test]
async fn port_without_tls_is_refused() {
    let port = RabbitMq::shared().port();
    let (kind, words) = refusal(&format!("amqps://user:secret@localhost:{port}/%2f")).await;
    assert_eq!(kind, QueueErrorKind::Refused);
    assert!(words.contains("check that the port speaks TLS"), "{words}");
}

#[tokio::test]
async fn tls_port_without_tls_says_so() {
    let url = RabbitMq::shared().tls_url().replace("amqps", "amqp");
    let (kind, words) = refusal(&url).await;
    assert_eq!(kind, QueueErrorKind::Unavailable);
    assert!(words.contains("TLS port"), "{words}");
}

/// Runs itself again: the file with the trusted authorities is read from the environment.
#[tokio::test]
async fn connects_over_tls_with_an_authority_of_its_own() {
    if let Ok(url) = std::env::var(TLS_URL) {
        let queue = RabbitMqQueue::connect(&url).await.unwrap();
        queue.declare("tls", QueueOptions::default()).await.unwrap();
        let large = Bytes::from(vec![7; 1 << 20]);
        queue.publish("tls", vec![large.clone(); 20]).await.unwrap();
        let mut deliveries = queue.consume("tls", 5).await.unwrap();
        for _ in 0..20 {
            let taken = take(deliveries.as_mut(), 1).await;
            assert_eq!(taken[0].body, large);
            ack_all(taken).unwrap();
        }
        drop(deliveries);
        queue.delete("tls").await.unwrap();
        queue.close().await;
        return;
    }
    let server = RabbitMq::shared();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rabbitmq::connects_over_tls_with_an_authority_of_its_own", "--nocapture"])
        .env(TLS_URL, server.tls_url())
        .env("SSL_CERT_FILE", server.authority())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[tokio::test]
async fn broker_shows_our_name() {
    let queue = connected().await;
    assert!(queue.to_string().starts_with("amqp://guest@127.0.0.1:"), "{queue}");
    let ours = format!("-{}\"", std::process::id());
    let properties = RabbitMq::shared().control(&["list_connections", "client_properties"]);
    assert!(properties.contains("\"prs ") && properties.contains(&ours), "{properties}");
}

#[tokio::test]
async fn user_without_rights_is_refused() {
    let server = RabbitMq::shared();
    let owner = connected().await;
    owner.declare("guarded", QueueOptions::default()).await.unwrap();
    server.add_user("reader", "secret", ["^$", "^$", "^$"]);
    let queue = RabbitMqQueue::connect(&server.url_of("reader", "secret", "%2f")).await.unwrap();
    let refused = |outcome: Result<(), QueueError>| {
        let error = outcome.expect_err("the user has no rights");
        assert_eq!(error.kind, QueueErrorKind::Forbidden, "{error}");
        assert!(error.message.contains("ACCESS_REFUSED"), "{error}");
    };
    refused(queue.declare("anything", QueueOptions::default()).await);
    refused(queue.publish("guarded", numbered(0..3)).await);
    refused(queue.consume("guarded", 1).await.map(drop));
    refused(queue.delete("guarded").await);
    owner.delete("guarded").await.unwrap();
}

#[tokio::test]
async fn a_right_or_a_password_that_was_good_may_be_good_again() {
    let server = RabbitMq::shared();
    server.add_user("ana", "secret", [".*", ".*", ".*"]);
    let queue = RabbitMqQueue::connect(&server.url_of("ana", "secret", "%2f")).await.unwrap();
    queue.declare("granted", QueueOptions::default()).await.unwrap();
    let passes = |outcome: Result<(), QueueError>| {
        let error = outcome.expect_err("it is refused");
        assert!(error.is_retryable() && error.message.contains("the same was accepted before"), "{error}");
    };
    // Channels remember rights for a while, so it needs a new one.
    queue.close().await;
    server.control(&["set_permissions", "ana", "^$", "^$", "^$"]);
    passes(queue.declare("granted", QueueOptions::default()).await);
    server.control(&["set_permissions", "ana", ".*", ".*", ".*"]);
    at_last("declaring again", || queue.declare("granted", QueueOptions::default())).await;

    server.control(&["change_password", "ana", "another"]);
    queue.close().await;
    passes(queue.declare("granted", QueueOptions::default()).await);
    server.control(&["change_password", "ana", "secret"]);
    at_last("logging in again", || queue.declare("granted", QueueOptions::default())).await;
    queue.delete("granted").await.unwrap();
}

#[tokio::test]
async fn name_too_long_for_amqp_is_refused() {
    let queue = connected().await;
    let long = "n".repeat(256);
    let error = queue.declare(&long, QueueOptions::default()).await.unwrap_err();
    assert_eq!(error.kind, QueueErrorKind::Refused);
}

#[tokio::test]
async fn rejected_messages_are_in_the_dead_letters() {
    let queue = connected().await;
    queue.declare("rejects", QueueOptions::default()).await.unwrap();
    let body = Bytes::from("not to be understood");
    queue.publish("rejects", vec![body.clone()]).await.unwrap();
    let mut deliveries = queue.consume("rejects", 1).await.unwrap();
    for delivery in take(deliveries.as_mut(), 1).await {
        delivery.reject().unwrap();
    }
    // Cases of the conformance suite reject too.
    let mut dead = queue.consume(DEAD_LETTERS, 100).await.unwrap();
    while take(dead.as_mut(), 1).await[0].body != body {}
    queue.delete("rejects").await.unwrap();
}

#[tokio::test]
async fn large_bodies_come_through() {
    let queue = connected().await;
    queue.declare("large", QueueOptions::default()).await.unwrap();
    let bodies: Vec<Bytes> =
        (0..50).map(|byte| Bytes::from(vec![byte; (1 << 20) + usize::from(byte)])).collect();
    within("confirms", queue.publish("large", bodies.clone())).await.unwrap();
    let mut deliveries = queue.consume("large", 10).await.unwrap();
    for body in &bodies {
        let taken = take(deliveries.as_mut(), 1).await;
        assert!(taken[0].body == *body, "a body changed on its way");
        ack_all(taken).unwrap();
    }
    queue.delete("large").await.unwrap();
}

/// Publishers side by side disturb each other neither when all is well nor when one's queue is absent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishers_do_not_disturb_each_other() {
    let queue = connected().await;
    queue.declare("shared", QueueOptions::default()).await.unwrap();
    let publishers = (0..8).map(|publisher| {
        let queue = queue.clone();
        tokio::spawn(async move {
            for round in 0..20 {
                let first = publisher * 1_000 + round * 50;
                queue.publish("shared", numbered(first..first + 50)).await.unwrap();
                let lost = queue.publish("no-such-queue", numbered(0..5)).await.unwrap_err();
                assert_eq!(lost.kind, QueueErrorKind::NotFound);
            }
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        within("a publisher", publisher).await.unwrap();
    }
    let mut deliveries = queue.consume("shared", 10_000).await.unwrap();
    let taken = take(deliveries.as_mut(), 8_000).await;
    assert_eq!(numbers(&taken).len(), 8_000);
    ack_all(taken).unwrap();
    queue.delete("shared").await.unwrap();
}

#[tokio::test]
async fn close_sends_the_last_answers() {
    let queue = connected().await;
    queue.declare("closes", QueueOptions::default()).await.unwrap();
    queue.publish("closes", numbered(0..1_000)).await.unwrap();
    let mut deliveries = queue.consume("closes", 1_000).await.unwrap();
    let taken = take(deliveries.as_mut(), 1_000).await;
    ack_all(taken).unwrap();
    drop(deliveries);
    within("the end of the connections", queue.close()).await;
    // A later call connects again.
    assert_eq!(queue.depth("closes").await.unwrap().ready, 0);
    queue.delete("closes").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_and_restart_lose_nothing_that_was_confirmed() {
    let mut server = RabbitMq::start();
    let queue = RabbitMqQueue::connect(&server.url()).await.unwrap();
    queue.declare("job", QueueOptions::default()).await.unwrap();
    server.write_out_declarations();
    queue.publish("job", numbered(0..100)).await.unwrap();
    let mut deliveries = queue.consume("job", 20).await.unwrap();
    let mut held = take(deliveries.as_mut(), 20).await;
    ack_all(held.drain(..10)).unwrap();
    eventually("the acknowledgements to arrive", || async {
        (queue.depth("job").await.unwrap().ready == 80 - 10).then_some(())
    })
    .await;
    held.extend(take(deliveries.as_mut(), 10).await);

    tokio::task::block_in_place(|| server.kill());
    // What was delivered is handed out, then the stream ends and stays so.
    while !within("the end of the stream", deliveries.next(100)).await.is_empty() {}
    assert!(within("the end of the stream", deliveries.next(1)).await.is_empty());
    let late = held.pop().unwrap().ack().unwrap_err();
    assert!(late.is_retryable(), "{late}");
    assert!(deliveries.set_prefetch(5).await.is_err());
    drop(held);
    drop(deliveries);
    let start = Instant::now();
    for outcome in [queue.publish("job", numbered(0..1)).await, queue.consume("job", 1).await.map(drop)] {
        assert!(outcome.unwrap_err().is_retryable());
    }
    assert!(start.elapsed() < Duration::from_secs(15), "calls end soon while the broker is away");

    tokio::task::block_in_place(|| server.restart());
    at_last("publishing after the restart", || queue.publish("job", numbered(100..200))).await;
    let mut deliveries = at_last("consuming after the restart", || queue.consume("job", 1_000)).await;
    let again = take(deliveries.as_mut(), 190).await;
    // A publish whose answer was lost may have arrived too, twice.
    let seen = numbers(&again);
    assert!((10..200).all(|number| seen.contains(&number)), "a confirmed message is missing");
    let first_held = again.iter().filter(|delivery| delivery.redelivered).count();
    assert!(first_held >= 20, "{first_held} messages are marked as delivered before");
    ack_all(again).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_that_is_not_served_is_left_alone() {
    let server = RabbitMq::start();
    let queue = RabbitMqQueue::connect(&server.url()).await.unwrap();
    queue.declare("job", QueueOptions::default()).await.unwrap();
    queue.publish("job", numbered(0..10)).await.unwrap();
    tokio::task::block_in_place(|| server.stop_serving("job"));
    // What the broker says of it is what it says of an empty queue that nobody consumes.
    assert_eq!(queue.depth("job").await.unwrap(), Depth::default());
    let (published, consumed) = tokio::join!(queue.publish("job", numbered(10..20)), async {
        queue.consume("job", 1).await.map(drop)
    });
    for error in [published.unwrap_err(), consumed.unwrap_err()] {
        assert_eq!(error.kind, QueueErrorKind::NotServed, "{error}");
        assert!(error.is_retryable());
        for part in ["queue job:", "list_queues -p /", "delete_queue -p / job", "only when all hosts are up"]
        {
            assert!(error.to_string().contains(part), "{part:?} is not said: {error}");
        }
    }
    let listed = tokio::task::block_in_place(|| server.queues());
    assert!(listed.iter().any(|name| name == "job"), "{listed:?}");

    tokio::task::block_in_place(|| server.serve_again("job"));
    let mut deliveries = at_last("consuming once it is served", || queue.consume("job", 100)).await;
    let mut taken = BTreeSet::new();
    while !(0..10).all(|number| taken.contains(&number)) {
        let more = take(deliveries.as_mut(), 1).await;
        taken.extend(numbers(&more));
        ack_all(more).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_broker_has_no_queues() {
    let mut server = RabbitMq::start();
    let queue = RabbitMqQueue::connect(&server.url()).await.unwrap();
    queue.declare("job", QueueOptions::default()).await.unwrap();
    queue.publish("job", numbered(0..10)).await.unwrap();
    tokio::task::block_in_place(|| server.wipe_and_restart());
    let not_found = |outcome: Result<(), QueueError>| match outcome {
        Err(error) if error.is_retryable() => Err(error),
        Err(error) => {
            assert_eq!(error.kind, QueueErrorKind::NotFound, "{error}");
            Ok(())
        }
        Ok(()) => panic!("the queue is gone"),
    };
    at_last("publishing to the wiped broker", async || not_found(queue.publish("job", numbered(0..3)).await))
        .await;
    at_last("consuming from the wiped broker", async || not_found(queue.consume("job", 1).await.map(drop)))
        .await;
    // All is made again, the dead letters included.
    queue.declare("job", QueueOptions::default()).await.unwrap();
    queue.publish("job", numbered(0..10)).await.unwrap();
    let mut deliveries = queue.consume("job", 10).await.unwrap();
    for delivery in take(deliveries.as_mut(), 10).await {
        delivery.reject().unwrap();
    }
    eventually("the dead letters", || async {
        (queue.depth(DEAD_LETTERS).await.unwrap().ready == 10).then_some(())
    })
    .await;
}
