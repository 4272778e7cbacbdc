//! Reading a manifest, as a stream.

use std::fmt::{Debug, Display};
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::GzDecoder;
use prs_common::checksum::crc32c;
use prs_common::storage::{GetOptions, Storage, StorageError, Version};
use prs_common::{hexadecimal, message_pack};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use super::{FORMAT, File, LARGEST_RECORD, ManifestError, Record, Source, TRANSFERRED_AT_ONCE};

/// Reads a manifest, block by block. It blocks, so it belongs on a thread of its own.
#[derive(Debug)]
pub struct ManifestReader<R> {
    key: String,
    /// What its records must add up to, where that is known.
    checksum: Option<String>,
    hasher: Sha256,
    stream: GzDecoder<R>,
    sources: Vec<Source>,
    seen: (u64, u64),
}

impl ManifestReader<ObjectReader> {
    /// Opens the object `key`, which has the [checksum](super::Summary::checksum) `checksum`; nothing is given where nobody
    /// knows it. Calls of the store are made on the runtime of `handle`.
    pub fn open(
        store: Arc<dyn Storage>,
        key: &str,
        checksum: Option<&str>,
        handle: &Handle,
    ) -> Result<Self, ManifestError> {
        let object = ObjectReader {
            store,
            key: key.to_owned(),
            handle: handle.clone(),
            at: 0,
            known: None,
            piece: Bytes::new(),
        };
        Self::new(object, key, checksum)
    }
}

impl<R: Read> ManifestReader<R> {
    fn new(stream: R, key: &str, checksum: Option<&str>) -> Result<Self, ManifestError> {
        let mut reader = Self {
            key: key.to_owned(),
            checksum: checksum.map(str::to_owned),
            hasher: Sha256::new(),
            stream: GzDecoder::new(stream),
            sources: Vec::new(),
            seen: (0, 0),
        };
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

    /// The next files; `None` at the end, once all of it is found to be what was written.
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
                Record::End { files, bytes } if self.seen == (files, bytes) => return self.end(),
                Record::End { .. } => return Err(self.damaged(&"files are missing")),
                Record::Header { .. } => return Err(self.damaged(&"it has two headers")),
            }
        }
    }

    /// Nothing may follow; what compression itself keeps for checking does.
    fn end(&mut self) -> Result<Option<Vec<File>>, ManifestError> {
        match self.stream.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return Err(self.damaged(&"something follows its end")),
            Err(error) => return Err(self.failed(error)),
        }
        let found = hexadecimal(&self.hasher.finalize_reset());
        match &self.checksum {
            Some(checksum) if *checksum != found => {
                Err(self
                    .damaged(&format_args!("its checksum is {found} and the job's record has {checksum}")))
            }
            _ => Ok(None),
        }
    }

    fn record(&mut self) -> Result<Record, ManifestError> {
        let mut head = [[0; 4]; 2];
        self.fill(head.as_flattened_mut())?;
        let [length, checksum] = head.map(u32::from_le_bytes);
        if length as usize > LARGEST_RECORD {
            return Err(self.damaged(&"a record is too long"));
        }
        let mut body = vec![0; length as usize];
        self.fill(&mut body)?;
        if crc32c(&body) != checksum {
            return Err(self.damaged(&"a record does not have its checksum"));
        }
        self.hasher.update(&body);
        message_pack::decode(&body).map_err(|error| self.damaged(&error))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ManifestError> {
        self.stream.read_exact(bytes).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> ManifestError {
        match error.downcast::<StorageError>() {
            Ok(error) => error.into(),
            Err(error) => self.damaged(&error),
        }
    }

    fn damaged(&self, reason: &dyn Display) -> ManifestError {
        ManifestError::Damaged { key: self.key.clone(), reason: reason.to_string() }
    }
}

/// An object as a stream of bytes, read when they are asked for: a planner may rest for hours between two of them, and
/// nothing would poll what was read ahead.
#[derive(Debug)]
pub struct ObjectReader {
    store: Arc<dyn Storage>,
    key: String,
    handle: Handle,
    /// Where the next piece begins.
    at: u64,
    /// Size and version of the object, once they are known.
    known: Option<(u64, Version)>,
    piece: Bytes,
}

impl ObjectReader {
    async fn next(&mut self) -> Result<Bytes, StorageError> {
        let (size, version) = match &self.known {
            Some((size, version)) => (*size, Some(version.clone())),
            None => (u64::MAX, None),
        };
        if self.at >= size {
            return Ok(Bytes::new());
        }
        let range = self.at..size.min(self.at + TRANSFERRED_AT_ONCE as u64);
        let read = self.store.get_opts(&self.key, GetOptions { range: Some(range), version }).await?;
        self.at += read.bytes.len() as u64;
        self.known = Some((read.size, read.version));
        Ok(read.bytes)
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let handle = self.handle.clone();
            self.piece = handle.block_on(self.next()).map_err(io::Error::other)?;
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
