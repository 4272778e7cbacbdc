//! The columns of a frame in the types of the file.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeListArray, ListArray, MapArray, StructArray, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};

/// A value that the wider type cannot hold, such as a day beyond the nanoseconds of 64 bits, is an error.
const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// `array` as `wanted`, the type that holds its values and those of other frames.
pub(super) fn conform(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    let kind = array.data_type();
    if kind == wanted {
        return Ok(Arc::clone(array));
    }
    if kind.is_null() {
        return Ok(new_null_array(wanted, array.len()));
    }
    match wanted {
        DataType::Struct(fields) if matches!(kind, DataType::Struct(_)) => {
            Ok(Arc::new(structure(array.as_struct(), fields)?))
        }
        DataType::List(item) => {
            let list = as_kind(array, |own| DataType::List(Arc::clone(own)))?;
            let (_, offsets, values, nulls) = list.as_list::<i32>().clone().into_parts();
            let values = conform(&values, item.data_type())?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
        }
        DataType::LargeList(item) => {
            let list = as_kind(array, |own| DataType::LargeList(Arc::clone(own)))?;
            let (_, offsets, values, nulls) = list.as_list::<i64>().clone().into_parts();
            let values = conform(&values, item.data_type())?;
            Ok(Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
        }
        DataType::Map(entries, is_sorted) if matches!(kind, DataType::Map(..)) => {
            let (_, offsets, own, nulls, _) = array.as_map().clone().into_parts();
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(ArrowError::SchemaError("a map has no keys".to_owned()));
            };
            // By place: the names of keys and values mean nothing.
            let columns =
                own.columns().iter().zip(fields).map(|(column, field)| conform(column, field.data_type()));
            let own = StructArray::try_new(fields.clone(), columns.collect::<Result<_, _>>()?, None)?;
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, own, nulls, *is_sorted)?))
        }
        _ => cast_with_options(array, wanted, &STRICT),
    }
}

/// A list of any kind as one of the kind that `of` gives, its items as they are.
fn as_kind(array: &ArrayRef, of: impl Fn(&FieldRef) -> DataType) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            cast_with_options(array, &of(item), &STRICT)
        }
        other => Err(ArrowError::CastError(format!("{other} is no list"))),
    }
}

fn structure(array: &StructArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    let columns = fields.iter().map(|field| match array.column_by_name(field.name()) {
        Some(column) => conform(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), array.len())),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())
}
