//! Where a job that runs stands: counts, rates, the errors so far. What people look at while they wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use prs_common::ledger::{JobProgress, MOST_SEEN_ERRORS, NodeView, PrintedLine, SeenError};
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::timestamp::now_us;
use serde::{Deserialize, Serialize};

use crate::job::policy::Policy;
use crate::job::words;

/// Rates are taken over this time at least,
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// and over so many mini-batches: where one takes a minute, five seconds tell nothing.
const RATE_MINI_BATCHES: u64 = 20;
/// The last mini-batch is waited for once it has run for so long, seconds.
const LATE: f64 = 1.0;
/// Most processes of [`Status::at_work`].
const MOST_AT_WORK: usize = 256;
/// Most nodes of [`Status::lost`].
const MOST_LOST: usize = 16;

/// The run so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// When this was written, microseconds since the Unix epoch.
    pub updated_us: u64,
    /// Seconds that this start has been running: since its first node joined.
    pub seconds: f64,
    /// Seconds that it waited for that node.
    pub waited_seconds: f64,
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
    pub printed: Option<Box<PrintedLine>>,
    /// What a node does at the moment to make the environment of the script, or to have a side input.
    pub preparing: Option<String>,
    /// The processes that have a mini-batch, by node and number; of more than 256, those that have had theirs longest.
    pub at_work: Box<[ProcessAtWork]>,
    /// Nodes that were not heard of any more while they had mini-batches.
    pub lost: Box<[LostNode]>,
}

/// A process that has a mini-batch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessAtWork {
    /// Its node.
    pub node_id: u32,
    /// Which process of the node, from 0: the number in its name.
    pub process: u32,
    /// The mini-batch that it has had longest.
    pub index: MiniBatchIndex,
    /// Since when, microseconds since the Unix epoch.
    pub since_us: u64,
    /// Mini-batches that it has under way, this one among them.
    pub of: u64,
}

/// A node that was lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LostNode {
    /// Which.
    pub node_id: u32,
    /// How, in words.
    pub text: String,
}

impl Status {
    /// Where a job stands whose start was asked for some `age` ago, as the ledger has it; without a rate.
    pub fn now(progress: JobProgress, nodes: &[NodeView], policy: &Policy, age: Duration) -> Self {
        let present = nodes.iter().filter(|node| policy.is_present(node));
        // A run in one program has its node from the beginning.
        let served = nodes.iter().map(|node| node.since(node.info.since_us)).max().unwrap_or_default();
        let running = if policy.has_others { served.min(age) } else { age };
        let now_us = now_us();
        Self {
            updated_us: now_us,
            seconds: running.as_secs_f64(),
            waited_seconds: age.saturating_sub(running).as_secs_f64(),
            at_work: at_work(present.clone(), now_us),
            lost: lost(nodes, policy),
            nodes: present.clone().count() as u32,
            processes: present.clone().map(|node| node.report.processes).sum(),
            starting: present.clone().map(|node| node.report.starting).sum(),
            is_ready: present.clone().any(|node| node.report.ever_ready),
            init_failures: nodes.iter().map(|node| node.report.init_failures).sum(),
            failed_tries: nodes.iter().map(|node| node.report.failed_tries).sum(),
            errors: first_errors(nodes),
            preparing: present.clone().find_map(|node| node.report.preparing.clone()),
            printed: present
                .filter_map(|node| node.report.printed.clone())
                .max_by_key(|line| line.at_us)
                .map(Box::new),
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
        let eta = is_known.then(|| left as f64 / self.per_second);
        // One that takes longer than the others did may hang.
        self.eta_seconds =
            eta.filter(|eta| self.last_under_way().is_none_or(|last| self.held_for(last) <= *eta));
    }

    /// Returns the process that has had its mini-batch longest, where all mini-batches without an outcome are under way.
    fn last_under_way(&self) -> Option<&ProcessAtWork> {
        let progress = &self.progress;
        let left = progress.checkpoint.scheduled.saturating_sub(progress.ended());
        let under_way: u64 = self.at_work.iter().map(|process| process.of).sum();
        let is_open = progress.checkpoint.complete && progress.conclusion.is_none();
        let are_all = is_open && left > 0 && left <= under_way;
        self.at_work.iter().min_by_key(|process| process.since_us).filter(|_| are_all)
    }

    /// Returns how long a process has had its mini-batch, seconds.
    pub fn held_for(&self, process: &ProcessAtWork) -> f64 {
        self.updated_us.saturating_sub(process.since_us) as f64 / 1e6
    }

    /// Returns the mini-batch that the end of the job waits for, and for how many seconds it has run, where no time left
    /// can be told.
    pub fn waits_for_last(&self) -> Option<(MiniBatchIndex, f64)> {
        let last = self.last_under_way().filter(|_| self.eta_seconds.is_none())?;
        Some((last.index, self.held_for(last))).filter(|(_, seconds)| *seconds >= LATE)
    }

    /// Whether the last outcome is expected within a second: who waits for it looks more often.
    pub fn is_nearly_done(&self) -> bool {
        self.eta_seconds.is_some_and(|seconds| seconds < 1.0)
    }
}

/// The processes of these nodes that have a mini-batch.
fn at_work<'a>(nodes: impl Iterator<Item = &'a NodeView>, now_us: u64) -> Box<[ProcessAtWork]> {
    let mut found: Vec<_> = nodes
        .flat_map(|node| {
            node.report.each_process.iter().filter_map(move |process| {
                let held = process.holds.as_ref()?;
                Some(ProcessAtWork {
                    node_id: node.node_id,
                    process: process.number,
                    index: held.index,
                    since_us: now_us.saturating_sub(node.since(held.since_us).as_micros() as u64),
                    of: held.of,
                })
            })
        })
        .collect();
    if found.len() > MOST_AT_WORK {
        found.sort_by_key(|process| process.since_us);
        found.truncate(MOST_AT_WORK);
    }
    found.sort_by_key(|process| (process.node_id, process.process));
    found.into()
}

/// The nodes that were lost: those that leave have nothing in hand.
fn lost(nodes: &[NodeView], policy: &Policy) -> Box<[LostNode]> {
    let is_lost = |node: &&NodeView| !policy.is_present(node) && node.report.in_hand > 0;
    let told = |node: &NodeView| LostNode { node_id: node.node_id, text: words::lost_node(node) };
    nodes.iter().filter(is_lost).map(told).take(MOST_LOST).collect()
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
    use prs_common::ledger::{
        Checkpoint, Conclusion, HeldMiniBatch, JobState, NodeInfo, NodeReport, ProcessView,
    };

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

    /// The last of ten mini-batches, five of which ended a second: since when it runs, what is left of it, and what is told.
    #[test]
    fn the_last_mini_batch_is_waited_for_by_its_name_once_it_takes_longer_than_the_others() {
        let table = [
            (9, 0.1, 0, (Some(0.2), None)),
            (9, 0.3, 0, (None, None)),
            (9, 11.0, 0, (None, Some((7, 11.0)))),
            (9, 11.0, 1, (None, Some((7, 11.0)))),
            // Others wait, or all is done.
            (5, 11.0, 0, (Some(1.0), None)),
            (10, 11.0, 0, (Some(0.0), None)),
        ];
        for (succeeded, seconds, failed_tries, expected) in table {
            let checkpoint = Checkpoint { scheduled: 10, complete: true, ..Checkpoint::default() };
            let progress = JobProgress { checkpoint, succeeded, ..JobProgress::default() };
            let updated_us = 1_000_000_000;
            let since_us = updated_us - (seconds * 1e6) as u64;
            let at_work = [ProcessAtWork { index: 7, since_us, of: 1, ..ProcessAtWork::default() }].into();
            let mut status =
                Status { updated_us, progress, processes: 2, failed_tries, at_work, ..Status::default() };
            status.set_rate(5, 5, 1.0);
            assert_eq!((status.eta_seconds, status.waits_for_last()), expected, "{succeeded} {seconds}");
            let end = Conclusion { state: JobState::Canceled, reason: String::new() };
            status.progress.conclusion = Some(end);
            assert_eq!(status.waits_for_last(), None, "it ends");
        }
    }

    #[test]
    fn a_job_runs_from_its_first_node_on_and_waits_before_that() {
        let joined = |ago_s: u64, silent: u64| {
            let now_us = 5_000_000_000;
            let info = NodeInfo { since_us: now_us - ago_s * 1_000_000, ..NodeInfo::default() };
            let report = NodeReport { now_us, ..NodeReport::default() };
            NodeView { info, silent: Duration::from_secs(silent), ..node(report) }
        };
        let (fleet, here) = (Policy::fleet(), Policy::embedded());
        let table = [
            (&fleet, vec![], (0.0, 30.0)),
            (&fleet, vec![joined(10, 0), joined(4, 0)], (10.0, 20.0)),
            (&fleet, vec![joined(10, 12), joined(4, 0)], (22.0, 8.0)),
            (&fleet, vec![joined(40, 0)], (30.0, 0.0)),
            (&here, vec![], (30.0, 0.0)),
        ];
        for (policy, nodes, expected) in table {
            let status = Status::now(JobProgress::default(), &nodes, policy, Duration::from_secs(30));
            assert_eq!((status.seconds, status.waited_seconds), expected, "{nodes:?}");
        }
    }

    #[test]
    fn what_processes_have_is_told_of_nodes_that_are_there_and_by_one_clock() {
        let now_us = 5_000_000_000;
        let process = |number, held: Option<(u64, u64)>| {
            let holds = held.map(|(index, ago_s)| HeldMiniBatch {
                index,
                since_us: now_us - ago_s * 1_000_000,
                of: 2,
            });
            ProcessView { number, holds, ..ProcessView::default() }
        };
        let at = |node_id, silent, in_hand, each_process: Vec<ProcessView>| NodeView {
            node_id,
            silent: Duration::from_secs(silent),
            ..node(NodeReport { now_us, in_hand, each_process, ..NodeReport::default() })
        };
        let nodes = [
            at(0, 9, 2, vec![process(0, Some((3, 1)))]),
            at(1, 0, 1, vec![process(2, Some((7, 11))), process(0, None)]),
            at(2, 9, 0, vec![process(0, None)]),
        ];
        let status = Status::now(JobProgress::default(), &nodes, &Policy::fleet(), Duration::ZERO);
        let at_work: Vec<_> =
            status.at_work.iter().map(|one| (one.node_id, one.process, one.index, one.of)).collect();
        assert_eq!(at_work, [(1, 2, 7, 2)]);
        assert!((status.held_for(&status.at_work[0]) - 11.0).abs() < 1e-6, "{status:?}");
        let lost: Vec<_> = status.lost.iter().map(|one| one.node_id).collect();
        assert_eq!(lost, [0], "one that leaves has nothing in hand");
        assert!(status.lost[0].text.contains("was not heard of any more, with 2 mini-batches in hand"));
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
