//! What is known of a job, as plain data. Who reads it (the orchestrator, a command) fills it in.

use prs_common::job::JobSpec;
use prs_common::ledger::JobState;
use prs_common::statistics::{Activity, Errors, Live, Nodes, Summary};

use super::ErrorFact;
use crate::attention::Workers;

/// A job at one moment.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Id of the job.
    pub job_id: String,
    /// What commands call it.
    pub called: String,
    /// Which columns of its inputs have other types here than there, in sentences.
    pub types_differ: Vec<String>,
    /// Its settings.
    pub spec: JobSpec,
    /// Its state.
    pub state: JobState,
    /// Why it failed or was canceled.
    pub reason: Option<String>,
    /// Whether it completed with every item.
    pub complete: bool,
    /// The job whose output it was given.
    pub reused: Option<String>,
    /// When it was submitted, microseconds since the Unix epoch.
    pub submitted_us: u64,
    /// When its last start was asked for.
    pub started_us: u64,
    /// When it ended.
    pub ended_us: Option<u64>,
    /// Seconds that its last start took, or takes so far.
    pub seconds: f64,
    /// Mini-batches: planned, succeeded, failed.
    pub mini_batches: (u64, u64, u64),
    /// Items of those with an outcome: all, succeeded, failed.
    pub items: (u64, u64, u64),
    /// Mini-batches of which items are missing.
    pub mini_batches_missing: u64,
    /// Tries that failed.
    pub failed_tries: u64,
    /// Its output.
    pub output: OutputFact,
    /// Where its logs are: a path, or a URL.
    pub logs: String,
    /// Whether the page lies among the logs, so that links lead to them.
    pub is_among_logs: bool,
    /// Version of prs that wrote the settings.
    pub version: String,
    /// The starts of the job, where there were several.
    pub starts: Vec<StartFact>,
    /// The distinct errors, those that cost most first.
    pub errors: Vec<ErrorFact>,
    /// Tries with errors that are not told apart any more.
    pub other_tries: u64,
    /// Where the items that are missing are listed.
    pub failed_list: Option<FailedList>,
    /// The steps, where the job is a pipeline.
    pub steps: Vec<StepFact>,
    /// Whether one of them is the job itself, which the others prepare.
    pub has_main_step: bool,
    /// What a fleet does for it; nothing of a job of this machine, and of one that has ended.
    pub fleet: Option<FleetFact>,
    /// How it is decided that it ends, in words, where that is no result; empty where it is not.
    pub ends: String,
    /// The first error that nodes told of, in one line; empty where there is none.
    pub seen_error: String,
    /// What the orchestrator published.
    pub statistics: Published,
    /// When the page is made, microseconds since the Unix epoch.
    pub now_us: u64,
}

/// What a fleet does for a job that has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetFact {
    /// Nodes that serve it.
    pub nodes: u64,
    /// Who could, where nobody does; nothing where nobody asked.
    pub workers: Option<Workers>,
    /// The server that gives no answer, and since when, microseconds since the Unix epoch, where that is known.
    pub away: Option<(String, Option<u64>)>,
}

/// The parts of the statistics of a job, those that are there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Published {
    /// Where the job stands, and its timeline.
    pub live: Option<Live>,
    /// Nodes by time.
    pub activity: Option<Activity>,
    /// Durations, shares, the plan.
    pub summary: Option<Summary>,
    /// The nodes.
    pub nodes: Option<Nodes>,
    /// The errors over time.
    pub errors: Option<Errors>,
    /// Why some are not there; empty where all are, or nobody ever wrote any.
    pub lacking: String,
}

impl Published {
    /// Whether the job had ended when this was published.
    pub fn has_ended(&self) -> bool {
        let ended = [JobState::Completed, JobState::Failed, JobState::Canceled].map(JobState::as_str);
        self.live.as_ref().is_some_and(|live| ended.contains(&&*live.state))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live.is_none() && self.activity.is_none() && self.summary.is_none() && self.nodes.is_none()
    }
}

/// The output of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputFact {
    /// The result file, or the folder.
    pub uri: String,
    /// Whether it is a file.
    pub is_file: bool,
    /// Its rows.
    pub rows: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: Option<String>,
}

/// What one start of a job brought to the result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartFact {
    /// Which one, from 1.
    pub start: u32,
    /// Beginning of the checksum of its code.
    pub code: String,
    /// Its mini-batches.
    pub mini_batches: u64,
    /// Their rows.
    pub rows: u64,
}

/// Where the items that are missing are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedList {
    /// The file: a path, or a URL.
    pub uri: String,
}

/// A step of a pipeline.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepFact {
    /// Its name.
    pub name: String,
    /// Id of its job.
    pub job_id: String,
    /// The steps that it needs, by their names.
    pub needs: Vec<String>,
    /// Its state; nothing where it was not run.
    pub state: Option<JobState>,
    /// Whether it completed with every item.
    pub complete: bool,
    /// Why it failed or was canceled, in one line.
    pub reason: String,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Items: all, failed.
    pub items: (u64, u64),
    /// Where its report is, seen from this page; nothing where none can be named.
    pub report: Option<String>,
}
