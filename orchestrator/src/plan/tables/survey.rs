//! The columns of a table whose files have different ones (`header: all_files_different_headers`): by their names, in the
//! order in which they first appear.
//!
//! All files are looked at before the first is cut, for the first mini-batch has the columns of the last file too. On this
//! host that is the beginning of each; objects are fetched as for the plan itself, which fetches them once more. A file
//! that cannot be read has no columns: what is wrong with it is told where it is cut. Where the table ends with a `take`,
//! records are counted as the plan counts them, and nothing is listed or read behind the file that has the last one.

use std::path::Path;

use prs_common::dataset::listing::{Listing, ListingOptions};
use prs_common::dataset::mltable::MlTable;
use prs_common::job::{Input, TableFormat, TabularOptions};
use prs_common::layout;
use prs_common::storage::DiskError;
use prs_common::tree;
use prs_tabular::Dialect;
use prs_tabular::parquet::Rows;

use super::delimited;
use super::headers::names_of;
use crate::plan::fetch::{Fetched, Fetcher, WantedPart};
use crate::plan::path_columns::PathName;
use crate::plan::plain_text::{self, Opened, PlainTextError, Reading, Scratch};
use crate::plan::{PlanContext, PlanError, Sink, manifest};

/// Local files that are listed at a time.
const AT_ONCE: usize = 1_024;

/// The names of all columns of the input at this position, of which `rows` are wanted; those found until then where the
/// plan is stopped. The plan cuts slices of about `size` bytes.
pub(super) fn columns(
    input: &Input,
    table: &MlTable,
    (position, size): (u32, u64),
    rows: Rows,
    context: &PlanContext<'_>,
    sink: &mut Sink<'_>,
) -> Result<Vec<String>, PlanError> {
    let options = input.tabular.clone().unwrap_or_default();
    let dialect = Dialect::new(options.delimiter, true).expect("the delimiter was checked");
    let found = Vec::new();
    let mut survey = Survey { input, table, options, position, size, rows, context, dialect, found };
    match manifest(input, context)? {
        None => survey.files(sink)?,
        Some(_) => survey.objects(sink)?,
    }
    Ok(survey.found)
}

struct Survey<'a> {
    input: &'a Input,
    table: &'a MlTable,
    options: TabularOptions,
    position: u32,
    size: u64,
    /// What is wanted of the files that are still to come.
    rows: Rows,
    context: &'a PlanContext<'a>,
    dialect: Dialect,
    found: Vec<String>,
}

impl Survey<'_> {
    /// Whether each file may be the last that is wanted.
    fn ends_early(&self) -> bool {
        self.rows.most != u64::MAX
    }

    fn files(&mut self, sink: &mut Sink<'_>) -> Result<(), PlanError> {
        let failed = |source| PlanError::Listing { input: self.input.name.clone(), source };
        let mut listing = Listing::of_input(self.input, ListingOptions::default()).map_err(failed)?;
        let mut files = Vec::new();
        let mut name = PathName::default();
        loop {
            let failed = |source| PlanError::Listing { input: self.input.name.clone(), source };
            let at_once = if self.ends_early() { 1 } else { AT_ONCE };
            if listing.next_batch(at_once, &mut files).map_err(failed)? == 0 {
                return Ok(());
            }
            for file in files.drain(..) {
                if sink.is_stopped() || self.rows.most == 0 {
                    return Ok(());
                }
                name.of_local(&file.base, &file.relative);
                self.file(&file.path(), &name, sink)?;
            }
        }
    }

    fn objects(&mut self, sink: &mut Sink<'_>) -> Result<(), PlanError> {
        let PlanContext { work, stores, handle, .. } = *self.context;
        let Some(mut manifest) = manifest(self.input, self.context)? else { return Ok(()) };
        let folder = work.join(format!("objects/{}-names", self.position));
        tree::make_folders(&folder)
            .map_err(|source| PlanError::Scratch(DiskError { path: folder.clone(), source }))?;
        let mut ahead = Fetcher::new(stores, handle, &folder);
        let mut listed = Vec::new().into_iter();
        let mut is_over = false;
        let mut name = PathName::default();
        while !sink.is_stopped() && self.rows.most > 0 {
            while ahead.has_room() && !is_over && (!self.ends_early() || ahead.is_empty()) {
                if let Some(file) = listed.next() {
                    let file: crate::inputs::manifest::File = file;
                    let source = manifest.sources()[file.source as usize].clone();
                    ahead.want(source, file, WantedPart::Whole);
                    continue;
                }
                let block = manifest.next_block();
                let failed = |source| PlanError::Manifest { input: self.input.name.clone(), source };
                match block.map_err(failed)? {
                    Some(block) => listed = block.into_iter(),
                    None => is_over = true,
                }
            }
            let Some((source, file, fetched)) = ahead.next() else { break };
            name.of_object(&source, &file);
            match fetched.map_err(|error| PlanError::of_transfer(&self.input.name, error))? {
                Fetched::Own(path) => self.file(&path, &name, sink)?,
                Fetched::Copy(copy, _) => {
                    self.file(&copy, &name, sink)?;
                    let _ = tree::remove_file(copy);
                }
                Fetched::End(..) | Fetched::Unreadable(_) => {}
            }
        }
        drop(ahead);
        let _ = tree::remove_tree(&folder);
        Ok(())
    }

    /// Adds the columns of the file at `path`, which the user knows by this name.
    fn file(&mut self, path: &Path, name: &PathName, sink: &Sink<'_>) -> Result<(), PlanError> {
        if self.input.partition_format.as_ref().is_some_and(|format| name.columns(format).is_err()) {
            return Ok(());
        }
        let scratch = Scratch { work: self.context.work, name: layout::plain_copy(self.position, 0) };
        let reading = Reading { encoding: self.table.encoding, ..Reading::default() };
        let text = match plain_text::open(path, reading, &scratch, sink.stop) {
            Ok(Opened::Text(text)) => text,
            Ok(Opened::Parquet) | Err(PlainTextError::Input(_)) => return Ok(()),
            Err(PlainTextError::Scratch(error)) => return Err(error),
        };
        for name in names_of(&text.path, self.dialect).unwrap_or_default() {
            if !self.found.contains(&name) {
                self.found.push(name);
            }
        }
        let is_table = self.options.format == Some(TableFormat::Delimited)
            && self.options.columns.is_none()
            && !self.options.split_row_groups;
        if self.ends_early() && is_table {
            delimited::count(&self.options, &text, self.size, &mut self.rows);
        }
        if text.path != path {
            let _ = tree::remove_file(&text.path);
        }
        Ok(())
    }
}
