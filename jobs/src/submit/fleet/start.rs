//! Handing a job in: code and inputs go to storage, then the record, the entry among the jobs to be served, the ledger, the
//! queue, and the offer.
//!
//! Before the record is there, nothing knows of the job; from the entry on, nothing needs this program.

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use prs_common::failpoint;
use prs_common::host_name;
use prs_common::job::{InputSource, JobSpec};
use prs_common::layout;
use prs_common::ledger::{Duty, LedgerError};
use prs_common::queue::QueueError;
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt, probe_writable};
use prs_common::temporary_folder::TemporaryFolder;
use prs_common::traces::step;
use prs_orchestrator::gc::until_quiet;
use prs_orchestrator::inputs::{Audience, ResolveCause, ResolveError, Where, resolve};
use prs_orchestrator::job::membership;
use prs_orchestrator::job::queue::job_queue_options;
use prs_orchestrator::job::reuse as job_reuse;
use prs_orchestrator::plan::schedule::{Assignment, KnownChecksums};
use prs_orchestrator::report::summary::note_new;
use prs_orchestrator::{Fleet, JobContext, JobRecord, JobResult};

use super::reuse;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::fleet::entry::{context, enter_in_ledger};
use crate::homes::fleet::note_gc;
use crate::homes::fleet::patience::repeated;
use crate::submit::resume_hint::ResumeHint;

/// A job that was handed in, and what is left to do for it.
pub(crate) struct Submitted {
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

/// What became of a job that was to be handed in.
pub(crate) enum Started {
    /// It was.
    Submitted(Box<Submitted>),
    /// It has ended with the output of a former job.
    Given(Box<Given>),
}

/// A job that was given the output of a former one.
pub(crate) struct Given {
    /// Its record.
    pub(crate) record: JobRecord,
    /// How it ended.
    pub(crate) result: JobResult,
    /// Its output.
    pub(crate) output: Arc<dyn Storage>,
}

/// What a new job is made of.
pub(crate) struct NewJob {
    /// Its id.
    pub(crate) id: String,
    /// Whether its user chose the id, which another job may have then.
    pub(crate) is_named: bool,
    /// Its settings.
    pub(crate) spec: JobSpec,
    /// Key of the code archive, which is one of the `objects`.
    pub(crate) code: String,
    /// The code archive.
    pub(crate) archive: Bytes,
    /// Where the listings of the inputs lie of the former job whose settings it has; nowhere where it has its own.
    pub(crate) listings: Vec<Arc<dyn Storage>>,
}

impl NewJob {
    /// Whether the output of a former job will do. `resubmit` asks for a run.
    pub(crate) fn may_be_given(&self) -> bool {
        self.spec.allow_reuse && self.listings.is_empty()
    }

    /// Stores the code, and the listings of inputs that a former job had.
    pub(crate) async fn store(&self, storage: &dyn Storage) -> anyhow::Result<()> {
        let put = storage.put(&self.code, self.archive.clone().into(), PutMode::Overwrite).await;
        put.context("cannot store the code of the job")?;
        copy_listings(&self.spec, &self.listings, storage).await
    }
}

/// Copies the listings that the inputs of `spec` name to `storage`, each from the first of `listings` that has it.
pub(crate) async fn copy_listings(
    spec: &JobSpec,
    listings: &[Arc<dyn Storage>],
    storage: &dyn Storage,
) -> anyhow::Result<()> {
    for source in spec.sources() {
        let InputSource::Manifest { key, .. } = source else { continue };
        for (at, former) in listings.iter().enumerate() {
            let manifest = match former.get(key).await {
                Err(error) if error.kind == StorageErrorKind::NotFound && at + 1 < listings.len() => continue,
                read => read.context("cannot read the inputs of the former job")?,
            };
            let put = storage.put(key, manifest.into(), PutMode::Overwrite).await;
            put.context("cannot store the inputs of the job")?;
            break;
        }
    }
    Ok(())
}

/// Hands a job in.
pub(crate) async fn start(
    fleet: &Fleet,
    new: NewJob,
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<Started, Failure> {
    if !new.is_named {
        return prepare(fleet, new, hint, caller).await;
    }
    let id = new.id.clone();
    take_id(fleet, &id, &[]).await?;
    let started = Box::pin(prepare(fleet, new, hint, caller)).await;
    if started.is_err() {
        give_id_back(fleet, &id).await;
    }
    started
}

async fn prepare(
    fleet: &Fleet,
    new: NewJob,
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<Started, Failure> {
    let job_id = new.id.clone();
    let storage = fleet.job_storage(&job_id);
    hint.set(format_args!(
        "{} may hold code and listings without a job, and the storage inputs; they do no harm and may be removed",
        storage.uri("")
    ));
    let spec = loop {
        let quiet = until_quiet(&*fleet.storage, &|by| note_gc(caller, by)).await;
        let quiet = quiet.context("cannot read the storage of the fleet").map_err(Failure::server)?;
        let spec = store(fleet, &new, caller).await?;
        failpoint::pass("uploaded");
        let lasts = quiet.lasts(&*fleet.storage).await.context("cannot read the storage of the fleet");
        if lasts.map_err(Failure::server)? {
            break spec;
        }
        caller.note(&"prs gc was at work meanwhile; what it may have removed is uploaded again");
    };
    let may_be_given = new.may_be_given();
    let mut record = JobRecord::new(job_id, new.code, spec);
    record.recipe = job_reuse::recipe(&record.spec, &record.code, None);
    let given = if may_be_given { Box::pin(reuse::give(fleet, &mut record, caller)).await? } else { None };
    let created = step("store record", record.create(&*storage))
        .await
        .context("cannot store the job")
        .map_err(Failure::server)?;
    if !created {
        return Err(Failure::wrong(format!("there is a job {} already; submit it again", record.job_id)));
    }
    enter(fleet, &record, hint, caller).await?;
    if let Some(result) = given {
        let output = storage.below(layout::OUTPUT.trim_end_matches('/'));
        let entered = job_reuse::index::enter(&*fleet.storage, &record).await;
        entered.context("cannot store the job").map_err(Failure::server)?;
        return Ok(Started::Given(Box::new(Given { record, result, output })));
    }
    let local = context(fleet, &record)?;
    activate(&local.0, caller).await?;
    step("ledger create", enter_in_ledger(&local.0, caller)).await?;
    Ok(Started::Submitted(Box::new(hand_in(record, local, KnownChecksums::default(), caller).await?)))
}

/// Takes the id that a user chose, before anything is stored under it: of two who choose the same, one gets it. `steps` are the
/// ids of what belongs to the job, which have to be free, too.
pub(crate) async fn take_id(fleet: &Fleet, id: &str, steps: &[String]) -> Result<(), Failure> {
    let cannot =
        |error: StorageError| Failure::server(anyhow::Error::from(error).context("cannot store the job"));
    for step in steps {
        match fleet.job_storage(step).head(layout::JOB).await {
            Err(error) if error.kind == StorageErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
            Ok(_) => {
                return Err(Failure::wrong(format!(
                    "a step would be the job {step}, and there is one already: give another id (--name, or --job-name of a deployment)"
                )));
            }
        }
    }
    if fleet.take_id(id).await.map_err(cannot)? {
        return Ok(());
    }
    let is_there = fleet.job_storage(id).head(layout::JOB).await.is_ok();
    Err(Failure::wrong(if is_there {
        format!(
            "there is a job {id} already: give another id (--name, or --job-name of a deployment), or remove that job with prs rm {id}"
        )
    } else {
        format!(
            "another submission has taken the id {id}: give another id (--name, or --job-name of a deployment); where that one was stopped before its job was \
             stored, prs rm {id} frees the id"
        )
    }))
}

/// Gives an id back that was taken, unless a job has it now. Where that fails, `prs rm` does it.
pub(crate) async fn give_id_back(fleet: &Fleet, id: &str) {
    let found = fleet.job_storage(id).head(layout::JOB).await;
    if found.is_err_and(|error| error.kind == StorageErrorKind::NotFound) {
        let _ = fleet.give_id_back(id).await;
    }
}

/// Stores what a job is made of, but for its record; gives its settings with the inputs as they are there.
pub(crate) async fn store(fleet: &Fleet, new: &NewJob, caller: &dyn Caller) -> Result<JobSpec, Failure> {
    let storage = fleet.job_storage(&new.id);
    let uploading = caller.uploads();
    let inputs = fleet.inputs(&new.id).within(new.spec.reach());
    let show = |input: &str, seen| uploading.show(input, seen);
    let audience = Audience { tell: &show, wants_totals: uploading.wants_totals() };
    let stored = async {
        probe(fleet).await?;
        step("store code", new.store(&*storage)).await.map_err(Failure::server)
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
    let spec = prepared?.1;
    for input in &spec.inputs {
        if let InputSource::Manifest { left_out, .. } = &input.source {
            for told in left_out.sentences(&input.name) {
                caller.note(&format_args!("note: {told}"));
            }
        }
    }
    Ok(spec)
}

async fn probe(fleet: &Fleet) -> Result<(), Failure> {
    let writable = probe_writable(&*fleet.storage).await;
    writable.context("cannot write to the storage of the fleet").map_err(Failure::server)
}

/// Enters a job whose record is stored into the list of jobs.
pub(crate) async fn enter(
    fleet: &Fleet,
    record: &JobRecord,
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let id = &record.job_id;
    hint.set(format_args!(
        "job {id} is stored, and may not have been handed to workers; prs resume {id} goes on with it, prs cancel {id} ends it"
    ));
    repeated("enter the job into the list of jobs", caller, StorageError::is_retryable, || {
        fleet.list_job(id)
    })
    .await?;
    note_new(&*fleet.ledger, record).await;
    failpoint::pass("job_listed");
    Ok(())
}

/// Has the job served from now on, whatever becomes of this program.
pub(crate) async fn activate(job: &JobContext, caller: &dyn Caller) -> Result<(), Failure> {
    let what = "enter the job into those to be served";
    repeated(what, caller, StorageError::is_retryable, || membership::activate(job)).await
}

/// Offers a job that is in the ledger to workers.
pub(crate) async fn hand_in(
    record: JobRecord,
    (job, folder): (JobContext, TemporaryFolder),
    known: KnownChecksums,
    caller: &dyn Caller,
) -> Result<Submitted, Failure> {
    let owner = owner();
    let what = "offer the job to workers";
    let is_passing = LedgerError::is_retryable;
    // First, so that no node begins to publish in this program's place.
    let lease = || job.ledger.lease(Duty::Schedule, &owner, job.policy.lease);
    repeated(what, caller, is_passing, lease).await?;
    // A broker may fail over a queue that a node makes at the same moment.
    let (queue, options) = (job.queue_name(), job_queue_options(&job.spec));
    repeated(what, caller, QueueError::is_retryable, || job.queue.declare(&queue, options)).await?;
    repeated(what, caller, is_passing, || membership::offer(&job)).await?;
    let assignment = Assignment { known, ..Assignment::default() };
    Ok(Submitted { job, record, owner, assignment, _folder: folder })
}

/// Who this program is to the ledger.
pub(crate) fn owner() -> String {
    format!("producer-{}-{}", host_name(), std::process::id())
}

/// A store that does not answer, or has no room, is no fault of the job file; everything else is.
fn input_failure(error: ResolveError) -> Failure {
    let is_full = matches!(&error.cause, ResolveCause::Store(error) if error.kind == StorageErrorKind::Full);
    if is_full || error.is_retryable() { Failure::server(error) } else { Failure::usage(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_without_room_is_no_fault_of_the_job_file() {
        let table = [
            (StorageErrorKind::Full, false),
            (StorageErrorKind::Unavailable, false),
            (StorageErrorKind::NotFound, true),
            (StorageErrorKind::PermissionDenied, true),
        ];
        for (kind, is_usage) in table {
            let (place, key) = ("s3://bucket".to_owned(), "a".to_owned());
            let error = StorageError { kind, place, key, message: "no".to_owned() };
            let failure = input_failure(ResolveError { input: "in".to_owned(), cause: error.into() });
            assert_eq!(failure.is_usage(), is_usage, "{kind:?}");
        }
    }
}
