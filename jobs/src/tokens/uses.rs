//! Which tokens were shown today, until that is written: once a day and token, and not while a request waits.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prs_common::timestamp::format_us;

/// Tokens that are remembered at most; of more the use is noted on another day.
const MOST: usize = 10_000;

/// Days by the ids of tokens.
#[derive(Debug, Default)]
pub(super) struct Uses(Mutex<HashMap<String, Use>>);

#[derive(Debug)]
struct Use {
    day: String,
    is_written: bool,
}

impl Uses {
    /// Notes that the token `id` was shown at `now_us`, of which `known` is written.
    pub(super) fn note(&self, id: &str, known: Option<&str>, now_us: u64) {
        let text = format_us(now_us);
        let day = &text[..10];
        if known.is_some_and(|known| known >= day) {
            return;
        }
        let mut uses = self.uses();
        if uses.get(id).is_some_and(|noted| noted.day == day) {
            return;
        }
        if uses.len() >= MOST {
            uses.retain(|_, noted| !noted.is_written || noted.day == day);
        }
        if uses.len() < MOST {
            uses.insert(id.to_owned(), Use { day: day.to_owned(), is_written: false });
        }
    }

    /// What is to be written; it counts as written.
    pub(super) fn take(&self) -> Vec<(String, String)> {
        let mut uses = self.uses();
        let waiting = uses.iter_mut().filter(|(_, noted)| !noted.is_written);
        waiting
            .map(|(id, noted)| {
                noted.is_written = true;
                (id.clone(), noted.day.clone())
            })
            .collect()
    }

    /// It was not written.
    pub(super) fn put_back(&self, id: String, day: String) {
        self.uses().insert(id, Use { day, is_written: false });
    }

    /// Nothing is known of its use today.
    pub(super) fn forget(&self, id: &str) {
        self.uses().remove(id);
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<String, Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_written_once_a_day() {
        const DAY: u64 = 86_400_000_000;
        let uses = Uses::default();
        uses.note("a", None, 0);
        uses.note("a", None, 1);
        uses.note("b", Some("1970-01-01"), 2);
        assert_eq!(uses.take(), [("a".to_owned(), "1970-01-01".to_owned())]);
        uses.note("a", None, 3);
        assert!(uses.take().is_empty());
        uses.put_back("a".to_owned(), "1970-01-01".to_owned());
        assert_eq!(uses.take().len(), 1);
        uses.note("a", Some("1970-01-01"), DAY);
        assert_eq!(uses.take(), [("a".to_owned(), "1970-01-02".to_owned())]);
        uses.forget("a");
        uses.note("a", None, DAY);
        assert_eq!(uses.take().len(), 1);
    }
}
