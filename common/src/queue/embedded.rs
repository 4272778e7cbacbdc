//! Queues in the memory of one process, for embedded jobs and tests.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;

use super::{
    Acker, Acknowledgement, Deliveries, Delivery, Depth, Queue, QueueError, QueueErrorKind, QueueOptions,
};

/// A broker in memory. Clones share their queues.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedQueue {
    queues: Arc<Mutex<HashMap<String, Arc<Named>>>>,
}

#[derive(Debug, Default)]
struct Named {
    name: String,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Messages, and whether they were delivered before.
    ready: VecDeque<(Bytes, bool)>,
    consumers: u64,
    deleted: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EmbeddedQueue {
    fn named(&self, name: &str) -> Result<Arc<Named>, QueueError> {
        let found = lock(&self.queues).get(name).cloned();
        found.ok_or_else(|| QueueError::new(QueueErrorKind::NotFound, name, "no such queue"))
    }
}

impl fmt::Display for EmbeddedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("queues in memory")
    }
}

#[async_trait]
impl Queue for EmbeddedQueue {
    async fn declare(&self, name: &str, _options: QueueOptions) -> Result<(), QueueError> {
        let new = || Arc::new(Named { name: name.to_owned(), ..Named::default() });
        lock(&self.queues).entry(name.to_owned()).or_insert_with(new);
        Ok(())
    }

    async fn publish(&self, name: &str, bodies: Vec<Bytes>) -> Result<(), QueueError> {
        let queue = self.named(name)?;
        lock(&queue.state).ready.extend(bodies.into_iter().map(|body| (body, false)));
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

/// Messages with a consumer, not acknowledged yet, by the tag of their delivery.
#[derive(Debug, Default)]
struct Held {
    messages: BTreeMap<u64, Bytes>,
    next: u64,
    prefetch: usize,
}

impl Acker for Consumer {
    fn acknowledge(&self, tag: u64, how: Acknowledgement) -> Result<(), QueueError> {
        let queue = &self.queue;
        let Some(body) = lock(&self.held).messages.remove(&tag) else {
            let message = "the consumer is gone; the message is delivered again";
            return Err(QueueError::new(QueueErrorKind::Refused, &queue.name, message));
        };
        match how {
            Acknowledgement::Ack => {}
            Acknowledgement::Requeue => lock(&queue.state).ready.push_front((body, true)),
            Acknowledgement::Reject => {
                tracing::warn!(queue = queue.name, "a message was rejected; it is not delivered again");
            }
        }
        queue.changed.notify_waiters();
        Ok(())
    }
}

struct EmbeddedDeliveries {
    consumer: Arc<Consumer>,
}

impl Drop for EmbeddedDeliveries {
    fn drop(&mut self) {
        // As when a channel closes: what was not acknowledged is anyone's again, in its old order.
        let held = std::mem::take(&mut lock(&self.consumer.held).messages);
        let mut state = lock(&self.consumer.queue.state);
        state.consumers -= 1;
        for body in held.into_values().rev() {
            state.ready.push_front((body, true));
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
                    return taken.map(|(body, again)| self.deliver(&mut held, body, again)).collect();
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
    fn deliver(&self, held: &mut Held, body: Bytes, redelivered: bool) -> Delivery {
        let tag = held.next;
        held.next += 1;
        held.messages.insert(tag, body.clone());
        Delivery::new(body, redelivered, tag, Arc::clone(&self.consumer) as _)
    }
}
