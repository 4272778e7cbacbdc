//! Brings the objects of a tabular input to this host, a few ahead of the one that is being split.
//!
//! To find record boundaries and types a file is read as a whole, and types also here and there; so it is made
//! local first, and removed again. Of a file that says at its end where its records are, the end is all that comes.
//! What comes is what was listed: the same version of an object, the content that a blob is named by.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prs_common::mini_batch::StoreRef;
use prs_common::storage::{
    DiskError, GetOptions, Storage, StorageError, StorageErrorKind, StorageExt, TransferError,
};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::tables::FileEnd;
use crate::inputs::InputStores;
use crate::inputs::blob::{digest, promised_digest};
use crate::inputs::manifest::{File, Source, Store};

/// Objects on their way at most.
const AHEAD: usize = 8;
/// Bytes of all of them but the first, at most.
const AHEAD_BYTES: u64 = 64 << 20;
/// The end of a file that comes ahead of the others has at most so many bytes.
const END_AHEAD: u64 = AHEAD_BYTES / AHEAD as u64;
/// How often a blob that is damaged is read: on the way, damage passes.
const READS: u32 = 3;

/// Why an object is not read that is not there.
pub(super) const NO_OBJECT: &str = "there is no such object";
const CHANGED: &str = "it changed since it was planned";
const REMEDY: &str = "submit the job again as a new one";
const DAMAGED: &str = "the object is damaged: it does not hold what its name says";

/// What became of an object.
pub(super) enum Fetched {
    /// It is a local file now, to be removed, and was of this version; empty where the key tells it.
    Copy(PathBuf, String),
    /// Of what says at its end where its records are, the end, and the version; empty where the key tells it.
    End(FileEnd, String),
    /// It is a local file of the user.
    Own(PathBuf),
    /// It cannot be had, and trying again would not help.
    Unreadable(String),
}

/// What of a file is needed to cut it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedPart {
    Whole,
    /// Its end, where it says where its records are.
    End,
    /// The same, however large.
    LargeEnd,
}

impl WantedPart {
    /// What it takes on its way, bytes.
    fn bytes(self, file: &File) -> u64 {
        match self {
            Self::Whole => file.size.unwrap_or(AHEAD_BYTES),
            Self::End | Self::LargeEnd => END_AHEAD,
        }
    }
}

/// A file that was asked for.
pub(super) struct Wanted {
    pub(super) source: Source,
    pub(super) file: File,
    /// What it counts for among those on their way.
    bytes: u64,
    task: AbortOnDropHandle<Result<Fetched, TransferError>>,
}

/// The objects on their way, in order.
pub(super) struct Fetcher<'a> {
    stores: &'a InputStores,
    handle: &'a Handle,
    folder: &'a Path,
    on_their_way: VecDeque<Wanted>,
    bytes: u64,
    number: u64,
}

impl<'a> Fetcher<'a> {
    pub(super) fn new(stores: &'a InputStores, handle: &'a Handle, folder: &'a Path) -> Self {
        Self { stores, handle, folder, on_their_way: VecDeque::new(), bytes: 0, number: 0 }
    }

    /// Whether another file may be asked for.
    pub(super) fn has_room(&self) -> bool {
        self.is_empty() || (self.on_their_way.len() < AHEAD && self.bytes < AHEAD_BYTES)
    }

    /// Whether no file is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.on_their_way.is_empty()
    }

    /// Asks for a file, or for its end alone.
    pub(super) fn want(&mut self, source: Source, file: File, part: WantedPart) {
        let copy = self.folder.join(format!("{}", self.number % AHEAD as u64));
        self.number += 1;
        let bytes = part.bytes(&file);
        self.bytes += bytes;
        let task = self.handle.spawn(bring(self.stores.clone(), source.clone(), file.clone(), part, copy));
        self.on_their_way.push_back(Wanted { source, file, bytes, task: AbortOnDropHandle::new(task) });
    }

    /// The next file that was asked for, once it is here.
    pub(super) fn next(&mut self) -> Option<(Source, File, Result<Fetched, TransferError>)> {
        let Wanted { source, file, bytes, task } = self.on_their_way.pop_front()?;
        self.bytes -= bytes;
        let fetched = self.handle.block_on(task);
        let mut fetched = fetched.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        if let Ok(Fetched::End(end, _)) = &fetched
            && end.missing().is_some()
        {
            // Too large to be held beside others.
            let part = WantedPart::LargeEnd;
            let all = bring(self.stores.clone(), source.clone(), file.clone(), part, PathBuf::new());
            fetched = self.handle.block_on(all);
        }
        Some((source, file, fetched))
    }
}

/// Brings a file of `source` here, or its end.
async fn bring(
    stores: InputStores,
    source: Source,
    file: File,
    part: WantedPart,
    copy: PathBuf,
) -> Result<Fetched, TransferError> {
    let described = source.describe(0);
    if source.store == Store::Local {
        return Ok(Fetched::Own(format!("{}{}", source.origin, file.relative).into()));
    }
    let store = stores.get(described.store).await?;
    let rest = if file.key.is_empty() { &file.relative } else { &file.key };
    let key = format!("{}{rest}", source.prefix);
    let largest = match part {
        WantedPart::Whole => return fetch(&store, described.store, &key, &file, copy).await,
        WantedPart::End => END_AHEAD,
        WantedPart::LargeEnd => u64::MAX,
    };
    fetch_end(&*store, described.store, &key, &file, largest).await.or_else(unreadable)
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
            Some(planned) if planned != size => Ok(Fetched::Unreadable(of_another_size(planned, size))),
            _ => Ok(Fetched::Copy(copy, version)),
        },
        Ok(None) => Ok(Fetched::Unreadable(format!("{}: {DAMAGED}", store.uri(key)))),
        Err(TransferError::Store(error)) => unreadable(error),
        Err(error) => Err(error),
    }
}

/// The end of an object, with its footer when that has at most so many bytes.
async fn fetch_end(
    store: &dyn Storage,
    kind: StoreRef<'_>,
    key: &str,
    file: &File,
    largest: u64,
) -> Result<Fetched, StorageError> {
    // What a blob holds does not change.
    let is_blob = !matches!(kind, StoreRef::Url(_));
    let (size, version) = match file.size {
        Some(size) if is_blob || !file.version.is_empty() => (size, file.version.clone()),
        _ => {
            let found = store.head(key).await?;
            let listed = is_blob || !file.version.is_empty();
            (found.size, if listed { file.version.clone() } else { found.version })
        }
    };
    let wanted = Some(version.clone()).filter(|version| !version.is_empty());
    let mut end = FileEnd { bytes: Bytes::new(), size };
    while let Some(bytes) = end.missing().filter(|bytes| *bytes <= largest) {
        let options = GetOptions { range: Some(size - bytes..size), version: wanted.clone() };
        let mut got = store.get_opts(key, options.clone()).await?;
        // Neither the name of a blob nor a version tells what its end holds: what is read twice alike was not damaged on
        // the way.
        let mut reads = 1;
        loop {
            let again = store.get_opts(key, options.clone()).await?;
            reads += 1;
            if again.bytes == got.bytes {
                break;
            }
            if reads > READS {
                return Ok(Fetched::Unreadable(format!("{}: each read brings other bytes", store.uri(key))));
            }
            got = again;
        }
        if let Some(planned) = file.size.filter(|planned| *planned != got.size) {
            return Ok(Fetched::Unreadable(of_another_size(planned, got.size)));
        }
        if got.bytes.len() as u64 != bytes {
            return Ok(Fetched::Unreadable(of_another_size(size, got.size)));
        }
        end.bytes = got.bytes;
    }
    Ok(Fetched::End(end, version))
}

fn of_another_size(planned: u64, size: u64) -> String {
    format!("{CHANGED}: it had {planned} bytes and has {size} now; {REMEDY}")
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
        StorageErrorKind::NotFound => Ok(Fetched::Unreadable(NO_OBJECT.to_owned())),
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
