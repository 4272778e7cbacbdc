//! `rm`: removes jobs that have ended, with their logs and what they have of results.

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use console::Term;
use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::HumanBytes;
use prs_common::timestamp::{format_us, now_us};
use prs_orchestrator::job::count;

use crate::cli::{Format, Remove};
use crate::failure::{Code, Failure};
use crate::place::{Leftover, Place};
use crate::records::{Removed, RemovedJob, SCHEMA};
use crate::table::Table;
use crate::{colours, naming, output};

/// Jobs whose objects are listed side by side.
const LISTED_AT_ONCE: usize = 8;

/// A job that is to be removed.
#[derive(Debug)]
struct Doomed {
    job_id: String,
    leftover: Leftover,
    /// Everything of it, bytes.
    bytes: u64,
    place: Place,
}

/// Removes jobs, when a person has agreed.
pub(super) async fn remove(arguments: &Remove, format: Format) -> Result<ExitCode, Failure> {
    let chosen =
        if arguments.jobs.is_empty() { by_filter(arguments).await? } else { named(arguments).await? };
    if chosen.is_empty() && format == Format::Table {
        output::say("there is no such job");
        return Ok(Code::Completed.into());
    }
    if format == Format::Json && !arguments.yes && !chosen.is_empty() {
        return Err(Failure::wrong("with -o json nobody is asked: give --yes to remove these jobs"));
    }
    let weighed = stream::iter(chosen).map(|(leftover, place)| async move {
        let (_, bytes) = place.amount().await?;
        Ok::<_, Failure>(Doomed { job_id: place.called(), leftover, bytes, place })
    });
    let doomed: Vec<Doomed> = weighed.buffered(LISTED_AT_ONCE).try_collect().await?;
    if !arguments.yes && !doomed.is_empty() && !is_agreed(&doomed)? {
        output::say("nothing is removed");
        return Ok(Code::Interrupted.into());
    }
    for (at, job) in doomed.iter().enumerate() {
        let removed = job.place.remove(job.leftover.start()).await;
        removed.map_err(|failure| after(failure, doomed[..at].iter().map(|job| &*job.job_id)))?;
    }
    match format {
        Format::Json => {
            let jobs = doomed.into_iter().map(RemovedJob::from).collect();
            output::json(&Removed { schema: SCHEMA, jobs })?;
        }
        Format::Table => {
            let bytes = doomed.iter().map(|job| job.bytes).sum();
            output::line(&format!("{} removed, {}", count(doomed.len() as u64, "job"), HumanBytes(bytes)))?;
        }
    }
    Ok(Code::Completed.into())
}

/// The failure of a command that had removed these jobs before.
pub(super) fn after<'a>(failure: Failure, removed: impl Iterator<Item = &'a str>) -> Failure {
    let removed: Vec<_> = removed.collect();
    if removed.is_empty() {
        return failure;
    }
    failure.and(format_args!("removed before that: {}", removed.join(", ")))
}

/// The jobs that are named; each must have ended.
async fn named(arguments: &Remove) -> Result<Vec<(Leftover, Place)>, Failure> {
    let mut chosen: Vec<(Leftover, Place)> = Vec::new();
    for name in &arguments.jobs {
        let id = naming::resolve(name, &arguments.whereabouts).await?;
        let place = Place::find_to_remove(&id, &arguments.whereabouts).await?;
        if chosen.iter().all(|(_, other)| other.called() != place.called()) {
            chosen.push((place.leftover().await?, place));
        }
    }
    Ok(chosen)
}

/// The jobs that have ended and that the options describe.
async fn by_filter(arguments: &Remove) -> Result<Vec<(Leftover, Place)>, Failure> {
    let Remove { state, name, older, .. } = arguments;
    if state.is_empty() && name.is_none() && older.is_none() {
        return Err(Failure::wrong(
            "name the jobs to be removed, or describe them by --state, --name or --older",
        ));
    }
    let before = older.map_or(u64::MAX, |older| now_us().saturating_sub(older.as_micros() as u64));
    let mut chosen = Vec::new();
    for place in Place::all(&arguments.whereabouts).await? {
        if name.as_ref().is_some_and(|name| !place.may_have_name(name)) {
            continue;
        }
        let leftover = match place.leftover().await {
            Ok(leftover) => leftover,
            // A job that runs, or has no readable record, goes only by its id.
            Err(failure) if failure.is_usage() => continue,
            Err(failure) => return Err(failure),
        };
        let Leftover::Job { state: is_in, name: is_called, submitted_us, .. } = &leftover else { continue };
        if (state.is_empty() || state.contains(is_in))
            && name.as_ref().is_none_or(|name| name == is_called)
            && *submitted_us < before
        {
            chosen.push((leftover, place));
        }
    }
    Ok(chosen)
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

impl From<Doomed> for RemovedJob {
    fn from(Doomed { job_id, leftover, bytes, .. }: Doomed) -> Self {
        let (name, state, submitted) = match leftover {
            Leftover::Job { state, name, submitted_us, .. } => {
                (Some(name), Some(state), Some(format_us(submitted_us)))
            }
            Leftover::Remains { .. } => (None, None, None),
        };
        Self { job_id, name, state, submitted, bytes }
    }
}
