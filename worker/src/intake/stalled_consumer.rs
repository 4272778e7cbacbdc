//! Consumers that the broker has forgotten.
//!
//! A broker can lose a consumer without a word, when a queue is deleted and made anew, or made by several at the same
//! time. Messages that wait twice in a row, although nothing keeps the broker from delivering them, show it: then the
//! queue must be consumed again.

use std::time::{Duration, Instant};

use prs_common::queue::Queue;

/// Between two looks at the queue while nothing comes.
const DEPTH_INTERVAL: Duration = Duration::from_secs(1);

/// How long nothing has come to a consumer that has room for more.
#[derive(Debug, Default)]
pub(crate) struct StalledConsumerCheck {
    since: Option<Instant>,
    /// Whether messages waited at the last look.
    waited: bool,
}

impl StalledConsumerCheck {
    /// Whether the broker has forgotten the consumer; looks at the queue now and then. To be asked while nothing is in hand.
    pub(crate) async fn is_stalled(&mut self, queue: &dyn Queue, name: &str) -> bool {
        if self.since.get_or_insert_with(Instant::now).elapsed() < DEPTH_INTERVAL {
            return false;
        }
        let waiting = queue.depth(name).await.map_or(0, |depth| depth.ready);
        let stalled = self.look(waiting);
        if stalled {
            tracing::warn!(queue = name, waiting, "messages wait and none comes: consuming the queue anew");
        }
        stalled
    }

    /// A look at the queue found so many messages.
    fn look(&mut self, waiting: u64) -> bool {
        self.since = None;
        std::mem::replace(&mut self.waited, waiting > 0) && self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_must_wait_twice_in_a_row() {
        let mut check = StalledConsumerCheck::default();
        let looks = [3, 0, 2, 1, 1].map(|waiting| check.look(waiting));
        assert_eq!(looks, [false, false, false, true, true]);
    }
}
