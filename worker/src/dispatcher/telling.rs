//! What the heartbeat says of the processes of a node.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::ledger::{
    HeldMiniBatch, MOST_DETAIL, MOST_LONGEST, MOST_PROCESSES, PrintedLine, ProcessExit, ProcessView,
    TryUnderWay,
};
use prs_common::mini_batch::MiniBatch;
use prs_common::process_page::monotonic_ns;
use prs_common::statistics::cut;
use prs_common::timestamp::now_us;

use super::Dispatcher;
use crate::dispatcher::slot::{Hang, Kill, Running, Slot, running, running_mut};
use crate::process::printed;

/// Between two looks at what processes print.
const PRINTED_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks at what they run.
const BUSY_INTERVAL: Duration = Duration::from_millis(100);
/// What has been under way for less is not described, milliseconds: it takes a look at the whole descriptor.
const DESCRIBED: u64 = 1_000;

/// What the heartbeat says that a process was killed for; nothing of one that ended by itself.
fn killed_for(running: &Running) -> &'static str {
    match running.killed {
        Some(Kill::RunTimeout) => "run_timeout",
        Some(Kill::LoadTimeout) => "load_timeout",
        Some(Kill::InitTimeout) => "init_timeout",
        Some(Kill::Memory(_)) => "memory",
        Some(Kill::ProtocolViolation) => "protocol",
        _ if running.init_failed => "init_failed",
        _ if running.is_used_up => "used_up",
        _ if running.replaced_at.is_some() => "replaced",
        Some(Kill::Stop) => "not_needed",
        Some(Kill::Superseded) => "superseded",
        None => "",
    }
}

impl Running {
    /// How it is, as the heartbeat tells it.
    fn view(&self, exit: Option<ProcessExit>) -> ProcessView {
        ProcessView {
            number: self.number,
            pid: self.who.pid,
            tries: self.tries,
            failed_tries: self.failed_tries,
            started_us: self.started_us,
            holds: self.holds.clone().filter(|_| exit.is_none()),
            exit,
        }
    }

    /// What it has under way, with the descriptor of each.
    fn under_way_for(&mut self, now: Instant) -> Vec<(TryUnderWay, Bytes)> {
        let process = Some(self.number);
        if self.is_concurrent() {
            let now_ns = monotonic_ns();
            let flights = self.under_way();
            let one = |flight: &prs_common::process_page::InFlight| {
                let place = self.in_hand.binary_search_by_key(&flight.seq, |(seq, _)| *seq).ok()?;
                let ready = &self.in_hand.get(place)?.1;
                let age_ms = now_ns.saturating_sub(flight.since_ns) / 1_000_000;
                let number = ready.failed_tries + 1;
                let told =
                    TryUnderWay { index: ready.index, age_ms, number, process, ..TryUnderWay::default() };
                Some((told, ready.planned.clone()))
            };
            return flights.iter().filter_map(one).collect();
        }
        let printed_from = Some(self.process.page.printed());
        let Some((ready, since)) = self.present_try(now) else { return Vec::new() };
        let told = TryUnderWay {
            index: ready.index,
            age_ms: (now - since).as_millis() as u64,
            number: ready.failed_tries + 1,
            process,
            detail: String::new(),
            printed_from,
        };
        vec![(told, ready.planned.clone())]
    }
}

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

    /// The processes that it tells of.
    fn each_process(&self) -> Vec<ProcessView> {
        let up = running(&self.slots).map(|running| running.view(None));
        ProcessView::bounded(up.chain(self.ended_processes.iter().cloned()), MOST_PROCESSES)
    }

    /// Notes for it how a process ended.
    pub(super) fn note_exit(&mut self, running: &Running, returncode: i32) {
        let killed_for = killed_for(running).to_owned();
        let exit = ProcessExit { at_us: now_us(), returncode, killed_for };
        self.ended_processes.push_back(running.view(Some(exit)));
        if self.ended_processes.len() > MOST_PROCESSES {
            self.ended_processes.pop_front();
        }
        let each_process = self.each_process();
        self.with.report_tx.send_modify(|report| report.each_process = each_process);
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
        let now_us = now_us();
        let mut longest = Vec::new();
        for one in running_mut(&mut self.slots) {
            let under_way = one.under_way_for(now);
            one.holds = under_way.iter().map(|(held, _)| held).max_by_key(|held| held.age_ms).map(|held| {
                let since_us = now_us.saturating_sub(held.age_ms * 1_000);
                HeldMiniBatch { index: held.index, since_us, of: under_way.len() as u64 }
            });
            longest.extend(under_way);
        }
        longest.sort_by_key(|(one, _)| (Reverse(one.age_ms), one.index));
        longest.truncate(MOST_LONGEST);
        let described = longest.into_iter().map(|(mut one, planned)| {
            if one.age_ms >= DESCRIBED
                && let Ok(planned) = MiniBatch::decode(&planned)
            {
                cut(&planned.detail(), MOST_DETAIL).clone_into(&mut one.detail);
            }
            one
        });
        let longest = described.collect();
        let each_process = self.each_process();
        self.with.metrics.busy(busy);
        self.with.report_tx.send_modify(|report| {
            report.busy = busy as u32;
            report.longest = longest;
            report.each_process = each_process;
        });
    }

    /// Processes that import the script or are in `init()`.
    pub(super) fn starting(&self) -> impl Iterator<Item = &Running> {
        running(&self.slots).filter(|one| one.is_starting())
    }
}
