//! An object that is written in parts: begun, sent part by part in any order, completed or taken back.

use std::ops::Range;
use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::answers::{checksum_header, confirm_etag, confirm_write};
use super::conditions::conditions;
use super::failure::{NO_UPLOAD, S3Failure};
use super::write::{MARK, mark};
use super::{Bucket, S3Storage};
use crate::storage::PutMode;

/// Parts on their way while the next is filled.
const SIDE_BY_SIDE: usize = 4;
/// What putting the parts together counts as, when it is decided how long it may take.
const COMPLETE: u64 = 20 << 20;

/// An upload in parts; taken back when it is dropped before it is complete.
pub(super) struct Multipart {
    target: Arc<Target>,
    mark: String,
    sending: JoinSet<Result<CompletedPart, S3Failure>>,
    arrived: Vec<CompletedPart>,
    complete: bool,
}

/// Where the parts go.
struct Target {
    storage: S3Storage,
    full: String,
    id: String,
}

impl Multipart {
    pub(super) async fn begin(storage: S3Storage, full: String) -> Result<Self, S3Failure> {
        let mark = mark();
        let bucket = &storage.bucket;
        let (key, known) = (&full, &mark);
        let id = storage.with_checksum(|with| async move {
            let algorithm = with.then_some(ChecksumAlgorithm::Crc32C);
            let request = || {
                let request = bucket.client.create_multipart_upload().bucket(&bucket.name).key(key);
                request.metadata(MARK, known).set_checksum_algorithm(algorithm.clone()).send()
            };
            let begun = bucket.call(("begin upload", key, 0), request, |begun| {
                let id = begun.upload_id.filter(|id| !id.is_empty());
                id.ok_or_else(|| S3Failure::no_s3_answer("it does not name the upload"))
            });
            begun.await
        });
        let id = id.await?;
        let target = Arc::new(Target { storage, full, id });
        Ok(Self { target, mark, sending: JoinSet::new(), arrived: Vec::new(), complete: false })
    }

    /// Sends part `number`, as soon as few enough are on their way.
    pub(super) async fn send(&mut self, number: i32, body: Bytes) -> Result<(), S3Failure> {
        while self.sending.len() >= SIDE_BY_SIDE {
            self.arrive().await?;
        }
        let target = Arc::clone(&self.target);
        self.sending.spawn(async move { target.put_part(number, body).await });
        Ok(())
    }

    /// Waits for one of the parts on their way; false when there is none.
    async fn arrive(&mut self) -> Result<bool, S3Failure> {
        let Some(part) = self.sending.join_next().await else { return Ok(false) };
        self.arrived.push(part.map_err(|error| S3Failure::unanswered(error.to_string())).flatten()?);
        Ok(true)
    }

    /// Lets the server copy `range` of another object as part `number`.
    pub(super) async fn copy(&mut self, number: i32, from: &str, range: Range<u64>) -> Result<(), S3Failure> {
        let Target { storage, full, id } = &*self.target;
        let bucket = &storage.bucket;
        let range = format!("bytes={}-{}", range.start, range.end - 1);
        let request = || {
            let request = bucket.client.upload_part_copy().bucket(&bucket.name).key(full).upload_id(id);
            request.part_number(number).copy_source(from).copy_source_range(&range).send()
        };
        let copied = bucket.call(("copy part", full, COMPLETE), request, |answer| {
            let (etag, stored) =
                answer.copy_part_result.map(|part| (part.e_tag, part.checksum_crc32_c)).unwrap_or_default();
            Ok(part(number, confirm_etag(etag)?, stored))
        });
        self.arrived.push(copied.await?);
        Ok(())
    }

    /// Takes it back, and says where that fails.
    pub(super) async fn take_back(mut self) -> Result<(), S3Failure> {
        let Target { storage, full, id } = &*self.target;
        let aborted = abort(&storage.bucket, full, id).await;
        self.complete = true;
        aborted
    }

    /// Makes the object visible, when all parts have arrived and it is as `mode` wants it. Returns its etag.
    pub(super) async fn complete(mut self, mode: &PutMode) -> Result<String, S3Failure> {
        while self.arrive().await? {}
        self.arrived.sort_by_key(CompletedPart::part_number);
        let parts = std::mem::take(&mut self.arrived);
        let parts = &CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let Target { storage, full, id } = &*self.target;
        let bucket = &storage.bucket;
        let complete = |mode| async move {
            let request = || {
                let (none_match, is_match) = conditions(&mode);
                let request = bucket.client.complete_multipart_upload().bucket(&bucket.name).key(full);
                let request = request.upload_id(id).multipart_upload(parts.clone());
                request.set_if_none_match(none_match).set_if_match(is_match).send()
            };
            let what = ("complete upload", &**full, COMPLETE);
            bucket.call(what, request, |answer| confirm_etag(answer.e_tag)).await
        };
        let etag = storage.conditionally(full, mode, &self.mark, false, complete).await?;
        self.complete = true;
        Ok(etag)
    }
}

impl Drop for Multipart {
    fn drop(&mut self) {
        if self.complete {
            return;
        }
        let target = Arc::clone(&self.target);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::warn!(
                key = target.full,
                "an unfinished upload is left behind: nothing runs that could abort it"
            );
            return;
        };
        let mut sending = std::mem::take(&mut self.sending);
        self.target.storage.bucket.aborts.spawn_on(
            async move {
                // A part that came after the abort would stay.
                sending.shutdown().await;
                if let Err(failure) = abort(&target.storage.bucket, &target.full, &target.id).await {
                    let error = failure.message;
                    tracing::warn!(key = target.full, error, "an unfinished upload is left behind");
                }
            },
            &runtime,
        );
    }
}

impl Target {
    async fn put_part(&self, number: i32, body: Bytes) -> Result<CompletedPart, S3Failure> {
        let (bucket, body) = (&self.storage.bucket, &body);
        let sent = self.storage.with_checksum(|with| async move {
            let sum = with.then(|| checksum_header(body));
            let request = || {
                let request =
                    bucket.client.upload_part().bucket(&bucket.name).key(&self.full).upload_id(&self.id);
                let request = request.part_number(number).set_checksum_crc32_c(sum.clone());
                request.body(ByteStream::from(body.clone())).send()
            };
            let sent = bucket.call(("put part", &self.full, body.len() as u64), request, |answer| {
                let stored = answer.checksum_crc32_c;
                let etag = confirm_write(answer.e_tag, stored.as_deref(), sum.as_deref())?;
                Ok(part(number, etag, stored))
            });
            sent.await
        });
        sent.await
    }
}

/// A part that arrived, with the checksum that the server has of it; none where it knows no checksums, or not this one.
fn part(number: i32, etag: String, checksum: Option<String>) -> CompletedPart {
    CompletedPart::builder().part_number(number).e_tag(etag).set_checksum_crc32_c(checksum).build()
}

/// Takes an upload back; one that is gone is fine.
pub(super) async fn abort(bucket: &Bucket, full: &str, id: &str) -> Result<(), S3Failure> {
    let request =
        || bucket.client.abort_multipart_upload().bucket(&bucket.name).key(full).upload_id(id).send();
    match bucket.call(("abort upload", full, 0), request, Ok).await {
        Err(failure) if failure.code == NO_UPLOAD => Ok(()),
        aborted => aborted.map(drop),
    }
}
