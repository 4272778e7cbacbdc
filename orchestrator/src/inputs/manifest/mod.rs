//! The manifest of an input: its files in listing order, as one object of the job's storage.
//!
//! Gzip over records, each a length and the CRC32C of the rest (32 bits, little-endian), then a MessagePack value: a
//! header, files in blocks, an end. It is written and read as a stream, so that an input may have any number of files
//! (spec S2). Blocks end where the reader is free to stop, and mean nothing else. Damage is found before a block is
//! used. The checksum of the whole stands in the job's record and for the listing (P3, D6): another manifest in the
//! place of this one is none of the job's.

mod read;
#[cfg(test)]
mod tests;
mod write;

use prs_common::mini_batch::{ObjectSource, StoreRef};
use prs_common::storage::StorageError;
use serde::{Deserialize, Serialize};

pub use read::{ManifestReader, ObjectReader};
pub use write::ManifestWriter;

/// Version of the format.
const FORMAT: u32 = 2;
/// Files in one block.
const BLOCK: usize = 1_000;
/// Largest record a reader takes, bytes.
const LARGEST_RECORD: usize = 64 << 20;
/// Bytes written and read at a time.
const TRANSFERRED_AT_ONCE: usize = 1 << 20;

/// The store of a source; see [`StoreRef`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Store {
    /// The node's own file system.
    Local,
    /// What all jobs of a fleet share.
    Shared,
    /// Another one, by its URL.
    Url(String),
}

/// What files of an input have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The store.
    pub store: Store,
    /// What the keys begin with.
    pub prefix: String,
    /// What the names begin with, as the user knows the files.
    pub origin: String,
    /// Whether the files may share mini-batches with those of the other sources that say so: those of a list.
    pub mixes: bool,
}

/// A file of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Number of its source, which the manifest gives.
    pub source: u32,
    /// The rest of its name.
    pub relative: String,
    /// The rest of its key; empty where that is `relative`.
    pub key: String,
    /// Bytes, where they are known.
    pub size: Option<u64>,
    /// Changes with its content; empty where the key does, or where it is not known.
    pub version: String,
    /// Of a file of a Delta table, its values of the partition columns, in the order of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition: Vec<Option<String>>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Header { format: u32 },
    Sources(Vec<Source>),
    Files(Vec<File>),
    End { files: u64, bytes: u64 },
}

/// What a manifest holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Files.
    pub files: u64,
    /// Bytes in those whose size is known.
    pub bytes: u64,
    /// Checksum of the records, in hexadecimal.
    pub checksum: String,
    /// URLs of the stores that its sources are in, beside those every job has; sorted.
    pub stores: Vec<String>,
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// It is not what this version of prs writes.
    #[error(
        "the listing {key} is damaged: {reason}; submit the job again as a new one, which lists its inputs anew"
    )]
    Damaged {
        /// Its key.
        key: String,
        /// What is wrong.
        reason: String,
    },
}

impl ManifestError {
    /// Whether the same manifest may be readable later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_retryable())
    }
}

impl Source {
    /// As a descriptor has it.
    pub fn describe(&self, number: u32) -> ObjectSource<'_> {
        let store = match &self.store {
            Store::Local => StoreRef::Local,
            Store::Shared => StoreRef::Shared,
            Store::Url(url) => StoreRef::Url(url),
        };
        let (prefix, origin, is_listed) = (&*self.prefix, &*self.origin, self.mixes);
        ObjectSource { number, store, prefix, origin, is_listed }
    }
}
