//! Reads a slice of a text into Arrow arrays, one per column.
//!
//! A value that its column's found type cannot hold is no error: that column, and only that, is looked at
//! again and gets the narrowest type that holds this slice's values too. Whatever else is wrong with the
//! text fails the slice with the place and the reason (spec D5).

mod column;

use arrow_array::ArrayRef;

use self::column::Column;
use crate::infer::Evidence;
use crate::records::{Malformed, Records};
use crate::{ColumnType, Dialect, Schema, TextRules};

/// The columns of a slice.
#[derive(Debug, Clone)]
pub struct Batch {
    /// One array per column: `Int64`, `UInt64`, `Float64`, `Boolean`, and `Utf8` (`LargeUtf8` when the
    /// slice is longer than 2 GiB). Missing values are nulls; in a `Float64` array the value below a null
    /// is NaN.
    pub columns: Vec<ArrayRef>,
    /// What the columns hold: the schema's types, but for the widened ones.
    pub types: Vec<ColumnType>,
    /// The columns, in order, whose values did not fit the schema's type.
    pub widened: Vec<usize>,
    /// How many records there are.
    pub records: usize,
}

/// Why a slice cannot be read. Offsets are in bytes from the start of the slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The records cannot be told apart.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The text is not UTF-8.
    #[error("bad UTF-8 at byte {offset}: where the text has another encoding, give it (encoding: latin1)")]
    NotUtf8 {
        /// Offset of the first bad byte.
        offset: u64,
    },
    /// The text is not ASCII, which it is said to be.
    #[error("a character that is not ASCII at byte {offset}, in a text whose encoding is ascii")]
    NotAscii {
        /// Offset of the byte.
        offset: u64,
    },
    /// A value does not fit the type the user declared for its column.
    #[error("value {value:?} of record {record} does not fit column {column:?}, declared as {dtype}")]
    DoesNotFit {
        /// Name of the column.
        column: String,
        /// Number of the record in the slice, from 0, blank lines not counted.
        record: u64,
        /// The value as it stands in the text; empty when missing, cut off after 100 characters.
        value: String,
        /// The declared type.
        dtype: ColumnType,
    },
}

/// Reads `bytes`, which are whole records of a text without its header.
pub fn read(bytes: &[u8], dialect: &Dialect, schema: &Schema) -> Result<Batch, ReadError> {
    let all: Vec<usize> = (0..schema.types.len()).collect();
    read_some(bytes, dialect, schema, &all)
}

/// The same of the columns at the positions `wanted` alone, in this order. Values of others are not looked at.
pub fn read_some(
    bytes: &[u8],
    dialect: &Dialect,
    schema: &Schema,
    wanted: &[usize],
) -> Result<Batch, ReadError> {
    if simdutf8::basic::from_utf8(bytes).is_err() {
        let offset = simdutf8::compat::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), |_| 0);
        return Err(ReadError::NotUtf8 { offset: offset as u64 });
    }
    if schema.rules.only_ascii
        && let Some(offset) = bytes.iter().position(|byte| !byte.is_ascii())
    {
        return Err(ReadError::NotAscii { offset: offset as u64 });
    }
    let mut types = schema.types.clone();
    let rules = &schema.rules;
    let (found, records) = read_columns(bytes, *dialect, &types, wanted, rules)?;
    let mut columns = Vec::with_capacity(found.len());
    let mut widened = vec![];
    for (&index, column) in wanted.iter().zip(found) {
        match column {
            Ok(array) => columns.push(Some(array)),
            Err(misfit) if schema.declared.get(index) == Some(&true) => {
                return Err(ReadError::DoesNotFit {
                    column: schema.names.iter().nth(index).unwrap_or_default(),
                    record: misfit.record as u64,
                    value: misfit.value,
                    dtype: types[index],
                });
            }
            Err(_) => {
                columns.push(None);
                widened.push(index);
            }
        }
    }
    if !widened.is_empty() {
        widen(bytes, *dialect, &mut types, &widened, rules)?;
        let (found, _) = read_columns(bytes, *dialect, &types, &widened, rules)?;
        let mut found = found.into_iter();
        for column in columns.iter_mut().filter(|column| column.is_none()) {
            *column = found.next().and_then(Result::ok);
        }
    }
    let columns =
        columns.into_iter().map(|column| column.expect("a widened type holds every value")).collect();
    Ok(Batch { columns, types, widened, records })
}

/// The first value of a column that its type cannot hold.
struct Misfit {
    record: usize,
    value: String,
}

/// Reads the columns `wanted` with the types that `types` has for them.
fn read_columns(
    bytes: &[u8],
    dialect: Dialect,
    types: &[ColumnType],
    wanted: &[usize],
    rules: &TextRules,
) -> Result<(Vec<Result<ArrayRef, Misfit>>, usize), Malformed> {
    let mut records = Records::new(bytes, dialect, types.len());
    let mut columns: Vec<Result<Column, Misfit>> =
        wanted.iter().map(|&index| Ok(Column::new(types[index], bytes.len()))).collect();
    let mut count = 0;
    while let Some(block) = records.next_block()? {
        for (state, &index) in columns.iter_mut().zip(wanted) {
            let Ok(column) = state else { continue };
            if count == 0 {
                column.reserve_for(&block);
            }
            if let Err(row) = column.push(&block, index, rules) {
                let field = block.column(index).nth(row).unwrap_or_default();
                let value = String::from_utf8_lossy(field).chars().take(100).collect();
                *state = Err(Misfit { record: block.first_record + row, value });
            }
        }
        count += block.records();
    }
    Ok((columns.into_iter().map(|column| column.map(Column::finish)).collect(), count))
}

/// Gives the columns `wanted` the narrowest types that hold their type's values and those of the slice.
fn widen(
    bytes: &[u8],
    dialect: Dialect,
    types: &mut [ColumnType],
    wanted: &[usize],
    rules: &TextRules,
) -> Result<(), Malformed> {
    let mut evidence: Vec<Evidence> = wanted.iter().map(|&index| Evidence::of(types[index])).collect();
    let mut records = Records::new(bytes, dialect, types.len());
    while let Some(block) = records.next_block()? {
        for (evidence, &index) in evidence.iter_mut().zip(wanted) {
            evidence.add_column(&block, index, &rules.null_values);
        }
    }
    for (evidence, &index) in evidence.iter().zip(wanted) {
        types[index] = evidence.column_type();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
