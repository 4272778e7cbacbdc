//! The browser of the user.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// What opens a file or an address in the browser.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// Opens a file or an address in the browser, which goes on without this program.
pub(super) fn open(what: &OsStr) -> Result<(), Failure> {
    let starts = |program: &str| {
        let quiet = || Stdio::null();
        Command::new(program).arg(what).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().is_ok()
    };
    if OPENERS.iter().any(|program| starts(program)) {
        return Ok(());
    }
    Err(Failure::wrong(format!(
        "there is no {} here to open {} with",
        OPENERS.join(" and no "),
        what.display()
    )))
}
