//! `job.json`: what a job is, where it stands, and how it ended.

mod removal_mark;

use std::collections::BTreeMap;

use prs_common::end_reason::EndReason;
use prs_common::job::JobSpec;
use prs_common::job::pipeline::{Parent, Pipeline, step_id};
use prs_common::job::prepared;
use prs_common::layout;
use prs_common::ledger::{JobProgress, JobState};
use prs_common::seal::{self, Seal};
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt, Version};
use prs_common::timestamp::now_us;
use prs_common::traces;
use serde::{Deserialize, Serialize};

use crate::inputs::listed::Listed;
use crate::job::corrected_plan::CorrectedPlan;
use crate::job::findings::{Findings, LastStart};

pub(crate) use self::removal_mark::RemovalMark;
pub use crate::job::status::{LostNode, ProcessAtWork, Rates, Status};

/// How often others may write a record between reading and writing it.
pub(crate) const CONFLICTS: usize = 10;

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
    /// Key of the code archive that this start runs.
    pub code: String,
    /// The plan, where inputs were corrected after a former start; else it is made of the inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<CorrectedPlan>,
    /// The starts before this one, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_starts: Vec<FormerStart>,
    /// The settings.
    pub spec: JobSpec,
    /// What jobs with the same output have in common; nothing where the job gives its output to no other (see
    /// [`reuse`](super::reuse)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// What was listed of local files, once the job has ended; nothing where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Box<Listed>>,
    /// Checksum (SHA-256, in hexadecimal) of the list of the files that mini-batches brought to the output
    /// ([`layout::output_files`]), once the job has ended, if they brought any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<String>,
    /// Where the job stands.
    pub state: JobState,
    /// What is known of the run so far.
    pub status: Status,
    /// How the job ended.
    pub result: Option<JobResult>,
    /// The end of the last start with a result, where this one is no such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_end: Option<Box<FormerEnd>>,
    /// The folder of the statistics of this start, once it has ended; nothing where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<String>,
    /// Until when the job is kept, where that was said after it was handed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// The steps, where the job is a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Box<PipelinePlan>>,
    /// The pipeline that the job is a step of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The span of the request that asked for this start, as a header `traceparent`; nothing where nobody traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What storage had when this was read or written; nothing when it was never stored.
    #[serde(skip)]
    pub version: Option<Version>,
}

/// Until when a job is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Microseconds since the Unix epoch; nothing where it is kept until `rm` removes it.
    pub until_us: Option<u64>,
}

/// A start of a job that was followed by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerStart {
    /// Which one, from 1.
    pub incarnation: u32,
    /// Key of the code archive that it ran.
    pub code: String,
}

/// How a start ended that has a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormerEnd {
    /// Which start, from 1.
    pub start: u32,
    /// How.
    pub result: JobResult,
    /// Counts and rates at its end.
    pub status: Status,
    /// The folder of its statistics.
    pub statistics: Option<String>,
    /// Checksum of the list of the files that its mini-batches brought.
    pub brought: Option<String>,
}

/// The steps of a pipeline that was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelinePlan {
    /// The steps. On a fleet, what of their inputs is not bound to other steps is listed and uploaded.
    pub pipeline: Pipeline,
    /// Key of the code archive of each step, by its name, in the prefix of its job.
    pub codes: BTreeMap<String, String>,
    /// The plan of each step whose own inputs were corrected before this start of the pipeline, by its name, in that prefix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub corrected: BTreeMap<String, CorrectedPlan>,
}

impl PipelinePlan {
    /// The plan of a new pipeline.
    pub fn new(pipeline: Pipeline, codes: BTreeMap<String, String>) -> Self {
        Self { pipeline, codes, corrected: BTreeMap::new() }
    }
}

/// How a step of a pipeline ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Its name.
    pub name: String,
    /// Id of its job.
    pub job_id: String,
    /// How its job ended; nothing where it was not run.
    pub result: Option<Box<JobResult>>,
}

/// How a job ended (spec section 7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Id of the job.
    pub job_id: String,
    /// Its name.
    pub name: String,
    /// When it was submitted, microseconds since the Unix epoch.
    #[serde(default)]
    pub submitted_us: u64,
    /// When it ended; nothing in results of versions before 0.2.0, and while it has not.
    #[serde(default)]
    pub ended_us: Option<u64>,
    /// Until when the job is kept, microseconds since the Unix epoch; nothing where it is kept until `rm` removes it.
    #[serde(default)]
    pub kept_until_us: Option<u64>,
    /// `completed`, `failed` or `canceled`.
    pub state: JobState,
    /// Why it failed or was canceled.
    pub reason: Option<String>,
    /// The job whose output this one was given, because it had the same code, settings and inputs; nothing where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<String>,
    /// The result.
    pub output: Output,
    /// Where the logs are.
    pub logs: String,
    /// Mini-batches.
    pub mini_batches: MiniBatchCounts,
    /// Input items.
    pub items: ItemCounts,
    /// Seconds that the last start ran: from its first node to its end.
    pub seconds: f64,
    /// Seconds that it waited for that node.
    #[serde(default)]
    pub waited_seconds: f64,
    /// What each start of the job brought to its result, and with which code; empty where nobody could tell.
    #[serde(default)]
    pub starts: Vec<StartResult>,
    /// Whether all is in the result, and why not.
    #[serde(flatten)]
    pub findings: Findings,
    /// How the steps ended, where the job is a pipeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepResult>,
}

impl JobResult {
    /// Whether the job has a result: it completed, or failed because that cannot be delivered.
    pub fn has_result(&self) -> bool {
        self.state == JobState::Completed
            || (self.state == JobState::Failed
                && self.reason.as_deref().is_some_and(EndReason::is_not_delivered))
    }

    /// State and reason of the last start, which may be one that left the result of a former one.
    pub fn last_end(&self) -> (JobState, Option<&str>) {
        let last = self.findings.last_start.as_ref();
        last.map_or((self.state, self.reason.as_deref()), |last| (last.state, Some(&*last.reason)))
    }

    /// Whether the job completed with every item.
    pub fn is_complete(&self) -> bool {
        let is_complete = |step: &StepResult| step.result.as_ref().is_none_or(|result| result.is_complete());
        self.state == JobState::Completed
            && self.mini_batches.failed == 0
            && self.items.failed == 0
            && self.steps.iter().all(is_complete)
    }
}

/// What one start of a job brought to its result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartResult {
    /// 1 for the first start, and one more with each `resume`.
    pub start: u32,
    /// Checksum (SHA-256, in hexadecimal) of the code that it ran.
    pub code: String,
    /// Mini-batches whose rows in the result are of this start.
    pub mini_batches: u64,
    /// Their rows.
    pub rows: u64,
    /// The first and the last of each group of them that follow one another, as far as these are listed.
    pub ranges: Vec<(u64, u64)>,
    /// Groups that are not listed.
    pub ranges_left_out: u64,
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

impl Output {
    /// The result file; nothing where there is none.
    pub fn file(&self) -> Option<&str> {
        self.sha256.as_ref().map(|_| &*self.uri)
    }

    /// The folder of the output.
    pub fn folder(&self) -> &str {
        match self.file() {
            Some(file) => file.rsplit_once('/').map_or("", |(folder, _)| folder),
            None => self.uri.trim_end_matches('/'),
        }
    }
}

/// Counts of mini-batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MiniBatchCounts {
    /// Planned so far.
    pub scheduled: u64,
    /// With a try that succeeded.
    pub succeeded: u64,
    /// Without, and no try is left.
    pub failed: u64,
}

impl From<&JobProgress> for MiniBatchCounts {
    fn from(progress: &JobProgress) -> Self {
        Self {
            scheduled: progress.checkpoint.scheduled,
            succeeded: progress.succeeded,
            failed: progress.failed,
        }
    }
}

/// Counts of items: files, or rows of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ItemCounts {
    /// In mini-batches that have their outcome.
    pub total: u64,
    /// Of these, succeeded.
    pub succeeded: u64,
    /// Of these, failed: they are not in the result.
    pub failed: u64,
}

impl From<&JobProgress> for ItemCounts {
    fn from(progress: &JobProgress) -> Self {
        Self { total: progress.items, succeeded: progress.items_succeeded, failed: progress.items_failed() }
    }
}

/// Why `job.json` cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JobRecordError {
    /// There is none: the place holds no job.
    #[error("{place} holds no job: {}", if *.removed { "it is being removed" } else { "there is no job.json" })]
    Absent {
        /// Where it was looked for.
        place: String,
        /// Whether its removal has begun.
        removed: bool,
    },
    /// The store failed.
    #[error(transparent)]
    Storage(StorageError),
    /// It is not what this version of prs writes.
    #[error("{place}/job.json cannot be understood: {source}")]
    Malformed {
        /// Where it is.
        place: String,
        /// The reason.
        source: serde_json::Error,
    },
    /// Another version of prs wrote it, in another form.
    #[error("{place} holds a job of prs {version}, which prs {} does not understand: use that version for it", env!("CARGO_PKG_VERSION"))]
    OtherVersion {
        /// Where it is.
        place: String,
        /// The version.
        version: String,
    },
    /// It is not what was written.
    #[error(
        "{place}/job.json is damaged: its checksum is another; what storage gives back is not what prs wrote there"
    )]
    Damaged {
        /// Where it is.
        place: String,
    },
}

impl JobRecordError {
    /// Whether the record is there, of this version, and no program can read it.
    pub fn is_for_good(&self) -> bool {
        matches!(self, Self::Malformed { .. } | Self::Damaged { .. })
    }
}

impl JobRecord {
    /// What is known of a start of a job of `target` whose record cannot be read.
    pub fn unread(job_id: &str, incarnation: u32, target: &str) -> Self {
        let mut spec = JobSpec::new(job_id, "/", "", Vec::new());
        target.clone_into(&mut spec.compute_target);
        Self { incarnation, ..Self::new(job_id.to_owned(), String::new(), spec) }
    }

    /// The result so far, but for what only its home knows: where its output and its logs are, and why it was interrupted.
    pub fn result_so_far(&self) -> JobResult {
        let progress = &self.status.progress;
        JobResult {
            job_id: self.job_id.clone(),
            name: self.spec.name.clone(),
            submitted_us: self.submitted_us,
            ended_us: None,
            kept_until_us: None,
            state: self.state,
            reason: None,
            reused: None,
            output: Output::default(),
            logs: String::new(),
            mini_batches: progress.into(),
            items: progress.into(),
            seconds: self.status.seconds,
            waited_seconds: self.status.waited_seconds,
            starts: Vec::new(),
            findings: Findings { failures_allowed: self.spec.failures_allowed, ..Findings::default() },
            steps: Vec::new(),
        }
    }

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
            corrected: None,
            former_starts: Vec::new(),
            spec,
            recipe: None,
            listed: None,
            brought: None,
            state: JobState::Queued,
            status: Status::default(),
            result: None,
            former_end: None,
            statistics: None,
            kept: None,
            pipeline: None,
            parent: None,
            traceparent: traces::current().map(|span| span.to_string()),
            version: None,
        }
    }

    /// The job that this one is in the eyes of the user, where steps in front of that only put its data together.
    pub fn main_step(&self) -> Option<String> {
        let main = self.pipeline.as_ref()?.pipeline.main.as_ref()?;
        Some(step_id(&self.job_id, main))
    }

    /// The job as the user submitted it, of one that puts its data together in steps: with their settings, and the code of
    /// their script. Any other as it is.
    #[must_use]
    pub fn as_given(&self) -> Self {
        let given = self.pipeline.as_deref().and_then(|PipelinePlan { pipeline, codes, .. }| {
            let code = codes.get(pipeline.main.as_ref()?)?;
            Some((prepared::as_given(pipeline)?, code.clone()))
        });
        match given {
            Some((spec, code)) => Self { spec, code, pipeline: None, ..self.clone() },
            None => self.clone(),
        }
    }

    /// What it is to the user.
    pub fn noun(&self) -> &'static str {
        if self.pipeline.is_some() && self.main_step().is_none() { "pipeline" } else { "job" }
    }

    /// The record of a pipeline; `spec` says what it is called.
    pub fn of_pipeline(job_id: String, spec: JobSpec, plan: PipelinePlan) -> Self {
        Self { pipeline: Some(Box::new(plan)), ..Self::new(job_id, String::new(), spec) }
    }

    /// Reads the record of the job in `storage`.
    pub async fn read(storage: &dyn Storage) -> Result<Self, JobRecordError> {
        let (body, version) = storage.get_versioned(layout::JOB).await.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => {
                JobRecordError::Absent { place: storage.to_string(), removed: false }
            }
            StorageErrorKind::Damaged => JobRecordError::Damaged { place: storage.to_string() },
            _ => JobRecordError::Storage(error),
        })?;
        if RemovalMark::parse(&body).is_some() {
            return Err(JobRecordError::Absent { place: storage.to_string(), removed: true });
        }
        let seal = seal::check(&body);
        let damaged = || JobRecordError::Damaged { place: storage.to_string() };
        if seal == Seal::Broken {
            return Err(damaged());
        }
        let mut record: Self = serde_json::from_slice(&body).map_err(|source| {
            let place = storage.to_string();
            match other_version(&body) {
                Some(version) => JobRecordError::OtherVersion { place, version },
                None => JobRecordError::Malformed { place, source },
            }
        })?;
        // Records of versions before 0.2.0 have none.
        if seal == Seal::Absent && record.prs_version == env!("CARGO_PKG_VERSION") {
            return Err(damaged());
        }
        if let Some(result) = &mut record.result {
            // Records of versions before 0.2.0 do not say so.
            result.findings.complete = result.is_complete();
            result.submitted_us = record.submitted_us;
            if let Some(kept) = record.kept {
                result.kept_until_us = kept.until_us;
            }
        }
        record.version = Some(version);
        Ok(record)
    }

    /// Whether it completed and nothing is left to resume: no mini-batch failed, and no item is missing.
    pub fn is_done_with(&self) -> bool {
        self.result.as_ref().is_some_and(JobResult::is_complete)
    }

    /// Starts the job again: what is missing or failed of it is to run.
    pub fn start_again(&mut self) {
        let start = self.result_start();
        self.former_starts.push(FormerStart { incarnation: self.incarnation, code: self.code.clone() });
        self.incarnation += 1;
        self.started_us = now_us();
        self.state = JobState::Queued;
        let (statistics, brought) = (self.statistics.take(), self.brought.take());
        if let Some(mut result) = self.result.take().filter(JobResult::has_result) {
            result.findings.last_start = None;
            let status = self.status.clone();
            self.former_end = Some(Box::new(FormerEnd { start, result, status, statistics, brought }));
        }
        self.traceparent = traces::current().map(|span| span.to_string());
    }

    /// Starts the job again; nothing of what former starts brought stands any more.
    pub fn start_anew(&mut self) {
        (self.result, self.former_end) = (None, None);
        self.start_again();
    }

    /// The start that the result is of, from 1.
    pub(crate) fn result_start(&self) -> u32 {
        let last = self.result.as_ref().and_then(|result| result.findings.last_start.as_ref());
        last.map_or(self.incarnation, |last| last.result_of)
    }

    /// Ends this start with `result`. Where that is none, and a former start had one, that stands, and says how this one ended.
    /// May be repeated: the record may have to be written again.
    pub(crate) fn end_with(&mut self, result: JobResult) {
        match self.former_end.as_deref().cloned() {
            Some(FormerEnd { start: result_of, result: mut stands, status, statistics, brought })
                if !result.has_result() =>
            {
                let (start, state) = (self.incarnation, result.state);
                let reason = result.reason.unwrap_or_default();
                let last = LastStart { start, result_of, state, reason };
                stands.findings.last_start = Some(Box::new(last));
                (self.state, self.status, self.statistics) = (stands.state, status, statistics);
                (self.result, self.brought) = (Some(stands), brought);
            }
            _ => {
                self.state = result.state;
                (self.result, self.former_end) = (Some(result), None);
            }
        }
    }

    /// Writes the record, when storage has it as it was last read or written here; one that was never stored, when there is
    /// none. Else the call fails: with [`StorageErrorKind::Changed`], `NotFound` or `AlreadyExists`.
    pub async fn write(&mut self, storage: &dyn Storage) -> Result<(), StorageError> {
        let body = serde_json::to_string_pretty(self).expect("a record holds only plain values");
        let mode = self.version.clone().map_or(PutMode::Create, PutMode::Update);
        self.version = Some(storage.put(layout::JOB, seal::seal(body).into(), mode).await?);
        Ok(())
    }

    /// Writes the record of a new job; false when `storage` holds a job already.
    pub async fn create(&mut self, storage: &dyn Storage) -> Result<bool, StorageError> {
        match self.write(storage).await {
            Err(error) if error.kind == StorageErrorKind::AlreadyExists => Ok(false),
            written => written.map(|()| true),
        }
    }

    /// Writes the record, unless storage has one that stands: of another start of the job, or with a result. That one is
    /// given back then.
    pub async fn write_unless_ended(
        &mut self,
        storage: &dyn Storage,
    ) -> Result<Option<Self>, JobRecordError> {
        let mut again = 0..CONFLICTS;
        loop {
            match self.write(storage).await {
                Err(error) if is_conflict(error.kind) && again.next().is_some() => {}
                written => return written.map(|()| None).map_err(JobRecordError::Storage),
            }
            let found = Self::read(storage).await?;
            if found.stands_against(self) {
                return Ok(Some(found));
            }
            self.take_over(&found);
            self.version = found.version;
        }
    }

    /// Takes over what people say of the job, which they may change while a program works on it and holds an older record.
    pub(crate) fn take_over(&mut self, found: &Self) {
        self.kept = found.kept;
        let words = found.spec.clone();
        self.change_words(|spec| spec.take_words(&words));
    }

    /// Has `change` change what people say of the job, wherever it stands.
    pub fn change_words(&mut self, change: impl Fn(&mut JobSpec)) {
        change(&mut self.spec);
        if let Some(plan) = &mut self.pipeline {
            let main = plan.pipeline.main.clone();
            for step in plan.pipeline.steps.iter_mut().filter(|step| Some(&step.name) == main.as_ref()) {
                change(&mut step.spec);
            }
        }
    }

    /// The record that storage has, where it stands against this one: of another start of the job, or with a result.
    pub async fn standing(&self, storage: &dyn Storage) -> Result<Option<Self>, JobRecordError> {
        let found = Self::read(storage).await?;
        Ok(found.stands_against(self).then_some(found))
    }

    fn stands_against(&self, other: &Self) -> bool {
        self.incarnation != other.incarnation || self.result.is_some()
    }
}

/// The name of one start of a job. A program that still works on a former start finds nothing under its name.
pub fn run_name(job_id: &str, incarnation: u32) -> String {
    if incarnation <= 1 { job_id.to_owned() } else { format!("{job_id}.{incarnation}") }
}

/// Whether storage has another record than the one that was to be replaced.
pub(crate) fn is_conflict(kind: StorageErrorKind) -> bool {
    matches!(kind, StorageErrorKind::Changed | StorageErrorKind::NotFound | StorageErrorKind::AlreadyExists)
}

/// The version that a record names, where that is not this one.
fn other_version(record: &[u8]) -> Option<String> {
    let record: serde_json::Value = serde_json::from_slice(record).ok()?;
    let version = record.get("prs_version")?.as_str()?;
    (version != env!("CARGO_PKG_VERSION")).then(|| version.to_owned())
}

#[cfg(test)]
pub(crate) mod tests;
