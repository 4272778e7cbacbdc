//! Blobs: files that programs send to a server before they hand in what needs them, named by their content. What is there already is
//! not sent again, and an upload that broke off goes on with the next file.
//!
//! | file | duty |
//! |---|---|
//! | `manifest` | a list of blobs as the files of a folder |
//! | `place` | blobs as files of this machine |
//!
//! On a fleet they are the uploaded inputs of its jobs: what a job of the fleet brought is there for a program, and the other way
//! round. Without one they are in the same layout in the registry of this machine. `prs gc` removes those that no job names.
//! So that it takes none that a caller is about to name, a request for a blob, and an upload, claims it: an object
//! `uploads/<digest>`, which says by its age how long ago that was. A collection leaves what was claimed within a day
//! (`orchestrator/src/gc/claim.rs`); claims are written while nobody collects, as its mark tells.

mod manifest;
mod place;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use prs_common::hexadecimal;
use prs_common::layout::{BLOBS, blob};
use prs_common::storage::{IfExists, Storage, StorageError, StorageErrorKind};
use prs_orchestrator::gc::{claim, until_quiet};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::homes::fleet::{Reader, note_gc};
use crate::homes::{Whereabouts, registry};

pub use manifest::{Listed, MOST_FILES, read_manifest};

/// Bytes of a blob at most.
pub const LARGEST: u64 = 5 << 30;
/// Blobs that are looked for side by side.
const SIDE_BY_SIDE: usize = 16;

/// Why a blob cannot be used.
#[derive(Debug)]
pub enum BlobError {
    /// These are not there, by their digests.
    Missing(Vec<String>),
    /// What was sent is not what its name says.
    Mismatch(String),
    /// The body of the request broke off.
    BrokenOff(String),
    /// There is no room for it.
    Full,
    /// Something else.
    Failed(Failure),
}

impl BlobError {
    /// The same as the failure of a call.
    pub fn failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Missing(digests) => {
                Failure::wrong(format!("{} blob(s) are not there: {}", digests.len(), digests.join(", ")))
            }
            Self::Mismatch(found) => Failure::wrong(format!("what came has the SHA-256 {found}")),
            Self::BrokenOff(why) => Failure::wrong(why),
            Self::Full => Failure::server(anyhow::anyhow!("the storage is full")),
        }
    }
}

impl From<StorageError> for BlobError {
    fn from(error: StorageError) -> Self {
        match error.kind {
            StorageErrorKind::Full => Self::Full,
            _ => Self::Failed(Failure::server(error)),
        }
    }
}

impl From<Failure> for BlobError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Whether `digest` is one: SHA-256 in hexadecimal, small letters.
pub fn is_digest(digest: &str) -> bool {
    digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The key of the blob with this digest.
pub fn key_of(digest: &str) -> String {
    format!("{BLOBS}{}", blob(digest))
}

/// Where the blobs of this machine are; nothing where there are none.
///
/// # Errors
/// There is no current folder.
pub async fn of_this_machine(whereabouts: &Whereabouts) -> Result<Option<Arc<dyn Storage>>, Failure> {
    let folder = registry::folder_of_runs(&whereabouts.runs)?.join(BLOBS);
    if whereabouts.urls.is_some() || !folder.is_dir() {
        return Ok(None);
    }
    registry::storage_of(whereabouts).await.map(Some)
}

/// The blobs of a fleet, or of this machine.
#[derive(Debug, Clone)]
pub struct Blobs {
    whereabouts: Whereabouts,
    storage: Arc<dyn Storage>,
}

impl Blobs {
    /// Those of the fleet, or those beside the runs of this machine.
    ///
    /// # Errors
    /// The storage cannot be used.
    pub async fn open(whereabouts: &Whereabouts) -> Result<Self, Failure> {
        let storage = if let Some(reader) = Reader::connect(whereabouts).await? {
            Arc::clone(reader.storage())
        } else {
            registry::make(&whereabouts.runs)?;
            registry::storage_of(whereabouts).await?
        };
        Ok(Self { whereabouts: whereabouts.clone(), storage })
    }

    /// Where they are.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The size of a blob; nothing where it is not there.
    ///
    /// # Errors
    /// The store fails.
    pub async fn size(&self, digest: &str) -> Result<Option<u64>, StorageError> {
        match self.storage.head(&key_of(digest)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Claims these blobs: no collection removes them for a while, from now on.
    ///
    /// # Errors
    /// The store fails.
    pub async fn claim(&self, digests: &[&str]) -> Result<(), BlobError> {
        let caller = &self.whereabouts.caller;
        loop {
            let quiet = until_quiet(&*self.storage, &|by| note_gc(&**caller, by)).await?;
            let claims = digests.iter().map(|digest| claim(&*self.storage, digest)).collect::<Vec<_>>();
            stream::iter(claims).buffer_unordered(SIDE_BY_SIDE).try_collect::<Vec<()>>().await?;
            // One that has begun meanwhile may not have seen them.
            if quiet.lasts(&*self.storage).await? {
                return Ok(());
            }
        }
    }

    /// Which of these blobs are not there, in their order, each once. All of them are claimed.
    ///
    /// # Errors
    /// The store fails.
    pub async fn missing(&self, digests: &[&str]) -> Result<Vec<String>, BlobError> {
        let mut wanted: Vec<&str> = Vec::with_capacity(digests.len());
        let mut seen = std::collections::HashSet::new();
        wanted.extend(digests.iter().filter(|digest| seen.insert(**digest)));
        self.claim(&wanted).await?;
        let found = self.sizes(&wanted).await?;
        let absent = wanted.iter().zip(found).filter(|(_, found)| found.is_none());
        Ok(absent.map(|(digest, _)| (*digest).to_owned()).collect())
    }

    /// The sizes of these blobs; nothing for those that are not there.
    ///
    /// # Errors
    /// The store fails.
    pub async fn sizes(&self, digests: &[&str]) -> Result<Vec<Option<u64>>, StorageError> {
        let looks = digests.iter().map(|digest| self.size(digest)).collect::<Vec<_>>();
        stream::iter(looks).buffered(SIDE_BY_SIDE).try_collect().await
    }

    /// Refuses where one of these blobs is not there. All of them are claimed.
    ///
    /// # Errors
    /// Some are not there, or the store fails.
    pub async fn need(&self, digests: &[&str]) -> Result<(), BlobError> {
        match self.missing(digests).await? {
            missing if missing.is_empty() => Ok(()),
            missing => Err(BlobError::Missing(missing)),
        }
    }

    /// Whether a blob of this size is there, which is claimed.
    ///
    /// # Errors
    /// The store fails.
    pub async fn has(&self, digest: &str, length: u64) -> Result<bool, BlobError> {
        self.claim(&[digest]).await?;
        Ok(self.size(digest).await? == Some(length))
    }

    /// Takes a blob of `length` bytes as they come; false where it was there, and they were read all the same. Nothing is kept of what is
    /// not what its name says.
    ///
    /// # Errors
    /// It is not, it breaks off, there is no room for it, or the store fails.
    pub async fn take(
        &self,
        digest: &str,
        length: u64,
        body: impl Stream<Item = Result<Bytes, String>> + Send,
    ) -> Result<bool, BlobError> {
        let mut writer = if self.has(digest, length).await? {
            None
        } else {
            Some(self.storage.writer(&key_of(digest), IfExists::Overwrite).await?)
        };
        let (mut hasher, mut count) = (Sha256::new(), 0_u64);
        let mut body = std::pin::pin!(body);
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(BlobError::BrokenOff)?;
            count += piece.len() as u64;
            if count > length {
                break;
            }
            hasher.update(&piece);
            if let Some(writer) = &mut writer {
                writer.write(piece).await?;
            }
        }
        let found = hexadecimal(&hasher.finalize());
        if count != length {
            return Err(BlobError::BrokenOff(format!("{length} bytes were announced, and {count} came")));
        }
        if found != digest {
            return Err(BlobError::Mismatch(found));
        }
        let is_new = writer.is_some();
        if let Some(writer) = writer {
            writer.finish().await?;
        }
        Ok(is_new)
    }

    /// Whether a disk of this machine has no room for `bytes` more; false where that is not known.
    pub fn is_too_much(&self, bytes: u64) -> bool {
        if self.whereabouts.urls.is_some() {
            return false;
        }
        let room = registry::folder_of_runs(&self.whereabouts.runs).ok().and_then(|folder| {
            let room = rustix::fs::statvfs(&folder).ok()?;
            Some(room.f_bavail.saturating_mul(room.f_frsize))
        });
        room.is_some_and(|room| bytes > room)
    }
}

#[cfg(test)]
mod tests {
    use prs_common::job::Names;
    use prs_common::storage::StorageExt;

    use super::*;
    use crate::caller::Unattended;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    async fn blobs(folder: &tempfile::TempDir) -> Blobs {
        let runs = folder.path().join("runs");
        std::fs::create_dir_all(&runs).unwrap();
        let whereabouts = Whereabouts::new(None, runs, Names::default(), Arc::new(Unattended));
        Blobs::open(&whereabouts).await.unwrap()
    }

    fn body(pieces: &[&'static str]) -> impl Stream<Item = Result<Bytes, String>> + Send + use<> {
        stream::iter(pieces.iter().map(|piece| Ok(Bytes::from(*piece))).collect::<Vec<_>>())
    }

    #[tokio::test]
    async fn a_blob_is_what_its_name_says_or_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = blobs(&folder).await;
        assert_eq!(blobs.missing(&[ABC, ABC]).await.unwrap(), [ABC]);
        let other = blobs.take(ABC, 3, body(&["ab", "d"])).await.unwrap_err();
        assert!(matches!(other, BlobError::Mismatch(_)), "{other:?}");
        for pieces in [&["ab"][..], &["ab", "cd"]] {
            let broken = blobs.take(ABC, 3, body(pieces)).await.unwrap_err();
            assert!(matches!(broken, BlobError::BrokenOff(_)), "{broken:?}");
        }
        assert_eq!(blobs.size(ABC).await.unwrap(), None);
        assert!(blobs.take(ABC, 3, body(&["a", "bc"])).await.unwrap());
        assert!(!blobs.take(ABC, 3, body(&["ab", "c"])).await.unwrap(), "it is there");
        let other = blobs.take(ABC, 3, body(&["xyz"])).await.unwrap_err();
        assert!(matches!(other, BlobError::Mismatch(_)), "{other:?}");
        assert!(blobs.need(&[ABC]).await.is_ok());
        assert_eq!(blobs.storage().get(&key_of(ABC)).await.unwrap(), "abc");
        let absent = "0".repeat(64);
        let missing = blobs.need(&[ABC, &absent]).await.unwrap_err();
        assert!(matches!(missing, BlobError::Missing(missing) if missing == [absent]));
    }

    #[test]
    fn digests_have_one_form() {
        assert!(is_digest(ABC));
        for wrong in ["", "abc", &ABC.to_uppercase(), &ABC.replace('b', "/"), &format!("{ABC}0")] {
            assert!(!is_digest(wrong), "{wrong}");
        }
    }
}
