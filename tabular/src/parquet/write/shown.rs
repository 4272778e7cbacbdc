//! The first rows of a frame, for people to read.

use std::io::Cursor;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::reader::StreamReader;
use bytes::Bytes;

use super::FrameError;

const BETWEEN: &str = ", ";

/// Rows as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The names of the columns.
    pub header: String,
    /// The rows, at most as many as were asked for.
    pub rows: Vec<String>,
}

/// The first rows of a frame, at most `most`.
pub fn shown(frame: Bytes, most: usize) -> Result<Shown, FrameError> {
    let reader = StreamReader::try_new(Cursor::new(frame), None)?;
    let schema = reader.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut rows = Vec::new();
    let options = FormatOptions::new().with_null("null");
    for batch in reader {
        let batch = batch?;
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows().min(most - rows.len()) {
            let cells: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string().replace('\n', "\\n")).collect();
            rows.push(cells.join(BETWEEN));
        }
        if rows.len() == most {
            break;
        }
    }
    Ok(Shown { header: names.join(BETWEEN), rows })
}
