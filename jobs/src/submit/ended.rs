//! What becomes of a job that a call started: the end of it, with its output where it was wanted, or that it goes on.

use std::path::Path;

use prs_common::ledger::JobState;
use prs_common::storage::{Claim, Storage};
use prs_orchestrator::JobResult;
use prs_orchestrator::publish::Notes;

use super::output_copy::fetch_output;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::interrupts::Interrupts;

/// What became of a job that was started, or was to be.
#[derive(Debug)]
pub enum Ended {
    /// It has ended, or had already.
    Job {
        /// How.
        result: Box<JobResult>,
        /// What the job is called where it is.
        called: String,
        /// Why its output is not in every folder of this machine where it was wanted.
        not_filled: Option<Failure>,
    },
    /// A fleet has it, and nobody waits.
    HandedIn {
        /// Its id.
        job_id: String,
        /// `job` or `pipeline`.
        noun: &'static str,
    },
    /// The caller did not wait for the end.
    Left,
}

impl Ended {
    /// A job whose output is where it was wanted.
    pub(crate) fn job(result: JobResult, called: String) -> Self {
        Self::Job { result: Box::new(result), called, not_filled: None }
    }
}

/// Where the output of a job on a fleet is copied to at its end.
pub(crate) struct Target {
    /// Nothing else fills the folder meanwhile.
    pub(crate) _claim: Claim,
    /// What earlier starts of the job brought there.
    pub(crate) notes: Option<Notes>,
}

/// Fetches the output of a job that has ended to where it is wanted.
pub(crate) async fn end(
    (mut result, storage): (JobResult, &dyn Storage),
    target: Option<(&Path, Target)>,
    interrupts: &mut dyn Interrupts,
) -> Ended {
    let id = result.job_id.clone();
    let target = target.filter(|_| result.state == JobState::Completed);
    let fetched = match target {
        Some((folder, Target { _claim, notes })) => tokio::select! {
            fetched = fetch_output(storage, folder, &mut result.output, notes.as_ref()) => fetched,
            name = interrupts.next() => Err(Failure::interrupted(format_args!("interrupted ({name})"))),
        },
        None => Ok(()),
    };
    // The job has ended, whatever became of the copy.
    let not_filled = fetched.err().map(|failure| {
        failure
            .and(format_args!("`output` is not filled: prs result {id} --output-path DIR fetches the result"))
    });
    Ended::Job { result: Box::new(result), called: id, not_filled }
}

/// Says how the folder is filled that a job names and that nobody fills now.
pub(crate) fn note_unfilled(id: &str, folder: Option<&Path>, caller: &dyn Caller) {
    if let Some(folder) = folder {
        caller.note(&format_args!(
            "`output` is not filled; once the job has completed, prs result {id} --output-path {} fetches it",
            folder.display()
        ));
    }
}
