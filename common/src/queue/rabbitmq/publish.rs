//! Publishing with confirms: many messages in flight at a time, none of them lost in silence.
//!
//! A call has a channel for itself, so that a message that comes back (no queue has its name) is surely one of its
//! own.

use std::pin::pin;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};

use super::super::{QueueError, QueueErrorKind};
use super::link::Link;

/// How many messages may wait for their confirms at a time.
const IN_FLIGHT: usize = 1_024;
/// How many bytes of them.
const IN_FLIGHT_BYTES: usize = 16 << 20;
/// AMQP's number for a message that is written to disk.
const PERSISTENT: u8 = 2;

/// Publishes all of `bodies` in their order; returns when the broker has confirmed every one.
pub(super) async fn publish(
    link: &Link,
    name: &str,
    queue: ShortString,
    bodies: Vec<Bytes>,
) -> Result<(), QueueError> {
    let lent = link.channel(name).await?;
    let largest = bodies.iter().map(Bytes::len).max().unwrap_or(0).max(1);
    let together = (IN_FLIGHT_BYTES / largest).clamp(1, IN_FLIGHT);
    {
        // Messages are begun one after the other, which gives them their numbers and so keeps their order.
        let sent = stream::iter(bodies).map(|body| send(lent.channel.clone(), queue.clone(), body));
        let mut confirmed = pin!(sent.buffered(together));
        while let Some(confirmation) = lent.live.answer_of_queue(name, confirmed.try_next()).await? {
            check(name, &confirmation)?;
        }
    }
    lent.give_back();
    Ok(())
}

async fn send(channel: Channel, queue: ShortString, body: Bytes) -> lapin::Result<Confirmation> {
    // Mandatory: a message for a queue that does not exist comes back, instead of being dropped and confirmed.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    channel.basic_publish("".into(), queue, options, &body, properties).await?.await
}

fn check(name: &str, confirmation: &Confirmation) -> Result<(), QueueError> {
    let (kind, message) = match confirmation {
        Confirmation::Ack(None) => return Ok(()),
        Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => {
            (QueueErrorKind::NotFound, "no queue has this name; the message came back")
        }
        // The queue has not taken it.
        Confirmation::Nack(None) => (QueueErrorKind::NotServed, "the broker could not store the message"),
        Confirmation::NotRequested => (QueueErrorKind::Unavailable, "the channel confirms no messages"),
    };
    Err(QueueError::new(kind, name, message))
}
