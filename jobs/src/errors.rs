//! The errors of a job with their tracebacks, and the mini-batches that failed because of them.

use anyhow::Context;
use prs_common::layout::{self, FAILED_MINI_BATCHES};
use prs_common::storage::{StorageErrorKind, StorageExt};
use prs_orchestrator::JobRecord;
use prs_orchestrator::job::errors::ErrorGroup;
use prs_orchestrator::report::error_list::{self, ErrorList};
use prs_orchestrator::segments::failed_mini_batches::of_segments;

use crate::failure::Failure;
use crate::homes::{self, JobHome, Seen, Whereabouts};
use crate::records::{DistinctError, Errors, FailedMiniBatch};

/// The beginning of a log that a traceback is looked for in, bytes.
const HEAD: u64 = 64 << 10;

/// A job, and its errors.
#[derive(Debug)]
pub struct JobErrors {
    /// The job as it was seen.
    pub seen: Seen,
    /// Its errors; of one that has not ended, those so far.
    pub list: ErrorList,
    /// Of a pipeline: its steps, as far as they were started, in its order.
    pub steps: Option<Vec<JobErrors>>,
}

impl JobErrors {
    /// The same for programs.
    pub fn record(self) -> Errors {
        let Self { seen, list, steps } = self;
        let steps = steps.map(|steps| steps.into_iter().map(Self::record).collect());
        Errors { steps, ..record(seen, list) }
    }
}

/// How tries ended that are none of a mini-batch: processes that did not start.
pub const INIT: &str = "INIT_EXCEPTION";

/// The errors of a job that was seen; of a pipeline, those of its steps.
pub async fn errors(home: &dyn JobHome, seen: Seen, whereabouts: &Whereabouts) -> Result<JobErrors, Failure> {
    let list = complete(home, &seen).await?;
    let mut steps = None;
    if seen.record.pipeline.is_some() {
        let mut found = Vec::new();
        for home in homes::steps_of(&home.called(), whereabouts).await? {
            let seen = home.look().await?;
            let list = complete(&*home, &seen).await?;
            found.push(JobErrors { seen, list, steps: None });
        }
        steps = Some(found);
    }
    Ok(JobErrors { seen, list, steps })
}

/// The list of errors of a job, with the tracebacks that are in its logs.
pub async fn complete(home: &dyn JobHome, seen: &Seen) -> Result<ErrorList, Failure> {
    let mut list = read(home, seen).await?;
    for group in list.errors.iter_mut().filter(|group| group.traceback.is_empty()) {
        group.traceback = logged(home, group).await;
    }
    Ok(list)
}

/// The errors of a job, for programs.
fn record(seen: Seen, list: ErrorList) -> Errors {
    let ErrorList { failed_tries, others, errors, .. } = list;
    let errors = errors.into_iter().map(DistinctError::from).collect();
    let (job_id, state) = (seen.result.job_id, seen.record.state);
    Errors { job_id, state, failed_tries, others, errors, steps: None }
}

/// The list of errors of a job.
async fn read(home: &dyn JobHome, seen: &Seen) -> Result<ErrorList, Failure> {
    let key = format!("{}{}", layout::LOGS, error_list::NAME);
    let body = match home.object(&seen.record, &key).await {
        Ok(Some(body)) => body,
        Ok(None) => {
            let ended = seen.record.result.is_some();
            return if ended && seen.record.prs_version != env!("CARGO_PKG_VERSION") {
                Err(Failure::wrong(format!(
                    "job {0} was run by prs {1}, which did not list its errors; prs logs {2} --file job_error.txt prints what it knew",
                    seen.result.job_id,
                    seen.record.prs_version,
                    home.called()
                )))
            } else {
                Ok(ErrorList { schema: error_list::SCHEMA, ..ErrorList::default() })
            };
        }
        Err(error) => return Err(home.cannot("read the list of errors")(error)),
    };
    let list: ErrorList = serde_json::from_slice(&body)
        .with_context(|| format!("{} cannot be understood", home.storage().uri(&key)))?;
    if list.schema != error_list::SCHEMA {
        return Err(Failure::wrong(format!(
            "{} has the form {} of another version of prs, and this one knows {}",
            home.storage().uri(&key),
            list.schema,
            error_list::SCHEMA
        )));
    }
    Ok(list)
}

/// The traceback of the example in the log of its process; empty where it is not found.
async fn logged(home: &dyn JobHome, group: &ErrorGroup) -> String {
    let log = &group.example.log;
    // What only lacks items raised nothing; of a process that did not start, the log has one error.
    if log.is_empty() || !group.example.mini_batch_id.is_empty() {
        return String::new();
    }
    let key = format!("{}{log}", layout::LOGS);
    match home.storage().get_range(&key, 0..HEAD).await {
        Ok(head) => first_traceback(&String::from_utf8_lossy(&head)),
        // It is not there yet, or went with its node.
        Err(_) => String::new(),
    }
}

/// The traceback below a heading of a log of errors that has this in it; nothing where there is no such heading, or no traceback below it.
pub(crate) fn traceback_in(log: &str, heading: &str) -> Option<String> {
    let at = log.find(heading)?;
    let begin = log[..at].rfind('\n').map_or(0, |end| end + 1);
    Some(first_traceback(&log[begin..])).filter(|traceback| !traceback.is_empty())
}

/// The text below the first heading of a log of errors, up to the empty line behind it. The stacks of threads have an empty
/// line between them.
fn first_traceback(log: &str) -> String {
    let below = log.split_once('\n').map_or("", |(_, below)| below);
    let goes_on = |rest: &str| rest.starts_with("Thread ") || rest.starts_with("Current thread ");
    let mut ends = below.match_indices("\n\n").map(|(end, _)| end);
    let end = ends.find(|end| !goes_on(&below[end + 2..])).map_or(below.len(), |end| end + 1);
    let traceback = &below[..end];
    // Where there is none, the message stands again.
    if traceback.starts_with("Traceback") || traceback.contains("\n  File \"") {
        traceback.to_owned()
    } else {
        String::new()
    }
}

/// The list of failed mini-batches; of a job that has not ended, what it would be now.
pub async fn failed_mini_batches(
    home: &dyn JobHome,
    record: &JobRecord,
) -> Result<Vec<FailedMiniBatch>, Failure> {
    if record.result.is_some() {
        let output = home.output(record);
        match output.get(FAILED_MINI_BATCHES).await {
            Ok(body) => {
                let text = String::from_utf8_lossy(&body);
                let lines: Result<Vec<FailedMiniBatch>, _> = text.lines().map(serde_json::from_str).collect();
                let uri = output.uri(FAILED_MINI_BATCHES);
                return Ok(lines.with_context(|| format!("{uri} is not as prs wrote it"))?);
            }
            Err(error) if error.kind == StorageErrorKind::NotFound => {}
            Err(error) => return Err(home.cannot("read the failed items")(error)),
        }
    }
    let found = of_segments(home.storage(), record).await.map_err(home.cannot("read the failed items"))?;
    let lines: Result<_, _> = found.into_values().map(serde_json::from_value).collect();
    Ok(lines.context("the failed items are not as prs writes them")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traceback_of_a_log_is_below_its_heading() {
        let traceback = "Traceback (most recent call last):\n  File \"x\"\nValueError: a\n";
        let log = format!("2026 init: ValueError: a\n{traceback}\n2026 init: B: b\nb\n\n");
        assert_eq!(first_traceback(&log), traceback);
        assert_eq!(first_traceback("2026 init: B: b\nb\n\n"), "");
        let second = "Traceback (most recent call last):\n  File \"y\"\nKeyError: 4\n";
        let log = format!(
            "{log}2026 mb-0000000004 try 1: KeyError: 4\n{second}\n2026 mb-0000000004 try 2: A: a\na\n\n"
        );
        assert_eq!(traceback_in(&log, " mb-0000000004 try 1: ").as_deref(), Some(second));
        for absent in [" mb-0000000004 try 2: ", " mb-0000000005 try 1: "] {
            assert_eq!(traceback_in(&log, absent), None, "{absent}");
        }
        let threads = "Thread 0x1 (most recent call first):\n  File \"x\", line 1 in a\n\nCurrent thread 0x2 (most recent \
                       call first):\n  File \"y\", line 2 in b\n";
        assert_eq!(first_traceback(&format!("2026 init: B: b\n{threads}\n2026 init: C: c\nc\n\n")), threads);
        assert_eq!(first_traceback(""), "");
    }
}
