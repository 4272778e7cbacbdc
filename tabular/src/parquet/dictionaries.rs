//! Which columns of a file are categories in pandas: the schema of Arrow tells, which writers leave in the metadata.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// What stands before a message and its length.
const MARK: [u8; 4] = [0xff; 4];

/// The columns that a schema, as Arrow leaves it in a file, has as dictionaries. One that cannot be read says nothing: pyarrow
/// refuses such a file.
pub(super) fn dictionaries(schema: &[u8]) -> Vec<String> {
    let Ok(bytes) = BASE64_STANDARD.decode(schema) else { return Vec::new() };
    let message = match bytes.split_first_chunk::<8>() {
        Some((head, rest)) if head.starts_with(&MARK) => rest,
        _ => &bytes,
    };
    let Ok(message) = arrow_ipc::root_as_message(message) else { return Vec::new() };
    let fields = message.header_as_schema().and_then(|schema| schema.fields());
    let dictionaries = fields.into_iter().flatten().filter(|field| field.dictionary().is_some());
    dictionaries.filter_map(|field| field.name().map(str::to_owned)).collect()
}
