//! Waiting for a server that fails for a moment while a job is handed in.
//!
//! A job that is stored is served whatever becomes of this program, so a failure of the moment must not end the command:
//! the person would be told to do by hand what passes by itself. What does not pass within `PATIENCE` is said.

use std::fmt::Display;
use std::mem;
use std::time::Duration;

use anyhow::Context;
use prs_common::backoff::Backoff;
use tokio::time::{Instant, sleep};

use crate::caller::Caller;
use crate::failure::Failure;

/// How long one step is repeated.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after the first failure; they grow up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Takes a `step`, again and again while `may_pass` says that its failure may pass. `what` completes "cannot ...".
pub(crate) async fn repeated<T, E, F>(
    what: &str,
    caller: &dyn Caller,
    may_pass: impl Fn(&E) -> bool,
    mut step: impl FnMut() -> F,
) -> Result<T, Failure>
where
    E: std::error::Error + Send + Sync + 'static,
    F: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + PATIENCE;
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut is_told = false;
    loop {
        let error = match step().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let pause = backoff.pause();
        if !may_pass(&error) || Instant::now() + pause > deadline {
            return Err(error).with_context(|| format!("cannot {what}")).map_err(Failure::server);
        }
        // Once: the reason seldom changes.
        if !mem::replace(&mut is_told, true) {
            caller.note(&waiting(what, &error));
        }
        sleep(pause).await;
    }
}

fn waiting(what: &str, error: &dyn Display) -> String {
    format!("cannot {what} yet: {error}; trying again for up to {} s", PATIENCE.as_secs())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use prs_common::queue::{QueueError, QueueErrorKind};

    use super::*;
    use crate::caller::Unattended;
    use crate::failure::FailureKind;

    async fn after(failures: u32, kind: QueueErrorKind) -> (Result<u32, Failure>, u32) {
        let calls = Cell::new(0);
        let step = async || {
            calls.set(calls.get() + 1);
            let error =
                QueueError { kind, name: "prs.job.a".to_owned(), message: "INTERNAL_ERROR".to_owned() };
            if calls.get() > failures { Ok(7) } else { Err(error) }
        };
        let outcome = repeated("offer the job to workers", &Unattended, QueueError::is_retryable, step).await;
        (outcome, calls.get())
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_repeated_for_half_a_minute() {
        let began = Instant::now();
        let (outcome, calls) = after(5, QueueErrorKind::Unavailable).await;
        assert_eq!((outcome.unwrap(), calls), (7, 6));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());

        let began = Instant::now();
        let (outcome, calls) = after(u32::MAX, QueueErrorKind::NotServed).await;
        let failure = outcome.unwrap_err();
        assert_eq!(
            (failure.kind, &*failure.to_string()),
            (FailureKind::CannotConnect, "cannot offer the job to workers: queue prs.job.a: INTERNAL_ERROR")
        );
        // Each pause is cut by up to half.
        assert!((8..=20).contains(&calls), "{calls}");
        assert!((20..=30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_is_said_at_once() {
        let began = Instant::now();
        let (outcome, calls) = after(1, QueueErrorKind::Refused).await;
        assert!(outcome.is_err() && calls == 1 && began.elapsed().is_zero());
    }
}
