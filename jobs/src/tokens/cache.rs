//! What was read of tokens a moment ago, so that not every request asks the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::entry::StoredToken;

/// How long what was read is believed. A revoked token is refused within 10 s; the rest of these is for the clocks' and the
/// store's own time.
const BELIEVED: Duration = Duration::from_secs(8);
/// Tokens that are remembered at most.
const MOST: usize = 1024;

/// Entries by the ids of their tokens, with the time before they were read.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    entries: HashMap<String, (Instant, Arc<StoredToken>)>,
    /// Counts what was forgotten: what was read before that may be what it was before a change.
    forgotten: u64,
}

/// When a read began.
#[derive(Clone, Copy)]
pub(super) struct AskedAt {
    at: Instant,
    forgotten: u64,
}

impl Cache {
    /// What is believed of the token `id`.
    pub(super) fn get(&self, id: &str) -> Option<Arc<StoredToken>> {
        let state = self.state();
        state
            .entries
            .get(id)
            .filter(|(read, _)| read.elapsed() < BELIEVED)
            .map(|(_, entry)| Arc::clone(entry))
    }

    /// Whether the token `id` was read before, however long ago.
    pub(super) fn has(&self, id: &str) -> bool {
        self.state().entries.contains_key(id)
    }

    /// A read begins.
    pub(super) fn ask(&self) -> AskedAt {
        AskedAt { at: Instant::now(), forgotten: self.state().forgotten }
    }

    /// Remembers what that read gave.
    pub(super) fn keep(&self, id: &str, entry: StoredToken, asked: AskedAt) -> Arc<StoredToken> {
        let entry = Arc::new(entry);
        let mut state = self.state();
        if state.forgotten == asked.forgotten {
            if state.entries.len() >= MOST {
                state.entries.retain(|_, (read, _)| read.elapsed() < BELIEVED);
            }
            if state.entries.len() < MOST {
                state.entries.insert(id.to_owned(), (asked.at, Arc::clone(&entry)));
            }
        }
        entry
    }

    /// Believes nothing of the token `id` any more.
    pub(super) fn forget(&self, id: &str) {
        let mut state = self.state();
        state.entries.remove(id);
        state.forgotten += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
