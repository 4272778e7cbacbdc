//! The lines of code around the places that errors came from. Code does not change under its checksum, so each place is read once;
//! code that cannot be read is asked for again after a while, and not with each look.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prs_jobs::code;
use prs_jobs::homes::{JobHome, Seen};
use prs_portal::view::Facts;

/// Places that are kept; when there are more all are read again.
const MOST: usize = 2_000;
/// Lines at each side of a place.
const BESIDE: u64 = 1;
/// Between two attempts to read code that could not be read.
const AGAIN: Duration = Duration::from_mins(1);

/// Lines with their numbers.
type Lines = Vec<(u64, String)>;

/// What was read so far.
#[derive(Debug, Default)]
struct Kept {
    /// By the name of the code in storage, and the place.
    lines: HashMap<(String, String), Lines>,
    /// Code that could not be read, with the moment from which it is tried again.
    unreadable: HashMap<String, Instant>,
}

/// What was read so far. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct CodeLines(Arc<Mutex<Kept>>);

impl CodeLines {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the lines into the errors of a job. Code that cannot be read leaves them out: its page says why.
    pub(crate) async fn put(&self, home: &dyn JobHome, seen: &Seen, facts: &mut Facts) {
        let code = seen.record.as_given().code;
        if code.is_empty() {
            return;
        }
        let known = |place: &str| self.kept().lines.get(&(code.clone(), place.to_owned())).cloned();
        let mut missing: Vec<String> = Vec::new();
        for error in facts.errors.iter_mut().filter(|error| !error.place.is_empty()) {
            match known(&error.place) {
                Some(lines) => error.around = lines,
                None if missing.contains(&error.place) => {}
                None => missing.push(error.place.clone()),
            }
        }
        let waits = self.kept().unreadable.get(&code).is_some_and(|again| Instant::now() < *again);
        if missing.is_empty() || waits {
            return;
        }
        let found = code::around(home, &seen.record, missing.clone(), BESIDE).await;
        let mut kept = self.kept();
        if kept.lines.len() + missing.len() > MOST {
            *kept = Kept::default();
        }
        let Ok(mut found) = found else {
            let now = Instant::now();
            kept.unreadable.retain(|_, again| now < *again);
            kept.unreadable.insert(code, now + AGAIN);
            return;
        };
        for place in missing {
            let lines = found.remove(&place).unwrap_or_default();
            for error in facts.errors.iter_mut().filter(|error| error.place == place) {
                error.around.clone_from(&lines);
            }
            kept.lines.insert((code.clone(), place), lines);
        }
    }
}
