//! The jobs of this machine or of a fleet: how they are found, how they stand, how they are followed, ended and removed.
//!
//! | file | duty |
//! |---|---|
//! | `home` | where a job lives: what a run folder and a fleet have in common, and the trait for what differs |
//! | `run_folder` | a folder of this machine: its lock, and the wish to cancel |
//! | `folder_home` | a job in a run folder |
//! | `fleet/` | a job of a fleet |
//! | `naming` | ids, names, `@latest` |
//! | `graph` | the graph of a pipeline job, as a component on this machine |
//! | `registry` | what is registered, and job files that name it |
//! | `cache` | code and prs's own Python in the user's cache folder |

pub mod cache;
pub mod fleet;
mod folder_home;
pub(crate) mod graph;
mod home;
pub mod naming;
pub mod registry;
pub mod run_folder;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use prs_common::calls::Calls;
use prs_common::job::pipeline::step_id;
use prs_common::job::{Names, RunsOn};
use prs_common::layout;
use prs_common::servers::ServerUrls;
use prs_common::storage::{Reach, is_valid_key};
use prs_orchestrator::JobRecord;
use prs_orchestrator::job::active::active_ids as active_ids_in;
use prs_orchestrator::job::record::JobRecordError;
use tokio::sync::OnceCell;

use self::fleet::{FleetHome, Reader};
use self::folder_home::FolderHome;
use crate::caller::Caller;
use crate::failure::Failure;

pub use home::{EncodedParts, Home, JobHome, Leftover, Seen, Settled};

/// Jobs that are looked at side by side.
const LOOKS_AT_ONCE: usize = 16;
/// How long what is canceled may take to end before nobody waits for it any longer.
const CANCEL_PATIENCE: Duration = Duration::from_mins(1);
/// How long a program may tidy up behind what has ended.
const TIDY_PATIENCE: Duration = Duration::from_secs(10);

/// Where jobs are, and who makes the calls on them. Clones share the connections that calls make.
#[derive(Clone)]
pub struct Whereabouts {
    /// The servers of the fleet; nothing where the jobs are on this machine.
    pub urls: Option<ServerUrls>,
    /// The folder that holds the runs of this machine.
    pub runs: PathBuf,
    /// What names in job files stand for.
    pub names: Names,
    /// Hears what calls have to say.
    pub caller: Arc<dyn Caller>,
    /// The places elsewhere that jobs may use which are handed in here; all without it.
    pub reach: Option<Arc<Reach>>,
    /// Hears of each call to storage and ledger of a fleet; nobody does without it.
    pub calls: Option<Arc<dyn Calls>>,
    /// The servers of the fleet, once a call has needed them.
    reader: Arc<OnceCell<Arc<Reader>>>,
}

impl fmt::Debug for Whereabouts {
    /// Without the URLs, which may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on_fleet = self.urls.is_some();
        f.debug_struct("Whereabouts")
            .field("on_fleet", &on_fleet)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

impl Whereabouts {
    /// Jobs on the servers at `urls`, or else in the folder `runs`. Connects to nothing yet.
    pub fn new(urls: Option<ServerUrls>, runs: PathBuf, names: Names, caller: Arc<dyn Caller>) -> Self {
        Self { urls, runs, names, caller, reach: None, calls: None, reader: Arc::default() }
    }

    /// The same for calls of another caller, over the same connections.
    #[must_use]
    pub fn heard_by(self, caller: Arc<dyn Caller>) -> Self {
        Self { caller, ..self }
    }

    /// The same for callers whose jobs may use no more than `reach` elsewhere.
    #[must_use]
    pub fn within(self, reach: Option<Arc<Reach>>) -> Self {
        Self { reach, ..self }
    }

    /// The same, of whose calls to storage and ledger of a fleet `calls` hears; they are connected to anew.
    #[must_use]
    pub fn counted_by(self, calls: Arc<dyn Calls>) -> Self {
        Self { calls: Some(calls), reader: Arc::default(), ..self }
    }

    /// Where what is started here runs.
    pub fn runs_on(&self) -> RunsOn {
        if self.urls.is_some() { RunsOn::Workers } else { RunsOn::ThisMachine }
    }
}

/// The job that is called so: an id or, without a fleet, the folder of its run. [`naming::resolve`] takes more names.
pub async fn find(name: &str, whereabouts: &Whereabouts) -> Result<Home, Failure> {
    open(name, whereabouts, run_folder::find).await
}

/// The same, for a job whose code is to be run.
pub async fn find_to_run(name: &str, whereabouts: &Whereabouts) -> Result<Home, Failure> {
    open(name, whereabouts, run_folder::find_to_run).await
}

/// The job with this id, and no other name. That a fleet has none, a look says.
pub async fn of_id(id: &str, whereabouts: &Whereabouts) -> Result<Home, Failure> {
    let absent = || Failure::not_found(format!("there is no job {id:?}"));
    if !is_valid_key(id) || id.contains('/') {
        return Err(absent());
    }
    Ok(match Reader::connect(whereabouts).await? {
        Some(reader) => Box::new(FleetHome::new(reader, &whereabouts.caller, id)?),
        None => run_folder::of_id(id, &whereabouts.runs).map(in_folder).ok_or_else(absent)?,
    })
}

/// The ids of the jobs that workers of a fleet are to serve; none without a fleet.
pub async fn active_ids(whereabouts: &Whereabouts) -> Result<HashSet<String>, Failure> {
    match Reader::connect(whereabouts).await? {
        Some(reader) => active_ids_in(&**reader.storage()).await.map_err(Failure::server),
        None => Ok(HashSet::new()),
    }
}

/// What of the job that is called so has logs and errors: of one whose data is put together first, the step that began last.
pub async fn find_at_work(name: &str, whereabouts: &Whereabouts) -> Result<Home, Failure> {
    let home = find(name, whereabouts).await?;
    at_work(home, name, whereabouts).await
}

/// The same, for a job whose code is to be run.
pub async fn find_to_try(name: &str, whereabouts: &Whereabouts) -> Result<Home, Failure> {
    let home = find_to_run(name, whereabouts).await?;
    at_work(home, name, whereabouts).await
}

async fn at_work(home: Home, name: &str, whereabouts: &Whereabouts) -> Result<Home, Failure> {
    // What is wrong with the record is told when it is used.
    match JobRecord::read(&**home.storage()).await {
        Ok(record) => at_work_of(home, &record, name, whereabouts).await,
        Err(_) => Ok(home),
    }
}

/// As [`find_at_work`], of a job whose home and record the caller has.
pub async fn at_work_of(
    home: Home,
    record: &JobRecord,
    name: &str,
    whereabouts: &Whereabouts,
) -> Result<Home, Failure> {
    let is_prepared = record.main_step().is_some();
    let steps = if is_prepared { steps_of(name, whereabouts).await? } else { Vec::new() };
    for step in steps.into_iter().rev() {
        let begun = step.record().await?.parent.is_some_and(|parent| parent.start > 0);
        if begun {
            return Ok(step);
        }
    }
    Ok(home)
}

async fn open(
    name: &str,
    whereabouts: &Whereabouts,
    find: impl FnOnce(&str, &Path) -> Result<PathBuf, Failure>,
) -> Result<Home, Failure> {
    Ok(match Reader::connect(whereabouts).await? {
        Some(reader) => Box::new(FleetHome::new(reader, &whereabouts.caller, name)?),
        None => in_folder(find(name, &whereabouts.runs)?),
    })
}

/// The job in this run folder.
pub fn in_folder(folder: PathBuf) -> Home {
    Box::new(FolderHome::new(folder))
}

/// All jobs of a folder or a fleet.
pub async fn all(whereabouts: &Whereabouts) -> Result<Vec<Home>, Failure> {
    let Some(reader) = Reader::connect(whereabouts).await? else {
        let folders = folders_of_jobs(&whereabouts.runs)?.into_iter();
        let homes = folders.filter_map(|folder| Some(in_folder(folder.canonicalize().ok()?)));
        return Ok(homes.collect());
    };
    let ids = reader.job_ids().await?;
    let home = |id: &String| FleetHome::new(Arc::clone(&reader), &whereabouts.caller, id);
    ids.iter().map(|id| Ok(Box::new(home(id)?) as Home)).collect()
}

/// The jobs of the steps of a pipeline, as far as they were started.
pub async fn steps_of(name: &str, whereabouts: &Whereabouts) -> Result<Vec<Home>, Failure> {
    let name = Box::pin(naming::resolve(name, whereabouts)).await?;
    let home = Box::pin(open(&name, whereabouts, run_folder::find)).await?;
    let record = home.record().await?;
    let Some(plan) = &record.pipeline else {
        return Err(Failure::wrong(format!("job {} is no pipeline, so it has no steps", record.job_id)));
    };
    let reader = Box::pin(Reader::connect(whereabouts)).await?;
    let mut steps = Vec::new();
    for step in &plan.pipeline.steps {
        let id = step_id(&record.job_id, &step.name);
        let step = match &reader {
            Some(reader) => Box::new(FleetHome::new(Arc::clone(reader), &whereabouts.caller, &id)?),
            None => in_folder(run_folder::find(&name, &whereabouts.runs)?.join(run_folder::STEPS).join(&id)),
        };
        if !matches!(JobRecord::read(&**step.storage()).await, Err(JobRecordError::Absent { .. })) {
            steps.push(step);
        }
    }
    Ok(steps)
}

/// What the jobs of a folder or a fleet may be called; no job is looked at.
pub async fn ids(whereabouts: &Whereabouts) -> Result<Vec<String>, Failure> {
    match Reader::connect(whereabouts).await? {
        Some(reader) => reader.job_ids().await,
        None => Ok(folders_of_jobs(&whereabouts.runs)?
            .iter()
            .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
            .collect()),
    }
}

/// The folders of jobs in a folder of runs; none where there is no such folder.
pub fn folders_of_jobs(runs: &Path) -> Result<Vec<PathBuf>, Failure> {
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
pub async fn look_at_all(homes: Vec<Home>, caller: &dyn Caller) -> Result<Vec<Seen>, Failure> {
    Ok(look_at_each(homes, caller).await?.into_iter().flatten().collect())
}

/// The same, with nothing in the place of each that cannot be understood.
pub async fn look_at_each(homes: Vec<Home>, caller: &dyn Caller) -> Result<Vec<Option<Seen>>, Failure> {
    let looks: Vec<BoxFuture<'static, _>> =
        homes.into_iter().map(|home| async move { home.look().await }.boxed()).collect();
    let mut looks = futures_util::stream::iter(looks).buffered(LOOKS_AT_ONCE);
    let mut jobs = Vec::new();
    while let Some(look) = looks.next().await {
        match look {
            Ok(seen) => jobs.push(Some(seen)),
            Err(failure) if failure.is_usage() => {
                caller.error(&failure);
                jobs.push(None);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(jobs)
}
