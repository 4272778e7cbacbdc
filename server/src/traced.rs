//! The span of a request: as part of the caller's trace where the header `traceparent` names one. While no spans are sent it is that of the
//! caller, so that a job of the request keeps it.

use axum::http::{HeaderMap, Method};
use prs_common::timestamp::now_us;
use prs_common::traces::{self, Failure, Span, SpanId, TraceParent};

/// What machines ask all the time.
const OF_MACHINES: [&str; 3] = ["/livez", "/metrics", "/readyz"];
const TRACEPARENT: &str = "traceparent";

/// A request under way.
#[derive(Debug)]
pub(crate) struct Traced {
    /// Its span, and what this is part of.
    span: Option<(TraceParent, Option<SpanId>)>,
    began_us: u64,
}

impl Traced {
    /// Begins it; `route` is its address as the router has it.
    pub(crate) fn begin(headers: &HeaderMap, route: Option<&str>) -> Self {
        let is_of_machines = route.is_some_and(|route| OF_MACHINES.contains(&route));
        if is_of_machines {
            return Self { span: None, began_us: 0 };
        }
        let given = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        Self { span: traces::request(given), began_us: now_us() }
    }

    /// Its span.
    pub(crate) fn span(&self) -> Option<TraceParent> {
        self.span.map(|(span, _)| span)
    }

    /// Tells it: its answer has begun.
    pub(crate) fn end(self, method: &Method, route: Option<&str>, status: u16, request_id: &str) {
        let Some((own, parent)) = self.span.filter(|(span, _)| span.is_sampled) else { return };
        let route = route.unwrap_or("other");
        traces::send(|| {
            let span = Span::new(own.trace, &format!("{method} {route}"), (self.began_us, now_us()))
                .with("http.request.method", method.as_str())
                .with("http.route", route)
                .with("http.response.status_code", u32::from(status))
                .with("prs.request_id", request_id);
            let failure = (status >= 500)
                .then(|| Failure { class: String::new(), message: format!("answered with {status}") });
            Span { id: own.span, parent, is_of_server: true, failure, ..span }
        });
    }
}
