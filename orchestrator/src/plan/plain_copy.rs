//! Plain copies of compressed files in the job's storage, where the nodes of a fleet read slices of them by range.

use std::path::Path;

use futures_util::TryStreamExt;
use prs_common::storage::{DiskError, GetOptions, Storage, StorageErrorKind, StorageExt, TransferError};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

/// Stores `file` as the object `key`, unless a plan before this one did. What is there is compared: a damaged copy would
/// stay damaged, since no later plan writes it either.
pub(super) async fn store(store: &dyn Storage, key: &str, file: &Path) -> Result<(), TransferError> {
    let size = tokio::fs::metadata(file).await.map_err(DiskError::about(file))?.len();
    match store.head(key).await {
        Ok(object) if object.size == size => {
            match is_same(store, key, file, size).await {
                Ok(true) => return Ok(()),
                // Another scheduler stores it at this moment.
                Err(TransferError::Store(error)) if error.kind == StorageErrorKind::Changed => {}
                Ok(false) => {}
                Err(error) => return Err(error),
            }
            tracing::warn!(key, store = %store, "the plain copy of an input is damaged; it is stored again");
        }
        Ok(_) => {}
        Err(error) if error.kind == StorageErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    store.upload(key, file).await
}

/// Whether an object holds what a file of its size does.
async fn is_same(store: &dyn Storage, key: &str, file: &Path, size: u64) -> Result<bool, TransferError> {
    let disk = DiskError::about(file);
    let mut plain = File::open(file).await.map_err(&disk)?;
    let mut object = store.stream(key, GetOptions::default());
    let mut compared = 0;
    while let Some(piece) = object.try_next().await? {
        compared += piece.len() as u64;
        if compared > size {
            return Ok(false);
        }
        let mut there = vec![0; piece.len()];
        plain.read_exact(&mut there).await.map_err(&disk)?;
        if piece != there {
            return Ok(false);
        }
    }
    Ok(compared == size)
}

#[cfg(test)]
mod tests {
    use prs_common::storage::{LocalStorage, PutMode, STREAM_PIECE};

    use super::*;

    #[tokio::test]
    async fn a_copy_is_stored_once_and_again_when_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path().join("storage"));
        let file = folder.path().join("plain");
        let text: Vec<u8> = (0..STREAM_PIECE + 100).map(|at| (at / 251) as u8).collect();
        std::fs::write(&file, &text).unwrap();
        store(&storage, "plain/0", &file).await.unwrap();
        let first = storage.head("plain/0").await.unwrap();
        store(&storage, "plain/0", &file).await.unwrap();
        assert_eq!(storage.head("plain/0").await.unwrap(), first, "it is not written again");
        for place in [3, STREAM_PIECE as usize + 7] {
            let mut damaged = text.clone();
            damaged[place] ^= 1;
            storage.put("plain/0", damaged.into(), PutMode::Overwrite).await.unwrap();
            store(&storage, "plain/0", &file).await.unwrap();
            assert!(storage.get("plain/0").await.unwrap() == text);
        }
    }
}
