//! Programs that were built without the feature `otel` tell no spans.

use std::future::Ready;

use super::{BadTraces, Span, SpanId, TraceParent};

/// Nothing is sent.
#[derive(Debug)]
pub enum Sending {}

impl Sending {
    /// Ends it.
    pub fn end(self) -> Ready<()> {
        match self {}
    }
}

/// Begins to send spans; nothing here.
#[inline]
pub fn start(_service: &'static str) -> Result<Option<Sending>, BadTraces> {
    Ok(None)
}

/// Whether spans are sent.
#[inline]
pub fn is_on() -> bool {
    false
}

/// The share of the mini-batches that went well whose spans are sent.
#[inline]
pub fn ratio() -> f64 {
    0.0
}

/// Sends a span.
#[inline]
pub fn send(_span: impl FnOnce() -> Span) {}

/// The span that this task works for.
#[inline]
pub fn current() -> Option<TraceParent> {
    None
}

/// The span of a request whose header says `parent`.
#[inline]
pub fn request(_parent: Option<&str>) -> Option<(TraceParent, Option<SpanId>)> {
    None
}

/// A span that has no name of its own in its trace.
#[inline]
pub fn random_span() -> SpanId {
    SpanId([0; 8])
}

/// Does work for a span.
#[inline]
pub async fn within<F: Future>(_span: Option<TraceParent>, work: F) -> F::Output {
    work.await
}

/// Does work as a part of the span that this task works for.
#[inline]
pub async fn step<F: Future>(_name: &'static str, work: F) -> F::Output {
    work.await
}
