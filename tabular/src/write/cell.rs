//! The cells of one column, ready to be written in any row.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericStringArray, OffsetSizeTrait, StringViewArray, downcast_integer,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};

use super::Writer;
use super::number::{write_f32, write_f64, write_int};
use super::quote::{Quoting, any_marked, write_quoted};
use super::time::{Precision, TimeFormat, precision};

/// What numbers and truth values are written with.
const NUMBER_CHARACTERS: &[u8] = b"0123456789+-.einfTrualsF";

/// A column.
pub(super) struct Cells<'a> {
    values: Values<'a>,
    /// Set only when a value is missing.
    nulls: Option<&'a NullBuffer>,
    na_rep: &'a [u8],
    /// What is written may hold the separator and needs a look.
    check: bool,
}

enum Values<'a> {
    Int(Box<dyn Ints + 'a>),
    Float32 {
        values: &'a [f32],
        exponent_from: f32,
    },
    Float64(&'a [f64]),
    Bool(&'a BooleanArray),
    Text(Text<'a, i32>),
    LargeText(Text<'a, i64>),
    TextView(&'a StringViewArray),
    /// Texts of which each was quoted already; missing among them are none.
    Words {
        keys: Vec<usize>,
        words: Vec<Option<Vec<u8>>>,
    },
    Time {
        values: &'a [i64],
        format: TimeFormat,
    },
}

/// Whole numbers of any size.
trait Ints {
    /// Appends the one of a row.
    fn write(&self, row: usize, out: &mut Vec<u8>);
}

impl<T: itoa::Integer + Copy> Ints for &[T] {
    fn write(&self, row: usize, out: &mut Vec<u8>) {
        write_int(self[row], out);
    }
}

/// The values of an array of whole numbers of this type.
macro_rules! ints {
    ($type:ty, $array:ident) => {
        Values::Int(Box::new(&**$array.as_primitive::<$type>().values()))
    };
}

impl<'a> Cells<'a> {
    /// The cells of an array, unless its type is not supported.
    pub(super) fn new(array: &'a ArrayRef, writer: &'a Writer) -> Option<Self> {
        let time = |values, unit| Values::Time { values, format: TimeFormat::new(unit, Precision::Date) };
        let values = downcast_integer! {
            array.data_type() => (ints, array),
            DataType::Float32 => Values::Float32 {
                values: array.as_primitive::<Float32Type>().values(),
                exponent_from: writer.float32_exponent_from,
            },
            DataType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Utf8 => Values::Text(Text::new(array.as_string())),
            DataType::LargeUtf8 => Values::LargeText(Text::new(array.as_string())),
            DataType::Utf8View => Values::TextView(array.as_string_view()),
            DataType::Dictionary(_, _) => words(array, &writer.quoting)?,
            DataType::Timestamp(unit, None) => time(times(array, *unit), *unit),
            _ => return None,
        };
        let is_float = matches!(values, Values::Float32 { .. } | Values::Float64(_));
        let is_text = matches!(
            values,
            Values::Text(_) | Values::LargeText(_) | Values::TextView(_) | Values::Words { .. }
        );
        Some(Self {
            values,
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
            na_rep: if is_float { &writer.float_na_rep } else { &writer.na_rep },
            check: !is_text && writer.quoting.separates(NUMBER_CHARACTERS),
        })
    }

    /// Settles what depends on all the values of `rows`.
    pub(super) fn format_together(&mut self, rows: Range<usize>, quoting: &Quoting) {
        if let Values::Time { values, format } = &mut self.values {
            let there = rows.filter(|&row| self.nulls.is_none_or(|nulls| nulls.is_valid(row)));
            let precision = precision(there.map(|row| values[row]), format.unit());
            *format = TimeFormat::new(format.unit(), precision);
            self.check = quoting.separates(if precision == Precision::Date {
                b"-0123456789"
            } else {
                b"-: .0123456789"
            });
        }
    }

    /// Looks through the texts of `rows`, which are about to be written.
    pub(super) fn look_ahead(&mut self, rows: Range<usize>, quoting: &Quoting) {
        match &mut self.values {
            Values::Text(text) => text.look_ahead(rows, quoting),
            Values::LargeText(text) => text.look_ahead(rows, quoting),
            _ => {}
        }
    }

    /// Appends the cell of a row that was looked ahead to.
    #[inline]
    pub(super) fn write(&mut self, row: usize, quoting: &Quoting, out: &mut Vec<u8>) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            out.extend_from_slice(self.na_rep);
            return;
        }
        let start = out.len();
        match &mut self.values {
            Values::Int(values) => values.write(row, out),
            // Nothing of what is missing is a number, so it is quoted already if need be.
            Values::Float32 { values, .. } if values[row].is_nan() => {
                return out.extend_from_slice(self.na_rep);
            }
            Values::Float64(values) if values[row].is_nan() => return out.extend_from_slice(self.na_rep),
            Values::Float32 { values, exponent_from } => write_f32(values[row], *exponent_from, out),
            Values::Float64(values) => write_f64(values[row], out),
            Values::Bool(values) => out.extend_from_slice(if values.value(row) { b"True" } else { b"False" }),
            Values::Text(text) => text.write(row, out),
            Values::LargeText(text) => text.write(row, out),
            Values::TextView(values) => quoting.write(values.value(row).as_bytes(), out),
            Values::Words { keys, words } => {
                out.extend_from_slice(words[keys[row]].as_deref().unwrap_or(self.na_rep));
            }
            Values::Time { values, format } => format.write(values[row], out),
        }
        if self.check {
            quoting.mend(start, out);
        }
    }
}

/// The texts of a dictionary, quoted if they must be.
fn words<'a>(array: &'a ArrayRef, quoting: &Quoting) -> Option<Values<'a>> {
    let array = array.as_any_dictionary_opt()?;
    let quoted = |text: Option<&str>| text.map(|text| quoting.quoted(text));
    let values = array.values();
    let words: Vec<_> = match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().iter().map(quoted).collect(),
        DataType::LargeUtf8 => values.as_string::<i64>().iter().map(quoted).collect(),
        _ => return None,
    };
    // Without words every cell is missing, and no key is looked at.
    let keys = if words.is_empty() { vec![] } else { array.normalized_keys() };
    Some(Values::Words { keys, words })
}

fn times(array: &ArrayRef, unit: TimeUnit) -> &[i64] {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
    }
}

/// Strings that lie one after the other.
struct Text<'a, O> {
    bytes: &'a [u8],
    offsets: &'a [O],
    /// Where special characters are, from byte `marked_from` on.
    marks: Vec<u64>,
    marked_from: usize,
}

impl<'a, O: OffsetSizeTrait> Text<'a, O> {
    fn new(array: &'a GenericStringArray<O>) -> Self {
        Self { bytes: array.value_data(), offsets: array.value_offsets(), marks: vec![], marked_from: 0 }
    }

    fn look_ahead(&mut self, rows: Range<usize>, quoting: &Quoting) {
        let (start, end) = (self.offsets[rows.start].as_usize(), self.offsets[rows.end].as_usize());
        self.marked_from = start;
        quoting.mark(&self.bytes[start..end], &mut self.marks);
    }

    #[inline]
    fn write(&self, row: usize, out: &mut Vec<u8>) {
        let (start, end) = (self.offsets[row].as_usize(), self.offsets[row + 1].as_usize());
        let text = &self.bytes[start..end];
        if any_marked(&self.marks, start - self.marked_from..end - self.marked_from) {
            write_quoted(text, out);
        } else {
            out.extend_from_slice(text);
        }
    }
}
