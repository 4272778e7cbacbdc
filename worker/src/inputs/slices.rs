//! Slices of tables: the bytes of each, at their place in a file with holes.
//!
//! Slices of a Parquet file share its footer and, where the data of all row groups decides on types, the columns concerned.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::try_join_all;
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, SliceRef, StoreRef, Work};
use prs_common::storage::DiskError;
use prs_tabular::TableReader;
use prs_tabular::parquet::{Footer, RowGroups};

use super::cache::Pin;
use super::fetch::{Object, Part};
use super::{File, LocalizeError, Localizer};

/// Places of data in a file, bytes.
type Places = Arc<Vec<Range<u64>>>;

/// Remembers where the data lies that decides on types, so that a footer is read once for the slices of its file.
#[derive(Default)]
pub(super) struct PlacesInDoubt(Mutex<HashMap<(String, u32), Places>>);

impl PlacesInDoubt {
    /// Bounds the number of files.
    const MOST: usize = 64;

    fn get(&self, of: &(String, u32)) -> Option<Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(of).cloned()
    }

    fn put(&self, of: (String, u32), places: &Places) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(of, Arc::clone(places));
    }
}

/// A slice as it will be on this node.
struct LocalSlice<'a> {
    /// The path of the file with its bytes; none for a slice of a local file.
    key: Option<String>,
    /// The reader, where it differs from the planned one.
    reader: Option<Vec<u8>>,
    /// The files that it needs, by their names in the cache.
    files: Vec<(String, File<'a>)>,
}

impl Localizer {
    /// Makes slices local.
    pub(super) async fn slices(
        &self,
        planned: &MiniBatch<'_>,
        slices: &[SliceRef<'_>],
    ) -> Result<(Bytes, Pin), LocalizeError> {
        let parts = slices.iter().map(|slice| self.slice(planned.input, slice));
        let mut parts = try_join_all(parts).await?;
        let files = parts.iter_mut().flat_map(|part| std::mem::take(&mut part.files)).collect();
        let pin = self.fetch_all(files).await?;
        let local = slices.iter().zip(&parts).map(|(slice, part)| match part {
            LocalSlice { key: None, .. } => *slice,
            LocalSlice { key: Some(key), reader, .. } => {
                let reader = reader.as_deref().unwrap_or(slice.reader);
                SliceRef { store: StoreRef::Local, key, reader, ..*slice }
            }
        });
        let mut local: Vec<SliceRef<'_>> = local.collect();
        let work = match (&planned.work, local.pop()) {
            (Work::Slice(_), Some(only)) => Work::Slice(only),
            (_, last) => Work::Slices(local.into_iter().chain(last).collect()),
        };
        Ok((MiniBatch { work, ..*planned }.encode().into(), pin))
    }

    async fn slice<'a>(&self, input: u32, slice: &SliceRef<'a>) -> Result<LocalSlice<'a>, LocalizeError> {
        let &SliceRef { store, start, end, checksum, .. } = slice;
        let mut files = Vec::new();
        if store == StoreRef::Local {
            return Ok(LocalSlice { key: None, reader: None, files });
        }
        let mut want = |(name, file): (String, File<'a>)| {
            let path = self.inner.cache.path(&name).to_string_lossy().into_owned();
            files.push((name, file));
            path
        };
        // A reader that cannot be decoded is for the process to refuse.
        let Ok(TableReader::Parquet(mut row_groups)) = message_pack::decode(slice.reader) else {
            let part = Part::Range { range: start..end, checksum };
            let key = Some(want(self.part(input, slice, "slices", start..end, part)));
            return Ok(LocalSlice { key, reader: None, files });
        };
        let data = Part::Places(row_groups.data.clone());
        let key = Some(want(self.part(input, slice, "slices", start..end, data)));
        row_groups.footer_file = want(self.footer(input, slice, &row_groups));
        if row_groups.is_in_doubt {
            let places = self.places_in_doubt(input, slice, &row_groups).await?;
            row_groups.is_in_doubt = !places.is_empty();
            if let (Some(first), Some(last)) = (places.first(), places.last()) {
                let (all, data) = (first.start..last.end, Part::Places(places.to_vec()));
                row_groups.types_file = want(self.part(input, slice, "types", all, data));
            }
        }
        let reader = Some(message_pack::encode(&TableReader::Parquet(row_groups)));
        Ok(LocalSlice { key, reader, files })
    }

    /// Finds the data that decides on types in the Parquet file of a slice. An unreadable footer yields no places: the process
    /// refuses it.
    async fn places_in_doubt(
        &self,
        input: u32,
        slice: &SliceRef<'_>,
        row_groups: &RowGroups,
    ) -> Result<Places, LocalizeError> {
        let (name, footer) = self.footer(input, slice, row_groups);
        let of = (name.clone(), slice.checksum);
        if let Some(known) = self.inner.places_in_doubt.get(&of) {
            return Ok(known);
        }
        let path = self.inner.cache.path(&name);
        let pin = self.fetch_all(HashMap::from([(name, footer)])).await?;
        let (place, columns) = (row_groups.footer.clone(), row_groups.columns.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let _pinned = pin;
            read_places(&path, place, columns.as_deref())
        });
        let places = reading.await.expect("reading does not panic").map_err(LocalizeError::Node)?;
        let places = Arc::new(places);
        self.inner.places_in_doubt.put(of, &places);
        Ok(places)
    }

    /// The footer of the Parquet file of a slice, and its name in the cache.
    fn footer<'a>(&self, input: u32, slice: &SliceRef<'a>, row_groups: &RowGroups) -> (String, File<'a>) {
        let place = row_groups.footer.clone();
        let part = Part::Range { range: place.clone(), checksum: slice.checksum };
        self.part(input, slice, "slices", place, part)
    }

    /// A part of the object of a slice, which begins and ends at `place` there, and its name in the cache, among those of
    /// this kind.
    fn part<'a>(
        &self,
        input: u32,
        slice: &SliceRef<'a>,
        kind: &str,
        place: Range<u64>,
        part: Part,
    ) -> (String, File<'a>) {
        let &SliceRef { store, key, origin, version, .. } = slice;
        let mut hasher = DefaultHasher::new();
        (store, key).hash(&mut hasher);
        let (folder, Range { start, end }) = (self.folder_of(input, 0), place);
        let name = format!("{folder}.{kind}/{:016x}-{start}-{end}", hasher.finish());
        // The version of what a copy was made of is none of the copy.
        let of = if matches!(store, StoreRef::Url(_)) { version } else { "" };
        let object = Object { key: key.to_owned(), version: of.to_owned(), part };
        (name, File { store, object, origin: origin.to_owned() })
    }
}

/// Reads the footer that lies at `place` of the file at `path`, for these columns.
fn read_places(
    path: &Path,
    place: Range<u64>,
    columns: Option<&[String]>,
) -> Result<Vec<Range<u64>>, DiskError> {
    let mut bytes = vec![0; (place.end - place.start) as usize];
    let read = fs::File::open(path).and_then(|file| file.read_exact_at(&mut bytes, place.start));
    read.map_err(DiskError::about(path))?;
    let footer = Footer::read(&bytes, place.start, columns);
    Ok(footer.map_or_else(|_| Vec::new(), |footer| footer.types().in_doubt))
}
