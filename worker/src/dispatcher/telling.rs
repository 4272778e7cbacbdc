//! What the heartbeat says of the processes of a node.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use prs_common::ledger::{MOST_LONGEST, PrintedLine, RunningTry};

use super::Dispatcher;
use crate::dispatcher::slot::{Hang, Running, Slot, running, running_mut};
use crate::process::printed;

/// Between two looks at what processes print.
const PRINTED_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks at what they run.
const BUSY_INTERVAL: Duration = Duration::from_millis(100);

impl Dispatcher<'_> {
    /// Tells the heartbeat how the node is.
    pub(super) fn tell(&self) {
        let processes = running(&self.slots).count() as u32;
        let starting = self.starting().count() as u32;
        let hangs = |one: &Running| one.is_starting() && one.hang == Hang::Told;
        let is_stuck = |slot: &Slot| slot.running.as_ref().is_some_and(hangs);
        let stuck = self.slots.iter().all(is_stuck);
        let hung = self.slots.iter().all(|slot| slot.hung || is_stuck(slot));
        self.with.report_tx.send_modify(|report| {
            report.processes = processes;
            report.starting = starting;
            report.stuck_in_init = stuck;
            report.hung_in_init = hung;
            if starting == 0 {
                report.printed = None;
            }
        });
    }

    /// Tells it now and then what the processes print that are starting.
    pub(super) fn tell_printed(&mut self, now: Instant) {
        let is_due = self.printed_at.is_none_or(|at| now.saturating_duration_since(at) >= PRINTED_INTERVAL);
        if !is_due || self.starting().next().is_none() {
            return;
        }
        self.printed_at = Some(now);
        let node_id = self.launch.node_id;
        let line = printed::last(self.starting().map(|one| (one, &one.printed)));
        let line = line.map(|(running, at_us, line)| PrintedLine {
            at_us,
            node_id,
            process: running.who.name.clone(),
            line,
        });
        self.with.report_tx.send_modify(|report| report.printed = line);
    }

    /// Tells it now and then how many processes have something to do, and what runs longest.
    pub(super) fn tell_busy(&mut self, now: Instant) {
        if self.busy_at.is_some_and(|at| now.saturating_duration_since(at) < BUSY_INTERVAL) {
            return;
        }
        self.busy_at = Some(now);
        let busy = running(&self.slots).filter(|one| !one.is_starting() && !one.in_hand.is_empty()).count();
        let tries = running_mut(&mut self.slots).filter_map(|one| one.present_try(now));
        let mut longest: Vec<_> = tries
            .map(|(ready, since)| RunningTry { index: ready.index, age_ms: (now - since).as_millis() as u64 })
            .collect();
        longest.sort_by_key(|one| (Reverse(one.age_ms), one.index));
        longest.truncate(MOST_LONGEST);
        self.with.metrics.busy(busy);
        self.with.report_tx.send_modify(|report| {
            report.busy = busy as u32;
            report.longest = longest;
        });
    }

    /// Processes that import the script or are in `init()`.
    pub(super) fn starting(&self) -> impl Iterator<Item = &Running> {
        running(&self.slots).filter(|one| one.is_starting())
    }
}
