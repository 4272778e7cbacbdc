//! Checkpoints of the classic form: Parquet, whose rows are actions.
//!
//! They are read by the `parquet` crate, with the columns alone that are of interest: what else there is, statistics above all,
//! may be many times as much. The footer is looked at before, so what is cut off is told in words.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::schema::types::{Type, TypePtr};
use bytes::Bytes;

use super::DeltaError;
use super::action::Action;
use crate::parquet::{Footer, locate};

/// What is read of each action.
const READ: [(&str, &[&str]); 4] = [
    ("add", &["path", "partitionValues", "size", "deletionVector"]),
    ("metaData", &["format", "schemaString", "partitionColumns", "configuration"]),
    ("protocol", &["minReaderVersion", "readerFeatures"]),
    ("sidecar", &["path"]),
];

/// Reads the checkpoint `file`, or one of its parts, and hands its actions to `take`.
pub(super) fn read_checkpoint(
    file: &str,
    bytes: Bytes,
    mut take: impl FnMut(Action) -> Result<(), DeltaError>,
) -> Result<(), DeltaError> {
    let damaged =
        |reason: String| DeltaError::Damaged { file: file.to_owned(), place: String::new(), reason };
    let size = bytes.len() as u64;
    let place = locate(&bytes, size).map_err(|error| damaged(error.to_string()))?;
    let footer = bytes.slice(place.start as usize..);
    let groups = Footer::read(&footer, place.start, None).map_err(|error| damaged(error.to_string()))?;
    for group in groups.row_groups() {
        group.map_err(|error| damaged(error.to_string()))?;
    }
    // What is damaged may end in a panic of the crate.
    let read = catch_unwind(AssertUnwindSafe(|| -> Result<(), DeltaError> {
        let failed = |error: ::parquet::errors::ParquetError| damaged(error.to_string());
        let reader = SerializedFileReader::new(bytes).map_err(failed)?;
        let schema = reader.metadata().file_metadata().schema();
        let wanted = projection(schema).map_err(failed)?;
        for row in reader.get_row_iter(Some(wanted)).map_err(failed)? {
            let row = row.map_err(failed)?;
            let action = serde_json::from_value(row.to_json_value());
            take(action.map_err(|error| damaged(error.to_string()))?)?;
        }
        Ok(())
    }));
    read.unwrap_or_else(|_| Err(damaged("it is damaged".to_owned())))
}

/// The columns of `schema` that are read.
fn projection(schema: &Type) -> ::parquet::errors::Result<Type> {
    let mut fields = Vec::new();
    for (name, wanted) in READ {
        let Some(action) = schema.get_fields().iter().find(|field| field.name() == name && field.is_group())
        else {
            continue;
        };
        let of_action = action.get_fields().iter().filter(|field| wanted.contains(&field.name()));
        let of_action: Vec<TypePtr> = of_action.cloned().collect();
        let group = Type::group_type_builder(name)
            .with_repetition(action.get_basic_info().repetition())
            .with_fields(of_action)
            .build()?;
        fields.push(Arc::new(group));
    }
    Type::group_type_builder(schema.name()).with_fields(fields).build()
}
