//! Logs as one archive, piece by piece, so that it costs no memory and no disk.

use std::io::{self, Write};
use std::sync::Arc;
use std::vec::IntoIter;

use flate2::Compression;
use flate2::write::GzEncoder;
use prs_common::storage::{Storage, StorageExt};
use tar::{EntryType, Header};

use crate::records::Log;

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;
/// Bytes of a block of an archive.
const BLOCK: u64 = 512;

/// An archive that is being made.
#[derive(Debug)]
pub struct Packer {
    storage: Arc<dyn Storage>,
    below: &'static str,
    logs: IntoIter<Log>,
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// The log that is packed: its key, where the next piece begins, its size in the archive.
    open: Option<(String, u64, u64)>,
}

impl Packer {
    /// An archive of these `logs`, whose keys in `storage` begin with `below`.
    pub fn new(storage: Arc<dyn Storage>, below: &'static str, logs: Vec<Log>) -> Self {
        let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
        Self { storage, below, logs: logs.into_iter(), encoder, open: None }
    }

    /// The next piece; nothing behind the end.
    ///
    /// # Errors
    /// A log cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let Some(mut encoder) = self.encoder.take() else { return Ok(None) };
            match self.open.take() {
                Some((key, at, size)) if at < size => {
                    let end = size.min(at + PIECE);
                    let read = self.storage.get_range(&key, at..end).await.map_err(io::Error::other)?;
                    encoder.write_all(&read)?;
                    // What became shorter meanwhile is filled up.
                    let missing = (end - at).saturating_sub(read.len() as u64);
                    encoder.write_all(&vec![0; missing as usize])?;
                    self.open = Some((key, end, size));
                }
                Some((_, _, size)) => {
                    let padding = (BLOCK - size % BLOCK) % BLOCK;
                    encoder.write_all(&vec![0; padding as usize])?;
                }
                None => {
                    let Some(log) = self.logs.next() else {
                        encoder.write_all(&[0; 2 * BLOCK as usize])?;
                        return encoder.finish().map(Some);
                    };
                    encoder.write_all(&header(&log.file, log.bytes)?)?;
                    self.open = Some((format!("{}{}", self.below, log.file), 0, log.bytes));
                }
            }
            let piece = std::mem::take(encoder.get_mut());
            self.encoder = Some(encoder);
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }
}

/// What stands before a file of an archive; a long name has blocks of its own.
fn header(name: &str, size: u64) -> io::Result<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    if header.set_path(name).is_err() {
        let mut long = Header::new_gnu();
        long.set_entry_type(EntryType::GNULongName);
        long.set_path("././@LongLink")?;
        long.set_size(name.len() as u64 + 1);
        long.set_cksum();
        blocks.extend_from_slice(long.as_bytes());
        blocks.extend_from_slice(name.as_bytes());
        let filled = (name.len() as u64 + 1).next_multiple_of(BLOCK) - name.len() as u64;
        blocks.resize(blocks.len() + filled as usize, 0);
        header.set_path(&name[..name.floor_char_boundary(99)])?;
    }
    header.set_size(size);
    header.set_cksum();
    blocks.extend_from_slice(header.as_bytes());
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use prs_common::storage::{LocalStorage, PutMode};

    use super::*;

    #[tokio::test]
    async fn an_archive_has_every_log_as_it_was_listed() {
        let folder = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        let long = format!("user/{}/out.txt", "n".repeat(150));
        let texts =
            [("a.txt", "x".repeat(3 << 20)), (long.as_str(), "one\n".to_owned()), ("empty", String::new())];
        let mut logs = Vec::new();
        for (name, text) in &texts {
            storage.put(&format!("logs/{name}"), text.clone().into(), PutMode::Create).await.unwrap();
            logs.push(Log { file: (*name).to_owned(), bytes: text.len() as u64 });
        }
        // It grows while it is packed.
        storage.put(&format!("logs/{long}"), "one\ntwo\n".into(), PutMode::Overwrite).await.unwrap();
        let mut packer = Packer::new(storage, "logs/", logs);
        let mut archive = Vec::new();
        while let Some(piece) = packer.next().await.unwrap() {
            archive.extend(piece);
        }
        let mut archive = tar::Archive::new(GzDecoder::new(&archive[..]));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            found.push((name, text));
        }
        let expected = texts.map(|(name, text)| (name.to_owned(), text));
        assert_eq!(found, expected);
    }
}
