//! `gc`: removes jobs whose time is over, and what no job names.

use std::process::ExitCode;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::HumanBytes;
use prs_common::host_name;
use prs_common::storage::Storage;
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::blobs;
use prs_jobs::homes::fleet::{Reader, note_gc};
use prs_jobs::homes::{self, Home, Leftover};
use prs_jobs::records;
use prs_jobs::records::{Collected, ExpiredJob};
use prs_jobs::remove::after;
use prs_orchestrator::gc::{self, Amount, Found, GcError, Wanted};

use crate::cli::{Collect, Format};
use crate::failure::{Code, Failure};
use crate::progress::Screen;
use crate::terminal::output;

/// Jobs that are looked at side by side.
const LOOKS_AT_ONCE: usize = 8;

/// A job that is to go.
struct Doomed {
    shown: Shown,
    home: Home,
    /// Its last start; nothing where it has no record.
    start: Option<u32>,
}

enum Shown {
    /// Its time is over.
    Expired(ExpiredJob),
    /// Its removal was interrupted.
    Rest(records::Leftover),
}

impl Doomed {
    fn job_id(&self) -> &str {
        match &self.shown {
            Shown::Expired(job) => &job.job_id,
            Shown::Rest(rest) => &rest.job_id,
        }
    }
}

/// Shows what may go, or removes it.
pub(super) async fn gc(arguments: &Collect, format: Format) -> Result<ExitCode, Failure> {
    let reader = Reader::connect(&arguments.whereabouts.settled()?).await?;
    let mut jobs = doomed(arguments).await?;
    if arguments.yes {
        jobs = remove(jobs).await?;
    }
    let storage = match &reader {
        Some(reader) => Some(Arc::clone(reader.storage())),
        None => blobs::of_this_machine(&arguments.whereabouts.settled()?).await?,
    };
    let found = match storage {
        Some(storage) => unnamed(storage, arguments, &jobs).await?,
        None => Found::default(),
    };
    let collected = collected(arguments.yes, jobs, found);
    if format == Format::Json {
        output::json(&collected)?;
        return Ok(Code::Completed.into());
    }
    let lines = lines(&collected);
    if lines.is_empty() {
        output::note("there is nothing to remove");
        return Ok(Code::Completed.into());
    }
    lines.iter().try_for_each(|line| output::line(line))?;
    output::note(if arguments.yes { "removed" } else { "nothing is removed yet: prs gc --yes does it" });
    Ok(Code::Completed.into())
}

/// The jobs whose time is over, and those whose removal was interrupted.
async fn doomed(arguments: &Collect) -> Result<Vec<Doomed>, Failure> {
    let homes = homes::all(&arguments.whereabouts.settled()?).await?;
    let looks = homes.into_iter().map(|home| async move {
        let leftover = match home.leftover().await {
            Ok(leftover) => leftover,
            // A job that cannot be read, or still runs, stays.
            Err(failure) if failure.is_usage() => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let (job_id, start) = (home.called(), leftover.start());
        let shown = match leftover {
            Leftover::Job { name, kept_until_us: Some(until), .. } if until <= now_us() => {
                let (_, bytes) = home.amount().await?;
                Shown::Expired(ExpiredJob { job_id, name, keep_until: format_us(until), bytes })
            }
            Leftover::Remains { removed: true } => {
                let (objects, bytes) = home.amount().await?;
                Shown::Rest(records::Leftover { job_id, objects, bytes })
            }
            _ => return Ok(None),
        };
        Ok::<_, Failure>(Some(Doomed { shown, home, start }))
    });
    let looks = stream::iter(looks).buffered(LOOKS_AT_ONCE);
    looks.try_filter_map(|doomed| std::future::ready(Ok(doomed))).try_collect().await
}

/// Removes these jobs, but for those that another command goes on with, and gives back which.
async fn remove(jobs: Vec<Doomed>) -> Result<Vec<Doomed>, Failure> {
    let mut removed = Vec::<Doomed>::new();
    for job in jobs {
        match job.home.remove(job.start).await {
            Ok(()) => removed.push(job),
            Err(failure) if failure.is_usage() => output::note(failure),
            Err(failure) => return Err(after(failure, removed.iter().map(Doomed::job_id))),
        }
    }
    Ok(removed)
}

/// What no job names, when these jobs are gone.
async fn unnamed(storage: Arc<dyn Storage>, arguments: &Collect, jobs: &[Doomed]) -> Result<Found, Failure> {
    let ids = || jobs.iter().map(Doomed::job_id);
    let wanted = Wanted { older: arguments.older.as_secs(), gone: ids().map(str::to_owned).collect() };
    let failure = |error| match error {
        GcError::Listing { .. } => Failure::wrong(error),
        error => Failure::server(error),
    };
    if !arguments.yes {
        return gc::look(&storage, &wanted).await.map_err(failure);
    }
    let by = format!("{}/{}", host_name(), std::process::id());
    let found = gc::collect(&storage, &wanted, &by, &|by| note_gc(&Screen, by)).await;
    found.map_err(|error| after(failure(error), ids()))
}

fn collected(removed: bool, doomed: Vec<Doomed>, found: Found) -> Collected {
    let leftover = |(job_id, Amount { objects, bytes })| records::Leftover { job_id, objects, bytes };
    let (mut jobs, mut leftovers) = (Vec::new(), Vec::new());
    for job in doomed {
        match job.shown {
            Shown::Expired(job) => jobs.push(job),
            Shown::Rest(rest) => leftovers.push(rest),
        }
    }
    leftovers.extend(found.leftovers.into_iter().map(leftover));
    Collected { removed, jobs, leftovers, inputs: found.inputs }
}

/// The same for people.
fn lines(collected: &Collected) -> Vec<String> {
    let Collected { jobs, leftovers, inputs, .. } = collected;
    let job = |ExpiredJob { job_id, keep_until, bytes, .. }: &ExpiredJob| {
        format!("job {job_id}, kept until {} UTC, {}", keep_until[..16].replace('T', " "), HumanBytes(*bytes))
    };
    let leftover = |records::Leftover { job_id, bytes, .. }: &records::Leftover| {
        format!("what is left of {job_id}, which is no job, {}", HumanBytes(*bytes))
    };
    let mut lines: Vec<String> = jobs.iter().map(job).chain(leftovers.iter().map(leftover)).collect();
    if inputs.objects > 0 {
        let files = if inputs.objects == 1 { "file" } else { "files" };
        let (count, bytes) = (inputs.objects, HumanBytes(inputs.bytes));
        lines.push(format!("{count} uploaded {files} that no job names, {bytes}"));
    }
    lines
}
