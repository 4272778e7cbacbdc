//! The outcome of a try that has ended, by the process's report or by its death (spec section 4).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prs_common::job::JobSpec;
use prs_common::ledger::NodeReport;
use prs_common::mini_batch::id_of;
use prs_common::process_page::Phase;
use prs_common::segment::{ErrorDetail, Printed, TryRecord, TryStatus};
use prs_common::source_line::SourceLine;
use prs_common::timestamp::now_us;
use prs_common::wire::{self, ErrorInfo};
use tokio::sync::watch;

use super::slot::{Kill, Running};
use crate::commit::outcome::{Ended, Outcome, Ready, Tried};
use crate::process::seen_errors::{note_try, part_name, try_name};
use crate::process::stack::Stack;
use crate::process::{broken_socket, silent_death};

/// Class of the error that fewer elements came back than there were items.
const RETURNED_TOO_FEW: &str = "ReturnedTooFew";

/// Notes that items are missing (spec E7): the try stands, and is not made again.
fn miss(record: &mut TryRecord, run: Option<SourceLine>) -> ErrorDetail {
    let (items, returned) = (record.items, record.returned);
    let elements = if returned == 1 { "element" } else { "elements" };
    RETURNED_TOO_FEW.clone_into(&mut record.category);
    let of = if items == 1 { "item" } else { "items" };
    record.message = format!("run() returned {returned} {elements} for {items} {of}");
    ErrorDetail::new(RETURNED_TOO_FEW, run, "")
}

/// Makes the outcomes of ended tries, and tells the heartbeat of those that failed.
pub(super) struct EndedTries<'a> {
    pub(super) spec: &'a JobSpec,
    /// What the heartbeat says: the dispatcher writes, the heartbeat reads.
    pub(super) report_tx: &'a watch::Sender<NodeReport>,
}

impl EndedTries<'_> {
    /// The outcome of a try that the process reported, with its rows.
    pub(super) fn reported(
        &self,
        running: &mut Running,
        ready: Ready,
        report: wire::Outcome,
        rows: Bytes,
    ) -> Outcome {
        let mut record = TryRecord::new(ready.index, &ready.planned, TryStatus::RunDone);
        record.started_us = report.started_us;
        record.elapsed_us = report.elapsed_us;
        record.cpu_us = report.cpu_us;
        record.run_us = report.run_us;
        record.load_us = report.load_us;
        record.printed = report.printed;
        record.items = report.items;
        let mut error = None;
        // Of items that are missing the script says why; the try stands.
        let (missing, failed) = match report.error {
            Some(error) if error.stage == wire::Stage::Items => (Some(error), None),
            failed => (None, failed),
        };
        if let Some(mut told) = failed {
            self.note(&ready, &told);
            let status = match told.stage {
                wire::Stage::Load => TryStatus::LoadException,
                wire::Stage::Cancelled => TryStatus::RunTimeout,
                _ => TryStatus::RunException,
            };
            if told.stage != wire::Stage::Load {
                told.frame = told.frame.or_else(|| running.run.clone().map(Box::new));
            }
            error = Some(fail(&mut record, running, &ready, status, report.started_us, &told));
        } else {
            record.returned = report.returned;
            record.succeeded = report.returned.min(report.items);
            record.header = report.header;
            record.contents = report.contents;
            if record.succeeded < record.items {
                error = Some(match missing {
                    Some(told) => self.lack(&mut record, running, &ready, &told),
                    None => miss(&mut record, running.run.clone()),
                });
            }
        }
        running.log.note(&record);
        let rows = if record.status == TryStatus::RunDone { rows } else { Bytes::new() };
        outcome_of(running, report.seq, ready, (record, error), rows, report.files)
    }

    /// The outcome of the mini-batch that a process was running when it died.
    pub(super) fn died(&self, running: &mut Running, seq: u32, ready: Ready, death: Death) -> Outcome {
        let mut record = TryRecord::new(ready.index, &ready.planned, TryStatus::RunDone);
        let (status, mut error) = match running.killed {
            Some(Kill::RunTimeout) => {
                let limit = self.spec.run_invocation_timeout;
                (TryStatus::RunTimeout, timeout("run()", "run_invocation_timeout", limit))
            }
            Some(Kill::LoadTimeout) => {
                let limit = self.spec.task_overhead_timeout;
                (TryStatus::LoadTimeout, timeout("reading the data", "task_overhead_timeout", limit))
            }
            killed => {
                let during = "while it ran this mini-batch";
                let error = match (killed, &running.broken) {
                    (Some(Kill::Memory(largest)), _) => largest.explain(wire::Stage::Run, during),
                    (_, Some(why)) => broken_socket(wire::Stage::Run, why, during),
                    _ => silent_death(wire::Stage::Run, death.returncode, during),
                };
                (TryStatus::ProcessDied, error)
            }
        };
        (error.traceback, error.frame) = (death.stack.text, death.stack.frame.map(Box::new));
        running.sources.name(&mut error);
        self.note(&ready, &error);
        let long = death.long.as_micros() as u64;
        record.started_us = now_us().saturating_sub(long);
        record.elapsed_us = long;
        record.run_us = if death.phase == Phase::Running { long } else { 0 };
        record.load_us = if death.phase == Phase::Loading { long } else { 0 };
        record.items = death.items;
        let printed_until = running.printed.lengths();
        record.printed =
            printed_until.and_then(|until| Printed::between(running.process.page.printed(), until));
        let detail = fail(&mut record, running, &ready, status, now_us(), &error);
        running.log.note(&record);
        running.log.flush();
        outcome_of(running, seq, ready, (record, Some(detail)), Bytes::new(), Vec::new())
    }

    /// Notes why items are missing of a try that stands.
    fn lack(
        &self,
        record: &mut TryRecord,
        running: &Running,
        ready: &Ready,
        told: &ErrorInfo,
    ) -> ErrorDetail {
        self.note(ready, told);
        record.category.clone_from(&told.category);
        record.message.clone_from(&told.message);
        log(running, ready, record.started_us, told)
    }

    /// Tells the heartbeat of a try that failed by the user's code.
    fn note(&self, ready: &Ready, error: &ErrorInfo) {
        let name = || match ready.part() {
            Some(part) => part_name(ready.index, &ready.planned, &part),
            None => try_name(ready.index, &ready.planned, ready.failed_tries + 1, self.spec.run_max_try),
        };
        self.report_tx.send_modify(|report| note_try(report, error, name));
    }
}

/// Notes in its record and in the log that a try failed. Where the process did not say how many items it had, they are
/// those that were planned.
fn fail(
    record: &mut TryRecord,
    running: &Running,
    ready: &Ready,
    status: TryStatus,
    at_us: u64,
    error: &ErrorInfo,
) -> ErrorDetail {
    record.status = status;
    record.category.clone_from(&error.category);
    record.message.clone_from(&error.message);
    if record.items == 0 {
        record.items = ready.items();
    }
    log(running, ready, at_us, error)
}

/// Writes the error of a try to the log of its process.
fn log(running: &Running, ready: &Ready, at_us: u64, error: &ErrorInfo) -> ErrorDetail {
    let what = match ready.part() {
        Some(part) => format!("{} items {} to {}", id_of(ready.index), part.start, part.end - 1),
        None => format!("{} try {}", id_of(ready.index), ready.failed_tries + 1),
    };
    running.log.error(&what, at_us, error);
    ErrorDetail::new(&error.category, error.frame.as_deref().cloned(), &error.traceback)
}

/// How a process died.
pub(super) struct Death {
    /// As Python's `subprocess` says it.
    pub(super) returncode: i32,
    /// What it was doing.
    pub(super) phase: Phase,
    /// For how long.
    pub(super) long: Duration,
    /// Input items of the mini-batch, 0 where unknown.
    pub(super) items: u64,
    /// Where it was.
    pub(super) stack: Stack,
}

fn timeout(what: &str, key: &str, seconds: u64) -> ErrorInfo {
    let message = format!(
        "{what} took longer than {key} ({seconds} s); the process was killed (a larger {key} gives it more time)"
    );
    ErrorInfo::new(wire::Stage::Run, "Timeout", message)
}

/// The outcome of a try, which counts for its process.
fn outcome_of(
    running: &mut Running,
    seq: u32,
    mut ready: Ready,
    (mut record, error): (TryRecord, Option<ErrorDetail>),
    rows: Bytes,
    files: Vec<String>,
) -> Outcome {
    let has_failed = record.status != TryStatus::RunDone;
    running.tries += 1;
    running.failed_in_a_row.note(ready.index, has_failed);
    record.in_place_of = running.in_place_of.take();
    if has_failed {
        running.failed_tries += 1;
        ready.failed_in.push(running.number);
    }
    let (process, staging) = (Arc::clone(&running.who), Arc::clone(&running.staging));
    let error = error.map(Box::new);
    Outcome {
        ready,
        ended: Ended::Tried(Box::new(Tried { record, process, seq, rows, files, staging, error })),
    }
}
