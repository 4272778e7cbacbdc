//! A job whose `partition_keys` are columns of the data (spec D3): three steps of a pipeline in place of one job.
//!
//! ```text
//! inputs ─▶ STEP.split ─▶ a file for each bucket ─▶ STEP.group ─▶ the rows of each group in one piece ─▶ STEP
//! ```
//!
//! *split* reads a slice of the input as the job would, finds the keys of its rows, and writes the rows, as the data has
//! them, to one file a *bucket*: a bucket is all groups whose keys have the same hash. *group* puts the files of one
//! bucket together, each group in one piece, its rows in the order of the input. The job itself then has a mini-batch a
//! group, in the order of their first rows, and reads the pieces with the readers of the original files.
//!
//! Each of them is an ordinary job, so what holds of jobs holds of a shuffle: it runs on all nodes and processes, a crash
//! neither loses nor doubles a row, and `resume` continues where it stopped. What a step writes follows from its input alone.

use serde::{Deserialize, Serialize};

use super::pipeline::{Pipeline, Step};
use super::spec::{JobSpec, MiniBatchSize, OutputAction};
use crate::dataset::input::{Input, InputKind, InputMode, InputSource};
use crate::dataset::mltable::Step as TableStep;
use crate::dataset::step_output::StepOutput;

/// The entry script of the step that splits.
pub const SPLIT_SCRIPT: &str = "azureml_user.parallel_run.shuffle_split";
/// The entry script of the step that groups.
pub const GROUP_SCRIPT: &str = "azureml_user.parallel_run.shuffle_group";

/// Name of a job as the last step of its own shuffle.
pub const RUN: &str = "run";
/// Suffix of the file that says which groups a bucket has; a JSON value a line.
pub const GROUPS_SUFFIX: &str = ".groups";
/// Suffix of the file with the rows of a bucket.
pub const ROWS_SUFFIX: &str = ".rows";

/// What a path of a file that *split* wrote says; the first part is the key of *group*.
const FORMAT: &str = "{bucket}/{part}.part";
const BUCKET: &str = "bucket";

/// Seconds that a mini-batch of *split* or *group* may take at least. The time-out of the job is for its own script.
const SHORTEST_TIMEOUT: u64 = 3_600;

const MIB: u64 = 1 << 20;
/// Bytes of a slice of *split*. A process holds a slice a few times.
const SLICE: std::ops::RangeInclusive<u64> = 32 * MIB..=128 * MIB;
/// Slices that there are before they grow.
const SLICES: u64 = 160;
/// Bytes of input that a bucket has, more or less, until there are [`BUCKETS`].
const BUCKET_BYTES: u64 = 64 * MIB;
/// Buckets of an input that fits into so many; each slice has a file of each.
const BUCKETS: u64 = 64;
/// The same for larger buckets, of a larger input.
const MOST_BUCKETS: u64 = 256;

/// What a job does of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShuffleStage {
    /// It writes rows to buckets.
    Split,
    /// It puts the groups of buckets together.
    Group,
    /// It is run on groups.
    Run,
}

impl JobSpec {
    /// Whether some of its keys are columns of the data, so that it cannot be run before the data is put together.
    pub fn needs_shuffle(&self) -> bool {
        let is_of_data = |input: &Input| {
            let mut keys = self.partition_keys.iter();
            keys.any(|key| !input.path_columns().any(|column| column == key))
        };
        self.shuffle.is_none() && self.inputs.iter().any(is_of_data)
    }

    /// Whether it is a step that prs puts in front of a job.
    pub fn prepares_groups(&self) -> bool {
        matches!(self.shuffle, Some(ShuffleStage::Split | ShuffleStage::Group))
    }
}

/// The pipeline that a job with keys in its data is.
pub fn pipeline_of(spec: JobSpec) -> Pipeline {
    let step =
        Step { name: RUN.to_owned(), spec, needs: Vec::new(), outputs: std::collections::BTreeMap::new() };
    Pipeline {
        steps: with_steps(step, ["split", "group"].map(str::to_owned)),
        continue_on_step_failure: true,
        outputs: Vec::new(),
        main: Some(RUN.to_owned()),
        places: Vec::new(),
    }
}

/// The steps that `step` is, itself the last: alone where its data need not be put together.
pub fn expanded(step: Step) -> Vec<Step> {
    let names = ["split", "group"].map(|suffix| format!("{}.{suffix}", step.name));
    with_steps(step, names)
}

/// The same; the steps in front of it have these names.
fn with_steps(mut step: Step, [split_name, group_name]: [String; 2]) -> Vec<Step> {
    if !step.spec.needs_shuffle() {
        return vec![step];
    }
    let names: Vec<String> = step.spec.inputs.iter().map(|input| input.name.clone()).collect();
    let outputs = || names.iter().map(|name| (name.clone(), name.clone())).collect();

    let keys = serde_json::to_string(&step.spec.partition_keys).expect("a list of texts is JSON");
    let mut split = preparing(&step.spec, SPLIT_SCRIPT);
    split.shuffle = Some(ShuffleStage::Split);
    split.arguments = vec!["--shuffle_keys".to_owned(), keys, BUCKETS_FLAG.to_owned(), "1".to_owned()];
    split.mini_batch_size = MiniBatchSize::Bytes(*SLICE.start());

    let mut group = preparing(&step.spec, GROUP_SCRIPT);
    group.shuffle = Some(ShuffleStage::Group);
    group.partition_keys = vec![BUCKET.to_owned()];
    group.mini_batch_size = MiniBatchSize::Files(1);
    let with_origins =
        |input: &&Input| input.mltable.as_ref().is_some_and(|table| table.work.path_column.is_some());
    let with_origins: Vec<&str> =
        step.spec.inputs.iter().filter(with_origins).map(|input| &*input.name).collect();
    let with_origins = serde_json::to_string(&with_origins).expect("a list of texts is JSON");
    group.arguments = vec!["--shuffle_origins".to_owned(), with_origins];
    group.inputs = names.iter().map(|name| brought(name, &split_name)).collect();

    step.spec.grouped_from = step.spec.inputs.iter().map(|input| input.source.clone()).collect();
    for input in &mut step.spec.inputs {
        let output = StepOutput { step: group_name.clone(), output: input.name.clone() };
        input.source = InputSource::Output(output);
        input.mode = InputMode::Upload;
        // What the paths of the original files say goes along with their rows.
        input.partition_format = None;
        // A sample counts the records of the original files; *split* has drawn it.
        if let Some(table) = &mut input.mltable {
            table.work.steps.retain(|step| !matches!(step, TableStep::Sample(_)));
            // The rows that *split* has written have the columns of the table.
            table.delta = None;
        }
    }
    step.spec.shuffle = Some(ShuffleStage::Run);
    let needs = std::mem::replace(&mut step.needs, vec![group_name.clone()]);
    // Side inputs of the job may be outputs of others, too.
    step.needs.extend(needs.iter().cloned());
    vec![
        Step { name: split_name.clone(), spec: split, needs, outputs: outputs() },
        Step { name: group_name, spec: group, needs: vec![split_name], outputs: outputs() },
        step,
    ]
}

/// The argument of *split* that says how many buckets there are.
const BUCKETS_FLAG: &str = "--shuffle_buckets";

/// A job in front of `spec`, which runs where that does.
pub(super) fn preparing(spec: &JobSpec, script: &str) -> JobSpec {
    let plain = JobSpec::new(spec.name.clone(), "", script, spec.inputs.clone());
    JobSpec {
        output_action: OutputAction::SummaryOnly,
        // Rows that are missing may belong to any group.
        error_threshold: 0,
        allowed_failed_count: 0,
        allow_reuse: false,
        experiment_name: spec.experiment_name.clone(),
        node_count: spec.node_count,
        process_count_per_node: spec.process_count_per_node,
        run_invocation_timeout: spec.run_invocation_timeout.max(SHORTEST_TIMEOUT),
        run_max_try: spec.run_max_try,
        logging_level: spec.logging_level,
        environment: spec.environment.clone(),
        environment_variables: spec.environment_variables.clone(),
        compute_target: spec.compute_target.clone(),
        speculation: spec.speculation,
        task_overhead_timeout: spec.task_overhead_timeout,
        first_task_creation_timeout: spec.first_task_creation_timeout,
        resource_monitor_interval: spec.resource_monitor_interval,
        ..plain
    }
}

/// What *split* brought for the input `name`, as *group* has it.
fn brought(name: &str, split: &str) -> Input {
    Input {
        partition_format: Some(FORMAT.parse().expect("the format names two columns")),
        ..Input::new(
            name,
            InputKind::File,
            InputSource::Output(StepOutput { step: split.to_owned(), output: name.to_owned() }),
        )
    }
}

/// Gives `spec`, the step that splits, its slices and buckets, for inputs of so many `bytes`.
pub fn size(spec: &mut JobSpec, bytes: u64) {
    let (slice, buckets) = sizes(bytes);
    spec.mini_batch_size = MiniBatchSize::Bytes(slice);
    if let Some(at) = spec.arguments.iter().position(|argument| argument == BUCKETS_FLAG)
        && let Some(count) = spec.arguments.get_mut(at + 1)
    {
        *count = buckets.to_string();
    }
}

/// Bytes of a slice, and how many buckets there are, for an input of so many `bytes`. Memory asks for small ones of both,
/// the number of files, which is that of slices times that of buckets, for large ones.
fn sizes(bytes: u64) -> (u64, u64) {
    let slice = (bytes / SLICES).clamp(*SLICE.start(), *SLICE.end());
    let buckets = (bytes / BUCKET_BYTES).clamp(1, BUCKETS).max(bytes >> 30).min(MOST_BUCKETS);
    (slice, buckets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::prepared::{as_given, with_settings};

    fn spec(keys: &[&str], format: Option<&str>) -> JobSpec {
        let input = Input {
            partition_format: format.map(|format| format.parse().unwrap()),
            ..Input::new("sales", InputKind::Tabular, InputSource::Paths(vec!["/in".to_owned()]))
        };
        let mut spec = JobSpec::new("job", "/code", "main.py", vec![input]);
        spec.partition_keys = keys.iter().map(|key| (*key).to_owned()).collect();
        spec
    }

    #[test]
    fn keys_that_no_path_has_need_a_shuffle() {
        for (keys, format, needs) in [
            (&[][..], None, false),
            (&["store"], Some("{store}/*.csv"), false),
            (&["store"], None, true),
            (&["store", "day"], Some("{store}/*.csv"), true),
        ] {
            assert_eq!(spec(keys, format).needs_shuffle(), needs, "{keys:?} {format:?}");
        }
    }

    #[test]
    fn a_job_becomes_three_steps_and_is_the_last() {
        let pipeline = pipeline_of(spec(&["store"], None));
        let names: Vec<&str> = pipeline.steps.iter().map(|step| &*step.name).collect();
        assert_eq!(names, ["split", "group", "run"]);
        let [split, group, run] = &pipeline.steps[..] else { unreachable!() };
        assert!(split.needs.is_empty() && split.spec.prepares_groups() && split.spec.has_no_code());
        assert_eq!(split.spec.inputs[0].source, InputSource::Paths(vec!["/in".to_owned()]));
        assert_eq!(
            (&group.needs[..], &run.needs[..]),
            (&["split".to_owned()][..], &["group".to_owned()][..])
        );
        assert_eq!(group.spec.inputs[0].source.label(), "prs-step://split/sales");
        assert_eq!(run.spec.inputs[0].source.label(), "prs-step://group/sales");
        assert_eq!((run.spec.entry_script.as_str(), run.spec.needs_shuffle()), ("main.py", false));
    }

    #[test]
    fn the_job_of_its_steps_is_the_one_that_was_given() {
        let given = spec(&["store"], None);
        let mut pipeline = pipeline_of(given.clone());
        assert_eq!(as_given(&pipeline), Some(given.clone()));
        assert_eq!(pipeline.steps[2].spec.grouped_from, [given.inputs[0].source.clone()]);
        size(&mut pipeline.steps[0].spec, 10 << 30);
        let sized = pipeline.steps[0].spec.clone();
        let changed = with_settings(&pipeline, JobSpec { run_max_try: 7, node_count: 5, ..given });
        assert_eq!(as_given(&changed).map(|spec| (spec.run_max_try, spec.node_count)), Some((7, 5)));
        let split = &changed.steps[0].spec;
        assert_eq!(
            (split.mini_batch_size, &split.arguments, split.node_count),
            (sized.mini_batch_size, &sized.arguments, 5)
        );
        pipeline.main = None;
        assert_eq!(as_given(&pipeline), None);
    }

    #[test]
    fn slices_and_buckets_grow_with_the_input() {
        for (bytes, expected) in [
            (0, (32, 1)),
            (1 << 30, (32, 16)),
            (10 << 30, (64, 64)),
            (100 << 30, (128, 100)),
            (10 << 40, (128, 256)),
        ] {
            let (slice, buckets) = sizes(bytes);
            assert_eq!((slice / MIB, buckets), expected, "{bytes}");
        }
    }
}
