//! No stores on other hosts: the program was built without the feature `s3`.

#![expect(clippy::unused_async, reason = "the other one asks the server")]

use std::sync::Arc;

use super::open::malformed;
use super::{Reach, Storage, StorageError};
use crate::absent::absent;
use crate::dataset::http_url::shown;

/// There is none.
pub(super) async fn open_bucket(name: &str, prefix: &str) -> Result<Arc<dyn Storage>, StorageError> {
    Err(malformed(&format!("s3://{name}/{prefix}"), &absent("S3", "s3")))
}

/// There is none.
pub(super) fn open_http(url: &str, _: Option<Arc<Reach>>) -> Result<Arc<dyn Storage>, StorageError> {
    Err(malformed(&shown(url), &absent("HTTP client", "s3")))
}
