//! The logs of one process that the agent writes: its mini-batches, and full tracebacks (spec section 5).

use std::fmt::Write;
use std::path::Path;

use prs_common::log_file::LogFile;
use prs_common::mini_batch::id_of;
use prs_common::segment::TryRecord;
use prs_common::timestamp::{format_us, push_seconds, push_us};
use prs_common::wire::ErrorInfo;

/// The logs of one process.
#[derive(Debug)]
pub(crate) struct ProcessLog {
    mini_batches: LogFile,
    errors: LogFile,
    lines: String,
}

impl ProcessLog {
    /// Below `logs`, for process `name` of a node.
    pub(crate) fn new(logs: &Path, node_id: u32, name: &str) -> Self {
        Self {
            mini_batches: LogFile::new(logs.join(format!("sys/node/{node_id}/{name}.txt"))),
            errors: LogFile::new(logs.join(format!("user/error/{node_id}/{name}.txt"))),
            lines: String::new(),
        }
    }

    /// A line about the process itself.
    pub(crate) fn line(&self, text: impl std::fmt::Display) {
        self.mini_batches.line(text);
    }

    /// Notes a try; visible after [`ProcessLog::flush`].
    pub(crate) fn note(&mut self, record: &TryRecord) {
        let lines = &mut self.lines;
        push_us(lines, record.started_us);
        let _ = write!(lines, " {} {} duration ", id_of(record.index), record.status.as_str());
        push_seconds(lines, record.elapsed_us);
        lines.push_str(" process ");
        push_seconds(lines, record.cpu_us);
        lines.push_str(" run ");
        push_seconds(lines, record.run_us);
        let failed = record.items - record.succeeded;
        let _ = writeln!(lines, " items {} succeeded {} failed {failed}", record.items, record.succeeded);
    }

    /// Writes what was noted.
    pub(crate) fn flush(&mut self) {
        if !self.lines.is_empty() {
            self.mini_batches.append(&self.lines);
            self.lines.clear();
        }
    }

    /// Writes an error with its traceback.
    pub(crate) fn error(&self, what: &str, at_us: u64, error: &ErrorInfo) {
        let details = if error.traceback.is_empty() { &error.message } else { &error.traceback };
        let mut text =
            format!("{} {what}: {}: {}\n{details}", format_us(at_us), error.category, error.message);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push('\n');
        self.errors.append(&text);
    }
}
