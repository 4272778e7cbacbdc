//! Writing objects whose size is known: in one request when small, in parts side by side when large.
//!
//! A conditional write whose answer was lost is made again, and then finds its own object. So that it is told
//! from another's, such an object carries a mark in its metadata.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use bytes::{Bytes, BytesMut};

use super::S3Storage;
use super::conditions::{conditions, exists, may_refuse_conditions};
use super::failure::Failure;
use super::integrity::{checksum_header, confirm_etag, confirm_write};
use super::multipart::Multipart;
use super::read::{Seen, blocking};
use super::retry::{Retry, confirmed};
use crate::storage::{IfExists, PutMode, StorageErrorKind};

/// Largest object that is written in one request.
pub(super) const SINGLE: u64 = 16 << 20;
/// Smallest part, but for the last.
pub(super) const PART: u64 = 8 << 20;
/// Parts of one object that are on their way together.
const SIDE_BY_SIDE: usize = 4;
/// Parts an object may have.
pub(super) const MOST_PARTS: u64 = 10_000;
/// What a copy by the server counts as, when it is decided how long it may take.
const COPY: u64 = 20 << 20;
/// The part that a copy of a very large object is made of.
const COPY_PART: u64 = 1 << 30;
/// Name of the metadata that says which write made an object.
pub(super) const MARK: &str = "prs-write";

/// A mark that no other write has.
pub(super) fn mark() -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{:016x}-{:x}-{}", getrandom::u64().unwrap_or_default(), now.as_nanos(), std::process::id())
}

/// The part size with which `size` bytes fit into [`MOST_PARTS`].
fn part_size(size: u64) -> u64 {
    PART.max(size.div_ceil(MOST_PARTS))
}

impl S3Storage {
    /// Writes an object; returns its etag.
    pub(super) async fn write_whole(
        &self,
        full: &str,
        parts: &[Bytes],
        mode: &PutMode,
    ) -> Result<String, Failure> {
        let size = parts.iter().map(|part| part.len() as u64).sum();
        if size <= SINGLE {
            return self.put_single(full, joined(parts, 0, size), mode).await;
        }
        let parts: Arc<[Bytes]> = parts.into();
        self.put_large(full, size, mode, move |start, length| {
            let parts = Arc::clone(&parts);
            async move { Ok(joined(&parts, start, length)) }
        })
        .await
    }

    pub(super) async fn write_file(&self, full: &str, path: &Path) -> Result<(), Failure> {
        let source = path.to_owned();
        let file = blocking(move || {
            let file = File::open(source)?;
            let size = file.metadata()?.len();
            Ok((Arc::new(file), size))
        });
        let (file, size) = file.await?;
        let read = move |start, length| {
            let file = Arc::clone(&file);
            blocking(move || {
                let mut bytes = vec![0; length as usize];
                file.read_exact_at(&mut bytes, start)?;
                Ok(Bytes::from(bytes))
            })
        };
        if size <= SINGLE {
            self.put_single(full, read(0, size).await?, &PutMode::Overwrite).await?;
        } else {
            self.put_large(full, size, &PutMode::Overwrite, read).await?;
        }
        let source = path.to_owned();
        blocking(move || std::fs::remove_file(source)).await
    }

    /// One request. Where the server knows no condition, this looks first and then writes: of several who do so at once,
    /// more than one may believe to be the first. Returns the object's etag.
    pub(super) async fn put_single(
        &self,
        full: &str,
        body: Bytes,
        mode: &PutMode,
    ) -> Result<String, Failure> {
        let mark = mark();
        let asked = self.look_first(full, mode).await?;
        match self.put_object(full, &body, &asked, &mark).await {
            Err(failure) if asked != PutMode::Overwrite && may_refuse_conditions(&failure) => {
                self.must_be(full, mode).await?;
                let etag = self.put_object(full, &body, &PutMode::Overwrite, &mark).await?;
                // It was the condition that was refused.
                let _ = self.bucket.heeds.of(mode).set(false);
                Ok(etag)
            }
            Err(failure) if failure.kind == StorageErrorKind::AlreadyExists => {
                self.or_own(full, &mark, failure).await
            }
            written => written,
        }
    }

    pub(super) async fn put_object(
        &self,
        full: &str,
        body: &Bytes,
        mode: &PutMode,
        mark: &str,
    ) -> Result<String, Failure> {
        self.with_checksum(|with| async move {
            let sum = with.then(|| checksum_header(body));
            let request = || {
                let (none_match, is_match) = conditions(mode);
                let request = self.bucket.client.put_object().bucket(&self.bucket.name).key(full);
                let request = request.set_if_none_match(none_match).set_if_match(is_match);
                let request =
                    if *mode == PutMode::Overwrite { request } else { request.metadata(MARK, mark) };
                request.set_checksum_crc32_c(sum.clone()).body(ByteStream::from(body.clone())).send()
            };
            confirmed(Retry::new("put", body.len() as u64).about(&self.bucket, full), request, |answer| {
                confirm_write(answer.e_tag, answer.checksum_crc32_c.as_deref(), sum.as_deref())
            })
            .await
        })
        .await
    }

    /// `failure`, unless the object is there because an attempt whose answer was lost had written it; then its etag.
    pub(super) async fn or_own(&self, full: &str, mark: &str, failure: Failure) -> Result<String, Failure> {
        if failure.attempts > 1 {
            match self.look_up(full).await {
                Ok(Seen { mark: found, etag, .. }) if found.as_deref() == Some(mark) => {
                    return Ok(etag);
                }
                Ok(_) => {}
                Err(head) if head.kind == StorageErrorKind::NotFound => {}
                Err(head) => return Err(head),
            }
        }
        Err(if failure.kind == StorageErrorKind::AlreadyExists { exists() } else { failure })
    }

    async fn put_large<F>(
        &self,
        full: &str,
        size: u64,
        mode: &PutMode,
        read: impl Fn(u64, u64) -> F,
    ) -> Result<String, Failure>
    where
        F: Future<Output = Result<Bytes, Failure>> + Send + 'static,
    {
        let step = part_size(size);
        let mut upload = Multipart::begin(self.clone(), full.to_owned()).await?;
        for (start, number) in (0..size).step_by(step as usize).zip(1..) {
            upload.send(number, SIDE_BY_SIDE, read(start, step.min(size - start))).await?;
        }
        upload.complete(mode).await
    }

    /// Servers copy up to 5 GB in one request; what they refuse as too large is copied in parts. Few of them know
    /// conditional copies: this looks first where there must be none.
    pub(super) async fn copy_object(
        &self,
        source: &str,
        target: &str,
        if_exists: IfExists,
    ) -> Result<(), Failure> {
        if if_exists == IfExists::Fail {
            self.must_be(target, &PutMode::Create).await?;
        }
        let bucket = &self.bucket;
        let from = copy_source(&bucket.name, source);
        let request =
            || bucket.client.copy_object().copy_source(&from).bucket(&bucket.name).key(target).send();
        let copied = confirmed(Retry::new("copy", COPY).about(bucket, target), request, |answer| {
            confirm_etag(answer.copy_object_result.and_then(|result| result.e_tag)).map(drop)
        });
        match copied.await {
            Err(failure) if matches!(failure.code.as_str(), "InvalidRequest" | "EntityTooLarge") => {
                let size = self.look_up(source).await?.size;
                if size == 0 { Err(failure) } else { self.copy_large(&from, size, target).await }
            }
            copied => copied,
        }
    }

    async fn copy_large(&self, from: &str, size: u64, target: &str) -> Result<(), Failure> {
        let mut upload = Multipart::begin(self.clone(), target.to_owned()).await?;
        let step = COPY_PART.max(size.div_ceil(MOST_PARTS));
        for (start, number) in (0..size).step_by(step as usize).zip(1..) {
            upload.copy(number, from, start..size.min(start + step)).await?;
        }
        upload.complete(&PutMode::Overwrite).await.map(drop)
    }
}

/// `length` bytes from `start` of what the parts are together; no copy when one part holds them all.
fn joined(parts: &[Bytes], start: u64, length: u64) -> Bytes {
    let (mut skip, mut left) = (start as usize, length as usize);
    let mut whole = BytesMut::new();
    for part in parts {
        if skip >= part.len() {
            skip -= part.len();
            continue;
        }
        let piece = part.slice(skip..part.len().min(skip + left));
        skip = 0;
        left -= piece.len();
        if left == 0 && whole.is_empty() {
            return piece;
        }
        whole.reserve(piece.len() + left);
        whole.extend_from_slice(&piece);
        if left == 0 {
            break;
        }
    }
    whole.freeze()
}

/// A bucket and a key as the header of a copy wants them: letters that mean something in a URL are encoded.
fn copy_source(bucket: &str, key: &str) -> String {
    let mut source = format!("{bucket}/");
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            source.push(byte as char);
        } else {
            let _ = write!(source, "%{byte:02X}");
        }
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_at_any_border() {
        let parts = ["", "ab", "c", "", "defg"].map(Bytes::from);
        for start in 0..7 {
            for length in 1..=(7 - start) {
                let seen = joined(&parts, start, length);
                assert_eq!(seen, "abcdefg"[start as usize..(start + length) as usize]);
            }
        }
        assert!(joined(&parts, 0, 0).is_empty());
        assert!(joined(&[], 0, 0).is_empty());
    }

    #[test]
    fn a_part_that_is_whole_is_not_copied() {
        let parts = [Bytes::from("ab"), Bytes::from("cdef")];
        assert_eq!(joined(&parts, 2, 4).as_ptr(), parts[1].as_ptr());
        assert_eq!(joined(&parts, 3, 2).as_ptr(), parts[1][1..].as_ptr());
    }

    #[test]
    fn sizes_of_parts() {
        assert_eq!(part_size(SINGLE + 1), PART);
        let largest = 5 << 40;
        assert!(part_size(largest) * MOST_PARTS >= largest);
    }

    #[test]
    fn sources_of_copies_are_encoded() {
        assert_eq!(copy_source("b", "a b/é+%?#.txt"), "b/a%20b/%C3%A9%2B%25%3F%23.txt");
    }
}
