//! The assembly of the result while the job runs (spec S9).
//!
//! The rows of the contiguous prefix of mini-batches that have their outcome go into the object of the result as soon as
//! there are enough for a batch: batches are read ahead, their bytes hashed and written while the next ones are on their
//! way. When the last outcome is committed, only the tail is missing. Nothing is visible before the object is finished,
//! which is the caller's to do. An assembly that fails, or is dropped, leaves nothing behind; another one gives the same
//! bytes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use prs_common::storage::{StorageError, Writer};
use prs_common::{failpoint, hexadecimal};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::task::AbortOnDropHandle;

use super::FinalizeError;
use super::form::Form;
use super::frames::Frames;
use super::rows::{BATCH, Batch, CutRows, Position};
use crate::JobContext;
use crate::publish::NEW;
use crate::segments::catalog::Catalog;

/// Batches that wait to be read: as much as is read between two looks at a job.
const WAITING: usize = 8;
/// Batches that are read at a time, each by a task of its own; one less while one is written.
const READ_AHEAD: usize = 3;
/// Bytes that are hashed and written at a time; smaller slices are put together.
const WRITTEN_AT_ONCE: usize = 4 << 20;

/// An assembly under way.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// The form that it began with.
    form: Form,
    /// What comes next.
    position: Position,
    /// Rows handed over, bytes.
    taken: u64,
    batches: Sender<Batch>,
    writing: AbortOnDropHandle<Result<Written, FinalizeError>>,
}

/// A result, all of it written and not visible yet.
pub(crate) struct Written {
    pub(crate) upload: Box<dyn Writer>,
    pub(crate) bytes: u64,
    /// In hexadecimal.
    pub(crate) sha256: String,
}

impl Assembly {
    /// Begins the result of a job.
    pub(crate) fn begin(job: &JobContext, catalog: &Catalog) -> Self {
        let form = Form::of(job, catalog);
        let (batches, queue) = channel(WAITING);
        let writing = write(job.clone(), form.clone(), queue);
        Self {
            form,
            position: Position::default(),
            taken: 0,
            batches,
            writing: AbortOnDropHandle::new(tokio::spawn(writing)),
        }
    }

    /// Whether it can go on: it has not failed, and the result has the form that it began with.
    pub(crate) fn is_of_use(&self, job: &JobContext, catalog: &Catalog) -> bool {
        !self.batches.is_closed() && self.form == Form::of(job, catalog)
    }

    pub(super) fn form(&self) -> &Form {
        &self.form
    }

    /// Hands over what has come since, as much as there is room for.
    pub(crate) fn feed(&mut self, catalog: &Catalog) {
        while catalog.prefix.bytes - self.taken >= BATCH {
            let Ok(room) = self.batches.try_reserve() else { break };
            let batch = take(catalog, &mut self.position);
            self.taken += batch.bytes();
            room.send(batch);
        }
    }

    /// Why it failed, where it did.
    pub(crate) async fn failure(self) -> Option<FinalizeError> {
        if self.batches.is_closed() { joined(self.writing).await.err() } else { None }
    }

    /// Writes the rest. The catalog has every outcome of the job.
    pub(crate) async fn finish(mut self, catalog: &Catalog) -> Result<Written, FinalizeError> {
        while self.position.index < catalog.prefix.end {
            let batch = take(catalog, &mut self.position);
            if batch.bytes() > 0 && self.batches.send(batch).await.is_err() {
                break;
            }
        }
        drop(self.batches);
        joined(self.writing).await
    }
}

fn take(catalog: &Catalog, position: &mut Position) -> Batch {
    let ranges = catalog.rows[position.index..catalog.prefix.end].iter();
    Batch::take(&catalog.segments, position, ranges.map_while(|range| *range))
}

async fn joined<T>(task: AbortOnDropHandle<Result<T, FinalizeError>>) -> Result<T, FinalizeError> {
    task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

async fn write(job: JobContext, form: Form, batches: Receiver<Batch>) -> Result<Written, FinalizeError> {
    let upload = job.output.writer(&job.spec.append_row_file_name, NEW).await?;
    let mut object = Object { upload, hasher: Sha256::new(), bytes: 0, small: BytesMut::new() };
    let mut frames = match form {
        Form::Text(header) => {
            object.add(header.unwrap_or_default().into()).await?;
            None
        }
        Form::Parquet(schema) => Some(Frames::new(schema.as_deref())?),
    };
    let fetched = stream::unfold(batches, async |mut batches| Some((batches.recv().await?, batches)))
        .map(|batch| joined(AbortOnDropHandle::new(tokio::spawn(batch.fetch(Arc::clone(&job.storage))))))
        .buffered(READ_AHEAD);
    let mut fetched = std::pin::pin!(fetched);
    let mut cut = CutRows::default();
    while let Some(batch) = fetched.next().await {
        match &mut frames {
            None => {
                for rows in batch?.rows(&mut cut)? {
                    object.add(rows).await?;
                }
            }
            Some(frames) => object.add_all(frames.add(batch?.parts(&mut cut)?).await?).await?,
        }
    }
    if let Some(frames) = frames {
        object.add_all(frames.end().await?).await?;
    }
    Ok(object.end().await?)
}

/// The object, being written.
struct Object {
    upload: Box<dyn Writer>,
    hasher: Sha256,
    bytes: u64,
    /// Slices that are put together.
    small: BytesMut,
}

impl Object {
    async fn add(&mut self, rows: Bytes) -> Result<(), StorageError> {
        if self.small.len() + rows.len() > WRITTEN_AT_ONCE {
            self.write_small().await?;
        }
        if rows.len() >= WRITTEN_AT_ONCE {
            return self.write(rows).await;
        }
        self.small.reserve(if self.small.is_empty() {
            rows.len()
        } else {
            WRITTEN_AT_ONCE - self.small.len()
        });
        self.small.extend_from_slice(&rows);
        Ok(())
    }

    /// Adds what may be many at a time.
    async fn add_all(&mut self, mut bytes: Bytes) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            self.add(bytes.split_to(bytes.len().min(WRITTEN_AT_ONCE))).await?;
        }
        Ok(())
    }

    async fn write_small(&mut self) -> Result<(), StorageError> {
        let small = std::mem::take(&mut self.small).freeze();
        if small.is_empty() { Ok(()) } else { self.write(small).await }
    }

    /// Hashes, on a thread of its own, while the store takes the bytes.
    async fn write(&mut self, rows: Bytes) -> Result<(), StorageError> {
        self.bytes += rows.len() as u64;
        let (mut hasher, bytes) = (std::mem::take(&mut self.hasher), rows.clone());
        let hashing = tokio::task::spawn_blocking(move || {
            hasher.update(&bytes);
            hasher
        });
        self.upload.write(rows).await?;
        failpoint::pass("result_grows");
        self.hasher = hashing.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        Ok(())
    }

    async fn end(mut self) -> Result<Written, StorageError> {
        self.write_small().await?;
        let sha256 = hexadecimal(&self.hasher.finalize());
        Ok(Written { upload: self.upload, bytes: self.bytes, sha256 })
    }
}
