//! The catalog: where the rows of every mini-batch are, and what the tries say, read from committed segments.
//!
//! It follows the ledger's list of segments, reads the index of each once, writes the report of tries on the
//! way, and keeps per mini-batch no more than where its rows are.

use std::collections::BTreeMap;
use std::sync::Arc;

use prs_common::file_content::ContentSum;
use prs_common::job::OutputFormat;
use prs_common::ledger::CommittedSegment;
use prs_common::mini_batch::{MiniBatchIndex, fingerprint};
use prs_common::segment::{OutputFile, SegmentIndex, TryRecord, TryStatus};

use crate::JobContext;
use crate::job::corrected_plan::PlanOrder;
use crate::job::errors::ErrorSummary;
use crate::job::findings::{Surplus, TryCounts};
use crate::plan::schedule::KnownChecksums;
use crate::report::processed_mini_batches::ProcessedMiniBatches;
use crate::report::statistics::Statistics;
use crate::report::summaries::Summaries;
use crate::report::try_table::{Known, TryTable, had_failed};
use crate::segments::damage::Damaged;
use crate::segments::durations::Durations;
use crate::segments::headers::Headers;
use crate::segments::kept_failures::KeptFailures;
use crate::segments::schemas::Schemas;

/// Mini-batches without some of their items that are remembered with their names. A script that leaves items out on
/// purpose does so all the time; those that failed are remembered all.
const MOST_SHORT: u64 = 100_000;

/// Where the rows of a mini-batch are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRange {
    /// Position in [`Catalog::segments`].
    pub(crate) segment: u32,
    /// Offset in the segment.
    pub(crate) offset: u64,
    /// Length, bytes; 0 for a mini-batch that failed.
    pub(crate) length: u64,
    /// CRC32C of the rows.
    pub(crate) crc: u32,
    /// Checksum of the descriptor.
    pub(crate) checksum: u32,
    /// Whether it succeeded; otherwise it failed for good.
    pub(crate) succeeded: bool,
}

/// The contiguous prefix of mini-batches that have their outcome.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prefix {
    /// The first mini-batch without one.
    pub(crate) end: usize,
    /// Rows of the mini-batches before it, bytes.
    pub(crate) bytes: u64,
}

/// Everything the finalizer needs to know of the committed segments.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    /// The present start of the job.
    pub(crate) incarnation: u32,
    /// Keys, by position.
    pub(crate) segments: Vec<Arc<str>>,
    /// Which start of the job wrote each of them.
    pub(crate) written_by: Vec<u32>,
    /// Elements that the outcomes of each start returned.
    pub(crate) returned_by: BTreeMap<u32, u64>,
    /// Where the rows of each mini-batch are, in input order.
    pub(crate) rows: Vec<Option<RowRange>>,
    /// Input order, where the indexes of mini-batches do not tell it.
    order: Option<Arc<PlanOrder>>,
    /// The mini-batches from the first on that all have their outcome.
    pub(crate) prefix: Prefix,
    /// Mini-batches whose outcome it has seen.
    pub(crate) outcomes: u64,
    /// Sum of the fingerprints of their descriptors.
    pub(crate) descriptors: u64,
    /// Elements returned by successful tries.
    pub(crate) returned: u64,
    /// Headers of the DataFrames that were returned.
    pub(crate) headers: Headers,
    /// Their columns, where the result is a Parquet file.
    pub(crate) schemas: Option<Schemas>,
    /// Segments that could not be read.
    pub(crate) damaged: Vec<Damaged>,
    /// Sum over the contents of local files that outcomes were made of.
    pub(crate) contents: ContentSum,
    /// Files to publish.
    pub(crate) files: Vec<(MiniBatchIndex, OutputFile)>,
    /// Mini-batches with failed tries.
    pub(crate) failures: KeptFailures,
    /// Mini-batches that succeeded without some of their items.
    short: u64,
    /// Mini-batches that failed for good.
    failed: u64,
    /// What was returned beyond the items.
    pub(crate) surplus: Surplus,
    /// Distinct errors.
    pub(crate) errors: ErrorSummary,
    /// How long tries took that succeeded.
    pub(crate) durations: Durations,
    /// Sums by process and by node.
    pub(crate) summaries: Summaries,
    /// What is published of the tries, and of what nodes say.
    pub(crate) statistics: Statistics,
    /// Written on the way.
    report: Option<ProcessedMiniBatches>,
    /// The same for programs, in parts.
    pub(crate) tries: Option<TryTable>,
}

impl Catalog {
    /// An empty catalog; the report is begun anew.
    pub(crate) fn new(
        job: &JobContext,
        started_us: u64,
        (report, tries): (ProcessedMiniBatches, Option<TryTable>),
    ) -> Self {
        let is_parquet = job.spec.output_format.is_some_and(OutputFormat::is_parquet);
        let schemas = is_parquet.then(Schemas::default);
        let statistics = Statistics::new(job.incarnation, started_us);
        Self {
            incarnation: job.incarnation,
            schemas,
            statistics,
            failures: KeptFailures::new(&job.work),
            report: Some(report),
            tries,
            ..Self::default()
        }
    }

    /// Has it follow a plan whose input order is this.
    pub(crate) fn put_in_order(&mut self, order: Option<Arc<PlanOrder>>) {
        self.order = order;
    }

    /// The place of a mini-batch in input order, if the plan still has it.
    fn position(&self, index: MiniBatchIndex) -> Option<usize> {
        self.order.as_ref().map_or(Some(index as usize), |order| order.position(index))
    }

    /// The mini-batch at a position in input order.
    pub(crate) fn index_at(&self, position: usize) -> MiniBatchIndex {
        let in_order = self.order.as_ref().and_then(|order| order.index_at(position));
        in_order.unwrap_or(position as MiniBatchIndex)
    }

    /// Where the rows of each mini-batch are, by its index.
    pub(crate) fn rows_by_index(&self) -> impl Iterator<Item = Option<RowRange>> {
        let end = self.order.as_ref().map_or(self.rows.len() as u64, |order| order.end());
        (0..end).map(|index| self.rows_of(index))
    }

    /// Where the rows of a mini-batch are; nothing for one without an outcome.
    pub(crate) fn rows_of(&self, index: MiniBatchIndex) -> Option<RowRange> {
        self.rows.get(self.position(index)?).copied().flatten()
    }

    /// Key of the segment that has the outcome of a mini-batch; empty for one without.
    pub(crate) fn segment_of(&self, index: MiniBatchIndex) -> &str {
        self.rows_of(index).and_then(|rows| self.segments.get(rows.segment as usize)).map_or("", |key| &**key)
    }

    /// Tries of mini-batches that failed for good.
    pub(crate) fn tries_of_failed(&self) -> usize {
        self.failures.tries_of_listed()
    }

    /// Mini-batches whose items are missing, all or some.
    pub(crate) fn missing(&self) -> u64 {
        self.failed + self.short
    }

    /// Mini-batches whose items are missing and that are not in the list, for there are too many.
    pub(crate) fn unlisted(&self) -> u64 {
        self.short.saturating_sub(MOST_SHORT)
    }

    /// Tries that failed, and those of them that did no harm.
    pub(crate) fn try_counts(&self) -> TryCounts {
        let succeeded = |index| self.rows_of(index).is_some_and(|rows| rows.succeeded);
        let tries = self.failures.failed_tries();
        let open = tries.filter(|(index, _, lacks_items)| *lacks_items || !succeeded(*index));
        let harmful: u64 = open.map(|(_, tries, _)| u64::from(tries)).sum();
        let failed = self.errors.failed_tries();
        TryCounts { failed, made_good: failed.saturating_sub(harmful) }
    }

    /// Checksums of the descriptors of mini-batches that succeeded.
    pub(crate) fn known(&self) -> KnownChecksums {
        let known =
            |rows: Option<RowRange>| rows.filter(|rows| rows.succeeded).map_or(0, |rows| rows.checksum);
        self.rows_by_index().map(known).collect()
    }

    /// Adds the next segment in the ledger's order. It may have thousands of tries: that is not done on a thread that
    /// others wait for.
    pub(crate) async fn take_in(
        mut self: Box<Self>,
        segment: CommittedSegment,
        index: SegmentIndex,
    ) -> Box<Self> {
        let added = tokio::task::spawn_blocking(move || {
            self.add(&segment, index);
            self
        });
        added.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// Adds the next segment, which is damaged: nothing in it counts.
    pub(crate) fn add_damaged(&mut self, segment: CommittedSegment, reason: String) {
        self.segments.push(segment.key.as_str().into());
        self.written_by.push(self.incarnation);
        self.damaged.push(Damaged { segment: segment.key, reason });
        self.statistics.skip();
        self.tries.iter_mut().for_each(TryTable::skip);
    }

    fn add(&mut self, segment: &CommittedSegment, index: SegmentIndex) {
        let position = self.segments.len() as u32;
        self.segments.push(segment.key.as_str().into());
        self.written_by.push(index.incarnation);
        let current = index.incarnation == self.incarnation;
        if let Some(report) = &mut self.report {
            report.add(&index, &segment.duplicates);
        }
        let counts =
            |record: &TryRecord| record.is_outcome(current) && !segment.duplicates.contains(&record.index);
        self.statistics.add(&index, counts);
        if let Some(tries) = &mut self.tries {
            let failures = &self.failures;
            tries.add(&index, |record| Known {
                is_outcome: counts(record),
                had_failed: had_failed(record, |index| failures.contains(index)),
                is_duplicate: record.last && segment.duplicates.contains(&record.index),
            });
        }
        for record in &index.tries {
            let process = &index.processes[record.process as usize].name;
            if record.put_together().is_none() {
                self.summaries.add(index.node_id, process, record);
                if record.status == TryStatus::RunDone {
                    self.durations.add(record.elapsed_us);
                }
            }
            let is_outcome = record.is_outcome(current) && !segment.duplicates.contains(&record.index);
            if record.status != TryStatus::RunDone {
                self.errors.add(&index, record, is_outcome);
                self.failures.add(&index, record);
            } else if is_outcome && !record.is_whole() {
                self.errors.add(&index, record, true);
                if self.short < MOST_SHORT {
                    self.failures.add(&index, record);
                }
            }
        }
        for record in index.tries {
            // What failed for good or lacked items before a `resume` was tried anew.
            if record.is_outcome(current) && !segment.duplicates.contains(&record.index) {
                self.add_outcome(position, record);
            }
        }
        if let Some(schemas) = &mut self.schemas {
            schemas.unify();
        }
        while let Some(Some(rows)) = self.rows.get(self.prefix.end) {
            self.prefix.end += 1;
            self.prefix.bytes += rows.length;
        }
    }

    fn add_outcome(&mut self, segment: u32, record: TryRecord) {
        // Inputs were corrected since it ran.
        let Some(at) = self.position(record.index) else { return };
        if at >= self.rows.len() {
            self.rows.resize(at + 1, None);
        }
        let (succeeded, is_whole) = (record.status == TryStatus::RunDone, record.is_whole());
        let TryRecord { offset, length, crc, checksum, .. } = record;
        self.rows[at] = Some(RowRange { segment, offset, length, crc, checksum, succeeded });
        self.outcomes += 1;
        self.descriptors = self.descriptors.wrapping_add(fingerprint(record.index, checksum));
        if is_whole || (succeeded && self.short >= MOST_SHORT) {
            self.failures.remove(record.index);
        } else {
            self.failures.end(self.incarnation, &record);
        }
        if !succeeded {
            self.failed += 1;
            return;
        }
        self.short += u64::from(!is_whole);
        if record.returned > record.items {
            self.surplus.mini_batches += 1;
            self.surplus.items += record.items;
            self.surplus.elements += record.returned;
        }
        self.returned += record.returned;
        if let Some(contents) = &record.contents {
            self.contents += contents.sum;
        }
        *self.returned_by.entry(self.written_by[segment as usize]).or_default() += record.returned;
        for header in record.headers().cloned() {
            match &mut self.schemas {
                Some(schemas) if record.returned > 0 => schemas.add(at as u64, header),
                Some(_) => {}
                None => {
                    let start = self.written_by[segment as usize];
                    self.headers.add(start, at as u64, header, record.returned > 0);
                }
            }
        }
        self.files.extend(record.files.into_iter().map(|file| (record.index, file)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalog of these tries: mini-batch, number, status, whether it is the last, items that succeeded of two.
    fn of(tries: &[(u64, u32, TryStatus, bool, u64)]) -> Catalog {
        let mut catalog = Catalog { incarnation: 1, ..Catalog::default() };
        for (index, number, status, last, succeeded) in tries {
            let record = TryRecord {
                number: *number,
                last: *last,
                items: 2,
                succeeded: *succeeded,
                ..TryRecord::new(*index, b"", *status)
            };
            let index = SegmentIndex {
                key: String::new(),
                incarnation: 1,
                node_id: 0,
                ip: String::new(),
                processes: vec![prs_common::segment::ProcessRef::default()],
                tries: vec![record],
                errors: Vec::new(),
            };
            let segment = CommittedSegment { key: "k".to_owned(), size: 0, duplicates: Vec::new() };
            catalog.add(&segment, index);
        }
        catalog
    }

    #[test]
    fn a_later_try_makes_good_only_with_all_items() {
        use TryStatus::{RunDone, RunException};
        let failed = |index| (index, 1, RunException, false, 0);
        let made_good = |tries: &[_]| {
            let counts = of(tries).try_counts();
            (counts.failed, counts.made_good)
        };
        assert_eq!(made_good(&[failed(0), (0, 2, RunDone, true, 2)]), (1, 1));
        assert_eq!(made_good(&[failed(0), (0, 2, RunDone, true, 1)]), (1, 0), "an item is missing still");
        assert_eq!(made_good(&[failed(0), (0, 2, RunException, true, 0), (1, 1, RunDone, true, 1)]), (2, 0));
        assert_eq!(made_good(&[failed(0), failed(1), (1, 2, RunDone, true, 2)]), (2, 1));
    }
}
