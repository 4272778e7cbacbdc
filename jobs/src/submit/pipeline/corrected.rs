//! Inputs of the steps of a pipeline that were corrected since it last ran: looked at before its next start touches anything.
//!
//! A step whose inputs are outputs of other steps is not looked at here: these are compared when it is given them.

use std::sync::Arc;

use anyhow::Context;
use prs_common::failpoint;
use prs_common::job::pipeline::{Step, StepState};
use prs_common::job::shuffle::ShuffleStage;
use prs_common::job::{Input, InputSource};
use prs_common::storage::Storage;
use prs_orchestrator::pipeline::{StepView, look};
use prs_orchestrator::plan::correction::Corrected;
use prs_orchestrator::{JobContext, JobRecord};

use crate::caller::Caller;
use crate::failure::Failure;
use crate::submit::corrected::{anew, check, check_split};

/// Plans of corrected inputs.
pub(super) struct StepPlans(Vec<StepPlan>);

/// The plan of a step.
struct StepPlan {
    step: String,
    /// Everything of the step.
    storage: Arc<dyn Storage>,
    /// The start that it is for.
    start: u32,
    corrected: Box<Corrected>,
}

/// What is asked of the steps of a pipeline.
pub(super) struct Steps<'a, C> {
    /// The pipeline, before its next start.
    pub(super) record: &'a JobRecord,
    /// Gives the prefix of a job.
    pub(super) storage: &'a (dyn Fn(&str) -> Arc<dyn Storage> + Sync),
    /// Makes the job of a record, with what it needs on this host.
    pub(super) context: C,
    /// Whether inputs may be where this host cannot read them.
    pub(super) may_be_elsewhere: bool,
    pub(super) caller: &'a dyn Caller,
}

impl<K, C: Fn(&JobRecord) -> Result<(JobContext, K), Failure>> Steps<'_, C> {
    /// Looks at all that run again or whose rows are read again. A plan is made where a correction allows it.
    ///
    /// # Errors
    /// Of an input that is another, with step, file and mini-batches.
    pub(super) async fn look(&self) -> Result<StepPlans, Failure> {
        let next = JobRecord { incarnation: self.record.incarnation + 1, ..self.record.clone() };
        let views = look(&next, self.storage).await;
        let views = views.map_err(|error| Failure::from(anyhow::Error::from(error)))?;
        let mut plans = Vec::new();
        for (at, view) in views.iter().enumerate() {
            let Some(former) = view.record.as_ref().filter(|_| self.is_concerned(&views, at)) else {
                continue;
            };
            let (job, _kept) = (self.context)(former)?;
            let start = former.incarnation + 1;
            let job = JobContext { incarnation: start, ..job };
            let corrected = self.one(job, view).await;
            let corrected = corrected.map_err(|failure| failure.of(format_args!("step {}", view.name)))?;
            let (step, storage) = (view.name.clone(), (self.storage)(&view.id));
            plans.extend(corrected.map(|corrected| StepPlan { step, storage, start, corrected }));
        }
        Ok(StepPlans(plans))
    }

    async fn one(&self, job: JobContext, view: &StepView) -> Result<Option<Box<Corrected>>, Failure> {
        let told = match self.record.main_step() {
            Some(_) => anew(&self.record.job_id),
            None => "submit the file of the pipeline anew, which prs resubmit does not take".to_owned(),
        };
        let is_elsewhere = self.may_be_elsewhere;
        if job.spec.shuffle == Some(ShuffleStage::Split) {
            let is_complete = view.state == StepState::Completed;
            return check_split(job, is_complete, is_elsewhere, &told, self.caller).await.map(|()| None);
        }
        check(job, None, is_elsewhere, &told, self.caller).await
    }

    /// Whether the step at `at` has inputs of its own alone, and runs again, or has rows that another one puts together again.
    fn is_concerned(&self, views: &[StepView], at: usize) -> bool {
        let Some(plan) = self.record.pipeline.as_deref() else { return false };
        let (steps, step) = (&plan.pipeline.steps, &plan.pipeline.steps[at]);
        let is_given = |input: &Input| matches!(input.source, InputSource::Output(_));
        if step.spec.inputs.iter().any(is_given) {
            return false;
        }
        let is_waiting =
            |name: &str| views.iter().any(|view| view.name == name && view.state == StepState::Waiting);
        let reads = |reader: &Step, from: &str| {
            let is_from =
                |input: &Input| matches!(&input.source, InputSource::Output(output) if output.step == from);
            reader.spec.shuffle.is_some() && reader.spec.inputs.iter().any(is_from)
        };
        let is_read_again = |group: &Step| {
            let mut runs = steps.iter().filter(|run| reads(run, &group.name));
            reads(group, &step.name) && (is_waiting(&group.name) || runs.any(|run| is_waiting(&run.name)))
        };
        is_waiting(&step.name) || steps.iter().any(is_read_again)
    }
}

impl StepPlans {
    /// Stores them, and names them in the record of the next start of the pipeline.
    pub(super) async fn store(self, record: &mut JobRecord) -> anyhow::Result<()> {
        failpoint::pass("start_stores");
        let Some(plan) = &mut record.pipeline else { return Ok(()) };
        plan.corrected.clear();
        for StepPlan { step, storage, start, corrected } in self.0 {
            let stored = corrected.store(&*storage, start).await;
            plan.corrected.insert(step, stored.context("cannot store the plan of the corrected inputs")?);
        }
        failpoint::pass("start_stored");
        Ok(())
    }
}
