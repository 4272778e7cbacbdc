//! Reading the table of tries: the directory, and parts of it.

use futures_util::future::join_all;
use prs_common::checksum::crc32c;
use prs_common::layout::LOGS;
use prs_common::storage::{StorageErrorKind, StorageExt};
use prs_common::try_table::{Block, DIRECTORY, Directory, Extent, FOLDER, Which, blocks};

use crate::failure::Failure;
use crate::homes::JobHome;

/// The directory of a job's tries; nothing where the job has none (yet).
pub(super) async fn directory(home: &dyn JobHome) -> Result<Option<Directory>, Failure> {
    match home.storage().get(&format!("{LOGS}{FOLDER}{DIRECTORY}")).await {
        Ok(bytes) => Directory::decode(&bytes).map(Some).map_err(Failure::wrong),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
        Err(error) => Err(home.cannot("read the directory of tries")(error)),
    }
}

/// The blocks of parts, side by side; nothing for a part that is not as the directory says: on a fleet it may arrive after the
/// directory, or be written anew.
pub(super) async fn read(
    home: &dyn JobHome,
    which: Which,
    parts: &[(usize, &Extent)],
) -> Result<Vec<Option<Vec<Block>>>, Failure> {
    let reads = parts.iter().map(async |(number, extent)| {
        let key = format!("{LOGS}{FOLDER}{}", which.name(*number));
        match home.storage().get_range(&key, 0..extent.bytes).await {
            Ok(bytes) if crc32c(&bytes) == extent.crc => Ok(blocks(&bytes).ok()),
            Ok(_) => Ok(None),
            Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
            Err(error) => Err(home.cannot("read the table of tries")(error)),
        }
    });
    join_all(reads).await.into_iter().collect()
}
