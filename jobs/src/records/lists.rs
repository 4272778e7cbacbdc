//! Lists: jobs, logs, workers, what was removed; and the id of a job that is left to a fleet.

use prs_common::ledger::JobState;
use prs_orchestrator::gc::Amount;
use prs_orchestrator::job::workers::WorkerView;
use serde::Serialize;

use super::{Job, Versioned};

/// Jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jobs {
    /// The jobs, in the order that was asked for.
    pub jobs: Vec<Versioned<Job>>,
    /// Jobs beyond the number that was asked for.
    pub left_out: u64,
}

/// A job that was submitted or resumed, and that nobody waits for.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Submitted {
    /// Id of the job.
    job_id: String,
}

impl Submitted {
    /// The job with this id.
    pub fn new(job_id: &str) -> Self {
        Self { job_id: job_id.to_owned() }
    }
}

/// The page about a job that was written.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportMade {
    /// Id of the job.
    pub job_id: String,
    /// The file.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it has pictures: the job has statistics.
    pub has_statistics: bool,
}

/// A server that runs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Served {
    /// Its address.
    pub url: String,
    /// A link that logs a browser in, once; null where nobody has to log in.
    pub link: Option<String>,
}

/// The logs of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Logs {
    /// The logs.
    pub logs: Vec<Log>,
}

/// A log.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Log {
    /// Its name, as `prs logs JOB --file NAME` takes it.
    pub file: String,
    /// Its size.
    pub bytes: u64,
}

/// A log of a job, or a folder of them, as a page of their list has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogEntry {
    /// Its name, as `prs logs JOB --file NAME` takes it; that of a folder ends in `/`.
    pub path: String,
    /// Of which kind it is: `result`, `error`, `progress`, `system`, `process`, `stdout`, `stderr`, `entry_script`, `perf`; null of others, and
    /// of a folder.
    pub kind: Option<&'static str>,
    /// The node that wrote it, or whose logs the folder has; null where it is of none.
    pub node_id: Option<u32>,
    /// The process of that node; null where it is of none.
    pub process: Option<String>,
    /// Its size; null of a folder.
    pub bytes: Option<u64>,
    /// When it was written last: UTC, RFC 3339; null of a folder, and where the storage does not say.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub modified_at: Option<String>,
    /// Whether it grows: the job has not ended, and it was written within the last minute.
    pub growing: bool,
}

/// The workers of a fleet.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Workers {
    /// The workers.
    pub workers: Vec<WorkerView>,
}

/// Jobs that were removed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Removed {
    /// The jobs.
    pub jobs: Vec<RemovedJob>,
}

/// A job that was removed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemovedJob {
    /// Id of the job.
    pub job_id: String,
    /// Its name in the job file; null where it had no record any more.
    pub name: Option<String>,
    /// The state that it ended in; null where it had no record any more.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::state_or_null"))]
    pub state: Option<JobState>,
    /// When it was submitted, UTC, RFC 3339; null where it had no record any more.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub submitted_at: Option<String>,
    /// What it took, with its logs and results.
    pub bytes: u64,
}

/// What `gc` found, and removed where it was told to.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Collected {
    /// Whether it is removed; else it is only shown.
    pub removed: bool,
    /// Jobs that are kept no longer.
    pub jobs: Vec<ExpiredJob>,
    /// What is left in storage of ids that are no job, and of jobs whose removal was interrupted.
    pub leftovers: Vec<Leftover>,
    /// Uploaded inputs that no job names.
    pub inputs: Amount,
    /// Objects with lines of the audit that are older than 400 days.
    pub audit: u64,
}

/// A job that is kept no longer.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExpiredJob {
    /// Id of the job, or the folder of its run.
    pub job_id: String,
    /// Its name in the job file.
    pub name: String,
    /// Until when it was to be kept, UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub keep_until: String,
    /// What it takes, with its logs and results.
    pub bytes: u64,
}

/// What is left of an id that is no job.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leftover {
    /// The id.
    pub job_id: String,
    /// Objects.
    pub objects: u64,
    /// Bytes in them.
    pub bytes: u64,
}
