//! Reading objects: whole, a range, or into a file in several pieces side by side.
//!
//! A read that breaks off goes on where it broke, and only with the same version of the object: bytes of two
//! versions are never put together, and fewer bytes than promised are never returned.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use aws_sdk_s3::types::ChecksumMode;
use bytes::{Bytes, BytesMut};
use tokio::task::JoinSet;

use super::S3Storage;
use super::failure::Failure;
use super::integrity::{confirm_etag, promised};
use super::retry::{Retry, STALL, confirmed};
use crate::storage::{PIECE, StorageErrorKind};

/// Pieces of one download that are on their way together.
const SIDE_BY_SIDE: usize = 4;
/// How often a download starts again because the object was replaced meanwhile.
const REPLACED: usize = 5;
/// Room made at once for the body of an answer.
const MOST_RESERVED: u64 = 64 << 20;

/// What is known of an object without reading it.
pub(super) struct Seen {
    pub(super) size: u64,
    /// Names the write that made it, where that gave it a name.
    pub(super) mark: Option<String>,
    pub(super) etag: String,
    /// Seconds since the Unix epoch.
    pub(super) modified: Option<u64>,
}

/// A read, as far as it has come.
#[derive(Debug, Default)]
struct Reading {
    bytes: BytesMut,
    /// The version the bytes are of.
    etag: Option<String>,
    /// Size of the whole object.
    size: u64,
    /// The bytes are not those that the server has a checksum of.
    is_damaged: bool,
}

impl S3Storage {
    /// Reads an object; returns its etag too.
    pub(super) async fn read_whole(&self, full: &str) -> Result<(Bytes, String), Failure> {
        let read = self.read(full, 0..u64::MAX, None).await?;
        Ok((read.bytes.freeze(), read.etag.unwrap_or_default()))
    }

    /// Reads `range`, cut at the end of the object; of the version with this etag, where one is given.
    pub(super) async fn read_range(
        &self,
        full: &str,
        range: Range<u64>,
        etag: Option<&str>,
    ) -> Result<Bytes, Failure> {
        if range.is_empty() {
            // No server answers a range of nothing; whether the object exists is still asked.
            let seen = self.look_up(full).await?;
            return if etag.is_some_and(|etag| etag != seen.etag) {
                Err(Failure::replaced())
            } else {
                Ok(Bytes::new())
            };
        }
        let read = self.read(full, range, etag).await?;
        Ok(read.bytes.freeze())
    }

    /// Reads `range`, cut at the end of the object; of `version`, where one is given.
    async fn read(&self, full: &str, range: Range<u64>, version: Option<&str>) -> Result<Reading, Failure> {
        let call = || Retry::new("get", 0).about(&self.bucket, full);
        let mut retry = call();
        let fresh = || Reading { etag: version.map(str::to_owned), ..Reading::default() };
        let mut reading = fresh();
        loop {
            let before = reading.bytes.len();
            let outcome = self.read_on(full, &range, &mut reading, &retry).await;
            if reading.bytes.len() > before && !reading.is_damaged {
                // The line is slow or breaks now and then, and it gets there.
                retry = call();
            }
            match outcome {
                Ok(()) => return Ok(reading),
                Err(failure) if failure.kind == StorageErrorKind::AlreadyExists && version.is_none() => {
                    reading = fresh();
                    retry.after(Failure::unanswered("the object was replaced while it was read")).await?;
                }
                Err(failure) if reading.is_damaged => {
                    reading = fresh();
                    let damaged = |failure| Failure { kind: StorageErrorKind::Damaged, ..failure };
                    retry.after(failure).await.map_err(damaged)?;
                }
                Err(failure) => retry.after(failure).await?,
            }
        }
    }

    /// One attempt at the rest.
    async fn read_on(
        &self,
        full: &str,
        range: &Range<u64>,
        reading: &mut Reading,
        retry: &Retry<'_>,
    ) -> Result<(), Failure> {
        let start = range.start + reading.bytes.len() as u64;
        let header = match (start, range.end) {
            (0, u64::MAX) => None,
            // Some servers know no larger numbers.
            (start, end) if end > i64::MAX as u64 => Some(format!("bytes={start}-")),
            (start, end) => Some(format!("bytes={start}-{}", end - 1)),
        };
        let asked = header.is_some().then_some((start, range.end));
        let request = self.bucket.client.get_object().bucket(&self.bucket.name).key(full);
        // Of a whole object a server that keeps checksums tells it, and the SDK compares.
        let mode = header.is_none().then_some(ChecksumMode::Enabled);
        let request = request.set_range(header).set_checksum_mode(mode).set_if_match(reading.etag.clone());
        let answer = match retry.limit(request.send()).await {
            // Nothing is there: the object ends before the range starts.
            Err(failure) if failure.code == "InvalidRange" && reading.bytes.is_empty() => return Ok(()),
            answer => answer?,
        };
        let promised = promised(&answer, asked)?;
        reading.size = promised.size;
        // Not every server heeds what it was asked for.
        if reading.etag.is_some() && answer.e_tag.is_some() && reading.etag != answer.e_tag {
            return Err(Failure::replaced());
        }
        reading.etag.clone_from(&answer.e_tag);
        reading.bytes.reserve(promised.length.min(MOST_RESERVED) as usize);
        let mut body = answer.body;
        let mut missing = promised.length;
        loop {
            let next = tokio::time::timeout(STALL, body.next()).await;
            let Ok(next) = next else {
                return Err(Failure::unanswered(format!("an answer stopped for {} s", STALL.as_secs())));
            };
            match next {
                Some(Ok(chunk)) if chunk.len() as u64 <= missing => {
                    missing -= chunk.len() as u64;
                    reading.bytes.extend_from_slice(&chunk);
                }
                Some(Ok(_)) => return Err(Failure::unanswered("the answer is longer than it said")),
                Some(Err(error)) => {
                    // After the last byte only the checksum can be wrong.
                    reading.is_damaged = missing == 0;
                    return Err(Failure::body(&error, reading.is_damaged));
                }
                None if missing == 0 => return Ok(()),
                None => {
                    return Err(Failure::unanswered(format!("the answer ended {missing} bytes too early")));
                }
            }
        }
    }

    /// Looks an object up.
    pub(super) async fn look_up(&self, full: &str) -> Result<Seen, Failure> {
        let request = || self.bucket.client.head_object().bucket(&self.bucket.name).key(full).send();
        confirmed(Retry::new("head", 0).about(&self.bucket, full), request, |answer| {
            let mark = answer.metadata().and_then(|marks| marks.get(super::write::MARK)).cloned();
            let size = answer.content_length().unwrap_or_default().max(0) as u64;
            let modified = answer.last_modified().and_then(super::seconds);
            Ok(Seen { size, mark, modified, etag: confirm_etag(answer.e_tag)? })
        })
        .await
    }

    /// Downloads the object; the version with this etag alone, where one is given.
    pub(super) async fn read_into_file(
        &self,
        full: &str,
        path: &Path,
        etag: Option<&str>,
    ) -> Result<u64, Failure> {
        let mut again = 0..REPLACED;
        loop {
            match self.read_pieces(full, path, etag).await {
                Err(failure) if failure.kind != StorageErrorKind::AlreadyExists || etag.is_some() => {
                    return Err(failure);
                }
                Err(_) if again.next().is_some() => {}
                Err(_) => {
                    return Err(Failure::unanswered(
                        "the object is replaced again and again while it is read",
                    ));
                }
                outcome => return outcome,
            }
        }
    }

    /// Fails with [`StorageErrorKind::AlreadyExists`] when the object was replaced meanwhile.
    async fn read_pieces(&self, full: &str, path: &Path, etag: Option<&str>) -> Result<u64, Failure> {
        let first = self.read(full, 0..PIECE, etag).await?;
        let (size, etag) = (first.size.max(first.bytes.len() as u64), first.etag);
        let path = path.to_owned();
        let file = blocking(move || {
            let file = File::create(&path)?;
            file.write_all_at(&first.bytes, 0)?;
            Ok(Arc::new(file))
        });
        let file = file.await.map_err(|failure| match failure.kind {
            // Its folder is missing; the object is not.
            StorageErrorKind::NotFound => Failure { kind: StorageErrorKind::PermissionDenied, ..failure },
            _ => failure,
        })?;
        let mut starts = (PIECE..size).step_by(PIECE as usize);
        let mut pieces = JoinSet::new();
        loop {
            while let Some(start) = (pieces.len() < SIDE_BY_SIDE).then(|| starts.next()).flatten() {
                let (storage, file, full, etag) =
                    (self.clone(), Arc::clone(&file), full.to_owned(), etag.clone());
                pieces.spawn(async move {
                    let end = size.min(start + PIECE);
                    let piece = storage.read(&full, start..end, etag.as_deref()).await?;
                    if piece.bytes.len() as u64 != end - start {
                        return Err(Failure::unanswered("a piece of the object is too short"));
                    }
                    blocking(move || file.write_all_at(&piece.bytes, start)).await
                });
            }
            match pieces.join_next().await {
                None => return Ok(size),
                Some(piece) => piece.map_err(|error| Failure::unanswered(error.to_string())).flatten()?,
            }
        }
    }
}

/// Work on local files.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| Failure {
        kind: match error.kind() {
            io::ErrorKind::NotFound => StorageErrorKind::NotFound,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                StorageErrorKind::Full
            }
            _ => StorageErrorKind::PermissionDenied,
        },
        ..Failure::unanswered(format!("the local file: {error}"))
    })
}
