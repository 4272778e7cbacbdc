//! Which refusals of the broker may pass: those of a log-in, or of a kind of call, that it accepted from the same user
//! before.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::super::{QueueError, QueueErrorKind};
use crate::refusals::Refusals;

/// The call that a log-in counts as.
const LOG_IN: &str = "log in";

/// What a broker accepted, and what it refuses.
#[derive(Debug)]
pub(super) struct Trust {
    /// The broker, for people.
    broker: String,
    was_connected: AtomicBool,
    accepted: Mutex<HashSet<&'static str>>,
    refusals: Refusals,
}

impl Trust {
    /// Nothing was accepted yet.
    pub(super) fn new(broker: String, patience: Duration) -> Self {
        let (was_connected, accepted) = (AtomicBool::new(false), Mutex::default());
        Self { broker, was_connected, accepted, refusals: Refusals::new(patience) }
    }

    /// Notes a log-in.
    pub(super) fn is_connected(&self) {
        self.was_connected.store(true, Ordering::Relaxed);
        self.refusals.has_accepted(&self.broker, || LOG_IN.to_owned());
    }

    /// What it means that a log-in failed.
    pub(super) fn of_log_in(&self, error: QueueError) -> QueueError {
        if error.kind != QueueErrorKind::Refused || !self.was_connected.load(Ordering::Relaxed) {
            return error;
        }
        self.waited_for(LOG_IN.to_owned(), true, error)
    }

    /// What came of `what` about the queue `name`.
    pub(super) fn judged<T>(
        &self,
        what: &'static str,
        name: &str,
        outcome: Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(done) => {
                accepted.insert(what);
                drop(accepted);
                self.refusals.has_accepted(&self.broker, || format!("{what} {name}"));
                Ok(done)
            }
            Err(error) if error.kind == QueueErrorKind::Forbidden && accepted.contains(what) => {
                drop(accepted);
                Err(self.waited_for(format!("{what} {name}"), false, error))
            }
            outcome => outcome,
        }
    }

    fn waited_for(&self, call: String, everything: bool, error: QueueError) -> QueueError {
        let (may_pass, message) = self.refusals.judged(&self.broker, call, everything, &error.message);
        let kind = if may_pass { QueueErrorKind::Unavailable } else { error.kind };
        QueueError { kind, message, ..error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_accepted_before_may_be_again() {
        use QueueErrorKind::{Forbidden, Refused, Unavailable};
        let error = |kind| QueueError::new(kind, "q", "ACCESS_REFUSED - write access to queue 'q' refused");
        let trust = Trust::new("broker".to_owned(), Duration::from_mins(1));
        let judged = |what, kind| trust.judged::<()>(what, "q", Err(error(kind))).unwrap_err().kind;
        assert_eq!(trust.of_log_in(error(Refused)).kind, Refused);
        assert_eq!(judged("declare", Forbidden), Forbidden);
        trust.is_connected();
        trust.judged("declare", "other", Ok(())).unwrap();
        assert_eq!(trust.of_log_in(error(Refused)).kind, Unavailable);
        assert_eq!(judged("declare", Forbidden), Unavailable);
        assert_eq!(judged("publish", Forbidden), Forbidden, "that was never accepted");
        assert_eq!(judged("declare", Refused), Refused);
        let zero = Trust::new("broker".to_owned(), Duration::ZERO);
        zero.is_connected();
        let lasts = zero.of_log_in(error(Refused));
        assert_eq!(lasts.kind, Refused);
        assert!(lasts.message.contains("has been refused for"), "{lasts}");
    }
}
