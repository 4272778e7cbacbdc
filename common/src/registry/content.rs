//! Local files in the registry: brought there once, into a folder that is named by what it holds.
//!
//! The name of the folder is the checksum of all names, sizes and checksums of its files; a list of these, written last,
//! says that the folder is whole. What was there before is not sent again: not the same content under any name, and not
//! the files that the version before has too, which the store copies itself. An upload that was cut short is completed by
//! the next one of the same content. A file that changes meanwhile is refused, so a version never holds a mixture.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::RegistryError;
use crate::dataset::input::InputSource;
use crate::dataset::listing::{Listing, ListingOptions};
use crate::dataset::names;
use crate::hexadecimal;
use crate::storage::{IfExists, PutMode, Storage, StorageErrorKind, StorageExt};

/// What the keys of all content begin with.
const CONTENT: &str = "content/";
/// Bytes that are read at a time.
const READ_AT_ONCE: usize = 8 << 20;
/// Files that are read, or sent, side by side.
const SIDE_BY_SIDE: usize = 8;
/// Files listed at a time.
const LISTED_AT_ONCE: usize = 1_000;
const CHANGED: &str = "it changed while it was read: create the version again when nobody writes to it";

/// A file or folder of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// The file or folder, absolute.
    pub path: PathBuf,
    /// Whether a folder keeps its name: the last part of its place in the registry is that.
    pub keeps_name: bool,
}

/// Content of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// SHA-256 of its listing, in hexadecimal.
    pub(super) checksum: String,
    /// The name of the one file that it is; nothing for a folder.
    #[serde(default)]
    pub(super) only_file: Option<String>,
    /// The name of the folder that it is, where that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) only_folder: Option<String>,
}

impl Content {
    /// Its key: that of the folder without a `/` at the end, or of the one file.
    pub(super) fn key(&self) -> String {
        let folder = folder(&self.checksum);
        match self.only_file.as_ref().or(self.only_folder.as_ref()) {
            Some(name) => format!("{folder}/{name}"),
            None => folder,
        }
    }

    /// The key of the folder that all of it is in.
    pub(super) fn folder(&self) -> String {
        folder(&self.checksum)
    }

    /// What follows the URI of the key.
    pub(super) fn end(&self) -> &'static str {
        if self.only_file.is_some() { "" } else { "/" }
    }
}

fn folder(checksum: &str) -> String {
    format!("{CONTENT}{checksum}/files")
}

fn index_key(checksum: &str) -> String {
    format!("{CONTENT}{checksum}/index.json")
}

/// A file of the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    /// Its path below the folder.
    path: String,
    /// SHA-256, in hexadecimal.
    sha256: String,
    /// Bytes.
    size: u64,
}

/// Brings `local` into `storage`, where it is not there already. `former` is content that may have some of the files;
/// `sent` hears of the bytes that are done with.
pub(super) async fn bring(
    storage: &dyn Storage,
    local: &Local,
    former: Option<&Content>,
    sent: &(dyn Fn(u64) + Sync),
) -> Result<Content, RegistryError> {
    let (base, paths) = list(local).await?;
    let looks = paths.into_iter().map(|path| look_at(&base, path));
    let held: Vec<Held> = stream::iter(looks).buffered(SIDE_BY_SIDE).try_collect().await?;
    let is_named = base != local.path;
    let is_file = is_named && matches!(&held[..], [only] if base.join(&only.path) == local.path);
    let name = local.path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let content = Content {
        checksum: checksum_of(&held),
        only_file: name.clone().filter(|_| is_file),
        only_folder: name.filter(|_| is_named && !is_file),
    };
    if read_index(storage, &content.checksum).await?.is_some() {
        for held in &held {
            sent(held.size);
        }
        return Ok(content);
    }
    let there = match former {
        Some(former) => read_index(storage, &former.checksum).await?.unwrap_or_default(),
        None => Vec::new(),
    };
    let of_former = former.map(|former| folder(&former.checksum)).unwrap_or_default();
    let there: HashMap<String, String> =
        there.into_iter().map(|held| (held.sha256, format!("{of_former}/{}", held.path))).collect();
    let target = folder(&content.checksum);
    let sends = held.iter().map(|held| {
        let (key, file) = (format!("{target}/{}", held.path), base.join(&held.path));
        let former = there.get(&held.sha256);
        async move {
            match former {
                Some(from) => storage.copy(from, &key, IfExists::Overwrite).await?,
                None => send(storage, &key, &file, held).await?,
            }
            sent(held.size);
            Ok::<(), RegistryError>(())
        }
    });
    let sends: Vec<_> = sends.collect();
    stream::iter(sends).buffer_unordered(SIDE_BY_SIDE).try_collect::<Vec<()>>().await?;
    storage.flush().await?;
    let index = serde_json::to_vec(&held).expect("it holds plain values only");
    storage.put(&index_key(&content.checksum), Bytes::from(index).into(), PutMode::Overwrite).await?;
    Ok(content)
}

/// The folder that the names of the files start from, and these, sorted.
async fn list(local: &Local) -> Result<(PathBuf, Vec<String>), RegistryError> {
    let Local { path, keeps_name } = local.clone();
    blocking(move || {
        let refuse = |reason: String| RegistryError::File { path: path.clone(), reason };
        let meta = path.metadata().map_err(|error| refuse(error.to_string()))?;
        let text = path.to_str().ok_or_else(|| refuse("it is not UTF-8: rename it".to_owned()))?;
        if meta.is_file() {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            return Ok((path.parent().unwrap_or(Path::new("/")).to_owned(), vec![name]));
        }
        let source = InputSource::Paths(vec![text.to_owned()]);
        let mut listing = Listing::open(&source, ListingOptions { versions: false })
            .map_err(|error| refuse(error.to_string()))?;
        let mut names = Vec::new();
        let mut add = |name: &str| names.push(name.to_owned());
        while listing
            .visit(LISTED_AT_ONCE, |entry| add(entry.relative))
            .map_err(|error| refuse(error.to_string()))?
            > 0
        {}
        if let Some((name, reason)) =
            names.iter().find_map(|name| names::unusable(name).map(|reason| (name, reason)))
        {
            return Err(refuse(format!("{}: {reason}: rename it", name.escape_debug())));
        }
        names.sort_unstable();
        if !keeps_name {
            return Ok((path, names));
        }
        let parent = path.parent().unwrap_or(Path::new("/")).to_owned();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| refuse("it has no name: give a folder below it".to_owned()))?;
        let names = names.into_iter().map(|below| format!("{name}/{below}")).collect();
        Ok((parent, names))
    })
    .await
}

/// Names the files and what they hold.
fn checksum_of(held: &[Held]) -> String {
    let mut hasher = Sha256::new();
    for Held { path, sha256, size } in held {
        for part in [path.as_bytes(), sha256.as_bytes(), &size.to_le_bytes()] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hexadecimal(&hasher.finalize())
}

/// The files of whole content; nothing where it is not there, or not whole.
async fn read_index(storage: &dyn Storage, checksum: &str) -> Result<Option<Vec<Held>>, RegistryError> {
    match storage.get(&index_key(checksum)).await {
        // One that was damaged is written again, with all that it names.
        Ok(body) => {
            let held: Option<Vec<Held>> = serde_json::from_slice(&body).ok();
            Ok(held.filter(|held| checksum_of(held) == checksum))
        }
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn look_at(base: &Path, path: String) -> Result<Held, RegistryError> {
    let file = base.join(&path);
    blocking(move || {
        let look = || -> io::Result<Held> {
            let mut opened = File::open(&file)?;
            let (mut hasher, mut size, mut piece) = (Sha256::new(), 0, vec![0; 1 << 20]);
            loop {
                match opened.read(&mut piece) {
                    Ok(0) => break,
                    Ok(count) => {
                        hasher.update(&piece[..count]);
                        size += count as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(Held { path: path.clone(), sha256: hexadecimal(&hasher.finalize()), size })
        };
        look().map_err(|error| RegistryError::File { path: file.clone(), reason: error.to_string() })
    })
    .await
}

/// Sends a file, which has to hold what was seen of it before.
async fn send(storage: &dyn Storage, key: &str, file: &Path, held: &Held) -> Result<(), RegistryError> {
    let refuse = |reason: String| RegistryError::File { path: file.to_owned(), reason };
    let path = file.to_owned();
    let mut source = blocking(move || File::open(path)).await.map_err(|error| refuse(error.to_string()))?;
    let mut writer = storage.writer(key, IfExists::Overwrite).await?;
    let (mut hasher, mut size) = (Sha256::new(), 0);
    loop {
        let (piece, back) = blocking(move || {
            let mut piece = Vec::new();
            Read::by_ref(&mut source).take(READ_AT_ONCE as u64).read_to_end(&mut piece)?;
            Ok::<_, io::Error>((piece, source))
        })
        .await
        .map_err(|error| refuse(error.to_string()))?;
        source = back;
        size += piece.len() as u64;
        if piece.is_empty() || size > held.size {
            break;
        }
        hasher.update(&piece);
        writer.write(piece.into()).await?;
    }
    if size != held.size || hexadecimal(&hasher.finalize()) != held.sha256 {
        return Err(refuse(CHANGED.to_owned()));
    }
    Ok(writer.finish().await?)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
