//! Writes Arrow arrays as text, byte for byte what `DataFrame.to_csv(header=False, index=False)` writes
//! (spec E8).
//!
//! Rows are written one after the other, straight into the caller's buffer. What depends on more than one
//! value is decided beforehand: how pandas shows a column of times depends on all the times it formats
//! together, which are those of 100,000 cells of the frame; where a text needs quotes is looked up in a bit
//! set.
//!
//! Types that [`supports`] does not name are for pandas to write.

mod cell;
mod number;
mod quote;
mod time;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use self::cell::Cells;
use self::quote::Quoting;
use crate::dialect::can_delimit;

/// How many cells pandas formats at a time.
const CELLS_TOGETHER: usize = 100_000;
/// For how many rows texts are looked through ahead of writing them.
const ROWS_AHEAD: usize = 1024;
/// How many characters of `na_rep` survive in a column of floats: `numpy` makes them strings of this length
/// first.
const FLOAT_NA_LENGTH: usize = 32;

/// How to write; the defaults are those of spec E8 with a current Python and numpy.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// `sep`, an ASCII character; a space by default.
    pub separator: u8,
    /// `na_rep`, what stands for a missing value; nothing by default.
    pub na_rep: String,
    /// Whether a text with a lone `\r` is quoted. Python's csv module came to do so; older ones do not.
    /// Off by default.
    pub quote_carriage_return: bool,
    /// From which magnitude on a float of 32 bits is written with an exponent: 1e6 since numpy 2.3, 1e16
    /// before.
    pub float32_exponent_from: f32,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            separator: b' ',
            na_rep: String::new(),
            quote_carriage_return: false,
            float32_exponent_from: 1e6,
        }
    }
}

/// Why columns cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The separator is not an ASCII character, or one that ends lines or quotes.
    #[error("separator {0:?} is not possible: one ASCII character is needed, not a quote and not a line end")]
    Separator(char),
    /// A column has a type that [`supports`] does not name.
    #[error("column {column} has type {data_type}, which is not written here")]
    Unsupported {
        /// Number of the column, from 0.
        column: usize,
        /// Its type.
        data_type: DataType,
    },
    /// The columns are not equally long.
    #[error("column {column} has {found} rows where {expected} are expected")]
    Length {
        /// Number of the column, from 0.
        column: usize,
        /// Rows of the first column.
        expected: usize,
        /// Rows of this column.
        found: usize,
    },
    /// There are no columns, so that the number of rows is not known.
    #[error("there are no columns to write")]
    NoColumns,
}

/// Whether columns of this type can be written.
pub fn supports(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 | DataType::Boolean | DataType::Utf8View => true,
        DataType::Timestamp(_, zone) => zone.is_none(),
        DataType::Dictionary(_, words) => is_text(words),
        other => other.is_integer() || is_text(other),
    }
}

/// Whether values of this type are strings that lie one after the other.
fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8)
}

/// Appends rows to a buffer.
#[derive(Debug, Clone)]
pub struct Writer {
    quoting: Quoting,
    float32_exponent_from: f32,
    /// What stands for a missing value, quoted if need be: in any column, in one of floats.
    na_rep: Vec<u8>,
    float_na_rep: Vec<u8>,
}

impl Writer {
    /// A writer for the given options.
    pub fn new(options: &WriteOptions) -> Result<Self, WriteError> {
        if !can_delimit(options.separator) {
            return Err(WriteError::Separator(char::from(options.separator)));
        }
        let quoting = Quoting::new(options.separator, options.quote_carriage_return);
        let short: String = options.na_rep.chars().take(FLOAT_NA_LENGTH).collect();
        Ok(Self {
            na_rep: quoting.quoted(&options.na_rep),
            float_na_rep: quoting.quoted(&short),
            quoting,
            float32_exponent_from: options.float32_exponent_from,
        })
    }

    /// Appends a line with the names of the columns.
    pub fn write_header<'a>(&self, names: impl IntoIterator<Item = &'a str>, out: &mut Vec<u8>) {
        let start = out.len();
        let mut columns = 0;
        for name in names {
            self.quoting.write(name.as_bytes(), out);
            out.push(self.quoting.separator());
            columns += 1;
        }
        end_line(start, columns, out);
    }

    /// Appends the rows of a frame. A frame must be given whole, for times are written alike within (parts
    /// of) a frame.
    pub fn write(&self, columns: &[ArrayRef], out: &mut Vec<u8>) -> Result<(), WriteError> {
        let rows = columns.first().ok_or(WriteError::NoColumns)?.len();
        for (column, array) in columns.iter().enumerate() {
            if array.len() != rows {
                return Err(WriteError::Length { column, expected: rows, found: array.len() });
            }
        }
        let mut cells = columns
            .iter()
            .enumerate()
            .map(|(column, array)| {
                Cells::new(array, self)
                    .ok_or_else(|| WriteError::Unsupported { column, data_type: array.data_type().clone() })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let together = (CELLS_TOGETHER / columns.len()).max(1);
        for start in (0..rows).step_by(together) {
            let end = rows.min(start + together);
            for cells in &mut cells {
                cells.format_together(start..end, &self.quoting);
            }
            for start in (start..end).step_by(ROWS_AHEAD) {
                let end = end.min(start + ROWS_AHEAD);
                for cells in &mut cells {
                    cells.look_ahead(start..end, &self.quoting);
                }
                self.write_rows(&mut cells, start..end, out);
            }
        }
        Ok(())
    }

    fn write_rows(&self, cells: &mut [Cells<'_>], rows: std::ops::Range<usize>, out: &mut Vec<u8>) {
        let separator = self.quoting.separator();
        for row in rows {
            let start = out.len();
            for cells in &mut *cells {
                cells.write(row, &self.quoting, out);
                out.push(separator);
            }
            end_line(start, cells.len(), out);
        }
    }
}

/// Ends a line of fields that begins at `start` of `out`, each with a separator behind it.
#[inline]
fn end_line(start: usize, fields: usize, out: &mut Vec<u8>) {
    if fields > 0 {
        out.pop();
    }
    // A line of one empty field must not look blank.
    if out.len() == start && fields == 1 {
        out.extend_from_slice(b"\"\"");
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests;
