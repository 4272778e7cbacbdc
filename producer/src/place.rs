//! Where a job lies: a run folder of this machine, or a prefix in the storage of a fleet.
//!
//! Both have the same inside (spec section 7), so the commands that read go through [`Place`] and do not ask which
//! it is. They differ in who knows how a job that has not ended stands: the lock of the run folder, or the ledger.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::StreamExt;
use prs_common::failpoint;
use prs_common::job::RunsOn;
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::servers::ServerUrls;
use prs_common::storage::{LocalStorage, Storage, StorageExt};
use prs_orchestrator::gc::removal::remove_job;
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::job::findings::Findings;
use prs_orchestrator::job::record::{JobRecordError, Output};
use prs_orchestrator::{JobRecord, JobResult, Policy};
use prs_worker::opener;
use tokio::sync::watch::Sender;

use crate::cli::{Job, Whereabouts};
use crate::failure::Failure;
use crate::fleet::{self, Reader};
use crate::naming::Id;
use crate::standing::{Shown, Standing};
use crate::{embedded, output, run_folder};

/// Between two looks at a run folder that is followed.
const LOOK_INTERVAL: Duration = Duration::from_millis(150);

/// Between two looks at logs that grow in a run folder.
const LOG_INTERVAL: Duration = Duration::from_millis(500);

/// Jobs that are looked at side by side.
const LOOKS_AT_ONCE: usize = 16;

/// Where a job lies.
#[derive(Debug)]
pub(crate) struct Place {
    /// Everything of the job.
    pub(crate) storage: Arc<dyn Storage>,
    home: Home,
}

#[derive(Debug)]
enum Home {
    Folder(PathBuf),
    Fleet { reader: Arc<Reader>, job_id: String },
}

/// A job at one moment.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Its record, with state and counts of now.
    pub(crate) record: JobRecord,
    /// Its result, or the result so far.
    pub(crate) result: JobResult,
    /// What a fleet does for it.
    pub(crate) standing: Standing,
}

/// What is there of a job that is to be removed.
#[derive(Debug)]
pub(crate) enum Leftover {
    /// It has ended.
    Job { state: JobState, name: String, submitted_us: u64, kept_until_us: Option<u64>, start: u32 },
    /// It has no record: somebody was stopped while the job was removed, which `removed` tells for certain, or before it was
    /// handed in.
    Remains { removed: bool },
}

impl Leftover {
    /// The last start of the job, from 1; nothing where it has no record.
    pub(crate) fn start(&self) -> Option<u32> {
        match self {
            Self::Job { start, .. } => Some(*start),
            Self::Remains { .. } => None,
        }
    }
}

impl Seen {
    /// The job as it is shown.
    pub(crate) fn shown(&self) -> Shown {
        let JobRecord { state, status, .. } = &self.record;
        Shown { state: Some(*state), status: status.clone(), standing: self.standing.clone() }
    }
}

impl Whereabouts {
    /// The servers of the fleet; nothing where the jobs are on this machine.
    pub(crate) fn urls(&self) -> Result<Option<ServerUrls>, Failure> {
        let urls = self.servers.urls_if_any()?;
        if urls.is_some() && self.runs.is_some() {
            return Err(not_on_a_fleet("--runs"));
        }
        Ok(urls)
    }

    /// Where what a command starts runs.
    pub(crate) fn runs_on(&self) -> Result<RunsOn, Failure> {
        Ok(if self.urls()?.is_some() { RunsOn::Workers } else { RunsOn::ThisMachine })
    }

    /// The folder that holds the runs of this machine.
    pub(crate) fn runs(&self) -> &Path {
        self.runs.as_deref().unwrap_or(Path::new(run_folder::RUNS))
    }
}

/// The refusal of an option that names a folder of runs.
pub(crate) fn not_on_a_fleet(option: &str) -> Failure {
    Failure::wrong(format!(
        "{option} is for jobs of this machine; on a fleet everything lies in the storage: leave it out, or add --local, which uses no fleet whatever variables and profiles say"
    ))
}

impl Place {
    /// The place of the job that a command names.
    pub(crate) async fn find(job: &Job) -> Result<Self, Failure> {
        match Reader::connect(job.whereabouts.urls()?).await? {
            Some(reader) => Self::on_fleet(Arc::new(reader), &job.name),
            None => Ok(Self::folder(run_folder::find(job)?)),
        }
    }

    /// The same, for a job whose code is to be run.
    pub(crate) async fn find_to_run(job: &Job) -> Result<Self, Failure> {
        match Reader::connect(job.whereabouts.urls()?).await? {
            Some(reader) => Self::on_fleet(Arc::new(reader), &job.name),
            None => Ok(Self::folder(run_folder::find_to_run(job)?)),
        }
    }

    /// The place of a job that is to be removed; a fleet may have no more than its entry in the list.
    pub(crate) async fn find_to_remove(name: &str, whereabouts: &Whereabouts) -> Result<Self, Failure> {
        match Reader::connect(whereabouts.urls()?).await? {
            Some(reader) => Self::on_fleet(Arc::new(reader), name),
            None => Ok(Self::folder(run_folder::find_in(name, whereabouts.runs())?)),
        }
    }

    /// The places of all jobs of a folder or a fleet.
    pub(crate) async fn all(whereabouts: &Whereabouts) -> Result<Vec<Self>, Failure> {
        if let Some(reader) = Reader::connect(whereabouts.urls()?).await? {
            let reader = Arc::new(reader);
            let ids = reader.job_ids().await?;
            return ids.iter().map(|id| Self::on_fleet(Arc::clone(&reader), id)).collect();
        }
        let folders = folders_of_jobs(whereabouts.runs())?.into_iter();
        Ok(folders.filter_map(|folder| Some(Self::folder(folder.canonicalize().ok()?))).collect())
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

    fn folder(folder: PathBuf) -> Self {
        Self { storage: Arc::new(LocalStorage::new(&folder)), home: Home::Folder(folder) }
    }

    fn on_fleet(reader: Arc<Reader>, job_id: &str) -> Result<Self, Failure> {
        fleet::check_id(job_id)?;
        let storage = reader.job_storage(job_id);
        Ok(Self { storage, home: Home::Fleet { reader, job_id: job_id.to_owned() } })
    }

    /// What commands call the job.
    pub(crate) fn called(&self) -> String {
        match &self.home {
            Home::Folder(folder) => run_folder::called(folder),
            Home::Fleet { job_id, .. } => job_id.clone(),
        }
    }

    /// The id of the job; nothing where its record cannot be read, or it has an id of another form.
    pub(crate) async fn id(&self) -> Option<Id> {
        match &self.home {
            Home::Folder(_) => Id::parse(&self.record().await.ok()?.job_id),
            Home::Fleet { job_id, .. } => Id::parse(job_id),
        }
    }

    /// Whether the job may have this name in its job file, as far as its id tells.
    pub(crate) fn may_have_name(&self, name: &str) -> bool {
        match &self.home {
            Home::Folder(_) => true,
            Home::Fleet { job_id, .. } => Id::parse(job_id).is_none_or(|id| id.name == name),
        }
    }

    /// What is there to be removed; a job that has not ended is refused.
    pub(crate) async fn leftover(&self) -> Result<Leftover, Failure> {
        let record = match (JobRecord::read(&*self.storage).await, &self.home) {
            (Ok(record), _) => record,
            (Err(JobRecordError::Absent { removed, .. }), Home::Fleet { reader, job_id })
                if removed || reader.job_ids().await?.contains(job_id) =>
            {
                return Ok(Leftover::Remains { removed });
            }
            (Err(error), Home::Fleet { reader, job_id }) => {
                return Err(fleet::unreadable(reader.storage(), job_id, error));
            }
            (Err(error), Home::Folder(_)) => return Err(Failure::usage(error)),
        };
        let id = self.called();
        let has_ended = match &self.home {
            Home::Folder(folder) => !run_folder::is_locked(folder),
            Home::Fleet { .. } => record.result.is_some(),
        };
        if !has_ended {
            return Err(Failure::wrong(format!(
                "job {id} has not ended; prs cancel {id} ends it, and then it can be removed"
            )));
        }
        Ok(Leftover::Job {
            state: record.state,
            name: record.spec.name,
            submitted_us: record.submitted_us,
            kept_until_us: record.result.and_then(|result| result.kept_until_us),
            start: record.incarnation,
        })
    }

    /// How many objects the job has, and their bytes.
    pub(crate) async fn amount(&self) -> Result<(u64, u64), Failure> {
        let listed = self.storage.list_all("").await.context("cannot list what the job has");
        let listed = listed.map_err(|error| self.failure(error))?;
        Ok((listed.len() as u64, listed.iter().map(|object| object.size).sum()))
    }

    /// Removes the job, as it was seen at its `start`; one that was started again since stays, which is an error of usage.
    /// What was interrupted can be done again.
    pub(crate) async fn remove(&self, start: Option<u32>) -> Result<(), Failure> {
        failpoint::pass("removes_job");
        let is_removed = match &self.home {
            Home::Folder(folder) => run_folder::remove(folder, start).await?,
            Home::Fleet { reader, job_id } => {
                let removed = remove_job(reader.storage(), job_id, start).await;
                removed.map_err(|error| match error {
                    JobRecordError::Storage(error) => Failure::server(
                        anyhow::Error::from(error).context(format!("cannot remove job {job_id}")),
                    ),
                    error => fleet::unreadable(reader.storage(), job_id, error),
                })?
            }
        };
        if is_removed {
            return Ok(());
        }
        Err(Failure::wrong(format!(
            "job {} is in use, or was started again meanwhile: it is not removed",
            self.called()
        )))
    }

    /// The record as it is stored.
    pub(crate) async fn record(&self) -> Result<JobRecord, Failure> {
        JobRecord::read(&*self.storage).await.map_err(|error| match (&self.home, error) {
            (Home::Fleet { reader, job_id }, error) => fleet::unreadable(reader.storage(), job_id, error),
            (Home::Folder(_), error) => Failure::usage(error),
        })
    }

    /// The job as it is now.
    pub(crate) async fn look(&self) -> Result<Seen, Failure> {
        let record = self.record().await?;
        let (record, standing) = match &self.home {
            Home::Folder(folder) => {
                let settled = run_folder::settle(folder, record).await.map_err(Failure::usage)?;
                (settled, Standing::default())
            }
            Home::Fleet { reader, .. } => reader.look(&*self.storage, record).await?,
        };
        let result = record.result.clone().unwrap_or_else(|| self.result_so_far(&record));
        Ok(Seen { record, result, standing })
    }

    /// What it means that its storage fails.
    pub(crate) fn failure(&self, error: anyhow::Error) -> Failure {
        match self.home {
            Home::Folder(_) => error.into(),
            Home::Fleet { .. } => Failure::server(error),
        }
    }

    /// Where the output of the job is, or will be.
    pub(crate) fn output(&self, record: &JobRecord) -> Arc<dyn Storage> {
        match &self.home {
            Home::Folder(folder) => Arc::new(LocalStorage::new(embedded::output_folder(folder, record))),
            Home::Fleet { .. } => self.storage.below(layout::OUTPUT.trim_end_matches('/')),
        }
    }

    /// Where the data of the job's inputs is.
    pub(crate) fn inputs(&self) -> InputStores {
        let shared = match &self.home {
            Home::Folder(_) => Arc::clone(&self.storage),
            Home::Fleet { reader, .. } => reader.shared(),
        };
        InputStores::new(shared, Arc::clone(&self.storage), opener())
    }

    /// Between two looks at its logs: on a fleet each node delivers its own every now and then.
    pub(crate) fn log_interval(&self) -> Duration {
        match self.home {
            Home::Folder(_) => LOG_INTERVAL,
            Home::Fleet { .. } => Policy::fleet().logs / 2,
        }
    }

    /// Looks at the job, as it was seen, until it has ended; tells `view` what it sees.
    pub(crate) async fn until_ended(&self, seen: Seen, view: Sender<Shown>) -> Result<JobResult, Failure> {
        if let Home::Fleet { reader, .. } = &self.home {
            let ledger = reader.ledger().await?;
            return fleet::until_ended(ledger, &*self.storage, &seen.record, view).await;
        }
        let mut seen = seen;
        while !seen.result.state.is_final() {
            view.send_replace(seen.shown());
            tokio::time::sleep(LOOK_INTERVAL).await;
            seen = self.look().await?;
        }
        Ok(seen.result)
    }

    fn result_so_far(&self, record: &JobRecord) -> JobResult {
        let progress = &record.status.progress;
        let (logs, reason) = match &self.home {
            Home::Folder(folder) => (
                folder.join("logs").display().to_string(),
                record.state.is_final().then(|| run_folder::interrupted(folder)),
            ),
            Home::Fleet { .. } => (self.storage.uri(layout::LOGS), None),
        };
        JobResult {
            job_id: record.job_id.clone(),
            name: record.spec.name.clone(),
            submitted_us: record.submitted_us,
            ended_us: None,
            kept_until_us: None,
            state: record.state,
            reason,
            output: Output { uri: self.output(record).uri(""), ..Output::default() },
            logs,
            mini_batches: progress.into(),
            items: progress.into(),
            seconds: record.status.seconds,
            starts: Vec::new(),
            findings: Findings { failures_allowed: record.spec.failures_allowed, ..Findings::default() },
        }
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

/// Looks at all of `places` side by side. A job that cannot be understood is said and left out.
pub(crate) async fn look_at_all(places: Vec<Place>) -> Result<Vec<Seen>, Failure> {
    let looks = places.into_iter().map(|place| async move { place.look().await });
    let mut looks = futures_util::stream::iter(looks).buffered(LOOKS_AT_ONCE);
    let mut jobs = Vec::new();
    while let Some(look) = looks.next().await {
        match look {
            Ok(seen) => jobs.push(seen),
            Err(failure) if failure.is_usage() => output::say_error(failure),
            Err(failure) => return Err(failure),
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Arguments, Command};

    #[test]
    fn a_folder_of_runs_is_refused_on_a_fleet() {
        let servers = ["--broker", "amqp://h", "--redis", "redis://h", "--storage", "s3://bucket"];
        let urls = |arguments: &[&str]| {
            let arguments = [&["prs", "list"], arguments].concat();
            let Command::List(list) = Arguments::try_parse_from(arguments).unwrap().command else {
                unreachable!("a list was asked for")
            };
            (list.whereabouts.urls(), list.whereabouts.runs().to_owned())
        };
        assert!(matches!(urls(&servers).0, Ok(Some(_))));
        let (here, runs) = urls(&["--runs", "elsewhere", "--broker", "", "--redis", "", "--storage", ""]);
        assert!(matches!(here, Ok(None)) && runs == Path::new("elsewhere"));
        let refused = urls(&[&servers[..], &["--runs", "elsewhere"]].concat()).0.err().unwrap();
        assert!(refused.is_usage() && refused.to_string().starts_with("--runs is for"), "{refused}");
    }
}
