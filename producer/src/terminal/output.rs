//! What the program prints: data on standard output, everything else on standard error (spec section 7).
//!
//! Data that cannot be printed is a failure of the command, unless its reader went away. What standard error does not
//! take, because the disk behind it is full or its reader is gone, is lost and changes nothing.

use std::fmt::{self, Display};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use indicatif::ProgressBar;
use prs_jobs::records::Versioned;
use serde::Serialize;

use super::visible::visible;
use super::{colours, shape, table};
use crate::failure::{CommandError, Failure};

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// The progress bar that is shown.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Whether data and errors are all that is printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether anything was printed on standard output.
static IS_PRINTED: AtomicBool = AtomicBool::new(false);

/// Has everything that is printed from here on be as the command line wants it.
pub(crate) fn begin(color: clap::ColorChoice, quiet: bool) {
    colours::choose(color);
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Prints why the command failed; for programs, which read one object whatever happens, also on standard output. Scripts that ask
/// for a part of the data see that there is none.
pub(crate) fn print_failure(failure: &Failure, format: Format) {
    write_stderr(format_args!("{} {failure}", colours::error("error:")));
    if format == Format::Json && !shape::is_chosen() && !IS_PRINTED.load(Ordering::Relaxed) {
        print_failure_record(failure);
    }
}

/// Prints for programs why the command failed. What standard output does not take, standard error has.
pub(crate) fn print_failure_record(failure: &Failure) {
    let _ = json(&CommandError::from(failure));
}

/// Prints something that is no data, unless the user wants quiet; above the progress bar, where one is shown.
pub(crate) fn note(text: impl Display) {
    if !QUIET.load(Ordering::Relaxed) {
        print_error(text);
    }
}

/// Prints what went wrong, also to a user who wants quiet; above the progress bar, where one is shown.
pub(crate) fn print_error(text: impl Display) {
    let write = || write_stderr(format_args!("{text}"));
    match &*BAR.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

fn write_stderr(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", visible(&line.to_string()));
}

/// Asks something; the answer comes on the same line.
pub(crate) fn ask(question: impl Display) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
}

/// The progress bar that is shown, or none any more.
pub(crate) fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Whether a person watches standard error, and wants to.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal() && !QUIET.load(Ordering::Relaxed)
}

/// Prints a record: for programs as it is, for people as a text.
pub(crate) fn print<R: Serialize>(
    format: Format,
    record: &R,
    text_of: impl FnOnce(&R) -> String,
) -> Result<(), Failure> {
    match format {
        Format::Json => json(record),
        Format::Table => text(&text_of(record)),
    }
}

/// Prints a record for programs.
pub(crate) fn json(record: &impl Serialize) -> Result<(), Failure> {
    let record = Versioned::from(record);
    if shape::is_chosen() {
        let record = serde_json::to_value(&record).expect("only plain values are printed");
        return bytes(shape::of(record)?.as_bytes());
    }
    let text = serde_json::to_string_pretty(&record).expect("only plain values are printed");
    bytes(format!("{text}\n").as_bytes())
}

/// Prints bytes as they stand. A reader that went away is no error.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    IS_PRINTED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("cannot write to standard output").into())
        }
        _ => Ok(()),
    }
}

/// Prints text for people.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    bytes(visible(text).as_bytes())
}

/// Prints one line.
pub(crate) fn line(line: &str) -> Result<(), Failure> {
    text(&format!("{line}\n"))
}

/// Prints names and values, one a line.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> Result<(), Failure> {
    text(&table::pairs(pairs))
}
