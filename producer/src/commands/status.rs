//! `status`: where a job stands.

use std::process::ExitCode;

use prs_jobs::records;
use prs_orchestrator::job::count;
use prs_orchestrator::job::record::{ProcessAtWork, Status};
use prs_orchestrator::report::progress_overview::{duration, time_of};

use super::summary;
use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};
use crate::progress::{describe_error, describe_lost, describe_preparing, describe_printed};
use crate::terminal::output;

/// Processes that are shown with what they have in hand.
const MOST_AT_WORK: usize = 32;

/// Shows where a job stands.
pub(super) async fn status(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let home = job.find().await?;
    let seen = home.look().await?;
    let shown = seen.shown().honest();
    if format == Format::Json {
        output::json(&records::Job::seen(&seen))?;
    } else if seen.result.state.is_final() {
        summary::print(format, &seen.result, &home.called())?;
    } else {
        let (status, line) = (&shown.status, shown.line().unwrap_or_default());
        let mut rows = vec![("job", seen.result.job_id.clone()), ("progress", line)];
        if seen.is_known() {
            rows.push(("time", time_of(&seen.result)));
            let wanted = seen.nodes_wanted();
            rows.push(("processes", format!("{} (nodes: {} of {wanted})", status.processes, status.nodes)));
        }
        rows.extend(describe_preparing(status).map(|(does, _)| ("node", does)));
        let printed = status.printed.as_ref();
        rows.extend(printed.map(|line| ("loading", describe_printed(line, status.nodes))));
        rows.extend(
            status.at_work.iter().take(MOST_AT_WORK).map(|process| ("process", at_work(process, status))),
        );
        if status.at_work.len() > MOST_AT_WORK {
            rows.push(("process", format!("... {} more", status.at_work.len() - MOST_AT_WORK)));
        }
        rows.extend(status.lost.iter().map(|node| ("lost", describe_lost(node))));
        rows.extend(status.errors.iter().map(|error| ("error", describe_error(error))));
        rows.push(("logs", seen.result.logs));
        output::pairs(&rows)?;
    }
    Ok(Code::Completed.into())
}

/// What a process has in hand.
fn at_work(process: &ProcessAtWork, status: &Status) -> String {
    let ProcessAtWork { node_id, process: number, index, of, .. } = process;
    let others = if *of > 1 { format!(" and {}", count(of - 1, "other")) } else { String::new() };
    let long = duration(status.held_for(process));
    format!("process{number:03} of node {node_id}: mini-batch {index} for {long}{others}")
}
