//! Slices of Parquet files: neighbouring row groups, by the footer at the end of each file. No data is read, here or of an
//! object; so the slices of large files are known as fast as those of small ones.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use prs_common::dataset::input::below_compression;
use prs_common::file_version::SeenFile;
use prs_common::job::TabularOptions;
use prs_common::message_pack;
use prs_common::mini_batch::StoreRef;
use prs_tabular::TableReader;
use prs_tabular::parquet::{Footer, FooterError, TAIL, locate, split};

use super::Slices;
use crate::plan::types_seen::CONVERT;

/// Bytes that are read first: nearly always the footer is among them.
const FIRST: u64 = 64 << 10;

/// The last bytes of a file.
#[derive(Debug)]
pub(in crate::plan) struct FileEnd {
    /// These bytes.
    pub(in crate::plan) bytes: Bytes,
    /// Size of the file, bytes.
    pub(in crate::plan) size: u64,
}

impl FileEnd {
    /// How many of the last bytes of its file a plan needs, where more are than are here.
    pub(in crate::plan) fn missing(&self) -> Option<u64> {
        let here = self.bytes.len() as u64;
        let needed = match locate(&self.bytes, self.size) {
            Ok(place) => place.end - place.start,
            Err(_) if here == 0 => FIRST.min(self.size),
            Err(_) => return None,
        };
        Some(needed).filter(|needed| *needed > here)
    }
}

/// The end of a local file, and its version.
pub(super) fn read_end(path: &Path) -> io::Result<(FileEnd, String)> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let before = SeenFile::of(&meta);
    let mut end = FileEnd { bytes: Bytes::new(), size: before.version.size };
    while let Some(missing) = end.missing() {
        let mut bytes = vec![0; missing as usize];
        file.read_exact_at(&mut bytes, end.size - missing)?;
        end.bytes = bytes.into();
    }
    match before.difference(&SeenFile::of(&file.metadata()?), path) {
        Some(change) => Err(io::Error::other(format!("it changed while it was planned: {change}"))),
        None => Ok((end, before.version.to_string())),
    }
}

/// Hands over the slices of the file with this end. Where it cannot be split, the place in it and the reason come back.
pub(super) fn plan(
    options: &TabularOptions,
    end: &FileEnd,
    size: u64,
    slices: &mut Slices<'_, '_, '_>,
) -> Result<(), (u64, String)> {
    let place = locate(&end.bytes, end.size).map_err(|error| {
        let name = slices.name.origin.to_ascii_lowercase();
        let compressed = below_compression(&name).len() < name.len();
        let remedy = if compressed { "; if it is compressed as a whole, decompress it first" } else { "" };
        (end.size.saturating_sub(TAIL), format!("{error}{remedy}"))
    })?;
    let first = end.bytes.len() - (place.end - place.start) as usize;
    let footer = Footer::read(&end.bytes[first..], place.start, options.columns.as_deref());
    let mut rows = *slices.rows;
    let is_here = slices.home.store == StoreRef::Local;
    let split = footer.and_then(|footer| {
        let types = footer.types();
        // Those of a Delta table are the table's.
        if footer.group_count() > 0 && slices.name.columns.of_table.is_none() {
            for (column, of_type) in &types.columns {
                slices.taker.sink.types.note(column, of_type, slices.name.origin, CONVERT);
            }
        }
        let is_in_doubt = !is_here && !types.in_doubt.is_empty();
        let count = footer.group_count();
        split(&footer, size, options.split_row_groups, &mut rows, |slice, mut row_groups| {
            let is_all = row_groups.rows.is_none()
                && u64::from(row_groups.groups.end - row_groups.groups.start) == count;
            row_groups.is_in_doubt = is_in_doubt && !is_all;
            row_groups.of_table.clone_from(&slices.name.columns.of_table);
            slices.push(&message_pack::encode(&TableReader::Parquet(row_groups)), slice)
        })
    });
    *slices.rows = rows;
    split.map_err(|error: FooterError| (place.start, error.to_string()))
}
