//! The number of the form that records have.

use serde::Serialize;

/// The form of what is printed for programs: within one number, keys are only added.
pub const SCHEMA: u32 = 1;

// A record as it is printed. Its documentation, which becomes that of the schema, is the record's.
#[expect(missing_docs, reason = "the documentation of the schema is the record's")]
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "{R}"))]
pub struct Versioned<R> {
    /// The form of this object.
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    schema: u32,
    #[serde(flatten)]
    record: R,
}

impl<R> From<R> for Versioned<R> {
    fn from(record: R) -> Self {
        Self { schema: SCHEMA, record }
    }
}
