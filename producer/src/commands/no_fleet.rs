//! No fleet: the program was built without the feature `fleet`.

#![expect(clippy::unused_async, reason = "the other one asks the fleet")]

use std::process::ExitCode;

use prs_common::absent::absent;

use crate::cli::{Format, Worker, Workers};
use crate::failure::Failure;

/// Fails.
pub(super) async fn worker(_: Worker) -> Result<ExitCode, Failure> {
    Err(Failure::wrong(absent("fleet", "fleet")))
}

/// Fails.
pub(super) async fn workers(_: &Workers, _: Format) -> Result<ExitCode, Failure> {
    Err(Failure::wrong(absent("fleet", "fleet")))
}
