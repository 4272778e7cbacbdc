//! The answers of a consumer on their way to the broker.
//!
//! AMQP gives no reply to an acknowledgement, so a receipt only hands its answer to a task and is done; the task
//! sends many at a time. It belongs to the consumer: it ends when the consumer is dropped, after it has sent what
//! was answered before and has closed the channel, or when the channel is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use lapin::ChannelStatus;
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicRejectOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::super::{Answer, QueueError, QueueErrorKind, Receipt};
use super::failure;
use super::link::Lent;
use super::settled::Settled;

/// The most answers that are sent as one batch.
const BATCH: usize = 1_024;

/// The way for the answers of one consumer. There are never more of them than its prefetch allows.
#[derive(Debug)]
pub(super) struct Answers {
    queue: String,
    channel: ChannelStatus,
    over: AtomicBool,
    orders: UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
    Settle(u64, Answer),
    Close,
}

impl Answers {
    /// The way for answers, and the task that sends them on the channel.
    pub(super) fn new(queue: &str, lent: Lent) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (orders, received) = unbounded_channel();
        let answers = Arc::new(Self {
            queue: queue.to_owned(),
            channel: lent.channel.status().clone(),
            over: AtomicBool::new(false),
            orders,
        });
        (answers, send_all(queue.to_owned(), lent, received))
    }

    /// The consumer is gone: the channel is closed once the answers given so far are sent.
    pub(super) fn close(&self) {
        self.over.store(true, Ordering::Release);
        // A task that has ended has nothing to close.
        let _ = self.orders.send(Order::Close);
    }

    fn settle(&self, number: u64, answer: Answer) -> Result<(), QueueError> {
        if self.over.load(Ordering::Acquire) {
            let message = "the consumer is gone; the message is delivered again";
            return Err(failure::error(QueueErrorKind::Refused, &self.queue, message));
        }
        if !self.channel.connected() || self.orders.send(Order::Settle(number, answer)).is_err() {
            let message = "the connection to the broker was lost; the message is delivered again";
            return Err(failure::error(QueueErrorKind::Unavailable, &self.queue, message));
        }
        Ok(())
    }
}

/// The way back for one delivery.
#[derive(Debug)]
pub(super) struct AmqpReceipt {
    answers: Arc<Answers>,
    number: u64,
    answered: bool,
}

impl AmqpReceipt {
    pub(super) fn new(answers: &Arc<Answers>, number: u64) -> Self {
        Self { answers: Arc::clone(answers), number, answered: false }
    }
}

#[async_trait]
impl Receipt for AmqpReceipt {
    async fn settle(mut self: Box<Self>, answer: Answer) -> Result<(), QueueError> {
        self.answered = true;
        self.answers.settle(self.number, answer)?;
        if answer == Answer::Reject {
            tracing::warn!(
                queue = self.answers.queue,
                "a message was rejected; it is now in the dead letters"
            );
        }
        Ok(())
    }
}

impl Drop for AmqpReceipt {
    fn drop(&mut self) {
        if !self.answered {
            // Where the channel is gone, the message is available again already.
            let _ = self.answers.settle(self.number, Answer::Requeue);
        }
    }
}

async fn send_all(queue: String, lent: Lent, mut orders: UnboundedReceiver<Order>) {
    let mut settled = Settled::default();
    let mut batch = Vec::new();
    loop {
        orders.recv_many(&mut batch, BATCH).await;
        let closing = batch.iter().any(|order| matches!(order, Order::Close));
        if closing {
            // What others answer from now on is refused; what they answered before is still sent.
            orders.close();
            while let Ok(order) = orders.try_recv() {
                batch.push(order);
            }
        }
        if let Err(error) = send(&lent, &queue, &mut settled, batch.drain(..)).await {
            tracing::warn!(queue, cause = error.message, "answers were not sent; the messages come again");
            break;
        }
        if closing {
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
    settled: &mut Settled,
    batch: impl Iterator<Item = Order>,
) -> Result<(), QueueError> {
    let channel = &lent.channel;
    let mut frames = Frames { queue, last: None };
    let mut acknowledged = Vec::new();
    for order in batch {
        match order {
            Order::Close => {}
            Order::Settle(number, Answer::Ack) => acknowledged.push(number),
            Order::Settle(number, Answer::Requeue) => {
                settled.insert(number);
                let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
                frames.start(channel.basic_nack(number, options))?;
            }
            Order::Settle(number, Answer::Reject) => {
                settled.insert(number);
                frames.start(channel.basic_reject(number, BasicRejectOptions::default()))?;
            }
        }
    }
    let acks = settled.acknowledge(acknowledged);
    if let Some(number) = acks.up_to {
        frames.start(channel.basic_ack(number, BasicAckOptions { multiple: true }))?;
    }
    for number in acks.single {
        frames.start(channel.basic_ack(number, BasicAckOptions::default()))?;
    }
    match frames.last {
        Some(last) => lent.live.answer(queue, last).await,
        None => Ok(()),
    }
}

/// Frames handed to the connection, which writes them in this order: when the last is written, all are.
struct Frames<'a> {
    queue: &'a str,
    last: Option<BoxFuture<'a, lapin::Result<()>>>,
}

impl<'a> Frames<'a> {
    fn start(
        &mut self,
        frame: impl Future<Output = lapin::Result<()>> + Send + 'a,
    ) -> Result<(), QueueError> {
        let mut frame: BoxFuture<'a, _> = Box::pin(frame);
        match frame.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(written) => written.map_err(|refusal| failure::of(self.queue, &refusal)),
            Poll::Pending => {
                self.last = Some(frame);
                Ok(())
            }
        }
    }
}
