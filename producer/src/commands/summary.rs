//! How a job ended: the counts, what is missing and why, and which commands come next.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use prs_common::ledger::JobState;
use prs_common::source_line::SourceLine;
use prs_common::timestamp::format_us;
use prs_jobs::paths::below;
use prs_jobs::records::Job;
use prs_orchestrator::JobResult;
use prs_orchestrator::job::record::StepResult;
use prs_orchestrator::job::{count, words};
use prs_orchestrator::report::page;
use prs_orchestrator::report::progress_overview::{duration, time_of};

use crate::cli::Format;
use crate::failure::{Code, Failure};
use crate::terminal::table::pairs;
use crate::terminal::{colours, output};

/// Prints how a job ended, which commands call `name`.
pub(super) fn print(format: Format, result: &JobResult, name: &str) -> Result<(), Failure> {
    let here = std::env::current_dir().ok();
    output::print(format, &Job::ended(result), |_| text(result, name, here.as_deref()))
}

/// Prints how a job ended, which commands call `name`, and gives the exit code for it.
pub(super) fn report(format: Format, result: &JobResult, name: &str) -> Result<ExitCode, Failure> {
    let printed = print(format, result, name);
    let code = code(format, result);
    printed.map_err(|failure| {
        let (id, logs) = (&result.job_id, result.logs.trim_end_matches('/'));
        failure.and(format_args!("how job {id} ended is in {logs}/job_result.txt"))
    })?;
    Ok(code.into())
}

/// The exit code for how a job ended; what is wrong with it is told. What the summary on standard output says already stands
/// there once: a program that reads JSON leaves it to a person on standard error.
pub(super) fn code(format: Format, result: &JobResult) -> Code {
    let has_summary = format == Format::Table;
    let unless_said = |text: &str| if has_summary { String::new() } else { format!(": {text}") };
    let logs = result.logs.trim_end_matches('/');
    if let (Some(last), Some(told)) = (&result.findings.last_start, words::last_start(result)) {
        let told = if has_summary { format!("start {} {}", last.start, last.state.as_str()) } else { told };
        output::print_error(format_args!("{told}\nsee {logs}/job_result.txt"));
        return if last.state == JobState::Canceled { Code::Interrupted } else { Code::Failed };
    }
    match result.state {
        JobState::Completed if result.findings.lacks_unexpectedly() => {
            if let Some(missing) = words::missing(result) {
                let missing = if has_summary { "items are missing".to_owned() } else { missing };
                output::print_error(format_args!(
                    "{missing} (exit code 10: the job file does not say how many may be, with error_threshold, allowed_failed_count or allowed_failed_percent)"
                ));
            }
            Code::Incomplete
        }
        JobState::Completed => Code::Completed,
        JobState::Canceled => Code::Interrupted,
        _ => {
            let reason = unless_said(result.reason.as_deref().unwrap_or("for no known reason"));
            output::print_error(format_args!("the job failed{reason}\nsee {logs}/job_result.txt"));
            Code::Failed
        }
    }
}

/// The text. `name` is what commands call the job; paths below `here` are shown as a person would type them there.
fn text(result: &JobResult, name: &str, here: Option<&Path>) -> String {
    let mut text = pairs(&counts(result));
    errors(result, here, &mut text);
    let next = next(result, name);
    if !next.is_empty() {
        text.push('\n');
        let width = next.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
        for (command, does) in next {
            let _ = writeln!(text, "  {command:width$}   {does}");
        }
    }
    text
}

fn counts(result: &JobResult) -> Vec<(&'static str, String)> {
    let (counts, items, findings) = (&result.mini_batches, &result.items, &result.findings);
    let missing = words::missing(result).map(|missing| format!(", but {missing}")).unwrap_or_default();
    let state = format!("{}{missing}", result.state.as_str());
    let state = colours::state(state, result.state, !findings.complete).to_string();
    let mut rows = vec![("job", result.job_id.clone()), ("state", state)];
    rows.extend(words::reused(result).map(|reused| ("reused", reused)));
    rows.extend(words::last_start(result).map(|last| ("last start", last)));
    rows.extend(result.reason.iter().map(|reason| ("reason", reason.clone())));
    rows.push((
        "mini-batches",
        format!("{} scheduled, {} succeeded, {} failed", counts.scheduled, counts.succeeded, counts.failed),
    ));
    // Items are counted where mini-batches end.
    if items.total > 0 || counts.scheduled == 0 {
        let counted =
            format!("{} total, {} succeeded, {} failed", items.total, items.succeeded, items.failed);
        rows.push(("items", counted));
    }
    rows.extend(words::listed(result).map(|listed| ("missing", listed)));
    rows.extend(words::tries(findings.tries).map(|tries| ("tries", tries)));
    rows.extend(findings.surplus.iter().map(|surplus| ("note", words::surplus(surplus))));
    rows.extend(
        findings
            .left_out
            .iter()
            .chain(&findings.types_differ)
            .chain(&findings.gpu_shortage)
            .map(|told| ("note", told.clone())),
    );
    rows.extend(result.steps.iter().map(|step| ("step", format!("{}: {}", step.name, of_step(step)))));
    rows.push(("time", time_of(result)));
    if result.state == JobState::Completed {
        let output = &result.output;
        let size = match output.sha256 {
            Some(_) => format!(" ({} rows, {} bytes)", output.rows, output.bytes),
            None => String::new(),
        };
        rows.push(("output", format!("{}{size}", output.uri)));
    }
    rows.push(("logs", result.logs.clone()));
    let report = format!("{}/{}", result.logs.trim_end_matches('/'), page::NAME);
    // Runs of older versions have none; a store is not asked.
    if result.state.is_final() && (report.contains("://") || Path::new(&report).is_file()) {
        rows.push(("report", report));
    }
    rows.extend(result.kept_until_us.map(|until| {
        let until = format_us(until)[..16].replace('T', " ");
        ("kept until", format!("{until} UTC; then prs gc removes the job"))
    }));
    rows
}

/// How a step ended.
fn of_step(step: &StepResult) -> String {
    let Some(result) = &step.result else { return "not run".to_owned() };
    let reason = result.reason.as_deref().and_then(|reason| reason.lines().next());
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let lacks = if result.state == JobState::Completed && !result.findings.complete {
        ", with items missing"
    } else {
        ""
    };
    format!("{}{lacks}{reason} ({}, job {})", result.state.as_str(), duration(result.seconds), step.job_id)
}

/// The errors that cost most, each with the line of the script.
fn errors(result: &JobResult, here: Option<&Path>, text: &mut String) {
    let findings = &result.findings;
    for group in &findings.errors {
        let _ = writeln!(text, "\n{}\n    {}", group.headline(), words::cost(group));
        if let Some(frame) = &group.frame {
            let _ = writeln!(text, "    {}", line(frame, here));
        }
    }
    let more = findings.distinct_errors.saturating_sub(findings.errors.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "\nand {}", count(more, "other error"));
    }
}

/// A line of the script, with its text.
pub(super) fn line(frame: &SourceLine, here: Option<&Path>) -> String {
    let file = below(here, Path::new(&frame.file)).display().to_string();
    let shown = SourceLine { file, ..frame.clone() };
    if frame.text.is_empty() { shown.to_string() } else { format!("{shown}: {}", frame.text) }
}

/// The commands that come next, and what each does.
fn next(result: &JobResult, name: &str) -> Vec<(String, String)> {
    let findings = &result.findings;
    let mut next = Vec::new();
    let in_steps = result.steps.iter().filter_map(|step| step.result.as_ref());
    if findings.distinct_errors > 0 || in_steps.clone().any(|step| step.findings.distinct_errors > 0) {
        next.push((format!("prs errors {name}"), "tracebacks and items".to_owned()));
    }
    for step in in_steps.filter(|step| step.findings.mini_batches_missing > 0) {
        // Commands find the job of a step by its id, but not where they need the folder of its pipeline.
        let is_found = name == result.job_id;
        let step_name = if is_found { step.job_id.clone() } else { format!("{name}/steps/{}", step.job_id) };
        next.push((
            format!("prs try {step_name} --failed --pdb"),
            "the first mini-batch that this step lost here, in a debugger".to_owned(),
        ));
    }
    let missing = findings.mini_batches_missing;
    if missing > 0 {
        next.push((
            format!("prs try {name} --failed --pdb"),
            "the first of these mini-batches here, in a debugger".to_owned(),
        ));
    }
    if result.state == JobState::Completed && missing > 0 {
        next.push((format!("prs resume {name}"), format!("runs {} again", count(missing, "mini-batch"))));
    } else if result.state != JobState::Completed && !result.steps.is_empty() {
        let done = result.steps.iter().filter_map(|step| step.result.as_ref());
        let done = done.filter(|step| step.state == JobState::Completed).count();
        next.push((
            format!("prs resume {name}"),
            format!("runs what is missing ({} done)", count(done as u64, "step")),
        ));
    } else if result.state != JobState::Completed {
        let done = count(result.mini_batches.succeeded, "mini-batch");
        next.push((format!("prs resume {name}"), format!("runs what is missing ({done} done)")));
    }
    next
}

#[cfg(test)]
mod tests {
    use prs_orchestrator::job::errors::ErrorGroup;
    use prs_orchestrator::job::findings::{Findings, TryCounts};
    use prs_orchestrator::job::record::{ItemCounts, MiniBatchCounts, Output};

    use super::*;

    fn result(state: JobState) -> JobResult {
        JobResult {
            job_id: "flaky-1".into(),
            name: "flaky".into(),
            submitted_us: 0,
            ended_us: None,
            kept_until_us: None,
            state,
            reason: None,
            reused: None,
            output: Output {
                uri: "/h/out/rows.txt".into(),
                rows: 380,
                bytes: 1400,
                sha256: Some("5".into()),
            },
            logs: "/h/run/logs".into(),
            mini_batches: MiniBatchCounts { scheduled: 80, succeeded: 80, failed: 0 },
            items: ItemCounts { total: 400, succeeded: 400, failed: 0 },
            seconds: 3.6,
            waited_seconds: 0.0,
            starts: Vec::new(),
            findings: Findings { complete: true, ..Findings::default() },
            steps: Vec::new(),
        }
    }

    #[test]
    fn a_job_that_has_all_says_no_more_than_that() {
        let expected = "\
job           flaky-1
state         completed
mini-batches  80 scheduled, 80 succeeded, 0 failed
items         400 total, 400 succeeded, 0 failed
time          3.6 s
output        /h/out/rows.txt (380 rows, 1400 bytes)
logs          /h/run/logs
";
        assert_eq!(text(&result(JobState::Completed), "flaky-1", None), expected);
    }

    #[test]
    fn what_is_missing_comes_with_cause_and_next_command() {
        let mut result = result(JobState::Completed);
        result.mini_batches = MiniBatchCounts { scheduled: 80, succeeded: 76, failed: 4 };
        result.items = ItemCounts { total: 400, succeeded: 380, failed: 20 };
        let frame = SourceLine {
            file: "/h/code/flaky.py".into(),
            line: 5,
            function: "run".into(),
            text: "raise ConnectionError(\"503\")".into(),
        };
        let group = ErrorGroup {
            status: "RUN_EXCEPTION".into(),
            category: "ConnectionError".into(),
            message: "upstream API returned 503\nmore".into(),
            frame: Some(frame),
            tries: 54,
            mini_batches_lost: 4,
            items_lost: 20,
            ..ErrorGroup::default()
        };
        result.findings = Findings {
            mini_batches_missing: 4,
            tries: TryCounts { failed: 54, made_good: 42 },
            distinct_errors: 2,
            errors: vec![group],
            ..Findings::default()
        };
        let expected = "\
job           flaky-1
state         completed, but 20 of 400 items are missing from the result
mini-batches  80 scheduled, 76 succeeded, 4 failed
items         400 total, 380 succeeded, 20 failed
missing       items of 4 of 80 mini-batches: /h/out/failed_mini_batches.jsonl
tries         54 failed; later tries made 42 of them good
time          3.6 s
output        /h/out/rows.txt (380 rows, 1400 bytes)
logs          /h/run/logs

ConnectionError: upstream API returned 503
    54 tries failed, 4 mini-batches lost (20 items)
    code/flaky.py:5 in run: raise ConnectionError(\"503\")

and 1 other error

  prs errors flaky-1               tracebacks and items
  prs try flaky-1 --failed --pdb   the first of these mini-batches here, in a debugger
  prs resume flaky-1               runs 4 mini-batches again
";
        assert_eq!(text(&result, "flaky-1", Some(Path::new("/h"))), expected);
    }

    #[test]
    fn what_is_not_known_is_not_counted_and_a_wait_stands_beside_the_run() {
        let mut result = result(JobState::Failed);
        result.mini_batches = MiniBatchCounts { scheduled: 2, succeeded: 0, failed: 0 };
        (result.items, result.waited_seconds) = (ItemCounts::default(), 12.0);
        result.reason = Some("the script cannot be imported".into());
        let text = text(&result, "flaky-1", None);
        assert!(text.contains("\nmini-batches  2 scheduled, 0 succeeded, 0 failed\ntime  "), "{text}");
        assert!(text.contains("\ntime          3.6 s, after 12.0 s without a worker\n"), "{text}");
        assert_eq!(text.matches("the script cannot be imported").count(), 1, "{text}");
    }

    #[test]
    fn a_job_that_ended_early_says_how_it_goes_on() {
        let mut result = result(JobState::Canceled);
        (result.reason, result.mini_batches.succeeded) = (Some("interrupted (Ctrl-C)".into()), 3);
        let text = text(&result, "prs-runs/x", None);
        let end = "\n  prs resume prs-runs/x   runs what is missing (3 mini-batches done)\n";
        assert!(text.contains("\nreason        interrupted (Ctrl-C)\n") && text.ends_with(end), "{text}");
    }
}
