//! What the steps of a shuffle need of bytes (`partition_keys` over columns of the data, spec D3): records in another order,
//! and checksums of what was written. Which rows go where, Python says: `azureml_user.parallel_run.shuffle_split` and
//! `shuffle_group`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use prs_common::checksum::crc32c_of;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The records of `lines` at these positions, in this order, each with a line end, and where each of them ends. `starts` has
/// where each record begins, and the end of the last; all numbers are integers of 64 bits as this machine has them.
#[pyfunction]
pub(crate) fn gather<'py>(
    py: Python<'py>,
    lines: &[u8],
    starts: &[u8],
    positions: &[u8],
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (starts, positions) = (numbers(starts), numbers(positions));
    let record = |position: u64| {
        let place = starts.get(position as usize..)?.first_chunk::<2>()?;
        let record = lines.get(place[0] as usize..place[1] as usize)?;
        // The last one of a file may have no line end.
        Some((record, !matches!(record.last(), Some(b'\n' | b'\r'))))
    };
    let mut ends = Vec::with_capacity(positions.len() * 8);
    let mut end = 0;
    for &position in &positions {
        let (record, lacks_end) =
            record(position).ok_or_else(|| PyValueError::new_err("a position beyond the records"))?;
        end += record.len() + usize::from(lacks_end);
        ends.extend_from_slice(&(end as u64).to_ne_bytes());
    }
    // In its place at once: a slice is large.
    let gathered = PyBytes::new_with(py, end, |place| {
        let mut at = 0;
        for (record, lacks_end) in positions.iter().filter_map(|&position| record(position)) {
            place[at..at + record.len()].copy_from_slice(record);
            at += record.len();
            if lacks_end {
                place[at] = b'\n';
                at += 1;
            }
        }
        Ok(())
    })?;
    Ok((gathered, PyBytes::new(py, &ends)))
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|one| u64::from_ne_bytes(*one)).collect()
}

/// The checksums of these ranges of the file at `path`.
#[pyfunction]
pub(crate) fn checksums(py: Python<'_>, path: &str, ranges: Vec<(u64, u64)>) -> PyResult<Vec<u32>> {
    let sum_up = || -> io::Result<Vec<u32>> {
        let mut file = File::open(path)?;
        let one = |(start, end): (u64, u64)| {
            file.seek(SeekFrom::Start(start))?;
            Ok(crc32c_of((&mut file).take(end - start))?.1)
        };
        ranges.into_iter().map(one).collect()
    };
    Ok(py.detach(sum_up)?)
}
