//! The rows of a job file put together for a trial (`partition_keys` over columns of the data): the steps before the job run here,
//! as they would, over the first bytes of its inputs, in the temporary folder of the trial.

use std::sync::Arc;

use anyhow::Context;
use indicatif::HumanBytes;
use prs_common::job::pipeline::Pipeline;
use prs_common::job::prepared;
use prs_common::job::shuffle::ShuffleStage;
use prs_common::job::{JobSpec, LoadedPipeline, RunsOn};
use prs_common::ledger::JobState;
use prs_common::storage::{LocalStorage, Storage};
use prs_common::temporary_folder::TemporaryFolder;
use prs_jobs::homes::run_folder::{self, STEPS};
use prs_jobs::submit::pipeline::code::StepCodes;
use prs_jobs::submit::pipeline::embedded::{self, PipelineRun};
use prs_orchestrator::JobRecord;
use prs_orchestrator::inputs::{Audience, Where, input_bytes, resolve};
use prs_orchestrator::job::count;
use prs_orchestrator::job::record::PipelinePlan;
use prs_orchestrator::pipeline::bound;

use super::{Trial, check_code, own_code, stores_in};
use crate::failure::Failure;
use crate::progress::Screen;
use crate::terminal::output;
use crate::terminal::signals::Signals;

/// Bytes of each input that are looked at.
const FIRST_BYTES: u64 = 128 << 20;
/// Inputs that have fewer bytes are looked at whole, compressed or not.
const SURELY_WHOLE: u64 = FIRST_BYTES / 32;

/// A trial whose rows are not put together yet.
pub(crate) struct Ungrouped {
    loaded: LoadedPipeline,
    scratch: TemporaryFolder,
}

impl Ungrouped {
    /// Of a job file that was read.
    pub(super) fn of(loaded: LoadedPipeline, scratch: TemporaryFolder) -> Self {
        Self { loaded, scratch }
    }

    /// Puts the rows together.
    pub(crate) async fn group(self, signals: &mut Signals) -> Result<Trial, Failure> {
        let Self { mut loaded, scratch } = self;
        let job_id = format!("{}-try", loaded.spec.name);
        loaded.put_job_ids(&job_id);
        let LoadedPipeline { spec, pipeline } = loaded;
        let given = prepared::as_given(&pipeline).context("it is a pipeline of several jobs")?;
        check_code(&given)?;
        let code = own_code(&given, &scratch)?;
        // What is left of a job of the same id would be ended.
        let group_id = format!("{job_id}-{}", std::process::id());
        let folder = run_folder::make(&scratch.path().join("groups"))?;
        let before = steps_before(&pipeline);
        let codes = StepCodes::pack(&before, RunsOn::ThisMachine, false, &Screen).await?;
        let plan = PipelinePlan::new(before, codes.keys());
        let outer = JobSpec { output: None, ..spec };
        let mut record = JobRecord::of_pipeline(group_id.clone(), outer, plan);
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&folder));
        embedded::store_codes(&folder, &record, &codes).await?;
        record.create(&*storage).await.context("cannot write to the temporary folder")?;
        output::note("the rows are put together first (partition_keys)");
        let result =
            embedded::run(PipelineRun { folder, record, interrupts: signals, caller: &Screen }).await?;
        let reason = || result.reason.clone().unwrap_or_default();
        match result.state {
            JobState::Completed => {}
            JobState::Canceled => return Err(Failure::interrupted(reason())),
            _ => return Err(Failure::wrong(format!("the rows cannot be put together: {}", reason()))),
        }
        let split = result.steps.first().and_then(|step| step.result.as_ref());
        let rows = count(split.map_or(0, |split| split.items.succeeded), "row");
        let limit = if input_bytes(&given.inputs).await.is_ok_and(|bytes| bytes < SURELY_WHOLE) {
            String::new()
        } else {
            let first = HumanBytes(FIRST_BYTES);
            format!(", of the first {first} of each input at most: in the job a group may have more")
        };
        output::note(format_args!("  {rows} put together{limit}"));
        let main = pipeline.main.as_deref().and_then(|main| pipeline.step(main));
        let main = main.context("it is a pipeline of several jobs")?;
        let steps = |id: &str| storage.below(&format!("{STEPS}/{id}"));
        let bound = bound(&group_id, &pipeline, main, &steps).await.context("cannot read the groups")?;
        let spec = bound.map_err(|reason| Failure::wrong(reason.to_string()))?;
        let stores = stores_in(scratch.path());
        let resolved = resolve(spec, &stores, Where::Embedded, Audience::NONE).await;
        let spec = Arc::new(resolved.map_err(Failure::usage)?);
        Ok(Trial { spec, job_id, code, former: None, stores, scratch })
    }
}

/// The steps before the job, over no more than is looked at.
fn steps_before(pipeline: &Pipeline) -> Pipeline {
    let mut steps = pipeline.steps.clone();
    steps.retain(|step| step.spec.prepares_groups());
    for step in steps.iter_mut().filter(|step| step.spec.shuffle == Some(ShuffleStage::Split)) {
        step.spec.first_bytes = Some(FIRST_BYTES);
    }
    Pipeline { steps, main: None, ..pipeline.clone() }
}
