//! The queue: how mini-batch descriptors reach the nodes.
//!
//! At-least-once delivery with acknowledgements, only what AMQP really gives: no lease renewal, no look-up, no
//! order promised. Which mini-batches are done is the ledger's business.

mod embedded;
#[cfg(feature = "fleet")]
mod rabbitmq;

use std::fmt::{Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

pub use self::embedded::EmbeddedQueue;
#[cfg(feature = "fleet")]
pub use self::rabbitmq::RabbitMqQueue;

/// Where rejected messages go: a durable quorum queue that nobody consumes.
pub const DEAD_LETTERS: &str = "prs.dead";

/// Meaning of a queue error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueErrorKind {
    /// No queue has this name (any more).
    NotFound,
    /// The server refuses the caller, or what is asked.
    Refused,
    /// The caller lacks a right to what is asked.
    Forbidden,
    /// The server cannot be reached for now.
    Unavailable,
    /// The server has the queue, answers for others, and gives no answer for this one: its leader, or the majority of
    /// its hosts, may be missing. It may come back with all it held.
    NotServed,
}

/// An error of a queue.
#[derive(Debug, thiserror::Error)]
#[error("queue {name}: {message}")]
pub struct QueueError {
    /// What the error means to a caller.
    pub kind: QueueErrorKind,
    /// Name of the queue.
    pub name: String,
    /// The cause, in words.
    pub message: String,
}

impl QueueError {
    /// An error of the queue (or the broker) `name`.
    pub fn new(kind: QueueErrorKind, name: &str, message: impl Into<String>) -> Self {
        Self { kind, name: name.to_owned(), message: message.into() }
    }

    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, QueueErrorKind::Unavailable | QueueErrorKind::NotServed)
    }
}

/// What a queue is declared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueOptions {
    /// How long a message may stay unacknowledged, seconds; `None`: the server's own limit. RabbitMQ before 3.12 knows
    /// only its own, which is 30 min unless it is configured otherwise.
    pub consumer_timeout: Option<u64>,
}

/// Messages in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Waiting to be delivered.
    pub ready: u64,
    /// Consumers at this moment.
    pub consumers: u64,
}

/// A broker of queues.
///
/// # Contract
/// * `publish` returns when every message is safe; on an error any part of them may have been published.
/// * A message is delivered to one consumer at a time, at least once, until it is acknowledged or rejected. A
///   delivery that is dropped, or whose consumer is dropped, is delivered again, marked as such.
/// * `declare` of an existing queue with the same options and `delete` of an absent queue succeed. With other options
///   a server may refuse to declare it; the queue stays as it is.
#[async_trait]
pub trait Queue: Debug + Display + Send + Sync {
    /// Makes a queue.
    async fn declare(&self, name: &str, options: QueueOptions) -> Result<(), QueueError>;
    /// Appends messages, in their order.
    async fn publish(&self, name: &str, bodies: Vec<Bytes>) -> Result<(), QueueError>;
    /// Starts to consume, with at most `prefetch` unacknowledged deliveries at a time.
    async fn consume(&self, name: &str, prefetch: usize) -> Result<Box<dyn Deliveries>, QueueError>;
    /// How many messages there are; an estimate on a cluster.
    async fn depth(&self, name: &str) -> Result<Depth, QueueError>;
    /// Sends what is still to be sent, and closes connections; a later call opens them again. Consumers have to be
    /// dropped before: this waits for them.
    async fn close(&self) {}
    /// Removes a queue with its messages; consumers see the end of their stream. Where a queue of the same name is
    /// made before that, a broker may move them over to it instead.
    async fn delete(&self, name: &str) -> Result<(), QueueError>;
}

/// The deliveries to one consumer.
#[async_trait]
pub trait Deliveries: Send {
    /// Waits for at least one delivery and returns up to `max` that are there; empty at the end of the stream
    /// (the queue or the connection is gone). Cancel safe.
    async fn next(&mut self, max: usize) -> Vec<Delivery>;
    /// Changes how many deliveries may be unacknowledged at a time. What is in hand already stays there.
    async fn set_prefetch(&mut self, prefetch: usize) -> Result<(), QueueError>;
}

/// One message in the hands of a consumer. Dropping it unacknowledged makes the message available again.
#[derive(Debug)]
pub struct Delivery {
    /// The message.
    pub body: Bytes,
    /// Whether it was delivered before.
    pub redelivered: bool,
    tag: u64,
    acker: Option<Arc<dyn Acker>>,
}

/// Takes the acknowledgements for the deliveries of one consumer; for implementations of [`Deliveries`].
pub trait Acker: Debug + Send + Sync {
    /// Notes what becomes of the delivery `tag`. An error means that the broker delivers it again.
    fn acknowledge(&self, tag: u64, how: Acknowledgement) -> Result<(), QueueError>;
}

/// What a consumer says of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Done; never deliver it again.
    Ack,
    /// Deliver it again, to anyone.
    Requeue,
    /// It cannot be understood; move it to the dead letters.
    Reject,
}

impl Delivery {
    /// The delivery `tag` of a consumer, whose acknowledgements `acker` takes.
    pub fn new(body: Bytes, redelivered: bool, tag: u64, acker: Arc<dyn Acker>) -> Self {
        Self { body, redelivered, tag, acker: Some(acker) }
    }

    /// A body that came another way than by a queue: whatever is said of it has no effect.
    pub fn without_message(body: Bytes) -> Self {
        Self { body, redelivered: false, tag: 0, acker: None }
    }

    /// The message is done. An error means that the broker may deliver it again; so for the others.
    pub fn ack(self) -> Result<(), QueueError> {
        self.acknowledge(Acknowledgement::Ack)
    }

    /// Anyone may have the message again.
    pub fn requeue(self) -> Result<(), QueueError> {
        self.acknowledge(Acknowledgement::Requeue)
    }

    /// Nobody understands the message.
    pub fn reject(self) -> Result<(), QueueError> {
        self.acknowledge(Acknowledgement::Reject)
    }

    fn acknowledge(mut self, how: Acknowledgement) -> Result<(), QueueError> {
        self.acker.take().map_or(Ok(()), |acker| acker.acknowledge(self.tag, how))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(acker) = self.acker.take() {
            // Where the consumer is gone, the message is available again already.
            let _ = acker.acknowledge(self.tag, Acknowledgement::Requeue);
        }
    }
}

/// Acknowledges many deliveries; the first error is returned after all were tried.
pub fn ack_all(deliveries: impl IntoIterator<Item = Delivery>) -> Result<(), QueueError> {
    deliveries.into_iter().map(Delivery::ack).fold(Ok(()), Result::and)
}
