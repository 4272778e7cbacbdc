//! `job_result.txt` of a pipeline: how it ended, and a line for each step.

use std::fmt::Write;

use prs_common::ledger::JobState;
use prs_common::timestamp::{format_us, now_us};

use crate::job::record::{JobResult, StepResult};
use crate::job::words;
use crate::report::progress_overview::duration;

/// The text. `place` is what commands call the pipeline; `preparation` is what its other steps do for the one job that it is to
/// the user.
pub(super) fn text(result: &JobResult, place: &str, preparation: Option<&str>) -> String {
    let mut out = first_line(result);
    let ended = format_us(result.ended_us.unwrap_or_else(now_us));
    let _ = write!(
        out,
        "\n\njob           {} ({}), {} of {} steps\nended         {ended} after {}\noutput        {}\nlogs          {}\n{}\n",
        result.job_id,
        result.name,
        preparation.map_or("a pipeline".to_owned(), |words| format!("whose {words}, in all")),
        result.steps.len(),
        duration(result.seconds),
        result.output.uri,
        result.logs,
        last_start(result),
    );
    let width = result.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or_default();
    for step in &result.steps {
        let _ = writeln!(out, "step {:width$}  {}", step.name, line(step));
    }
    if result.last_end().0 != JobState::Completed {
        let _ = writeln!(out, "\nthen          prs resume {place}   goes on from what is done");
    }
    out
}

/// The text of a job of which nothing was run in its last start.
pub(super) fn unrun(result: &JobResult) -> String {
    let (JobResult { job_id, name, .. }, first) = (result, first_line(result));
    format!("{first}\n\njob           {job_id} ({name})\n{}", last_start(result))
}

fn first_line(result: &JobResult) -> String {
    let reason = result.reason.iter().map(|reason| format!(": {}", reason.trim().replace('\n', "\n  ")));
    reason.fold(result.state.as_str().to_owned(), |line, reason| line + &reason)
}

fn last_start(result: &JobResult) -> String {
    let last = words::last_start(result);
    let line = |last: String| format!("last start    {}\n", last.trim().replace('\n', "\n              "));
    last.map(line).unwrap_or_default()
}

/// How a step ended, in a line.
fn line(step: &StepResult) -> String {
    let Some(result) = &step.result else { return "not run".to_owned() };
    let reason = result.reason.as_deref().and_then(|reason| reason.lines().next());
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}{reason} ({}, job {})", result.state.as_str(), duration(result.seconds), step.job_id)
}
