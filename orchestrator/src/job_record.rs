//! `job.json`: what a job is, where it stands, and how it ended.

use prs_common::job::JobSpec;
use prs_common::layout;
use prs_common::ledger::{JobState, Progress};
use prs_common::storage::{PutOptions, Storage, StorageError, StorageErrorKind};
use prs_common::timestamp::now_us;
use serde::{Deserialize, Serialize};

/// The content of `job.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Id of the job.
    pub job_id: String,
    /// Version of prs that wrote this.
    pub prs_version: String,
    /// How often the job was started: 1, and one more with each `resume`.
    pub incarnation: u32,
    /// When the job was submitted, microseconds since the Unix epoch.
    pub submitted_us: u64,
    /// When this start of it was asked for, microseconds since the Unix epoch.
    pub started_us: u64,
    /// Name of the code archive.
    pub code: String,
    /// The settings.
    pub spec: JobSpec,
    /// Where the job stands.
    pub state: JobState,
    /// What is known of the run so far.
    pub status: Status,
    /// How the job ended.
    pub result: Option<JobResult>,
}

/// The run so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Status {
    /// When this was written, microseconds since the Unix epoch.
    pub updated_us: u64,
    /// Seconds since this incarnation started.
    pub seconds: f64,
    /// The counts.
    pub progress: Progress,
    /// Nodes that serve the job.
    pub nodes: u32,
    /// Processes that are up.
    pub processes: u32,
    /// Mini-batches that got their outcome a second, over the last seconds.
    pub per_second: f64,
    /// Seconds until the end, where they can be estimated.
    pub eta_seconds: Option<f64>,
}

/// How a job ended; the object that `submit -o json` prints (spec section 7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Id of the job.
    pub job_id: String,
    /// Its name.
    pub name: String,
    /// `completed`, `failed` or `canceled`.
    pub state: JobState,
    /// Why it failed or was canceled.
    pub reason: Option<String>,
    /// The result.
    pub output: Output,
    /// Where the logs are.
    pub logs: String,
    /// Mini-batches.
    pub mini_batches: MiniBatchCounts,
    /// Input items.
    pub items: ItemCounts,
    /// Seconds the last incarnation took.
    pub seconds: f64,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Output {
    /// The result file of `append_row`, or the folder of the output.
    pub uri: String,
    /// Rows returned by the entry script.
    pub rows: u64,
    /// Size of the result file, bytes.
    pub bytes: u64,
    /// Checksum of the result file, in hexadecimal; absent where there is none.
    pub sha256: Option<String>,
}

/// Counts of mini-batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MiniBatchCounts {
    /// Planned.
    pub scheduled: u64,
    /// With a try that succeeded.
    pub succeeded: u64,
    /// Without.
    pub failed: u64,
}

impl From<&Progress> for MiniBatchCounts {
    fn from(progress: &Progress) -> Self {
        Self {
            scheduled: progress.checkpoint.scheduled,
            succeeded: progress.succeeded,
            failed: progress.failed,
        }
    }
}

/// Counts of input items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ItemCounts {
    /// In mini-batches that have their outcome.
    pub total: u64,
    /// Of these, succeeded.
    pub succeeded: u64,
    /// Of these, failed.
    pub failed: u64,
}

impl From<&Progress> for ItemCounts {
    fn from(progress: &Progress) -> Self {
        Self { total: progress.items, succeeded: progress.items_succeeded, failed: progress.items_failed() }
    }
}

/// Why `job.json` cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JobRecordError {
    /// There is none: the place holds no job.
    #[error("{place} holds no job: there is no job.json")]
    Absent {
        /// Where it was looked for.
        place: String,
    },
    /// The store failed.
    #[error(transparent)]
    Storage(StorageError),
    /// It is not what this version of prs writes.
    #[error("{place}/job.json cannot be understood: {source}")]
    Damaged {
        /// Where it is.
        place: String,
        /// The reason.
        source: serde_json::Error,
    },
}

impl JobRecord {
    /// The record of a new job.
    pub fn new(job_id: String, code: String, spec: JobSpec) -> Self {
        let now = now_us();
        Self {
            job_id,
            prs_version: env!("CARGO_PKG_VERSION").to_owned(),
            incarnation: 1,
            submitted_us: now,
            started_us: now,
            code,
            spec,
            state: JobState::Queued,
            status: Status::default(),
            result: None,
        }
    }

    /// Reads the record of the job in `storage`.
    pub async fn read(storage: &dyn Storage) -> Result<Self, JobRecordError> {
        let body = storage.get(layout::JOB).await.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => JobRecordError::Absent { place: storage.to_string() },
            _ => JobRecordError::Storage(error),
        })?;
        serde_json::from_slice(&body)
            .map_err(|source| JobRecordError::Damaged { place: storage.to_string(), source })
    }

    /// Whether it completed and nothing is left to resume.
    pub fn is_done_with(&self) -> bool {
        let result = self.result.as_ref();
        result.is_some_and(|result| result.state == JobState::Completed && result.mini_batches.failed == 0)
    }

    /// Writes the record.
    pub async fn write(&self, storage: &dyn Storage) -> Result<(), StorageError> {
        let body = serde_json::to_vec_pretty(self).expect("a record holds only plain values");
        storage.put(layout::JOB, body.into(), PutOptions::default()).await
    }
}
