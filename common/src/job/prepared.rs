//! A job that becomes several steps, because something has to be known of its rows before it can be planned: its rows are
//! [put together](shuffle) by columns of the data, or [counted](counting). To the user it stays the one job that they wrote.

use super::pipeline::{Pipeline, Step};
use super::shuffle::ShuffleStage;
use super::spec::JobSpec;
use super::{counting, shuffle};

/// The pipeline that a job is; the job itself where it needs no steps.
pub fn pipeline_of(spec: JobSpec) -> Result<Pipeline, Box<JobSpec>> {
    match (spec.needs_shuffle(), spec.needs_counts()) {
        (true, _) => Ok(shuffle::pipeline_of(spec)),
        (false, true) => Ok(counting::pipeline_of(spec)),
        (false, false) => Err(Box::new(spec)),
    }
}

/// The job that `pipeline` is in the eyes of the user, with the settings and inputs that they gave it; nothing where it is a
/// pipeline to them, too.
pub fn as_given(pipeline: &Pipeline) -> Option<JobSpec> {
    let main = pipeline.step(pipeline.main.as_ref()?)?;
    let split = pipeline.steps.iter().find(|step| step.spec.shuffle == Some(ShuffleStage::Split));
    let inputs = split.unwrap_or(main).spec.inputs.clone();
    let spec = main.spec.clone();
    Some(JobSpec { inputs, shuffle: None, counting: None, grouped_from: Vec::new(), ..spec })
}

/// The pipeline of a resumed job with other settings. Each row keeps its slice and its bucket.
pub fn with_settings(pipeline: &Pipeline, given: JobSpec) -> Pipeline {
    let Ok(mut changed) = pipeline_of(given) else { return pipeline.clone() };
    for step in &mut changed.steps {
        let former = pipeline.step(&step.name).filter(|_| step.spec.shuffle == Some(ShuffleStage::Split));
        if let Some(Step { spec: former, .. }) = former {
            step.spec.mini_batch_size = former.mini_batch_size;
            step.spec.arguments.clone_from(&former.arguments);
        }
    }
    changed
}

/// What the record of the whole is called, and what it asks for: `spec` without what its steps have.
pub fn outer(spec: &JobSpec) -> JobSpec {
    JobSpec { inputs: Vec::new(), side_inputs: Vec::new(), model: None, ..spec.clone() }
}
