//! The calls of the S3 interface that prs and the usual tools make, on [`Objects`].

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use prs_common::checksum::Crc32c;
use s3s::access::{S3Access, S3AccessContext};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumType, CommonPrefix,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput,
    CopyObjectResult, CopyPartResult, CopySource, CreateBucketInput, CreateBucketOutput,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput,
    DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETag, ETagCondition, GetObjectInput,
    GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListBucketsInput,
    ListBucketsOutput, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListObjectsV2Input,
    ListObjectsV2Output, MultipartUpload, PutObjectInput, PutObjectOutput, StreamingBlob, Timestamp,
    UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::host::{S3Host, VirtualHost};
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};
use sha2::{Digest, Sha256};
use url::form_urlencoded::{byte_serialize, parse};

use super::objects::{Condition, Object, Objects, Refusal};
use super::{Checksums, Conditions, Rights, S3Settings};

/// Bytes of an object read at a time.
const CHUNK: u64 = 256 << 10;
/// Objects in a page of a listing.
const PAGE: i32 = 1000;

/// What answers the calls.
pub(super) struct Service {
    pub(super) objects: Arc<Objects>,
    pub(super) settings: S3Settings,
    /// Requests that deleted something.
    pub(super) deletes: Arc<AtomicU64>,
}

impl From<Refusal> for s3s::S3Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoKey => no_key(),
            Refusal::NoBucket => s3_error!(NoSuchBucket, "The specified bucket does not exist"),
            Refusal::Exists => {
                s3_error!(PreconditionFailed, "At least one of the pre-conditions you specified did not hold")
            }
            Refusal::NoUpload => s3_error!(NoSuchUpload, "The specified upload does not exist"),
            Refusal::BadPart => s3_error!(
                InvalidPart,
                "A part is missing, too small, out of order, or not as large as the others"
            ),
            Refusal::Io(error) => s3_error!(error, InternalError),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every call ends with it")]
fn answer<T>(output: T) -> S3Result<S3Response<T>> {
    Ok(S3Response::new(output))
}

fn io_failed(error: std::io::Error) -> s3s::S3Error {
    Refusal::Io(error).into()
}

fn no_key() -> s3s::S3Error {
    s3_error!(NoSuchKey, "The specified key does not exist")
}

fn etag(object: &Object) -> ETag {
    ETag::Strong(object.etag.clone())
}

/// A CRC32C as headers have it.
pub(super) fn checksum_of(sum: u32) -> String {
    BASE64_STANDARD.encode(sum.to_be_bytes())
}

/// Receives a body; one that breaks off or whose checksum, CRC32C or SHA-256, is wrong is an error.
async fn receive(
    body: Option<StreamingBlob>,
    checksum: Option<&str>,
    sha256: Option<&str>,
    mut append: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> S3Result<()> {
    let mut body = body.ok_or_else(|| s3_error!(IncompleteBody))?;
    let (mut sum, mut digest) = (Crc32c::new(), Sha256::new());
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|error| s3_error!(IncompleteBody, "{error}"))?;
        sum.update(&bytes);
        if sha256.is_some() {
            digest.update(&bytes);
        }
        append(&bytes).map_err(io_failed)?;
    }
    let received = checksum_of(sum.finish());
    if checksum.is_some_and(|sent| sent != received) {
        return Err(s3_error!(BadDigest, "The CRC32C you specified did not match the calculated checksum"));
    }
    if sha256.is_some_and(|sent| sent != BASE64_STANDARD.encode(digest.finalize())) {
        return Err(s3_error!(BadDigest, "The SHA256 you specified did not match the calculated checksum"));
    }
    Ok(())
}

/// `length` bytes of a file from where it stands.
fn send(mut file: File, length: u64) -> std::io::Result<StreamingBlob> {
    let mut piece = move |left: &mut u64| {
        let mut bytes = vec![0; CHUNK.min(*left) as usize];
        file.read_exact(&mut bytes)?;
        *left -= bytes.len() as u64;
        Ok(Bytes::from(bytes))
    };
    let mut left = length;
    if length <= CHUNK {
        return Ok(StreamingBlob::from(Body::from(piece(&mut left)?)));
    }
    let pieces = stream::iter(std::iter::from_fn(move || (left > 0).then(|| piece(&mut left))));
    Ok(StreamingBlob::wrap::<_, std::io::Error>(pieces))
}

impl Service {
    fn source(&self, source: &CopySource) -> S3Result<(Object, File)> {
        let CopySource::Bucket { bucket, key, .. } = source else { return Err(s3_error!(NotImplemented)) };
        self.objects.find(bucket, key)?.ok_or_else(no_key)
    }

    /// The checksum of a body that is to be kept.
    fn checksum(&self, sent: Option<String>) -> S3Result<Option<String>> {
        match self.settings.checksums {
            Checksums::Kept => Ok(sent),
            Checksums::Refused if sent.is_some() => {
                Err(s3_error!(InvalidArgument, "Unsupported header 'x-amz-checksum-crc32c' received"))
            }
            Checksums::Ignored | Checksums::Refused => Ok(None),
        }
    }

    fn is_locked(&self, key: &str) -> bool {
        self.settings.locked.as_deref().is_some_and(|locked| key.contains(locked))
    }

    /// What the conditions of a write ask for: that the object is new, or the one with an etag. Others are not known here.
    fn condition(
        &self,
        none_match: Option<&ETagCondition>,
        is_match: Option<&ETagCondition>,
    ) -> S3Result<Condition> {
        let condition = match (none_match, is_match) {
            (None, None) => return Ok(Condition::None),
            (Some(ETagCondition::Any), None) => Condition::Absent,
            (None, Some(ETagCondition::ETag(etag))) => Condition::Is(etag.value().to_owned()),
            _ => return Err(s3_error!(NotImplemented, "This combination of conditions is not known")),
        };
        match self.settings.conditions {
            Conditions::Heeded => Ok(condition),
            Conditions::OfNewObjects if condition == Condition::Absent => Ok(condition),
            Conditions::OfNewObjects | Conditions::Ignored => Ok(Condition::None),
            Conditions::Refused => {
                Err(s3_error!(NotImplemented, "A header you provided implies a function that is absent"))
            }
        }
    }
}

#[async_trait]
impl S3 for Service {
    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        match self.objects.make_bucket(&request.input.bucket) {
            Err(Refusal::Exists) => Err(s3_error!(BucketAlreadyOwnedByYou)),
            made => {
                made?;
                answer(CreateBucketOutput::default())
            }
        }
    }

    async fn list_buckets(
        &self,
        _request: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        let named = |name| s3s::dto::Bucket { name: Some(name), ..Default::default() };
        let buckets = self.objects.bucket_names().into_iter().map(named).collect();
        answer(ListBucketsOutput { buckets: Some(buckets), ..Default::default() })
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.objects.has_bucket(&request.input.bucket)?;
        answer(HeadBucketOutput::default())
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        let condition = self.condition(input.if_none_match.as_ref(), input.if_match.as_ref())?;
        let checksum = self.checksum(input.checksum_crc32c)?;
        let marks = input.metadata.unwrap_or_default();
        let mut writing = self.objects.write(&input.bucket, &input.key, marks, checksum.clone())?;
        receive(input.body, checksum.as_deref(), input.checksum_sha256.as_deref(), |bytes| {
            writing.append(bytes)
        })
        .await?;
        let object = self.objects.place(writing, &condition)?;
        answer(PutObjectOutput {
            checksum_crc32c: object.checksum.clone(),
            e_tag: Some(etag(&object)),
            ..Default::default()
        })
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let (object, mut file) = self.objects.find(&input.bucket, &input.key)?.ok_or_else(no_key)?;
        if input
            .if_match
            .as_ref()
            .and_then(ETagCondition::as_etag)
            .is_some_and(|wanted| *wanted != etag(&object))
        {
            return Err(s3_error!(PreconditionFailed, "The object is another version"));
        }
        let part = match input.range {
            Some(range) => range.check(object.size)?,
            None => 0..object.size,
        };
        file.seek(SeekFrom::Current(part.start as i64)).map_err(io_failed)?;
        let length = part.end - part.start;
        // As AWS does: of a part of an object there is no checksum.
        let checksum = object.checksum.clone();
        let checksum = checksum.filter(|_| input.checksum_mode.is_some() && input.range.is_none());
        let content_range =
            input.range.map(|_| format!("bytes {}-{}/{}", part.start, part.end - 1, object.size));
        answer(GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            checksum_crc32c: checksum,
            body: Some(send(file, length).map_err(io_failed)?),
            content_length: Some(length as i64),
            content_range,
            e_tag: Some(etag(&object)),
            last_modified: Some(Timestamp::from(object.modified)),
            metadata: Some(object.marks),
            ..Default::default()
        })
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let (object, _) = self.objects.find(&request.input.bucket, &request.input.key)?.ok_or_else(no_key)?;
        let checksum = object.checksum.clone().filter(|_| request.input.checksum_mode.is_some());
        answer(HeadObjectOutput {
            checksum_type: checksum.is_some().then(|| ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
            checksum_crc32c: checksum,
            content_length: Some(object.size as i64),
            e_tag: Some(etag(&object)),
            last_modified: Some(Timestamp::from(object.modified)),
            metadata: Some(object.marks),
            ..Default::default()
        })
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.deletes.fetch_add(1, Ordering::Relaxed);
        if self.is_locked(&request.input.key) {
            return Err(s3_error!(AccessDenied, "Access Denied because object protected by object lock"));
        }
        self.objects.delete(&request.input.bucket, &request.input.key)?;
        answer(DeleteObjectOutput::default())
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let input = request.input;
        if !self.settings.bulk_deletes {
            return Err(s3_error!(NotImplemented, "A header you provided implies a function that is absent"));
        }
        if input.delete.objects.len() > PAGE as usize {
            return Err(s3_error!(MalformedXML, "The XML you provided was not well-formed"));
        }
        self.deletes.fetch_add(1, Ordering::Relaxed);
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for object in input.delete.objects {
            if self.is_locked(&object.key) {
                let code = Some("AccessDenied".to_owned());
                errors.push(s3s::dto::Error { key: Some(object.key), code, ..Default::default() });
                continue;
            }
            self.objects.delete(&input.bucket, &object.key)?;
            deleted.push(DeletedObject { key: Some(object.key), ..Default::default() });
        }
        answer(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), ..Default::default() })
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let prefix = input.prefix.clone().unwrap_or_default();
        let most = input.max_keys.unwrap_or(PAGE).clamp(0, PAGE) as usize;
        let after = input.continuation_token.as_deref().or(input.start_after.as_deref()).unwrap_or_default();
        let delimiter = input.delimiter.as_deref().unwrap_or_default();
        let (mut contents, mut folders) = (Vec::new(), Vec::new());
        let (mut last, mut more) = (after.to_owned(), false);
        loop {
            let found = self.objects.list(&input.bucket, &prefix, &last, most + 1)?;
            let Some((key, _)) = found.first() else { break };
            if contents.len() + folders.len() == most {
                more = true;
                break;
            }
            let folder = |key: &str| {
                let rest = key.strip_prefix(&prefix).filter(|_| !delimiter.is_empty())?;
                rest.find(delimiter).map(|at| key[..prefix.len() + at + delimiter.len()].to_owned())
            };
            if let Some(folder) = folder(key) {
                // Everything below it is one entry: go on behind its last possible name.
                last = format!("{folder}\u{10ffff}");
                folders.push(CommonPrefix { prefix: Some(folder) });
                continue;
            }
            for (key, object) in found {
                if contents.len() + folders.len() == most || folder(&key).is_some() {
                    break;
                }
                last.clone_from(&key);
                contents.push(s3s::dto::Object {
                    e_tag: Some(etag(&object)),
                    key: Some(key),
                    last_modified: Some(Timestamp::from(object.modified)),
                    size: Some(object.size as i64),
                    ..Default::default()
                });
            }
        }
        // As AWS and MinIO do, on request: XML cannot write all names.
        if input.encoding_type.is_some() {
            let encoded = |name: &mut Option<String>| {
                *name = name.take().map(|name| byte_serialize(name.as_bytes()).collect::<String>());
            };
            for object in &mut contents {
                encoded(&mut object.key);
            }
            for folder in &mut folders {
                encoded(&mut folder.prefix);
            }
        }
        answer(ListObjectsV2Output {
            encoding_type: input.encoding_type,
            common_prefixes: Some(folders).filter(|folders| !folders.is_empty()),
            key_count: Some(contents.len() as i32),
            contents: Some(contents),
            delimiter: input.delimiter,
            is_truncated: Some(more),
            max_keys: input.max_keys,
            name: Some(input.bucket),
            next_continuation_token: more.then_some(last),
            prefix: input.prefix,
            ..Default::default()
        })
    }

    async fn copy_object(
        &self,
        request: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        let input = request.input;
        let (object, mut file) = self.source(&input.copy_source)?;
        if object.size > self.settings.largest_copy {
            return Err(s3_error!(
                InvalidRequest,
                "The specified copy source is larger than the maximum allowable size for a copy source"
            ));
        }
        let mut writing = self.objects.write(&input.bucket, &input.key, object.marks, object.checksum)?;
        writing.append_file(&mut file).map_err(io_failed)?;
        let copy = self.objects.place(writing, &Condition::None)?;
        let result = CopyObjectResult {
            e_tag: Some(etag(&copy)),
            last_modified: Some(Timestamp::from(copy.modified)),
            ..Default::default()
        };
        answer(CopyObjectOutput { copy_object_result: Some(result), ..Default::default() })
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = request.input;
        let marks = input.metadata.unwrap_or_default();
        let id = self.objects.begin_upload(&input.bucket, &input.key, &marks)?;
        answer(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..Default::default()
        })
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = request.input;
        if !(1..=10_000).contains(&input.part_number) {
            return Err(s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000"));
        }
        let upload = self.objects.upload(&input.bucket, &input.key, &input.upload_id)?;
        let mut part = self.objects.write_part(&upload, input.part_number)?;
        let checksum = self.checksum(input.checksum_crc32c)?;
        receive(input.body, checksum.as_deref(), None, |bytes| part.append(bytes)).await?;
        answer(UploadPartOutput {
            checksum_crc32c: checksum,
            e_tag: Some(ETag::Strong(part.etag)),
            ..Default::default()
        })
    }

    async fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let input = request.input;
        let upload = self.objects.upload(&input.bucket, &input.key, &input.upload_id)?;
        let (object, mut file) = self.source(&input.copy_source)?;
        let part = match input.copy_source_range.as_deref().map(s3s::dto::Range::parse) {
            Some(range) => range.map_err(|_| s3_error!(InvalidArgument))?.check(object.size)?,
            None => 0..object.size,
        };
        file.seek(SeekFrom::Current(part.start as i64)).map_err(io_failed)?;
        let mut copy = self.objects.write_part(&upload, input.part_number)?;
        copy.append_file(&mut file.take(part.end - part.start)).map_err(io_failed)?;
        let result = CopyPartResult { e_tag: Some(ETag::Strong(copy.etag)), ..Default::default() };
        answer(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() })
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = request.input;
        let condition = self.condition(input.if_none_match.as_ref(), input.if_match.as_ref())?;
        let upload = self.objects.upload(&input.bucket, &input.key, &input.upload_id)?;
        let parts = input.multipart_upload.and_then(|parts| parts.parts).unwrap_or_default();
        let parts: Option<Vec<_>> =
            parts.into_iter().map(|part| Some((part.part_number?, part.e_tag?.into_value()))).collect();
        let parts = parts.ok_or_else(|| s3_error!(InvalidPart))?;
        let object = self.objects.complete(&input.bucket, &upload, &parts, &condition)?;
        answer(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(etag(&object)),
            ..Default::default()
        })
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let input = request.input;
        let upload = self.objects.upload(&input.bucket, &input.key, &input.upload_id)?;
        upload.abort()?;
        answer(AbortMultipartUploadOutput::default())
    }

    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = request.input;
        let prefix = input.prefix.unwrap_or_default();
        let after = (input.key_marker.unwrap_or_default(), input.upload_id_marker.unwrap_or_default());
        let mut uploads = self.objects.uploads(&input.bucket)?;
        let by_prefix = self.settings.uploads_by_prefix || prefix.is_empty();
        uploads.retain(|upload| {
            let is_meant = if by_prefix { upload.key.starts_with(&prefix) } else { upload.key == prefix };
            is_meant && (&upload.key, &upload.id) > (&after.0, &after.1)
        });
        let more = uploads.len() > PAGE as usize;
        uploads.truncate(PAGE as usize);
        let last = uploads.last().filter(|_| more);
        answer(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            is_truncated: Some(more),
            next_key_marker: last.map(|upload| upload.key.clone()),
            next_upload_id_marker: last.map(|upload| upload.id.clone()),
            uploads: Some(
                uploads
                    .into_iter()
                    .map(|upload| MultipartUpload {
                        initiated: Some(Timestamp::from(upload.initiated)),
                        key: Some(upload.key),
                        upload_id: Some(upload.id),
                        ..Default::default()
                    })
                    .collect(),
            ),
            ..Default::default()
        })
    }
}

/// Finds the bucket before `.localhost` in the name of the host; in the path where it is not there.
pub(super) struct Hosts {
    /// Requests with the bucket there.
    pub(super) count: Arc<AtomicU64>,
}

impl S3Host for Hosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        match host.split_once(".localhost") {
            Some((bucket, _)) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                Ok(VirtualHost::new("localhost").with_bucket(bucket))
            }
            None => Ok(VirtualHost::new(host)),
        }
    }
}

/// The bucket that everyone may list and read.
const PUBLIC: &str = "public";

/// Lets each key do what its rights say.
pub(super) struct Gate {
    pub(super) access_key: String,
    pub(super) noted: Arc<Noted>,
}

/// How a listing is noted: of a folder itself, and of all that is below it.
pub const LISTS_FOLDER: &str = "ListObjectsV2 of a folder";
/// The other.
pub const LISTS_ALL: &str = "ListObjectsV2 of all";

/// Requests, while a test counts them.
#[derive(Debug, Default)]
pub(super) struct Noted(Mutex<Option<Vec<(String, String)>>>);

impl Noted {
    /// From now on they are noted; returns those since the last call.
    pub(super) fn take(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().replace(Vec::new()).unwrap_or_default()
    }

    fn note(&self, context: &S3AccessContext<'_>) {
        if let Some(noted) = &mut *self.0.lock().unwrap() {
            let operation = context.s3_op().name();
            if operation != "ListObjectsV2" {
                let key = context.s3_path().get_object_key().unwrap_or_default();
                noted.push((operation.to_owned(), key.to_owned()));
                return;
            }
            // A listing is of a bucket; what it is about stands in its parameters.
            let query: HashMap<_, _> = parse(context.uri().query().unwrap_or_default().as_bytes()).collect();
            let name = if query.contains_key("delimiter") { LISTS_FOLDER } else { LISTS_ALL };
            noted.push((name.to_owned(), query.get("prefix").map(ToString::to_string).unwrap_or_default()));
        }
    }
}

#[async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        self.noted.note(context);
        let Some(credentials) = context.credentials() else {
            let is_public = context.s3_path().get_bucket_name() == Some(PUBLIC);
            let is_allowed = is_public && Rights::Read.allow(context.s3_op().name());
            return if is_allowed { Ok(()) } else { Err(s3_error!(AccessDenied, "Access Denied")) };
        };
        let rights = Rights::of_key(&self.access_key, &credentials.access_key);
        if rights.is_some_and(|rights| rights.allow(context.s3_op().name())) {
            Ok(())
        } else {
            Err(s3_error!(AccessDenied, "Access Denied"))
        }
    }
}
