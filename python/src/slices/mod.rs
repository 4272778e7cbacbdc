//! Slices of tables, as `DataFrame`s (spec D2, D5, E4).
//!
//! The bytes are read and parsed without holding the interpreter where that can be; `azureml_user.parallel_run.frames`
//! makes the DataFrame. What is wrong with the data is told with the file as the user named it and the place counted from
//! the start of that file. This file says which reader a slice has; each format has a file of its own.

mod bytes;
mod delimited;
mod json_lines;
mod kept;
mod parquet;
mod table_work;

use std::collections::HashSet;
use std::fmt::Display;
use std::path::PathBuf;

use prs_common::message_pack;
use prs_common::mini_batch::SliceRef;
use prs_common::wire::{ErrorInfo, Stage};
use prs_tabular::TableReader;
use prs_tabular::parquet::RowGroups;
use pyo3::intern;
use pyo3::prelude::*;

use self::bytes::Held;
use self::delimited::Delimited;
use self::json_lines::JsonLines;
use self::parquet::RowGroupReader;
use self::table_work::TableWork;
use crate::path_columns::to_python;

/// Buffers up to this capacity are used again for the next slice.
const KEPT_BUFFER: usize = 64 * 1024 * 1024;

/// The reader last used, decoded; nearly always that of the next slice too.
struct Known {
    encoded: Vec<u8>,
    reader: Reader,
    /// A `column_types.Types`, where the rows are among those of other files.
    types: Option<Py<PyAny>>,
}

/// How the slices of a file are read.
enum Reader {
    Delimited(Delimited),
    JsonLines(JsonLines),
    Parquet(RowGroups),
    Arrow,
}

/// A slice that was read.
pub(crate) struct Loaded<'py> {
    pub(crate) frame: Bound<'py, PyAny>,
    pub(crate) records: u64,
    /// What a person should read once.
    pub(crate) notices: Vec<String>,
}

/// Reads slices for one process.
pub(crate) struct SliceReader {
    /// `frames.Frames`.
    frames: Py<PyAny>,
    known: Option<Known>,
    /// The file last read.
    file: Option<Held>,
    bytes: Vec<u8>,
    row_groups: RowGroupReader,
    /// What relative paths start from.
    scratch: PathBuf,
    /// Files and columns that a person was told about.
    told: HashSet<(String, usize)>,
    /// What is done with slices that were read.
    work: TableWork,
    /// For the step of a shuffle that splits, which gets slices with their frames: the columns that it looks at.
    wanted: Option<Vec<String>>,
}

impl SliceReader {
    pub(crate) fn new(frames: Py<PyAny>, scratch: &str) -> Self {
        let scratch = scratch.into();
        let (row_groups, work) = (RowGroupReader::default(), TableWork::default());
        let (bytes, told) = (Vec::new(), HashSet::new());
        Self { frames, known: None, file: None, bytes, row_groups, scratch, told, work, wanted: None }
    }

    /// The reader of a process; nothing where no input of its job is tabular. `host` is a `process.Host`.
    pub(crate) fn of_host(host: &Bound<'_, PyAny>, scratch: &str) -> PyResult<Option<Self>> {
        let frames = host.getattr("frames")?;
        if frames.is_none() {
            return Ok(None);
        }
        let work = TableWork::new(&host.getattr("tables")?)?;
        let wanted = frames.getattr("wanted")?.extract()?;
        Ok(Some(Self { work, wanted, ..Self::new(frames.unbind(), scratch) }))
    }

    /// Tells whether the slice last read was of Parquet: the plan has no checksum of its data.
    pub(crate) fn reads_parquet(&self) -> bool {
        self.known.as_ref().is_some_and(|known| matches!(known.reader, Reader::Parquet(_)))
    }

    /// The DataFrame of a slice, with the columns from the path of its file behind those of the data. Exceptions are of
    /// pandas; what is wrong with the data is the inner error.
    pub(crate) fn load<'py>(
        &mut self,
        py: Python<'py>,
        slice: SliceRef<'_>,
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        self.load_some(py, slice, None)
    }

    /// The same; of delimited text, which has many, of these columns alone.
    fn load_some<'py>(
        &mut self,
        py: Python<'py>,
        slice: SliceRef<'_>,
        columns: Option<&[String]>,
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let loaded = self.load_data(py, slice, columns)?;
        let (Ok(Loaded { frame, .. }), Some(columns)) = (&loaded, to_python(py, slice.columns)?) else {
            return Ok(loaded);
        };
        for (name, value) in columns {
            let is_new =
                self.frames.bind(py).call_method1(intern!(py, "append_column"), (frame, &name, value))?;
            if !is_new.is_truthy()? {
                let reason = format!(
                    "the data has a column {name:?}, and partition_format has the field {{{name}}}: give the field \
                     another name"
                );
                return Ok(Err(load_error("DataError", slice, &reason)));
            }
        }
        Ok(loaded)
    }

    /// The DataFrame that `run()` gets of `slices` of the input at this position, one behind the other, each with what its MLTable has
    /// done with it. One that cannot be read fails them all.
    pub(crate) fn load_all<'py>(
        &mut self,
        py: Python<'py>,
        input: u32,
        slices: &[SliceRef<'_>],
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let (mut parts, mut records, mut notices) = (Vec::with_capacity(slices.len()), 0, Vec::new());
        for slice in slices {
            let done = match self.load_one(py, input, *slice)? {
                Ok(loaded) => self.work.done(py, input, *slice, loaded)?,
                Err(error) => Err(error),
            };
            let loaded = match done {
                Ok(loaded) => loaded,
                Err(error) => return Ok(Err(error)),
            };
            records += loaded.records;
            notices.extend(loaded.notices);
            // A filter may leave no row of a file; the types of its columns then mean nothing.
            if loaded.records > 0 || (records == 0 && parts.is_empty()) {
                parts.push((loaded.records, loaded.frame));
            }
        }
        if records > 0 {
            parts.retain(|(records, _)| *records > 0);
        }
        let mut frames: Vec<_> = parts.into_iter().map(|(_, frame)| frame).collect();
        let frame = match frames.len() {
            1 => frames.remove(0),
            _ => self.frames.bind(py).call_method1(intern!(py, "concatenated"), (frames,))?,
        };
        Ok(Ok(Loaded { frame, records, notices }))
    }

    /// The DataFrame of a slice of the input at this position; for the step that splits, which finds the slice beside it, of the
    /// columns that are looked at.
    fn load_one<'py>(
        &mut self,
        py: Python<'py>,
        input: u32,
        slice: SliceRef<'_>,
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let Some(wanted) = self.wanted.clone() else { return self.load(py, slice) };
        let columns = (!self.work.is_there(input)).then_some(&*wanted);
        let loaded = match self.load_some(py, slice, columns)? {
            Ok(loaded) => loaded,
            Err(error) => return Ok(Err(error)),
        };
        let kept = kept::keep_slice(self.frames.bind(py), &loaded.frame, slice, &self.bytes)?;
        Ok(kept.map(|()| loaded))
    }

    /// The DataFrame of a slice as the data has it.
    fn load_data<'py>(
        &mut self,
        py: Python<'py>,
        slice: SliceRef<'_>,
        columns: Option<&[String]>,
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let frames = self.frames.bind(py);
        let known = match self.known.take().filter(|known| known.encoded == slice.reader) {
            Some(known) => known,
            None => match learn(frames, slice.reader)? {
                Ok(known) => known,
                Err(error) => return Ok(Err(error)),
            },
        };
        let known = self.known.insert(known);
        if let Reader::Parquet(row_groups) = &known.reader {
            return self.row_groups.load(py, slice, row_groups, &self.scratch);
        }
        let (file, bytes, scratch) = (&mut self.file, &mut self.bytes, &self.scratch);
        let loaded = match py.detach(|| bytes::read(file, scratch, slice, bytes)) {
            Err(error) => Ok(Err(error)),
            Ok(()) => match &known.reader {
                Reader::Delimited(table) => {
                    let keys = self.wanted.as_deref().unwrap_or_default();
                    table.load(frames, slice, (bytes, columns, keys), &mut self.told)
                }
                Reader::JsonLines(lines) => lines.load(frames, slice, bytes),
                Reader::Arrow => parquet::load_stream(py, slice, bytes),
                Reader::Parquet(_) => unreachable!("pyarrow reads it by itself"),
            },
        };
        if self.bytes.capacity() > KEPT_BUFFER && self.wanted.is_none() {
            self.bytes = Vec::new();
        }
        let Some(types) = known.types.as_ref().map(|types| types.bind(py).clone()) else { return loaded };
        let loaded = match loaded? {
            Ok(loaded) => loaded,
            Err(error) => return Ok(Err(error)),
        };
        let frame = types.call_method1(intern!(py, "given_to"), (loaded.frame,))?;
        Ok(Ok(Loaded { frame, ..loaded }))
    }
}

fn learn(frames: &Bound<'_, PyAny>, encoded: &[u8]) -> PyResult<Result<Known, ErrorInfo>> {
    let refused = |error: &dyn Display| {
        ErrorInfo::new(Stage::Load, "DescriptorError", format!("the reader of the mini-batch: {error}"))
    };
    let (described, types) = match message_pack::decode(encoded) {
        Ok(TableReader::Among(described, types)) => {
            let types = frames.call_method1(intern!(frames.py(), "types_of_files"), (types.0,))?;
            (*described, Some(types.unbind()))
        }
        Ok(described) => (described, None),
        Err(error) => return Ok(Err(refused(&error))),
    };
    let reader = match described {
        TableReader::Delimited(dialect, schema) => {
            Reader::Delimited(Delimited::new(frames, dialect, schema, None)?)
        }
        TableReader::DelimitedOf(dialect, schema, all) => {
            Reader::Delimited(Delimited::new(frames, dialect, schema, Some(all))?)
        }
        TableReader::JsonLines(schema) => Reader::JsonLines(JsonLines::new(frames, schema, false)?),
        TableReader::ValidJsonLines(schema) => Reader::JsonLines(JsonLines::new(frames, schema, true)?),
        TableReader::Parquet(row_groups) => Reader::Parquet(row_groups),
        TableReader::Arrow => Reader::Arrow,
        TableReader::Among(..) => return Ok(Err(refused(&"it is among others twice"))),
    };
    Ok(Ok(Known { encoded: encoded.to_owned(), reader, types }))
}

fn load_error(category: &str, slice: SliceRef<'_>, reason: &dyn Display) -> ErrorInfo {
    ErrorInfo::new(Stage::Load, category, format!("{}: {reason}", slice.origin))
}

pub(crate) fn data_error(slice: SliceRef<'_>, reason: &dyn Display) -> ErrorInfo {
    let SliceRef { start, end, .. } = slice;
    load_error("DataError", slice, &format_args!("{reason} (mini-batch of bytes {start}-{end})"))
}
