//! Calls to the servers of a fleet, as one who counts them hears of them. A program that counts nothing hears of nothing.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The result of a call that went through.
pub const OK: &str = "ok";
/// The result of a call that nobody waited for to its end.
pub const LEFT: &str = "left";

/// A server of a fleet that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Called {
    /// The storage.
    Storage,
    /// The ledger.
    Ledger,
}

/// Hears of calls.
pub trait Calls: Debug + Send + Sync {
    /// A call of this `operation` came to its end after this time, repetitions included; `result` is [`OK`], [`LEFT`] or what the error
    /// means.
    fn ended(&self, called: Called, operation: &'static str, result: &'static str, after: Duration);
}

/// A call under way; its counter hears of it when this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    calls: Arc<dyn Calls>,
    called: Called,
    operation: &'static str,
    began: Instant,
    result: &'static str,
}

impl UnderWay {
    /// Begins one.
    pub(crate) fn begin(calls: &Arc<dyn Calls>, called: Called, operation: &'static str) -> Self {
        Self { calls: Arc::clone(calls), called, operation, began: Instant::now(), result: LEFT }
    }

    /// What became of it.
    pub(crate) fn is(&mut self, result: &'static str) {
        self.result = result;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.calls.ended(self.called, self.operation, self.result, self.began.elapsed());
    }
}
