//! The manifest of an input: its files in listing order, as one object of the job's storage.
//!
//! Gzip over records, each a length (32 bits, little-endian) and a MessagePack value: a header, files in blocks,
//! an end. It is written and read as a stream, so that an input may have any number of files (spec S2), and its
//! checksum stands for the listing (P3, D6). Blocks end where the reader is free to stop, and mean nothing else.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Read, Write as _};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prs_common::hexadecimal;
use prs_common::mini_batch::{ObjectSource, StoreRef};
use prs_common::storage::{PutOptions, Storage, StorageError, Upload};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

/// Version of the format.
const FORMAT: u32 = 1;
/// Files in one block.
const BLOCK: usize = 1_000;
/// Largest record a reader takes, bytes.
const LARGEST_RECORD: usize = 64 << 20;
/// Bytes written and read at a time.
const PIECE: usize = 1 << 20;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Number of its source.
    pub source: u32,
    /// The rest of its name.
    pub relative: String,
    /// The rest of its key; empty where that is `relative`.
    pub key: String,
    /// Bytes, where they are known.
    pub size: Option<u64>,
    /// Changes with its content; empty where the key does, or where it is not known.
    pub version: String,
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
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// It is not what this version of prs writes.
    #[error("the listing {key} is damaged: {reason}")]
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
        ObjectSource { number, store, prefix: &self.prefix, origin: &self.origin }
    }
}

/// Writes a manifest. Nothing is seen of it before [`Self::finish`].
pub struct ManifestWriter {
    upload: Box<dyn Upload>,
    encoder: GzEncoder<Vec<u8>>,
    hasher: Sha256,
    numbers: HashMap<Source, u32>,
    block: Vec<File>,
    files: u64,
    bytes: u64,
}

impl ManifestWriter {
    /// Begins the object `key`.
    pub async fn create(store: &dyn Storage, key: &str) -> Result<Self, StorageError> {
        let mut writer = Self {
            upload: store.upload(key, PutOptions::default()).await?,
            encoder: GzEncoder::new(Vec::new(), Compression::fast()),
            hasher: Sha256::new(),
            numbers: HashMap::new(),
            block: Vec::new(),
            files: 0,
            bytes: 0,
        };
        writer.write(&Record::Header { format: FORMAT }).await?;
        Ok(writer)
    }

    /// The number of `source`, which is written when it is new.
    pub async fn source(&mut self, source: &Source) -> Result<u32, StorageError> {
        if let Some(&number) = self.numbers.get(source) {
            return Ok(number);
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(source.clone(), number);
        self.write_block().await?;
        self.write(&Record::Sources(vec![source.clone()])).await?;
        Ok(number)
    }

    /// Appends a file; its source has a number.
    pub async fn push(&mut self, file: File) -> Result<(), StorageError> {
        self.files += 1;
        self.bytes += file.size.unwrap_or(0);
        self.block.push(file);
        if self.block.len() >= BLOCK { self.write_block().await } else { Ok(()) }
    }

    /// Files so far.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Makes the manifest visible.
    pub async fn finish(mut self) -> Result<Summary, StorageError> {
        self.write_block().await?;
        let (files, bytes) = (self.files, self.bytes);
        self.write(&Record::End { files, bytes }).await?;
        let Self { mut upload, encoder, hasher, .. } = self;
        let rest = encoder.finish().expect("a Vec takes everything");
        upload.write(rest.into()).await?;
        upload.finish().await?;
        Ok(Summary { files, bytes, checksum: hexadecimal(&hasher.finalize()) })
    }

    async fn write_block(&mut self) -> Result<(), StorageError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let files = std::mem::take(&mut self.block);
        self.write(&Record::Files(files)).await
    }

    async fn write(&mut self, record: &Record) -> Result<(), StorageError> {
        let body = rmp_serde::to_vec(record).expect("a record holds only integers and strings");
        self.hasher.update(&body);
        let length = (body.len() as u32).to_le_bytes();
        self.encoder
            .write_all(&length)
            .and_then(|()| self.encoder.write_all(&body))
            .expect("a Vec takes everything");
        if self.encoder.get_ref().len() < PIECE {
            return Ok(());
        }
        self.upload.write(std::mem::take(self.encoder.get_mut()).into()).await
    }
}

/// Reads a manifest, block by block. It blocks, so it belongs on a thread of its own.
#[derive(Debug)]
pub struct ManifestReader<R> {
    key: String,
    stream: GzDecoder<R>,
    sources: Vec<Source>,
    seen: (u64, u64),
}

impl ManifestReader<ObjectReader> {
    /// Opens the object `key`. Calls of the store are made on the runtime of `handle`.
    pub fn open(store: Arc<dyn Storage>, key: &str, handle: &Handle) -> Result<Self, ManifestError> {
        let object = ObjectReader {
            store,
            key: key.to_owned(),
            handle: handle.clone(),
            at: 0,
            piece: io::Cursor::default(),
        };
        Self::new(object, key)
    }
}

impl<R: Read> ManifestReader<R> {
    fn new(stream: R, key: &str) -> Result<Self, ManifestError> {
        let stream = GzDecoder::new(stream);
        let mut reader = Self { key: key.to_owned(), stream, sources: Vec::new(), seen: (0, 0) };
        match reader.record()? {
            Record::Header { format: FORMAT } => Ok(reader),
            Record::Header { format } => {
                Err(reader.damaged(&format_args!("it has format {format} and this prs reads {FORMAT}")))
            }
            _ => Err(reader.damaged(&"it has no header")),
        }
    }

    /// The sources of the files that were read so far, by number.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The next files; `None` at the end.
    pub fn next_block(&mut self) -> Result<Option<Vec<File>>, ManifestError> {
        loop {
            match self.record()? {
                Record::Sources(sources) => self.sources.extend(sources),
                Record::Files(files) => {
                    if files.iter().any(|file| file.source as usize >= self.sources.len()) {
                        return Err(self.damaged(&"a file has no source"));
                    }
                    self.seen.0 += files.len() as u64;
                    self.seen.1 += files.iter().filter_map(|file| file.size).sum::<u64>();
                    return Ok(Some(files));
                }
                Record::End { files, bytes } if self.seen == (files, bytes) => return Ok(None),
                Record::End { .. } => return Err(self.damaged(&"files are missing")),
                Record::Header { .. } => return Err(self.damaged(&"it has two headers")),
            }
        }
    }

    fn record(&mut self) -> Result<Record, ManifestError> {
        let mut length = [0; 4];
        self.fill(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LARGEST_RECORD {
            return Err(self.damaged(&"a record is too long"));
        }
        let mut body = vec![0; length];
        self.fill(&mut body)?;
        rmp_serde::from_slice(&body).map_err(|error| self.damaged(&error))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ManifestError> {
        self.stream.read_exact(bytes).map_err(|error| match error.downcast::<StorageError>() {
            Ok(error) => error.into(),
            Err(error) => self.damaged(&error),
        })
    }

    fn damaged(&self, reason: &dyn Display) -> ManifestError {
        ManifestError::Damaged { key: self.key.clone(), reason: reason.to_string() }
    }
}

/// An object as a stream of bytes, read a piece at a time.
#[derive(Debug)]
pub struct ObjectReader {
    store: Arc<dyn Storage>,
    key: String,
    handle: Handle,
    at: u64,
    piece: io::Cursor<bytes::Bytes>,
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.piece.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        let range = self.at..self.at + PIECE as u64;
        let piece = self.handle.block_on(self.store.get_range(&self.key, range)).map_err(io::Error::other)?;
        self.at += piece.len() as u64;
        self.piece = io::Cursor::new(piece);
        self.piece.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use prs_common::storage::{LocalStorage, StorageErrorKind};

    use super::*;

    fn source(origin: &str) -> Source {
        Source { store: Store::Shared, prefix: "inputs/".to_owned(), origin: origin.to_owned(), mixes: false }
    }

    fn file(number: u64, source: u32) -> File {
        let (key, version) = (format!("ab/{number}"), String::new());
        File { source, relative: format!("folder/{number:07}.png"), key, size: Some(number), version }
    }

    async fn write(store: &dyn Storage, key: &str, files: u64) -> Summary {
        let mut writer = ManifestWriter::create(store, key).await.unwrap();
        for number in 0..files {
            let origin = if number < 1_500 { "/a/" } else { "/b/" };
            let source = writer.source(&source(origin)).await.unwrap();
            writer.push(file(number, source)).await.unwrap();
        }
        writer.finish().await.unwrap()
    }

    #[tokio::test]
    async fn files_come_back_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        for files in [0, 1, 1_000, 40_000] {
            let summary = write(&*store, "x.manifest", files).await;
            assert_eq!((summary.files, summary.bytes), (files, (0..files).sum()));
            assert_eq!(write(&*store, "y.manifest", files).await, summary);
            assert_eq!(store.get("x.manifest").await.unwrap(), store.get("y.manifest").await.unwrap());
            let (store, handle) = (Arc::clone(&store), Handle::current());
            let read = tokio::task::spawn_blocking(move || {
                let mut reader = ManifestReader::open(store, "x.manifest", &handle).unwrap();
                let mut read = Vec::new();
                while let Some(block) = reader.next_block().unwrap() {
                    read.extend(block);
                }
                (read, reader.sources().to_vec())
            });
            let (read, sources) = read.await.unwrap();
            assert_eq!(sources, [source("/a/"), source("/b/")][..read.len().div_ceil(1_500).min(2)]);
            let expected = (0..files).map(|number| file(number, u32::from(number >= 1_500)));
            assert!(read.into_iter().eq(expected));
        }
    }

    #[tokio::test]
    async fn damage_is_told_from_a_store_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        write(&*store, "whole", 3_000).await;
        let whole = store.get("whole").await.unwrap();
        store.put("cut", whole.slice(..whole.len() / 2), PutOptions::default()).await.unwrap();
        store.put("other", "not gzip at all".into(), PutOptions::default()).await.unwrap();
        let handle = Handle::current();
        tokio::task::spawn_blocking(move || {
            let read = |key| {
                let mut reader = ManifestReader::open(Arc::clone(&store), key, &handle)?;
                while reader.next_block()?.is_some() {}
                Ok::<(), ManifestError>(())
            };
            assert!(read("whole").is_ok());
            for key in ["cut", "other"] {
                let error = read(key).unwrap_err();
                assert!(
                    matches!(&error, ManifestError::Damaged { key: named, .. } if named == key),
                    "{error}"
                );
                assert!(!error.is_retryable());
            }
            let absent = read("absent").unwrap_err();
            assert!(
                matches!(&absent, ManifestError::Storage(error) if error.kind == StorageErrorKind::NotFound),
                "{absent:?}"
            );
        })
        .await
        .unwrap();
    }
}
