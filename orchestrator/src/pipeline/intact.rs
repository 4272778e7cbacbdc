//! Comparison of what finished steps brought, before the next step is given it, it is put to its place, or the pipeline ends.
//!
//! A step of a former start of the pipeline runs again if its output was damaged since: the output is cleared here, and the
//! driver of the pipeline starts the step. A step of the present start does not run again, because others may read or change its
//! output at this moment: the step that needs the output fails with its name, and the next start runs the damaged one again.

use std::sync::Arc;

use prs_common::end_reason::EndReason;
use prs_common::job::pipeline::{End, Pipeline, StepState};
use prs_common::job::shuffle::{GROUPS_SUFFIX, ShuffleStage};
use prs_common::job::{InputSource, StepOutput};
use prs_common::ledger::JobState;
use prs_common::storage::{Storage, StorageError};

use super::binding::sources;
use super::look::StepView;
use crate::job::record::JobRecord;
use crate::publish::intact::{Depth, Difference, clear, difference};
use crate::segments;

/// State of what a step, a place or the pipeline is about to be given.
#[derive(Debug)]
pub enum Given {
    /// All of it is what the steps brought.
    Whole,
    /// The step at this position is to be started first, because its output was damaged; why, in words.
    RunsAgain(usize, String),
    /// The step whose output was damaged runs again once no other step reads it.
    Waits,
    /// An output was damaged, and nothing mends it in this start of the pipeline.
    Changed(EndReason),
}

/// The pipeline whose outputs are compared.
pub(super) struct Compared<'a> {
    pub(super) pipeline: &'a Pipeline,
    /// Its start while it runs. Once it has ended no step runs again.
    pub(super) start: Option<u32>,
    /// Gives the prefix of a job.
    pub(super) storage: &'a (dyn Fn(&str) -> Arc<dyn Storage> + Sync),
}

/// Compares what the step at `at` of the pipeline of `record` is given by others. `views` are its steps.
pub async fn given(
    record: &JobRecord,
    at: usize,
    views: &[StepView],
    storage: &(dyn Fn(&str) -> Arc<dyn Storage> + Sync),
) -> Result<Given, StorageError> {
    let Some(plan) = &record.pipeline else { return Ok(Given::Whole) };
    let compared = Compared { pipeline: &plan.pipeline, start: Some(record.incarnation), storage };
    let mut spec = plan.pipeline.steps[at].spec.clone();
    let depth = match spec.shuffle {
        // Damage from before is found, so that the step makes it again.
        _ if record.incarnation > 1 => Depth::Bytes,
        // These check the rows as they read them.
        Some(ShuffleStage::Group) => Depth::Sizes,
        Some(ShuffleStage::Run) => Depth::BytesOf(GROUPS_SUFFIX),
        Some(ShuffleStage::Split) | None => Depth::Bytes,
    };
    let mut seen: Vec<StepOutput> = Vec::new();
    for source in sources(&mut spec) {
        let InputSource::Output(output) = source else { continue };
        if seen.contains(output) {
            continue;
        }
        match compared.output(&output.step, &output.output, views, depth).await? {
            Given::Whole => seen.push(output.clone()),
            other => return Ok(other),
        }
    }
    Ok(Given::Whole)
}

/// Compares what is about to become the outputs of the pipeline of `record`, which is to have this `end`. A step whose output was
/// damaged is made one that failed, in `views` alone, and with it the pipeline; unless all steps completed and it runs again: then
/// this tells its position, and why.
pub async fn outputs(
    record: &JobRecord,
    end: &mut End,
    views: &mut [StepView],
    storage: &(dyn Fn(&str) -> Arc<dyn Storage> + Sync),
) -> Result<Option<(usize, String)>, StorageError> {
    let Some(plan) = &record.pipeline else { return Ok(None) };
    let start = Some(record.incarnation).filter(|_| *end == End::Completed);
    let compared = Compared { pipeline: &plan.pipeline, start, storage };
    for output in &plan.pipeline.outputs {
        match compared.output(&output.step, &output.output, views, Depth::Bytes).await? {
            Given::Whole | Given::Waits => {}
            Given::RunsAgain(at, told) => return Ok(Some((at, told))),
            Given::Changed(reason) => {
                *end = End::Failed;
                views.iter_mut().filter(|view| view.name == output.step).for_each(|view| fail(view, &reason));
            }
        }
    }
    Ok(None)
}

/// Has a step count as failed in `view`, and nowhere else.
pub(super) fn fail(view: &mut StepView, reason: &EndReason) {
    view.state = StepState::Failed;
    let Some(record) = &mut view.record else { return };
    record.state = JobState::Failed;
    if let Some(result) = &mut record.result {
        result.state = JobState::Failed;
        result.reason = Some(reason.to_string());
    }
}

impl Compared<'_> {
    /// Compares an output of a step that completed.
    pub(super) async fn output(
        &self,
        step: &str,
        output: &str,
        views: &[StepView],
        depth: Depth,
    ) -> Result<Given, StorageError> {
        let Some(at) = views.iter().position(|view| view.name == step) else { return Ok(Given::Whole) };
        let view = &views[at];
        let path = self.pipeline.step(step).and_then(|step| step.outputs.get(output));
        let (Some(path), Some(record), StepState::Completed) = (path, &view.record, view.state) else {
            return Ok(Given::Whole);
        };
        let storage = (self.storage)(&view.id);
        let Some(found) = difference(record, &*storage, path, depth).await? else { return Ok(Given::Whole) };
        let changed = |difference: &Difference| {
            let (step, output) = (step.to_owned(), output.to_owned());
            let text = difference.to_string();
            Given::Changed(if difference.is_mended_by_job() {
                EndReason::OutputOfStepChanged { step, output, difference: text }
            } else {
                EndReason::NotOfStep { step, output, difference: text, place: storage.uri("") }
            })
        };
        let is_of_former_start = record.parent.as_ref().map(|parent| parent.start) < self.start;
        if !is_of_former_start || !found.is_mended_by_job() {
            return Ok(changed(&found));
        }
        let needs = |name: &str| {
            self.pipeline.step(name).is_some_and(|reader| reader.needs.iter().any(|need| need == step))
        };
        if views.iter().any(|view| view.state == StepState::Running && needs(&view.name)) {
            return Ok(Given::Waits);
        }
        // Another program may have started it at this moment.
        match JobRecord::read(&*storage).await {
            Ok(now) if now.version == record.version => {}
            _ => return Ok(Given::Waits),
        }
        if let Some(foreign) = clear(record, &*storage).await? {
            return Ok(changed(&foreign));
        }
        segments::remove(&*storage).await?;
        let told = format!(
            "output {output} of step {step} is not what the step brought: {found}; step {step} runs again"
        );
        Ok(Given::RunsAgain(at, told))
    }
}
