//! The outcome of a try that has ended, by the process's report or by its death (spec section 4).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prs_common::job::JobSpec;
use prs_common::mini_batch::id_of;
use prs_common::process_page::Phase;
use prs_common::segment::{ErrorDetail, TryRecord, TryStatus};
use prs_common::source_line::SourceLine;
use prs_common::timestamp::now_us;
use prs_common::wire::{self, ErrorInfo};

use super::slot::{Kill, Running};
use crate::commit::outcome::{Ended, Outcome, Ready, Tried, planned_items};
use crate::process::silent_death;
use crate::process::stack::Stack;

fn new_record(ready: &Ready) -> TryRecord {
    TryRecord::new(ready.index, &ready.planned, TryStatus::RunDone)
}

fn fail(record: &mut TryRecord, status: TryStatus, error: &ErrorInfo) -> ErrorDetail {
    record.status = status;
    record.category.clone_from(&error.category);
    record.message.clone_from(&error.message);
    ErrorDetail::new(&error.category, error.frame.as_deref().cloned(), &error.traceback)
}

/// Class of the error that fewer elements came back than there were items.
const RETURNED_TOO_FEW: &str = "ReturnedTooFew";

/// Notes that items are missing (spec E7): the try stands, and is not made again.
fn miss(record: &mut TryRecord, run: Option<SourceLine>) -> ErrorDetail {
    let (items, returned) = (record.items, record.returned);
    let elements = if returned == 1 { "element" } else { "elements" };
    RETURNED_TOO_FEW.clone_into(&mut record.category);
    record.message = format!("run() returned {returned} {elements} for {items} items");
    ErrorDetail::new(RETURNED_TOO_FEW, run, "")
}

/// The outcome of a try that the process reported, with its rows.
pub(crate) fn reported(running: &mut Running, ready: Ready, report: wire::Outcome, rows: Bytes) -> Outcome {
    let mut record = new_record(&ready);
    record.started_us = report.started_us;
    record.elapsed_us = report.elapsed_us;
    record.cpu_us = report.cpu_us;
    record.run_us = report.run_us;
    record.items = report.items;
    let mut error = None;
    match report.error {
        None => {
            record.returned = report.returned;
            record.succeeded = report.returned.min(report.items);
            record.header = report.header;
            if record.succeeded < record.items {
                error = Some(miss(&mut record, running.run.clone()));
            }
        }
        Some(mut told) => {
            let loading = told.stage == wire::Stage::Load;
            if !loading && told.frame.is_none() {
                told.frame = running.run.clone().map(Box::new);
            }
            let status = if loading { TryStatus::LoadException } else { TryStatus::RunException };
            error = Some(fail(&mut record, status, &told));
            record.items = if report.items > 0 { report.items } else { planned_items(&ready) };
            let what = format!("{} try {}", id_of(ready.index), ready.spoiled + 1);
            running.log.error(&what, report.started_us, &told);
        }
    }
    running.log.note(&record);
    let rows = if record.status == TryStatus::RunDone { rows } else { Bytes::new() };
    outcome_of(running, report.seq, ready, (record, error), rows, report.files)
}

/// How a process died.
pub(crate) struct Death {
    /// As Python's `subprocess` says it.
    pub(crate) returncode: i32,
    /// What it was doing.
    pub(crate) phase: Phase,
    /// For how long.
    pub(crate) long: Duration,
    /// Input items of the mini-batch, 0 where unknown.
    pub(crate) items: u64,
    /// Where it was.
    pub(crate) stack: Stack,
}

/// The outcome of the mini-batch that a process was running when it died.
pub(crate) fn died(spec: &JobSpec, running: &mut Running, seq: u32, ready: Ready, death: Death) -> Outcome {
    let mut record = new_record(&ready);
    let (status, mut error) = match running.killed {
        Some(Kill::RunTimeout) => {
            (TryStatus::RunTimeout, timeout("run()", "run_invocation_timeout", spec.run_invocation_timeout))
        }
        Some(Kill::LoadTimeout) => (
            TryStatus::LoadTimeout,
            timeout("reading the data", "task_overhead_timeout", spec.task_overhead_timeout),
        ),
        _ => {
            let during = "while it ran this mini-batch";
            (TryStatus::ProcessDied, silent_death(wire::Stage::Run, death.returncode, during))
        }
    };
    (error.traceback, error.frame) = (death.stack.text, death.stack.frame.map(Box::new));
    running.sources.name(&mut error);
    let detail = fail(&mut record, status, &error);
    let long = death.long.as_micros() as u64;
    record.started_us = now_us().saturating_sub(long);
    record.elapsed_us = long;
    record.run_us = if death.phase == Phase::Running { long } else { 0 };
    record.items = if death.items > 0 { death.items } else { planned_items(&ready) };
    let what = format!("{} try {}", id_of(ready.index), ready.spoiled + 1);
    running.log.error(&what, now_us(), &error);
    running.log.note(&record);
    running.log.flush();
    outcome_of(running, seq, ready, (record, Some(detail)), Bytes::new(), Vec::new())
}

fn timeout(what: &str, key: &str, seconds: u64) -> ErrorInfo {
    let message = format!(
        "{what} took longer than {key} ({seconds} s); the process was killed (a larger {key} gives it more time)"
    );
    ErrorInfo::new(wire::Stage::Run, "Timeout", message)
}

fn outcome_of(
    running: &Running,
    seq: u32,
    ready: Ready,
    (record, error): (TryRecord, Option<ErrorDetail>),
    rows: Bytes,
    files: Vec<String>,
) -> Outcome {
    let (process, staging) = (Arc::clone(&running.who), Arc::clone(&running.staging));
    let error = error.map(Box::new);
    Outcome {
        ready,
        ended: Ended::Tried(Box::new(Tried { record, process, seq, rows, files, staging, error })),
    }
}
