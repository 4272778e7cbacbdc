//! The jobs of this machine or of a fleet: how they are found, how they stand, how they are followed, ended and removed.
//!
//! | file | duty |
//! |---|---|
//! | `home` | where a job lives: what a run folder and a fleet have in common, and the trait for what differs |
//! | `run_folder` | a folder of this machine: its lock, and the wish to cancel |
//! | `folder_home` | a job in a run folder |
//! | `fleet/` | a job of a fleet |
//! | `naming` | ids, names, `@latest` |
//! | `standing` | what a fleet does for a job, in words |

pub(crate) mod fleet;
mod folder_home;
mod home;
pub(crate) mod naming;
pub(crate) mod run_folder;
pub(crate) mod standing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use futures_util::StreamExt;
use prs_common::layout;

use self::fleet::{FleetHome, Reader};
use self::folder_home::FolderHome;
use crate::cli::{Job, Whereabouts};
use crate::failure::Failure;
use crate::terminal::output;

pub(crate) use home::{Home, JobHome, Leftover, Seen};

/// Jobs that are looked at side by side.
const LOOKS_AT_ONCE: usize = 16;

/// The job that a command names.
pub(crate) async fn find(Job { name, whereabouts }: &Job) -> Result<Home, Failure> {
    open(name, whereabouts, run_folder::find).await
}

/// The same, for a job whose code is to be run.
pub(crate) async fn find_to_run(name: &str, whereabouts: &Whereabouts) -> Result<Home, Failure> {
    open(name, whereabouts, run_folder::find_to_run).await
}

/// The same, for a job that is to be removed; a fleet may have no more than its entry in the list.
pub(crate) async fn find_to_remove(name: &str, whereabouts: &Whereabouts) -> Result<Home, Failure> {
    open(name, whereabouts, run_folder::find).await
}

async fn open(
    name: &str,
    whereabouts: &Whereabouts,
    find: impl FnOnce(&str, &Path) -> Result<PathBuf, Failure>,
) -> Result<Home, Failure> {
    Ok(match Reader::connect(whereabouts.urls()?).await? {
        Some(reader) => Box::new(FleetHome::new(Arc::new(reader), name)?),
        None => in_folder(find(name, whereabouts.runs())?),
    })
}

/// The job in this run folder.
pub(crate) fn in_folder(folder: PathBuf) -> Home {
    Box::new(FolderHome::new(folder))
}

/// All jobs of a folder or a fleet.
pub(crate) async fn all(whereabouts: &Whereabouts) -> Result<Vec<Home>, Failure> {
    let Some(reader) = Reader::connect(whereabouts.urls()?).await? else {
        let folders = folders_of_jobs(whereabouts.runs())?.into_iter();
        let homes = folders.filter_map(|folder| Some(in_folder(folder.canonicalize().ok()?)));
        return Ok(homes.collect());
    };
    let reader = Arc::new(reader);
    let ids = reader.job_ids().await?;
    ids.iter().map(|id| Ok(Box::new(FleetHome::new(Arc::clone(&reader), id)?) as Home)).collect()
}

/// What the jobs of a folder or a fleet may be called; no job is looked at.
pub(crate) async fn ids(whereabouts: &Whereabouts) -> Result<Vec<String>, Failure> {
    match Reader::connect(whereabouts.urls()?).await? {
        Some(reader) => reader.job_ids().await,
        None => Ok(folders_of_jobs(whereabouts.runs())?
            .iter()
            .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
            .collect()),
    }
}

/// The folders of jobs in a folder of runs; none where there is no such folder.
fn folders_of_jobs(runs: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !runs.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(runs)
        .with_context(|| format!("cannot read {}", runs.display()))
        .map_err(Failure::usage)?;
    let folders = entries.flatten().map(|entry| entry.path());
    Ok(folders.filter(|folder| folder.join(layout::JOB).is_file()).collect())
}

/// Looks at all of these jobs side by side. A job that cannot be understood is told and left out.
pub(crate) async fn look_at_all(homes: Vec<Home>) -> Result<Vec<Seen>, Failure> {
    let looks = homes.into_iter().map(|home| async move { home.look().await });
    let mut looks = futures_util::stream::iter(looks).buffered(LOOKS_AT_ONCE);
    let mut jobs = Vec::new();
    while let Some(look) = looks.next().await {
        match look {
            Ok(seen) => jobs.push(seen),
            Err(failure) if failure.is_usage() => output::print_error(failure),
            Err(failure) => return Err(failure),
        }
    }
    Ok(jobs)
}
