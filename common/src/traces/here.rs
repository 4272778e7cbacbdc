//! The span that a task works for.

use std::sync::OnceLock;

use super::{Span, SpanId, TraceId, TraceParent, is_on, send};
use crate::timestamp::now_us;

tokio::task_local! {
    static CURRENT: TraceParent;
}

/// The span that this task works for: that of a request, else the one in the variable `TRACEPARENT`.
pub fn current() -> Option<TraceParent> {
    static OF_CALLER: OnceLock<Option<TraceParent>> = OnceLock::new();
    let of_caller = || {
        *OF_CALLER.get_or_init(|| std::env::var("TRACEPARENT").ok().as_deref().and_then(TraceParent::parse))
    };
    CURRENT.try_with(|current| *current).ok().or_else(of_caller)
}

/// The span of a request whose header says `parent`, and the span that this is part of. While no spans are sent it is that of who asks.
pub fn request(parent: Option<&str>) -> Option<(TraceParent, Option<SpanId>)> {
    let parent = parent.and_then(TraceParent::parse);
    if !is_on() {
        return parent.map(|parent| (parent, None));
    }
    let mut trace = [0; 16];
    fill(&mut trace);
    let trace = parent.map_or(TraceId(trace), |parent| parent.trace);
    let is_sampled = parent.is_none_or(|parent| parent.is_sampled);
    Some((TraceParent { trace, span: random_span(), is_sampled }, parent.map(|parent| parent.span)))
}

/// A span that has no name of its own in its trace.
pub fn random_span() -> SpanId {
    let mut span = [0; 8];
    fill(&mut span);
    SpanId(span)
}

/// Random bytes, not all of them zero.
fn fill(bytes: &mut [u8]) {
    // Without randomness an id is the same as others, which confuses a reader and nothing else.
    let _ = getrandom::fill(bytes);
    bytes[0] |= 1;
}

/// Does work for a span.
pub async fn within<F: Future>(span: Option<TraceParent>, work: F) -> F::Output {
    match span {
        Some(span) => CURRENT.scope(span, work).await,
        None => work.await,
    }
}

/// Does work as a part of the span that this task works for.
pub async fn step<F: Future>(name: &'static str, work: F) -> F::Output {
    let Ok(current) = CURRENT.try_with(|current| *current) else { return work.await };
    let began = now_us();
    let done = work.await;
    if current.is_sampled {
        send(|| {
            let span = Span::new(current.trace, name, (began, now_us())).within(current.span);
            Span { id: random_span(), ..span }
        });
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_trace_a_request_is_of_is_known_though_no_spans_are_sent() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let (span, parent) = request(Some(given)).unwrap();
        assert_eq!((span.to_string(), parent), (given.to_owned(), None));
        within(Some(span), async { assert_eq!(current(), Some(span)) }).await;
        assert_eq!((request(None), request(Some("nonsense"))), (None, None));
    }
}
