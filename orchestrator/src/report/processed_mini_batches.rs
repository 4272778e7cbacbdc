//! `sys/job_report/processed_mini-batches.csv`: a row for every try.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use prs_common::mini_batch::{MiniBatchIndex, id_of};
use prs_common::segment::SegmentIndex;
use prs_common::timestamp::push_us;
use prs_common::tree;

use super::{push_csv, push_durations};

/// The column names, in the words of ParallelRunStep.
const COLUMNS: &str = "Mini-batch Id,Picked Count,Node Id,Process,Process Id,Ip,Start Time,Total,Succeeded,Failed,\
Elapsed Seconds,Process Seconds,Run Method Seconds,Status,Error Category,Error Message,Mini-batch Detail\n";

/// Category and message of an outcome that does not count.
pub(super) const NOT_FIRST: (&str, &str) =
    ("Duplicate", "another node was first with this mini-batch; this outcome does not count");

/// The report, being written.
#[derive(Debug)]
pub struct ProcessedMiniBatches {
    file: BufWriter<File>,
    line: String,
}

impl ProcessedMiniBatches {
    /// Begins the report at `path` anew.
    pub fn create(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            tree::make_folders(folder)?;
        }
        let mut file = BufWriter::with_capacity(256 << 10, tree::create(path)?);
        file.write_all(COLUMNS.as_bytes())?;
        Ok(Self { file, line: String::new() })
    }

    /// Adds the tries of a segment, all at once. The outcomes of the mini-batches in `duplicates` do not count: another node that ran
    /// them, too, was first.
    pub fn add(&mut self, index: &SegmentIndex, duplicates: &[MiniBatchIndex]) {
        // What parts make together is told by the parts.
        for record in index.tries.iter().filter(|record| record.put_together().is_none()) {
            let process = &index.processes[record.process as usize];
            let line = &mut self.line;
            line.clear();
            let failed = record.items - record.succeeded;
            let _ = write!(
                line,
                "{},{},{},{},{},{},",
                id_of(record.index),
                record.number,
                index.node_id,
                process.name,
                process.pid,
                index.ip
            );
            push_us(line, record.started_us);
            let _ = write!(line, ",{},{},{failed}", record.items, record.succeeded);
            push_durations(line, [record.elapsed_us, record.cpu_us, record.run_us]);
            let is_duplicate = record.last && duplicates.contains(&record.index);
            let error = if is_duplicate { NOT_FIRST } else { (&*record.category, &*record.message) };
            for field in [record.status.as_str(), error.0, error.1, &record.detail] {
                push_csv(line, field);
            }
            line.push('\n');
            if let Err(error) = self.file.write_all(line.as_bytes()) {
                tracing::warn!(%error, "a row of processed_mini-batches.csv is lost");
                return;
            }
        }
        if let Err(error) = self.file.flush() {
            tracing::warn!(%error, "rows of processed_mini-batches.csv are lost");
        }
    }
}
