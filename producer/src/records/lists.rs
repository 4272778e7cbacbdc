//! Lists: jobs, logs, workers, what was removed; and the id of a job that is left to a fleet.

#![expect(clippy::struct_field_names, reason = "the fields are keys of JSON")]

use prs_common::ledger::JobState;
use prs_orchestrator::job::workers::WorkerView;
use serde::Serialize;

use super::{Job, SCHEMA};

/// Jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Jobs {
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: u32,
    /// The jobs, in the order that was asked for.
    pub(crate) jobs: Vec<Job>,
    /// Jobs beyond the number that was asked for.
    pub(crate) left_out: u64,
}

/// A job that was submitted or resumed, and that nobody waits for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Submitted {
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: u32,
    /// Id of the job.
    job_id: String,
}

impl Submitted {
    /// The job with this id.
    pub(crate) fn new(job_id: &str) -> Self {
        Self { schema: SCHEMA, job_id: job_id.to_owned() }
    }
}

/// The logs of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Logs {
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: u32,
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
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: u32,
    /// The workers.
    pub(crate) workers: Vec<Worker>,
}

/// A worker.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Worker {
    /// Its name, the same as long as it runs.
    pub(crate) worker: String,
    /// Its host.
    pub(crate) host: String,
    /// Address of the host.
    ip: String,
    /// The compute targets that it looks for jobs of; of a busy one that of its job.
    pub(crate) targets: Vec<String>,
    /// Processes it runs, or may run.
    pub(crate) slots: u32,
    /// The job that it serves; null where it is idle.
    pub(crate) job: Option<String>,
    /// Its version of prs.
    pub(crate) version: String,
    /// How long ago it was heard of, seconds.
    pub(crate) seen_seconds: f64,
}

impl From<WorkerView> for Worker {
    fn from(of: WorkerView) -> Self {
        let WorkerView { worker, host, ip, targets, slots, job, version, seen_seconds } = of;
        Self { worker, host, ip, targets, slots, job, version, seen_seconds }
    }
}

/// Jobs that were removed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Removed {
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: u32,
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
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: u32,
    /// Whether it is removed; else it is only shown.
    pub(crate) removed: bool,
    /// Jobs that are kept no longer.
    pub(crate) jobs: Vec<ExpiredJob>,
    /// What is left in storage of ids that are no job, and of jobs whose removal was interrupted.
    pub(crate) leftovers: Vec<Leftover>,
    /// Uploaded inputs that no job names.
    pub(crate) inputs: Inputs,
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

/// Uploaded inputs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Inputs {
    /// How many.
    pub(crate) objects: u64,
    /// Bytes in them.
    pub(crate) bytes: u64,
}
