//! The schema of one frame: what the process says of the columns beside the rows.
//!
//! A header is an encapsulated schema message of Arrow, with the metadata of pandas, compressed with zstd, in base64.

use std::io::Read;

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_schema::Field;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::FrameError;
use super::pandas::Pandas;
use super::types::normal;

/// A longer schema is none, bytes.
const LONGEST: u64 = 64 << 20;

/// The columns of a frame.
#[derive(Debug, Clone)]
pub struct FrameSchema {
    /// In the types that a file has.
    pub(super) fields: Vec<Field>,
    pub(super) pandas: Pandas,
}

impl FrameSchema {
    /// Understands the header of a frame.
    pub fn decode(header: &str) -> Result<Self, FrameError> {
        let unreadable = |error: &dyn std::fmt::Display| FrameError::Header(error.to_string());
        let compressed = STANDARD.decode(header).map_err(|error| unreadable(&error))?;
        let mut message = Vec::new();
        let decoder = zstd::Decoder::new(&compressed[..]).map_err(|error| unreadable(&error))?;
        decoder.take(LONGEST).read_to_end(&mut message).map_err(|error| unreadable(&error))?;
        let schema = try_schema_from_ipc_buffer(&message).map_err(|error| unreadable(&error))?;
        let pandas = schema.metadata().get("pandas").map(|text| Pandas::parse(text)).unwrap_or_default();
        Ok(Self { fields: schema.fields().iter().map(|field| normal(field)).collect(), pandas })
    }
}
