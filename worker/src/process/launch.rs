//! What a process is started with: its folders, environment, arguments, and the first message (spec E11, E16).

use std::path::{Path, PathBuf};

use prs_common::dataset::mltable::TableWork;
use prs_common::job::{
    Input, InputSource, JobSpec, OutputAction, Reference, given_arguments, resolve_references,
};
use prs_common::layout;
use prs_common::output_name::longest_addition;
use prs_common::storage::{LONGEST_KEY, LocalStorage, Storage};
use prs_common::traces::{self, TraceParent};
use prs_common::wire::{Concurrency, InputInfo, PROTOCOL_VERSION, Start};
use prs_orchestrator::JobContext;

use crate::host::descendants::{Family, Mark};
use crate::host::gpu::{COUNT_VARIABLE, TakenGpu};
use crate::inputs::Mount;
use crate::inputs::model;
use crate::inputs::side::SidePaths;
use crate::node_settings::NodeSettings;
use crate::process::stack;
use crate::process::{ProcessSettings, Streams};

/// The folder of a node that has the code of the job.
pub(crate) const CODE: &str = "code";

/// The folder where a process stages what a mini-batch wrote.
pub(crate) const STAGING: &str = "staging";

/// The folder of a process that has a folder for the files of each mini-batch it has under way.
pub(crate) const OUTPUTS: &str = "outputs";

/// What all processes of a node have in common.
pub(crate) struct Launch<'a> {
    pub(crate) job: &'a JobContext,
    pub(crate) settings: &'a NodeSettings,
    pub(crate) node_id: u32,
    /// Tells this service of the node from all others.
    pub(crate) service: &'a str,
    /// The scratch folder of the node.
    pub(crate) folder: &'a Path,
    /// What the process enters.
    pub(crate) mount: Option<&'a Mount>,
    /// Where the script sees each side input, by its name.
    pub(crate) side_inputs: &'a SidePaths,
}

impl Launch<'_> {
    /// What the process is told first.
    pub(crate) fn start_message(&self, name: &str) -> Start {
        let folder = self.folder.join(name);
        let spec = &self.job.spec;
        let logs = &self.job.logs;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let output_dir = text(folder.join("output"));
        let of_process =
            [("output", output_dir.clone()), ("process_count_per_node", self.settings.slots.to_string())];
        let arguments = given_arguments(spec, &of_process).into_iter();
        let profile = logs.join(format!("sys/node/{}/{name}.profile", self.node_id));
        Start {
            protocol: PROTOCOL_VERSION,
            job_id: self.job.id.clone(),
            node_id: self.node_id,
            process_name: name.to_owned(),
            code_dir: text(self.folder.join(CODE)),
            entry_script: spec.entry_script.clone(),
            arguments: arguments
                .chain(spec.arguments.iter().map(|text| self.resolved(text, &output_dir)))
                .collect(),
            logging_level: spec.logging_level.to_string(),
            append_row: spec.output_action == OutputAction::AppendRow,
            output_format: spec.output_format,
            log_dir: text(logs.join(format!("user/entry_script_log/{}", self.node_id))),
            working_dir: text(folder.join("working")),
            staging_dir: text(folder.join(STAGING)),
            longest_output_path: self.longest_output_path(name),
            output_dir,
            scratch_dir: text(self.job.work.clone()),
            profile_path: Some(text(profile)),
            inputs: (spec.inputs.iter().enumerate())
                .map(|(at, input)| describe_input(input, spec.grouped_from.get(at)))
                .collect(),
            stack_path: text(stack::file(&folder)),
            stack_signal: stack::SIGNAL,
            outputs: spec.outputs.clone(),
            concurrency: Concurrency {
                most: spec.max_concurrency.unwrap_or(JobSpec::CONCURRENCY),
                is_asked_for: spec.max_concurrency.is_some(),
                run_timeout: spec.run_invocation_timeout,
                outputs_dir: text(folder.join(OUTPUTS)),
            },
            run_max_try: spec.run_max_try,
        }
    }

    /// `text` of the job file as the process whose output folder this is has it. What was checked when the job was
    /// submitted has a value; anything else stays as it is.
    fn resolved(&self, text: &str, output_dir: &str) -> String {
        let value = |reference: Reference<'_>| {
            let value = match reference {
                Reference::SideInput(name) => self.side_inputs.get(name).cloned(),
                Reference::Output(name) => {
                    let output = self.job.spec.outputs.iter().find(|output| output.name == name);
                    output.map(|output| output.below(output_dir))
                }
            };
            value.ok_or_else(String::new)
        };
        resolve_references(text, value).unwrap_or_else(|_| text.to_owned())
    }

    /// Longest path of a file of the process called `name` that all places take where the file will be: staged in the
    /// job's storage, then published, then in the folder that a fleet's output is fetched to.
    fn longest_output_path(&self, name: &str) -> u32 {
        let writer = layout::writer(self.job.incarnation, self.node_id, self.service);
        let staged = layout::staged_file(&format!("{writer}{name}-{}", u32::MAX), "");
        let staged = self.job.storage.longest_key().saturating_sub(staged.len());
        let fetched = self.job.spec.output.as_ref();
        let fetched = fetched.map(|folder| LocalStorage::new(folder.join(".tmp/fetch-abcdef")).longest_key());
        let delivered =
            self.job.spec.deliver_to.as_ref().map(|place| LONGEST_KEY.saturating_sub(place.len()));
        let most = [fetched, delivered].into_iter().flatten().min();
        let published = self.job.output.longest_key().min(most.unwrap_or(usize::MAX));
        staged.min(published.saturating_sub(longest_addition())) as u32
    }

    /// The first processes of the node, so many of them, and what they started.
    pub(crate) fn family(&self, processes: u32) -> Family {
        let names = (0..processes).map(process_name);
        let marks = names.map(|name| Mark::new(&self.job.id, &self.token(&name)));
        Family::of_processes(self.token_prefix(), marks)
    }

    /// What the tokens of all processes of the node start with.
    pub(crate) fn token_prefix(&self) -> String {
        format!("{}-{}-{}-{}-", self.job.id, self.job.incarnation, self.node_id, self.service)
    }

    fn token(&self, name: &str) -> String {
        format!("{}{name}.", self.token_prefix())
    }

    /// What it is started with.
    pub(crate) fn process_settings(
        &self,
        name: &str,
        start: &Start,
        gpu: Option<&TakenGpu>,
    ) -> ProcessSettings {
        let (logs, node_id) = (&self.job.logs, self.node_id);
        let token = self.token(name);
        let spec = &self.job.spec;
        let experiment = spec.experiment_name.as_ref().unwrap_or(&spec.name);
        let tracked = logs.join(format!("user/mlruns/{node_id}/{name}"));
        let own = [
            // MLflow writes to files of its own in each process, and to no server.
            ("MLFLOW_EXPERIMENT_NAME", experiment.clone()),
            ("MLFLOW_ALLOW_FILE_STORE", "true".to_owned()),
            ("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false".to_owned()),
            ("PRS_MLFLOW_FOLDER", tracked.to_string_lossy().into_owned()),
            ("AZUREML_RUN_ID", self.job.id.clone()),
            ("AZUREML_BI_OUTPUT_PATH", start.output_dir.clone()),
            (COUNT_VARIABLE, self.settings.host.gpus.count().to_string()),
        ];
        // Spans that a script makes are then those of its job.
        let job = traces::is_on().then(|| TraceParent::of_job(&self.job.id, self.job.incarnation));
        let parent_span = job.map(|job| ("TRACEPARENT", job.to_string()));
        let own =
            own.into_iter().chain(parent_span).chain(model::variables(spec, self.side_inputs, self.folder));
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let users = self.job.spec.environment_variables.iter();
        let users = users.map(|(name, text)| (name.clone(), self.resolved(text, &start.output_dir)));
        ProcessSettings {
            python: self.settings.python.clone(),
            python_home: self.folder.join("python"),
            working_dir: start.working_dir.clone().into(),
            stack: start.stack_path.clone().into(),
            folders: vec![start.output_dir.clone().into(), start.staging_dir.clone().into()],
            streams: Streams::Files {
                stdout: logs.join(format!("user/stdout/{node_id}/{name}.stdout.txt")),
                stderr: logs.join(format!("user/stderr/{node_id}/{name}.stderr.txt")),
            },
            variables: own.chain(users).collect(),
            gpu: self.settings.host.gpus.variables(gpu).to_vec(),
            lanes: start.concurrency.most as usize,
            mount: self.mount.cloned(),
            mark: Mark::new(&self.job.id, &token),
            token,
        }
    }
}

/// The name of the process with this number, counted from 0 on each node.
pub(crate) fn process_name(number: u32) -> String {
    format!("process{number:03}")
}

/// The number of the process with this name.
pub(crate) fn process_number(name: &str) -> Option<u32> {
    name.strip_prefix("process")?.parse().ok()
}

/// An input, as scripts know it. Of rows that were put together, `grouped_from` says where they were before.
fn describe_input(input: &Input, grouped_from: Option<&InputSource>) -> InputInfo {
    let source = grouped_from.unwrap_or(&input.source);
    let path = input.mltable.as_ref().map_or_else(|| source.label(), |table| table.path.clone());
    let work = input.mltable.as_ref().map(|table| &table.work).filter(|work| !work.is_nothing());
    let table = work.map(TableWork::to_json);
    let is_local = matches!(input.source, InputSource::Paths(_));
    InputInfo { name: input.name.clone(), kind: input.kind.to_string(), path, table, is_local }
}
