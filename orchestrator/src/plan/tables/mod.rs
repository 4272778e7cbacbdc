//! Mini-batches of a tabular dataset (spec D2): slices of a file at record boundaries, of about the wanted size, never
//! across files; with `partition_keys` (D3), all files with the same values.
//!
//! This file brings the files of an input, one after the other, to where they can be read at any offset; the other files
//! of the folder, one a format, cut them.

mod delimited;
mod headers;
mod json_lines;
mod parquet;
mod survey;
mod taker;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use prs_common::dataset::listing::{Entry, Listing, ListingOptions};
use prs_common::dataset::mltable::{DeltaColumn, Header};
use prs_common::file_content::FileState;
use prs_common::job::{Input, InputSource, TableFormat, TabularOptions};
use prs_common::layout;
use prs_common::mini_batch::{PathColumn, SliceRef, StoreRef};
use prs_common::storage::DiskError;
use prs_common::tree;
use prs_tabular::Slice;
use prs_tabular::parquet::{ColumnValues, Rows, TableColumn};

use self::headers::Headers;
pub(super) use self::parquet::FileEnd;
use self::taker::Taker;
use super::counted::Counted;
use super::fetch::{Fetched, Fetcher, NO_OBJECT, WantedPart};
use super::partitions::{self, Keys, LocalFile};
use super::path_columns::{self, PathName};
use super::plain_text::{self, Opened, PlainText, PlainTextError, Reading, Scratch};
use super::{PlanContext, PlanError, Sink, plain_copy};
use crate::inputs::delta::VACUUMED;
use crate::inputs::manifest::{File, ManifestReader, ObjectReader, Source};

/// Why a file is not read that the settings of Parquet files were given for.
const NO_PARQUET: &str = "columns and split_row_groups are for Parquet files, and this is none: remove them, or make it \
                          an input of its own";

/// How the slices of an input are made.
struct Planner<'a, 'b> {
    input: &'a Input,
    keys: Keys<'a>,
    options: TabularOptions,
    /// Where an MLTable says which records are names.
    headers: Option<Headers>,
    /// What is wanted of the files that are still to come.
    rows: Rows,
    position: u32,
    size: u64,
    context: &'a PlanContext<'a>,
    taker: Taker<'a, 'b>,
}

/// Files that are only noted, at a time.
const SUMMED_AT_ONCE: usize = 1_024;

/// Bytes of a slice that is a whole file.
const WHOLE: u64 = i64::MAX as u64;

/// Plans one input with about `size` bytes a mini-batch; of a table that counts rows behind a filter, those slices alone that
/// have wanted ones. A file that cannot be split becomes one mini-batch
/// that fails with the reason (D5); the others are not touched by it.
pub(super) fn plan(
    manifest: Option<ManifestReader<ObjectReader>>,
    keys: Keys<'_>,
    (position, size): (u32, u64),
    context: &PlanContext<'_>,
    counted: Option<Counted<'_>>,
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let input = keys.input;
    let options = input.tabular.clone().unwrap_or_default();
    let rows = input.mltable.as_ref().map_or(Rows::ALL, |table| Rows {
        skip: table.window.skip,
        most: table.window.take.unwrap_or(u64::MAX),
    });
    if rows.most == 0 {
        return Ok(());
    }
    let has_keys = !keys.names.is_empty();
    let size = if has_keys { WHOLE } else { size };
    let headers = match input.mltable.as_deref() {
        Some(table) if table.header == Header::AllFilesDifferentHeaders => {
            // Keys bring the files into another order.
            let surveyed = if has_keys { Rows::ALL } else { rows };
            let all = survey::columns(input, table, (position, size), surveyed, context, sink)?;
            Some(Headers::new(table, all))
        }
        table => table.map(|table| Headers::new(table, Vec::new())),
    };
    let taker = Taker::new(sink, position, counted);
    let mut planner = Planner { input, keys, options, headers, rows, position, size, context, taker };
    match manifest {
        None if has_keys => planner.files_in_groups()?,
        None => planner.files()?,
        Some(manifest) => planner.objects(manifest)?,
    }
    planner.taker.finish()
}

impl Planner<'_, '_> {
    /// The files of the listing.
    fn files(&mut self) -> Result<(), PlanError> {
        let failed = |source| PlanError::Listing { input: self.input.name.clone(), source };
        // Of files that are not read, the sum of the listing has the versions that the listing finds.
        let ends_early = self.rows.most != u64::MAX || self.taker.counts();
        let options = ListingOptions { versions: ends_early };
        let mut listing = Listing::of_input(self.input, options).map_err(failed)?;
        let mut number = 0;
        let mut files = Vec::new();
        let mut path_name = PathName::default();
        loop {
            let failed = |source| PlanError::Listing { input: self.input.name.clone(), source };
            let visited = listing.next_batch(self.ahead(), &mut files).map_err(failed)?;
            for file in files.drain(..) {
                path_name.of_local(&file.base, &file.relative);
                self.listed(&file, &path_name, number)?;
                number += 1;
                if self.is_over() {
                    self.sum_up_rest(&mut listing);
                    return Ok(());
                }
            }
            if visited == 0 {
                self.taker.sink.left_out.extend(&listing.left_out());
                return Ok(());
            }
        }
    }

    /// Notes the files that are not read, for nothing more is wanted: a later job compares the sum of all names and
    /// versions with that of its own listing, and does not know where this one ended. Nobody waits for it.
    fn sum_up_rest(&mut self, listing: &mut Listing) {
        let sink = &mut *self.taker.sink;
        if sink.is_stopped() {
            return;
        }
        sink.flush();
        while !sink.is_stopped() {
            match listing.visit(SUMMED_AT_ONCE, |entry| sink.listed.push_entry(&entry)) {
                Ok(0) => return,
                Ok(_) => {}
                // No reason to fail: nothing of it is wanted. No other job is given the output of this one.
                Err(_) => return sink.listed.push("", None, PathBuf::new),
            }
        }
    }

    /// The files of the listing, in groups of the same keys.
    fn files_in_groups(&mut self) -> Result<(), PlanError> {
        let grouped = partitions::group_listing(self.keys, self.position, self.context, self.taker.sink)?;
        let Some((bases, mut files)) = grouped else { return Ok(()) };
        let mut path_name = PathName::default();
        let mut number = 0;
        while let Some((group, record)) = files.next().map_err(PlanError::Scratch)? {
            let LocalFile { base, relative, .. } = partitions::decoded(record)?;
            let base = bases.get(base as usize).cloned().unwrap_or_default();
            let file = Entry { base, relative: relative.to_owned(), state: None };
            path_name.of_local(&file.base, &file.relative);
            self.taker.begin(group, self.keys.of(&path_name));
            self.listed(&file, &path_name, number)?;
            number += 1;
            if self.taker.is_stopped() {
                return Ok(());
            }
        }
        self.taker.end();
        Ok(())
    }

    /// A file of the listing, which has this name.
    fn listed(&mut self, file: &Entry, name: &PathName, number: u64) -> Result<(), PlanError> {
        let path = file.path();
        let above = path.as_os_str().len() - file.relative.len();
        let at = if file.base.is_empty() { 0 } else { above };
        match self.columns(&path.to_string_lossy(), name) {
            Some(of_path) => self.file(&path, at, &Columns { of_path, of_table: None }, number),
            None => Ok(()),
        }
    }

    /// Whether nothing more is wanted.
    fn is_over(&mut self) -> bool {
        self.rows.most == 0 || self.taker.is_stopped()
    }

    /// Files that are listed at a time; one where all that is wanted may be in it.
    fn ahead(&self) -> usize {
        if self.rows.most == u64::MAX { 256 } else { 1 }
    }

    /// Notes a local file as it was when it was looked at. Where keys put files together, their listing has noted it; what is
    /// in a manifest is known by that.
    fn note_listed(&mut self, name: &str, path: &Path, version: Option<&str>) {
        if self.keys.names.is_empty() && matches!(self.input.source, InputSource::Paths(_)) {
            let state = FileState::at(path).ok();
            let state =
                state.filter(|state| Some(state.seen.version) == version.and_then(|one| one.parse().ok()));
            self.taker.sink.listed.push(name, state, || path.to_owned());
        }
    }

    /// The columns from the path of a file, encoded; nothing where it has none, and its mini-batch fails.
    fn columns(&mut self, origin: &str, name: &PathName) -> Option<Vec<u8>> {
        let Some(format) = &self.input.partition_format else { return Some(Vec::new()) };
        match name.columns(format) {
            Ok(columns) => Some(PathColumn::encode(&columns)),
            Err(mismatch) => {
                self.unreadable(origin, 0, &path_columns::reason(&mismatch));
                None
            }
        }
    }

    /// The columns of the Delta table that the input is, as `file` has them; nothing where it is none.
    fn columns_of_table(&self, file: &File) -> Option<Vec<TableColumn>> {
        let table = self.input.mltable.as_ref()?.delta.as_ref()?;
        let mut of_log = file.partition.iter();
        let column = |column: &DeltaColumn| TableColumn {
            name: column.name.clone(),
            kind: column.kind.clone(),
            values: if column.is_partition {
                ColumnValues::OfLog(of_log.next().cloned().flatten())
            } else {
                ColumnValues::OfFile
            },
        };
        Some(table.columns.iter().map(column).collect())
    }

    /// A local file, whose name below the dataset begins at byte `name_at` of its path.
    fn file(&mut self, path: &Path, name_at: usize, columns: &Columns, number: u64) -> Result<(), PlanError> {
        let origin = path.to_string_lossy();
        let name = Name { origin: &origin, at: name_at as u32, columns };
        let below = origin.get(name_at..).unwrap_or(&origin);
        let is_parquet = self.options.format_of(&origin) == TableFormat::Parquet;
        let opened = if is_parquet { Some(Opened::Parquet) } else { self.open(path, &origin, number)? };
        let text = match opened {
            Some(Opened::Text(text)) => text,
            Some(Opened::Parquet) => {
                match parquet::read_end(path) {
                    Ok((end, version)) => {
                        self.note_listed(below, path, Some(&version));
                        let home = Home { store: StoreRef::Local, key: &origin, version: &version };
                        self.row_groups(name, &end, home);
                    }
                    Err(error) => {
                        self.note_listed(below, path, None);
                        self.unreadable(&origin, 0, &error.to_string());
                    }
                }
                return Ok(());
            }
            None => {
                self.note_listed(below, path, None);
                return Ok(());
            }
        };
        self.note_listed(below, path, Some(&*text.version));
        self.taker.sink.note_content(self.position, path);
        let version = text.version.clone();
        if self.context.is_shared && text.path != path {
            // A file of the user may change from one plan to the next.
            let key = format!("{}-{version}", layout::plain_copy(self.position, number));
            return self.copy(name, text, &key, &version);
        }
        let path = text.name.to_string_lossy().into_owned();
        self.text(name, text, Home { store: StoreRef::Local, key: &path, version: &version });
        Ok(())
    }

    /// A plain copy that was made here and goes to the job's storage: nodes read slices of it by range.
    fn copy(&mut self, name: Name<'_>, text: PlainText, key: &str, version: &str) -> Result<(), PlanError> {
        if self.taker.is_stopped() {
            return Ok(());
        }
        let PlanContext { stores, handle, .. } = self.context;
        let stored = handle.block_on(plain_copy::store(&**stores.job(), key, &text.path));
        stored.map_err(|error| PlanError::of_transfer(&self.input.name, error))?;
        let plain = text.path.clone();
        self.text(name, text, Home { store: StoreRef::Job, key, version });
        let _ = tree::remove_file(plain);
        Ok(())
    }

    /// The files of the manifest.
    fn objects(&mut self, mut manifest: ManifestReader<ObjectReader>) -> Result<(), PlanError> {
        let PlanContext { work, stores, handle, .. } = *self.context;
        let name = &self.input.name;
        let folder = work.join(format!("objects/{}", self.position));
        tree::make_folders(&folder)
            .map_err(|source| PlanError::Scratch(DiskError { path: folder.clone(), source }))?;
        let mut grouped = None;
        if !self.keys.names.is_empty() {
            let sink = &mut *self.taker.sink;
            grouped =
                partitions::group_manifest(&mut manifest, self.keys, self.position, self.context, sink)?;
            if grouped.is_none() {
                return Ok(());
            }
        }
        let mut ahead = Fetcher::new(stores, handle, &folder);
        // The groups of the files on their way.
        let mut groups = VecDeque::new();
        let mut listed = Vec::new().into_iter();
        let mut listing_is_over = false;
        let mut number = 0;
        loop {
            while ahead.has_room() && !listing_is_over && (self.rows.most == u64::MAX || ahead.is_empty()) {
                if let Some(file) = listed.next() {
                    let file: File = file;
                    let source = manifest.sources()[file.source as usize].clone();
                    let part = match self.options.format_of(&file.relative) {
                        TableFormat::Parquet => WantedPart::End,
                        TableFormat::Delimited | TableFormat::JsonLines => WantedPart::Whole,
                    };
                    ahead.want(source, file, part);
                    continue;
                }
                if let Some(grouped) = &mut grouped {
                    match grouped.next().map_err(PlanError::Scratch)? {
                        Some((group, record)) => {
                            groups.push_back(group);
                            listed = vec![partitions::decoded(record)?].into_iter();
                        }
                        None => listing_is_over = true,
                    }
                    continue;
                }
                let block = manifest.next_block();
                match block.map_err(|source| PlanError::Manifest { input: name.clone(), source })? {
                    Some(block) => listed = block.into_iter(),
                    None => listing_is_over = true,
                }
            }
            let Some((source, file, fetched)) = ahead.next() else { break };
            let fetched = fetched.map_err(|error| PlanError::of_transfer(name, error))?;
            if let Some(group) = groups.pop_front() {
                let mut path_name = PathName::default();
                path_name.of_object(&source, &file);
                self.taker.begin(group, self.keys.of(&path_name));
            }
            self.object(&source, &file, fetched, number)?;
            number += 1;
            if self.is_over() {
                break;
            }
        }
        self.taker.end();
        drop(ahead);
        let _ = tree::remove_tree(&folder);
        Ok(())
    }

    /// An object that was fetched.
    fn object(
        &mut self,
        source: &Source,
        file: &File,
        fetched: Fetched,
        number: u64,
    ) -> Result<(), PlanError> {
        let origin = format!("{}{}", source.origin, file.relative);
        let name_at = if source.mixes { 0 } else { source.origin.len() };
        let mut path_name = PathName::default();
        path_name.of_object(source, file);
        let Some(of_path) = self.columns(&origin, &path_name) else {
            if let Fetched::Copy(copy, _) = fetched {
                let _ = tree::remove_file(copy);
            }
            return Ok(());
        };
        let columns = Columns { of_path, of_table: self.columns_of_table(file) };
        let name = Name { origin: &origin, at: name_at as u32, columns: &columns };
        let described = source.describe(file.source);
        let rest = if file.key.is_empty() { &file.relative } else { &file.key };
        let key = format!("{}{rest}", source.prefix);
        let (copy, version) = match fetched {
            Fetched::Own(path) => return self.file(&path, name_at, &columns, number),
            Fetched::Unreadable(reason) => {
                let reason = if reason == NO_OBJECT && columns.of_table.is_some() {
                    format!("{reason}{VACUUMED}")
                } else {
                    reason
                };
                self.unreadable(&origin, 0, &reason);
                return Ok(());
            }
            Fetched::End(end, version) => {
                self.row_groups(name, &end, Home { store: described.store, key: &key, version: &version });
                return Ok(());
            }
            Fetched::Copy(copy, version) => (copy, version),
        };
        let home = Home { store: described.store, key: &key, version: &version };
        match self.open(&copy, &origin, number)? {
            Some(Opened::Text(text)) if text.path == copy => self.text(name, text, home),
            Some(Opened::Text(text)) => {
                self.copy(name, text, &layout::plain_copy(self.position, number), &version)?;
            }
            Some(Opened::Parquet) => match parquet::read_end(&copy) {
                Ok((end, _)) => self.row_groups(name, &end, home),
                Err(error) => self.unreadable(&origin, 0, &error.to_string()),
            },
            None => {}
        }
        let _ = tree::remove_file(copy);
        Ok(())
    }

    /// The plain text of `path`; a file that cannot be read becomes a mini-batch that fails.
    fn open(&mut self, path: &Path, origin: &str, number: u64) -> Result<Option<Opened>, PlanError> {
        let scratch = Scratch { work: self.context.work, name: layout::plain_copy(self.position, number) };
        let table = self.input.mltable.as_ref();
        let drops_invalid = table.is_some_and(|table| table.drops_invalid);
        let reading = Reading {
            encoding: table.map_or(self.options.encoding, |table| table.encoding),
            compression: self.options.compression,
            takes_array: self.options.format_of(origin) == TableFormat::JsonLines && !drops_invalid,
            finds_parquet: self.options.format.is_none(),
        };
        match plain_text::open(path, reading, &scratch, self.taker.sink.stop) {
            Ok(opened) => Ok(Some(opened)),
            Err(PlainTextError::Input(error)) => {
                self.unreadable(origin, 0, &error.to_string());
                Ok(None)
            }
            Err(PlainTextError::Scratch(error)) => Err(error),
        }
    }

    fn unreadable(&mut self, origin: &str, offset: u64, reason: &str) {
        if let Some(headers) = &mut self.headers {
            headers.unreadable(origin);
        }
        // The taker remembers that it was stopped.
        let _ = self.taker.unreadable(origin, offset, reason);
    }

    /// The slices of a Parquet file with this end, which nodes find at its home.
    fn row_groups(&mut self, name: Name<'_>, end: &FileEnd, home: Home<'_>) {
        let rows = &mut self.rows;
        let next_record = rows.skip;
        let mut slices = Slices { taker: &mut self.taker, name, home, rows, planned_to: 0, next_record };
        if let Err((offset, reason)) = parquet::plan(&self.options, end, self.size, &mut slices) {
            self.unreadable(name.origin, offset, &reason);
        }
    }

    /// The slices of one file, which nodes find at its home.
    fn text(&mut self, name: Name<'_>, text: PlainText, home: Home<'_>) {
        if self.options.columns.is_some() || self.options.split_row_groups {
            return self.unreadable(name.origin, 0, NO_PARQUET);
        }
        let format = self.options.format_of(name.origin);
        let size = self.size;
        let table = self.input.mltable.as_deref();
        let rows = &mut self.rows;
        let next_record = rows.skip;
        let mut slices = Slices { taker: &mut self.taker, name, home, rows, planned_to: 0, next_record };
        let planned = match format {
            TableFormat::Delimited => {
                let named = table.zip(self.headers.as_mut());
                delimited::plan(&self.options, named, &text, size, &mut slices)
            }
            TableFormat::JsonLines => json_lines::plan(&self.options, table, &text, size, &mut slices),
            TableFormat::Parquet => unreachable!("Parquet is no text"),
        };
        let planned_to = slices.planned_to;
        if self.is_over() {
            return;
        }
        match (planned, text.broken) {
            (Ok(()), None) => {}
            (Ok(()), Some((offset, reason))) => self.unreadable(name.origin, offset, &reason),
            // No slice has what follows. Where the text is broken, that is why: an open quote may take all of the rest.
            (Err(reason), broken) => {
                let reason = broken.map_or(reason, |(_, broken)| broken);
                self.unreadable(name.origin, planned_to, &reason);
            }
        }
    }
}

/// A file as the user named it.
#[derive(Clone, Copy)]
struct Name<'a> {
    origin: &'a str,
    /// Where its name below the dataset begins, bytes.
    at: u32,
    columns: &'a Columns,
}

/// What columns a file has beside those in it.
struct Columns {
    /// Those from its path, encoded.
    of_path: Vec<u8>,
    /// All columns of the Delta table that it is a file of.
    of_table: Option<Vec<TableColumn>>,
}

/// Where nodes find the plain text of a file: see [`SliceRef`].
#[derive(Clone, Copy)]
struct Home<'a> {
    store: StoreRef<'a>,
    key: &'a str,
    version: &'a str,
}

/// Takes the slices of one file, in their order. What comes back says whether the plan wants more.
struct Slices<'a, 'b, 'c> {
    taker: &'a mut Taker<'b, 'c>,
    name: Name<'a>,
    home: Home<'a>,
    /// What is wanted of the file, and those behind it.
    rows: &'a mut Rows,
    /// How much of the file has been handed over, bytes.
    planned_to: u64,
    /// The number of the next record in the file. Where records are left out, all of them are before the first that is
    /// taken.
    next_record: u64,
}

impl Slices<'_, '_, '_> {
    /// A slice, and how it is read: an encoded `TableReader`.
    fn push(&mut self, reader: &[u8], slice: Slice) -> ControlFlow<()> {
        let Name { origin, at: name_at, columns } = self.name;
        let Home { store, key, version } = self.home;
        let Slice { start, end, records, checksum } = slice;
        self.planned_to = end;
        let first_record = self.next_record;
        self.next_record += records;
        self.taker.slice(&SliceRef {
            store,
            key,
            origin,
            name_at,
            version,
            start,
            end,
            records,
            checksum,
            reader,
            columns: &columns.of_path,
            first_record,
            taken: None,
        })
    }

    /// The same where the slice was cut without a look at how many records are wanted at most; counts them.
    fn push_counted(&mut self, reader: &[u8], slice: Slice) -> ControlFlow<()> {
        self.rows.most = self.rows.most.saturating_sub(slice.records);
        let pushed = self.push(reader, slice);
        if self.rows.most == 0 { ControlFlow::Break(()) } else { pushed }
    }

    /// A part of the file from `offset` on that cannot be read; more slices may follow.
    fn unreadable(&mut self, offset: u64, reason: &str) -> ControlFlow<()> {
        self.taker.unreadable(self.name.origin, offset, reason)
    }
}
