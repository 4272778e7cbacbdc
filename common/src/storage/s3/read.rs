//! Reading an object, or a range of it.
//!
//! A read that breaks off goes on where it broke, and only with the same version of the object: bytes of two
//! versions are never put together, and fewer bytes than promised are never returned.

use std::ops::Range;

use aws_sdk_s3::types::ChecksumMode;
use bytes::{Bytes, BytesMut};

use super::answers::{confirm_etag, promised, stored_checksum};
use super::failure::{S3Failure, causes};
use super::retry::{Retry, STALL};
use super::write::MARK;
use super::{S3Storage, described, etag_of, version};
use crate::storage::StorageErrorKind::{AlreadyExists, Changed, Damaged, Unavailable};
use crate::storage::{GetResult, ObjectMeta};

/// Room made at once for the body of an answer.
const MOST_RESERVED: u64 = 64 << 20;

/// A read, as far as it has come.
#[derive(Debug, Default)]
struct Reading {
    bytes: BytesMut,
    /// The version the bytes are of.
    etag: Option<String>,
    /// Size of the whole object.
    size: u64,
}

impl S3Storage {
    /// Reads `range`, cut at the end of the object; of the version with this etag, where one is given.
    pub(super) async fn read(
        &self,
        full: &str,
        range: Range<u64>,
        etag: Option<&str>,
    ) -> Result<GetResult, S3Failure> {
        if range.is_empty() {
            // No server answers a range of nothing; whether the object exists is still asked.
            return self.read_nothing(full, etag).await;
        }
        let call = || Retry::new(&self.bucket, "get", full, 0);
        let fresh = || Reading { etag: etag.map(str::to_owned), ..Reading::default() };
        let (mut retry, mut reading) = (call(), fresh());
        loop {
            let before = reading.bytes.len();
            let Err(failure) = self.read_on(full, &range, &mut reading, &retry).await else { break };
            let kind = failure.kind;
            if reading.bytes.len() > before && kind != Damaged {
                // The line is slow or breaks now and then, and it gets there.
                retry = call();
            }
            match kind {
                AlreadyExists | Changed if etag.is_none() => {
                    reading = fresh();
                    retry.after(S3Failure::unanswered("the object was replaced while it was read")).await?;
                }
                AlreadyExists | Changed => retry.after(S3Failure::replaced()).await?,
                Damaged => {
                    reading = fresh();
                    let again = retry.after(S3Failure { kind: Unavailable, ..failure }).await;
                    again.map_err(|failure| S3Failure { kind, ..failure })?;
                }
                _ => retry.after(failure).await?,
            }
        }
        let Reading { bytes, etag: found, size } = reading;
        if size == 0 {
            // The object ends before the range starts.
            return self.read_nothing(full, etag).await;
        }
        Ok(GetResult { bytes: bytes.freeze(), size, version: version(&found.unwrap_or_default(), size) })
    }

    /// What a read gives that has no bytes.
    async fn read_nothing(&self, full: &str, etag: Option<&str>) -> Result<GetResult, S3Failure> {
        let (ObjectMeta { size, version, .. }, _) = self.look_up(full).await?;
        match etag {
            Some(wanted) if wanted != etag_of(&version) => Err(S3Failure::replaced()),
            _ => Ok(GetResult { bytes: Bytes::new(), size, version }),
        }
    }

    /// One attempt at the rest.
    async fn read_on(
        &self,
        full: &str,
        range: &Range<u64>,
        reading: &mut Reading,
        retry: &Retry<'_>,
    ) -> Result<(), S3Failure> {
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
        let (mut missing, size) = promised(&answer, asked)?;
        reading.size = size;
        // Not every server heeds what it was asked for.
        if reading.etag.is_some() && reading.etag != answer.e_tag {
            return Err(S3Failure::replaced());
        }
        reading.etag.clone_from(&answer.e_tag);
        reading.bytes.reserve(missing.min(MOST_RESERVED) as usize);
        let mut body = answer.body;
        loop {
            let next = tokio::time::timeout(STALL, body.next()).await;
            let stalled = |_| S3Failure::unanswered(format!("the answer stopped for {} s", STALL.as_secs()));
            let Some(next) = next.map_err(stalled)? else { break };
            let chunk = next.map_err(|error| {
                // After the last byte only the checksum can be wrong.
                let (kind, what) =
                    if missing == 0 { (Damaged, "is damaged") } else { (Unavailable, "broke off") };
                S3Failure::of(kind, format!("the answer {what}: {}", causes(&error)))
            })?;
            let left = missing.checked_sub(chunk.len() as u64);
            missing = left.ok_or_else(|| S3Failure::unanswered("the answer is longer than it said"))?;
            reading.bytes.extend_from_slice(&chunk);
        }
        match missing {
            0 => Ok(()),
            missing => Err(S3Failure::unanswered(format!("the answer ended {missing} bytes too early"))),
        }
    }

    /// Looks an object up: what a listing would say, without its key, and the mark of the write that made it, where that
    /// gave it one.
    pub(super) async fn look_up(&self, full: &str) -> Result<(ObjectMeta, Option<String>), S3Failure> {
        let request = || {
            let head = self.bucket.client.head_object().bucket(&self.bucket.name).key(full);
            head.checksum_mode(ChecksumMode::Enabled).send()
        };
        let seen = self.bucket.call(("head", full, 0), request, |answer| {
            let mark = answer.metadata().and_then(|marks| marks.get(MARK)).cloned();
            let checksum = stored_checksum(&answer);
            let etag = confirm_etag(answer.e_tag)?;
            let seen = described(String::new(), answer.content_length, &etag, answer.last_modified);
            Ok((ObjectMeta { checksum, ..seen }, mark))
        });
        seen.await
    }
}
