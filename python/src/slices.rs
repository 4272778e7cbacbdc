//! Slices of delimited text, as `DataFrame`s (spec D2, D5, E4).
//!
//! The bytes are read and parsed without holding the interpreter; `azureml_user.parallel_run.frames` makes the
//! DataFrame of the columns, with the types `pandas.read_csv` would give. What is wrong with the data is told
//! with the file as the user named it and the place counted from the start of that file.
//!
//! A slice is what was planned or nothing: its bytes have a checksum, and a file of the user is looked at before and
//! after they are read.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use prs_common::checksum::crc32c;
use prs_common::file_version::{FileVersion, SeenFile};
use prs_common::message_pack;
use prs_common::mini_batch::SliceRef;
use prs_common::wire::{ErrorInfo, Stage};
use prs_tabular::{Batch, Dialect, Malformed, Names, ReadError, Schema};
use pyo3::intern;
use pyo3::prelude::*;

use crate::arrow::ArrowColumns;
use crate::changes;

/// Buffers up to this capacity are used again for the next slice.
const KEPT_BUFFER: usize = 64 * 1024 * 1024;

/// The dialect and schema last used, decoded; nearly always those of the next slice too.
struct Known {
    encoded: Vec<u8>,
    dialect: Dialect,
    schema: Schema,
    /// The columns' names, as a pandas Index.
    index: Py<PyAny>,
}

/// A file that stays open from one slice of it to the next.
struct Held {
    path: String,
    file: File,
    seen: SeenFile,
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
    /// What relative paths start from.
    scratch: PathBuf,
    /// Files and columns that a person was told about.
    told: HashSet<(String, usize)>,
}

impl SliceReader {
    pub(crate) fn new(frames: Py<PyAny>, scratch: &str) -> Self {
        let scratch = scratch.into();
        Self { frames, known: None, file: None, bytes: Vec::new(), scratch, told: HashSet::new() }
    }

    /// The DataFrame of a slice. Exceptions are of pandas; what is wrong with the data is the inner error.
    pub(crate) fn load<'py>(
        &mut self,
        py: Python<'py>,
        slice: SliceRef<'_>,
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let known = match self.known.take().filter(|known| known.encoded == slice.schema) {
            Some(known) => known,
            None => match self.learn(py, slice.schema)? {
                Ok(known) => known,
                Err(error) => return Ok(Err(error)),
            },
        };
        let known = self.known.insert(known);
        let (file, bytes, scratch) = (&mut self.file, &mut self.bytes, &self.scratch);
        let batch = py.detach(|| {
            read_bytes(file, scratch, slice, bytes)?;
            prs_tabular::read(bytes, &known.dialect, &known.schema)
                .map_err(|error| data_error(slice, &absolute(error, slice.start)))
        });
        if self.bytes.capacity() > KEPT_BUFFER {
            self.bytes = Vec::new();
        }
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return Ok(Err(error)),
        };
        let notices = widened(&mut self.told, &known.schema, slice, &batch);
        let records = batch.records;
        let columns = ArrowColumns::new(batch.columns, records)
            .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
        let frame = self.frames.bind(py).call_method1(intern!(py, "frame"), (columns, &known.index))?;
        Ok(Ok(Loaded { frame, records: records as u64, notices }))
    }

    fn learn(&self, py: Python<'_>, encoded: &[u8]) -> PyResult<Result<Known, ErrorInfo>> {
        let (dialect, schema): (Dialect, Schema) = match message_pack::decode(encoded) {
            Ok(pair) => pair,
            Err(error) => {
                let message = format!("the schema of the mini-batch: {error}");
                return Ok(Err(ErrorInfo::new(Stage::Load, "DescriptorError", message)));
            }
        };
        let frames = self.frames.bind(py);
        let index = match &schema.names {
            Names::Header(names) => frames.call_method1(intern!(py, "index_of_names"), (names,))?,
            Names::Positions(count) => frames.call_method1(intern!(py, "index_of_positions"), (*count,))?,
        };
        Ok(Ok(Known { encoded: encoded.to_owned(), dialect, schema, index: index.unbind() }))
    }
}

/// Reads exactly the bytes of the slice, as they were planned.
fn read_bytes(
    held: &mut Option<Held>,
    scratch: &Path,
    slice: SliceRef<'_>,
    bytes: &mut Vec<u8>,
) -> Result<(), ErrorInfo> {
    let path = scratch.join(slice.key);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(slice, &path),
        io::ErrorKind::NotFound => load_error("FileNotFoundError", slice, &error),
        _ => load_error("OSError", slice, &error),
    };
    let is_copy = slice.key != slice.origin;
    let look = || {
        if is_copy { SeenFile::at(&path).map_err(failed) } else { changes::look(&path, slice.origin) }
    };
    let before = look()?;
    if !is_copy {
        let planned: FileVersion =
            slice.version.parse().map_err(|error| load_error("DescriptorError", slice, &error))?;
        refuse_change(slice, planned.difference(&before.version))?;
    }
    let kept = held.take().filter(|held| held.path == slice.key && held.seen.is_same_file(&before));
    let Held { file, seen, .. } = held.insert(if let Some(kept) = kept {
        Held { seen: before, ..kept }
    } else {
        let file = File::open(&path).map_err(failed)?;
        let seen = SeenFile::of(&file.metadata().map_err(failed)?);
        Held { path: slice.key.to_owned(), file, seen }
    });
    if seen.version.size < slice.end && is_copy {
        return Err(damaged(slice, &path));
    }
    let length = slice.end.min(seen.version.size).saturating_sub(slice.start);
    let length = usize::try_from(length).map_err(|error| load_error("DescriptorError", slice, &error))?;
    bytes.clear();
    bytes.resize(length, 0);
    let read = file.read_exact_at(bytes, slice.start);
    if !is_copy {
        let after = SeenFile::of(&file.metadata().map_err(failed)?);
        refuse_change(slice, before.difference(seen, &path))?;
        refuse_change(slice, before.difference(&after, &path))?;
        refuse_change(slice, before.difference(&look()?, &path))?;
    }
    read.map_err(failed)?;
    if crc32c(bytes) == slice.checksum {
        return Ok(());
    }
    Err(if is_copy { damaged(slice, &path) } else { changes::changed(slice.origin, &other_bytes(slice)) })
}

fn refuse_change(slice: SliceRef<'_>, what: Option<String>) -> Result<(), ErrorInfo> {
    what.map_or(Ok(()), |what| Err(changes::changed(slice.origin, &what)))
}

fn other_bytes(slice: SliceRef<'_>) -> String {
    let SliceRef { start, end, .. } = slice;
    format!("its bytes {start}-{end} are other ones, though it has the size and the time of change it had")
}

/// What to say of a copy that prs made and that does not hold what it was made of.
fn damaged(slice: SliceRef<'_>, copy: &Path) -> ErrorInfo {
    let SliceRef { start, end, .. } = slice;
    let what = format!(
        "its copy {} is damaged: bytes {start}-{end} are not those that were planned; look at the disk and the memory \
         of this host, and resume the job, which makes a new copy",
        copy.display()
    );
    load_error("DamagedCopy", slice, &what)
}

fn load_error(category: &str, slice: SliceRef<'_>, reason: &dyn Display) -> ErrorInfo {
    ErrorInfo::new(Stage::Load, category, format!("{}: {reason}", slice.origin))
}

fn data_error(slice: SliceRef<'_>, reason: &ReadError) -> ErrorInfo {
    let SliceRef { start, end, .. } = slice;
    load_error("DataError", slice, &format_args!("{reason} (mini-batch of bytes {start}-{end})"))
}

/// Counts the offset of an error from the start of the file instead of that of the slice.
fn absolute(mut error: ReadError, start: u64) -> ReadError {
    if let ReadError::NotUtf8 { offset }
    | ReadError::Malformed(
        Malformed::Ragged { offset, .. }
        | Malformed::UnterminatedQuote { offset }
        | Malformed::RecordTooLong { offset },
    ) = &mut error
    {
        *offset += start;
    }
    error
}

/// What to say about columns that could not keep their type, once for each file and column.
fn widened(
    told: &mut HashSet<(String, usize)>,
    schema: &Schema,
    slice: SliceRef<'_>,
    batch: &Batch,
) -> Vec<String> {
    let mut notices = Vec::new();
    for &column in &batch.widened {
        if told.insert((slice.origin.to_owned(), column)) {
            let name = schema.names.iter().nth(column).unwrap_or_default();
            notices.push(format!(
                "{}: column {name:?} is {} in the mini-batch of bytes {}-{} and {} in the sample of the file; \
                 declare its dtype in the job file to have it the same in every mini-batch",
                slice.origin, batch.types[column], slice.start, slice.end, schema.types[column]
            ));
        }
    }
    notices
}
