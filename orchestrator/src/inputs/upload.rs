//! The upload of one file: its content names it, so what is there already is not sent again.
//!
//! A small file is read once, into memory. A large one is read twice, for its checksum and to be sent, and the
//! second time has to give the same checksum: a blob holds what its name says, whatever happens to the file. A file
//! that changes while it is read is refused: what it held then may never have been its content.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use prs_common::file_version::SeenFile;
use prs_common::hexadecimal;
use prs_common::layout::{BLOBS, blob};
use prs_common::storage::{IfExists, PutMode, Storage, StorageErrorKind};
use sha2::{Digest, Sha256};

use super::blob::digest;
use super::resolve::ResolveCause;

/// Files up to this size are held in memory, bytes.
const SMALL: u64 = 8 << 20;
/// Bytes of a larger one that are read at a time.
const READ_AT_ONCE: usize = 8 << 20;

/// A file that is in the store.
#[derive(Debug)]
pub(super) struct Uploaded {
    /// The rest of its key, after [`BLOBS`].
    pub(super) key: String,
    /// Bytes.
    pub(super) size: u64,
}

/// Brings `file` into `store`; `sent` hears of the bytes that are done with, as they are.
pub(super) async fn upload(
    store: &dyn Storage,
    file: &Path,
    sent: &(dyn Fn(u64) + Sync),
) -> Result<Uploaded, ResolveCause> {
    let looked_at = blocking(file, |path| look_at(&path)).await?;
    let Looked { digest, size, content } = looked_at;
    let key = blob(&digest);
    let whole_key = format!("{BLOBS}{key}");
    let is_there = match store.head(&whole_key).await {
        Ok(object) => object.size == size,
        Err(error) if error.kind == StorageErrorKind::NotFound => false,
        Err(error) => return Err(error.into()),
    };
    if is_there {
        sent(size);
    } else if let Some(content) = content {
        store.put(&whole_key, content.into(), PutMode::Overwrite).await?;
        sent(size);
    } else {
        send(store, &whole_key, file, (&digest, size), sent).await?;
    }
    Ok(Uploaded { key, size })
}

struct Looked {
    digest: String,
    size: u64,
    /// All of it, where it is small.
    content: Option<Bytes>,
}

fn look_at(path: &Path) -> io::Result<Looked> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no longer a file"));
    }
    let before = SeenFile::of(&meta);
    let looked = if meta.len() <= SMALL {
        let mut content = Vec::with_capacity(meta.len() as usize);
        // A file that grows has no end.
        Read::by_ref(&mut file).take(SMALL + 1).read_to_end(&mut content)?;
        let (digest, size) = (digest(&content[..])?, content.len() as u64);
        Looked { digest, size, content: Some(content.into()) }
    } else {
        Looked { digest: digest(&file)?, size: meta.len(), content: None }
    };
    let is_same = looked.size == meta.len() && SeenFile::of(&file.metadata()?) == before;
    if is_same { Ok(looked) } else { Err(io::Error::other(CHANGED)) }
}

const CHANGED: &str = "it changed while it was uploaded; submit again when nobody writes to it";

async fn send(
    store: &dyn Storage,
    key: &str,
    path: &Path,
    (digest, size): (&str, u64),
    sent: &(dyn Fn(u64) + Sync),
) -> Result<(), ResolveCause> {
    let mut upload = store.writer(key, IfExists::Overwrite).await?;
    let mut file = blocking(path, File::open).await?;
    let (mut hasher, mut done) = (Sha256::new(), 0);
    loop {
        let (piece, back, so_far) = blocking(path, move |_| {
            let mut piece = Vec::with_capacity(READ_AT_ONCE);
            Read::by_ref(&mut file).take(READ_AT_ONCE as u64).read_to_end(&mut piece)?;
            hasher.update(&piece);
            Ok((Bytes::from(piece), file, hasher))
        })
        .await?;
        (file, hasher) = (back, so_far);
        let length = piece.len() as u64;
        done += length;
        if length == 0 || done > size {
            break;
        }
        upload.write(piece).await?;
        sent(length);
    }
    if done != size || hexadecimal(&hasher.finalize()) != digest {
        return Err(failed(path, CHANGED.to_owned()));
    }
    Ok(upload.finish().await?)
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
) -> Result<T, ResolveCause> {
    let own = path.to_owned();
    let done = tokio::task::spawn_blocking(move || work(own)).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| failed(path, error.to_string()))
}

fn failed(path: &Path, reason: String) -> ResolveCause {
    ResolveCause::File { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use prs_common::storage::{LocalStorage, StorageExt};

    use super::*;

    #[tokio::test]
    async fn content_names_the_blob_and_is_sent_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStorage::new(folder.path().join("store"));
        let large = vec![7; SMALL as usize + READ_AT_ONCE + 5];
        for content in [&b""[..], b"small", &large] {
            let mut uploaded = Vec::new();
            for name in ["a", "b"] {
                let file = folder.path().join(name);
                std::fs::write(&file, content).unwrap();
                let sent = AtomicU64::new(0);
                let count = |bytes| {
                    sent.fetch_add(bytes, Ordering::Relaxed);
                };
                uploaded.push(upload(&store, &file, &count).await.unwrap());
                assert_eq!(sent.into_inner(), content.len() as u64);
            }
            assert_eq!(uploaded[0].key, uploaded[1].key);
            assert_eq!(uploaded[0].size, content.len() as u64);
            let key = format!("{BLOBS}{}", uploaded[0].key);
            assert_eq!(store.get(&key).await.unwrap(), content);
        }
        assert_eq!(store.list_all(BLOBS).await.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn a_cut_blob_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStorage::new(folder.path().join("store"));
        let file = folder.path().join("a");
        std::fs::write(&file, "whole").unwrap();
        let Uploaded { key, .. } = upload(&store, &file, &|_| ()).await.unwrap();
        let key = format!("{BLOBS}{key}");
        store.put(&key, "who".into(), PutMode::Overwrite).await.unwrap();
        upload(&store, &file, &|_| ()).await.unwrap();
        assert_eq!(store.get(&key).await.unwrap(), "whole");
    }

    #[tokio::test]
    async fn a_file_that_does_not_stand_still_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStorage::new(folder.path().join("store"));
        let file = folder.path().join("large");
        let content = vec![1; SMALL as usize * 3];
        std::fs::write(&file, &content).unwrap();
        // Overwritten after its checksum was taken: at the first bytes that are sent.
        let overwrite = |_| std::fs::write(&file, vec![2; content.len()]).unwrap();
        let error = upload(&store, &file, &overwrite).await.unwrap_err();
        assert!(matches!(&error, ResolveCause::File { reason, .. } if reason == CHANGED), "{error:?}");
        let shrink = |_| std::fs::write(&file, "short").unwrap();
        let error = upload(&store, &file, &shrink).await.unwrap_err();
        assert!(matches!(&error, ResolveCause::File { reason, .. } if reason == CHANGED), "{error:?}");
        std::fs::remove_file(&file).unwrap();
        let error = upload(&store, &file, &|_| ()).await.unwrap_err();
        assert!(
            matches!(&error, ResolveCause::File { reason, .. } if reason.contains("No such file")),
            "{error:?}"
        );
        assert!(store.list_all(BLOBS).await.unwrap().is_empty());
    }
}
