//! Which of the known forms a job file has, and its lifting into the native keys (spec P1).
//!
//! A form is recognised by its content, never by the file's name. Forms that are known but not read
//! yet are refused by name, so that nobody takes their keys for spelling mistakes. Each form has a file of its own,
//! which says under which native key a value goes; what values are allowed is judged afterwards, for all forms alike.

mod append_row;
mod bindings;
mod command;
mod common_keys;
mod component;
mod deployment;
mod derived_name;
mod document;
mod expressions;
mod graph;
mod optional_groups;
mod parallel;
mod parallel_run_config;
mod pipeline;
mod portable;
mod reuse;
mod shell_computed;
mod shell_places;
mod side_inputs;
mod source_files;
mod steps;
mod words;

use std::path::Path;

use super::error::Problem;
use super::invocation::Invocation;
use super::keys::JOB;
use super::names::Names;
use super::yaml::{Node, Value};
pub(super) use deployment::{
    PIPELINE_KEYS as KEYS_OF_PIPELINE_DEPLOYMENTS, SETTINGS as SETTINGS_OF_DEPLOYMENTS,
};
pub(super) use document::apply_settings;
pub(super) use graph::graph;
use parallel_run_config::BLOCK;
pub(super) use pipeline::{Appended, RawPipeline, RawStep};
pub(super) use portable::{MAIN, Portable, portable, portable_deployment};
pub(super) use side_inputs::names_outside;
pub(super) use source_files::SourceFiles;

/// The settings of a job file under their native keys, not yet judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawSettings {
    pub(crate) settings: Vec<RawSetting>,
    /// What the author of the file should know of.
    pub(crate) notes: Vec<Problem>,
    /// Places of native keys, and what the file has there in their stead, for messages.
    pub(crate) places: Vec<(String, String)>,
    /// Native keys whose absence a problem explains already.
    pub(crate) told: Vec<&'static str>,
    /// What prs itself has the entry script of.
    pub(crate) built_in: Option<BuiltIn>,
    /// Whether it is a step of a pipeline of several.
    pub(crate) is_step: bool,
    /// What names of data stand for.
    pub(crate) names: Names,
}

/// A job whose entry script is prs's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuiltIn {
    /// One command.
    Command {
        /// Whether it has a folder of code.
        has_code: bool,
    },
    /// The files of an input are scored with a model of `MLflow`.
    Mlflow,
}

/// What a job file is lifted to.
pub(super) enum Lifted {
    Job(RawSettings),
    Pipeline(RawPipeline),
}

/// One setting as it is given.
#[derive(Debug, Clone)]
pub(crate) struct RawSetting {
    /// The native key.
    pub(crate) key: String,
    /// The key with its place in the file, for messages.
    pub(crate) shown: String,
    /// Line of the key, from 1; `None` when it is not from the file.
    pub(crate) line: Option<usize>,
    pub(crate) value: Node,
}

/// A form that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The native keys, those of a saved `ParallelRunConfig` in a block among them.
    Native,
    /// An Azure Machine Learning v2 job, `type: parallel`.
    Parallel,
    /// A v2 command job, `type: command`.
    Command,
    /// A v2 pipeline, `type: pipeline`.
    Pipeline,
    /// A batch deployment of a model.
    Deployment,
    /// A batch deployment of a pipeline.
    PipelineDeployment,
}

/// Recognises the form of `document`, a mapping, and lifts it into the native keys; `None` for a form
/// that is not read yet, of which nothing more can be said. `file` is absolute. Takes those of `overrides` that belong to
/// the form itself, and reads components into `files`. `invocation` is for batch deployments alone.
pub(super) fn lift(
    mut document: Node,
    file: &Path,
    overrides: &mut Vec<(String, String)>,
    invocation: &Invocation,
    files: &mut SourceFiles,
    problems: &mut Vec<Problem>,
) -> Option<Lifted> {
    let recognised =
        if invocation.is_deployment { Ok(form_of_deployment(&document)) } else { recognise(&document) };
    let form = match recognised {
        Ok(form) => form,
        Err((form, line)) => {
            let message = format!(
                "this is {form}, which is not supported yet: write a native job file, or a parallel job \
                 (`type: parallel`)"
            );
            problems.push(Problem { key: String::new(), line, message });
            return None;
        }
    };
    if !matches!(form, Form::Deployment | Form::PipelineDeployment) {
        for (option, _) in invocation.given() {
            let message =
                "it is for batch deployments; this file says it itself, and --set KEY=VALUE changes that"
                    .to_owned();
            problems.push(Problem { key: option.to_owned(), line: None, message });
        }
    }
    let mut raw = RawSettings { names: files.names().clone(), ..RawSettings::default() };
    match form {
        Form::Native => {
            files.names().resolve(&mut document);
            native(document, &mut raw, problems);
        }
        Form::Parallel => {
            document::apply(&mut document, &parallel::keys(), overrides, problems);
            files.names().resolve(&mut document);
            parallel::lift(&document, file, &mut raw, problems);
        }
        Form::Pipeline => {
            document::apply(&mut document, &pipeline::keys(), overrides, problems);
            files.names().resolve(&mut document);
            return pipeline::lift(&document, file, files, problems);
        }
        Form::Deployment => {
            deployment::lift(&mut document, file, overrides, invocation, &mut raw, problems);
        }
        Form::PipelineDeployment => {
            return deployment::lift_pipeline(&mut document, file, overrides, invocation, files, problems);
        }
        Form::Command => {
            document::apply(&mut document, &command::keys(), overrides, problems);
            files.names().resolve(&mut document);
            command::lift(&document, file, &mut raw, problems);
        }
    }
    Some(Lifted::Job(raw))
}

/// Takes the native keys, and those of the block that azureml writes.
fn native(document: Node, raw: &mut RawSettings, problems: &mut Vec<Problem>) {
    let Value::Mapping(entries) = document.value else { return };
    for (key, value) in entries {
        if key.name == BLOCK {
            parallel_run_config::lift(key, value, raw, problems);
        } else {
            let (shown, line) = (key.name.clone(), Some(key.line));
            raw.add(RawSetting { key: key.name, shown, line, value }, problems);
        }
    }
}

impl RawSettings {
    fn add(&mut self, setting: RawSetting, problems: &mut Vec<Problem>) {
        // azureml writes every key, those that were not set as null.
        if setting.value.is_null() {
            if JOB.find(&setting.key).is_none() {
                self.settings.push(setting);
            }
            return;
        }
        match self.get(&setting.key) {
            Some(other) => problems.push(Problem {
                message: format!("it is also given as `{}`: keep one", other.shown),
                key: setting.shown,
                line: setting.line,
            }),
            None => self.settings.push(setting),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&RawSetting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// Puts `value` in the place of whatever the file gives.
    pub(super) fn replace(&mut self, key: &str, shown: String, value: Node) {
        self.settings.retain(|setting| setting.key != key);
        self.settings.push(RawSetting { key: key.to_owned(), shown, line: None, value });
    }

    /// Has the author of the job told something about what is given for `setting`: one note a key, whatever it says.
    pub(super) fn note(&mut self, setting: &RawSetting, message: impl Into<String>) {
        let message = message.into();
        match self.notes.iter_mut().find(|note| note.key == setting.shown) {
            Some(note) => note.message = format!("{}; {message}", note.message),
            None => self.notes.push(Problem { key: setting.shown.clone(), line: setting.line, message }),
        }
    }
}

/// The form of `document`, which is that of a batch deployment.
fn form_of_deployment(document: &Node) -> Form {
    if is_of_pipeline(document) { Form::PipelineDeployment } else { Form::Deployment }
}

/// Whether the batch deployment `document` runs a pipeline.
pub(super) fn is_of_pipeline(document: &Node) -> bool {
    let kind = document.get("type").and_then(Node::as_text).unwrap_or_default();
    kind.eq_ignore_ascii_case("pipeline")
        || ["component", "job_definition"].iter().any(|key| document.get(key).is_some())
}

/// The form of `document`, or the name of one that is not read yet and a line that shows it. The first that fits counts;
/// `$schema` only where the content does not say it.
fn recognise(document: &Node) -> Result<Form, (&'static str, Option<usize>)> {
    let text = |key: &str| document.get(key).and_then(Node::as_text).unwrap_or_default().to_ascii_lowercase();
    let line = |key: &str| document.get(key).and_then(|node| node.line);
    let is_mapping =
        |key: &str| document.get(key).is_some_and(|node| matches!(node.value, Value::Mapping(_)));
    let has = |key: &str| document.get(key).is_some();
    if is_mapping(BLOCK) {
        return Ok(Form::Native);
    }
    let schema = text("$schema");
    let schema = schema.rsplit('/').next().unwrap_or_default();
    let kind = text("type");
    match kind.as_str() {
        "parallel" => return Ok(Form::Parallel),
        "pipeline" if has("jobs") => return Ok(Form::Pipeline),
        "pipeline" => {
            let is_deployed =
                has("endpoint_name") || has("job_definition") || schema.contains("batchdeployment");
            return Ok(if is_deployed { Form::PipelineDeployment } else { Form::Pipeline });
        }
        "command" => return Ok(Form::Command),
        "model" => return Ok(Form::Deployment),
        "uri_file" | "uri_folder" | "mltable" => return Err(("a data asset", line("type"))),
        "custom_model" | "mlflow_model" | "triton_model" => return Err(("a model", line("type"))),
        _ => {}
    }
    if is_mapping("jobs") {
        return Ok(Form::Pipeline);
    }
    if is_mapping("task") {
        return Ok(Form::Parallel);
    }
    if has("command") {
        return Ok(Form::Command);
    }
    if ["code_configuration", "scoring_script", "endpoint_name"].into_iter().any(has) {
        return Ok(Form::Deployment);
    }
    for (key, form) in [
        ("conda_file", "an environment"),
        ("auth_mode", "a batch endpoint"),
        ("pipeline", "an Azure Machine Learning v1 pipeline (`pipeline:`)"),
        ("paths", "an MLTable"),
    ] {
        if has(key) {
            return Err((form, line(key)));
        }
    }
    if has("entry_script") {
        return Ok(Form::Native);
    }
    for (name, form) in [
        ("pipelinejob.", Ok(Form::Pipeline)),
        ("pipelinecomponent.", Ok(Form::Pipeline)),
        ("parallel", Ok(Form::Parallel)),
        ("command", Ok(Form::Command)),
        ("batchdeployment", Ok(Form::Deployment)),
        ("modelbatchdeployment", Ok(Form::Deployment)),
        ("pipelinecomponentbatchdeployment", Ok(Form::PipelineDeployment)),
        ("batchendpoint", Err("a batch endpoint")),
        ("data.", Err("a data asset")),
        ("model.", Err("a model")),
        ("environment.", Err("an environment")),
        ("mltable.", Err("an MLTable")),
    ] {
        if schema.starts_with(name) {
            return form.map_err(|form| (form, line("$schema")));
        }
    }
    Ok(Form::Native)
}
