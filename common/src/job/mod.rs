//! The job file: from YAML to a checked [`JobSpec`].
//!
//! Reading runs one way: `yaml` (text to nodes with line numbers) -> `form` (which of the known
//! forms it is, lifted into the native keys, P1) -> `settings` (overrides, P2) -> `validate`
//! (what the table in `keys` says of each, and what the disk must have). All problems of a file are reported at
//! once. The script's own syntax is not looked at here.

use std::collections::BTreeMap;
use std::path::Path;

mod arguments;
mod assets;
mod built_in;
mod call;
pub mod counting;
mod elsewhere;
mod environment;
mod error;
mod fence;
mod file_name;
pub(crate) mod form;
mod given_id;
mod graph;
mod inputs;
mod invocation;
pub mod keys;
mod mlflow;
mod mltable;
mod model;
mod names;
pub(crate) use crate::near_name;
mod near_path;
mod origin;
mod output_format;
mod outputs;
mod own_id;
mod partition_keys;
pub mod pipeline;
pub mod prepared;
pub(crate) mod reader;
mod references;
mod secrets;
mod settings;
pub mod shuffle;
mod side_inputs;
mod source;
mod spec;
mod takes;
#[cfg(test)]
mod tests;
mod text;
mod validate;
pub(crate) mod yaml;

pub use crate::dataset::input::{
    Infer, Input, InputKind, InputMode, InputSource, ONE_ITEM, TableFormat, TabularOptions,
};
pub use crate::dataset::step_output::StepOutput;
pub use crate::near_name::nearest;
pub use arguments::given_arguments;
pub use assets::{
    AssetFile, COMPONENT_FILE, CallInput, DEPLOYMENT_FILE, DeployedModel, DeploymentFile, EndpointFile,
    ModelSource, StagedComponent, StagedDeployment, call_inputs, change_about, check_model, component_named,
    data_source, environment_document, fenced, model_source, stage_component,
};
pub use built_in::COMMAND_SCRIPT;
pub use call::{CallFile, call_words};
pub use environment::{Environment, LONGEST_VARIABLE, OF_VARIABLE, Packages, Secrets};
pub use error::{JobFileError, Problem};
pub use file_name::check_file_name;
pub use given_id::check_job_id;
pub use graph::Graph;
pub use invocation::Invocation;
pub use mlflow::{MLFLOW_FILE_TYPES, MLFLOW_SCRIPT, MLMODEL, files_of_environment, unread_type};
pub use mltable::read_of_step;
pub use names::{Asked, AssetRef, ConfiguredNames, Found, NamedAsset, Names, OutputRef};
pub use origin::{Origin, Origins};
pub use outputs::{NamedOutput, kept_folders};
pub use own_id::WithJobId;
pub use references::{Reference, resolve_references};
pub use secrets::{hide_secret_variables, hide_secrets};
pub use side_inputs::SideInput;
pub use source::STANDARD_INPUT;
pub use spec::{
    CsvFormat, Deployed, JobSpec, LoggingLevel, MiniBatchSize, OutputAction, OutputFormat, PlainFormat,
    Submitter,
};
pub use takes::Takes;
pub use text::{Called, JobText, LocalPath};
pub use validate::{check_name, check_target, script_below};

use form::{Appended, Lifted, RawPipeline, RawSetting, RawSettings, RawStep, SourceFiles};
use keys::Start;
use reader::Reader;
use source::read_text;

use crate::job::pipeline::{Pipeline, Step, name_in_id};
use crate::registry::Kind;

/// Where the processes of a job will run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    /// On this machine.
    ThisMachine,
    /// On hosts that may have what this machine lacks: its interpreter is looked for there.
    Workers,
}

/// Reads and checks the job file of a job that runs on this machine, with `overrides` (`--set key=value`, P2) on top.
///
/// Relative paths in the file start from its folder. Connects to nothing and writes nothing.
///
/// # Errors
/// Every problem of the file at once.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<JobSpec, JobFileError> {
    load_for(RunsOn::ThisMachine, path, overrides)
}

/// The same, for a job that runs elsewhere.
///
/// # Errors
/// Every problem of the file at once; that it is a pipeline of several steps is one.
pub fn load_for(
    runs_on: RunsOn,
    path: &Path,
    overrides: &[(String, String)],
) -> Result<JobSpec, JobFileError> {
    load_any(runs_on, path, overrides)?.into_job(path)
}

/// What a job file holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Loaded {
    /// A job, or a pipeline of one that runs as that.
    Job(Box<JobSpec>),
    /// A pipeline.
    Pipeline(Box<LoadedPipeline>),
}

impl Loaded {
    /// A job, or the pipeline that looks at its rows first and then runs it.
    pub fn of_job(spec: JobSpec) -> Self {
        let outer = prepared::outer(&spec);
        match prepared::pipeline_of(spec) {
            Ok(pipeline) => Self::Pipeline(Box::new(LoadedPipeline { spec: outer, pipeline })),
            Err(spec) => Self::Job(spec),
        }
    }

    /// Changes the settings of all jobs in it.
    fn each_spec(&mut self, mut change: impl FnMut(&mut JobSpec)) {
        match self {
            Self::Job(spec) => change(spec),
            Self::Pipeline(loaded) => {
                change(&mut loaded.spec);
                loaded.pipeline.steps.iter_mut().for_each(|step| change(&mut step.spec));
            }
        }
    }

    /// The one job of the file at `path`.
    ///
    /// # Errors
    /// It is a pipeline of several steps.
    pub fn into_job(self, path: &Path) -> Result<JobSpec, JobFileError> {
        match self {
            Self::Job(spec) => Ok(*spec),
            Self::Pipeline(loaded) => {
                if loaded.pipeline.is_counted_job() {
                    let message = "an MLTable has skip or take behind a filter, so rows are counted before there is a \
                                   mini-batch: submit the job, on little data perhaps, and name its id here";
                    let problems =
                        vec![Problem { key: String::new(), line: None, message: message.to_owned() }];
                    return Err(JobFileError::new(path, problems));
                }
                if let Some(spec) = prepared::as_given(&loaded.pipeline) {
                    return Ok(spec);
                }
                let message = "this is a pipeline of several steps, where one job is expected".to_owned();
                let problems = vec![Problem { key: String::new(), line: None, message }];
                Err(JobFileError::new(path, problems))
            }
        }
    }
}

/// A pipeline as it is submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedPipeline {
    /// What it is called, and its notes; it runs nothing itself.
    pub spec: JobSpec,
    /// Its steps.
    pub pipeline: Pipeline,
}

/// Reads and checks a job file, whether it is that of a job or of a pipeline.
///
/// # Errors
/// Every problem of the file, and of the components that it names, at once.
pub fn load_any(
    runs_on: RunsOn,
    path: &Path,
    overrides: &[(String, String)],
) -> Result<Loaded, JobFileError> {
    load_given(runs_on, path, Given { overrides, ..Given::default() })
}

/// What a command gives beside a job file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given<'a> {
    /// Settings that replace those of the file.
    pub overrides: &'a [(String, String)],
    /// What one run of a batch deployment is given; of other files it is refused.
    pub invocation: Option<&'a Invocation>,
    /// What names of data, datastores and computes stand for. Where these then have something
    /// [asked](Names::take_asked), what comes of the file does not count before that is looked up.
    pub names: Option<&'a Names>,
    /// The text that is read in the place of a file; the path of that says nothing then.
    pub text: Option<JobText<'a>>,
    /// What the job is called, whatever the file says.
    pub called: Option<&'a Called>,
    /// What messages call the file, where its path says nothing to people.
    pub shown: Option<&'a str>,
}

/// The same, with all that a command gives.
///
/// # Errors
/// Every problem of the file, of the components that it names, and of what is given, at once; of a text whose paths lead out
/// of what came with it, these alone.
pub fn load_given(runs_on: RunsOn, path: &Path, given: Given<'_>) -> Result<Loaded, JobFileError> {
    match &given.text {
        Some(job) => job.load(runs_on, given.names, || load_one(runs_on, Path::new(text::SHOWN), given)),
        None => load_one(runs_on, path, given),
    }
}

/// The local paths that the text in `given` leads to, whether what they name came along or not. Nothing is said of what is wrong with
/// the text.
pub fn local_paths(runs_on: RunsOn, given: Given<'_>) -> Vec<LocalPath> {
    let Some(job) = &given.text else { return Vec::new() };
    job.local_paths(|| {
        let mut problems = Vec::new();
        let names = given.names.cloned().unwrap_or_default();
        names.begin();
        read(runs_on, Path::new(text::SHOWN), given, &names, &mut problems);
    })
}

fn load_one(runs_on: RunsOn, path: &Path, given: Given<'_>) -> Result<Loaded, JobFileError> {
    let mut problems = Vec::new();
    let names = given.names.cloned().unwrap_or_default();
    names.begin();
    let loaded = read(runs_on, path, given, &names, &mut problems);
    match loaded {
        Some(loaded) if problems.is_empty() => Ok(loaded),
        _ => {
            problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
            let is_input = path == Path::new(STANDARD_INPUT);
            let path =
                if is_input { Path::new("standard input") } else { given.shown.map_or(path, Path::new) };
            Err(JobFileError::new(path, problems))
        }
    }
}

/// A job that was checked before, with `overrides` (`resubmit --set key=value`, P2) on top. They are held to the same
/// rules as those of [`load`]. Relative paths start from `folder`; `called` is what problems call the job, and `names` are as in
/// [`Given`].
///
/// # Errors
/// Every problem of the overrides at once.
pub fn change(
    spec: &JobSpec,
    called: &str,
    overrides: &[(String, String)],
    folder: &Path,
    runs_on: RunsOn,
    names: &Names,
) -> Result<JobSpec, JobFileError> {
    let name = check_file_name(&spec.append_row_file_name).err();
    let name = name.map(|message| Problem { key: "append_row_file_name".to_owned(), line: None, message });
    set(spec, (Start::Submission, overrides), (folder, runs_on, names), called, name.into_iter().collect())
}

/// The settings of a job for another start of it (`resume --set key=value`), which leave the plan as it is. Relative
/// paths start from `folder`; `called` is what problems call the job, and `names` are as in [`Given`].
///
/// # Errors
/// Every problem of the overrides at once.
pub fn adjust(
    spec: &JobSpec,
    called: &str,
    overrides: &[(String, String)],
    folder: &Path,
    runs_on: RunsOn,
    names: &Names,
) -> Result<JobSpec, JobFileError> {
    set(spec, (Start::Resumption, overrides), (folder, runs_on, names), called, Vec::new())
}

/// `spec` with `overrides` on top, where there are no `problems`.
fn set(
    spec: &JobSpec,
    (start, overrides): (Start, &[(String, String)]),
    (folder, runs_on, names): (&Path, RunsOn, &Names),
    called: &str,
    mut problems: Vec<Problem>,
) -> Result<JobSpec, JobFileError> {
    names.begin();
    let mut raw = RawSettings { names: names.clone(), ..RawSettings::default() };
    settings::apply_overrides(&mut raw, start, overrides, &mut problems);
    let mut changed = spec.clone();
    if start == Start::Submission && !overrides.is_empty() {
        // It is that of another job now.
        changed.graph = None;
    }
    validate::adjust(&mut changed, &mut Reader::new(raw, &mut problems), folder, runs_on);
    names.replace_problems(&mut problems);
    if overrides.iter().any(|(key, _)| key == "environment") {
        changed.named_data.retain(|named| named.kind != Kind::Environment);
    }
    let settings = serde_json::Value::Object(changed.stored()).to_string();
    changed.named_data.extend(names.used_in(&settings));
    if let Some(note) =
        output_format::note_on_csv(spec).filter(|_| output_format::note_on_csv(&changed).is_none())
    {
        let joined = format!("; {note}");
        for other in &mut changed.notes {
            other.truncate(other.len() - if other.ends_with(&joined) { joined.len() } else { 0 });
        }
        changed.notes.retain(|other| !other.ends_with(&note));
    }
    let option = if start == Start::Submission { "--set" } else { "resume --set" };
    let given = overrides.iter().map(|(key, _)| (key.clone(), Origin::of(format!("{option} {key}"))));
    changed.origins.extend(given);
    if problems.is_empty() { Ok(changed) } else { Err(JobFileError::new(called, problems)) }
}

/// What the file holds, whole only where no problem was found; `None` where nothing can be said of its parts.
fn read(
    runs_on: RunsOn,
    path: &Path,
    given: Given<'_>,
    names: &Names,
    problems: &mut Vec<Problem>,
) -> Option<Loaded> {
    let mut refuse = |line, message| problems.push(Problem { key: String::new(), line, message });
    let text = match given.text_of(path) {
        Ok(text) => text,
        Err(message) => {
            refuse(None, message);
            return None;
        }
    };
    let mut document = match yaml::parse(&text) {
        Ok(document) => document,
        Err(error) => {
            refuse(error.line, error.message);
            return None;
        }
    };
    let absolute = match given.place_of(path) {
        Ok(absolute) => absolute,
        Err(error) => {
            refuse(None, format!("the current folder is not known: {error}"));
            return None;
        }
    };
    if let Some(text) = &given.text {
        text.put_sent(&mut document, problems);
    }
    let mut overrides = given.overrides.to_vec();
    let invocation = given.invocation.cloned().unwrap_or_default();
    if let Some(Err(message)) = invocation.job_name.as_deref().map(check_job_id) {
        problems.push(Problem { key: "--job-name".to_owned(), line: None, message });
    }
    let mut files = SourceFiles::new(names.clone());
    let lifted = references::bounded(|| {
        form::lift(document, &absolute, &mut overrides, &invocation, &mut files, problems)
    });
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    let path = given.shown.map_or(path, Path::new);
    // What a program wrote as one line of JSON has no lines that say anything.
    let has_lines = text.trim().lines().nth(1).is_some();
    let options = given.overrides;
    let mut place = Loading { path, folder, runs_on, files, options, has_lines, problems };
    let mut loaded = lifted.map(|lifted| match lifted {
        Lifted::Job(raw) => {
            let spec = place.job(raw, &overrides);
            place.refuse_outputs_of_steps(&spec);
            Loaded::of_job(spec)
        }
        Lifted::Pipeline(raw) => Loaded::Pipeline(Box::new(place.pipeline(raw, &overrides))),
    });
    let Loading { files, problems, .. } = place;
    if let (Some(called), Some(loaded)) = (given.called, &mut loaded) {
        called.put(loaded, problems);
    }
    names.replace_problems(problems);
    problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
    for problem in problems.iter_mut() {
        files.locate(problem, folder);
    }
    loaded
}

/// Where a job file is, what its jobs run on, and what is wrong with it so far.
struct Loading<'a> {
    path: &'a Path,
    folder: &'a Path,
    runs_on: RunsOn,
    files: SourceFiles,
    /// What `--set` says.
    options: &'a [(String, String)],
    /// Whether lines of the file say anything.
    has_lines: bool,
    problems: &'a mut Vec<Problem>,
}

impl Loading<'_> {
    /// Judges the settings of one job.
    fn job(&mut self, mut raw: RawSettings, overrides: &[(String, String)]) -> JobSpec {
        settings::apply_overrides(&mut raw, Start::Submission, overrides, self.problems);
        let places = std::mem::take(&mut raw.places);
        // Those of the overrides so far name what was given.
        let told = self.problems.len();
        let (spec, notes, given) = validate::validate(raw, self.folder, self.runs_on, self.problems);
        let origins = self.origins(&given);
        for problem in &mut self.problems[told..] {
            let (option, key) =
                problem.key.strip_prefix("--set ").map_or(("", &*problem.key), |key| ("--set ", key));
            let place = places.iter().find_map(|(native, place)| Some((place, key.strip_prefix(&**native)?)));
            if let Some((place, rest)) = place {
                // An option of the command line is its own place.
                let option = if place.starts_with("--") { "" } else { option };
                problem.key = format!("{option}{place}{rest}");
            }
        }
        let settings = serde_json::Value::Object(spec.stored()).to_string();
        let mut named_data = self.files.names().used_in(&settings);
        let model =
            serde_json::to_string(&spec.model.as_ref().map(|model| &model.source)).unwrap_or_default();
        for named in named_data.iter_mut().filter(|named| named.kind == Kind::Model) {
            named.is_model = model.contains(named.path.trim_end_matches('/'));
        }
        JobSpec { notes: self.notes(notes), named_data, origins, ..spec }
    }

    /// What gave these settings.
    fn origins(&self, given: &[RawSetting]) -> Origins {
        let file = |line: Option<usize>| {
            if let Some((path, line)) = self.files.place_of(line, self.folder) {
                (path, Some(line))
            } else {
                let is_input = self.path == Path::new(STANDARD_INPUT);
                let name =
                    if is_input { "standard input".to_owned() } else { self.path.display().to_string() };
                (name, line.filter(|_| self.has_lines))
            }
        };
        origin::origins(given, self.options, file)
    }

    fn notes(&self, notes: Vec<Problem>) -> Vec<String> {
        let in_file = |mut note: Problem| {
            self.files.locate(&mut note, self.folder);
            note.in_file(self.path)
        };
        notes.into_iter().map(in_file).collect()
    }

    /// Judges the settings of all steps.
    fn pipeline(&mut self, raw: RawPipeline, overrides: &[(String, String)]) -> LoadedPipeline {
        for (key, _) in overrides {
            let message = "it is a key of a step: say of which, such as --set jobs.STEP.mini_batch_size=5";
            let problem = Problem { key: format!("--set {key}"), line: None, message: message.to_owned() };
            self.problems.push(problem);
        }
        let RawPipeline { names, steps, outputs, places, continue_on_step_failure } = raw;
        let steps = steps.into_iter().map(|RawStep { name, raw, needs, outputs, appended }| {
            let spec = self.job(raw, &[]);
            let appended = appended.as_ref();
            self.problems.extend(mixed(&name, &spec, &outputs, appended));
            let placed = |output: String| (output.clone(), place_of_output(&spec, &output, appended));
            let outputs = outputs.into_iter().map(placed).collect();
            Step { name, spec, needs, outputs }
        });
        let steps: Vec<Step> = steps.flat_map(counting::expanded).flat_map(shuffle::expanded).collect();
        let mut ids = BTreeMap::new();
        for step in &steps {
            if let Some(other) = ids.insert(name_in_id(&step.name), &step.name) {
                let message = format!(
                    "the id of the job of step {other} would be that of step {}: give another name",
                    step.name
                );
                let name = step.name.split('.').next().unwrap_or_default();
                self.problems.push(Problem { key: format!("jobs.{name}"), line: None, message });
            }
        }
        let text = |key: &str| Some(names.get(key)?.value.as_text()?.to_owned());
        let origins = self.origins(&names.settings);
        let mut spec = JobSpec::new(text("name").unwrap_or_default(), "", "", Vec::new());
        (spec.display_name, spec.description) = (text("display_name"), text("description"));
        spec.experiment_name = text("experiment_name");
        let mut reader = Reader::new(names, self.problems);
        for (key, kept) in [("tags", &mut spec.tags), ("properties", &mut spec.properties)] {
            let given = reader.text_mapping(key).unwrap_or_default().into_iter();
            kept.extend(given.filter_map(|text| Some((text.key, text.value.as_text()?.to_owned()))));
        }
        let notes = reader.into_notes();
        (spec.notes, spec.origins) = (self.notes(notes), origins);
        spec.named_data = self.files.names().used();
        let pipeline = Pipeline { steps, continue_on_step_failure, outputs, main: None, places };
        LoadedPipeline { spec, pipeline }
    }

    /// A job by itself has no other steps.
    fn refuse_outputs_of_steps(&mut self, spec: &JobSpec) {
        for (index, input) in spec.inputs.iter().enumerate() {
            if let InputSource::Output(output) = &input.source {
                let message = format!("{output} is no path: give a local path, or an s3:// URL");
                self.problems.push(Problem { key: format!("inputs[{index}].path"), line: None, message });
            }
        }
        for side_input in &spec.side_inputs {
            if let InputSource::Output(output) = &side_input.source {
                let message = format!("{output} is no path: give a local path, or an s3:// URL");
                let key = format!("side_inputs.{}", side_input.name);
                self.problems.push(Problem { key, line: None, message });
            }
        }
    }
}

/// What to say where the folder of the rows of a step, which is the whole of its output, is taken by another step, and holds
/// the other outputs of the step, too.
fn mixed(step: &str, spec: &JobSpec, taken: &[String], appended: Option<&Appended>) -> Option<Problem> {
    let rows = appended.filter(|appended| !appended.is_file && taken.contains(&appended.output))?;
    let other = spec.outputs.iter().find(|output| output.name != rows.output)?;
    let message = format!(
        "the folder of the rows holds {} too, and another step would get both: give it type: uri_file",
        other.name
    );
    let key = format!("jobs.{step}.outputs.{}", rows.output);
    Some(Problem { key, line: None, message })
}

/// Where an output of a step is, below the output of its job; empty for all of that. `appended` is the one that its rows go
/// to.
fn place_of_output(spec: &JobSpec, output: &str, appended: Option<&Appended>) -> String {
    match appended.filter(|appended| appended.output == output) {
        Some(Appended { is_file: true, .. }) => spec.append_row_file_name.clone(),
        Some(_) => String::new(),
        None => {
            let named = spec.outputs.iter().find(|named| named.name == output);
            named.map_or_else(|| output.to_owned(), |named| named.path.clone())
        }
    }
}
