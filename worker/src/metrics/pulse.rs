//! Whether the worker's loop turns: when it last looked for a job, or told the ledger of itself. An attempt is enough, so
//! that a server which is away makes no worker look dead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest time without an attempt of a worker that is well: it looks every 2 s, and each attempt ends within some seconds.
pub(super) const ALIVE_WITHIN: Duration = Duration::from_mins(1);

/// The last attempt.
#[derive(Debug)]
pub(super) struct Pulse {
    began: Instant,
    /// Milliseconds from there to the last attempt.
    last: AtomicU64,
}

impl Default for Pulse {
    /// The beginning counts as one: connecting comes before the first look.
    fn default() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Pulse {
    pub(super) fn beat(&self) {
        self.last.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// How long ago the last attempt was.
    pub(super) fn silent(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }
}
