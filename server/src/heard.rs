//! What calls on jobs have to say beside their answers: it goes to the log, each sentence once. A list that is asked for each second says
//! the same of a damaged job each time.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use prs_jobs::Caller;
use tracing::{error, warn};

/// Sentences that are remembered.
const MOST: usize = 1000;

/// The log of the server, for calls.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<HashSet<String>>);

impl Heard {
    /// Whether it is said for the first time.
    fn is_new(&self, text: &str) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= MOST {
            said.clear();
        }
        said.insert(text.to_owned())
    }
}

impl Caller for Heard {
    fn note(&self, text: &dyn Display) {
        let text = text.to_string();
        if self.is_new(&text) {
            warn!("{text}");
        }
    }

    fn error(&self, text: &dyn Display) {
        let text = text.to_string();
        if self.is_new(&text) {
            error!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_said_once() {
        let heard = Heard::default();
        assert!(heard.is_new("a") && heard.is_new("b") && !heard.is_new("a"));
    }
}
