//! Notes of what a job brings to its output, in its own storage until nothing is left to resume.

use std::collections::{BTreeMap, HashMap};

use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt};
use prs_common::{hexadecimal, layout};
use sha2::{Digest, Sha256};

use crate::JobContext;

/// Names in the output, and the keys of the staged files that get them.
pub(super) type Names = BTreeMap<String, String>;

/// What all starts of a job brought under the names of prs's own files: the result and the list of failures.
#[derive(Debug, Default)]
pub struct Notes(HashMap<(String, String), u32>);

impl Notes {
    /// Reads the notes of the job in `storage`.
    pub async fn read(storage: &dyn Storage) -> Result<Self, StorageError> {
        let mut notes = HashMap::new();
        for object in storage.list_all(layout::PUBLISHED).await? {
            if let Some((incarnation, checksum, name)) = layout::published_parts(&object.key) {
                let latest = notes.entry((name.to_owned(), checksum.to_owned())).or_insert(incarnation);
                *latest = incarnation.max(*latest);
            }
        }
        Ok(Self(notes))
    }

    /// Whether some start of the job brought something under this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.keys().any(|(noted, _)| noted == name)
    }

    /// The last start of the job that brought a file with this checksum (SHA-256, in hexadecimal) under this name.
    pub fn brought(&self, name: &str, sha256: &str) -> Option<u32> {
        self.0.get(&(name.to_owned(), sha256.to_owned())).copied()
    }
}

/// Notes that this start of the job brings a file with this checksum under this name.
pub(super) async fn note(job: &JobContext, name: &str, sha256: &str) -> Result<(), StorageError> {
    let key = layout::published(job.incarnation, sha256, name);
    job.storage.put(&key, "".into(), PutMode::Overwrite).await.map(drop)
}

/// Notes the names that this start of the job gives to files of mini-batches; returns the key of the note.
pub(super) async fn note_files(job: &JobContext, names: &Names) -> Result<String, StorageError> {
    let body = serde_json::to_vec(names).expect("names and keys are text");
    let key = layout::published_files(job.incarnation, &hexadecimal(&Sha256::digest(&body)));
    job.storage.put(&key, body.into(), PutMode::Overwrite).await?;
    Ok(key)
}

/// The names that files of mini-batches got before, by all notes of this start and former ones but `latest`.
pub(super) async fn former_files(
    job: &JobContext,
    latest: &str,
) -> Result<HashMap<String, Vec<String>>, StorageError> {
    let mut former: HashMap<String, Vec<String>> = HashMap::new();
    for object in job.storage.list_all(layout::PUBLISHED).await? {
        let start = layout::published_files_start(&object.key);
        if start.is_none_or(|start| start > job.incarnation) || object.key == latest {
            continue;
        }
        let body = match job.storage.get(&object.key).await {
            Err(error) if error.kind == StorageErrorKind::NotFound => continue,
            body => body?,
        };
        let Ok(names) = serde_json::from_slice::<Names>(&body) else {
            tracing::warn!(
                key = object.key,
                "a note of published files cannot be understood; it does not count"
            );
            continue;
        };
        for (name, key) in names {
            former.entry(name).or_default().push(key);
        }
    }
    Ok(former)
}
