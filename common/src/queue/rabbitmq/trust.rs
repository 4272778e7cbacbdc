//! Which refusals of the broker may pass: those of a log-in, or of a kind of call, that it accepted from the same user
//! before.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::super::{QueueError, QueueErrorKind};
use super::failure;
use crate::refusals::{Refusals, Refused};

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
        self.tell_of_success(|| LOG_IN.to_owned());
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
                self.tell_of_success(|| format!("{what} {name}"));
                Ok(done)
            }
            Err(error) if failure::lacks_right(&error) && accepted.contains(what) => {
                drop(accepted);
                Err(self.waited_for(format!("{what} {name}"), false, error))
            }
            outcome => outcome,
        }
    }

    fn tell_of_success(&self, call: impl FnOnce() -> String) {
        if let Some(lasted) = self.refusals.accepted(call, Instant::now()) {
            tracing::info!(
                broker = self.broker,
                after_s = lasted.as_secs(),
                "the broker accepts again what it refused"
            );
        }
    }

    fn waited_for(&self, call: String, everything: bool, error: QueueError) -> QueueError {
        let refused = self.refusals.refused(call, everything, Instant::now());
        let message = refused.explain(&error.message);
        let Refused::MayPass { is_new, left } = refused else { return QueueError { message, ..error } };
        if is_new {
            tracing::warn!(
                broker = self.broker,
                refusal = error.message,
                wait_s = left.as_secs(),
                "the broker refuses what it accepted before; it is asked again for so long"
            );
        }
        QueueError { kind: QueueErrorKind::Unavailable, message, ..error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> QueueError {
        failure::error(QueueErrorKind::Refused, "q", message)
    }

    #[test]
    fn what_was_accepted_before_may_be_again() {
        const RIGHT: &str = "ACCESS_REFUSED - write access to queue 'q' refused";
        let trust = Trust::new("broker".to_owned(), Duration::from_mins(1));
        let judged = |what, error| trust.judged::<()>(what, "q", Err(error)).unwrap_err().kind;
        assert_eq!(trust.of_log_in(refused("no")).kind, QueueErrorKind::Refused);
        assert_eq!(judged("declare", refused(RIGHT)), QueueErrorKind::Refused);
        trust.is_connected();
        trust.judged("declare", "other", Ok(())).unwrap();
        assert_eq!(trust.of_log_in(refused("no")).kind, QueueErrorKind::Unavailable);
        assert_eq!(judged("declare", refused(RIGHT)), QueueErrorKind::Unavailable);
        assert_eq!(judged("publish", refused(RIGHT)), QueueErrorKind::Refused, "that was never accepted");
        let other = refused("PRECONDITION_FAILED - inequivalent arg");
        assert_eq!(judged("declare", other), QueueErrorKind::Refused);
        let zero = Trust::new("broker".to_owned(), Duration::ZERO);
        zero.is_connected();
        let lasts = zero.of_log_in(refused("no"));
        assert_eq!(lasts.kind, QueueErrorKind::Refused);
        assert!(lasts.message.contains("has been refused for"), "{lasts}");
    }
}
