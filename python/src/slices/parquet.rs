//! Slices of Parquet files, as `DataFrame`s (spec D2, D5, E4).
//!
//! pyarrow reads the data, as `azureml_user.parallel_run.parquet` tells it. Here is looked at what it reads: the footer is
//! the one that was planned with, by its checksum, and a file of the user is the same before and after. The data of a file
//! of the user is known by its version alone, that of a copy by nothing but the checksums that the file itself may have:
//! the plan has not read it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use prs_common::checksum::crc32c;
use prs_common::file_version::{FileVersion, SeenFile};
use prs_common::mini_batch::SliceRef;
use prs_common::wire::ErrorInfo;
use prs_tabular::parquet::{ColumnValues, RowGroups, TableColumn};
use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::bytes::{damaged, refuse_change};
use super::{Loaded, load_error};
use crate::changes;

/// A footer that was read, for the next slice of its file.
struct KnownFooter {
    origin: String,
    checksum: u32,
    /// As pyarrow has it.
    footer: Py<PyAny>,
    /// What all of the file makes of its columns, a `parquet_types.WholeTypes`.
    types: Py<PyAny>,
}

/// A file that stays open from one slice of it to the next.
struct Held {
    path: String,
    seen: SeenFile,
    /// `parquet.ParquetTable`.
    table: Py<PyAny>,
}

/// Reads row groups for one process.
#[derive(Default)]
pub(crate) struct RowGroupReader {
    footer: Option<KnownFooter>,
    held: Option<Held>,
}

impl RowGroupReader {
    /// The DataFrame of a slice, whose file has paths that start from `scratch`. Exceptions are of what is installed; what is
    /// wrong with the data is the inner error.
    pub(crate) fn load<'py>(
        &mut self,
        py: Python<'py>,
        slice: SliceRef<'_>,
        row_groups: &RowGroups,
        scratch: &Path,
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let path = scratch.join(slice.key);
        let is_copy = slice.key != slice.origin;
        let look = || {
            if is_copy {
                SeenFile::at(&path).map_err(|error| load_error("OSError", slice, &error))
            } else {
                changes::look(&path, slice.origin)
            }
        };
        let before = match look().and_then(|before| unchanged(slice, is_copy, &before).map(|()| before)) {
            Ok(before) => before,
            Err(error) => return Ok(Err(error)),
        };
        let held = self.held.take().filter(|held| held.path == slice.key && held.seen == before);
        let known = match self.known(py, slice, row_groups, (scratch, is_copy))? {
            Ok(known) => known,
            Err(error) => return Ok(Err(error)),
        };
        let frame = read(py, held, &path, known, row_groups);
        let after = if is_copy {
            Ok(())
        } else {
            look().and_then(|after| refuse_change(slice, before.difference(&after, &path)))
        };
        if let Err(error) = after {
            return Ok(Err(error));
        }
        let (table, frame) = match frame {
            Ok(read) => read,
            Err(error)
                if error.is_instance_of::<PyMemoryError>(py) || !error.is_instance_of::<PyException>(py) =>
            {
                return Err(error);
            }
            Err(error) => {
                let reason = error.value(py).to_string();
                return Ok(Err(data_error(slice, row_groups, reason.trim())));
            }
        };
        self.held = Some(Held { path: slice.key.to_owned(), seen: before, table });
        let records = frame.len()? as u64;
        if records != slice.records {
            let reason = format!("{records} rows where the footer of the file has {}", slice.records);
            return Ok(Err(data_error(slice, row_groups, &reason)));
        }
        Ok(Ok(Loaded { frame, records, notices: Vec::new() }))
    }

    /// The footer of the slice's file, as it was planned with. A copy has some of the data of its file.
    fn known(
        &mut self,
        py: Python<'_>,
        slice: SliceRef<'_>,
        row_groups: &RowGroups,
        (scratch, is_copy): (&Path, bool),
    ) -> PyResult<Result<&KnownFooter, ErrorInfo>> {
        let is_of = |known: &KnownFooter| known.checksum == slice.checksum && known.origin == slice.origin;
        if let Some(known) = self.footer.take().filter(is_of) {
            return Ok(Ok(self.footer.insert(known)));
        }
        let file = if row_groups.footer_file.is_empty() { slice.key } else { &row_groups.footer_file };
        let bytes = match py.detach(|| read_footer(slice, row_groups, &scratch.join(file))) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let footer = match module(py)?.call_method1(intern!(py, "read_footer"), (bytes,)) {
            Ok(footer) => footer.unbind(),
            Err(error) => return Ok(Err(data_error(slice, row_groups, error.value(py).to_string().trim()))),
        };
        let whole = match (&*row_groups.types_file, is_copy && !row_groups.is_in_doubt) {
            (_, true) => None,
            ("", false) => Some(scratch.join(slice.key)),
            (of_types, false) => Some(scratch.join(of_types)),
        };
        let types = py.import(intern!(py, "azureml_user.parallel_run.parquet_types"))?;
        let types = types.call_method1(intern!(py, "WholeTypes"), (&footer, whole))?.unbind();
        let (origin, checksum) = (slice.origin.to_owned(), slice.checksum);
        Ok(Ok(self.footer.insert(KnownFooter { origin, checksum, footer, types })))
    }
}

/// The DataFrame of a slice that is a stream of Arrow.
pub(super) fn load_stream<'py>(
    py: Python<'py>,
    slice: SliceRef<'_>,
    bytes: &[u8],
) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
    let frame = module(py)?.call_method1(intern!(py, "of_stream"), (PyBytes::new(py, bytes),));
    let frame = match frame {
        Ok(frame) => frame,
        Err(error)
            if error.is_instance_of::<PyMemoryError>(py) || !error.is_instance_of::<PyException>(py) =>
        {
            return Err(error);
        }
        Err(error) => return Ok(Err(super::data_error(slice, &error.value(py).to_string().trim()))),
    };
    let records = frame.len()? as u64;
    Ok(Ok(Loaded { frame, records, notices: Vec::new() }))
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "azureml_user.parallel_run.parquet"))
}

/// Compares a file of the user with what was planned.
fn unchanged(slice: SliceRef<'_>, is_copy: bool, seen: &SeenFile) -> Result<(), ErrorInfo> {
    if is_copy {
        return Ok(());
    }
    let planned: FileVersion =
        slice.version.parse().map_err(|error| load_error("DescriptorError", slice, &error))?;
    refuse_change(slice, planned.difference(&seen.version))
}

fn read_footer(slice: SliceRef<'_>, row_groups: &RowGroups, path: &Path) -> Result<Vec<u8>, ErrorInfo> {
    let place = &row_groups.footer;
    let read = || {
        let file = File::open(path)?;
        // A descriptor may claim any length.
        let length = place.end.min(file.metadata()?.len()).saturating_sub(place.start);
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, place.start)?;
        io::Result::Ok(bytes)
    };
    let bytes = read().map_err(|error| load_error("OSError", slice, &error))?;
    if crc32c(&bytes) == slice.checksum {
        return Ok(bytes);
    }
    Err(if slice.key == slice.origin {
        changes::changed(
            slice.origin,
            "its footer is another one, though it has the size and the time of change it had",
        )
    } else {
        damaged(slice, place, path)
    })
}

/// The frame, and the table that it is of: that which is open already, or a new one.
fn read<'py>(
    py: Python<'py>,
    held: Option<Held>,
    path: &Path,
    known: &KnownFooter,
    row_groups: &RowGroups,
) -> PyResult<(Py<PyAny>, Bound<'py, PyAny>)> {
    let table = match held {
        Some(held) => held.table.into_bound(py),
        None => module(py)?.call_method1(
            intern!(py, "ParquetTable"),
            (path, &known.footer, row_groups.of_table.is_some(), &known.types),
        )?,
    };
    let RowGroups { groups, rows, columns, of_table, .. } = row_groups;
    let rows = rows.as_ref().map(|rows| (rows.start, rows.end));
    let of_table: Option<Vec<_>> = of_table.as_ref().map(|columns| columns.iter().map(of_log).collect());
    let wanted = (groups.start, groups.end, columns.as_deref(), rows, of_table);
    let frame = table.call_method1(intern!(py, "frame"), wanted)?;
    Ok((table.unbind(), frame))
}

/// A column of a Delta table: name, type, whether its values are in the file, and else the one in the log.
fn of_log(column: &TableColumn) -> (&str, &str, bool, Option<&str>) {
    let TableColumn { name, kind, values } = column;
    match values {
        ColumnValues::OfFile => (name, kind, true, None),
        ColumnValues::OfLog(value) => (name, kind, false, value.as_deref()),
    }
}

fn data_error(slice: SliceRef<'_>, row_groups: &RowGroups, reason: &str) -> ErrorInfo {
    load_error(
        "DataError",
        slice,
        &format_args!("{} (mini-batch of {row_groups})", reason.replace('\n', " ")),
    )
}
