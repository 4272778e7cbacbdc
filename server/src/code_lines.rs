//! The lines of code around the places that errors came from. Code does not change under its checksum, so each place is read once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use prs_jobs::code;
use prs_jobs::homes::{JobHome, Seen};
use prs_portal::view::Facts;

/// Places that are kept; when there are more all are read again.
const MOST: usize = 2_000;
/// Lines at each side of a place.
const BESIDE: u64 = 1;

/// Lines with their numbers.
type Lines = Vec<(u64, String)>;

/// What was read so far, by the name of the code in storage and the place. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct CodeLines(Arc<Mutex<HashMap<(String, String), Lines>>>);

impl CodeLines {
    /// Puts the lines into the errors of a job. Code that cannot be read leaves them out: its page says why.
    pub(crate) async fn put(&self, home: &dyn JobHome, seen: &Seen, facts: &mut Facts) {
        let code = seen.record.as_given().code;
        if code.is_empty() {
            return;
        }
        let known = |place: &str| {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get(&(code.clone(), place.to_owned())).cloned()
        };
        let mut missing: Vec<String> = Vec::new();
        for error in facts.errors.iter_mut().filter(|error| !error.place.is_empty()) {
            match known(&error.place) {
                Some(lines) => error.around = lines,
                None if missing.contains(&error.place) => {}
                None => missing.push(error.place.clone()),
            }
        }
        if missing.is_empty() {
            return;
        }
        let Ok(mut found) = code::around(home, &seen.record, missing.clone(), BESIDE).await else { return };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() + missing.len() > MOST {
            kept.clear();
        }
        for place in missing {
            let lines = found.remove(&place).unwrap_or_default();
            for error in facts.errors.iter_mut().filter(|error| error.place == place) {
                error.around.clone_from(&lines);
            }
            kept.insert((code.clone(), place), lines);
        }
    }
}
