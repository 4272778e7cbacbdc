//! Where a job that runs stands: counts, rates, the errors so far. What people look at while they wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use prs_common::ledger::{JobProgress, MOST_SEEN_ERRORS, NodeView, PrintedLine, SeenError};
use prs_common::timestamp::now_us;
use serde::{Deserialize, Serialize};

use crate::job::policy::Policy;

/// Rates are taken over this time at least,
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// and over so many mini-batches: where one takes a minute, five seconds tell nothing.
const RATE_MINI_BATCHES: u64 = 20;

/// The run so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// When this was written, microseconds since the Unix epoch.
    pub updated_us: u64,
    /// Seconds since this incarnation started.
    pub seconds: f64,
    /// The counts.
    pub progress: JobProgress,
    /// Nodes that serve the job.
    pub nodes: u32,
    /// Processes that are up.
    pub processes: u32,
    /// Of these, processes that import the script or are in `init()`.
    pub starting: u32,
    /// Whether a process of these nodes ever got through `init()`.
    pub is_ready: bool,
    /// Mini-batches that got their outcome a second, lately.
    pub per_second: f64,
    /// Their input items a second.
    pub items_per_second: f64,
    /// Seconds until the end, where they can be estimated.
    pub eta_seconds: Option<f64>,
    /// Failures to import the script and of `init()`, on all nodes.
    pub init_failures: u32,
    /// Tries of mini-batches that the user's code failed, on all nodes.
    pub failed_tries: u64,
    /// The first distinct errors, the first first.
    pub errors: Vec<SeenError>,
    /// What a process that imports the script or is in `init()` printed last.
    pub printed: Option<PrintedLine>,
    /// What a node does at the moment to make the environment of the script, or to have a side input.
    pub preparing: Option<String>,
}

impl Status {
    /// Where a job stands that has been running for so long, as the ledger has it; without a rate.
    pub fn now(progress: JobProgress, nodes: &[NodeView], policy: &Policy, running: Duration) -> Self {
        let present = nodes.iter().filter(|node| policy.is_present(node));
        Self {
            updated_us: now_us(),
            seconds: running.as_secs_f64(),
            nodes: present.clone().count() as u32,
            processes: present.clone().map(|node| node.report.processes).sum(),
            starting: present.clone().map(|node| node.report.starting).sum(),
            is_ready: present.clone().any(|node| node.report.ever_ready),
            init_failures: nodes.iter().map(|node| node.report.init_failures).sum(),
            failed_tries: nodes.iter().map(|node| node.report.failed_tries).sum(),
            errors: first_errors(nodes),
            preparing: present.clone().find_map(|node| node.report.preparing.clone()),
            printed: present.filter_map(|node| node.report.printed.clone()).max_by_key(|line| line.at_us),
            progress,
            ..Self::default()
        }
    }

    /// Notes that `ended` mini-batches with `items` input items got their outcome in so many seconds, and what follows for
    /// the others.
    pub fn set_rate(&mut self, ended: u64, items: u64, seconds: f64) {
        let of = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        (self.per_second, self.items_per_second) = (of(ended), of(items));
        let progress = &self.progress;
        let left = progress.checkpoint.scheduled.saturating_sub(progress.ended());
        // The last ones may be tried again: how long that takes the others do not tell.
        let are_last = self.failed_tries > 0 && left <= u64::from(self.processes);
        let is_known = progress.checkpoint.complete && self.per_second > 0.0 && !are_last;
        self.eta_seconds = is_known.then(|| left as f64 / self.per_second);
    }

    /// Whether the last outcome is expected within a second: who waits for it looks more often.
    pub fn is_nearly_done(&self) -> bool {
        self.eta_seconds.is_some_and(|seconds| seconds < 1.0)
    }
}

/// The first distinct errors of all nodes.
fn first_errors(nodes: &[NodeView]) -> Vec<SeenError> {
    let mut seen: Vec<&SeenError> = nodes.iter().flat_map(|node| &node.report.errors).collect();
    seen.sort_by_key(|error| error.at_us);
    let mut first: Vec<SeenError> = Vec::new();
    for error in seen {
        if first.len() < MOST_SEEN_ERRORS && !first.iter().any(|known| known.is_as(error)) {
            first.push(error.clone());
        }
    }
    first
}

/// How many mini-batches and items had their outcome by when, over the last time.
#[derive(Debug, Default)]
pub struct Rates(VecDeque<Count>);

#[derive(Debug, Clone, Copy)]
struct Count {
    at: Instant,
    ended: u64,
    items: u64,
}

impl Rates {
    /// Takes note of `status`, and gives it the rates of the last time.
    pub fn apply(&mut self, status: &mut Status) {
        self.apply_at(Instant::now(), status);
    }

    fn apply_at(&mut self, now: Instant, status: &mut Status) {
        let (ended, items) = (status.progress.ended(), status.progress.items);
        if !status.is_ready {
            // The time of `init()` is none of the mini-batches'.
            self.0.clear();
        }
        if self.0.back().is_none_or(|last| (last.ended, last.items) != (ended, items)) {
            self.0.push_back(Count { at: now, ended, items });
        }
        let is_enough = |since: &Count| {
            now - since.at > RATE_WINDOW && ended.saturating_sub(since.ended) >= RATE_MINI_BATCHES
        };
        while self.0.get(1).is_some_and(is_enough) {
            self.0.pop_front();
        }
        let since = self.0[0];
        // A ledger that was lost has counted less for a while.
        let (ended, items) = (ended.saturating_sub(since.ended), items.saturating_sub(since.items));
        status.set_rate(ended, items, (now - since.at).as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{Checkpoint, NodeInfo, NodeReport};

    use super::*;

    #[test]
    fn the_time_left_follows_from_the_rate_once_all_is_planned() {
        let table = [
            (true, 30, 10.0, 0, 3.0, Some(20.0)),
            (false, 30, 10.0, 0, 3.0, None),
            (true, 0, 10.0, 0, 0.0, None),
            (true, 30, 0.0, 0, 0.0, None),
            (true, 30, 10.0, 5, 3.0, Some(20.0)),
        ];
        for (complete, ended, seconds, failed_tries, per_second, eta) in table {
            let checkpoint = Checkpoint { scheduled: 100, items: 100, complete, ..Checkpoint::default() };
            let progress = JobProgress { checkpoint, succeeded: 40, ..JobProgress::default() };
            let mut status = Status { progress, processes: 2, failed_tries, ..Status::default() };
            status.set_rate(ended, 2 * ended, seconds);
            assert!((status.per_second - per_second).abs() < 1e-9, "{status:?}");
            assert!((status.items_per_second - 2.0 * per_second).abs() < 1e-9, "{status:?}");
            assert_eq!(status.eta_seconds, eta);
        }
    }

    #[test]
    fn nothing_is_promised_while_the_last_mini_batches_are_tried_again() {
        let eta = |succeeded, failed_tries| {
            let checkpoint = Checkpoint { scheduled: 10, complete: true, ..Checkpoint::default() };
            let progress = JobProgress { checkpoint, succeeded, ..JobProgress::default() };
            let mut status = Status { progress, processes: 2, failed_tries, ..Status::default() };
            status.set_rate(5, 5, 1.0);
            status.eta_seconds.is_some()
        };
        assert!(eta(8, 0), "they run for the first time");
        assert!(eta(7, 1), "others wait");
        assert!(!eta(8, 1));
    }

    /// Mini-batches that have ended by so many seconds, and the rate then.
    #[test]
    fn rates_are_true_for_the_quick_and_for_the_slow() {
        let rate = |ended: &[(u64, u64)]| {
            let start = Instant::now();
            let mut rates = Rates::default();
            let mut status = Status { is_ready: true, ..Status::default() };
            for (second, ended) in ended {
                (status.progress.succeeded, status.progress.items) = (*ended, ended * 10);
                rates.apply_at(start + Duration::from_secs(*second), &mut status);
            }
            assert!((status.items_per_second - 10.0 * status.per_second).abs() < 1e-9);
            status.per_second
        };
        let steady: Vec<_> = (0..60).map(|second| (second, second * 100)).collect();
        assert!((rate(&steady) - 100.0).abs() < 1.0);
        let quicker: Vec<_> =
            (0..60).map(|second| (second, if second < 30 { 0 } else { (second - 30) * 100 })).collect();
        assert!((rate(&quicker) - 100.0).abs() < 1.0, "what was slow before is forgotten");
        let slow: Vec<_> = (0..300).map(|second| (second, second / 10)).collect();
        assert!((rate(&slow) - 0.1).abs() < 0.01, "{}", rate(&slow));
        assert!((rate(&[(0, 0), (10, 1), (40, 1)]) - 1.0 / 40.0).abs() < 1e-9, "it sinks while nothing ends");
    }

    #[test]
    fn the_time_of_init_does_not_count() {
        let start = Instant::now();
        let mut rates = Rates::default();
        let mut status = Status::default();
        for second in 0..=16 {
            status.is_ready = second >= 15;
            status.progress.succeeded = if second == 16 { 2 } else { 0 };
            rates.apply_at(start + Duration::from_secs(second), &mut status);
        }
        assert!((status.per_second - 1.0).abs() < 1e-9, "{}", status.per_second);
    }

    fn node(report: NodeReport) -> NodeView {
        NodeView {
            node_id: 0,
            info: NodeInfo { slots: 2, ..NodeInfo::default() },
            report,
            silent: Duration::ZERO,
            left: false,
        }
    }

    #[test]
    fn nodes_that_left_or_are_lost_do_not_count() {
        let node = |left, silent| NodeView {
            silent: Duration::from_secs(silent),
            left,
            ..node(NodeReport { processes: 2, starting: 1, failed_tries: 3, ..NodeReport::default() })
        };
        let nodes = [node(false, 0), node(true, 0), node(false, 60)];
        for (policy, expected) in [(Policy::fleet(), (1, 2, 1)), (Policy::embedded(), (2, 4, 2))] {
            let status = Status::now(JobProgress::default(), &nodes, &policy, Duration::ZERO);
            assert_eq!((status.nodes, status.processes, status.starting), expected);
            assert_eq!(status.failed_tries, 9, "what failed there failed");
        }
    }

    #[test]
    fn what_was_printed_last_on_a_node_that_is_there_is_told() {
        let node = |at_us, left| {
            let printed = Some(PrintedLine { at_us, ..PrintedLine::default() });
            NodeView { left, ..node(NodeReport { printed, ..NodeReport::default() }) }
        };
        let nodes = [node(2, false), node(3, false), node(9, true), self::node(NodeReport::default())];
        let told = Status::now(JobProgress::default(), &nodes, &Policy::fleet(), Duration::ZERO).printed;
        assert_eq!(told.unwrap().at_us, 3);
    }

    #[test]
    fn the_first_distinct_errors_of_all_nodes_are_told() {
        let error = |at_us, message: &str| SeenError {
            at_us,
            what: String::new(),
            category: "E".to_owned(),
            message: message.to_owned(),
            line: None,
        };
        let errors =
            |errors: &[SeenError]| node(NodeReport { errors: errors.to_vec(), ..NodeReport::default() });
        let nodes = [
            errors(&[error(4, "d"), error(5, "e"), error(6, "f")]),
            errors(&[error(1, "a"), error(3, "d"), error(2, "b")]),
        ];
        let told = Status::now(JobProgress::default(), &nodes, &Policy::fleet(), Duration::ZERO).errors;
        let told: Vec<_> = told.iter().map(|error| (error.at_us, &*error.message)).collect();
        assert_eq!(told, [(1, "a"), (2, "b"), (3, "d")]);
    }
}
