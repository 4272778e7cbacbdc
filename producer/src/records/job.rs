//! A job, as `submit`, `resume`, `resubmit`, `stream`, `cancel`, `status`, `list` and `result` print it.

#![expect(clippy::struct_field_names, reason = "the fields are keys of JSON")]

use prs_common::ledger::{Conclusion, JobState, PrintedLine, SeenError};
use prs_common::source_line::SourceLine;
use prs_common::timestamp::format_us;
use prs_orchestrator::JobResult;
use prs_orchestrator::job::findings;
use prs_orchestrator::job::membership;
use prs_orchestrator::job::record::{self, ItemCounts, MiniBatchCounts, StartResult};
use serde::Serialize;

use super::errors::Frame;
use super::{DistinctError, SCHEMA};
use crate::place::Seen;
use crate::standing::{Shown, WaitsFor};

/// A job: how it stands, or how it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Job {
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: u32,
    /// Id of the job.
    pub(crate) job_id: String,
    /// Its name in the job file.
    name: String,
    /// Its state. `completed`, `failed` and `canceled` are final.
    #[cfg_attr(test, schemars(schema_with = "super::schema::states"))]
    pub(crate) state: JobState,
    /// Why it failed or was canceled.
    pub(crate) reason: Option<String>,
    /// Whether the job completed and every item is in the result.
    complete: bool,
    /// Whether the job file says how many items or mini-batches may fail.
    failures_allowed: bool,
    /// When the job was submitted: UTC, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    submitted: String,
    /// When it ended; null before, and where nobody knows.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    ended: Option<String>,
    /// When `prs gc` may remove it: UTC, RFC 3339; null before its end, and where it is kept until `rm` removes it.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    kept_until: Option<String>,
    /// How long the last start of the job took, or takes so far.
    pub(crate) seconds: f64,
    /// Counts of mini-batches.
    pub(crate) mini_batches: MiniBatches,
    /// Counts of items.
    items: Items,
    /// Mini-batches of which items are missing, all or some; known once the job has ended.
    mini_batches_missing: u64,
    /// Those of them that `failed_mini_batches.jsonl` in the output leaves out.
    mini_batches_unlisted: u64,
    /// Counts of tries.
    tries: Tries,
    /// Where the script returned more elements than there were items; null where it did not.
    surplus: Option<Surplus>,
    /// How many distinct errors there are; known once the job has ended.
    distinct_errors: u64,
    /// Of these the first five, those that cost most items, without tracebacks. `prs errors` has all of them.
    errors: Vec<DistinctError>,
    /// The result.
    output: Output,
    /// Folder of the logs: a path, or a URL.
    logs: String,
    /// What each start of the job brought to the result, the first one first; empty before the end.
    starts: Vec<Start>,
    /// Nodes that serve the job at the moment.
    nodes: u32,
    /// Processes that are up at the moment.
    processes: u32,
    /// Mini-batches that end per second at the moment.
    per_second: f64,
    /// Seconds to the end, where they can be estimated.
    eta_seconds: Option<f64>,
    /// While the job runs: its first distinct errors, in their order.
    first_errors: Vec<FirstError>,
    /// While processes import the script or are in `init()`: what one of them printed last; null elsewhere.
    printed: Option<Printed>,
    /// How the job ends, where that is decided and not done; null elsewhere.
    conclusion: Option<Decided>,
    /// Who could serve the job, where no node does; null elsewhere.
    workers: Option<Workers>,
    /// The server that gives no answer; null where all do.
    waits_for: Option<Awaited>,
}

/// Counts of mini-batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MiniBatches {
    /// Planned so far.
    pub(crate) scheduled: u64,
    /// With a try that succeeded.
    pub(crate) succeeded: u64,
    /// Without, and no try is left.
    pub(crate) failed: u64,
}

/// Counts of items: files, or rows of tables.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Items {
    /// In mini-batches that have their outcome.
    total: u64,
    /// Of these, succeeded.
    succeeded: u64,
    /// Of these, failed: they are not in the result.
    failed: u64,
}

/// Counts of tries of mini-batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Tries {
    /// That the script failed; while the job runs, in this start of it.
    failed: u64,
    /// Of these, of mini-batches of which a later try succeeded; null while the job runs.
    made_good: Option<u64>,
}

/// Mini-batches of which more elements were returned than they have items.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Surplus {
    /// How many mini-batches.
    mini_batches: u64,
    /// Their items.
    items: u64,
    /// The elements that were returned for them.
    elements: u64,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// What one start of a job brought to its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Start {
    /// 1 for the first start, and one more with each `resume`.
    start: u32,
    /// SHA-256 of the code that it ran, hexadecimal.
    code: String,
    /// Mini-batches whose rows in the result are of this start.
    mini_batches: u64,
    /// Their rows.
    rows: u64,
    /// The first and the last of each group of them that follow one another, as far as these are listed.
    ranges: Vec<(u64, u64)>,
    /// Groups that are not listed.
    ranges_left_out: u64,
}

/// An error while the job runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FirstError {
    /// When it was seen first, by the clock of the node: UTC, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Printed {
    /// When, by the clock of the node: UTC, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    at: String,
    /// The node of the process.
    node_id: u32,
    /// The name of the process.
    process: String,
    /// The line, cut where it is long.
    line: String,
}

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Decided {
    /// The final state.
    #[cfg_attr(test, schemars(schema_with = "super::schema::states"))]
    state: JobState,
    /// Why it fails or is canceled; empty for a job that completes.
    reason: String,
}

/// The workers of the job's compute target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Workers {
    /// With nothing to do.
    idle: u64,
    /// Busy with other jobs.
    busy: u64,
    /// Whether one of them watches over this job.
    watches: bool,
    /// Where the target has none: some of the targets that have.
    elsewhere: Vec<Elsewhere>,
}

/// Workers of another compute target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Elsewhere {
    /// The target.
    target: String,
    /// How many workers it has.
    workers: u64,
}

/// A server that gives no answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Awaited {
    /// `Redis` or `storage`.
    server: &'static str,
    /// For how long so far; null where this program has just come.
    seconds: Option<f64>,
    /// What it said, or did not say.
    reason: String,
}

impl Job {
    /// A job that has ended.
    pub(crate) fn ended(result: &JobResult) -> Self {
        Self::new(result, Shown::default())
    }

    /// A job as it is seen.
    pub(crate) fn seen(seen: &Seen) -> Self {
        Self::new(&seen.result, seen.shown().honest())
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
            schema: SCHEMA,
            job_id: result.job_id.clone(),
            name: result.name.clone(),
            state: result.state,
            reason: result.reason.clone(),
            complete: findings.complete,
            failures_allowed: findings.failures_allowed,
            submitted: format_us(result.submitted_us),
            ended: result.ended_us.map(format_us),
            kept_until: result.kept_until_us.map(format_us),
            seconds: result.seconds,
            mini_batches: result.mini_batches.into(),
            items: result.items.into(),
            mini_batches_missing: findings.mini_batches_missing,
            mini_batches_unlisted: findings.mini_batches_unlisted,
            tries,
            surplus: findings.surplus.map(Surplus::from),
            distinct_errors: findings.distinct_errors,
            errors: findings.errors.iter().cloned().map(DistinctError::from).collect(),
            output: (&result.output).into(),
            logs: result.logs.trim_end_matches('/').to_owned(),
            starts: result.starts.iter().cloned().map(Start::from).collect(),
            nodes: if running { status.nodes } else { 0 },
            processes: if running { status.processes } else { 0 },
            per_second: if running { status.per_second } else { 0.0 },
            eta_seconds: status.eta_seconds.filter(|_| running),
            first_errors: errors.into_iter().map(FirstError::from).collect(),
            printed: status.printed.filter(|_| running).map(Printed::from),
            conclusion: status.progress.conclusion.filter(|_| running).map(Decided::from),
            workers: standing.workers.map(Workers::from),
            waits_for: standing.waits_for.map(Awaited::from),
        }
    }
}

impl From<MiniBatchCounts> for MiniBatches {
    fn from(MiniBatchCounts { scheduled, succeeded, failed }: MiniBatchCounts) -> Self {
        Self { scheduled, succeeded, failed }
    }
}

impl From<ItemCounts> for Items {
    fn from(ItemCounts { total, succeeded, failed }: ItemCounts) -> Self {
        Self { total, succeeded, failed }
    }
}

impl From<findings::Surplus> for Surplus {
    fn from(findings::Surplus { mini_batches, items, elements }: findings::Surplus) -> Self {
        Self { mini_batches, items, elements }
    }
}

impl From<&record::Output> for Output {
    fn from(output: &record::Output) -> Self {
        let record::Output { rows, bytes, sha256, .. } = output.clone();
        Self { uri: output.folder().to_owned(), file: output.file().map(str::to_owned), rows, bytes, sha256 }
    }
}

impl From<StartResult> for Start {
    fn from(of: StartResult) -> Self {
        let StartResult { start, code, mini_batches, rows, ranges, ranges_left_out } = of;
        Self { start, code, mini_batches, rows, ranges, ranges_left_out }
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

impl From<Conclusion> for Decided {
    fn from(Conclusion { state, reason }: Conclusion) -> Self {
        Self { state, reason }
    }
}

impl From<membership::Workers> for Workers {
    fn from(of: membership::Workers) -> Self {
        let membership::Workers { idle, busy, watches, elsewhere } = of;
        let elsewhere = elsewhere.into_iter();
        let elsewhere = elsewhere.map(|one| Elsewhere { target: one.target, workers: one.workers }).collect();
        Self { idle, busy, watches, elsewhere }
    }
}

impl From<WaitsFor> for Awaited {
    fn from(WaitsFor { server, seconds, reason }: WaitsFor) -> Self {
        Self { server, seconds, reason }
    }
}
