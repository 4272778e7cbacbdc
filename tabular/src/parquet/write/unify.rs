//! The schema of the file: the columns of all frames, each of a type that holds all its values.

use std::collections::HashMap;
use std::sync::Arc;

use ::parquet::arrow::ArrowSchemaConverter;
use arrow_schema::{Field, Schema, SchemaRef};

use super::super::misfit::Misfit;
use super::header::FrameSchema;
use super::pandas;
use super::types::{ORDER, described, has_empty_structure, merged, own_metadata};

/// The columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSchema {
    pub(super) schema: SchemaRef,
    /// What pandas is told.
    pub(super) pandas: String,
    /// The ordered categories of each column, as text.
    pub(super) orders: Vec<Option<String>>,
}

/// The columns of a file with these frames, which are numbered and in order: by name, in the order of their first
/// appearance. A frame that lacks one is written with null there.
pub fn unify(frames: &[(u64, &FrameSchema)]) -> Result<FileSchema, Misfit> {
    let mut fields: Vec<(u64, Field)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (number, frame) in frames {
        for field in &frame.fields {
            let Some(place) = places.get(field.name().as_str()) else {
                places.insert(field.name(), fields.len());
                fields.push((*number, field.clone()));
                continue;
            };
            let (first, known) = &mut fields[*place];
            let Some(both) = merged(known, field) else {
                let (first, kind) = origin(frames, known, field).unwrap_or((*first, known));
                return Err(Misfit::Types {
                    column: field.name().clone(),
                    first: (first, described(kind)),
                    later: (*number, described(field)),
                });
            };
            *known = both;
        }
    }
    if let Some((first, field)) = fields.iter().find(|(_, field)| has_empty_structure(field.data_type())) {
        return Err(Misfit::Empty { column: field.name().clone(), first: *first });
    }
    let orders = fields.iter().map(|(_, field)| field.metadata().get(ORDER).cloned()).collect();
    let fields: Vec<Field> = fields
        .into_iter()
        .map(|(_, field)| {
            let own = own_metadata(&field);
            field.with_metadata(own)
        })
        .collect();
    find_refused(&fields, frames)?;
    let told = frames.iter().map(|(_, frame)| (&frame.fields[..], &frame.pandas));
    let pandas = pandas::merged(&fields, told);
    // pyarrow takes what pandas is told from the schema of Arrow, and other readers from beside it.
    let metadata = HashMap::from([("pandas".to_owned(), pandas.clone())]);
    Ok(FileSchema { schema: Arc::new(Schema::new(fields).with_metadata(metadata)), pandas, orders })
}

/// The first frame whose own column does not go with `later`; else the first that has it in the type of `known`, which is of
/// several frames.
fn origin<'a>(frames: &[(u64, &'a FrameSchema)], known: &Field, later: &Field) -> Option<(u64, &'a Field)> {
    let find = |is_it: &dyn Fn(&Field) -> bool| columns(frames, known.name()).find(|(_, field)| is_it(field));
    find(&|field| merged(field, later).is_none())
        .or_else(|| find(&|field| field.data_type() == known.data_type()))
}

/// The column of this name in each frame that has it.
fn columns<'a>(frames: &[(u64, &'a FrameSchema)], name: &str) -> impl Iterator<Item = (u64, &'a Field)> {
    frames.iter().filter_map(move |(number, frame)| {
        frame.fields.iter().find(|field| field.name() == name).map(|field| (*number, field))
    })
}

/// Refuses what no file can have, by its column: a schema as a whole is refused without it.
fn find_refused(fields: &[Field], frames: &[(u64, &FrameSchema)]) -> Result<(), Misfit> {
    let refusal = |fields: Vec<Field>| {
        ArrowSchemaConverter::new().convert(&Schema::new(fields)).err().map(|error| error.to_string())
    };
    if refusal(fields.to_vec()).is_none() {
        return Ok(());
    }
    for field in fields {
        let Some(error) = refusal(vec![field.clone()]) else { continue };
        let is_refused = |field: &Field| refusal(vec![field.clone()]).is_some();
        let own = columns(frames, field.name()).find(|(_, own)| is_refused(own));
        let first = own.or_else(|| columns(frames, field.name()).next()).map_or(0, |(first, _)| first);
        return Err(Misfit::Refused { column: field.name().clone(), first, error });
    }
    Ok(())
}
