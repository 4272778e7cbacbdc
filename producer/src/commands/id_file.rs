//! `--id-file`: the id of a job, for the program that started this one, while the job runs.
//!
//! Standard output has the record of a job at its end. Who follows a job meanwhile, or ends it, needs its id before.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use futures_util::future::BoxFuture;
use prs_jobs::{Caller, Interrupts, JobView, Uploads};

use crate::failure::Failure;
use crate::progress::Screen;
use crate::terminal::output;

/// The screen, and the file; none where nobody wants one.
#[derive(Debug)]
pub(super) struct IdFile {
    path: Option<PathBuf>,
    /// Empty until there is an id.
    file: Mutex<Option<File>>,
}

impl IdFile {
    /// That at `path`, which is not made yet.
    pub(super) fn at(path: Option<PathBuf>) -> Self {
        Self { path, file: Mutex::default() }
    }

    fn file(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller for IdFile {
    /// Makes the file: one that cannot be written is refused while nothing is lost by that.
    fn prepare(&self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let made = File::create(path).with_context(|| format!("cannot make --id-file {}", path.display()));
        *self.file() = Some(made.map_err(Failure::usage)?);
        Ok(())
    }

    /// Writes the id and the end of the line at once: who reads a whole line has all of it. The job goes on without it.
    fn begins(&self, job_id: &str) {
        let Some(mut file) = self.file().take() else { return };
        if let Err(error) = file.write_all(format!("{job_id}\n").as_bytes()) {
            output::print_error(format_args!("cannot write --id-file: {error}"));
        }
    }

    fn note(&self, text: &dyn Display) {
        Screen.note(text);
    }

    fn error(&self, text: &dyn Display) {
        Screen.error(text);
    }

    fn interrupts(&self) -> Result<Box<dyn Interrupts>, Failure> {
        Screen.interrupts()
    }

    fn follow(&self, job: JobView) -> BoxFuture<'static, ()> {
        Screen.follow(job)
    }

    fn uploads(&self) -> Box<dyn Uploads> {
        Screen.uploads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_id_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id");
        let file = IdFile::at(Some(path.clone()));
        file.prepare().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        file.begins("words-1");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "words-1\n");
        let refused = IdFile::at(Some(folder.path().join("none/id"))).prepare().unwrap_err();
        assert!(refused.to_string().contains("cannot make --id-file"), "{refused}");
    }
}
