//! The acknowledgements of a consumer on their way to the broker.
//!
//! AMQP gives no reply to an acknowledgement, so a consumer only hands it to a task and is done; the task sends many
//! at a time. It belongs to the consumer: it ends when the consumer is dropped, after it has sent what was
//! acknowledged before and has closed the channel, or when the channel is gone.

use std::sync::Arc;

use futures_util::future::{BoxFuture, try_join_all};
use lapin::ChannelStatus;
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicRejectOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::super::{Acker, Acknowledgement, QueueError, QueueErrorKind};
use super::link::Lent;
use super::open_tags::OpenTags;

/// The most acknowledgements that are sent as one batch.
const BATCH: usize = 1_024;

/// Takes the acknowledgements of one consumer. There are never more of them than its prefetch allows.
#[derive(Debug)]
pub(super) struct AmqpAcker {
    queue: String,
    channel: ChannelStatus,
    /// Cancelled when the consumer is gone.
    over: CancellationToken,
    /// Read by the task that sends.
    acknowledged_tx: UnboundedSender<(u64, Acknowledgement)>,
}

impl AmqpAcker {
    /// The acker, and the task that sends on the channel what it takes.
    pub(super) fn new(queue: &str, lent: Lent) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (acknowledged_tx, acknowledged_rx) = unbounded_channel();
        let over = CancellationToken::new();
        let (queue, channel) = (queue.to_owned(), lent.channel.status().clone());
        let sending = send_all(queue.clone(), lent, over.clone(), acknowledged_rx);
        (Arc::new(Self { queue, channel, over, acknowledged_tx }), sending)
    }

    /// The consumer is gone: the channel is closed once what was acknowledged so far is sent.
    pub(super) fn close(&self) {
        self.over.cancel();
    }
}

impl Acker for AmqpAcker {
    fn acknowledge(&self, tag: u64, how: Acknowledgement) -> Result<(), QueueError> {
        if self.over.is_cancelled() {
            let message = "the consumer is gone; the message is delivered again";
            return Err(QueueError::new(QueueErrorKind::Refused, &self.queue, message));
        }
        if !self.channel.connected() || self.acknowledged_tx.send((tag, how)).is_err() {
            let message = "the connection to the broker was lost; the message is delivered again";
            return Err(QueueError::new(QueueErrorKind::Unavailable, &self.queue, message));
        }
        if how == Acknowledgement::Reject {
            tracing::warn!(queue = self.queue, "a message was rejected; it is now in the dead letters");
        }
        Ok(())
    }
}

async fn send_all(
    queue: String,
    lent: Lent,
    over: CancellationToken,
    mut acknowledged_rx: UnboundedReceiver<(u64, Acknowledgement)>,
) {
    let mut open = OpenTags::default();
    let mut batch = Vec::new();
    let mut is_over = false;
    while !is_over {
        tokio::select! {
            biased;
            // None, where everyone who could acknowledge is gone.
            received = acknowledged_rx.recv_many(&mut batch, BATCH) => is_over = received == 0,
            () = over.cancelled() => {
                // What is acknowledged from now on is refused; what came before is still sent.
                acknowledged_rx.close();
                while acknowledged_rx.recv_many(&mut batch, BATCH).await > 0 {}
                is_over = true;
            }
        }
        if let Err(error) = send(&lent, &queue, &mut open, batch.drain(..)).await {
            tracing::warn!(
                queue,
                cause = error.message,
                "acknowledgements were not sent; the messages come again"
            );
            break;
        }
    }
    // Fails where the channel is gone, which is what is wanted.
    let _ = lent.live.answer(&queue, lent.channel.close(200, "consumer closed".into())).await;
}

/// Sends a batch; returns when it is on its way, which is all that AMQP tells.
async fn send(
    lent: &Lent,
    queue: &str,
    open: &mut OpenTags,
    batch: impl Iterator<Item = (u64, Acknowledgement)>,
) -> Result<(), QueueError> {
    let channel = &lent.channel;
    let mut acked = Vec::new();
    let mut others: Vec<BoxFuture<'_, lapin::Result<()>>> = Vec::new();
    for (tag, how) in batch {
        if how == Acknowledgement::Ack {
            acked.push(tag);
            continue;
        }
        open.remove(tag);
        others.push(if how == Acknowledgement::Requeue {
            let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
            Box::pin(channel.basic_nack(tag, options))
        } else {
            Box::pin(channel.basic_reject(tag, BasicRejectOptions::default()))
        });
    }
    // Before the acks, one of which may speak for all tags up to its own.
    lent.live.answer(queue, try_join_all(others)).await?;
    let (up_to, single) = open.ack(acked);
    let single = single.into_iter().map(|tag| (tag, false));
    let acks = up_to.map(|tag| (tag, true)).into_iter().chain(single);
    let acks = acks.map(|(tag, multiple)| channel.basic_ack(tag, BasicAckOptions { multiple }));
    lent.live.answer(queue, try_join_all(acks)).await.map(drop)
}
