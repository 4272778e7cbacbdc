//! From the end of a try to its settlement: what the reports will say of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prs_common::job::JobSpec;
use prs_common::mini_batch::{MiniBatch, checksum, id_of};
use prs_common::process_page::Phase;
use prs_common::segment::{TryRecord, TryStatus};
use prs_common::timestamp::now_us;
use prs_common::wire::{self, ErrorInfo};

use crate::committer::{Settle, Settlement, Tried};
use crate::intake::Ready;
use crate::process::{OwnedOutcome, silent_death};
use crate::slot::{Kill, Running};

/// A record of a try with what the descriptor tells.
fn new_record(ready: &Ready) -> TryRecord {
    let body = &ready.delivery.body;
    let detail = MiniBatch::decode(body).map(|mini_batch| mini_batch.detail()).unwrap_or_default();
    TryRecord {
        index: ready.index,
        checksum: checksum(body),
        number: 0,
        status: TryStatus::RunDone,
        last: false,
        process: 0,
        started_us: 0,
        elapsed_us: 0,
        cpu_us: 0,
        run_us: 0,
        items: 0,
        succeeded: 0,
        returned: 0,
        category: String::new(),
        message: String::new(),
        detail,
        offset: 0,
        length: 0,
        header: None,
        files: Vec::new(),
        failed: None,
    }
}

fn planned_items(ready: &Ready) -> u64 {
    MiniBatch::decode(&ready.delivery.body).map_or(0, |mini_batch| mini_batch.items())
}

fn fail(record: &mut TryRecord, status: TryStatus, error: &ErrorInfo) {
    record.status = status;
    record.category.clone_from(&error.category);
    record.message.clone_from(&error.message);
}

/// The settlement of a try that the process reported.
pub(crate) fn settle_outcome(running: &mut Running, ready: Ready, outcome: OwnedOutcome) -> Settlement {
    let mut record = new_record(&ready);
    record.started_us = outcome.started_us;
    record.elapsed_us = outcome.elapsed_us;
    record.cpu_us = outcome.cpu_us;
    record.run_us = outcome.run_us;
    record.items = outcome.items;
    match &outcome.error {
        None => {
            record.returned = outcome.returned;
            record.succeeded = outcome.returned.min(outcome.items);
            record.header = outcome.header;
        }
        Some(error) => {
            let loading = error.stage == wire::Stage::Load;
            fail(
                &mut record,
                if loading { TryStatus::LoadException } else { TryStatus::RunException },
                error,
            );
            record.items = if outcome.items > 0 { outcome.items } else { planned_items(&ready) };
            let what = format!("{} try {}", id_of(ready.index), ready.spoiled + 1);
            running.log.error(&what, outcome.started_us, error);
        }
    }
    running.log.note(&record);
    let rows = if outcome.error.is_none() { outcome.rows } else { Bytes::new() };
    settlement(running, outcome.seq, ready, record, rows, outcome.files)
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
}

/// The settlement of the mini-batch that a process was running when it died.
pub(crate) fn settle_death(
    spec: &JobSpec,
    running: &mut Running,
    seq: u32,
    ready: Ready,
    death: &Death,
) -> Settlement {
    let mut record = new_record(&ready);
    let (status, error) = match running.killed {
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
    fail(&mut record, status, &error);
    let long = death.long.as_micros() as u64;
    record.started_us = now_us().saturating_sub(long);
    record.elapsed_us = long;
    record.run_us = if death.phase == Phase::Running { long } else { 0 };
    record.items = if death.items > 0 { death.items } else { planned_items(&ready) };
    let what = format!("{} try {}", id_of(ready.index), ready.spoiled + 1);
    running.log.error(&what, now_us(), &error);
    running.log.note(&record);
    running.log.flush();
    settlement(running, seq, ready, record, Bytes::new(), Vec::new())
}

fn timeout(what: &str, key: &str, seconds: u64) -> ErrorInfo {
    ErrorInfo {
        stage: wire::Stage::Run,
        category: "Timeout".to_owned(),
        message: format!("{what} took longer than {key} ({seconds} s); the process was killed"),
        traceback: String::new(),
    }
}

fn settlement(
    running: &Running,
    seq: u32,
    ready: Ready,
    record: TryRecord,
    rows: Bytes,
    files: Vec<String>,
) -> Settlement {
    let (process, staging) = (Arc::clone(&running.who), Arc::clone(&running.staging));
    Settlement {
        ready,
        settle: Settle::Tried(Box::new(Tried { record, process, seq, rows, files, staging })),
    }
}
