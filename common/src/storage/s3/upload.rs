//! An object of unknown size: collected until a part is full, then sent in parts while more is written.
//!
//! Memory is bounded: the part that is being filled, and the few that are on their way.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::S3Storage;
use super::failure::Failure;
use super::multipart::Multipart;
use super::write::PART;
use crate::storage::{IfExists, StorageError, Upload};

/// Parts on their way while the next is filled.
const SIDE_BY_SIDE: usize = 4;
/// Parts of one size; the next ones are twice as large.
const SAME_SIZE: usize = 1000;

pub(super) struct S3Upload {
    storage: S3Storage,
    key: String,
    full: String,
    if_exists: IfExists,
    filling: BytesMut,
    /// Begun with the first full part: an object that fits into one is put in one request.
    multipart: Option<Multipart>,
    parts: usize,
    failed: bool,
}

/// Size of the part that follows `parts` others. An object reaches the server's limit of 5 TiB before that of
/// 10,000 parts.
fn part_size(parts: usize) -> usize {
    (PART as usize) << (parts / SAME_SIZE)
}

impl S3Upload {
    pub(super) fn new(storage: S3Storage, key: String, full: String, if_exists: IfExists) -> Self {
        Self {
            storage,
            key,
            full,
            if_exists,
            filling: BytesMut::new(),
            multipart: None,
            parts: 0,
            failed: false,
        }
    }

    async fn append(&mut self, mut bytes: Bytes) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let size = part_size(self.parts);
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

    async fn send(&mut self, part: Bytes) -> Result<(), Failure> {
        let multipart = if let Some(multipart) = &mut self.multipart {
            multipart
        } else {
            let begun = Multipart::begin(self.storage.clone(), self.full.clone()).await?;
            self.multipart.insert(begun)
        };
        self.parts += 1;
        multipart.send(self.parts as i32, SIDE_BY_SIDE, async { Ok(part) }).await
    }

    async fn end(&mut self) -> Result<(), Failure> {
        let rest = self.filling.split().freeze();
        if self.multipart.is_some() && !rest.is_empty() {
            self.send(rest.clone()).await?;
        }
        match self.multipart.take() {
            Some(multipart) => multipart.complete(&self.if_exists.into()).await?,
            None => self.storage.put_single(&self.full, rest, &self.if_exists.into()).await?,
        };
        Ok(())
    }

    fn check(&self) -> Result<(), StorageError> {
        if self.failed {
            let message = "an earlier write of this object failed";
            return Err(self.storage.error(&self.key, Failure::unanswered(message)));
        }
        Ok(())
    }
}

#[async_trait]
impl Upload for S3Upload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.check()?;
        // Stays so when this call is dropped half way, with a part of the bytes taken.
        self.failed = true;
        self.append(bytes).await.map_err(|failure| self.storage.error(&self.key, failure))?;
        self.failed = false;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        self.check()?;
        self.end().await.map_err(|failure| self.storage.error(&self.key, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::s3::write::MOST_PARTS;

    #[test]
    fn parts_suffice_for_the_largest_object() {
        let total: u64 = (0..MOST_PARTS as usize).map(|parts| part_size(parts) as u64).sum();
        assert!(total >= 5 << 40);
        assert_eq!(part_size(0), 8 << 20);
        let hundred_gb: u64 = (0..4000).map(|parts| part_size(parts) as u64).sum();
        assert!(hundred_gb > 100 << 30 && part_size(3999) == 64 << 20);
    }
}
