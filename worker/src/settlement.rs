//! A mini-batch between its delivery and its commit: ready to run, then tried, and what the reports will say of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prs_common::job::JobSpec;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, id_of};
use prs_common::process_page::Phase;
use prs_common::queue::Delivery;
use prs_common::segment::{ErrorDetail, ProcessRef, TryRecord, TryStatus};
use prs_common::source_line::SourceLine;
use prs_common::timestamp::now_us;
use prs_common::wire::{self, ErrorInfo, Outcome};

use crate::inputs::Pin;
use crate::process::silent_death;
use crate::slot::{Kill, Running};
use crate::stack::Stack;

/// A mini-batch that may run.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Where it came from; settled when its outcome is committed.
    pub(crate) delivery: Delivery,
    /// Which one it is.
    pub(crate) index: MiniBatchIndex,
    /// Tries that were spoiled before.
    pub(crate) spoiled: u32,
    /// Its descriptor, as the planner wrote it.
    pub(crate) planned: Bytes,
    /// The same for a process: everything it names is on this host.
    pub(crate) local: Bytes,
    /// Keeps its data on this host.
    pub(crate) pin: Pin,
    /// What the ledger calls its start; only one that was delivered before has it, see `suspects`.
    pub(crate) start: Option<String>,
    /// Nodes that were lost with it, as far as its start told.
    pub(crate) lost: u32,
    /// Counts it among those in hand.
    pub(crate) _held: Held,
}

/// Counts the mini-batches that a node has in hand.
#[derive(Debug, Clone, Default)]
pub(crate) struct InHand(Arc<AtomicU64>);

impl InHand {
    /// One more, until the guard is dropped.
    pub(crate) fn hold(&self) -> Held {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(self.clone())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One mini-batch in hand.
#[derive(Debug)]
pub(crate) struct Held(InHand);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A mini-batch whose try has ended, on its way to its commit.
#[derive(Debug)]
pub(crate) struct Settlement {
    /// The mini-batch.
    pub(crate) ready: Ready,
    /// How it ended.
    pub(crate) settle: Settle,
}

/// How a try ended.
#[derive(Debug)]
pub(crate) enum Settle {
    /// It succeeded, or the user's code spoiled it.
    Tried(Box<Tried>),
    /// It ran on too many nodes that were lost.
    NodesLost,
}

/// A try that ran.
#[derive(Debug)]
pub(crate) struct Tried {
    /// What the report says of it; `number`, `last` and `files` are filled in by the committer.
    pub(crate) record: TryRecord,
    /// The process that ran it.
    pub(crate) process: Arc<ProcessRef>,
    /// Position in the life of the process.
    pub(crate) seq: u32,
    /// Its rows.
    pub(crate) rows: Bytes,
    /// Files it wrote, `/`-separated, below the folder `seq` of `staging`.
    pub(crate) files: Vec<String>,
    /// Where the process stages files.
    pub(crate) staging: Arc<Path>,
    /// What more is known of its error, or of items that are missing.
    pub(crate) error: Option<Box<ErrorDetail>>,
}

impl Tried {
    /// Why it failed; without a traceback.
    pub(crate) fn error(&self) -> ErrorInfo {
        ErrorInfo {
            stage: wire::Stage::Run,
            category: self.record.category.clone(),
            message: self.record.message.clone(),
            traceback: String::new(),
            frame: self.error.as_ref().and_then(|error| error.frame.clone()).map(Box::new),
        }
    }

    /// Whether no server needs to be asked before it is committed.
    pub(crate) fn is_prepared(&self) -> bool {
        self.record.status == TryStatus::RunDone && self.files.is_empty()
    }
}

fn new_record(ready: &Ready) -> TryRecord {
    TryRecord::new(ready.index, &ready.planned, TryStatus::RunDone)
}

/// The record of a mini-batch that no node survives.
pub(crate) fn nodes_lost(ready: &Ready) -> TryRecord {
    TryRecord {
        number: ready.spoiled + 1,
        started_us: now_us(),
        items: planned_items(ready),
        category: "NodeLost".to_owned(),
        message: "the node was lost each time it ran this mini-batch, as often as allowed".to_owned(),
        ..TryRecord::new(ready.index, &ready.planned, TryStatus::NodeLost)
    }
}

fn planned_items(ready: &Ready) -> u64 {
    MiniBatch::decode(&ready.planned).map_or(0, |mini_batch| mini_batch.items())
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

/// The settlement of a try that the process reported, with its rows.
pub(crate) fn settle_outcome(
    running: &mut Running,
    ready: Ready,
    outcome: Outcome,
    rows: Bytes,
) -> Settlement {
    let mut record = new_record(&ready);
    record.started_us = outcome.started_us;
    record.elapsed_us = outcome.elapsed_us;
    record.cpu_us = outcome.cpu_us;
    record.run_us = outcome.run_us;
    record.items = outcome.items;
    let mut error = None;
    match outcome.error {
        None => {
            record.returned = outcome.returned;
            record.succeeded = outcome.returned.min(outcome.items);
            record.header = outcome.header;
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
            record.items = if outcome.items > 0 { outcome.items } else { planned_items(&ready) };
            let what = format!("{} try {}", id_of(ready.index), ready.spoiled + 1);
            running.log.error(&what, outcome.started_us, &told);
        }
    }
    running.log.note(&record);
    let rows = if record.status == TryStatus::RunDone { rows } else { Bytes::new() };
    settlement(running, outcome.seq, ready, (record, error), rows, outcome.files)
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

/// The settlement of the mini-batch that a process was running when it died.
pub(crate) fn settle_death(
    spec: &JobSpec,
    running: &mut Running,
    seq: u32,
    ready: Ready,
    death: Death,
) -> Settlement {
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
    settlement(running, seq, ready, (record, Some(detail)), Bytes::new(), Vec::new())
}

fn timeout(what: &str, key: &str, seconds: u64) -> ErrorInfo {
    let message = format!(
        "{what} took longer than {key} ({seconds} s); the process was killed (a larger {key} gives it more time)"
    );
    ErrorInfo::new(wire::Stage::Run, "Timeout", message)
}

fn settlement(
    running: &Running,
    seq: u32,
    ready: Ready,
    (record, error): (TryRecord, Option<ErrorDetail>),
    rows: Bytes,
    files: Vec<String>,
) -> Settlement {
    let (process, staging) = (Arc::clone(&running.who), Arc::clone(&running.staging));
    let error = error.map(Box::new);
    Settlement {
        ready,
        settle: Settle::Tried(Box::new(Tried { record, process, seq, rows, files, staging, error })),
    }
}
