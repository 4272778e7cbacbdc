//! Plain copies of compressed files in the job's storage, where the nodes of a fleet read slices of them by range.

use std::path::Path;

use bytes::Bytes;
use prs_common::storage::{IfExists, Storage, StorageError, StorageErrorKind};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

/// Bytes that are stored and compared at a time.
const PIECE: usize = 8 << 20;

/// Stores `file` as the object `key`, unless a plan before this one did. What is there is compared: a damaged copy would
/// stay damaged, since no later plan writes it either.
pub(super) async fn store(store: &dyn Storage, key: &str, file: &Path) -> Result<(), StorageError> {
    let failed = |error: std::io::Error| StorageError {
        kind: StorageErrorKind::Unavailable,
        place: file.display().to_string(),
        key: key.to_owned(),
        message: error.to_string(),
    };
    let size = tokio::fs::metadata(file).await.map_err(failed)?.len();
    let is_there = match store.head(key).await {
        Ok(object) => object.size == size,
        Err(error) if error.kind == StorageErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    let mut plain = File::open(file).await.map_err(failed)?;
    let mut is_same = is_there;
    let mut at = 0;
    while is_same {
        let piece = next(&mut plain).await.map_err(failed)?;
        if piece.is_empty() {
            return Ok(());
        }
        let range = at..at + piece.len() as u64;
        at = range.end;
        is_same = store.get_range(key, range).await? == piece;
    }
    if is_there {
        tracing::warn!(key, store = %store, "the plain copy of an input is damaged; it is stored again");
        plain = File::open(file).await.map_err(failed)?;
    }
    let mut upload = store.upload(key, IfExists::Overwrite).await?;
    loop {
        let piece = next(&mut plain).await.map_err(failed)?;
        if piece.is_empty() {
            return upload.finish().await;
        }
        upload.write(piece).await?;
    }
}

async fn next(file: &mut File) -> std::io::Result<Bytes> {
    let mut piece = Vec::with_capacity(PIECE);
    file.take(PIECE as u64).read_to_end(&mut piece).await?;
    Ok(piece.into())
}

#[cfg(test)]
mod tests {
    use prs_common::storage::{LocalStorage, PutMode};

    use super::*;

    #[tokio::test]
    async fn a_copy_is_stored_once_and_again_when_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path().join("storage"));
        let file = folder.path().join("plain");
        let text: Vec<u8> = (0..PIECE + 100).map(|at| (at / 251) as u8).collect();
        std::fs::write(&file, &text).unwrap();
        store(&storage, "plain/0", &file).await.unwrap();
        let first = storage.head("plain/0").await.unwrap();
        store(&storage, "plain/0", &file).await.unwrap();
        assert_eq!(storage.head("plain/0").await.unwrap(), first, "it is not written again");
        for place in [3, PIECE + 7] {
            let mut damaged = text.clone();
            damaged[place] ^= 1;
            storage.put("plain/0", damaged.into(), PutMode::Overwrite).await.unwrap();
            store(&storage, "plain/0", &file).await.unwrap();
            assert!(storage.get("plain/0").await.unwrap() == text);
        }
    }
}
