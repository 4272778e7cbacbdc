//! Why a job ends without a result, or a host leaves it: every reason, in the words that people read.
//!
//! Reasons travel as text, in ledger, reports and records. Each is made here, so that docs/messages.md can explain all of
//! them. The text of others (an exception, an error of a server) is a part of a reason, never the whole of it.

/// Defines [`EndReason`]: its variants, their text, and the list of all texts.
macro_rules! end_reasons {
    ($($(#[$meta:meta])* $name:ident $({ $($field:ident: $type:ty),* })? = $text:literal,)*) => {
        /// Why a job ends without a result, or a host leaves it.
        #[derive(Debug, Clone, PartialEq, thiserror::Error)]
        #[expect(missing_docs, reason = "the text says what each field is")]
        pub enum EndReason {
            $($(#[$meta])* #[error($text)] $name $({ $($field: $type),* })?,)*
        }

        impl EndReason {
            /// The text of every reason, with `{field}` where it differs from job to job.
            pub const TEXTS: &[&str] = &[$($text),*];
        }
    };
}

end_reasons! {
    // What the job file allows.
    /// `error_threshold` is exceeded.
    TooManyItems { items: String, allowed: i64 } =
        "{items} failed, more than error_threshold {allowed} allows",
    /// `allowed_failed_count` is exceeded.
    TooManyMiniBatches { mini_batches: String, allowed: i64 } =
        "{mini_batches} failed, more than allowed_failed_count {allowed} allows",
    /// `allowed_failed_percent` is exceeded.
    TooManyPercent { failed: u64, scheduled: u64, percent: f64, allowed: f64 } =
        "{failed} of {scheduled} mini-batches failed ({percent:.1} %), more than allowed_failed_percent {allowed} allows",
    /// A reason that failures of the script led to, and the error that most tries had.
    Caused { reason: Box<EndReason>, error: String } = "{reason}; the most frequent error: {error}",

    // A job that ran to its end and has nothing to show for it.
    /// `append_row`, and no try succeeded.
    NoRowAsAllFailed = "append_row: no row was returned, because every mini-batch failed",
    /// `summary_only`, and no try succeeded.
    AllFailed = "summary_only: every mini-batch failed",
    /// `append_row`, and nothing was returned.
    NoRow =
        "append_row: no row was returned in the whole job; check the format and types in your run(): return one element for each item, or use output_action summary_only",
    /// No header fits all rows.
    ColumnsDiffer { first: u64, columns: String, later: u64, others: String } =
        "output_format: mini-batch {first} returned the columns {columns} and mini-batch {later} {others}, so no header fits both: return the same columns in the same order from every run(), as with result[NAMES] or result.reindex(columns=NAMES), and submit the job anew",
    /// The code of another start returned other columns.
    StartsDiffer { start: u32, columns: String, later: u64, others: String } =
        "output_format: start {start} of the job returned the columns {columns}, and its code now {others} (mini-batch {later}), so no header fits both: return the columns of start {start}, and resume the job with --code new, which keeps what that brought; or resubmit the job, which runs all of it anew",
    /// No column of a Parquet file holds all values.
    TypesDiffer { column: String, first: u64, kind: String, later: u64, other: String } =
        "output_format: column {column} is of type {kind} in mini-batch {first} and of type {other} in mini-batch {later}, and no column of a Parquet file holds both: return the same type from every run(), as with result[NAME] = result[NAME].astype(TYPE), and submit the job anew",
    /// Rows that a Parquet file cannot have.
    NotInParquet { index: u64, error: String } =
        "output_format: the rows of mini-batch {index} cannot be written as Parquet: {error}; convert them in run(), and submit the job anew",

    // The script cannot be made ready.
    /// What the import of the script lacks stays lacking.
    CannotImport { error: String } = "the script cannot be imported: {error}",
    /// What `init()` lacks stays lacking.
    CannotInit { error: String } = "init() failed: {error}",
    /// The import failed in so many processes.
    ImportFailed { times: u32, error: String } = "importing the script failed {times} times in a row{error}",
    /// `init()` failed in so many processes.
    InitFailed { times: u32, error: String } = "init() failed {times} times in a row{error}",
    /// The import failed on all nodes together.
    ImportKeepsFailing { times: u32, seconds: u64, error: String } =
        "importing the script failed {times} times in {seconds} s{error}",
    /// `init()` failed on all nodes together.
    InitKeepsFailing { times: u32, seconds: u64, error: String } =
        "init() failed {times} times in {seconds} s{error}",
    /// No process comes out of `init()`.
    StuckInInit { limit: u64, place: String } =
        "every process has been in init() for more than {limit} s (3 * run_invocation_timeout + 30){place}",
    /// The interpreter is not on the host.
    NoInterpreter { error: String } = "no interpreter for the script: {error}",
    /// The packages of the job cannot be installed on the host.
    NoEnvironment { error: String } = "the environment of the script cannot be made: {error}",

    /// The model is not to be had on the host.
    NoModel { path: String, error: String } = "the model {path} cannot be read: {error}",
    /// The model stays where it is, and was changed since the job was first started.
    ModelChanged { path: String } =
        "the model changed since the job was first started: {path} is not what it was; submit the job as a new one",

    // The plan cannot be made.
    /// The inputs hold nothing.
    NoRecords = "the inputs hold no records: there is nothing to run the entry script on",
    /// A mini-batch that ran in a former start is another one now.
    InputsChanged { id: String } =
        "the inputs changed since the job was first started: {id} is not what it was; submit the job as a new one",
    /// An input, or a server, keeps the plan from being made.
    NoPlan { error: String } = "the inputs cannot be planned: {error}",

    // Nothing moves.
    /// No plan in time.
    NothingScheduled { limit: u64 } =
        "no mini-batch was scheduled within first_task_creation_timeout ({limit} s)",
    /// No outcome in time.
    NothingEnded { seconds: u64, limit: u64 } =
        "No progress update in {seconds} seconds: no mini-batch ended, and progress_update_timeout allows {limit} s",

    // A host cannot work.
    /// The code is not to be had.
    CodeNotFetched { error: String } = "the code of the job cannot be fetched: {error}",
    /// The code is not what its name says.
    CodeDamaged { key: String } =
        "the code of the job is damaged in storage: {key} is not what its name says; submit the job again",
    /// The code cannot be written down.
    CodeNotUnpacked { error: String } = "the code of the job cannot be unpacked: {error}",
    /// prs's own Python cannot be written down.
    NotPrepared { folder: String, error: String } = "cannot prepare {folder}: {error}",
    /// A side input is not to be had.
    SideInputNotRead { name: String, error: String } = "side input {name} cannot be read: {error}",
    /// A side input that stays where it is was changed since the job was first started.
    SideInputChanged { name: String, path: String } =
        "side input {name} changed since the job was first started: {path} is not what it was; submit the job as a new one",
    /// There is no room for inputs.
    NoInputFolder { folder: String, error: String } = "cannot make the folder for inputs in {folder}: {error}",
    /// Inputs cannot be fetched to the host.
    InputsNotRead { error: String } = "this node cannot read the inputs: {error}",
    /// Outcomes cannot be stored.
    NotStored { what: String, error: String } = "the results of this node cannot be stored: {what}: {error}",
    /// The name of the result file is one that no job file brings.
    BadFileName { error: String } = "append_row_file_name: {error}",

    // prs itself, or its servers.
    /// The result cannot be made or published.
    ResultNotWritten { error: String } = "the result cannot be written: {error}",
    /// The orchestrator cannot do its work.
    NotWatched { error: String } = "the job cannot be watched over: {error}",
    /// A panic.
    Fault { text: String } = "a fault of prs ended the job: {text}",
    /// A part of the node is gone.
    CommitterEnded = "the committer of the node has ended unexpectedly",
    /// The only node left.
    NodeLeft = "the node left before the job was done",
    /// The only node left over an error.
    NodeFailed { error: String } = "the node left the job: {error}",
    /// The only node panicked.
    NodePanicked { error: String } = "the node ended unexpectedly: {error}",

    // A pipeline.
    /// Steps failed.
    StepsFailed { steps: String, reason: String } = "{steps} of the pipeline failed: {reason}",
    /// What a step needs of another is not there.
    NoOutputOfStep { step: String, output: String } =
        "step {step} completed and brought no output {output}, which this step needs",
    /// An output that a step needs of another was damaged since.
    OutputOfStepChanged { step: String, output: String, difference: String } =
        "output {output} of step {step} is not what the step brought: {difference}; prs resume runs step {step} again",
    /// Something else is in the output of a step.
    NotOfStep { step: String, output: String, difference: String, place: String } =
        "output {output} of step {step} is not what the step brought: {difference}; move it away from {place}, and prs resume goes on",
    /// The MLTable that a step gets of another is wrong.
    TableOfStep { step: String, output: String, error: String } =
        "the MLTable in output {output} of step {step} cannot be used: {error}",
    /// An output has a place of its own, and no room there.
    NotDelivered { output: String, place: String, error: String } =
        "the step completed, and its output {output} cannot be put to {place}: {error}; make room there and resume the pipeline, which runs nothing again",
    /// A job has its output delivered to a bucket, and there is no room, or no bucket.
    JobNotDelivered { place: String, error: String } =
        "the output cannot be put to {place}: {error}; the job keeps it (prs result), and prs resume delivers it, which runs nothing again",
    /// A step cannot be started.
    StepNotStarted { error: String } = "the step cannot be started: {error}",

    /// The pipeline does not go on behind a failed step.
    OtherStepFailed = "canceled: another step of the pipeline failed, and continue_on_step_failure is false",
    /// The pipeline ended without it.
    StepNotRun { pipeline: String } = "the step was not run: the pipeline {pipeline} ended without it",

    // A person.
    /// `cancel`.
    Canceled { who: String } = "canceled by {who}",
    /// A signal.
    Interrupted { signal: String } = "interrupted ({signal})",
}

/// What the text of [`EndReason::JobNotDelivered`] begins with.
const NOT_DELIVERED: &str = "the output cannot be put to ";

impl EndReason {
    /// Whether a job that failed with the text `reason` has its output all the same, but for the place that was to have it.
    pub fn is_not_delivered(reason: &str) -> bool {
        reason.starts_with(NOT_DELIVERED)
    }

    /// This reason, and the error that most tries had, where one is known.
    #[must_use]
    pub fn with_most_frequent(self, error: Option<String>) -> Self {
        match error {
            Some(error) => Self::Caused { reason: Box::new(self), error },
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_was_not_delivered_is_known_by_the_reason() {
        let (place, error) = ("s3://bucket/out".to_owned(), "it is gone".to_owned());
        let of_job = EndReason::JobNotDelivered { place: place.clone(), error: error.clone() };
        let of_step = EndReason::NotDelivered { output: "rows".to_owned(), place, error };
        let told = [of_job, of_step, EndReason::NoRow].map(|reason| reason.to_string());
        assert_eq!(told.map(|reason| EndReason::is_not_delivered(&reason)), [true, false, false]);
    }

    #[test]
    fn a_reason_has_its_cause_behind_it() {
        let reason = || EndReason::TooManyItems { items: "3 items".to_owned(), allowed: 2 };
        let text = "3 items failed, more than error_threshold 2 allows";
        assert_eq!(reason().with_most_frequent(None).to_string(), text);
        let caused = reason().with_most_frequent(Some("ValueError: no".to_owned()));
        assert_eq!(caused.to_string(), format!("{text}; the most frequent error: ValueError: no"));
    }
}
