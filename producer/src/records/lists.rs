//! Lists: jobs, logs, workers, what was removed; and the id of a job that is left to a fleet.

use prs_common::ledger::JobState;
use prs_orchestrator::gc::Amount;
use prs_orchestrator::job::workers::WorkerView;
use serde::Serialize;

use super::Job;
use crate::terminal::output::Versioned;

/// Jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Jobs {
    /// The jobs, in the order that was asked for.
    pub(crate) jobs: Vec<Versioned<Job>>,
    /// Jobs beyond the number that was asked for.
    pub(crate) left_out: u64,
}

/// A job that was submitted or resumed, and that nobody waits for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Submitted {
    /// Id of the job.
    job_id: String,
}

impl Submitted {
    /// The job with this id.
    pub(crate) fn new(job_id: &str) -> Self {
        Self { job_id: job_id.to_owned() }
    }
}

/// The logs of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Logs {
    /// The logs.
    pub(crate) logs: Vec<Log>,
}

/// A log.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Log {
    /// Its name, as `prs logs JOB --file NAME` takes it.
    pub(crate) file: String,
    /// Its size.
    pub(crate) bytes: u64,
}

/// The workers of a fleet.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Workers {
    /// The workers.
    pub(crate) workers: Vec<WorkerView>,
}

/// Jobs that were removed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Removed {
    /// The jobs.
    pub(crate) jobs: Vec<RemovedJob>,
}

/// A job that was removed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RemovedJob {
    /// Id of the job.
    pub(crate) job_id: String,
    /// Its name in the job file; null where it had no record any more.
    pub(crate) name: Option<String>,
    /// The state that it ended in; null where it had no record any more.
    #[cfg_attr(test, schemars(schema_with = "super::schema::state_or_null"))]
    pub(crate) state: Option<JobState>,
    /// When it was submitted, UTC, RFC 3339; null where it had no record any more.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    pub(crate) submitted: Option<String>,
    /// What it took, with its logs and results.
    pub(crate) bytes: u64,
}

/// What `gc` found, and removed where it was told to.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Collected {
    /// Whether it is removed; else it is only shown.
    pub(crate) removed: bool,
    /// Jobs that are kept no longer.
    pub(crate) jobs: Vec<ExpiredJob>,
    /// What is left in storage of ids that are no job, and of jobs whose removal was interrupted.
    pub(crate) leftovers: Vec<Leftover>,
    /// Uploaded inputs that no job names.
    pub(crate) inputs: Amount,
}

/// A job that is kept no longer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ExpiredJob {
    /// Id of the job, or the folder of its run.
    pub(crate) job_id: String,
    /// Its name in the job file.
    pub(crate) name: String,
    /// Until when it was to be kept, UTC, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    pub(crate) kept_until: String,
    /// What it takes, with its logs and results.
    pub(crate) bytes: u64,
}

/// What is left of an id that is no job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Leftover {
    /// The id.
    pub(crate) job_id: String,
    /// Objects.
    pub(crate) objects: u64,
    /// Bytes in them.
    pub(crate) bytes: u64,
}
