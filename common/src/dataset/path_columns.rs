//! Columns whose values come from paths (spec D3), as they travel in descriptors: names and values, typed. What rows of a group
//! have in common travels in the same form, also where it comes from the data.

use rmp_serde::decode::Error;
use serde::{Deserialize, Serialize};

use crate::message_pack;

/// A column and its value, the same for all rows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathColumn<'a> {
    /// Its name.
    #[serde(borrow)]
    pub name: &'a str,
    /// Its value.
    #[serde(borrow)]
    pub value: PathValue<'a>,
}

/// A value from a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PathValue<'a> {
    /// Text, as it stands in the path.
    Text(#[serde(borrow)] &'a str),
    /// A time without a zone, nanoseconds since 1970-01-01.
    Time(i64),
    /// A key from the data, as `azureml_user.parallel_run.shuffle_keys` writes it.
    Data(#[serde(borrow)] &'a str),
}

impl<'a> PathColumn<'a> {
    /// Writes `columns`; no bytes for none.
    pub fn encode(columns: &[Self]) -> Vec<u8> {
        if columns.is_empty() { Vec::new() } else { message_pack::encode(&columns) }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(encoded: &'a [u8]) -> Result<Vec<Self>, Error> {
        if encoded.is_empty() { Ok(Vec::new()) } else { message_pack::decode(encoded) }
    }
}
