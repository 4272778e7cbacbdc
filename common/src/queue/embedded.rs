//! Queues in the memory of one process, for embedded jobs and tests.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;

use super::{Answer, Deliveries, Delivery, Depth, Queue, QueueError, QueueErrorKind, QueueOptions, Receipt};

/// A broker in memory. Clones share their queues.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedQueue {
    queues: Arc<Mutex<HashMap<String, Arc<Named>>>>,
}

#[derive(Debug, Default)]
struct Named {
    name: String,
    options: QueueOptions,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<(Bytes, u32)>,
    consumers: u64,
    deleted: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EmbeddedQueue {
    fn named(&self, name: &str) -> Result<Arc<Named>, QueueError> {
        lock(&self.queues).get(name).cloned().ok_or_else(|| QueueError {
            kind: QueueErrorKind::NotFound,
            name: name.to_owned(),
            message: "no such queue".to_owned(),
        })
    }
}

impl fmt::Display for EmbeddedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("queues in memory")
    }
}

#[async_trait]
impl Queue for EmbeddedQueue {
    async fn declare(&self, name: &str, options: QueueOptions) -> Result<(), QueueError> {
        let mut queues = lock(&self.queues);
        match queues.get(name) {
            Some(queue) if queue.options != options => Err(QueueError {
                kind: QueueErrorKind::Refused,
                name: name.to_owned(),
                message: "it exists with other options".to_owned(),
            }),
            Some(_) => Ok(()),
            None => {
                let queue = Named { name: name.to_owned(), options, ..Named::default() };
                queues.insert(name.to_owned(), Arc::new(queue));
                Ok(())
            }
        }
    }

    async fn publish(&self, name: &str, bodies: Vec<Bytes>) -> Result<(), QueueError> {
        let queue = self.named(name)?;
        lock(&queue.state).ready.extend(bodies.into_iter().map(|body| (body, 0)));
        queue.changed.notify_waiters();
        Ok(())
    }

    async fn consume(&self, name: &str, prefetch: usize) -> Result<Box<dyn Deliveries>, QueueError> {
        let queue = self.named(name)?;
        lock(&queue.state).consumers += 1;
        let held = Mutex::new(Held { prefetch: prefetch.max(1), ..Held::default() });
        let consumer = Arc::new(Consumer { queue, held });
        Ok(Box::new(EmbeddedDeliveries { consumer }))
    }

    async fn depth(&self, name: &str) -> Result<Depth, QueueError> {
        let queue = self.named(name)?;
        let state = lock(&queue.state);
        Ok(Depth { ready: state.ready.len() as u64, consumers: state.consumers })
    }

    async fn delete(&self, name: &str) -> Result<(), QueueError> {
        if let Some(queue) = lock(&self.queues).remove(name) {
            let mut state = lock(&queue.state);
            state.deleted = true;
            state.ready.clear();
            drop(state);
            queue.changed.notify_waiters();
        }
        Ok(())
    }
}

/// What the deliveries of one consumer share.
#[derive(Debug)]
struct Consumer {
    queue: Arc<Named>,
    held: Mutex<Held>,
}

/// Messages with a consumer, not settled yet, by the number of their delivery.
#[derive(Debug, Default)]
struct Held {
    messages: BTreeMap<u64, (Bytes, u32)>,
    next: u64,
    prefetch: usize,
}

impl Consumer {
    /// Ends the delivery `number`; false when its message is not with this consumer any more.
    fn release(&self, number: u64, again: bool) -> bool {
        let Some((body, count)) = lock(&self.held).messages.remove(&number) else { return false };
        if again {
            lock(&self.queue.state).ready.push_front((body, count + 1));
        }
        self.queue.changed.notify_waiters();
        true
    }
}

struct EmbeddedDeliveries {
    consumer: Arc<Consumer>,
}

impl Drop for EmbeddedDeliveries {
    fn drop(&mut self) {
        // As when a channel closes: what was not settled is anyone's again, in its old order.
        let held = std::mem::take(&mut lock(&self.consumer.held).messages);
        let mut state = lock(&self.consumer.queue.state);
        state.consumers -= 1;
        for (body, count) in held.into_values().rev() {
            state.ready.push_front((body, count + 1));
        }
        drop(state);
        self.consumer.queue.changed.notify_waiters();
    }
}

#[async_trait]
impl Deliveries for EmbeddedDeliveries {
    async fn next(&mut self, max: usize) -> Vec<Delivery> {
        loop {
            let changed = self.consumer.queue.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = lock(&self.consumer.queue.state);
                if state.deleted {
                    return Vec::new();
                }
                let mut held = lock(&self.consumer.held);
                let room = held.prefetch.saturating_sub(held.messages.len());
                let count = state.ready.len().min(max.max(1)).min(room);
                if count > 0 {
                    let taken = state.ready.drain(..count);
                    return taken.map(|(body, count)| self.deliver(&mut held, body, count)).collect();
                }
            }
            changed.await;
        }
    }

    async fn set_prefetch(&mut self, prefetch: usize) -> Result<(), QueueError> {
        lock(&self.consumer.held).prefetch = prefetch.max(1);
        self.consumer.queue.changed.notify_waiters();
        Ok(())
    }
}

impl EmbeddedDeliveries {
    fn deliver(&self, held: &mut Held, body: Bytes, count: u32) -> Delivery {
        let number = held.next;
        held.next += 1;
        held.messages.insert(number, (body.clone(), count));
        let receipt = EmbeddedReceipt { consumer: Arc::clone(&self.consumer), number };
        Delivery::new(body, count, Box::new(receipt))
    }
}

#[derive(Debug)]
struct EmbeddedReceipt {
    consumer: Arc<Consumer>,
    number: u64,
}

#[async_trait]
impl Receipt for EmbeddedReceipt {
    async fn settle(self: Box<Self>, answer: Answer) -> Result<(), QueueError> {
        let queue = &self.consumer.queue;
        if !self.consumer.release(self.number, answer == Answer::Requeue) {
            return Err(QueueError {
                kind: QueueErrorKind::Refused,
                name: queue.name.clone(),
                message: "the consumer is gone; the message is delivered again".to_owned(),
            });
        }
        if answer == Answer::Reject {
            tracing::warn!(queue = queue.name, "a message was rejected; it is not delivered again");
        }
        Ok(())
    }
}

impl Drop for EmbeddedReceipt {
    fn drop(&mut self) {
        self.consumer.release(self.number, true);
    }
}
