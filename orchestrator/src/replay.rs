//! What an orchestrator writes about the tries of a job, made of the indexes of segments alone: for tests and benchmarks of what reads it.
//! A job of a million mini-batches on hundreds of nodes is there within seconds, and nobody ran it.
//!
//! It fills the same aggregates in the same order as the catalog of segments does. It deliberately does not: read segments, write
//! the record or a result, or speak to a ledger.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use prs_common::layout;
use prs_common::ledger::NodeView;
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{SegmentIndex, TryRecord, TryStatus};
use prs_common::statistics::{FOLDER, NAMES};
use prs_common::tree;

use crate::JobRecord;
use crate::job::errors::ErrorSummary;
use crate::report::error_list::{self, ErrorList};
use crate::report::statistics::{Seen, Standing, Statistics};
use crate::report::try_table::{Known, TryTable, had_failed};

/// The tries of one start of a job, one segment after the other.
#[derive(Debug)]
pub struct Replay {
    statistics: Statistics,
    /// With the folder of the job; nothing where all of it stays in memory.
    tries: Option<(TryTable, PathBuf)>,
    errors: ErrorSummary,
    /// Mini-batches with a failed try.
    failed: HashSet<MiniBatchIndex>,
}

impl Replay {
    /// Nothing yet of the start of a job that began at `started_us` (microseconds since the Unix epoch), in its `folder`: a run folder, or
    /// what has the form of one.
    ///
    /// # Errors
    /// The folder of the logs cannot be made.
    pub fn new(folder: &Path, incarnation: u32, started_us: u64) -> io::Result<Self> {
        let logs = folder.join(layout::LOGS);
        tree::make_folders(logs.join(FOLDER))?;
        let tries = Some((TryTable::create(&logs, incarnation)?, folder.to_owned()));
        Ok(Self { tries, ..Self::in_memory(incarnation, started_us) })
    }

    /// The same without the table of tries, which is a file: the aggregates alone. [`Self::write`] writes nothing of it.
    pub fn in_memory(incarnation: u32, started_us: u64) -> Self {
        Self {
            statistics: Statistics::new(incarnation, started_us),
            tries: None,
            errors: ErrorSummary::default(),
            failed: HashSet::new(),
        }
    }

    /// Takes in the tries of the next segment.
    pub fn add(&mut self, index: &SegmentIndex) {
        let is_outcome = |record: &TryRecord| record.last;
        self.statistics.add(index, is_outcome);
        let failed = &self.failed;
        if let Some((tries, _)) = &mut self.tries {
            tries.add(index, |record| Known {
                is_outcome: is_outcome(record),
                had_failed: had_failed(record, |index| failed.contains(&index)),
                is_duplicate: false,
            });
        }
        for record in index.tries.iter().filter(|record| record.status != TryStatus::RunDone) {
            self.errors.add(index, record, is_outcome(record));
            self.failed.insert(record.index);
        }
    }

    /// Takes in what nodes say at a time, when so many mini-batches are planned and have their outcome.
    pub fn observe(&mut self, nodes: &[NodeView], scheduled: u64, ended: u64, now_us: u64) {
        self.statistics.observe(nodes, Seen { scheduled, ended, items: ended }, now_us);
    }

    /// The parts of the statistics by their names, of a job with this record and these nodes.
    pub fn parts(&self, record: &JobRecord, nodes: &[NodeView], now_us: u64) -> Vec<(&'static str, Vec<u8>)> {
        let reason = record.result.as_ref().and_then(|result| result.reason.as_deref());
        let standing = Standing {
            spec: &record.spec,
            state: record.state,
            reason: reason.unwrap_or_default(),
            status: &record.status,
            nodes,
            started_us: record.started_us,
            now_us,
        };
        let part = |name| Some((name, self.statistics.part(name, &standing)?));
        NAMES.into_iter().filter_map(part).collect()
    }

    /// Writes the statistics, the directory of tries and the list of errors among the logs of the job.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&mut self, record: &JobRecord, nodes: &[NodeView], now_us: u64) -> io::Result<()> {
        let parts = self.parts(record, nodes, now_us);
        let Some((tries, folder)) = &mut self.tries else { return Ok(()) };
        let logs = folder.join(layout::LOGS);
        for (name, part) in parts {
            tree::write(logs.join(FOLDER).join(name), part)?;
        }
        tries.write_directory(folder, true);
        let list = ErrorList::new(&self.errors, Vec::new());
        tree::write(logs.join(error_list::NAME), serde_json::to_vec(&list)?)
    }

    /// Tries that failed so far.
    pub fn failed_tries(&self) -> u64 {
        self.errors.failed_tries()
    }
}
