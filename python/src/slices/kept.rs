//! Slices beside their frames, for the step of a shuffle that splits (`partition_keys` over columns of the data, spec D3): it
//! writes records as the data has them, and needs to know where each begins.

use prs_common::message_pack;
use prs_common::mini_batch::SliceRef;
use prs_common::wire::ErrorInfo;
use prs_tabular::{Dialect, TableReader, record_starts};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::data_error;

/// Gives `frames` the slice that `frame` is of: its `bytes`, where each record begins, and how it is described. Of Arrow,
/// Python has the table already.
pub(super) fn keep_slice(
    frames: &Bound<'_, PyAny>,
    frame: &Bound<'_, PyAny>,
    slice: SliceRef<'_>,
    bytes: &[u8],
) -> PyResult<Result<(), ErrorInfo>> {
    let py = frames.py();
    let mut names = Some(Vec::new());
    let mut delimited = |dialect: &Dialect, all: Vec<String>| {
        names = Some(all);
        py.detach(|| record_starts(bytes, dialect)).map(Some)
    };
    let found = match message_pack::decode(slice.reader) {
        Ok(TableReader::Delimited(dialect, schema)) => delimited(&dialect, schema.names.iter().collect()),
        Ok(TableReader::DelimitedOf(dialect, _, all)) => delimited(&dialect, all),
        Ok(TableReader::JsonLines(_) | TableReader::ValidJsonLines(_)) => {
            names = None;
            Ok(Some(py.detach(|| line_starts(bytes))))
        }
        // What cannot be read has failed before; nothing is put together twice.
        Ok(TableReader::Parquet(_) | TableReader::Arrow | TableReader::Among(..)) | Err(_) => Ok(None),
    };
    let starts = match found {
        Ok(found) => found,
        Err(error) => return Ok(Err(data_error(slice, &error))),
    };
    let lines = starts.is_some().then(|| PyBytes::new(py, bytes));
    let starts = starts.unwrap_or_default();
    let starts: Vec<u8> = starts.into_iter().flat_map(u64::to_ne_bytes).collect();
    let [reader, columns] = [slice.reader, slice.columns].map(|bytes| PyBytes::new(py, bytes));
    let starts = PyBytes::new(py, &starts);
    let arguments = (frame, lines, starts, reader, columns, slice.origin, slice.name_at, names);
    frames.call_method1(intern!(py, "keep_slice"), arguments)?;
    Ok(Ok(()))
}

/// Where each line begins that is not blank, and the end of the last.
fn line_starts(bytes: &[u8]) -> Vec<u64> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if line.iter().any(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            starts.push(at);
        }
        at += line.len() as u64;
    }
    starts.push(at);
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_where_they_are_not_blank() {
        for (text, expected) in
            [("", &[0][..]), ("{}\n", &[0, 3]), ("{}\n{}", &[0, 3, 5]), ("\n{}\n \t\r\n{}\n", &[1, 8, 11])]
        {
            assert_eq!(line_starts(text.as_bytes()), expected, "{text:?}");
        }
    }
}
