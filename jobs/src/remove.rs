//! Removing jobs that have ended, with their logs and what they have of results.

use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::ledger::JobState;
use prs_common::timestamp::{format_us, now_us};

use crate::failure::Failure;
use crate::homes::{self, Home, Leftover, Whereabouts, naming};
use crate::records::RemovedJob;

/// Jobs whose objects are listed side by side.
const LISTED_AT_ONCE: usize = 8;

/// Which jobs are to be removed, described.
#[derive(Debug, Clone, Default)]
pub struct Described {
    /// Those in one of these states; in any where there is none.
    pub states: Vec<JobState>,
    /// Those of this name.
    pub name: Option<String>,
    /// Those submitted longer ago than this.
    pub older: Option<Duration>,
}

/// A job that was chosen.
#[derive(Debug)]
pub struct Chosen {
    leftover: Leftover,
    home: Home,
}

/// A job that is to be removed, and the room that it takes.
#[derive(Debug)]
pub struct Doomed {
    /// What commands call it.
    pub job_id: String,
    /// What is there of it.
    pub leftover: Leftover,
    /// Everything of it, bytes.
    pub bytes: u64,
    home: Home,
}

/// The jobs that have these names; each must have ended.
pub async fn named(names: &[String], whereabouts: &Whereabouts) -> Result<Vec<Chosen>, Failure> {
    let mut chosen: Vec<Chosen> = Vec::new();
    for name in names {
        let id = naming::resolve(name, whereabouts).await?;
        let home = homes::find(&id, whereabouts).await?;
        let (link, is_folder) = (whereabouts.runs.join(&id), name.contains('/'));
        if !is_folder && link.is_symlink() && is_linked(&home, whereabouts) {
            let folder = home.run_folder().unwrap_or(&link).display().to_string();
            return Err(Failure::wrong(format!(
                "{} is a link to {folder}, and nothing is removed through a link: give that folder, and remove the link",
                link.display()
            )));
        }
        if chosen.iter().all(|other| other.home.called() != home.called()) {
            chosen.push(Chosen { leftover: home.leftover().await?, home });
        }
    }
    Ok(chosen)
}

/// Whether a link among the runs of this machine leads to the folder of the run.
fn is_linked(home: &Home, whereabouts: &Whereabouts) -> bool {
    let runs = whereabouts.runs.canonicalize().ok();
    let is_apart = |folder: &Path| runs.is_some_and(|runs| !folder.starts_with(runs));
    home.run_folder().is_some_and(is_apart)
}

/// The jobs that have ended and are described so. A description that fits every job is an error of usage.
pub async fn described(described: &Described, whereabouts: &Whereabouts) -> Result<Vec<Chosen>, Failure> {
    let Described { states, name, older } = described;
    if states.is_empty() && name.is_none() && older.is_none() {
        return Err(Failure::wrong(
            "name the jobs to be removed, or describe them by --state, --name or --older",
        ));
    }
    let before = older.map_or(u64::MAX, |older| now_us().saturating_sub(older.as_micros() as u64));
    let mut chosen = Vec::new();
    for home in homes::all(whereabouts).await? {
        // Whoever described it does not know where a link among the runs leads.
        if name.as_ref().is_some_and(|name| !home.may_have_name(name)) || is_linked(&home, whereabouts) {
            continue;
        }
        let leftover = match home.leftover().await {
            Ok(leftover) => leftover,
            // A job that runs, or has no readable record, goes only by its id.
            Err(failure) if failure.is_usage() => continue,
            Err(failure) => return Err(failure),
        };
        let Leftover::Job { state: is_in, name: is_called, submitted_us, .. } = &leftover else { continue };
        if (states.is_empty() || states.contains(is_in))
            && name.as_ref().is_none_or(|name| name == is_called)
            && *submitted_us < before
        {
            chosen.push(Chosen { leftover, home });
        }
    }
    Ok(chosen)
}

/// Looks how much room these jobs take.
pub async fn weigh(chosen: Vec<Chosen>) -> Result<Vec<Doomed>, Failure> {
    let weighed = stream::iter(chosen).map(|Chosen { leftover, home }| async move {
        let (_, bytes) = home.amount().await?;
        Ok::<_, Failure>(Doomed { job_id: home.called(), leftover, bytes, home })
    });
    weighed.buffered(LISTED_AT_ONCE).try_collect().await
}

/// Removes these jobs, one after the other. One that was started again since it was chosen stays, and so do those behind it;
/// the failure says which were removed before.
pub async fn remove(doomed: Vec<Doomed>) -> Result<Vec<RemovedJob>, Failure> {
    for (at, job) in doomed.iter().enumerate() {
        let removed = job.home.remove(job.leftover.start()).await;
        removed.map_err(|failure| after(failure, doomed[..at].iter().map(|job| &*job.job_id)))?;
    }
    Ok(doomed.into_iter().map(RemovedJob::from).collect())
}

/// The failure of a call that had removed these jobs before.
pub fn after<'a>(failure: Failure, removed: impl Iterator<Item = &'a str>) -> Failure {
    let removed: Vec<_> = removed.collect();
    if removed.is_empty() {
        return failure;
    }
    failure.and(format_args!("removed before that: {}", removed.join(", ")))
}

impl From<Doomed> for RemovedJob {
    fn from(Doomed { job_id, leftover, bytes, .. }: Doomed) -> Self {
        let (name, state, submitted) = match leftover {
            Leftover::Job { state, name, submitted_us, .. } => {
                (Some(name), Some(state), Some(format_us(submitted_us)))
            }
            Leftover::Remains { .. } | Leftover::Unread => (None, None, None),
        };
        Self { job_id, name, state, submitted_at: submitted, bytes }
    }
}
