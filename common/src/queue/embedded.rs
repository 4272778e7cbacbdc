//! Queues in the memory of one process, for embedded jobs and tests.

use std::collections::{HashMap, VecDeque};
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
    dead: u64,
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
        let consumer = Arc::new(Consumer { queue, held: Mutex::new(0), prefetch: prefetch.max(1) });
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
    held: Mutex<usize>,
    prefetch: usize,
}

impl Consumer {
    fn give_back(&self, body: Option<(Bytes, u32)>) {
        *lock(&self.held) -= 1;
        if let Some((body, count)) = body {
            lock(&self.queue.state).ready.push_front((body, count + 1));
        }
        self.queue.changed.notify_waiters();
    }
}

struct EmbeddedDeliveries {
    consumer: Arc<Consumer>,
}

impl Drop for EmbeddedDeliveries {
    fn drop(&mut self) {
        lock(&self.consumer.queue.state).consumers -= 1;
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
                let count = state.ready.len().min(max.max(1)).min(self.consumer.prefetch - *held);
                if count > 0 {
                    *held += count;
                    let taken = state.ready.drain(..count);
                    return taken.map(|(body, count)| self.deliver(body, count)).collect();
                }
            }
            changed.await;
        }
    }
}

impl EmbeddedDeliveries {
    fn deliver(&self, body: Bytes, count: u32) -> Delivery {
        let receipt =
            EmbeddedReceipt { consumer: Arc::clone(&self.consumer), message: Some((body.clone(), count)) };
        Delivery::new(body, count, Box::new(receipt))
    }
}

#[derive(Debug)]
struct EmbeddedReceipt {
    consumer: Arc<Consumer>,
    /// Present until the delivery is settled.
    message: Option<(Bytes, u32)>,
}

#[async_trait]
impl Receipt for EmbeddedReceipt {
    async fn settle(mut self: Box<Self>, answer: Answer) -> Result<(), QueueError> {
        let message = self.message.take();
        if answer == Answer::Reject {
            lock(&self.consumer.queue.state).dead += 1;
            tracing::warn!(
                queue = self.consumer.queue.name,
                "a message was rejected; it is not delivered again"
            );
        }
        self.consumer.give_back(message.filter(|_| answer == Answer::Requeue));
        Ok(())
    }
}

impl Drop for EmbeddedReceipt {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            self.consumer.give_back(Some(message));
        }
    }
}
