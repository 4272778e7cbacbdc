//! Claims: small objects that say which uploaded files a request is about to name, and by their age since when.

use bytes::Bytes;
use futures_util::TryStreamExt;
use prs_common::layout::{CLAIMS, blob};
use prs_common::storage::{PutMode, Storage, StorageError};

use super::is_older;
use super::named::Named;

/// How long a claim holds, seconds.
pub const CLAIMED_FOR: u64 = 24 * 3_600;

/// Claims the file with this checksum anew. It counts for collections that begin after this, so a program that claims looks whether one
/// began meanwhile ([`until_quiet`](super::until_quiet)).
///
/// # Errors
/// The store fails.
pub async fn claim(storage: &dyn Storage, digest: &str) -> Result<(), StorageError> {
    let key = format!("{CLAIMS}{}", blob(digest));
    storage.put(&key, Bytes::from_static(b"1").into(), PutMode::Overwrite).await.map(drop)
}

/// The files that are claimed, and the keys of claims that hold no longer.
pub(super) async fn claimed(storage: &dyn Storage) -> Result<(Named, Vec<String>), StorageError> {
    let (mut named, mut old) = (Named::default(), Vec::new());
    let mut claims = storage.list(CLAIMS, "");
    while let Some(claim) = claims.try_next().await? {
        if is_older(&claim, CLAIMED_FOR) {
            old.push(claim.key);
        } else if let Some((_, digest)) = claim.key.rsplit_once('/') {
            named.add(digest);
        }
    }
    Ok((named, old))
}
