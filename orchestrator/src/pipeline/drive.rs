//! A pipeline on a fleet: the program that has its lease in the ledger looks at the steps, and does what is next.
//!
//! Any worker may be that program, beside the job that it serves, and any command that waits for the pipeline. That the
//! pipeline is to be driven stands in storage, as it does for a job; that it is to end early stands in the ledger. A step is
//! started by acts each of which may be done again: the program that takes the lease over does them again for the steps that run.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::failpoint;
use prs_common::job::pipeline::{Action, Parent, Step, StepState, decide, step_id};
use prs_common::layout;
use prs_common::ledger::{Conclusion, Duty, JobState, LedgerError, LedgerErrorKind};
use prs_common::queue::QueueError;
use prs_common::storage::{Storage, StorageError, StorageErrorKind};
use tokio_util::sync::CancellationToken;

use super::binding::bound;
use super::delivery::{Delivery, deliver};
use super::ending::{Ended, conclude, fail_step};
use super::intact::{Given, given, outputs};
use super::look::{StepView, look, states};
use crate::JobContext;
use crate::gc::until_quiet;
use crate::inputs::{Audience, Where, resolve};
use crate::job::ServerError;
use crate::job::fleet::{Fleet, JOBS, LocalFolders};
use crate::job::membership;
use crate::job::queue::job_queue_options;
use crate::job::record::{JobRecord, JobRecordError, JobResult};
use crate::job::reuse::index;
use crate::report::summary::note_new;

/// Between two looks at the steps.
const STEPS_INTERVAL: Duration = Duration::from_millis(700);
/// Pause after an error that may pass.
const PAUSE: Duration = Duration::from_secs(1);

/// How a program's driving of a pipeline ended.
#[derive(Debug)]
pub enum Driven {
    /// The pipeline has ended.
    Ended(Box<JobResult>),
    /// Another program drives it.
    Elsewhere,
    /// The program was told to stop; the lease is free.
    Stopped,
    /// There is no such pipeline, or it was started again.
    Gone,
    /// The start that was offered is a former one; what was left of it is removed.
    Superseded,
}

/// Why a pipeline cannot be driven at the moment.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A server fails.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The broker fails.
    #[error(transparent)]
    Queue(QueueError),
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] JobRecordError),
}

impl From<LedgerError> for DriveError {
    fn from(error: LedgerError) -> Self {
        Self::Server(error.into())
    }
}

impl From<StorageError> for DriveError {
    fn from(error: StorageError) -> Self {
        Self::Server(error.into())
    }
}

impl From<QueueError> for DriveError {
    fn from(error: QueueError) -> Self {
        Self::Queue(error)
    }
}

/// Drives the pipeline `job_id` to its end, unless another program does. Errors of servers are waited out. `offered` is the
/// start of it that was offered: what is left of one that was superseded is removed.
pub async fn drive(
    fleet: &Fleet,
    job_id: &str,
    offered: Option<u32>,
    owner: &str,
    stop: &CancellationToken,
) -> Driven {
    loop {
        let driving = try_to_drive(fleet, job_id, offered, owner, stop);
        let error = match Box::pin(driving).await {
            Ok(driven) => return driven,
            Err(error) => error,
        };
        tracing::warn!(job = job_id, %error, "the pipeline cannot be driven for now; trying again");
        if stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return Driven::Stopped;
        }
    }
}

/// A pipeline as this program sees it. Nothing of it is kept on this host.
pub fn context(fleet: &Fleet, record: &JobRecord) -> JobContext {
    JobContext::on(fleet, record, LocalFolders { logs: PathBuf::new(), work: PathBuf::new() })
}

async fn try_to_drive(
    fleet: &Fleet,
    job_id: &str,
    offered: Option<u32>,
    owner: &str,
    stop: &CancellationToken,
) -> Result<Driven, DriveError> {
    let mut record = match JobRecord::read(&*fleet.job_storage(job_id)).await {
        Ok(record) if record.pipeline.is_some() => record,
        Ok(_) | Err(JobRecordError::Absent { .. }) => return Ok(Driven::Gone),
        Err(error) if error.is_for_good() => {
            tracing::error!(job = job_id, %error, "the pipeline cannot be driven");
            return Ok(Driven::Elsewhere);
        }
        Err(error) => return Err(error.into()),
    };
    match offered.map(|offered| offered.cmp(&record.incarnation)) {
        Some(Ordering::Less) => {
            let former = JobRecord { incarnation: offered.unwrap_or_default(), ..record };
            tidy(&context(fleet, &former)).await?;
            tracing::info!(job = job_id, "the offer of a former start of the pipeline is taken back");
            return Ok(Driven::Superseded);
        }
        // Storage gives back a record from before the pipeline was resumed.
        Some(Ordering::Greater) => return Ok(Driven::Elsewhere),
        Some(Ordering::Equal) | None => {}
    }
    let job = context(fleet, &record);
    enter(&job).await?;
    let Some(fence) = job.ledger.lease(Duty::Watch, owner, job.policy.lease).await? else {
        return Ok(Driven::Elsewhere);
    };
    // Another one may have ended it since.
    record = JobRecord::read(&*job.storage).await?;
    if record.incarnation != job.incarnation {
        tidy(&job).await?;
        return Ok(Driven::Gone);
    }
    if let Some(result) = record.result {
        tidy(&job).await?;
        return Ok(Driven::Ended(Box::new(result)));
    }
    job.ledger.set_state(JobState::Running, fence).await?;
    let mut driver = Driver { fleet, job: &job, handed_in: HashSet::new() };
    let driving = async {
        loop {
            if let Some(result) = driver.look(&mut record).await? {
                return Ok(Driven::Ended(Box::new(result)));
            }
            // Shorter than the lease, which is renewed meanwhile.
            tokio::time::sleep(STEPS_INTERVAL).await;
        }
    };
    let renewing = renew(&job, owner);
    let outcome = tokio::select! {
        outcome = driving => outcome,
        lost = renewing => return lost.map(|()| Driven::Elsewhere),
        () = stop.cancelled() => Ok(Driven::Stopped),
    };
    if !matches!(outcome, Ok(Driven::Ended(_))) {
        release(&job, owner).await;
        return outcome;
    }
    note_new(&*fleet.ledger, &record).await;
    tidy(&job).await?;
    outcome
}

/// Keeps the lease, until another program has it.
async fn renew(job: &JobContext, owner: &str) -> Result<(), DriveError> {
    loop {
        tokio::time::sleep(job.policy.lease / 3).await;
        match job.ledger.lease(Duty::Watch, owner, job.policy.lease).await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn release(job: &JobContext, owner: &str) {
    if let Err(error) = job.ledger.release(Duty::Watch, owner).await {
        tracing::debug!(job = job.id, %error, "another program drives the pipeline a little later");
    }
}

/// Makes sure that the ledger knows the job.
async fn enter(job: &JobContext) -> Result<(), LedgerError> {
    match job.ledger.create(job.try_limits()).await {
        Err(error) if error.kind != LedgerErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes what is left of a pipeline that has ended; its place among those to be driven goes last.
async fn tidy(job: &JobContext) -> Result<(), DriveError> {
    job.ledger.remove().await?;
    Ok(membership::withdraw(job).await?)
}

/// Has a job served that has a record, whatever was done of this before.
async fn hand_in(job: &JobContext) -> Result<(), DriveError> {
    membership::activate(job).await?;
    enter(job).await?;
    job.queue.declare(&job.queue_name(), job_queue_options(&job.spec)).await?;
    membership::offer(job).await?;
    membership::ring(job).await;
    Ok(())
}

/// Has a pipeline driven that has a record.
pub async fn hand_in_pipeline(job: &JobContext) -> Result<(), ServerError> {
    membership::activate(job).await?;
    enter(job).await?;
    membership::offer(job).await?;
    membership::ring(job).await;
    Ok(())
}

/// Says which steps run again.
fn tell(record: &JobRecord, again: &[String]) {
    for words in again {
        tracing::warn!(job = record.job_id, "{words}");
    }
}

/// Who has the lease.
struct Driver<'a> {
    fleet: &'a Fleet,
    job: &'a JobContext,
    /// Steps that this program handed in.
    handed_in: HashSet<String>,
}

impl Driver<'_> {
    /// Looks at the steps, and does what is next; gives the result when the pipeline has ended.
    async fn look(&mut self, record: &mut JobRecord) -> Result<Option<JobResult>, DriveError> {
        let plan = record.pipeline.clone().expect("the caller has the record of a pipeline");
        let canceled = match self.job.ledger.progress().await {
            Ok(progress) => progress.conclusion,
            // It was lost, and with it a cancel that no program repeats.
            Err(error) if error.kind == LedgerErrorKind::NotFound => {
                enter(self.job).await?;
                None
            }
            Err(error) => return Err(error.into()),
        };
        let fleet = self.fleet;
        let storage = |id: &str| fleet.job_storage(id);
        let mut views = look(record, &storage).await?;
        let delivery = Delivery {
            own: &*self.job.storage,
            storage: &storage,
            open: &fleet.open,
            reach: record.spec.reach(),
            start: Some(record.incarnation),
        };
        // What has its place on the machine that submitted is brought there by the command that waits.
        let places = plan.pipeline.places.iter().filter(|place| !place.is_local());
        // The next start of a pipeline that is canceled does it.
        if canceled.is_none() && !plan.pipeline.places.is_empty() {
            tokio::select! {
                delivered = deliver(&plan.pipeline, places, &mut views, &delivery) => tell(record, &delivered?),
                () = self.concluded() => return Ok(None),
            }
        }
        for action in decide(&plan.pipeline, &states(&views), canceled.is_some()) {
            match action {
                Action::Start(at) => {
                    if !self.start_whole(record, at, &views).await? {
                        break;
                    }
                }
                Action::Cancel(at) => {
                    let who = canceled.as_ref().map(|conclusion| conclusion.reason.clone());
                    self.cancel(&views[at], who).await?;
                }
                Action::Skip(_) => {}
                Action::Conclude(mut end) => {
                    if canceled.is_none() {
                        let again = tokio::select! {
                            again = outputs(record, &mut end, &mut views, &storage) => again?,
                            () = self.concluded() => return Ok(None),
                        };
                        if let Some((at, words)) = again {
                            tell(record, &[words]);
                            self.start_whole(record, at, &views).await?;
                            return Ok(None);
                        }
                    }
                    self.close(record, &views).await?;
                    let around = &self.fleet.storage;
                    let ended = Ended {
                        views: &views,
                        end,
                        canceled: canceled.as_ref().map(|conclusion| conclusion.reason.clone()),
                        storage: &self.job.storage,
                        around: (around, format!("{JOBS}/{}/", record.job_id)),
                        steps: format!("{JOBS}/"),
                        place: &record.job_id.clone(),
                    };
                    failpoint::pass("pipeline_ends");
                    let result = conclude(record, ended).await?;
                    index::enter_ended(self.job, record).await;
                    return Ok(Some(result));
                }
            }
        }
        // A step that another program started may not be handed in.
        for view in views.iter().filter(|view| view.state == StepState::Running) {
            let Some(record) = view.record.as_ref().filter(|_| !self.handed_in.contains(&view.id)) else {
                continue;
            };
            hand_in(&context(self.fleet, record)).await?;
            self.handed_in.insert(view.id.clone());
        }
        Ok(None)
    }

    /// Starts the step at `at`, or the one in front of it that has to run again; tells whether how the other steps stand is known
    /// all the same.
    async fn start_whole(
        &mut self,
        record: &JobRecord,
        at: usize,
        views: &[StepView],
    ) -> Result<bool, DriveError> {
        let fleet = self.fleet;
        let plan = record.pipeline.as_ref().expect("the caller has the record of a pipeline");
        let storage = |id: &str| fleet.job_storage(id);
        let mut first = at;
        let changed = loop {
            let given = tokio::select! {
                given = given(record, first, views, &storage) => given?,
                // What is read may be long, and a cancel does not wait for it.
                () = self.concluded() => return Ok(false),
            };
            match given {
                Given::Whole => break None,
                Given::RunsAgain(before, words) => {
                    tell(record, &[words]);
                    first = before;
                }
                Given::Waits => return Ok(true),
                Given::Changed(reason) => break Some(reason),
            }
        };
        let step = &plan.pipeline.steps[first];
        let code = plan.codes.get(&step.name).cloned().unwrap_or_default();
        self.start(record, step, &views[first], (code, changed)).await?;
        Ok(first == at)
    }

    /// Starts a step: its record first, which says that it runs. One that is given what was `changed` fails.
    async fn start(
        &mut self,
        record: &JobRecord,
        step: &Step,
        view: &StepView,
        (code, changed): (String, Option<EndReason>),
    ) -> Result<(), DriveError> {
        let fleet = self.fleet;
        let plan = record.pipeline.as_ref().expect("the caller has the record of a pipeline");
        let storage = |id: &str| fleet.job_storage(id);
        let bound = match changed {
            None => bound(&record.job_id, &plan.pipeline, step, &storage).await?,
            Some(reason) => Err(reason),
        };
        let ready = match bound {
            Err(reason) => Err(reason),
            Ok(spec) => {
                let stores = fleet.inputs(&view.id).within(spec.reach());
                let quiet = until_quiet(&*fleet.storage, &|_| ()).await?;
                let resolved = tokio::select! {
                    resolved = resolve(spec, &stores, Where::Fleet, Audience::NONE) => resolved,
                    // A listing may be long, and a cancel does not wait for it.
                    () = self.concluded() => return Ok(()),
                };
                match resolved {
                    // A collection that was at work meanwhile may have taken what was uploaded; the next look does it again.
                    Ok(_) if !quiet.lasts(&*fleet.storage).await? => return Ok(()),
                    Ok(spec) => Ok(spec),
                    Err(error) if error.is_retryable() => {
                        tracing::warn!(job = view.id, %error, "the inputs of the step cannot be listed for now");
                        return Ok(());
                    }
                    Err(error) => Err(EndReason::StepNotStarted { error: error.to_string() }),
                }
            }
        };
        let spec = ready.as_ref().map_or_else(|_| step.spec.clone(), Clone::clone);
        let own = storage(&view.id);
        let mut job = match view.record.clone() {
            // One that was started before runs again; one that only waited starts.
            Some(mut former) if former.parent.as_ref().is_some_and(|parent| parent.start > 0) => {
                view.start_again(&mut former, plan);
                JobRecord { code, spec, ..former }
            }
            Some(waiting) => JobRecord { spec, code, state: JobState::Queued, result: None, ..waiting },
            None => JobRecord::new(view.id.clone(), code, spec),
        };
        job.parent = Some(Parent {
            job_id: record.job_id.clone(),
            step: step.name.clone(),
            start: record.incarnation,
        });
        if let Err(reason) = &ready {
            return Ok(fail_step(&mut job, &*own, reason).await?);
        }
        failpoint::pass("step_starts");
        match job.write(&*own).await {
            // Another program was here: what it wrote is seen at the next look.
            Err(error) if crate::job::record::is_conflict(error.kind) => return Ok(()),
            written => written?,
        }
        failpoint::pass("step_recorded");
        hand_in(&context(fleet, &job)).await?;
        self.handed_in.insert(view.id.clone());
        tracing::info!(job = view.id, step = step.name, "the step is handed in");
        Ok(())
    }

    /// Ends when it is decided how the pipeline ends.
    async fn concluded(&self) {
        loop {
            tokio::time::sleep(STEPS_INTERVAL).await;
            if self.job.ledger.progress().await.is_ok_and(|progress| progress.conclusion.is_some()) {
                return;
            }
        }
    }

    /// Asks for the end of the job of a step.
    async fn cancel(&self, view: &StepView, reason: Option<String>) -> Result<(), DriveError> {
        let Some(record) = &view.record else { return Ok(()) };
        let job = context(self.fleet, record);
        enter(&job).await?;
        let reason = reason.unwrap_or_else(|| EndReason::OtherStepFailed.to_string());
        job.ledger.conclude(&Conclusion { state: JobState::Canceled, reason }).await?;
        Ok(())
    }

    /// Says of steps that were not run that they will not be.
    async fn close(&self, record: &JobRecord, views: &[StepView]) -> Result<(), DriveError> {
        for view in views.iter().filter(|view| view.state == StepState::Waiting) {
            let Some(mut job) = view.record.clone().filter(|job| job.result.is_none()) else { continue };
            let reason = EndReason::StepNotRun { pipeline: record.job_id.clone() };
            fail_step(&mut job, &*self.fleet.job_storage(&view.id), &reason).await?;
        }
        Ok(())
    }
}

/// The records of the steps of a new pipeline, which wait. Without them no `gc` would know that what was stored for
/// the steps is needed.
pub async fn store_waiting(fleet: &Fleet, record: &JobRecord) -> Result<(), StorageError> {
    let Some(plan) = &record.pipeline else { return Ok(()) };
    for step in &plan.pipeline.steps {
        let id = step_id(&record.job_id, &step.name);
        let code = plan.codes.get(&step.name).cloned().unwrap_or_default();
        let mut job = JobRecord::new(id.clone(), code, step.spec.clone());
        job.parent = Some(Parent { job_id: record.job_id.clone(), step: step.name.clone(), start: 0 });
        let storage: Arc<dyn Storage> = fleet.job_storage(&id);
        if !job.create(&*storage).await? {
            is_of(&*storage, &record.job_id).await?;
        }
    }
    Ok(())
}

/// Refuses the record of a step that is another job's, which may be where users choose ids.
async fn is_of(storage: &dyn Storage, pipeline: &str) -> Result<(), StorageError> {
    let found = JobRecord::read(storage).await;
    match found {
        Ok(found) if found.parent.as_ref().is_none_or(|parent| parent.job_id != pipeline) => {
            Err(StorageError {
                kind: StorageErrorKind::AlreadyExists,
                place: storage.to_string(),
                key: layout::JOB.to_owned(),
                message: format!(
                    "the job {} has the id of a step of {pipeline}: cancel and remove one of them",
                    found.job_id
                ),
            })
        }
        // What is wrong with it is told where it is looked at.
        _ => Ok(()),
    }
}
