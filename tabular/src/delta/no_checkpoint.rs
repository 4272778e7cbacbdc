//! Checkpoints are not read: the program was built without the feature `parquet`.

use bytes::Bytes;

use super::DeltaError;
use super::action::Action;

/// Fails.
pub(super) fn read_checkpoint(
    file: &str,
    _: Bytes,
    _: impl FnMut(Action) -> Result<(), DeltaError>,
) -> Result<(), DeltaError> {
    Err(DeltaError::NoParquet(file.to_owned()))
}
