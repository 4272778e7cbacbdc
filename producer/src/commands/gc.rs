//! `gc`: removes jobs whose time is over, and what no job names.

use std::collections::HashSet;
use std::process::ExitCode;

use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::HumanBytes;
use prs_common::host_name;
use prs_common::timestamp::{format_us, now_us};
use prs_orchestrator::gc::{self, Amount, Found, GcError, Wanted};

use crate::cli::{Collect, Format};
use crate::failure::{Code, Failure};
use crate::fleet::{Reader, waits_for_gc};
use crate::output;
use crate::place::Place;
use crate::records::{Collected, ExpiredJob, Inputs, Leftover, SCHEMA};

/// Jobs that are looked at side by side.
const LOOKS_AT_ONCE: usize = 8;

/// A job whose time is over.
struct Expired {
    shown: ExpiredJob,
    place: Place,
}

/// Shows what may go, or removes it.
pub(super) async fn gc(arguments: &Collect, format: Format) -> Result<ExitCode, Failure> {
    let expired = expired(arguments).await?;
    if arguments.yes {
        for job in &expired {
            job.place.remove().await?;
        }
    }
    let found = match Reader::connect(arguments.whereabouts.urls()?).await? {
        Some(reader) => Some(unnamed(&reader, arguments, &expired).await?),
        None => None,
    };
    let jobs = expired.into_iter().map(|job| job.shown).collect();
    let collected = collected(arguments.yes, jobs, found.unwrap_or_default());
    if format == Format::Json {
        output::json(&collected)?;
        return Ok(Code::Completed.into());
    }
    let lines = lines(&collected);
    if lines.is_empty() {
        output::say("there is nothing to remove");
        return Ok(Code::Completed.into());
    }
    lines.iter().try_for_each(|line| output::line(line))?;
    output::say(if arguments.yes { "removed" } else { "nothing is removed yet: prs gc --yes does it" });
    Ok(Code::Completed.into())
}

/// The jobs whose time is over.
async fn expired(arguments: &Collect) -> Result<Vec<Expired>, Failure> {
    let places = Place::all(&arguments.whereabouts).await?;
    let looks = places.into_iter().map(|place| async move {
        // What cannot be read, or goes on, stays.
        let Some((record, until)) = place.kept_until().await? else { return Ok(None) };
        if until > now_us() {
            return Ok(None);
        }
        let bytes = place.bytes().await?;
        let (job_id, name) = (place.called(), record.spec.name);
        let shown = ExpiredJob { job_id, name, kept_until: format_us(until), bytes };
        Ok::<_, Failure>(Some(Expired { shown, place }))
    });
    let looks = stream::iter(looks).buffered(LOOKS_AT_ONCE);
    looks.try_filter_map(|expired| std::future::ready(Ok(expired))).try_collect().await
}

/// What no job of the fleet names.
async fn unnamed(reader: &Reader, arguments: &Collect, expired: &[Expired]) -> Result<Found, Failure> {
    let gone: HashSet<String> = expired.iter().map(|job| job.shown.job_id.clone()).collect();
    let wanted = Wanted { older: arguments.older.as_secs(), gone };
    let storage = reader.shared();
    let found = if arguments.yes {
        let by = format!("{}/{}", host_name(), std::process::id());
        gc::collect(&storage, &wanted, &by, &waits_for_gc).await
    } else {
        gc::look(&storage, &wanted).await
    };
    found.map_err(|error| match error {
        GcError::Listing { .. } => Failure::wrong(error),
        error => Failure::server(error),
    })
}

fn collected(removed: bool, jobs: Vec<ExpiredJob>, found: Found) -> Collected {
    let leftover = |(job_id, Amount { objects, bytes })| Leftover { job_id, objects, bytes };
    let Amount { objects, bytes } = found.inputs;
    Collected {
        schema: SCHEMA,
        removed,
        jobs,
        leftovers: found.leftovers.into_iter().map(leftover).collect(),
        inputs: Inputs { objects, bytes },
    }
}

/// The same for people.
fn lines(collected: &Collected) -> Vec<String> {
    let Collected { jobs, leftovers, inputs, .. } = collected;
    let job = |ExpiredJob { job_id, kept_until, bytes, .. }: &ExpiredJob| {
        format!("job {job_id}, kept until {} UTC, {}", kept_until[..16].replace('T', " "), HumanBytes(*bytes))
    };
    let leftover = |Leftover { job_id, bytes, .. }: &Leftover| {
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
