//! The plan: the deterministic stream of a job's mini-batches (spec section 3).
//!
//! The same listing of the inputs gives the same mini-batches with the same ids, in the same order (D6); the
//! stream is produced piece by piece, so that work starts before it ends and its length costs no memory (S2).
//! It runs on a thread of its own and blocks there.

mod delimited;
mod fetch;
mod files;
mod objects;
mod plain_copy;
mod plain_text;
pub mod schedule;
pub mod stored_descriptors;

use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use prs_common::dataset::listing::ListingError;
use prs_common::job::{Input, InputKind, InputSource, JobSpec, MiniBatchSize};
use prs_common::mini_batch::{MiniBatch, Work, checksum, fingerprint};
use prs_common::storage::{DiskError, StorageError, TransferError};
use tokio::runtime::Handle;

use crate::inputs::InputStores;
use crate::inputs::manifest::{ManifestError, ManifestReader, ObjectReader};

/// Mini-batches in one [`Batch`] at most.
const LARGEST_BATCH: usize = 512;

/// A piece of the plan: consecutive mini-batches.
#[derive(Debug, Default)]
pub struct Batch {
    /// Index of the first one.
    pub first: u64,
    /// Encoded descriptors.
    pub bodies: Vec<Bytes>,
    /// Input items in all of them.
    pub items: u64,
    /// Sum of the fingerprints of the descriptors.
    pub descriptors: u64,
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
    /// The inputs hold nothing to work on.
    #[error("the inputs hold no records: there is nothing to run the entry script on")]
    NoRecords,
    /// The job's own scratch folder fails.
    #[error("cannot write {0}")]
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
            Self::Elsewhere { .. } | Self::NoRecords | Self::Scratch(_) => false,
        }
    }

    /// Whether another host may come further.
    pub(crate) fn is_of_this_host(&self) -> bool {
        matches!(self, Self::Scratch(_))
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

/// Plans `spec` from its beginning and hands the pieces to `take`, until that says stop.
///
/// `stop` is looked at now and then, also while nothing is handed over.
pub fn plan(
    spec: &JobSpec,
    context: &PlanContext<'_>,
    stop: &dyn Fn() -> bool,
    take: &mut dyn FnMut(Batch) -> ControlFlow<()>,
) -> Result<(), PlanError> {
    let mut sink = Sink { take, stop, batch: Batch::default(), next: 0, size: 1, stopped: false };
    for (position, input) in spec.inputs.iter().enumerate() {
        let done = match (input.kind, spec.mini_batch_size) {
            (InputKind::File, size) => match manifest(input, context)? {
                None => files::plan(input, position as u32, size.amount(), &mut sink),
                Some(manifest) => objects::plan(manifest, input, position as u32, size.amount(), &mut sink),
            },
            (InputKind::Tabular, MiniBatchSize::Bytes(size) | MiniBatchSize::Files(size)) => {
                delimited::plan(input, position as u32, size, context, &mut sink)
            }
        };
        done?;
        if sink.is_stopped() {
            return Ok(());
        }
    }
    if sink.next == 0 {
        return Err(PlanError::NoRecords);
    }
    sink.flush();
    Ok(())
}

/// What `input` was resolved to; `None` for one that is local.
fn manifest(
    input: &Input,
    context: &PlanContext<'_>,
) -> Result<Option<ManifestReader<ObjectReader>>, PlanError> {
    let (key, checksum) = match &input.source {
        InputSource::Paths(_) | InputSource::List(_) => return Ok(None),
        InputSource::Manifest { key, checksum, .. } => (key, checksum),
        InputSource::Remote(_) => return Err(PlanError::Elsewhere { input: input.name.clone() }),
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
    next: u64,
    size: usize,
    stopped: bool,
}

impl Sink<'_> {
    /// Adds a mini-batch; `Break` when nobody wants more.
    fn push(&mut self, input: u32, work: Work<'_>) -> ControlFlow<()> {
        let mini_batch = MiniBatch { index: self.next, input, work };
        if self.batch.bodies.is_empty() {
            self.batch.first = self.next;
        }
        self.batch.items += mini_batch.items();
        let body = mini_batch.encode();
        let added = fingerprint(self.next, checksum(&body));
        self.batch.descriptors = self.batch.descriptors.wrapping_add(added);
        self.batch.bodies.push(body.into());
        self.next += 1;
        if self.batch.bodies.len() >= self.size {
            self.flush();
        }
        if self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Whether nobody wants more.
    fn is_stopped(&mut self) -> bool {
        self.stopped = self.stopped || (self.stop)();
        self.stopped
    }

    fn flush(&mut self) {
        if !self.batch.bodies.is_empty() && (self.take)(std::mem::take(&mut self.batch)).is_break() {
            self.stopped = true;
        }
        self.size = (self.size * 2).min(LARGEST_BATCH);
    }
}
