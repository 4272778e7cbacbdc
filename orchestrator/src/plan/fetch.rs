//! Brings the objects of a tabular input to this host, a few ahead of the one that is being split.
//!
//! To find record boundaries and types a file is read as a whole, and types also here and there; so it is made
//! local first, and removed again. What comes is what was listed: the same version of an object, the content that a
//! blob is named by.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prs_common::mini_batch::StoreRef;
use prs_common::storage::{DiskError, Storage, StorageError, StorageErrorKind, StorageExt, TransferError};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::inputs::blob::{digest, promised_digest};
use crate::inputs::manifest::{File, Source, Store};

/// Objects on their way at most.
const AHEAD: usize = 8;
/// Bytes of all of them but the first, at most.
const AHEAD_BYTES: u64 = 64 << 20;
/// How often a blob that is damaged is read: on the way, damage passes.
const READS: u32 = 3;

const CHANGED: &str = "it changed since it was planned";
const REMEDY: &str = "submit the job again as a new one";
const DAMAGED: &str = "the object is damaged: it does not hold what its name says";

/// What became of an object.
pub(super) enum Fetched {
    /// It is a local file now, to be removed, and was of this version; empty where the key tells it.
    Copy(PathBuf, String),
    /// It is a local file of the user.
    Own(PathBuf),
    /// It cannot be had, and trying again would not help.
    Unreadable(String),
}

/// A file that was asked for.
pub(super) struct Wanted {
    pub(super) source: Source,
    pub(super) file: File,
    task: AbortOnDropHandle<Result<Fetched, TransferError>>,
}

/// The objects on their way, in order.
pub(super) struct Fetcher<'a> {
    stores: &'a crate::inputs::InputStores,
    handle: &'a Handle,
    folder: &'a Path,
    on_their_way: VecDeque<Wanted>,
    bytes: u64,
    number: u64,
}

impl<'a> Fetcher<'a> {
    pub(super) fn new(stores: &'a crate::inputs::InputStores, handle: &'a Handle, folder: &'a Path) -> Self {
        Self { stores, handle, folder, on_their_way: VecDeque::new(), bytes: 0, number: 0 }
    }

    /// Whether another file may be asked for.
    pub(super) fn has_room(&self) -> bool {
        self.on_their_way.is_empty() || (self.on_their_way.len() < AHEAD && self.bytes < AHEAD_BYTES)
    }

    /// Asks for a file.
    pub(super) fn want(&mut self, source: Source, file: File) {
        let copy = self.folder.join(format!("{}", self.number % AHEAD as u64));
        self.number += 1;
        self.bytes += file.size.unwrap_or(AHEAD_BYTES);
        let stores = self.stores.clone();
        let (of, what) = (source.clone(), file.clone());
        let task = self.handle.spawn(async move {
            let described = of.describe(0);
            if of.store == Store::Local {
                return Ok(Fetched::Own(format!("{}{}", of.origin, what.relative).into()));
            }
            let store = stores.get(described.store).await?;
            let rest = if what.key.is_empty() { &what.relative } else { &what.key };
            fetch(&store, described.store, &format!("{}{rest}", of.prefix), &what, copy).await
        });
        self.on_their_way.push_back(Wanted { source, file, task: AbortOnDropHandle::new(task) });
    }

    /// The next file that was asked for, once it is here.
    pub(super) fn next(&mut self) -> Option<(Source, File, Result<Fetched, TransferError>)> {
        let Wanted { source, file, task } = self.on_their_way.pop_front()?;
        self.bytes -= file.size.unwrap_or(AHEAD_BYTES);
        let fetched = self.handle.block_on(task);
        Some((source, file, fetched.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))))
    }
}

async fn fetch(
    store: &Arc<dyn Storage>,
    kind: StoreRef<'_>,
    key: &str,
    file: &File,
    copy: PathBuf,
) -> Result<Fetched, TransferError> {
    let downloaded = match kind {
        StoreRef::Url(_) => download_version(&**store, key, &file.version, &copy).await,
        _ => download_blob(&**store, key, &copy).await,
    };
    match downloaded {
        Ok(Some((size, version))) => match file.size {
            Some(planned) if planned != size => Ok(Fetched::Unreadable(format!(
                "{CHANGED}: it had {planned} bytes and has {size} now; {REMEDY}"
            ))),
            _ => Ok(Fetched::Copy(copy, version)),
        },
        Ok(None) => Ok(Fetched::Unreadable(format!("{}: {DAMAGED}", store.uri(key)))),
        Err(TransferError::Store(error)) => unreadable(error),
        Err(error) => Err(error),
    }
}

/// The object as it was listed, or as it is now where that is not known.
async fn download_version(
    store: &dyn Storage,
    key: &str,
    listed: &str,
    copy: &Path,
) -> Result<Option<(u64, String)>, TransferError> {
    let version = if listed.is_empty() { store.head(key).await?.version } else { listed.to_owned() };
    let size = store.download(key, copy, Some(&version)).await?;
    Ok(Some((size, version)))
}

/// A blob; nothing when it is damaged, however often it is read.
async fn download_blob(
    store: &dyn Storage,
    key: &str,
    copy: &Path,
) -> Result<Option<(u64, String)>, TransferError> {
    for _ in 0..READS {
        let size = store.download(key, copy, None).await?;
        let read = copy.to_owned();
        let digest = tokio::task::spawn_blocking(move || digest(std::fs::File::open(read)?)).await;
        let digest = digest.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let digest = digest.map_err(DiskError::about(copy))?;
        if promised_digest(key).is_none_or(|promised| promised == digest) {
            return Ok(Some((size, String::new())));
        }
        tracing::warn!(key, "a blob does not hold what its name says; it is read again");
    }
    Ok(None)
}

/// Tells what repeating cannot help, in words that are the same on every host (D6).
fn unreadable(error: StorageError) -> Result<Fetched, TransferError> {
    match error.kind {
        StorageErrorKind::NotFound => Ok(Fetched::Unreadable("there is no such object".to_owned())),
        StorageErrorKind::PermissionDenied => {
            Ok(Fetched::Unreadable("the store refuses access to the object".to_owned()))
        }
        StorageErrorKind::InvalidKey => {
            Ok(Fetched::Unreadable("the name is not valid in the store".to_owned()))
        }
        StorageErrorKind::Changed => {
            Ok(Fetched::Unreadable(format!("{CHANGED}: another object has its name now; {REMEDY}")))
        }
        _ => Err(error.into()),
    }
}
