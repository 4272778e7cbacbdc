//! The parts that are published, made of the aggregates at an instant.

use prs_common::job::JobSpec;
use prs_common::ledger::{JobState, NodeView};
use prs_common::statistics::{
    Activity, Errors, InitState, Lately, Live, Nodes, Part, Rate, Shares, Summary, Threshold, TryRow, cut,
    encode,
};

use prs_portal::view::signs;

use super::{Count, LIMITS, Statistics};
use crate::job::status::Status;
use crate::job::targets::wanted_nodes;

/// The times over which rates are told, seconds.
const RATES: [u64; 3] = [5, 60, 600];
/// A job that has run for so long has a timeline of long steps, microseconds.
const OLD: u64 = 3_600_000_000;
/// A step of the last minutes, seconds.
const LATELY_STEP: u32 = 5;
/// Room of the list of errors while the job runs, bytes.
const RUNNING_ERRORS: usize = 256 << 10;
/// Longest error of `init()`, bytes.
const ERROR: usize = 500;
/// Longest reason why a job ended, bytes.
const REASON: usize = 2_000;
/// Longest other text, bytes.
const TEXT: usize = 120;

/// Where the job stands, beside its tries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    /// Its settings.
    pub(crate) spec: &'a JobSpec,
    /// Its state.
    pub(crate) state: JobState,
    /// Why it ended; empty before, and where it completed.
    pub(crate) reason: &'a str,
    /// Its counts.
    pub(crate) status: &'a Status,
    /// Its nodes, at the last look.
    pub(crate) nodes: &'a [NodeView],
    /// When it began.
    pub(crate) started_us: u64,
    /// Now.
    pub(crate) now_us: u64,
}

impl Statistics {
    /// The part with this name; nothing for one that is unknown.
    pub(crate) fn part(&self, name: &str, standing: &Standing) -> Option<Vec<u8>> {
        let now_us = standing.now_us;
        Some(match name {
            Live::NAME => self.live(standing),
            Activity::NAME => encode(&self.lanes.published(&self.nodes, &self.running, now_us)),
            Summary::NAME => encode(&self.summary(now_us)),
            Errors::NAME => {
                let room = if standing.state.is_final() { Errors::MOST_BYTES } else { RUNNING_ERRORS };
                encode(&self.errors.published(now_us, room))
            }
            Nodes::NAME => encode(&self.nodes.published(now_us, Nodes::MOST_BYTES)),
            _ => return None,
        })
    }

    /// What the summary says.
    pub(super) fn summary(&self, written_us: u64) -> Summary {
        let total = self.timeline.total();
        let slowest: Vec<TryRow> = self.slowest.iter().rev().map(|slow| slow.0.clone()).collect();
        Summary {
            written_us,
            run: self.run.clone(),
            load: self.load.clone(),
            whole: self.whole.clone(),
            shares: Shares {
                run_us: total.run_us,
                cpu_us: total.cpu_us,
                load_us: total.load_us,
                other_us: total.other_us,
                slots_us: total.slots_us,
                busy_us: total.busy_us,
                init_us: total.init_us,
            },
            plan: self.plan.clone(),
            slowest,
            by_status: self.totals.by_status.to_vec(),
        }
    }

    /// Where the job stands, encoded; what ended last is left out as far as there is no room.
    fn live(&self, standing: &Standing) -> Vec<u8> {
        let mut live = self.standing(standing);
        loop {
            let encoded = encode(&live);
            if encoded.len() <= Live::MOST_BYTES {
                return encoded;
            }
            if !live.recent.is_empty() {
                live.recent.drain(..live.recent.len().div_ceil(2));
            } else if live.former.pop().is_none() && live.top_errors.pop().is_none() {
                live.timeline = prs_common::statistics::Timeline::new(standing.started_us);
            }
        }
    }

    /// Where the job stands.
    pub(crate) fn standing(&self, standing: &Standing) -> Live {
        let Standing { spec, state, reason, status, nodes, started_us, now_us } = *standing;
        let progress = &status.progress;
        let present = nodes.iter().filter(|node| !node.left);
        let in_hand: u64 = present.clone().map(|node| node.report.in_hand).sum();
        let open = progress.checkpoint.scheduled.saturating_sub(progress.ended());
        let in_flight = if state.is_final() { 0 } else { in_hand.min(open) };
        let lost = nodes.iter().filter(|node| node.left && node.report.in_hand > 0).count();
        let end = progress.conclusion.as_ref().filter(|_| !state.is_final());
        let former = self.former.values().rev().take(Live::MOST_FORMER).rev().cloned().collect();
        Live {
            written_us: now_us,
            incarnation: self.incarnation,
            started_us,
            seconds: status.seconds,
            state: state.as_str().to_owned(),
            phase: self.phase(state, status, open, in_flight).to_owned(),
            reason: cut(reason, REASON).to_owned(),
            scheduled: progress.checkpoint.scheduled,
            is_planned: progress.checkpoint.complete,
            succeeded: progress.succeeded,
            failed: progress.failed,
            in_flight,
            waiting: open - in_flight,
            retried: self.totals.retried,
            items: progress.checkpoint.items,
            items_succeeded: progress.items_succeeded,
            items_failed: progress.items_failed(),
            rows: self.totals.rows,
            bytes: self.totals.bytes,
            tries: self.totals.tries(),
            failed_tries: self.totals.failed(),
            node_losses: self.totals.by_status[prs_common::segment::TryStatus::NodeLost as usize],
            nodes: u64::from(status.nodes),
            nodes_wanted: if state.is_final() { 0 } else { wanted_nodes(spec.node_count, Some(progress)) },
            nodes_lost: lost as u64,
            processes: u64::from(status.processes),
            starting: u64::from(status.starting),
            slots: present.map(|node| u64::from(node.info.slots)).sum(),
            rates: RATES.map(|over_s| self.rate(over_s, now_us)).to_vec(),
            eta_s: status.eta_seconds.unwrap_or(-1.0),
            thresholds: self.thresholds(standing),
            init: init(status, nodes),
            last_outcome_us: self.last_outcome_us,
            top_errors: self.errors.top(Live::MOST_TOP_ERRORS),
            distinct_errors: self.errors.count(),
            timeline: self.timeline.clone(),
            former,
            recent: self.recent.iter().cloned().collect(),
            running: if state.is_final() { Vec::new() } else { self.running.clone() },
            followed: self.followed,
            committed: progress.segments,
            ends_as: end.map(|end| end.state.as_str().to_owned()).unwrap_or_default(),
            ends_why: end.map(|end| cut(&end.reason, ERROR).to_owned()).unwrap_or_default(),
            lately: self.lately(started_us, now_us),
            signs: signs(
                &self.run,
                &self.nodes.published(now_us, Nodes::MOST_BYTES),
                state.is_final(),
                now_us,
            ),
        }
    }

    /// Notes which limits are nearly reached, and since when.
    pub(crate) fn note_limits(&mut self, standing: &Standing) {
        for (limit, near_us) in thresholds(standing.spec, standing.status).iter().zip(&mut self.near_us) {
            *near_us = match (limit.is_near(), *near_us) {
                (false, _) => 0,
                (true, 0) => standing.now_us,
                (true, since_us) => since_us,
            };
        }
    }

    fn thresholds(&self, standing: &Standing) -> Vec<Threshold> {
        let limits = thresholds(standing.spec, standing.status).into_iter().zip(self.near_us);
        limits.map(|(limit, near_us)| Threshold { near_us, ..limit }).collect()
    }

    /// Items that got their outcome in each step of the last minutes.
    fn lately(&self, started_us: u64, now_us: u64) -> Lately {
        if now_us.saturating_sub(started_us) < OLD {
            return Lately::default();
        }
        let step_us = u64::from(LATELY_STEP) * 1_000_000;
        let end_us = now_us / step_us * step_us;
        let from_us = end_us.saturating_sub(Live::MOST_LATELY as u64 * step_us);
        // The counts are in the order of their times.
        let until = |at_us: u64| {
            let at = self.counts.partition_point(|count| count.at_us <= at_us);
            self.counts.get(at.saturating_sub(1)).map_or(0, |count| count.items)
        };
        let step =
            |at: u64| until(from_us + (at + 1) * step_us).saturating_sub(until(from_us + at * step_us));
        Lately { from_us, step_s: LATELY_STEP, items: (0..Live::MOST_LATELY as u64).map(step).collect() }
    }

    /// What got its outcome a second over the last time.
    fn rate(&self, over_s: u64, now_us: u64) -> Rate {
        let earliest_us = now_us.saturating_sub(over_s * 1_000_000);
        let first = self.counts.iter().find(|count| count.at_us >= earliest_us);
        let (Some(first), Some(last)) = (first, self.counts.back()) else { return Rate::default() };
        let seconds = (last.at_us - first.at_us) as f64 / 1e6;
        let of = |count: fn(&Count) -> u64| {
            // A ledger that was lost has counted less for a while.
            let more = count(last).saturating_sub(count(first));
            if seconds > 0.0 { more as f64 / seconds } else { 0.0 }
        };
        Rate {
            over_s: seconds,
            per_second: of(|count| count.ended),
            items_per_second: of(|count| count.items),
        }
    }

    fn phase(&self, state: JobState, status: &Status, open: u64, in_flight: u64) -> &'static str {
        let is_planned = status.progress.checkpoint.complete;
        match state {
            JobState::Completed | JobState::Failed | JobState::Canceled => "",
            JobState::Finalizing => "assembling",
            _ if status.nodes == 0 => "waiting_for_nodes",
            _ if !is_planned && status.progress.checkpoint.scheduled == 0 => "planning",
            _ if !status.is_ready => "init",
            _ if is_planned && open > 0 && open == self.open.len() as u64 => "retrying",
            _ if is_planned && open == 0 && in_flight == 0 => "assembling",
            _ => "processing",
        }
    }
}

/// The limits of the job, and what counts.
fn thresholds(spec: &JobSpec, status: &Status) -> [Threshold; LIMITS] {
    let progress = &status.progress;
    let (items, failed) = (progress.items_failed(), progress.failed);
    let percent = match progress.checkpoint.scheduled {
        0 => 0,
        scheduled => failed.saturating_mul(100) / scheduled,
    };
    let of = |name: &str, limit, used| Threshold { name: name.to_owned(), limit, used, near_us: 0 };
    let of_percent =
        if spec.allowed_failed_percent >= 100.0 { -1 } else { spec.allowed_failed_percent as i64 };
    [
        of("error_threshold", spec.error_threshold, items),
        of("allowed_failed_count", spec.allowed_failed_count, failed),
        of("allowed_failed_percent", of_percent, percent),
    ]
}

fn init(status: &Status, nodes: &[NodeView]) -> InitState {
    let last = nodes.iter().rev().find(|node| node.report.init_error.is_some());
    let failed = nodes.iter().filter(|node| node.report.init_failures > 0);
    let error = last.and_then(|node| node.report.init_error.as_deref()).unwrap_or_default();
    InitState {
        failures: u64::from(status.init_failures),
        is_ready: status.is_ready,
        fails_to_import: failed.clone().count() > 0 && failed.clone().all(|node| node.report.fails_to_import),
        error: cut(error, ERROR).to_owned(),
        node_id: last.map_or(0, |node| node.node_id),
        preparing: cut(status.preparing.as_deref().unwrap_or_default(), TEXT).to_owned(),
    }
}
