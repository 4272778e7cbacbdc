//! What is given to which process: mini-batches as fast as they are worked off, suspects alone in a process.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Dispatcher;
use crate::commit::outcome::Ready;
use crate::dispatcher::batch_size;
use crate::dispatcher::placing::Place;
use crate::dispatcher::slot::{Running, running, running_mut};
use crate::node_settings::Prefetch;

/// Uncommitted rows beyond which nothing new is started, bytes.
const LARGEST_BACKLOG: usize = 48 << 20;

/// What mini-batches took lately, over all slots.
pub(super) struct Recent {
    since: Instant,
    pub(super) took: Duration,
    pub(super) count: u32,
}

impl Recent {
    pub(super) fn begin() -> Self {
        Self { since: Instant::now(), took: Duration::ZERO, count: 0 }
    }
}

impl Dispatcher<'_> {
    /// A suspect may run, or need not any more.
    pub(super) fn clear(&mut self, cleared: Option<Ready>) {
        self.clearing -= 1;
        self.kept_for = None;
        match cleared {
            Some(ready) if self.ending.is_some() => self.give_back(ready),
            Some(ready) => self.cleared.push_back(ready),
            None => {}
        }
    }

    /// Suspects run alone in their process, each noted before it starts, one after the other, while there are processes
    /// for them. One that a node was lost with before runs while no other suspect is noted: if it kills this node, too,
    /// nobody else is blamed.
    fn feed_suspects(&mut self) {
        let mut waiting = VecDeque::new();
        while let Some(next) = self.cleared.pop_front() {
            let others = running(&self.slots).filter_map(Running::suspect).count();
            if next.node_losses > 0 && others > 0 {
                self.cleared.push_front(next);
                break;
            }
            match self.place(&next, Running::is_free) {
                Place::Give(position) => self.give(position, next),
                Place::Replace(position) => {
                    self.replace_for(position, next.index);
                    waiting.push_back(next);
                }
                Place::Renew(position) => {
                    self.renew_for(position, next.index);
                    waiting.push_back(next);
                }
                Place::Wait => waiting.push_back(next),
            }
        }
        waiting.append(&mut self.cleared);
        self.cleared = waiting;
        self.begin_suspect(Running::is_free);
    }

    /// Adapts how many mini-batches the intake takes to what they cost, and gives back what others could run first.
    pub(super) fn size_prefetch(&mut self) {
        let Prefetch::UpTo(most) = self.launch.settings.prefetch else { return };
        let lanes = self.slots.len() * self.concurrency();
        let Recent { since, took, count } = self.recent;
        if count == 0 {
            // Nothing tells the cost yet; so many can be under way at once.
            if lanes > self.slots.len() {
                self.with.prefetch.fetch_max((lanes + 1).min(most), Ordering::Relaxed);
            }
            return;
        }
        let looked_at = since.elapsed();
        if looked_at >= batch_size::LOOKED_AT {
            self.recent = Recent::begin();
        }
        let present = self.with.prefetch.load(Ordering::Relaxed);
        let wanted = batch_size::prefetch(took / count, lanes, most);
        if batch_size::should_change(present, wanted, looked_at) {
            self.with.prefetch.store(wanted, Ordering::Relaxed);
            while self.pending.len() > wanted {
                if let Some(ready) = self.pending.pop_back() {
                    self.give_back(ready);
                }
            }
        }
    }

    /// Gives mini-batches to processes that have too few.
    pub(super) fn feed(&mut self) {
        if self.ending.is_some() || self.with.backlog.bytes() > LARGEST_BACKLOG {
            return;
        }
        self.replace_used_up();
        if running(&self.slots).any(Running::is_concurrent) {
            self.feed_concurrent(self.room());
        } else {
            self.feed_one_by_one();
        }
        let waiting = self.pending.len()
            + self.suspects.len()
            + self.cleared.len()
            + self.clearing
            + self.apart.count();
        let idle = waiting == 0 && running(&self.slots).all(|running| running.in_hand.is_empty());
        self.with.idle_tx.send_if_modified(|before| std::mem::replace(before, idle) != idle);
    }

    /// The same for processes that run one mini-batch after the other.
    fn feed_one_by_one(&mut self) {
        self.feed_suspects();
        let sharing = running(&self.slots).count();
        let mut room = self.room();
        // Suspects need a process that has nothing: while some wait, none gets more than it has, and one is kept free
        // for the one whose start is being noted. Otherwise a busy node would never come to them.
        let suspects_wait = !self.suspects.is_empty() || !self.cleared.is_empty() || self.clearing > 0;
        let kept_for = self.kept_for;
        // Those with nothing come first.
        for only_empty in [true, false] {
            if suspects_wait && !only_empty {
                break;
            }
            for running in running_mut(&mut self.slots) {
                if self.pending.is_empty() {
                    break;
                }
                let has_enough = running.suspect().is_some() || (only_empty && !running.in_hand.is_empty());
                if !running.takes_work() || has_enough {
                    continue;
                }
                if kept_for == Some(running.number) {
                    continue;
                }
                let (at_hand, waiting) = (running.in_hand.len(), self.pending.len());
                let count =
                    batch_size::more(running.cost, at_hand, waiting, sharing, room).min(running.spare());
                if count > 0 {
                    room = room.saturating_sub(running.cost.map_or(0, |cost| cost.rows * count));
                    running.give(self.pending.drain(..count));
                }
            }
        }
    }

    /// Bytes of rows that there is room for beside those that are not committed yet and those that are expected of what
    /// the processes have in hand.
    fn room(&self) -> usize {
        let expected: usize =
            running(&self.slots).map(|one| one.cost.map_or(0, |cost| cost.rows) * one.in_hand.len()).sum();
        LARGEST_BACKLOG.saturating_sub(self.with.backlog.bytes() + expected)
    }
}
