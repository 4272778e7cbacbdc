//! Stores on other hosts: buckets of S3 servers, and HTTP servers.

use std::sync::Arc;

use super::open::malformed;
use super::{HttpStorage, Reach, S3Options, S3Storage, Storage, StorageError};

/// Opens a bucket, reached as the environment and the configuration say.
pub(super) async fn open_bucket(name: &str, prefix: &str) -> Result<Arc<dyn Storage>, StorageError> {
    let options = S3Options::of_bucket(name);
    let options = options.map_err(|cause| malformed(&format!("s3://{name}/{prefix}"), &cause))?;
    Ok(Arc::new(S3Storage::open(name, prefix, &options).await?))
}

/// Opens an HTTP server, of which no more is read than `reach` allows.
#[expect(clippy::unnecessary_wraps, reason = "the other one has none")]
pub(super) fn open_http(url: &str, reach: Option<Arc<Reach>>) -> Result<Arc<dyn Storage>, StorageError> {
    Ok(Arc::new(match reach {
        Some(reach) => HttpStorage::within(url, reach),
        None => HttpStorage::new(url),
    }))
}
