//! A limit on the size of files (`ulimit -f`) fails the write that meets it; by default it would end the program without
//! a word.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Makes a write beyond the limit an error of that write, for as long as the program runs. Needs a runtime.
///
/// The signal is caught, which a program that is started from here does not inherit, as it would if it was ignored.
pub fn survive_file_size_limit() -> io::Result<()> {
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}
