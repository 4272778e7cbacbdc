//! The columns of a table, as `schemaString` has them.

use serde::Deserialize;
use serde_json::Value;

use super::DeltaError;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type as the log has it: JSON, a name such as `"long"`, or an object for one that has parts.
    pub kind: String,
    /// Whether its values are in the log, one for each file, and not in the files.
    pub is_partition: bool,
}

#[derive(Deserialize)]
struct Schema {
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: Value,
}

/// The columns of `schema`, of which these are partition columns.
pub(super) fn columns(schema: &str, partition_columns: &[String]) -> Result<Vec<Column>, DeltaError> {
    let schema: Schema = serde_json::from_str(schema)
        .map_err(|error| DeltaError::Columns(format!("schemaString: {error}")))?;
    let columns: Vec<Column> = schema
        .fields
        .into_iter()
        .map(|Field { name, kind }| Column {
            is_partition: partition_columns.contains(&name),
            kind: kind.to_string(),
            name,
        })
        .collect();
    for name in partition_columns {
        let Some(column) = columns.iter().find(|column| column.name == *name) else {
            return Err(DeltaError::Columns(format!("the partition column {name:?} is not in schemaString")));
        };
        if !column.kind.starts_with('"') {
            return Err(DeltaError::Columns(format!(
                "the partition column {name:?} is of type {}",
                column.kind
            )));
        }
    }
    Ok(columns)
}
