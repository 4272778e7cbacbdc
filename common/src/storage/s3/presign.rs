//! Requests that others make of the server, for a while, without credentials: the URL has the signature.
//!
//! What is written so is what was signed: its size and its SHA-256 are headers that the signature covers, and the server compares
//! the latter with what came. Nothing is asked of the server here.

use std::time::Duration;

use aws_sdk_s3::presigning::{PresignedRequest, PresigningConfig};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::S3Storage;
use super::failure::S3Failure;
use crate::storage::StorageErrorKind::InvalidKey;
use crate::storage::{Presign, Presigned};

/// What a browser is told that a file is: nothing that it would show.
const TYPE: &str = "application/octet-stream";

impl S3Storage {
    pub(super) async fn presigned(
        &self,
        full: &str,
        what: &Presign,
        time: Duration,
    ) -> Result<Presigned, S3Failure> {
        let bucket = &self.bucket;
        let config = PresigningConfig::expires_in(time);
        let config = config.map_err(|error| S3Failure::of(InvalidKey, error.to_string()))?;
        match what {
            Presign::Read { name } => {
                let request = bucket.client.get_object().bucket(&bucket.name).key(full);
                let kept = format!("attachment; filename*=UTF-8''{name}");
                let request = request.response_content_disposition(kept).response_content_type(TYPE);
                Ok(of(&request.presigned(config).await?))
            }
            Presign::Write { bytes, sha256 } => {
                let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
                let request = bucket.client.put_object().bucket(&bucket.name).key(full);
                let request = request.content_length(bytes).checksum_sha256(STANDARD.encode(sha256));
                Ok(of(&request.presigned(config).await?))
            }
        }
    }
}

fn of(request: &PresignedRequest) -> Presigned {
    let headers = request.headers().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Presigned { url: request.uri().to_owned(), headers: headers.collect() }
}
