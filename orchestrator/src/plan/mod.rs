//! The plan: the deterministic stream of a job's mini-batches (spec section 3).
//!
//! The same listing of the inputs gives the same mini-batches with the same ids, in the same order (D6); the
//! stream is produced piece by piece, so that work starts before it ends and its length costs no memory (S2).
//! It runs on a thread of its own and blocks there.

pub mod correction;
mod counted;
mod encoding;
mod fetch;
mod files;
mod groups;
mod json_array;
mod objects;
mod partitions;
mod path_columns;
mod plain_copy;
mod plain_text;
pub mod schedule;
mod shuffled;
mod stored;
pub mod stored_descriptors;
mod tables;
mod types_seen;
mod unpacked;
mod unread_types;

use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use prs_common::dataset::left_out::LeftOut;
use prs_common::dataset::listing::ListingError;
use prs_common::job::counting::counted_window;
use prs_common::job::shuffle::ShuffleStage;
use prs_common::job::{Input, InputKind, InputSource, JobSpec};
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, Work, checksum, fingerprint};
use prs_common::storage::{DiskError, StorageError, TransferError};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use self::counted::Counts;
use self::partitions::Keys;
use self::types_seen::TypesSeen;
use crate::inputs::listed::{Listed, ListingSum};
use crate::inputs::manifest::{ManifestError, ManifestReader, ObjectReader};
use crate::inputs::{InputStores, NoneMatches, UnreadFiles};

/// Mini-batches in one [`Batch`] at most.
const LARGEST_BATCH: usize = 512;
/// Bytes of descriptors after which a [`Batch`] is handed over, however few there are.
const LARGEST_BATCH_BYTES: usize = 8 << 20;

/// A piece of the plan: consecutive mini-batches.
#[derive(Debug, Default)]
pub struct Batch {
    /// Index of the first one.
    pub first: u64,
    /// Encoded descriptors.
    pub bodies: Vec<Bytes>,
    /// Index of each, where they are not those from `first` on; else empty. Then `first` is the place of the first one in the plan.
    pub indexes: Vec<MiniBatchIndex>,
    /// Input items in all of them.
    pub items: u64,
    /// Sum of the fingerprints of the descriptors.
    pub descriptors: u64,
}

impl Batch {
    /// Puts the next piece behind this one.
    fn append(&mut self, next: Self) {
        self.bodies.extend(next.bodies);
        self.indexes.extend(next.indexes);
        self.items += next.items;
        self.descriptors = self.descriptors.wrapping_add(next.descriptors);
    }

    /// Its descriptors, each with its index.
    pub(crate) fn into_indexed(self) -> impl Iterator<Item = (MiniBatchIndex, Bytes)> {
        let Self { first, bodies, indexes, .. } = self;
        (0..).zip(bodies).map(move |(at, body)| (indexes.get(at).copied().unwrap_or(first + at as u64), body))
    }
}

/// Why a plan ends before the inputs do.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// An input cannot be listed.
    #[error("input {input}: {source}")]
    Listing {
        /// Name of the input.
        input: String,
        /// The reason.
        source: ListingError,
    },
    /// The listing of an input, as it was stored, cannot be read.
    #[error("input {input}: {source}")]
    Manifest {
        /// Name of the input.
        input: String,
        /// The reason.
        source: ManifestError,
    },
    /// A store fails.
    #[error("input {input}: {source}")]
    Store {
        /// Name of the input.
        input: String,
        /// The reason.
        source: StorageError,
    },
    /// The input is in a store and was not resolved.
    #[error("input {input}: it is not on this machine")]
    Elsewhere {
        /// Name of the input.
        input: String,
    },
    /// No path of an input is made as its `partition_format` says.
    #[error("input {input}: {source}")]
    NoneMatches {
        /// Name of the input.
        input: String,
        /// The format, and a path.
        source: NoneMatches,
    },
    /// Files of an input cannot be given to the model of the job.
    #[error("input {input}: {source}")]
    UnreadFiles {
        /// Name of the input.
        input: String,
        /// The first of them, and how many there are.
        source: UnreadFiles,
    },
    /// A key of `partition_keys` is no column of an input.
    #[error(
        "input {input}: it has no column {key} for partition_keys; the columns of its paths are: {columns}"
    )]
    NoSuchKey {
        /// Name of the input.
        input: String,
        /// The key.
        key: String,
        /// The columns there are.
        columns: String,
    },
    /// The slices of an input are not those whose rows were counted.
    #[error(
        "input {input}: its data changed since the rows behind its filter were counted: submit the job as a new one, while nothing \
         writes there"
    )]
    Changed {
        /// Name of the input.
        input: String,
    },
    /// No record of an input has a key of `partition_keys`.
    #[error("input {input}: no record has the key {key:?} of partition_keys: {hint}")]
    KeyNowhere {
        /// Name of the input.
        input: String,
        /// The key.
        key: String,
        /// What records have instead.
        hint: String,
    },
    /// What the plan wrote to its scratch folder is not what it reads there.
    #[error(
        "the groups of partition_keys in the scratch folder are damaged ({0}): look at the disk of this host"
    )]
    Groups(String),
    /// The plan of inputs that were corrected cannot be read.
    #[error(transparent)]
    Stored(#[from] StorageError),
    /// The inputs hold nothing to work on.
    #[error("the inputs hold no records: there is nothing to run the entry script on")]
    NoRecords,
    /// The job's own scratch folder fails, or what another step of it has written.
    #[error("a file that the plan needs fails: {0}")]
    Scratch(DiskError),
}

impl PlanError {
    fn of_transfer(input: &str, error: TransferError) -> Self {
        match error {
            TransferError::Store(source) => Self::Store { input: input.to_owned(), source },
            TransferError::Disk(error) => Self::Scratch(error),
        }
    }

    /// Whether the same plan may come further later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Listing { source, .. } => source.is_retryable(),
            Self::Manifest { source, .. } => source.is_retryable(),
            Self::Store { source, .. } => source.is_retryable(),
            Self::Stored(error) => error.is_retryable(),
            Self::Elsewhere { .. }
            | Self::NoneMatches { .. }
            | Self::UnreadFiles { .. }
            | Self::NoSuchKey { .. }
            | Self::Changed { .. }
            | Self::KeyNowhere { .. }
            | Self::Groups(_)
            | Self::NoRecords
            | Self::Scratch(_) => false,
        }
    }

    /// Whether another host may come further.
    pub(crate) fn is_of_this_host(&self) -> bool {
        matches!(self, Self::Scratch(_) | Self::Groups(_))
    }
}

/// What a plan is made with.
#[derive(Debug, Clone, Copy)]
pub struct PlanContext<'a> {
    /// A local folder, for plain copies of compressed inputs (descriptors name these relative to it) and for
    /// what has to be fetched.
    pub work: &'a Path,
    /// Where inputs that are not local lie.
    pub stores: &'a InputStores,
    /// The runtime to reach them on.
    pub handle: &'a Handle,
    /// Whether the plan is for other hosts too: then plain copies go to the job's storage.
    pub is_shared: bool,
}

/// What is known at the end of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEnd {
    /// The local files that were listed, where a later start or job can compare its own with them.
    pub listed: Option<Listed>,
    /// What a person should know of the inputs.
    pub notes: PlanNotes,
}

/// Findings of a plan in its inputs that a person should know, in sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanNotes {
    /// Entries that were left out, by the rules of their listings.
    pub left_out: Vec<String>,
    /// Columns that have other types in one file than in another, or in a sample than in all of a file.
    pub types_differ: Vec<String>,
}

/// Plans `spec` from its beginning and hands the pieces to `take`, until that says stop.
///
/// `stop` is looked at now and then, also while nothing is handed over.
pub fn plan(
    spec: &JobSpec,
    context: &PlanContext<'_>,
    stop: &dyn Fn() -> bool,
    take: &mut dyn FnMut(Batch) -> ControlFlow<()>,
) -> Result<PlanEnd, PlanError> {
    let (batch, listed) = (Batch::default(), ListingSum::default());
    let mut sink = Sink {
        take,
        stop,
        batch,
        listed,
        next: 0,
        size: 1,
        bytes: 0,
        first_bytes: spec.first_bytes.unwrap_or(u64::MAX),
        of_groups: spec.shuffle == Some(ShuffleStage::Run),
        notes_contents: spec.first_bytes.is_none() && (spec.allow_reuse || spec.shuffle.is_some()),
        of_input: 0,
        stopped: false,
        left_out: LeftOut::default(),
        types: TypesSeen::default(),
    };
    let mut notes = PlanNotes::default();
    let size = spec.mini_batch_size.amount();
    unread_types::refuse(spec, context, stop)?;
    let mut counts = Counts::of(spec, context)?;
    for (position, input) in spec.inputs.iter().enumerate() {
        let position = position as u32;
        sink.of_input = 0;
        // No row is left of it behind a step of a shuffle.
        if spec.shuffle.is_some() && input.source == InputSource::Paths(Vec::new()) {
            continue;
        }
        path_columns::refuse_if_none_matches(input, context)?;
        if matches!(input.source, InputSource::Paths(_)) {
            sink.listed.begin(position);
        }
        let keys = Keys { input, names: &spec.partition_keys };
        match (input.kind, manifest(input, context)?) {
            (InputKind::File, None) if keys.names.is_empty() => {
                files::plan(input, position, size, &mut sink)?;
            }
            (InputKind::File, None) => partitions::plan_files(keys, position, context, &mut sink)?,
            (InputKind::File, Some(manifest)) if keys.names.is_empty() => {
                objects::plan(manifest, input, position, size, &mut sink)?;
            }
            (InputKind::File, Some(manifest)) => {
                partitions::plan_objects(manifest, keys, position, context, &mut sink)?;
            }
            (InputKind::Tabular, manifest) if spec.shuffle == Some(ShuffleStage::Run) => {
                shuffled::plan(manifest, keys, position, context, &mut sink)?;
            }
            (InputKind::Tabular, manifest) => {
                let counted = match (&mut counts, counted_window(input)) {
                    (Some(counts), Some(window)) => Some(counts.of_input(&input.name, window)?),
                    _ => None,
                };
                tables::plan(manifest, keys, (position, size), context, counted, &mut sink)?;
            }
        }
        if let InputSource::Manifest { left_out, .. } = &input.source {
            sink.left_out.extend(left_out);
        }
        notes.left_out.extend(std::mem::take(&mut sink.left_out).sentences(&input.name));
        notes.types_differ.extend(std::mem::take(&mut sink.types).sentences(&input.name));
        if sink.is_unwanted() {
            return Ok(PlanEnd::default());
        }
    }
    if sink.next == 0 && spec.shuffle != Some(ShuffleStage::Group) {
        return Err(PlanError::NoRecords);
    }
    sink.flush();
    Ok(PlanEnd { listed: sink.listed.finish(), notes })
}

/// What `input` was resolved to; `None` for one that is local.
fn manifest(
    input: &Input,
    context: &PlanContext<'_>,
) -> Result<Option<ManifestReader<ObjectReader>>, PlanError> {
    let (key, checksum) = match &input.source {
        InputSource::Paths(_) | InputSource::List(_) | InputSource::OneItem => return Ok(None),
        InputSource::Manifest { key, checksum, .. } => (key, checksum),
        InputSource::Remote(_) | InputSource::Output(_) => {
            return Err(PlanError::Elsewhere { input: input.name.clone() });
        }
    };
    ManifestReader::open(context.stores.job().clone(), key, Some(checksum), context.handle)
        .map(Some)
        .map_err(|source| PlanError::Manifest { input: input.name.clone(), source })
}

/// Numbers mini-batches and passes them on in batches: small ones first, so that the first mini-batch runs at
/// once, then larger ones.
struct Sink<'a> {
    take: &'a mut dyn FnMut(Batch) -> ControlFlow<()>,
    stop: &'a dyn Fn() -> bool,
    batch: Batch,
    /// What was listed of local files.
    listed: ListingSum,
    next: u64,
    size: usize,
    /// Bytes of the descriptors in `batch`.
    bytes: usize,
    /// Bytes of an input behind which nothing more of it is wanted.
    first_bytes: u64,
    /// Whether its mini-batches are groups that a shuffle has put together.
    of_groups: bool,
    /// Whether a later job may compare the contents of local files with its own.
    notes_contents: bool,
    /// Bytes of the tables of the present input so far.
    of_input: u64,
    stopped: bool,
    /// What the listing of the present input left out.
    left_out: LeftOut,
    /// The types of the columns of the present input.
    types: TypesSeen,
}

impl Sink<'_> {
    /// Adds a mini-batch; `Break` when nobody wants more.
    fn push(&mut self, input: u32, work: Work<'_>) -> ControlFlow<()> {
        self.push_with(input, &[], work)
    }

    /// The same of one whose files have `keys` in common.
    fn push_with(&mut self, input: u32, keys: &[u8], work: Work<'_>) -> ControlFlow<()> {
        self.of_input = self.of_input.saturating_add(table_bytes(&work));
        let mini_batch = MiniBatch { index: self.next, input, keys, is_group: self.of_groups, work };
        if self.batch.bodies.is_empty() {
            self.batch.first = self.next;
        }
        self.batch.items += mini_batch.items();
        let body = mini_batch.encode();
        let added = fingerprint(self.next, checksum(&body));
        self.batch.descriptors = self.batch.descriptors.wrapping_add(added);
        self.bytes += body.len();
        self.batch.bodies.push(body.into());
        self.next += 1;
        if self.batch.bodies.len() >= self.size || self.bytes >= LARGEST_BATCH_BYTES {
            self.flush();
        }
        if self.stopped || self.has_enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Notes the content of a local file of text, of which the plan reads all. Of other files the processes note it.
    fn note_content(&mut self, input: u32, path: &Path) {
        if self.notes_contents {
            self.listed.note_content(input, path);
        }
    }

    /// Whether nobody wants more of the present input.
    fn is_stopped(&mut self) -> bool {
        self.has_enough() || self.is_unwanted()
    }

    /// Whether the present input has what is looked at of each.
    fn has_enough(&self) -> bool {
        self.of_input >= self.first_bytes
    }

    /// Whether nobody wants more of any input.
    fn is_unwanted(&mut self) -> bool {
        self.stopped = self.stopped || (self.stop)();
        self.stopped
    }

    fn flush(&mut self) {
        self.bytes = 0;
        if !self.batch.bodies.is_empty() && (self.take)(std::mem::take(&mut self.batch)).is_break() {
            self.stopped = true;
        }
        self.size = (self.size * 2).min(LARGEST_BATCH);
    }
}

/// Bytes of tables that a mini-batch has; 0 of files.
fn table_bytes(work: &Work<'_>) -> u64 {
    match work {
        Work::Slice(slice) => slice.end.saturating_sub(slice.start),
        Work::Slices(slices) => slices.iter().map(|slice| slice.end.saturating_sub(slice.start)).sum(),
        _ => 0,
    }
}
