//! Copies of files whose servers give no parts of them, so that a part costs no whole file each time.
//!
//! A copy has no name: it is gone with the program. The least used go when there are many.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::sync::OnceCell;

use super::answer::HttpFailure;
use super::client::Body;
use super::version::SeenState;
use crate::storage::StorageErrorKind;
use crate::tree;

/// Copies that are kept at most.
const KEPT: usize = 16;
/// Bytes of all of them, at most, but for the one that was used last.
const KEPT_BYTES: u64 = 4 << 30;

/// A copy of a file.
#[derive(Debug)]
pub(super) struct Copy {
    file: Arc<File>,
    /// What it is a copy of.
    pub(super) seen: SeenState,
}

/// A copy that is made when it is first asked for.
type Made = Arc<OnceCell<Copy>>;

/// The copies of files of one server.
#[derive(Debug, Default)]
pub(super) struct Spool {
    /// By their keys, those used last at the end.
    copies: Mutex<Vec<(String, Made)>>,
}

impl Spool {
    /// The copy of `key`, made or not; nothing where none was ever wanted.
    pub(super) fn find(&self, key: &str) -> Option<Made> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let at = copies.iter().position(|(known, _)| known == key)?;
        let found = copies.remove(at);
        copies.push(found);
        copies.last().map(|(_, made)| Arc::clone(made))
    }

    /// The place for a copy of `key`.
    pub(super) fn want(&self, key: &str) -> Made {
        if let Some(made) = self.find(key) {
            return made;
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let made = Made::default();
        copies.push((key.to_owned(), Arc::clone(&made)));
        let bytes = |copies: &[(String, Made)]| -> u64 {
            copies.iter().filter_map(|(_, made)| Some(made.get()?.seen.size)).sum()
        };
        while copies.len() > 1 && (copies.len() > KEPT || bytes(&copies) > KEPT_BYTES) {
            copies.remove(0);
        }
        made
    }

    /// Leaves the copy of `key` to those who have it.
    pub(super) fn forget(&self, key: &str, made: &Made) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|(known, other)| known != key || !Arc::ptr_eq(other, made));
    }
}

impl Copy {
    /// Reads a `body` to its end into a file without a name. Of the size that the answer told, if it did.
    pub(super) async fn of(mut body: Body, size: Option<u64>, seen: SeenState) -> Result<Self, HttpFailure> {
        let folder = std::env::temp_dir();
        let failed = |error: io::Error| {
            let kind = StorageErrorKind::of_file(&error);
            let message = format!(
                "{}: {error}: the server gives no parts of the file, so a copy of it is kept there; set TMPDIR to a \
                 folder with room for it",
                folder.display()
            );
            HttpFailure::of(
                if kind == StorageErrorKind::Full { kind } else { StorageErrorKind::Unavailable },
                message,
            )
        };
        let file = unnamed().map_err(failed)?;
        let mut writer = tokio::fs::File::from_std(file.try_clone().map_err(failed)?);
        let mut came = 0;
        while let Some(bytes) = body.next().await? {
            came += bytes.len() as u64;
            writer.write_all(&bytes).await.map_err(failed)?;
        }
        writer.flush().await.map_err(failed)?;
        if let Some(size) = size.filter(|size| *size != came) {
            return Err(HttpFailure::unanswered(format!(
                "the answer had {came} bytes and not the {size} that it told"
            )));
        }
        Ok(Self { file: Arc::new(file), seen: SeenState { size: came, ..seen } })
    }

    /// Some bytes of it, cut at its end.
    pub(super) async fn read(&self, range: Range<u64>) -> Result<Bytes, HttpFailure> {
        let end = range.end.min(self.seen.size);
        let (file, start) = (Arc::clone(&self.file), range.start.min(end));
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; (end - start) as usize];
            file.read_exact_at(&mut bytes, start).map(|()| bytes)
        });
        let read = read.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        read.map(Bytes::from)
            .map_err(|error| HttpFailure::unanswered(format!("the copy of the file: {error}")))
    }
}

/// An empty file that nobody finds.
fn unnamed() -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let name = format!(".prs-http-{}-{now:x}-{number}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let file = tree::create_private(&path)?;
    tree::remove_file(&path)?;
    Ok(file)
}
