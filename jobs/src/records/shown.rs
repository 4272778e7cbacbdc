//! The settings of a job.

use prs_common::job::JobSpec;
use prs_common::ledger::JobState;
use serde::Serialize;

/// What `show -o json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shown {
    /// Id of the job.
    pub(crate) job_id: String,
    /// Its state.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::states"))]
    pub(crate) state: JobState,
    /// When it was submitted: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub(crate) submitted_at: String,
    /// The job whose output this one was given (`allow_reuse`); null where it ran, or has not ended.
    pub(crate) reused_from: Option<String>,
    /// Which start of the job this is: 1, and one more with each `resume`.
    pub(crate) start: u32,
    /// The version of prs that wrote the settings.
    pub(crate) version: String,
    /// The steps, in their order, of a pipeline and of a job whose rows are put together first; null for every other job.
    pub(crate) steps: Option<Vec<Step>>,
    /// The settings as that version has them; of a pipeline, what it is called alone says something.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub(crate) spec: JobSpec,
}

/// A step of a pipeline.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Step {
    /// Its name.
    pub(crate) name: String,
    /// Id of its job, which has its settings.
    pub(crate) job_id: String,
    /// The steps that it follows, by their names.
    pub(crate) needs: Vec<String>,
    /// The state of its job; null where that has not begun.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::state_or_null"))]
    pub(crate) state: Option<JobState>,
}
