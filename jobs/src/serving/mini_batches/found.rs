//! A try as it was found, and how it is written.

use std::fmt::Write as _;

use prs_common::mini_batch::id_of;
use prs_common::segment::TryStatus;
use prs_common::timestamp::{format_us, push_seconds};
use prs_common::try_table::{Block, Row};
use serde::Serialize;

/// The columns of a try as CSV: those of `processed_mini-batches.csv`.
pub const CSV_COLUMNS: &str = "Mini-batch Id,Picked Count,Node Id,Process,Process Id,Ip,Start Time,Total,Succeeded,Failed,\
Elapsed Seconds,Process Seconds,Run Method Seconds,Status,Error Category,Error Message,Mini-batch Detail\n";

/// A range of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Range {
    /// The log, below `logs/`.
    pub path: String,
    /// Where it begins, bytes.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
}

/// What a try printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrintedRanges {
    /// On standard output; null where that is nothing.
    pub stdout: Option<Range>,
    /// On standard error.
    pub stderr: Option<Range>,
}

/// A try.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FoundTry {
    /// The mini-batch, from 0.
    pub index: u64,
    /// The same as the reports have it.
    pub id: String,
    /// Which try it was, from 1.
    #[serde(rename = "try")]
    pub number: u32,
    /// The start of the job that it is of, from 1.
    pub incarnation: u32,
    /// How it ended: `RUN_DONE`, `RUN_EXCEPTION`, ...
    pub status: &'static str,
    /// Whether it is the outcome of its mini-batch.
    pub is_outcome: bool,
    /// `succeeded` or `failed` where it is the outcome; null where it is not.
    pub state: Option<&'static str>,
    /// The node.
    pub node_id: u32,
    /// Its address.
    pub ip: String,
    /// The process.
    pub process: String,
    /// Its id there.
    pub process_id: u32,
    /// When it began, by the clock of its node.
    pub started_at: String,
    /// All of it.
    pub elapsed_seconds: f64,
    /// CPU time.
    pub cpu_seconds: f64,
    /// Within `run()`.
    pub run_seconds: f64,
    /// Making the argument of `run()`.
    pub load_seconds: f64,
    /// Input items.
    pub items: u64,
    /// Those that succeeded.
    pub succeeded_items: u64,
    /// Elements that `run()` returned.
    pub output_rows: u64,
    /// Class of the error; null where there is none.
    pub category: Option<String>,
    /// Its message.
    pub message: Option<String>,
    /// Id of its error group.
    pub group: Option<String>,
    /// What the mini-batch consists of.
    pub detail: String,
    /// Where what it printed is; null where that is not known, or nothing.
    pub printed: Option<PrintedRanges>,
    /// The times of it, microseconds: when it began, all of it, until `run()`, within `run()`.
    #[serde(skip)]
    pub times_us: [u64; 4],
    #[serde(skip)]
    cpu_us: u64,
    /// Its input and items, as JSON, where the table has them.
    #[serde(skip)]
    pub(crate) named: Vec<u8>,
}

impl FoundTry {
    pub(super) fn new(block: &Block, row: Row) -> Self {
        let process = block.processes.get(row.process as usize).cloned().unwrap_or_default();
        let seconds = |us: u64| us as f64 / 1e6;
        let range = |(from, to): (u64, u64), stream: &str| {
            let path = format!("user/{stream}/{}/{}.{stream}.txt", block.node_id, process.name);
            (from < to).then_some(Range { path, from, to })
        };
        let printed = row.printed.map(|printed| PrintedRanges {
            stdout: range(printed.stdout, "stdout"),
            stderr: range(printed.stderr, "stderr"),
        });
        let text = |text: String| (!text.is_empty()).then_some(text);
        let status = row.status().map_or("UNKNOWN", TryStatus::as_str);
        let has_failed = row.has_failed();
        Self {
            index: row.index,
            id: id_of(row.index),
            number: row.number,
            incarnation: block.incarnation,
            status,
            is_outcome: row.is_outcome,
            state: row.is_outcome.then_some(if has_failed { "failed" } else { "succeeded" }),
            node_id: block.node_id,
            ip: block.ip.clone(),
            process: process.name,
            process_id: process.pid,
            started_at: format_us(row.started_us),
            elapsed_seconds: seconds(row.elapsed_us),
            cpu_seconds: seconds(row.cpu_us),
            run_seconds: seconds(row.run_us),
            load_seconds: seconds(row.load_us),
            items: row.items,
            succeeded_items: row.succeeded,
            output_rows: row.returned,
            category: text(row.category),
            message: text(row.message),
            group: text(row.group),
            detail: row.detail,
            printed,
            times_us: [row.started_us, row.elapsed_us, row.load_us, row.run_us],
            cpu_us: row.cpu_us,
            named: row.named.into_vec(),
        }
    }

    /// Whether it failed.
    pub fn has_failed(&self) -> bool {
        self.status != TryStatus::RunDone.as_str()
    }

    /// Appends it as a row of [`CSV_COLUMNS`], as `processed_mini-batches.csv` has it.
    pub fn push_csv(&self, csv: &mut String) {
        let [started, elapsed, _, run] = self.times_us;
        let _ = write!(
            csv,
            "{},{},{},{},{},{},{},{},{},{}",
            self.id,
            self.number,
            self.node_id,
            self.process,
            self.process_id,
            self.ip,
            format_us(started),
            self.items,
            self.succeeded_items,
            self.items.saturating_sub(self.succeeded_items)
        );
        for duration in [elapsed, self.cpu_us, run] {
            csv.push(',');
            push_seconds(csv, duration);
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        for field in [self.status, &text(&self.category), &text(&self.message), &self.detail] {
            prs_orchestrator::report::push_csv(csv, field);
        }
        csv.push('\n');
    }
}
