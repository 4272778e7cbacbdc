//! A job, as `submit`, `resume`, `resubmit`, `stream`, `cancel`, `status`, `list` and `result` print it.

use std::collections::BTreeMap;

use prs_common::ledger::{Conclusion, JobState, PrintedLine, SeenError};
use prs_common::source_line::SourceLine;
use prs_common::timestamp::format_us;
use prs_orchestrator::JobResult;
use prs_orchestrator::job::findings::{LastStart, Surplus};
use prs_orchestrator::job::membership::Workers;
use prs_orchestrator::job::record::{
    self, ItemCounts, MiniBatchCounts, ProcessAtWork, StartResult, StepResult,
};
use serde::Serialize;

use super::DistinctError;
use super::errors::Frame;
use crate::homes::Seen;
use crate::standing::{Shown, WaitsFor};

/// A job: how it stands, or how it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Job {
    /// Id of the job.
    pub job_id: String,
    /// Its name in the job file.
    name: String,
    /// Whether state and counts are those of now; false while the ledger of the fleet gives no answer (`waits_for`): they are then of
    /// the moment when the job was handed in.
    known: bool,
    /// Its state. `completed`, `failed` and `canceled` are final.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::states"))]
    pub state: JobState,
    /// Why it failed or was canceled.
    pub reason: Option<String>,
    /// The job whose output this one was given, because it had the same code, settings and inputs; null where it ran.
    reused_from: Option<String>,
    /// Whether the job completed and every item is in the result.
    complete: bool,
    /// Whether the job file says how many items or mini-batches may fail.
    failures_allowed: bool,
    /// When the job was submitted: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    submitted_at: String,
    /// When it ended; null before, and where nobody knows.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    ended_at: Option<String>,
    /// When `prs gc` may remove it: UTC, RFC 3339; null before its end, and where it is kept until `rm` removes it.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    keep_until: Option<String>,
    /// How long the last start of the job ran, or has been running: since its first node joined.
    pub seconds: f64,
    /// How long it waited for that node, or waits so far.
    waited_seconds: f64,
    /// Counts of mini-batches.
    pub mini_batches: MiniBatchCounts,
    /// Counts of items.
    items: ItemCounts,
    /// Mini-batches of which items are missing, all or some; known once the job has ended.
    mini_batches_missing: u64,
    /// Those of them that `failed_mini_batches.jsonl` in the output leaves out.
    mini_batches_unlisted: u64,
    /// Counts of tries.
    tries: Tries,
    /// Where the script returned more elements than there were items; null where it did not.
    surplus: Option<Surplus>,
    /// What was left out of the inputs by the rules of their listings, in sentences; known once the job has ended.
    left_out: Vec<String>,
    /// Which columns of the inputs have other types in one file than in another, or in a sample than in all of a file, in sentences;
    /// known once the job has ended.
    types_differ: Vec<String>,
    /// How many distinct errors there are; known once the job has ended.
    distinct_errors: u64,
    /// Of these the first five, those that cost most items, without tracebacks. `prs errors` has all of them.
    errors: Vec<DistinctError>,
    /// How the last start of the job ended, where it brought no result: all else here is then of the start before it that did.
    /// Null elsewhere.
    last_start: Option<LastStart>,
    /// The result.
    output: Output,
    /// Folder of the logs: a path, or a URL.
    logs: String,
    /// What each start of the job brought to the result, the first one first; empty before the end.
    starts: Vec<StartResult>,
    /// Nodes that serve the job at the moment.
    nodes: u32,
    /// Nodes that it can use now: `node_count` until all is planned, then no more than there are mini-batches without an outcome.
    nodes_wanted: u64,
    /// Processes that are up at the moment.
    processes: u32,
    /// Those of them that have a mini-batch, by node and number; of more than 256, those that have had theirs longest.
    at_work: Vec<AtWork>,
    /// Mini-batches that end per second at the moment.
    per_second: f64,
    /// Seconds to the end, where they can be estimated.
    eta_seconds: Option<f64>,
    /// While the job runs: its first distinct errors, in their order.
    first_errors: Vec<FirstError>,
    /// While processes import the script or are in `init()`: what one of them printed last; null elsewhere.
    printed: Option<Printed>,
    /// While a node makes the environment of the script, or waits for a side input: what it does at the moment; null
    /// elsewhere.
    preparing: Option<String>,
    /// How the job ends, where that is decided and not done; null elsewhere.
    conclusion: Option<Decided>,
    /// Who could serve the job, where no node does; null elsewhere.
    workers: Option<Workers>,
    /// What the job waits for: a server that gives no answer, or a worker that can watch over it; null where it goes on.
    waits_for: Option<WaitsFor>,
    /// Of a pipeline that has ended: the jobs of its steps by the names of these; null for one that was not run. Null for
    /// any other job.
    steps: Option<BTreeMap<String, Option<Box<Job>>>>,
}

/// Counts of tries of mini-batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Tries {
    /// That the script failed; while the job runs, in this start of it.
    failed: u64,
    /// Of these, of mini-batches of which a later try succeeded; null while the job runs.
    made_good: Option<u64>,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Output {
    /// Folder of the output: a path, or a URL. Always a folder, whether anything is in it yet or not.
    uri: String,
    /// The result file in it: a path, or a URL; null before the job has completed, and with `summary_only`.
    file: Option<String>,
    /// Rows that the script returned.
    rows: u64,
    /// Size of the result file, bytes.
    bytes: u64,
    /// SHA-256 of the result file, hexadecimal; null where there is none.
    sha256: Option<String>,
}

/// An error while the job runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct FirstError {
    /// When it was seen first, by the clock of the node: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    at: String,
    /// What failed, such as `mini-batch 7 (a.txt), try 1 of 3`.
    what: String,
    /// Class of the exception, or what stands for it.
    category: String,
    /// First line of its message.
    message: String,
    /// The line of the user's code; null where none is known.
    frame: Option<Frame>,
}

/// The last line that a process printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Printed {
    /// When, by the clock of the node: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    at: String,
    /// The node of the process.
    node_id: u32,
    /// The name of the process.
    process: String,
    /// The line, cut where it is long.
    line: String,
}

/// A process that has a mini-batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AtWork {
    /// The node of the process.
    node_id: u32,
    /// The name of the process.
    process: String,
    /// The mini-batch that it has had longest.
    minibatch_index: u64,
    /// Since when: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    since: String,
    /// Mini-batches that it has under way, this one among them.
    mini_batches: u64,
}

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Decided {
    /// The final state.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::states"))]
    state: JobState,
    /// Why it fails or is canceled; empty for a job that completes.
    reason: String,
}

impl Job {
    /// A job that has ended.
    pub fn ended(result: &JobResult) -> Self {
        Self::new(result, Shown::default())
    }

    /// A job as it is seen.
    pub fn seen(seen: &Seen) -> Self {
        let job = Self::new(&seen.result, seen.shown().honest());
        Self { known: seen.is_known(), nodes_wanted: seen.nodes_wanted(), ..job }
    }

    fn new(result: &JobResult, Shown { status, standing, .. }: Shown) -> Self {
        let (running, findings) = (!result.state.is_final(), &result.findings);
        let (tries, errors) = if running {
            (Tries { failed: status.failed_tries, made_good: None }, status.errors)
        } else {
            let of_end = &findings.tries;
            (Tries { failed: of_end.failed, made_good: Some(of_end.made_good) }, Vec::new())
        };
        Self {
            job_id: result.job_id.clone(),
            name: result.name.clone(),
            known: true,
            state: result.state,
            reason: result.reason.clone(),
            reused_from: result.reused.clone(),
            complete: findings.complete,
            failures_allowed: findings.failures_allowed,
            submitted_at: format_us(result.submitted_us),
            ended_at: result.ended_us.map(format_us),
            keep_until: result.kept_until_us.map(format_us),
            seconds: result.seconds,
            waited_seconds: result.waited_seconds,
            mini_batches: result.mini_batches,
            items: result.items,
            mini_batches_missing: findings.mini_batches_missing,
            mini_batches_unlisted: findings.mini_batches_unlisted,
            tries,
            surplus: findings.surplus,
            left_out: findings.left_out.clone(),
            types_differ: findings.types_differ.clone(),
            last_start: findings.last_start.as_deref().cloned(),
            distinct_errors: findings.distinct_errors,
            errors: findings.errors.iter().cloned().map(DistinctError::from).collect(),
            output: (&result.output).into(),
            logs: result.logs.trim_end_matches('/').to_owned(),
            starts: result.starts.clone(),
            nodes: if running { status.nodes } else { 0 },
            nodes_wanted: 0,
            processes: if running { status.processes } else { 0 },
            at_work: status.at_work.into_iter().filter(|_| running).map(AtWork::from).collect(),
            per_second: if running { status.per_second } else { 0.0 },
            eta_seconds: status.eta_seconds.filter(|_| running),
            first_errors: errors.into_iter().map(FirstError::from).collect(),
            printed: status.printed.filter(|_| running).map(|line| Printed::from(*line)),
            preparing: status.preparing.filter(|_| running),
            conclusion: status.progress.conclusion.filter(|_| running).map(Decided::from),
            workers: standing.workers,
            waits_for: standing.waits_for.or(standing.obstacle),
            steps: (!result.steps.is_empty()).then(|| result.steps.iter().map(step).collect()),
        }
    }
}

/// A step under its name.
fn step(step: &StepResult) -> (String, Option<Box<Job>>) {
    (step.name.clone(), step.result.as_deref().map(|result| Box::new(Job::ended(result))))
}

impl From<&record::Output> for Output {
    fn from(output: &record::Output) -> Self {
        let record::Output { rows, bytes, sha256, .. } = output.clone();
        Self { uri: output.folder().to_owned(), file: output.file().map(str::to_owned), rows, bytes, sha256 }
    }
}

impl From<SeenError> for FirstError {
    fn from(SeenError { at_us, what, category, message, line }: SeenError) -> Self {
        let frame = line.map(|line: SourceLine| Frame::from(line));
        Self { at: format_us(at_us), what, category, message, frame }
    }
}

impl From<PrintedLine> for Printed {
    fn from(PrintedLine { at_us, node_id, process, line }: PrintedLine) -> Self {
        Self { at: format_us(at_us), node_id, process, line }
    }
}

impl From<ProcessAtWork> for AtWork {
    fn from(ProcessAtWork { node_id, process, index, since_us, of }: ProcessAtWork) -> Self {
        let (process, since) = (format!("process{process:03}"), format_us(since_us));
        Self { node_id, process, minibatch_index: index, since, mini_batches: of }
    }
}

impl From<Conclusion> for Decided {
    fn from(Conclusion { state, reason }: Conclusion) -> Self {
        Self { state, reason }
    }
}
