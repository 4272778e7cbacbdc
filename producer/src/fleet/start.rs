//! Handing a job in: code and inputs go to storage, then the record, the entry among the jobs to be served, the books, the
//! queue, and the offer.
//!
//! Before the record is there, nothing knows of the job; from the entry on, nothing needs this program.

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use prs_common::failpoint;
use prs_common::host_name;
use prs_common::job::{InputSource, JobSpec};
use prs_common::ledger::{Duty, LedgerError, LedgerErrorKind};
use prs_common::queue::QueueError;
use prs_common::storage::{PutMode, Storage, StorageError, StorageExt, probe_writable};
use prs_common::temporary_folder::TemporaryFolder;
use prs_orchestrator::gc::until_quiet;
use prs_orchestrator::inputs::{Audience, ResolveError, Where, resolve};
use prs_orchestrator::job::membership;
use prs_orchestrator::job::queue::job_queue_options;
use prs_orchestrator::plan::schedule::{Assignment, KnownChecksums};
use prs_orchestrator::{Fleet, JobContext, JobRecord, LocalFolders};

use super::patience::repeated;
use crate::failure::Failure;
use crate::left_behind::LeftBehind;
use crate::output;
use crate::progress::Uploading;

/// A job that was handed in, and what is left to do for it.
pub(crate) struct Handed {
    /// The job as this program sees it.
    pub(crate) job: JobContext,
    /// Its record.
    pub(crate) record: JobRecord,
    /// Who this program is to the ledger.
    pub(crate) owner: String,
    /// What of its plan is to be published.
    pub(crate) assignment: Assignment,
    /// Local folder, gone with this.
    pub(crate) _folder: TemporaryFolder,
}

/// What a new job is made of.
pub(crate) struct NewJob {
    /// Its id.
    pub(crate) id: String,
    /// Its settings.
    pub(crate) spec: JobSpec,
    /// Key of the code archive, which is one of the `objects`.
    pub(crate) code: String,
    /// The code archive.
    pub(crate) archive: Bytes,
    /// The former job whose settings it has: the listings of its inputs lie there.
    pub(crate) former: Option<Arc<dyn Storage>>,
}

impl NewJob {
    /// Stores the code, and the listings of inputs that a former job had.
    pub(crate) async fn store(&self, storage: &dyn Storage) -> anyhow::Result<()> {
        let put = storage.put(&self.code, self.archive.clone().into(), PutMode::Overwrite).await;
        put.context("cannot store the code of the job")?;
        let Some(former) = &self.former else { return Ok(()) };
        for input in &self.spec.inputs {
            if let InputSource::Manifest { key, .. } = &input.source {
                let manifest = former.get(key).await.context("cannot read the inputs of the former job")?;
                let put = storage.put(key, manifest.into(), PutMode::Overwrite).await;
                put.context("cannot store the inputs of the job")?;
            }
        }
        Ok(())
    }
}

/// Hands a job in.
pub(crate) async fn start(fleet: &Fleet, new: NewJob, behind: &LeftBehind) -> Result<Handed, Failure> {
    let job_id = new.id.clone();
    let storage = fleet.job_storage(&job_id);
    behind.note(format_args!(
        "{} may hold code and listings without a job, and the storage inputs; they do no harm and may be removed",
        storage.uri("")
    ));
    let spec = loop {
        let quiet = until_quiet(&*fleet.storage, &waits_for_gc).await;
        let quiet = quiet.context("cannot read the storage of the fleet").map_err(Failure::server)?;
        let spec = store(fleet, &new).await?;
        failpoint::pass("uploaded");
        let lasts = quiet.lasts(&*fleet.storage).await.context("cannot read the storage of the fleet");
        if lasts.map_err(Failure::server)? {
            break spec;
        }
        output::say("prs gc was at work meanwhile; what it may have removed is uploaded again");
    };
    let mut record = JobRecord::new(job_id, new.code, spec);
    let created = record.create(&*storage).await.context("cannot store the job").map_err(Failure::server)?;
    if !created {
        return Err(Failure::wrong(format!("there is a job {} already; submit it again", record.job_id)));
    }
    enter(fleet, &record, behind).await?;
    let local = context(fleet, &record)?;
    activate(&local.0).await?;
    open_books(&local.0).await?;
    hand_in(record, local, KnownChecksums::default()).await
}

/// Says that another program removes what no job names.
pub(crate) fn waits_for_gc(by: &str) {
    output::say(format_args!("waiting for prs gc of {by} to end"));
}

/// Stores what a job is made of, but for its record; gives its settings with the inputs as they are there.
async fn store(fleet: &Fleet, new: &NewJob) -> Result<JobSpec, Failure> {
    let storage = fleet.job_storage(&new.id);
    let uploading = Uploading::begin();
    let (inputs, show) = (fleet.inputs(&new.id), |input: &str, seen| uploading.show(input, seen));
    let audience = Audience { tell: &show, wants_totals: uploading.wants_totals() };
    let stored = async {
        probe(fleet).await?;
        new.store(&*storage).await.map_err(Failure::server)
    };
    let resolved =
        async { resolve(new.spec.clone(), &inputs, Where::Fleet, audience).await.map_err(input_failure) };
    // That storage cannot be written is known after moments, not after hours of uploads.
    let prepared = tokio::try_join!(stored, resolved);
    uploading.end();
    if prepared.is_err() {
        // It may be why an input could not be uploaded, and says so more plainly.
        probe(fleet).await?;
    }
    Ok(prepared?.1)
}

async fn probe(fleet: &Fleet) -> Result<(), Failure> {
    let writable = probe_writable(&*fleet.storage).await;
    writable.context("cannot write to the storage of the fleet").map_err(Failure::server)
}

/// Enters a job whose record is stored into the list of jobs.
pub(super) async fn enter(fleet: &Fleet, record: &JobRecord, behind: &LeftBehind) -> Result<(), Failure> {
    let id = &record.job_id;
    behind.note(format_args!(
        "job {id} is stored, and may not have been handed to workers; prs resume {id} goes on with it, prs cancel {id} ends it"
    ));
    repeated("enter the job into the list of jobs", StorageError::is_retryable, || fleet.list_job(id))
        .await?;
    failpoint::pass("job_listed");
    Ok(())
}

/// Has the job served from now on, whatever becomes of this program.
pub(super) async fn activate(job: &JobContext) -> Result<(), Failure> {
    let what = "enter the job into those to be served";
    repeated(what, StorageError::is_retryable, || membership::activate(job)).await
}

/// Makes sure that the ledger knows the job.
pub(super) async fn open_books(job: &JobContext) -> Result<(), Failure> {
    let open = async || match job.ledger.create(&job.run, job.try_limits()).await {
        Err(error) if error.kind != LedgerErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    repeated("open the books of the job", LedgerError::is_retryable, open).await
}

/// Offers a job whose books are open to workers.
pub(super) async fn hand_in(
    record: JobRecord,
    (job, folder): (JobContext, TemporaryFolder),
    known: KnownChecksums,
) -> Result<Handed, Failure> {
    let owner = owner();
    let what = "offer the job to workers";
    let is_passing = LedgerError::is_retryable;
    // First, so that no node begins to publish in this program's place.
    let lease = || job.ledger.lease(&job.run, Duty::Schedule, &owner, job.policy.lease);
    repeated(what, is_passing, lease).await?;
    // A broker may fail over a queue that a node makes at the same moment.
    let (queue, options) = (job.queue_name(), job_queue_options(&job.spec));
    repeated(what, QueueError::is_retryable, || job.queue.declare(&queue, options)).await?;
    repeated(what, is_passing, || membership::offer(&job)).await?;
    let assignment = Assignment { known, ..Assignment::default() };
    Ok(Handed { job, record, owner, assignment, _folder: folder })
}

/// A job as this program sees it, with a local folder.
pub(super) fn context(fleet: &Fleet, record: &JobRecord) -> Result<(JobContext, TemporaryFolder), Failure> {
    let folder = TemporaryFolder::make("prs-producer-").context("cannot make a temporary folder")?;
    let folders = LocalFolders { logs: folder.path().join("logs"), work: folder.path().join("work") };
    let made = [&folders.logs, &folders.work].into_iter().try_for_each(std::fs::create_dir_all);
    made.with_context(|| format!("cannot make folders in {}", folder.path().display()))?;
    Ok((fleet.context(record, folders), folder))
}

/// Who this program is to the ledger.
pub(super) fn owner() -> String {
    format!("producer-{}-{}", host_name(), std::process::id())
}

/// A store that does not answer is no fault of the job file; everything else is.
fn input_failure(error: ResolveError) -> Failure {
    if error.is_retryable() { Failure::server(error) } else { Failure::usage(error) }
}
