//! Writing a manifest, as a stream.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prs_common::checksum::crc32c;
use prs_common::hexadecimal;
use prs_common::storage::{IfExists, Storage, StorageError, Writer};
use sha2::{Digest, Sha256};

use super::{BLOCK, FORMAT, File, Record, Source, Store, Summary, TRANSFERRED_AT_ONCE};

/// Writes a manifest. Nothing is seen of it before [`Self::finish`].
pub struct ManifestWriter {
    upload: Box<dyn Writer>,
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
            upload: store.writer(key, IfExists::Overwrite).await?,
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
    async fn number(&mut self, source: &Source) -> Result<u32, StorageError> {
        if let Some(&number) = self.numbers.get(source) {
            return Ok(number);
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(source.clone(), number);
        self.write_block().await?;
        self.write(&Record::Sources(vec![source.clone()])).await?;
        Ok(number)
    }

    /// Appends a file of `source`.
    pub async fn push(&mut self, source: &Source, file: File) -> Result<(), StorageError> {
        let source = self.number(source).await?;
        self.files += 1;
        self.bytes += file.size.unwrap_or(0);
        self.block.push(File { source, ..file });
        if self.block.len() >= BLOCK { self.write_block().await } else { Ok(()) }
    }

    /// Makes the manifest visible.
    pub async fn finish(mut self) -> Result<Summary, StorageError> {
        self.write_block().await?;
        let (files, bytes) = (self.files, self.bytes);
        self.write(&Record::End { files, bytes }).await?;
        let Self { mut upload, encoder, hasher, numbers, .. } = self;
        let urls = numbers.into_keys().filter_map(|source| match source.store {
            Store::Url(url) => Some(url),
            Store::Local | Store::Shared => None,
        });
        let stores: BTreeSet<String> = urls.collect();
        let rest = encoder.finish().expect("a Vec takes everything");
        upload.write(rest.into()).await?;
        upload.finish().await?;
        let (checksum, stores) = (hexadecimal(&hasher.finalize()), stores.into_iter().collect());
        Ok(Summary { files, bytes, checksum, stores })
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
        let head = [(body.len() as u32).to_le_bytes(), crc32c(&body).to_le_bytes()];
        self.encoder
            .write_all(head.as_flattened())
            .and_then(|()| self.encoder.write_all(&body))
            .expect("a Vec takes everything");
        if self.encoder.get_ref().len() < TRANSFERRED_AT_ONCE {
            return Ok(());
        }
        self.upload.write(std::mem::take(self.encoder.get_mut()).into()).await
    }
}
