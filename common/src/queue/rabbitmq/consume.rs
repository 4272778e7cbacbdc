//! Consuming: a channel for each consumer, whose end gives back what was not acknowledged.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery as AmqpDelivery;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use tokio_util::task::TaskTracker;

use super::super::{Deliveries, Delivery, QueueError};
use super::acker::AmqpAcker;
use super::link::{Lent, Live};

/// The deliveries to one consumer.
pub(super) struct AmqpDeliveries {
    name: String,
    queue: ShortString,
    live: Arc<Live>,
    channel: Channel,
    /// The oldest first. There are two while a change of the prefetch has left deliveries to the one before.
    streams: VecDeque<Consumer>,
    /// Consumers there were on the channel, which is where their tags come from.
    started: u32,
    /// Set while the prefetch is changed: a change that was interrupted leaves nobody knows what.
    changing: bool,
    prefetch: u16,
    acker: Arc<AmqpAcker>,
}

impl AmqpDeliveries {
    pub(super) async fn start(
        lent: Lent,
        name: &str,
        queue: ShortString,
        prefetch: usize,
        tasks: &TaskTracker,
    ) -> Result<Self, QueueError> {
        let (live, channel) = (Arc::clone(&lent.live), lent.channel.clone());
        let prefetch = within_amqp(prefetch);
        let stream = consume(&live, &channel, name, queue.clone(), prefetch, 1).await?;
        let (acker, sending) = AmqpAcker::new(name, lent);
        tasks.spawn(sending);
        Ok(Self {
            name: name.to_owned(),
            queue,
            live,
            channel,
            streams: VecDeque::from([stream]),
            started: 1,
            changing: false,
            prefetch,
            acker,
        })
    }

    fn delivery(&self, delivery: AmqpDelivery) -> Delivery {
        let acker = Arc::clone(&self.acker) as _;
        Delivery::new(Bytes::from(delivery.data), delivery.redelivered, delivery.delivery_tag, acker)
    }
}

impl Drop for AmqpDeliveries {
    fn drop(&mut self) {
        self.acker.close();
    }
}

#[async_trait]
impl Deliveries for AmqpDeliveries {
    async fn next(&mut self, max: usize) -> Vec<Delivery> {
        if mem::take(&mut self.changing) {
            tracing::warn!(queue = self.name, "a change of the prefetch was interrupted; the consumer ends");
            self.streams.clear();
            self.acker.close();
        }
        let mut taken = Vec::new();
        while let Some(stream) = self.streams.front_mut() {
            // Nothing is waited for once there is something to return, so nothing is lost when a wait is interrupted.
            let item =
                if taken.is_empty() { Some(stream.next().await) } else { stream.next().now_or_never() };
            match item {
                Some(Some(Ok(delivery))) => {
                    taken.push(self.delivery(delivery));
                    if taken.len() >= max {
                        break;
                    }
                }
                // After an error comes the end.
                Some(Some(Err(_)) | None) => drop(self.streams.pop_front()),
                None => break,
            }
        }
        taken
    }

    async fn set_prefetch(&mut self, prefetch: usize) -> Result<(), QueueError> {
        let prefetch = within_amqp(prefetch);
        if prefetch == self.prefetch {
            return Ok(());
        }
        // A prefetch holds for the consumers that start after it was set: another one takes over on the same channel,
        // where the deliveries in hand stay valid.
        self.changing = true;
        let tag = self.started + 1;
        let stream =
            consume(&self.live, &self.channel, &self.name, self.queue.clone(), prefetch, tag).await?;
        self.streams.push_back(stream);
        let before = tag_of(self.started);
        self.started = tag;
        let cancel = self.channel.basic_cancel(before, BasicCancelOptions::default());
        self.live.answer(&self.name, cancel).await?;
        self.prefetch = prefetch;
        self.changing = false;
        Ok(())
    }
}

/// Starts the consumer number `tag` of a channel.
async fn consume(
    live: &Live,
    channel: &Channel,
    name: &str,
    queue: ShortString,
    prefetch: u16,
    tag: u32,
) -> Result<Consumer, QueueError> {
    live.answer(name, channel.basic_qos(prefetch, BasicQosOptions { global: false })).await?;
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(queue, tag_of(tag), options, FieldTable::default());
    live.answer_of_queue(name, consuming).await
}

/// The tag of a consumer; it needs to be unique on its channel only.
fn tag_of(number: u32) -> ShortString {
    format!("prs-{number}").into()
}

/// AMQP counts up to 65,535, and 0 would mean no bound.
fn within_amqp(prefetch: usize) -> u16 {
    u16::try_from(prefetch.max(1)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetch_stays_within_what_amqp_can_say() {
        assert_eq!([0, 1, 2_000, 70_000].map(within_amqp), [1, 1, 2_000, u16::MAX]);
    }
}
