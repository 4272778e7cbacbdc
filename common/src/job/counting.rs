//! A job over a table with `skip` or `take` behind a filter or a sample (dialects B.2): two steps of a pipeline in place of
//! one job.
//!
//! ```text
//! inputs ─▶ STEP.count ─▶ how many rows each slice leaves, a line each ─▶ STEP
//! ```
//!
//! How many rows of a slice a filter leaves, only a process knows, so the plan of the job cannot say which slices are
//! wanted. *count* has the slices that the job has, does what the table does with their rows up to where they are counted,
//! and has the number as its one row. Its result has these in the order of the plan, so the plan of the job itself
//! reads them as it cuts the same slices: it leaves out those without a wanted row, tells the first and the last which of
//! their rows are wanted, and stops behind the last.
//!
//! *count* is an ordinary job: it runs on all nodes and processes, and `resume` continues where it stopped. It reads what is
//! behind the last wanted row too, for no slice knows what those before it leave.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pipeline::{Pipeline, Step};
use super::shuffle::{RUN, preparing};
use super::spec::{JobSpec, OutputAction};
use crate::dataset::input::{Input, InputSource};
use crate::dataset::mltable::{Step as TableStep, Window};
use crate::dataset::step_output::StepOutput;

/// The entry script of the step that counts.
pub const COUNT_SCRIPT: &str = "azureml_user.parallel_run.count_rows";
/// The output of that step, and the file that it is.
const COUNTS: &str = "counts";
/// Name and suffix of that step.
const COUNT: &str = "count";

/// What a job does where rows are counted before it is planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// It counts them.
    Count,
    /// It is planned with what was counted, which is here.
    Run(InputSource),
}

/// Which rows of `input` are taken of those that a filter or a sample leaves; nothing where it counts no such rows.
pub fn counted_window(input: &Input) -> Option<Window> {
    let (_, window) = input.mltable.as_ref()?.work.counted_window()?;
    Some(window)
}

impl JobSpec {
    /// Whether it counts rows that only processes know, so that it cannot be planned before they are counted.
    pub fn needs_counts(&self) -> bool {
        self.counting.is_none() && self.inputs.iter().any(|input| counted_window(input).is_some())
    }

    /// Whether it is the step that prs puts in front of such a job.
    pub fn counts_rows(&self) -> bool {
        self.counting == Some(Counting::Count)
    }
}

/// The pipeline that a job is that counts rows behind a filter.
pub fn pipeline_of(spec: JobSpec) -> Pipeline {
    let step = Step { name: RUN.to_owned(), spec, needs: Vec::new(), outputs: BTreeMap::new() };
    Pipeline {
        steps: with_steps(step, COUNT.to_owned()),
        continue_on_step_failure: true,
        outputs: Vec::new(),
        main: Some(RUN.to_owned()),
        places: Vec::new(),
    }
}

/// The steps that `step` is, itself the last: alone where no rows have to be counted.
pub fn expanded(step: Step) -> Vec<Step> {
    let name = format!("{}.{COUNT}", step.name);
    with_steps(step, name)
}

/// The same; the step in front of it has this name.
fn with_steps(mut step: Step, name: String) -> Vec<Step> {
    if !step.spec.needs_counts() {
        return vec![step];
    }
    let mut count = preparing(&step.spec, COUNT_SCRIPT);
    count.counting = Some(Counting::Count);
    count.output_action = OutputAction::AppendRow;
    COUNTS.clone_into(&mut count.append_row_file_name);
    // The slices are those of the job.
    count.mini_batch_size = step.spec.mini_batch_size;
    count.inputs.retain(|input| counted_window(input).is_some());
    for table in count.inputs.iter_mut().filter_map(|input| input.mltable.as_mut()) {
        if let Some((at, _)) = table.work.counted_window() {
            table.work.steps.truncate(at);
            table.work.steps.push(TableStep::Count {});
        }
    }
    let needs = step.needs.clone();
    let counts = StepOutput { step: name.clone(), output: COUNTS.to_owned() };
    step.spec.counting = Some(Counting::Run(InputSource::Output(counts)));
    step.needs.push(name.clone());
    let outputs = BTreeMap::from([(COUNTS.to_owned(), COUNTS.to_owned())]);
    vec![Step { name, spec: count, needs, outputs }, step]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::input::InputKind;
    use crate::dataset::mltable::{MlTable, Sample, TableWork};

    fn input(name: &str, steps: Vec<TableStep>) -> Input {
        let work = TableWork { steps, ..TableWork::default() };
        Input {
            mltable: Some(Box::new(MlTable { work, ..MlTable::default() })),
            ..Input::new(name, InputKind::Tabular, InputSource::Paths(vec![format!("/{name}")]))
        }
    }

    #[test]
    fn a_job_that_counts_what_a_filter_leaves_becomes_two_steps_and_is_the_last() {
        let sample = || TableStep::Sample(Sample::new(0.5, 7, "/"));
        let window = TableStep::Window(Window { skip: 3, take: Some(5) });
        let drop = || TableStep::DropColumns(vec!["a".to_owned()]);
        let plain = JobSpec::new("job", "/code", "main.py", vec![input("a", vec![sample(), drop()])]);
        assert!(!plain.needs_counts() && !plain.counts_rows());
        let mut spec = plain.clone();
        spec.inputs.push(input("b", vec![drop(), sample(), window, drop()]));
        assert!(spec.needs_counts());

        let pipeline = pipeline_of(spec.clone());
        let [count, run] = &pipeline.steps[..] else { panic!("{pipeline:?}") };
        assert_eq!((&*count.name, &*run.name), ("count", "run"));
        assert!(count.needs.is_empty() && count.spec.counts_rows() && count.spec.has_no_code());
        assert!(!count.spec.needs_counts() && !run.spec.needs_counts());
        assert_eq!(count.spec.mini_batch_size, spec.mini_batch_size);
        let [counted] = &count.spec.inputs[..] else { panic!("{:?}", count.spec.inputs) };
        let steps = &counted.mltable.as_ref().unwrap().work.steps;
        assert_eq!((&*counted.name, steps), ("b", &vec![drop(), sample(), TableStep::Count {}]));
        assert_eq!(run.needs, ["count"]);
        let Some(Counting::Run(counts)) = &run.spec.counting else { panic!("{:?}", run.spec.counting) };
        assert_eq!(counts.label(), "prs-step://count/counts");
        assert_eq!(run.spec.inputs, spec.inputs);

        let step =
            Step { name: "score".to_owned(), spec, needs: vec!["prep".to_owned()], outputs: BTreeMap::new() };
        let steps = expanded(step);
        let named: Vec<_> = steps.iter().map(|step| (&*step.name, step.needs.join(" "))).collect();
        assert_eq!(named, [("score.count", "prep".to_owned()), ("score", "prep score.count".to_owned())]);
        let step =
            Step { name: "plain".to_owned(), spec: plain, needs: Vec::new(), outputs: BTreeMap::new() };
        assert_eq!(expanded(step.clone()), [step]);
    }
}
