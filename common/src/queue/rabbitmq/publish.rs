//! Publishing with confirms: many messages under way at a time, none of them lost in silence.
//!
//! A call has a channel for itself, so that a message that comes back (no queue has its name) is surely one of its
//! own.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};

use super::super::{QueueError, QueueErrorKind};
use super::failure;
use super::link::{Link, Live};

/// How many messages may wait for their confirms at a time.
const WINDOW: usize = 1_024;
/// How many bytes of them.
const WINDOW_BYTES: usize = 16 << 20;
/// AMQP's number for a message that is written to disk.
const PERSISTENT: u8 = 2;

/// Publishes all of `bodies` in their order; returns when the broker has confirmed every one.
pub(super) async fn publish(
    link: &Link,
    name: &str,
    queue: ShortString,
    bodies: &[Bytes],
) -> Result<(), QueueError> {
    let lent = link.channel(name).await?;
    let mut window = VecDeque::new();
    let mut bytes = 0;
    for body in bodies {
        while window.len() == WINDOW || (bytes + body.len() > WINDOW_BYTES && !window.is_empty()) {
            bytes -= confirm(&lent.live, name, &mut window).await?;
        }
        let mut sending = Box::pin(send(&lent.channel, queue.clone(), body));
        // What is polled first gets its number first: this is what keeps the order.
        let polled = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(confirmation) = polled {
            check(name, &confirmation.map_err(|refusal| failure::of(name, &refusal))?)?;
        } else {
            bytes += body.len();
            window.push_back((body.len(), sending));
        }
    }
    while !window.is_empty() {
        confirm(&lent.live, name, &mut window).await?;
    }
    drop(window);
    lent.give_back();
    Ok(())
}

async fn send(channel: &Channel, queue: ShortString, body: &[u8]) -> lapin::Result<Confirmation> {
    // Mandatory: a message for a queue that does not exist comes back, instead of being dropped and confirmed.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    channel.basic_publish("".into(), queue, options, body, properties).await?.await
}

/// Waits for the confirm of the oldest message under way and returns its size.
async fn confirm<F: Future<Output = lapin::Result<Confirmation>>>(
    live: &Live,
    name: &str,
    window: &mut VecDeque<(usize, Pin<Box<F>>)>,
) -> Result<usize, QueueError> {
    let Some((size, sending)) = window.pop_front() else { return Ok(0) };
    check(name, &live.answer_of_queue(name, sending).await?)?;
    Ok(size)
}

fn check(name: &str, confirmation: &Confirmation) -> Result<(), QueueError> {
    match confirmation {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => Err(failure::error(
            QueueErrorKind::NotFound,
            name,
            "no queue has this name; the message came back",
        )),
        Confirmation::Nack(None) => {
            // The queue has not taken it.
            Err(failure::error(QueueErrorKind::NotServed, name, "the broker could not store the message"))
        }
        Confirmation::NotRequested => {
            Err(failure::error(QueueErrorKind::Unavailable, name, "the channel confirms no messages"))
        }
    }
}
