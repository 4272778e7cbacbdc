//! Reading an object, or a range of it.
//!
//! A read that breaks off goes on where it broke, and only with the same version of the object: bytes of two
//! versions are never put together, and fewer bytes than promised are never returned.

use std::ops::Range;

use aws_sdk_s3::types::ChecksumMode;
use bytes::{Bytes, BytesMut};

use super::failure::Failure;
use super::integrity::{confirm_etag, promised};
use super::retry::{Retry, STALL};
use super::{S3Storage, version};
use crate::storage::{GetResult, StorageErrorKind, Version};

/// Room made at once for the body of an answer.
const MOST_RESERVED: u64 = 64 << 20;

/// What is known of an object without reading it.
pub(super) struct Seen {
    pub(super) size: u64,
    /// Names the write that made it, where that gave it a name.
    pub(super) mark: Option<String>,
    pub(super) etag: String,
    pub(super) version: Version,
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
    /// Reads `range`, cut at the end of the object; of the version with this etag, where one is given.
    pub(super) async fn read(
        &self,
        full: &str,
        range: Range<u64>,
        etag: Option<&str>,
    ) -> Result<GetResult, Failure> {
        if range.is_empty() {
            // No server answers a range of nothing; whether the object exists is still asked.
            let Seen { size, etag: found, version, .. } = self.look_up(full).await?;
            return match etag {
                Some(wanted) if wanted != found => Err(Failure::replaced()),
                _ => Ok(GetResult { bytes: Bytes::new(), size, version }),
            };
        }
        let call = || Retry::new(&self.bucket, "get", full, 0);
        let mut retry = call();
        let fresh = || Reading { etag: etag.map(str::to_owned), ..Reading::default() };
        let mut reading = fresh();
        loop {
            let before = reading.bytes.len();
            let outcome = self.read_on(full, &range, &mut reading, &retry).await;
            if reading.bytes.len() > before && !reading.is_damaged {
                // The line is slow or breaks now and then, and it gets there.
                retry = call();
            }
            match outcome.map_err(Failure::if_replaced) {
                Ok(()) => {
                    let size = reading.size.max(range.start + reading.bytes.len() as u64);
                    let version = version(&reading.etag.unwrap_or_default(), size);
                    return Ok(GetResult { bytes: reading.bytes.freeze(), size, version });
                }
                Err(failure) if failure.kind == StorageErrorKind::Changed && etag.is_none() => {
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
        let answer = match retry.attempt(request.send()).await {
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
        let seen = self.bucket.call(("head", full, 0), request, |answer| {
            let mark = answer.metadata().and_then(|marks| marks.get(super::write::MARK)).cloned();
            let size = answer.content_length().unwrap_or_default().max(0) as u64;
            let modified = answer.last_modified().and_then(super::seconds);
            let etag = confirm_etag(answer.e_tag)?;
            Ok(Seen { size, mark, modified, version: version(&etag, size), etag })
        });
        seen.await
    }
}
