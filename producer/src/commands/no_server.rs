//! No server: the program was built without the feature `serve`.

#![expect(clippy::unused_async, reason = "the other one serves")]

use std::process::ExitCode;

use prs_common::absent::absent;

use crate::cli::{Format, Serve, TakeUp};
use crate::failure::Failure;

/// Fails.
pub(super) async fn serve(_: &Serve, _: Format) -> Result<ExitCode, Failure> {
    Err(Failure::wrong(absent("server", "serve")))
}

/// Fails.
pub(super) async fn take_up(_: &TakeUp) -> Result<ExitCode, Failure> {
    Err(Failure::wrong(absent("server", "serve")))
}
