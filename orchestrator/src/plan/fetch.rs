//! Brings the objects of a tabular input to this host, a few ahead of the one that is being split.
//!
//! To find record boundaries and types a file is read as a whole, and types also here and there; so it is made
//! local first, and removed again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prs_common::mini_batch::StoreRef;
use prs_common::storage::{Storage, StorageError, StorageErrorKind};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::inputs::manifest::{File, Source, Store};

/// Objects on their way at most.
const AHEAD: usize = 8;
/// Bytes of all of them but the first, at most.
const AHEAD_BYTES: u64 = 64 << 20;

/// What became of an object.
pub(super) enum Fetched {
    /// It is a local file now, to be removed.
    Copy(PathBuf),
    /// It is a local file of the user.
    Own(PathBuf),
    /// It cannot be had, and trying again would not help.
    Unreadable(String),
}

/// A file that was asked for.
pub(super) struct Wanted {
    pub(super) source: Source,
    pub(super) file: File,
    task: AbortOnDropHandle<Result<Fetched, StorageError>>,
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
    pub(super) fn next(&mut self) -> Option<(Source, File, Result<Fetched, StorageError>)> {
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
) -> Result<Fetched, StorageError> {
    let changed = || Fetched::Unreadable("the object changed since the job was submitted".to_owned());
    // What is named by its content does not change.
    if matches!(kind, StoreRef::Url(_)) && !file.version.is_empty() {
        match store.head(key).await {
            Ok(object) if object.version != file.version => return Ok(changed()),
            Ok(_) => {}
            Err(error) => return unreadable(error),
        }
    }
    match store.download(key, &copy).await {
        Ok(size) if file.size.is_some_and(|planned| planned != size) => Ok(changed()),
        Ok(_) => Ok(Fetched::Copy(copy)),
        Err(error) if error.place == copy.display().to_string() => Err(error),
        Err(error) => unreadable(error),
    }
}

/// Tells what repeating cannot help, in words that are the same on every host (D6).
fn unreadable(error: StorageError) -> Result<Fetched, StorageError> {
    match error.kind {
        StorageErrorKind::NotFound => Ok(Fetched::Unreadable("there is no such object".to_owned())),
        StorageErrorKind::PermissionDenied => {
            Ok(Fetched::Unreadable("the store refuses access to the object".to_owned()))
        }
        StorageErrorKind::InvalidKey => {
            Ok(Fetched::Unreadable("the name is not valid in the store".to_owned()))
        }
        _ => Err(error),
    }
}
