//! `rm`: removes jobs that have ended, with their logs and what they have of results.

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use console::Term;
use indicatif::HumanBytes;
use prs_common::timestamp::format_us;
use prs_jobs::homes::Leftover;
use prs_jobs::records::Removed;
use prs_jobs::remove::{self, Described, Doomed};
use prs_orchestrator::job::count;

use crate::cli::{Format, Remove};
use crate::failure::{Code, Failure};
use crate::terminal::table::Table;
use crate::terminal::{colours, output};

/// Removes jobs, when a person has agreed.
pub(super) async fn remove(arguments: &Remove, format: Format) -> Result<ExitCode, Failure> {
    let Remove { jobs, state, name, older, yes, whereabouts } = arguments;
    let whereabouts = whereabouts.settled()?;
    let chosen = if jobs.is_empty() {
        let described = Described { states: state.clone(), name: name.clone(), older: *older };
        remove::described(&described, &whereabouts).await?
    } else {
        remove::named(jobs, &whereabouts).await?
    };
    if chosen.is_empty() && format == Format::Table {
        output::note("there is no such job");
        return Ok(Code::Completed.into());
    }
    if format == Format::Json && !yes && !chosen.is_empty() {
        return Err(Failure::wrong("with -o json nobody is asked: give --yes to remove these jobs"));
    }
    let doomed = remove::weigh(chosen).await?;
    if !yes && !doomed.is_empty() && !is_agreed(&doomed)? {
        output::note("nothing is removed");
        return Ok(Code::Interrupted.into());
    }
    let jobs = remove::remove(doomed).await?;
    match format {
        Format::Json => output::json(&Removed { jobs })?,
        Format::Table => {
            let bytes = jobs.iter().map(|job| job.bytes).sum();
            output::line(&format!("{} removed, {}", count(jobs.len() as u64, "job"), HumanBytes(bytes)))?;
        }
    }
    Ok(Code::Completed.into())
}

/// Asks the person at the terminal.
fn is_agreed(doomed: &[Doomed]) -> Result<bool, Failure> {
    let rows = doomed.iter().map(|job| {
        let (state, submitted) = match &job.leftover {
            Leftover::Job { state, submitted_us, .. } => {
                let shown = colours::state(state.as_str(), *state, false).to_string();
                (shown, format_us(*submitted_us)[..19].replace('T', " "))
            }
            Leftover::Remains { .. } => ("without a record".to_owned(), String::new()),
            Leftover::Unread => ("not to be read".to_owned(), String::new()),
        };
        vec![job.job_id.clone(), state, submitted, HumanBytes(job.bytes).to_string()]
    });
    let table = Table::new(&["JOB", "STATE", "SUBMITTED (UTC)", "SIZE"], rows.collect());
    output::text(&table.fit(&Term::stdout(), &["SUBMITTED (UTC)"]).text())?;
    if !stdin().is_terminal() {
        return Err(Failure::wrong("no terminal to ask at: give --yes to remove these jobs"));
    }
    let bytes = doomed.iter().map(|job| job.bytes).sum();
    output::ask(format_args!(
        "Remove {} with their logs and results, {}? [y/N] ",
        count(doomed.len() as u64, "job"),
        HumanBytes(bytes)
    ));
    let mut answer = String::new();
    let read = stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
