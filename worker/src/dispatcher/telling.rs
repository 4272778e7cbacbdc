//! What the heartbeat says of the processes of a node.

use std::time::{Duration, Instant};

use prs_common::ledger::PrintedLine;

use super::Dispatcher;
use crate::dispatcher::slot::{Hang, Running, Stage, running};
use crate::process::printed;

/// Between two looks at what processes print.
const PRINTED_INTERVAL: Duration = Duration::from_millis(500);

impl Dispatcher<'_> {
    /// Tells the heartbeat how the node is.
    pub(super) fn tell(&self) {
        let processes = running(&self.slots).count() as u32;
        let starting = self.starting().count() as u32;
        let stuck = self.starting().filter(|one| one.hang == Hang::Told).count();
        self.with.report_tx.send_modify(|report| {
            report.processes = processes;
            report.starting = starting;
            report.stuck_in_init = stuck == self.slots.len();
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

    /// Processes that import the script or are in `init()`.
    pub(super) fn starting(&self) -> impl Iterator<Item = &Running> {
        running(&self.slots).filter(|one| one.stage == Stage::Starting)
    }
}
