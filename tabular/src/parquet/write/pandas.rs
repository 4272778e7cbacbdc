//! What `pandas.read_parquet` needs besides the types: which dtype of its own a column had (`Int64`, `string`, ...), and what
//! the names of the columns are.
//!
//! Versions of pandas and pyarrow are left out: those of a host are not those of another, and the bytes are to be the same.

use std::collections::HashMap;

use arrow_schema::{DataType, Field};
use serde_json::{Value, json};

use super::types::{MISSING, own_metadata};

/// The dtypes that need no mention: they follow from the types.
const OF_NUMPY: [&str; 13] = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64", "object", "bool",
];

/// What pandas says of one frame.
#[derive(Debug, Clone, Default)]
pub(super) struct Pandas {
    /// By the name of the column.
    columns: HashMap<String, Value>,
    /// Of the names of the columns.
    column_indexes: Value,
}

impl Pandas {
    /// What is not as pandas writes it is left out.
    pub(super) fn parse(text: &str) -> Self {
        let mut told: Value = serde_json::from_str(text).unwrap_or_default();
        let columns = match told["columns"].take() {
            Value::Array(columns) => columns,
            _ => Vec::new(),
        };
        let named = |column: Value| Some((column["field_name"].as_str()?.to_owned(), column));
        Self {
            columns: columns.into_iter().filter_map(named).collect(),
            column_indexes: told["column_indexes"].take(),
        }
    }
}

/// What pandas is to be told of a file with these `fields`; frames are in the order of their first appearance, each with
/// the types that it has there.
pub(super) fn merged<'a>(
    fields: &[Field],
    frames: impl Iterator<Item = (&'a [Field], &'a Pandas)> + Clone,
) -> String {
    let places: HashMap<&str, usize> =
        fields.iter().enumerate().map(|(place, field)| (field.name().as_str(), place)).collect();
    // Of each column what the first frame says that has a dtype of pandas' own, else the first.
    let mut told: Vec<Option<&Value>> = vec![None; fields.len()];
    for (of_frame, pandas) in frames.clone() {
        for field in of_frame {
            let Some(place) = places.get(field.name().as_str()) else { continue };
            let Some(column) = pandas.columns.get(field.name()) else { continue };
            let known = &mut told[*place];
            if has_type(field, &fields[*place]) && known.is_none_or(|known| !is_own(known) && is_own(column))
            {
                *known = Some(column);
            }
        }
    }
    let columns: Vec<Value> =
        fields.iter().zip(told).filter_map(|(field, told)| told.cloned().or_else(|| plain(field))).collect();
    let mut names = frames.map(|(_, pandas)| &pandas.column_indexes);
    let first = names.next().filter(|first| first.is_array() && names.all(|other| other == *first));
    let column_indexes = first.cloned().unwrap_or_else(|| json!([]));
    json!({ "index_columns": [], "column_indexes": column_indexes, "columns": columns }).to_string()
}

/// Whether a column of a frame has the type of the file. One of missing values alone did not have to fit.
fn has_type(field: &Field, of_file: &Field) -> bool {
    let is_missing = field.metadata().contains_key(MISSING);
    field.data_type() == of_file.data_type() && (!is_missing || own_metadata(field) == own_metadata(of_file))
}

/// Whether the column has a dtype of pandas' own.
fn is_own(column: &Value) -> bool {
    column["numpy_type"].as_str().is_some_and(|name| !OF_NUMPY.contains(&name))
}

/// What is said of a column of numbers in a type that no frame has.
fn plain(field: &Field) -> Option<Value> {
    let kind = field.data_type();
    let is_number =
        kind.is_integer() || matches!(kind, DataType::Float16 | DataType::Float32 | DataType::Float64);
    let name = kind.to_string().to_lowercase();
    is_number.then(|| {
        json!({
            "name": field.name(), "field_name": field.name(), "pandas_type": name, "numpy_type": name, "metadata": null,
        })
    })
}
