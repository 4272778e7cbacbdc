//! An object that comes piece by piece: collected until a part is full, then sent in parts while more is written.
//!
//! Parts are equal, but for the last: Cloudflare R2 wants them so. Memory is bounded: the part that is being filled, and
//! the few that are on their way.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::failure::S3Failure;
use super::multipart::Multipart;
use super::write::SINGLE;
use super::{S3Storage, version};
use crate::storage::{PutMode, StorageError, Version, Writer};

/// Smallest part, but for the last.
const PART: u64 = 8 << 20;
/// Largest one that servers take.
const LARGEST_PART: u64 = 4 << 30;
/// Parts an object may have.
pub(super) const MOST_PARTS: u64 = 10_000;
/// Equal parts of an object whose size is not known: 31 GiB. Beyond that a server that wants equal parts refuses it.
const EQUAL: u64 = 4_000;
/// So many of the parts that follow are equal; the next ones are twice as large.
const THEN_EQUAL: u64 = 640;

/// Size of the part that follows `parts` others, for an object of `size` bytes where that is known. One whose size is not
/// known reaches the server's limit of 5 TiB before that of 10,000 parts.
fn part_size(parts: u64, size: Option<u64>) -> u64 {
    match size {
        // One request.
        Some(size) if size <= SINGLE => SINGLE + 1,
        Some(size) => PART.max(size.div_ceil(MOST_PARTS)),
        None if parts < EQUAL => PART,
        None => LARGEST_PART.min(PART << (1 + (parts - EQUAL) / THEN_EQUAL)),
    }
}

/// An object being written.
pub(super) struct S3Writer {
    storage: S3Storage,
    full: String,
    mode: PutMode,
    /// Size of the object, where it is known.
    size: Option<u64>,
    pub(super) written: u64,
    filling: BytesMut,
    /// Begun with the first full part: an object that fits into one is put in one request.
    multipart: Option<Multipart>,
    parts: u64,
    failed: bool,
}

impl S3Writer {
    pub(super) fn new(storage: S3Storage, full: String, mode: PutMode, size: Option<u64>) -> Self {
        let filling = BytesMut::new();
        Self { storage, full, mode, size, written: 0, filling, multipart: None, parts: 0, failed: false }
    }

    pub(super) async fn append(&mut self, mut bytes: Bytes) -> Result<(), S3Failure> {
        self.written += bytes.len() as u64;
        while !bytes.is_empty() {
            let size = part_size(self.parts, self.size) as usize;
            let taken = bytes.split_to(bytes.len().min(size - self.filling.len()));
            if self.filling.is_empty() && taken.len() == size {
                self.send(taken).await?;
                continue;
            }
            if self.multipart.is_some() {
                self.filling.reserve(size - self.filling.len());
            }
            self.filling.extend_from_slice(&taken);
            if self.filling.len() == size {
                let part = self.filling.split().freeze();
                self.send(part).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, part: Bytes) -> Result<(), S3Failure> {
        let multipart = if let Some(multipart) = &mut self.multipart {
            multipart
        } else {
            let begun = Multipart::begin(self.storage.clone(), self.full.clone()).await?;
            self.multipart.insert(begun)
        };
        self.parts += 1;
        multipart.send(self.parts as i32, part).await
    }

    pub(super) async fn end(&mut self) -> Result<Version, S3Failure> {
        let rest = self.filling.split().freeze();
        if self.multipart.is_some() && !rest.is_empty() {
            self.send(rest.clone()).await?;
        }
        let etag = match self.multipart.take() {
            Some(multipart) => multipart.complete(&self.mode).await?,
            None => self.storage.put_single(&self.full, &rest, &self.mode).await?,
        };
        Ok(version(&etag, self.written))
    }

    fn check(&self) -> Result<(), StorageError> {
        let message = "an earlier write of this object failed";
        if self.failed { Err(self.error(S3Failure::unanswered(message))) } else { Ok(()) }
    }

    fn error(&self, failure: S3Failure) -> StorageError {
        let key = self.full.strip_prefix(&self.storage.prefix).unwrap_or(&self.full);
        self.storage.error(key, failure)
    }
}

#[async_trait]
impl Writer for S3Writer {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.check()?;
        // Stays so when this call is dropped half way, with a part of the bytes taken.
        self.failed = true;
        self.append(bytes).await.map_err(|failure| self.error(failure))?;
        self.failed = false;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        self.check()?;
        self.end().await.map(drop).map_err(|failure| self.error(failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_suffice_for_the_largest_object() {
        let largest = 5 << 40;
        let total: u64 = (0..MOST_PARTS).map(|parts| part_size(parts, None)).sum();
        assert!(total >= largest);
        assert_eq!((part_size(0, None), part_size(EQUAL - 1, None)), (8 << 20, 8 << 20));
        let parts = EQUAL + 3 * THEN_EQUAL;
        let hundred_gb: u64 = (0..parts).map(|parts| part_size(parts, None)).sum();
        assert!(hundred_gb > 100 << 30 && part_size(parts - 1, None) == 64 << 20);
        assert!(part_size(0, Some(largest)) * MOST_PARTS >= largest);
        assert_eq!(part_size(0, Some(SINGLE + 1)), PART);
    }
}
