//! Writing objects whose size is known: in one request when small, in parts side by side when large.

use std::fmt::Write;
use std::path::Path;

use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::answers::{checksum_header, confirm_etag, confirm_write};
use super::conditions::conditions;
use super::failure::S3Failure;
use super::multipart::Multipart;
use super::writer::{MOST_PARTS, S3Writer};
use super::{S3Storage, version};
use crate::storage::{IfExists, Payload, PutMode, STREAM_PIECE, StorageErrorKind, Version};
use crate::tree;

/// Largest object that is written in one request.
pub(super) const SINGLE: u64 = 16 << 20;
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

impl S3Storage {
    /// Writes an object.
    pub(super) async fn write(
        &self,
        full: &str,
        payload: Payload,
        mode: PutMode,
    ) -> Result<Version, S3Failure> {
        let parts = match payload {
            Payload::Parts(parts) => parts,
            Payload::File(path) => return self.write_file(full, &path, mode).await,
        };
        let size = parts.iter().map(|part| part.len() as u64).sum();
        if size <= SINGLE {
            let whole = if let [part] = &*parts { part.clone() } else { parts.concat().into() };
            return Ok(version(&self.put_single(full, &whole, &mode).await?, size));
        }
        let mut writer = S3Writer::new(self.clone(), full.to_owned(), mode, Some(size));
        for part in parts {
            writer.append(part).await?;
        }
        writer.end().await
    }

    async fn write_file(&self, full: &str, path: &Path, mode: PutMode) -> Result<Version, S3Failure> {
        let failed = |error: std::io::Error| {
            // A disk that fails stays so: the node leaves the job to others.
            let kind = match StorageErrorKind::of_file(&error) {
                StorageErrorKind::Unavailable => StorageErrorKind::PermissionDenied,
                kind => kind,
            };
            S3Failure::of(kind, format!("the local file {}: {error}", path.display()))
        };
        let mut file = File::open(path).await.map_err(failed)?;
        let size = file.metadata().await.map_err(failed)?.len();
        let mut writer = S3Writer::new(self.clone(), full.to_owned(), mode, Some(size));
        loop {
            let mut piece = Vec::with_capacity(size.min(STREAM_PIECE) as usize);
            (&mut file).take(STREAM_PIECE).read_to_end(&mut piece).await.map_err(failed)?;
            if piece.is_empty() {
                break;
            }
            writer.append(piece.into()).await?;
        }
        if writer.written < size {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let version = writer.end().await?;
        let path = path.to_owned();
        let removed = tokio::task::spawn_blocking(move || tree::remove_file(path)).await;
        removed.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(failed)?;
        Ok(version)
    }

    /// One request. Returns the object's etag.
    pub(super) async fn put_single(
        &self,
        full: &str,
        body: &Bytes,
        mode: &PutMode,
    ) -> Result<String, S3Failure> {
        let mark = &*mark();
        let put = |mode| async move { self.put_object(full, body, &mode, mark).await };
        self.conditionally(full, mode, mark, true, put).await
    }

    pub(super) async fn put_object(
        &self,
        full: &str,
        body: &Bytes,
        mode: &PutMode,
        mark: &str,
    ) -> Result<String, S3Failure> {
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
            let put = self.bucket.call(("put", full, body.len() as u64), request, |answer| {
                confirm_write(answer.e_tag, answer.checksum_crc32_c.as_deref(), sum.as_deref())
            });
            put.await
        })
        .await
    }

    /// Servers copy up to 5 GB in one request; what they refuse as too large is copied in parts. Few of them know
    /// conditional copies: this looks first where there must be none.
    pub(super) async fn copy_object(
        &self,
        source: &str,
        target: &str,
        if_exists: IfExists,
    ) -> Result<(), S3Failure> {
        if if_exists == IfExists::Fail {
            self.must_be(target, &PutMode::Create).await?;
        }
        let bucket = &self.bucket;
        let from = copy_source(&bucket.name, source);
        let request =
            || bucket.client.copy_object().copy_source(&from).bucket(&bucket.name).key(target).send();
        let copied = bucket.call(("copy", target, COPY), request, |answer| {
            confirm_etag(answer.copy_object_result.and_then(|result| result.e_tag)).map(drop)
        });
        match copied.await {
            Err(failure) if matches!(failure.code.as_str(), "InvalidRequest" | "EntityTooLarge") => {
                let size = self.look_up(source).await?.0.size;
                if size == 0 { Err(failure) } else { self.copy_large(&from, size, target).await }
            }
            copied => copied,
        }
    }

    async fn copy_large(&self, from: &str, size: u64, target: &str) -> Result<(), S3Failure> {
        let mut upload = Multipart::begin(self.clone(), target.to_owned()).await?;
        let step = COPY_PART.max(size.div_ceil(MOST_PARTS));
        for (start, number) in (0..size).step_by(step as usize).zip(1..) {
            upload.copy(number, from, start..size.min(start + step)).await?;
        }
        upload.complete(&PutMode::Overwrite).await.map(drop)
    }
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
    fn sources_of_copies_are_encoded() {
        assert_eq!(copy_source("b", "a b/é+%?#.txt"), "b/a%20b/%C3%A9%2B%25%3F%23.txt");
    }
}
