//! What a server counts of itself, and the figures of the fleet as it sees them. These are the same on every server of a fleet; where
//! they cannot be had there are none, and never zeros.

//!
//! | file | counts |
//! |---|---|
//! | `families` | what has no file of its own, by name |
//! | `fleet` | what targets want and have, and the servers behind this one |
//! | `calls` | calls to storage and ledger |
//! | `traffic` | bytes of files that come and go |
//! | `process` | what this process uses |

mod calls;
mod families;
mod fleet;
mod process;
mod traffic;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use prs_common::calls::Calls;

use crate::problem::Kind;
use calls::CallCounts;
use families::{Answered, Asked, Build, Families, OfKind, Reason};
pub(crate) use fleet::Fleet;
use process::OwnProcess;
use traffic::Traffic;

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What stands for all that has no label of its own.
const OTHER: &str = "other";
/// The word of requests that came while there was no room.
const BUSY: &str = "busy";
/// Who reads a stream: a page, or a program.
pub(crate) const STREAMS: [&str; 2] = [PAGE, API];
pub(crate) const PAGE: &str = "page";
pub(crate) const API: &str = "api";
/// The words of refused requests, and the problems that they stand for.
const REASONS: [(&str, &[&Kind]); 7] = [
    ("rate", &[Kind::TOO_MANY_REQUESTS]),
    ("size", &[Kind::TOO_LARGE, Kind::ADDRESS_TOO_LONG]),
    ("host", &[Kind::UNKNOWN_HOST]),
    ("origin", &[Kind::CROSS_ORIGIN]),
    ("auth", &[Kind::UNAUTHENTICATED, Kind::WRONG_CREDENTIALS]),
    ("role", &[Kind::FORBIDDEN]),
    (BUSY, &[Kind::BUSY]),
];

/// What a server counts.
pub(crate) struct Metrics {
    registry: Registry,
    families: Families,
    calls: Arc<CallCounts>,
    traffic: Traffic,
    process: OwnProcess,
    /// One at a time sets the figures of the fleet and writes them.
    writing: Mutex<()>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Nothing is counted yet; `commit` is what the server was built of.
    pub(crate) fn new(commit: &'static str) -> Self {
        let (mut registry, families) = (Registry::default(), Families::default());
        families.register(&mut registry);
        let (calls, traffic, process) =
            (Arc::new(CallCounts::default()), Traffic::default(), OwnProcess::default());
        calls.register(&mut registry);
        traffic.register(&mut registry);
        process.register(&mut registry);
        let build = Build { component: "server", version: env!("CARGO_PKG_VERSION"), commit };
        families.build.get_or_create(&build).set(1);
        for (reason, _) in REASONS {
            drop(families.refused.get_or_create(&Reason { reason }));
        }
        for kind in STREAMS {
            drop(families.streams.get_or_create(&OfKind { kind }));
        }
        Self { registry, families, calls, traffic, process, writing: Mutex::default() }
    }
}

/// What is told beside what was counted.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    /// Jobs that are watched.
    pub(crate) watched: usize,
    /// How long the oldest line of the audit waits.
    pub(crate) audit_lag: Duration,
    /// Jobs of the list in memory, and how old that is.
    pub(crate) index: (usize, Duration),
    /// The fleet, where there is one.
    pub(crate) fleet: Option<Fleet<'a>>,
}

/// A request under way; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<'a>(&'a Metrics);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.families.in_flight.dec();
    }
}

impl Metrics {
    /// A request came.
    pub(crate) fn comes(&self) -> UnderWay<'_> {
        self.families.in_flight.inc();
        UnderWay(self)
    }

    /// The answer to a request began, after this time; `route` is the address as the router has it, nothing where it has none.
    pub(crate) fn answered(
        &self,
        method: &Method,
        route: Option<&str>,
        (status, problem): (u16, Option<&'static Kind>),
        after: Duration,
    ) {
        let (method, route) = (word(method), route.unwrap_or(OTHER).to_owned());
        let answered = Answered { method, route: route.clone(), status: u32::from(status) };
        self.families.requests.get_or_create(&answered).inc();
        self.families.durations.get_or_create(&Asked { method, route }).observe(after.as_secs_f64());
        let reason = REASONS.iter().find(|(_, kinds)| problem.is_some_and(|kind| kinds.contains(&kind)));
        if let Some((reason, _)) = reason {
            self.families.refused.get_or_create(&Reason { reason }).inc();
        }
    }

    /// Hears of the calls to storage and ledger.
    pub(crate) fn calls(&self) -> Arc<dyn Calls> {
        Arc::clone(&self.calls) as Arc<dyn Calls>
    }

    /// How long looks at watched jobs take.
    pub(crate) fn renders(&self) -> Histogram {
        self.families.renders.clone()
    }

    /// How many streams of this kind are open.
    pub(crate) fn streams(&self, kind: &'static str) -> Gauge {
        self.families.streams.get_or_create_owned(&OfKind { kind })
    }

    /// The body of a request, of which files are counted as they come.
    pub(crate) fn comes_with(&self, headers: &HeaderMap, body: Body) -> Body {
        self.traffic.comes(headers, body)
    }

    /// The body of an answer of the address `route`, of which files are counted as they go.
    pub(crate) fn goes_with(&self, route: Option<&str>, body: Body) -> Body {
        self.traffic.goes(route, body)
    }

    /// Counts connections that are refused, for all places are taken.
    pub(crate) fn refused_connections(&self) -> Counter {
        self.families.refused.get_or_create_owned(&Reason { reason: BUSY })
    }

    /// All metrics, as text of the format `OpenMetrics`.
    pub(crate) fn text(&self, told: &Told<'_>) -> String {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let families = &self.families;
        families.watched.set(told.watched as i64);
        families.audit_lag.set(told.audit_lag.as_secs_f64());
        families.indexed.set(told.index.0 as i64);
        families.index_age.set(told.index.1.as_secs_f64());
        self.process.look();
        families.forget_fleet();
        if let Some(fleet) = &told.fleet {
            self.tell_fleet(fleet);
        }
        let mut written = String::new();
        text::encode(&mut written, &self.registry).expect("a string takes any text");
        written
    }
}

/// A method as a label: requests invent no others.
fn word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => OTHER,
    }
}
