//! `job_result.txt`: how a job ended, for people. The reason of a failure stands in its first line.

use std::fmt::Write;

use prs_common::job::{JobSpec, OutputAction};
use prs_common::ledger::JobState;
use prs_common::timestamp::{format_us, now_us};

use super::progress_overview::time_of;
use super::starts;
use crate::job::findings::Findings;
use crate::job::record::JobResult;
use crate::job::words;

/// Whether two such texts are about the same end of the same job: all but the time in the line that says when.
pub fn say_the_same(one: &str, other: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("ended ")).map(str::to_owned).collect()
    };
    lines(one) == lines(other)
}

/// The text. `place` is the run folder or the job's prefix, for the commands it suggests.
pub fn text(result: &JobResult, spec: &JobSpec, place: &str) -> String {
    let mut out = result.state.as_str().to_owned();
    if let Some(reason) = &result.reason {
        // The first line of the reason goes into the first line of the file, which people and scripts read first.
        let _ = write!(out, ": {}", reason.trim().replace('\n', "\n  "));
    } else if let Some(missing) = words::missing(result) {
        let _ = write!(out, ": {missing}");
    }
    let (counts, items) = (&result.mini_batches, &result.items);
    let _ = write!(
        out,
        "\n\njob           {} ({})\nended         {} after {}\n\
         mini-batches  {} scheduled, {} succeeded, {} failed\n\
         items         {} total, {} succeeded, {} failed\n\
         thresholds    error_threshold {} (failed items: {}), allowed_failed_count {} and allowed_failed_percent {} (failed mini-batches: {})\n",
        result.job_id,
        result.name,
        format_us(result.ended_us.unwrap_or_else(now_us)),
        time_of(result),
        counts.scheduled,
        counts.succeeded,
        counts.failed,
        items.total,
        items.succeeded,
        items.failed,
        spec.error_threshold,
        items.failed,
        spec.allowed_failed_count,
        spec.allowed_failed_percent,
        counts.failed,
    );
    if let Some(last) = words::last_start(result) {
        let _ = writeln!(out, "last start    {}", last.trim().replace('\n', "\n              "));
    }
    if let Some(reused) = words::reused(result) {
        let _ = writeln!(out, "reused        {reused}");
    }
    causes(&result.findings, &mut out);
    out.push_str(&starts::lines(&result.starts));
    for note in &spec.notes {
        let _ = writeln!(out, "note          {note}");
    }
    let output = &result.output;
    let _ = match (&output.sha256, spec.output_action) {
        (Some(sha256), _) => {
            writeln!(
                out,
                "output        {}\n              {} rows, {} bytes, sha256 {sha256}",
                output.uri, output.rows, output.bytes
            )
        }
        (None, OutputAction::SummaryOnly) if result.state == JobState::Completed => {
            writeln!(out, "output        {} (written by the entry script)", output.uri)
        }
        (None, _) => {
            writeln!(out, "output        none; the {} mini-batches that succeeded are kept", counts.succeeded)
        }
    };
    let _ = writeln!(out, "logs          {}\n", result.logs);
    out.push_str(&next(result, place));
    out
}

/// Why tries failed and items are missing.
fn causes(findings: &Findings, out: &mut String) {
    if let Some(tries) = words::tries(findings.tries) {
        let _ = writeln!(out, "tries         {tries}");
    }
    if let Some(replaced) = words::replaced(findings.replaced_processes) {
        let _ = writeln!(out, "replaced      {replaced}");
    }
    for (at, group) in findings.errors.iter().enumerate() {
        let head = if at == 0 { "errors" } else { "" };
        let _ = writeln!(out, "{head:14}{}: {}", group.in_one_line(), words::cost(group));
    }
    let more = findings.distinct_errors.saturating_sub(findings.errors.len() as u64);
    if more > 0 {
        let _ = writeln!(out, "              and {more} more");
    }
    if let Some(surplus) = &findings.surplus {
        let _ = writeln!(out, "note          {}", words::surplus(surplus));
    }
    for told in findings.left_out.iter().chain(&findings.types_differ).chain(&findings.gpu_shortage) {
        let _ = writeln!(out, "note          {told}");
    }
}

/// Which file to open next, and what to do.
fn next(result: &JobResult, place: &str) -> String {
    let mut out = String::new();
    if let Some(listed) = words::listed(result) {
        let _ = writeln!(out, "missing       {listed}");
        let _ = writeln!(
            out,
            "open next     job_error.txt: the distinct errors; user/error/: full tracebacks; prs errors {place} shows both"
        );
        let _ = writeln!(out, "then          prs resume {place}   runs only what is missing or failed");
        let _ = writeln!(
            out,
            "              prs try {place} --failed   runs the first of them in your terminal; --pdb looks into it"
        );
    } else if result.state == JobState::Failed {
        let _ = writeln!(
            out,
            "open next     job_error.txt: the distinct errors; user/error/ and user/stderr/: what the script said"
        );
        let _ = writeln!(
            out,
            "              sys/node/<node_id>/_main.txt: how its processes ended; sys/master_role.txt: what was decided"
        );
        let _ = writeln!(out, "then          prs resume {place}   goes on from what is done");
    } else if result.state == JobState::Canceled {
        let _ = writeln!(out, "then          prs resume {place}   goes on from what is done");
    } else if let Some(former) = &result.reused {
        let _ = writeln!(
            out,
            "open next     nothing ran for this job: prs logs {former} shows the logs of the one that did\n\
             then          prs submit JOB.yml --set allow_reuse=false   runs it anew"
        );
    } else {
        let _ = writeln!(
            out,
            "open next     sys/job_report/processed_mini-batches.csv: every try, with its times"
        );
    }
    out
}
