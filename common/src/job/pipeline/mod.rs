//! A pipeline: steps, each an ordinary job, and which of them needs the output of which.
//!
//! Plain data and pure rules. `job::form` makes a [`Pipeline`] of a job file, [`decide`] says what is to be done next, and
//! `prs_orchestrator::pipeline` does it. A step is complete but for what is bound to the outputs of other steps: where
//! these are is known once the pipeline has an id.

mod decide;
mod order;
mod place;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::JobSpec;

pub use decide::{Action, End, StepState, decide};
pub(crate) use order::circle;
pub(in crate::job) use place::{EXPECTED, in_bucket, met, refused};
pub use place::{OutputPlace, Target};

/// The steps of a pipeline, and what it does with their outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// The steps, in the order of the file.
    pub steps: Vec<Step>,
    /// Whether steps that do not need a failed one are started all the same.
    pub continue_on_step_failure: bool,
    /// The outputs of the pipeline that some step brings.
    pub outputs: Vec<PipelineOutput>,
    /// The step that the pipeline is in the eyes of the user, where the others only put its data together: how it ends is
    /// how the pipeline ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// Outputs of steps that have places of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<OutputPlace>,
}

/// A step of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name, unique in the pipeline; that of a step in a pipeline component has the name of that one in front, with a
    /// dot.
    pub name: String,
    /// What it runs. An input that is bound to an output of another step has
    /// [`InputSource::Output`](crate::job::InputSource::Output) as its source until the step is started.
    pub spec: JobSpec,
    /// The steps that have to complete before it, by their names: those whose outputs it needs, and those of `depends_on`.
    pub needs: Vec<String>,
    /// Where its outputs are, below the output of its job.
    pub outputs: BTreeMap<String, String>,
}

/// An output of a pipeline, which a step brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineOutput {
    /// Its name.
    pub name: String,
    /// The step.
    pub step: String,
    /// The name that it has there.
    pub output: String,
}

/// The job that a step is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Id of the pipeline.
    pub job_id: String,
    /// Name of the step.
    pub step: String,
    /// The start of the pipeline, from 1, that started the step last.
    pub start: u32,
}

impl Pipeline {
    /// The step of this name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// What becomes of the rows of the one job that it is to the user, before that runs; nothing of a pipeline.
    pub fn preparation(&self) -> Option<&'static str> {
        match (self.is_shuffled_job(), self.is_counted_job()) {
            (true, _) => Some("rows are put together by partition_keys"),
            (false, true) => Some("rows are counted behind a filter"),
            (false, false) => None,
        }
    }

    /// Whether it is one job to the user, whose rows are put together first.
    pub fn is_shuffled_job(&self) -> bool {
        self.main.is_some() && self.steps.iter().any(|step| step.spec.prepares_groups())
    }

    /// Whether it is one job to the user, some of whose rows are counted first.
    pub fn is_counted_job(&self) -> bool {
        self.main.is_some() && self.steps.iter().any(|step| step.spec.counts_rows())
    }
}

/// The id of the job of the step `step` of the pipeline `pipeline`.
pub fn step_id(pipeline: &str, step: &str) -> String {
    format!("{pipeline}-{}", name_in_id(step))
}

/// The name of a step as ids have it: lower case, and dashes for what is neither a letter nor a digit.
pub fn name_in_id(step: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    step.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_step_begins_with_that_of_its_pipeline() {
        for (step, expected) in [
            ("prep", "flow-1-prep"),
            ("prep_Data", "flow-1-prep-data"),
            ("outer.inner", "flow-1-outer-inner"),
        ] {
            assert_eq!(step_id("flow-1", step), expected);
        }
    }
}
