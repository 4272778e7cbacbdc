//! Refusals that pass: a server refuses what it accepted from the same credentials before.
//!
//! A password is changed, a token has run out, a clock is wrong after a sleep, a policy is edited: the same call is often
//! accepted again some seconds or minutes later, and a job must not end over it. So such a refusal counts as a server
//! that is away, until it has lasted for [`patience`] without a success. What was never accepted is a refusal at
//! once. Which refusals are of this kind is the business of the connection that meets them.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a refusal may last, unless [`VARIABLE`] says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
/// The same in whole seconds, for those who want to hear earlier, or later, that it does not pass.
const VARIABLE: &str = "PRS_REFUSAL_PATIENCE";
/// So many calls that are refused are remembered before old ones are looked for.
const MANY: usize = 1_000;

/// How long a refusal is waited for, as the environment says. Fails with what is wrong.
pub(crate) fn patience() -> Result<Duration, String> {
    parse(std::env::var(VARIABLE).ok().as_deref())
}

fn parse(said: Option<&str>) -> Result<Duration, String> {
    match said.filter(|said| !said.is_empty()) {
        None => Ok(PATIENCE),
        Some(said) => said.parse().map(Duration::from_secs).map_err(|_| {
            format!(
                "{VARIABLE} must be a number of seconds, not {said:?}: leave it out for {} s",
                PATIENCE.as_secs()
            )
        }),
    }
}

/// The refusals of one server that no success has followed.
#[derive(Debug)]
pub(crate) struct Refusals {
    patience: Duration,
    /// Whether there are any: nearly never, and each answer asks.
    are_any: AtomicBool,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Since when everything is refused.
    everything: Option<Instant>,
    /// Each call that is refused.
    calls: HashMap<String, Call>,
}

/// A call that is refused.
#[derive(Debug)]
struct Call {
    first: Instant,
    last: Instant,
    /// Whether the log has it, and not as one of all calls.
    is_told: bool,
}

/// What follows from a refusal of what was accepted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It may pass.
    MayPass {
        /// Nobody was told of it.
        is_new: bool,
        /// How long it is waited for from now on.
        left: Duration,
    },
    /// It has lasted for so long, and does not pass.
    Lasts(Duration),
}

impl Refused {
    /// The words of a refusal, with what becomes of it.
    pub(crate) fn explain(self, refusal: &str) -> String {
        match self {
            Self::MayPass { left, .. } => format!(
                "{refusal}; the same was accepted before, so it is asked again for {} s",
                left.as_secs().max(1)
            ),
            Self::Lasts(lasted) => format!(
                "{refusal}; the same was accepted before, and has been refused for {} s",
                lasted.as_secs()
            ),
        }
    }
}

impl Refusals {
    /// None yet, each to be waited for so long.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, are_any: AtomicBool::new(false), open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `server` accepted `call`, and logs where that ends what was logged before.
    pub(crate) fn has_accepted(&self, server: &dyn Display, call: impl FnOnce() -> String) {
        if let Some(lasted) = self.accepted(call, Instant::now()) {
            let after_s = lasted.as_secs();
            tracing::info!(%server, after_s, "the server accepts again what it refused");
        }
    }

    /// Whether a `refusal` of `call`, which `server` accepted before, may pass, and the words for it; with `everything`,
    /// as in [`refused`](Self::refused). Logs it once.
    pub(crate) fn judged(
        &self,
        server: &dyn Display,
        call: String,
        everything: bool,
        refusal: &str,
    ) -> (bool, String) {
        let refused = self.refused(call, everything, Instant::now());
        let message = refused.explain(refusal);
        let Refused::MayPass { is_new, left } = refused else { return (false, message) };
        if is_new {
            let wait_s = left.as_secs();
            tracing::warn!(
                %server,
                refusal,
                wait_s,
                "the server refuses what it accepted before; it is asked again for so long"
            );
        }
        (true, message)
    }

    /// Notes at `now` that `call` was accepted; says how long it was refused where that was logged and
    /// that ends now.
    pub(crate) fn accepted(&self, call: impl FnOnce() -> String, now: Instant) -> Option<Duration> {
        if !self.are_any.load(Ordering::Relaxed) {
            return None;
        }
        let mut open = self.open();
        let everything = open.everything.take();
        let of_call = open.calls.remove(&call()).filter(|call| call.is_told).map(|call| call.first);
        self.are_any.store(!open.calls.is_empty(), Ordering::Relaxed);
        Some(now.saturating_duration_since(everything.or(of_call)?))
    }

    /// Notes at `now` that `call` is refused, which was accepted before; with `everything`, that all other calls are too.
    /// Counted from the first refusal of the call, and of everything, that no success followed: neither a call that alone
    /// is refused among others nor calls that are refused one after the other are waited for without an end.
    pub(crate) fn refused(&self, call: String, everything: bool, now: Instant) -> Refused {
        let mut open = self.open();
        self.are_any.store(true, Ordering::Relaxed);
        let patience = self.patience;
        // One that nobody asked for meanwhile begins anew.
        let is_old = |last: Instant| now.saturating_duration_since(last) > patience / 2;
        if open.calls.len() >= MANY {
            open.calls.retain(|_, call| !is_old(call.last));
        }
        let call = open.calls.entry(call).or_insert(Call { first: now, last: now, is_told: false });
        if is_old(call.last) && now.saturating_duration_since(call.first) > patience {
            *call = Call { first: now, last: now, is_told: false };
        }
        call.last = now;
        let mut since = call.first;
        let is_new = if everything {
            let is_new = open.everything.is_none();
            since = since.min(*open.everything.get_or_insert(now));
            is_new
        } else {
            !std::mem::replace(&mut call.is_told, true)
        };
        let lasted = now.saturating_duration_since(since);
        match patience.checked_sub(lasted).filter(|left| !left.is_zero()) {
            Some(left) => Refused::MayPass { is_new, left },
            None => Refused::Lasts(lasted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refusals with a patience of 100 s, and their clock.
    fn refusals() -> (Refusals, impl Fn(u64) -> Instant) {
        let began = Instant::now();
        (Refusals::new(Duration::from_secs(100)), move |seconds| began + Duration::from_secs(seconds))
    }

    fn waits(is_new: bool, left: u64) -> Refused {
        Refused::MayPass { is_new, left: Duration::from_secs(left) }
    }

    fn lasts(seconds: u64) -> Refused {
        Refused::Lasts(Duration::from_secs(seconds))
    }

    #[test]
    fn a_refusal_is_waited_for_until_it_has_lasted() {
        let (refusals, at) = refusals();
        let refused = |seconds| refusals.refused("get a".into(), true, at(seconds));
        let accepted = |seconds| refusals.accepted(|| "get b".into(), at(seconds));
        assert_eq!(accepted(0), None);
        assert_eq!(refused(0), waits(true, 100));
        assert_eq!(refused(40), waits(false, 60));
        assert_eq!(refused(80), waits(false, 20));
        assert_eq!(refused(100), lasts(100));
        assert_eq!(refused(110), lasts(110));
        assert_eq!(accepted(120), Some(Duration::from_mins(2)));
        assert_eq!(accepted(121), None, "told once");
    }

    #[test]
    fn calls_that_are_refused_one_after_the_other_share_their_time() {
        let (refusals, at) = refusals();
        assert_eq!(refusals.refused("put a".into(), true, at(0)), waits(true, 100));
        assert_eq!(refusals.refused("put b".into(), true, at(70)), waits(false, 30));
        assert_eq!(refusals.refused("put c".into(), true, at(130)), lasts(130));
    }

    #[test]
    fn a_call_that_is_refused_while_others_are_accepted_has_an_end_too() {
        for everything in [false, true] {
            let (refusals, at) = refusals();
            assert_eq!(refusals.refused("put a".into(), everything, at(0)), waits(true, 100));
            let over = refusals.accepted(|| "put b".into(), at(30));
            assert_eq!(over.is_some(), everything, "who was told of it hears that it is over");
            assert!(matches!(refusals.refused("put a".into(), everything, at(60)), Refused::MayPass { .. }));
            refusals.accepted(|| "put b".into(), at(90));
            assert_eq!(refusals.refused("put a".into(), everything, at(105)), lasts(105));
            // Its own success begins anew.
            assert_eq!(
                refusals.accepted(|| "put a".into(), at(110)),
                Some(Duration::from_secs(if everything { 5 } else { 110 }))
            );
            assert_eq!(refusals.accepted(|| "put a".into(), at(111)), None, "told once");
            assert_eq!(refusals.refused("put a".into(), everything, at(120)), waits(true, 100));
        }
    }

    #[test]
    fn a_call_that_nobody_waited_for_begins_anew() {
        let (refusals, at) = refusals();
        assert_eq!(refusals.refused("list a".into(), false, at(0)), waits(true, 100));
        assert_eq!(refusals.refused("list a".into(), false, at(1_000)), waits(true, 100));
    }

    #[test]
    fn the_patience_is_a_number_of_seconds() {
        assert_eq!(parse(None), Ok(PATIENCE));
        assert_eq!(parse(Some("")), Ok(PATIENCE));
        assert_eq!(parse(Some("7")), Ok(Duration::from_secs(7)));
        assert!(parse(Some("5 min")).unwrap_err().contains("PRS_REFUSAL_PATIENCE"));
    }
}
