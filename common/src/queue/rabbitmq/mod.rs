//! Queues of a RabbitMQ broker (3.10 and up, 4.x), for fleets.
//!
//! Every queue is a durable quorum queue. What AMQP leaves to clients is here: connections that are built again,
//! confirms, acknowledgements in batches, prefetch that can change. What is not here: which mini-batches are done,
//! and what to do about a message that comes again.
//!
//! | file | duty |
//! |---|---|
//! | `address` | URLs, printed without their password |
//! | `connect` | one attempt to connect, in words when it fails |
//! | `link` | a connection that is built again, and channels on it |
//! | `publish` | messages and their confirms |
//! | `consume`, `acker`, `open_tags` | deliveries and their acknowledgements |
//! | `failure`, `trust` | what the broker's refusals mean, and which may pass |

mod acker;
mod address;
mod connect;
mod consume;
mod failure;
mod link;
mod open_tags;
mod publish;
mod trust;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lapin::Channel;
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use tokio_util::task::TaskTracker;

use self::address::Address;
use self::consume::AmqpDeliveries;
use self::link::{Link, Purpose};
use self::trust::Trust;
use super::{DEAD_LETTERS, Deliveries, Depth, Queue, QueueError, QueueErrorKind, QueueOptions};
use crate::refusals;

/// How often a message may come again before the broker takes it for poison. Never reached: how often a mini-batch
/// is tried is counted in the ledger.
const DELIVERY_LIMIT: i64 = 1_000_000;

/// The queues in one vhost of a RabbitMQ broker. Clones share their connections.
///
/// There are two connections, named `prs HOST-PID` and `prs HOST-PID publishing` in the broker's management; the
/// second is made with the first message. A connection that was lost is built again by the next call that needs it:
/// until then calls fail with [`QueueErrorKind::Unavailable`], after 5 s at most.
///
/// `amqps://` trusts the certificates of the system, or those in the file that `SSL_CERT_FILE` names. The URL may
/// set the seconds between heartbeats (`?heartbeat=30`); without that they are 10.
#[derive(Debug, Clone)]
pub struct RabbitMqQueue {
    address: Arc<Address>,
    consuming: Arc<Link>,
    publishing: Arc<Link>,
    trust: Arc<Trust>,
    /// What sends the acknowledgements of consumers.
    tasks: TaskTracker,
}

impl RabbitMqQueue {
    /// Connects to a broker, which finds out at once what is wrong with the URL. Fails within about 10 s, with
    /// [`QueueErrorKind::Unavailable`] when nobody answers there and with [`QueueErrorKind::Refused`] when what the URL says has to change: its form, user, password, vhost, or
    /// the trust in a certificate.
    pub async fn connect(url: &str) -> Result<Self, QueueError> {
        let address = Arc::new(Address::parse(url)?);
        let patience = refusals::patience();
        let patience =
            patience.map_err(|why| QueueError::new(QueueErrorKind::Refused, &address.to_string(), why))?;
        let trust = Arc::new(Trust::new(address.to_string(), patience));
        let link = |purpose| Link::new(Arc::clone(&address), purpose, Arc::clone(&trust));
        let (consuming, publishing) = (link(Purpose::Consuming), link(Purpose::Publishing));
        consuming.connect().await?;
        Ok(Self {
            address,
            consuming: Arc::new(consuming),
            publishing: Arc::new(publishing),
            trust,
            tasks: TaskTracker::new(),
        })
    }

    /// Where the broker at `url` is, without its password; nothing of a URL that cannot be read.
    pub fn place(url: &str) -> Option<String> {
        Address::parse(url).ok().map(|address| address.to_string())
    }

    /// The error of a call that used the queue. Of a queue whose leader is missing, or the majority of its hosts, the
    /// broker says that it is empty and not consumed; so does one that was killed within half a second of a declare, and
    /// never serves the queue again (seen with 3.10.8). From here the two cannot be told apart.
    async fn explained(&self, name: &str, error: QueueError) -> QueueError {
        if error.kind != QueueErrorKind::NotServed {
            return error;
        }
        match self.depth(name).await {
            Ok(seen) if seen == Depth::default() => failure::not_served(name, &self.address.uri.vhost),
            _ => QueueError { kind: QueueErrorKind::Unavailable, ..error },
        }
    }

    /// Declares the queue of dead letters, once for each connection.
    async fn declare_dead_letters(&self, lent: &link::Lent) -> Result<(), QueueError> {
        let declare = async || {
            let declare = lent.channel.queue_declare(DEAD_LETTERS.into(), durable(), quorum());
            lent.live.answer(DEAD_LETTERS, declare).await.map(drop)
        };
        lent.live.dead_letters.get_or_try_init(declare).await.map(drop)
    }
}

impl fmt::Display for RabbitMqQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

#[async_trait]
impl Queue for RabbitMqQueue {
    async fn declare(&self, name: &str, options: QueueOptions) -> Result<(), QueueError> {
        let declared = async {
            let queue = short(name)?;
            let lent = self.consuming.channel(name).await?;
            self.declare_dead_letters(&lent).await?;
            let declare =
                async |channel: &Channel| channel.queue_declare(queue, durable(), arguments(options)).await;
            match lent.call(name, declare).await {
                // A queue that is not there would be now: it is there, and what has it is down.
                Err(error) if error.kind == QueueErrorKind::NotFound => {
                    Err(QueueError { kind: QueueErrorKind::Unavailable, ..error })
                }
                declared => declared.map(drop),
            }
        };
        self.trust.judged("declare", name, declared.await)
    }

    async fn publish(&self, name: &str, bodies: Vec<Bytes>) -> Result<(), QueueError> {
        let published = match publish::publish(&self.publishing, name, short(name)?, bodies).await {
            Err(error) => Err(self.explained(name, error).await),
            Ok(()) => Ok(()),
        };
        self.trust.judged("publish", name, published)
    }

    async fn consume(&self, name: &str, prefetch: usize) -> Result<Box<dyn Deliveries>, QueueError> {
        let queue = short(name)?;
        let lent = self.consuming.channel(name).await?;
        let consumed: Result<Box<dyn Deliveries>, _> =
            match AmqpDeliveries::start(lent, name, queue, prefetch, &self.tasks).await {
                Ok(deliveries) => Ok(Box::new(deliveries)),
                Err(error) => Err(self.explained(name, error).await),
            };
        self.trust.judged("consume", name, consumed)
    }

    async fn depth(&self, name: &str) -> Result<Depth, QueueError> {
        let queue = short(name)?;
        let lent = self.consuming.channel(name).await?;
        let passive = QueueDeclareOptions { passive: true, ..durable() };
        let seen = lent
            .call(name, async |channel| channel.queue_declare(queue, passive, FieldTable::default()).await)
            .await;
        let seen = self.trust.judged("look at", name, seen)?;
        Ok(Depth { ready: seen.message_count().into(), consumers: seen.consumer_count().into() })
    }

    /// Sends the acknowledgements of consumers that were dropped, then closes the connections, with 8 MiB of buffers each.
    /// The next call connects again. Without it they are closed when the last clone is dropped, and the last
    /// acknowledgements may be lost with the process: their messages come again.
    async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.publishing.close().await;
        self.consuming.close().await;
    }

    async fn delete(&self, name: &str) -> Result<(), QueueError> {
        let queue = short(name)?;
        let lent = self.consuming.channel(name).await?;
        let options = QueueDeleteOptions::default();
        let deleted = match lent.call(name, async |channel| channel.queue_delete(queue, options).await).await
        {
            Err(error) if error.kind != QueueErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        self.trust.judged("delete", name, deleted)
    }
}

fn durable() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() }
}

fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
    arguments
}

/// What a queue is declared with. The broker refuses to declare it again with other arguments, of those it knows: one
/// before 3.12 knows no consumer timeout.
fn arguments(options: QueueOptions) -> FieldTable {
    let mut arguments = quorum();
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(DEAD_LETTERS.into()));
    if let Some(seconds) = options.consumer_timeout {
        let milliseconds = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        arguments.insert("x-consumer-timeout".into(), AMQPValue::LongLongInt(milliseconds));
    }
    arguments
}

/// AMQP's names have 255 bytes at most.
fn short(name: &str) -> Result<ShortString, QueueError> {
    ShortString::try_new(name)
        .map_err(|_| QueueError::new(QueueErrorKind::Refused, name, "its name is longer than 255 bytes"))
}
