//! An object of unknown size in a folder: a temporary file that grows, and gets its name at the end.
//!
//! What was written goes to the disk while more is written, so that the end waits for little, whatever the size.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::{JoinHandle, spawn_blocking};

use super::{LocalStorage, Temporary};
use crate::storage::{IfExists, StorageError, Writer};

/// Bytes after which what was written is sent to the disk.
const SYNC_EVERY: u64 = if cfg!(test) { 1 << 10 } else { 64 << 20 };

pub(super) struct LocalWriter {
    store: LocalStorage,
    key: String,
    temporary: Arc<Temporary>,
    if_exists: IfExists,
    /// Absent only while a write is under way, and after `finish`.
    file: Option<File>,
    /// Bytes written since the disk was last told.
    unsynced: u64,
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl LocalWriter {
    pub(super) fn new(
        store: LocalStorage,
        key: String,
        temporary: Temporary,
        file: File,
        if_exists: IfExists,
    ) -> Self {
        let temporary = Arc::new(temporary);
        Self { store, key, temporary, if_exists, file: Some(file), unsynced: 0, syncing: None }
    }

    async fn with_file(
        &mut self,
        work: impl FnOnce(&mut File) -> io::Result<()> + Send + 'static,
    ) -> Result<(), StorageError> {
        let Some(mut file) = self.file.take() else {
            return Err(self.error(&io::Error::other("an earlier write of this object failed")));
        };
        match joined(spawn_blocking(move || work(&mut file).map(|()| file))).await {
            Ok(file) => self.file = Some(file),
            Err(error) => return Err(self.error(&error)),
        }
        Ok(())
    }

    /// Lets the disk have what was written so far, without waiting for it; the time before may not have come to an end.
    async fn sync(&mut self) -> io::Result<()> {
        if self.syncing.as_ref().is_some_and(|syncing| !syncing.is_finished()) {
            return Ok(());
        }
        self.synced().await?;
        if let Some(file) = &self.file {
            let file = file.try_clone()?;
            self.syncing = Some(spawn_blocking(move || file.sync_data()));
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Waits for the last such time: the system tells of a failure once.
    async fn synced(&mut self) -> io::Result<()> {
        match self.syncing.take() {
            Some(syncing) => joined(syncing).await,
            None => Ok(()),
        }
    }

    fn error(&self, error: &io::Error) -> StorageError {
        self.store.error(&self.key, error)
    }
}

async fn joined<T>(work: JoinHandle<io::Result<T>>) -> io::Result<T> {
    work.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[async_trait]
impl Writer for LocalWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.unsynced += bytes.len() as u64;
        self.with_file(move |file| file.write_all(&bytes)).await?;
        if self.unsynced < SYNC_EVERY {
            return Ok(());
        }
        let synced = self.sync().await;
        synced.map_err(|error| {
            // What the disk has lost is not written again.
            self.file = None;
            self.error(&error)
        })
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        let synced = self.synced().await;
        synced.map_err(|error| self.error(&error))?;
        let (temporary, key, mode) = (Arc::clone(&self.temporary), self.key.clone(), self.if_exists.into());
        self.with_file(move |file| LocalStorage::publish(file, &temporary, &key, &mode).map(drop)).await
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        // After `finish` the name is gone already.
        self.temporary.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StorageExt;

    #[tokio::test]
    async fn what_goes_to_the_disk_meanwhile_is_whole_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStorage::new(folder.path());
        let (temporary, file) = store.temporary().unwrap();
        let mut upload = LocalWriter::new(store.clone(), "rows".to_owned(), temporary, file, IfExists::Fail);
        let mut expected = Vec::new();
        for number in 0..9_u8 {
            let piece = vec![number; 700];
            expected.extend(&piece);
            upload.write(piece.into()).await.unwrap();
        }
        assert!(upload.syncing.is_some());
        Box::new(upload).finish().await.unwrap();
        assert_eq!(store.get("rows").await.unwrap(), expected);
        assert!(folder.path().join(crate::storage::TEMPORARY).read_dir().unwrap().next().is_none());
    }
}
