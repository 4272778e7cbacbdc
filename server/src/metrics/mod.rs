//! What a server counts of itself, and the figures of the fleet as it sees them. These are the same on every server of a fleet; where
//! they cannot be had there are none, and never zeros.

mod families;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use prs_jobs::fleet::TargetView;

use crate::problem::Kind;
use families::{Answered, Asked, Build, Dependency, Families, InState, Reason, Target};

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Targets with labels of their own; what more there are is summed up as [`OTHER`].
const MOST_TARGETS: usize = 100;
/// The target of those.
const OTHER: &str = "other";
/// The words of refused requests, and the problems that they stand for.
const REASONS: [(&str, &[&Kind]); 7] = [
    ("rate", &[Kind::TOO_MANY_REQUESTS]),
    ("size", &[Kind::TOO_LARGE]),
    ("host", &[Kind::UNKNOWN_HOST]),
    ("origin", &[Kind::CROSS_ORIGIN]),
    ("auth", &[Kind::UNAUTHENTICATED, Kind::WRONG_CREDENTIALS]),
    ("role", &[Kind::FORBIDDEN]),
    ("busy", &[Kind::BUSY]),
];

/// What a server counts.
pub(crate) struct Metrics {
    registry: Registry,
    families: Families,
    /// One at a time sets the figures of the fleet and writes them.
    writing: Mutex<()>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let (mut registry, families) = (Registry::default(), Families::default());
        families.register(&mut registry);
        let build = Build { component: "server", version: env!("CARGO_PKG_VERSION") };
        families.build.get_or_create(&build).set(1);
        for (reason, _) in REASONS {
            drop(families.refused.get_or_create(&Reason { reason }));
        }
        Self { registry, families, writing: Mutex::default() }
    }
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

    /// All metrics, as text of the format `OpenMetrics`: those of this server, `open` streams and watched jobs, how long the oldest line of
    /// the audit waits, the `targets`, and
    /// whether storage and ledger answer, where there is a fleet.
    pub(crate) fn text(
        &self,
        open: (usize, usize),
        audit_lag: Duration,
        targets: &[TargetView],
        up: Option<(bool, bool)>,
    ) -> String {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.families.streams.set(open.0 as i64);
        self.families.watched.set(open.1 as i64);
        self.families.audit_lag.set(audit_lag.as_secs_f64());
        self.families.forget_fleet();
        if let Some((storage, ledger)) = up {
            for (dependency, is_up) in [("storage", storage), ("ledger", ledger)] {
                self.families.dependency.get_or_create(&Dependency { dependency }).set(i64::from(is_up));
            }
        }
        for (at, target) in targets.iter().enumerate() {
            self.tell(if at < MOST_TARGETS { &target.target } else { OTHER }, target);
        }
        let mut written = String::new();
        text::encode(&mut written, &self.registry).expect("a string takes any text");
        written
    }

    fn tell(&self, name: &str, of: &TargetView) {
        let target = || Target { target: name.to_owned() };
        let families = &self.families;
        for (family, value) in [
            (&families.wanted, of.wanted_nodes),
            (&families.asked, of.asked_nodes),
            (&families.live, of.live_nodes),
            (&families.waiting, of.waiting_mini_batches),
            (&families.in_hand, of.in_flight_mini_batches),
            (&families.unwatched, of.unwatched_jobs),
        ] {
            family.get_or_create(&target()).inc_by(value as i64);
        }
        let in_state = |state: &'static str| InState { target: name.to_owned(), state };
        for (state, workers) in [("idle", of.idle_workers), ("serving", of.live_nodes)] {
            families.workers.get_or_create(&in_state(state)).inc_by(workers as i64);
        }
        for (state, jobs) in &of.jobs_by_state {
            families.jobs.get_or_create(&in_state(state)).inc_by(*jobs as i64);
        }
        let oldest = families.oldest_wait.get_or_create_owned(&target());
        oldest.set(oldest.get().max(of.oldest_wait_seconds));
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
