//! Reading the table of tries: the directory, and parts of it. Of a job that has ended they are kept in memory where the home keeps such objects.

use bytes::Bytes;
use futures_util::future::join_all;
use prs_common::checksum::crc32c;
use prs_common::layout::LOGS;
use prs_common::storage::{StorageErrorKind, StorageExt};
use prs_common::try_table::{Block, DIRECTORY, Directory, Extent, FOLDER, Which, blocks};
use prs_orchestrator::JobRecord;

use crate::failure::Failure;
use crate::homes::JobHome;

/// The directory of a job's tries; nothing where the job has none (yet).
pub(super) async fn directory(home: &dyn JobHome, record: &JobRecord) -> Result<Option<Directory>, Failure> {
    let found = home.object(record, &format!("{LOGS}{FOLDER}{DIRECTORY}")).await;
    let found = found.map_err(home.cannot("read the directory of tries"))?;
    found.map(|bytes| Directory::decode(&bytes).map_err(Failure::wrong)).transpose()
}

/// The blocks of parts, side by side; nothing for a part that is not as the directory says: on a fleet it may arrive after the
/// directory, or be written anew.
pub(super) async fn read(
    home: &dyn JobHome,
    record: &JobRecord,
    which: Which,
    parts: &[(usize, &Extent)],
) -> Result<Vec<Option<Vec<Block>>>, Failure> {
    let reads = parts.iter().map(async |(number, extent)| {
        let key = format!("{LOGS}{FOLDER}{}", which.name(*number));
        let found = if record.result.is_some() {
            home.object(record, &key).await
        } else {
            // One that is not full yet may be longer by now.
            match home.storage().get_range(&key, 0..extent.bytes).await {
                Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
                found => found.map(Some),
            }
        };
        let found = found.map_err(home.cannot("read the table of tries"))?;
        let whole = |bytes: &Bytes| bytes.len() as u64 == extent.bytes && crc32c(bytes) == extent.crc;
        Ok(found.filter(whole).and_then(|bytes| blocks(&bytes).ok()))
    });
    join_all(reads).await.into_iter().collect()
}
