//! One column while it is being read: the values so far, in the layout of its Arrow array.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, GenericStringArray, Int64Array, OffsetSizeTrait, UInt64Array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};

use crate::field::{Quoted, quoted, unquote, unquote_into};
use crate::records::Block;
use crate::value;
use crate::{ColumnType, TextRules};

/// The values of one column.
pub(super) enum Column {
    Int64(Vec<i64>),
    UInt64(Vec<u64>),
    Float64(Vec<f64>, Nulls),
    Bool {
        values: BooleanBufferBuilder,
        nulls: Nulls,
        may_miss: bool,
    },
    Text(Text<i32>),
    /// Text of a slice whose bytes may be too many for 32-bit offsets.
    LargeText(Text<i64>),
}

impl Column {
    /// An empty column, for a slice of so many bytes.
    pub(super) fn new(column: ColumnType, slice_bytes: usize) -> Self {
        match column {
            ColumnType::Int64 => Self::Int64(vec![]),
            ColumnType::UInt64 => Self::UInt64(vec![]),
            ColumnType::Float64 => Self::Float64(vec![], Nulls::default()),
            ColumnType::Bool | ColumnType::BoolOrMissing => Self::Bool {
                values: BooleanBufferBuilder::new(0),
                nulls: Nulls::default(),
                may_miss: column == ColumnType::BoolOrMissing,
            },
            ColumnType::Utf8 if slice_bytes > i32::MAX as usize => Self::LargeText(Text::new()),
            ColumnType::Utf8 => Self::Text(Text::new()),
        }
    }

    /// Makes room for as many records as the slice has if they go on like its first block.
    pub(super) fn reserve_for(&mut self, first: &Block<'_>) {
        let records = first.expected_records();
        match self {
            Self::Int64(values) => values.reserve(records),
            Self::UInt64(values) => values.reserve(records),
            Self::Float64(values, _) => values.reserve(records),
            Self::Bool { values, .. } => values.reserve(records),
            Self::Text(text) => text.offsets.reserve(records),
            Self::LargeText(text) => text.offsets.reserve(records),
        }
    }

    /// Appends the block's values of the column at `index`. The error is the first row whose value does not
    /// fit; the column is of no use then.
    pub(super) fn push(&mut self, block: &Block<'_>, index: usize, rules: &TextRules) -> Result<(), usize> {
        let null_values = &rules.null_values;
        let hidden = null_values.hide_values();
        match self {
            Self::Int64(values) if hidden => push_all(values, block, index, |text| {
                value::int64(text).filter(|_| !null_values.contain(text))
            }),
            Self::Int64(values) => push_all(values, block, index, value::int64),
            Self::UInt64(values) if hidden => push_all(values, block, index, |text| {
                value::uint64(text).filter(|_| !null_values.contain(text))
            }),
            Self::UInt64(values) => push_all(values, block, index, value::uint64),
            Self::Float64(values, nulls) => {
                for (row, field) in block.column(index).enumerate() {
                    if !hidden && let Some(value) = value::short_decimal(field) {
                        values.push(value);
                        continue;
                    }
                    let text = unquote(field);
                    // Words for missing values come before words for numbers.
                    let value =
                        if null_values.contain(&text) { None } else { Some(value::float(&text).ok_or(row)?) };
                    if let Some(value) = value.filter(|value| !null_values.contain_number(*value)) {
                        values.push(value);
                    } else {
                        nulls.add(values.len());
                        values.push(f64::NAN);
                    }
                }
                Ok(())
            }
            Self::Bool { values, nulls, may_miss } => {
                for (row, field) in block.column(index).enumerate() {
                    let text = unquote(field);
                    let value = value::boolean(&text).filter(|_| !hidden || !null_values.contain(&text));
                    if let Some(value) = value {
                        values.append(value);
                    } else if *may_miss && null_values.contain(&text) {
                        nulls.add(values.len());
                        values.append(false);
                    } else {
                        return Err(row);
                    }
                }
                Ok(())
            }
            Self::Text(text) => {
                text.push(block, index, rules);
                Ok(())
            }
            Self::LargeText(text) => {
                text.push(block, index, rules);
                Ok(())
            }
        }
    }

    /// The array.
    pub(super) fn finish(self) -> ArrayRef {
        match self {
            Self::Int64(values) => Arc::new(Int64Array::new(ScalarBuffer::from(values), None)),
            Self::UInt64(values) => Arc::new(UInt64Array::new(ScalarBuffer::from(values), None)),
            Self::Float64(values, nulls) => {
                let nulls = nulls.finish(values.len());
                Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
            }
            Self::Bool { mut values, nulls, .. } => {
                let nulls = nulls.finish(values.len());
                Arc::new(BooleanArray::new(values.finish(), nulls))
            }
            Self::Text(text) => text.finish(),
            Self::LargeText(text) => text.finish(),
        }
    }
}

/// Appends values of a type that has no missing ones.
fn push_all<T>(
    values: &mut Vec<T>,
    block: &Block<'_>,
    index: usize,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<(), usize> {
    for (row, field) in block.column(index).enumerate() {
        let value = match parse(field) {
            Some(value) => value,
            None if field.first() == Some(&b'"') => parse(&unquote(field)).ok_or(row)?,
            None => return Err(row),
        };
        values.push(value);
    }
    Ok(())
}

/// Which values are missing; costs nothing while none is.
#[derive(Default)]
pub(super) struct Nulls(Option<NullBufferBuilder>);

impl Nulls {
    /// The value at `index`, beyond all those added before, is missing.
    #[inline]
    fn add(&mut self, index: usize) {
        let nulls = self.0.get_or_insert_with(|| NullBufferBuilder::new(0));
        nulls.append_n_non_nulls(index - nulls.len());
        nulls.append_null();
    }

    fn finish(self, values: usize) -> Option<NullBuffer> {
        let mut nulls = self.0?;
        nulls.append_n_non_nulls(values - nulls.len());
        nulls.finish()
    }
}

/// Strings, one after the other.
pub(super) struct Text<O> {
    bytes: Vec<u8>,
    /// Where each string starts, and where the last ends.
    offsets: Vec<O>,
    nulls: Nulls,
}

impl<O: OffsetSizeTrait> Text<O> {
    fn new() -> Self {
        Self { bytes: vec![], offsets: vec![O::zero()], nulls: Nulls::default() }
    }

    fn push(&mut self, block: &Block<'_>, index: usize, rules: &TextRules) {
        let TextRules { empty_as_text, null_values, .. } = rules;
        let is_missing = |text: &[u8]| null_values.contain(text) && !(*empty_as_text && text.is_empty());
        for field in block.column(index) {
            let start = self.bytes.len();
            match quoted(field) {
                None if is_missing(field) => self.nulls.add(self.offsets.len() - 1),
                None => self.bytes.extend_from_slice(field),
                Some(Quoted::Simple(text)) if is_missing(text) => {
                    self.nulls.add(self.offsets.len() - 1);
                }
                Some(Quoted::Simple(text)) => self.bytes.extend_from_slice(text),
                Some(Quoted::Other) => {
                    unquote_into(field, &mut self.bytes);
                    if is_missing(&self.bytes[start..]) {
                        self.bytes.truncate(start);
                        self.nulls.add(self.offsets.len() - 1);
                    }
                }
            }
            self.offsets.push(O::usize_as(self.bytes.len()));
        }
    }

    fn finish(self) -> ArrayRef {
        let nulls = self.nulls.finish(self.offsets.len() - 1);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let array = GenericStringArray::<O>::try_new(offsets, Buffer::from_vec(self.bytes), nulls);
        Arc::new(array.expect("the slice is UTF-8 and was only cut next to ASCII characters"))
    }
}
