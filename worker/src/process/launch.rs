//! What a process is started with: its folders, environment, arguments, and the first message (spec E11, E16).

use std::path::{Path, PathBuf};

use prs_common::job::{Input, OutputAction, given_arguments};
use prs_common::layout;
use prs_common::output_name::longest_addition;
use prs_common::storage::{LocalStorage, Storage};
use prs_common::wire::{InputInfo, PROTOCOL_VERSION, Start};
use prs_orchestrator::JobContext;

use crate::host::descendants::{Family, Mark};
use crate::inputs::Mount;
use crate::node_settings::NodeSettings;
use crate::process::stack;
use crate::process::{ProcessSettings, Streams};

/// The folder of a node that has the code of the job.
pub(crate) const CODE: &str = "code";

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
            arguments: arguments.chain(spec.arguments.iter().cloned()).collect(),
            logging_level: spec.logging_level.to_string(),
            append_row: spec.output_action == OutputAction::AppendRow,
            output_format: spec.output_format,
            log_dir: text(logs.join(format!("user/entry_script_log/{}", self.node_id))),
            working_dir: text(folder.join("working")),
            staging_dir: text(folder.join("staging")),
            longest_output_path: self.longest_output_path(name),
            output_dir,
            scratch_dir: text(self.job.work.clone()),
            profile_path: Some(text(profile)),
            inputs: spec.inputs.iter().map(describe_input).collect(),
            stack_path: text(stack::file(&folder)),
            stack_signal: stack::SIGNAL,
        }
    }

    /// Longest path of a file of the process called `name` that all places take where the file will be: staged in the
    /// job's storage, then published, then in the folder that a fleet's output is fetched to.
    fn longest_output_path(&self, name: &str) -> u32 {
        let writer = layout::writer(self.job.incarnation, self.node_id, self.service);
        let staged = layout::staged_file(&format!("{writer}{name}-{}", u32::MAX), "");
        let staged = self.job.storage.longest_key().saturating_sub(staged.len());
        let fetched = self.job.spec.output.as_ref();
        let fetched = fetched.map(|folder| LocalStorage::new(folder.join(".tmp/fetch-abcdef")).longest_key());
        let published = self.job.output.longest_key().min(fetched.unwrap_or(usize::MAX));
        staged.min(published.saturating_sub(longest_addition())) as u32
    }

    /// The first processes of the node, so many of them, and what they started.
    pub(crate) fn family(&self, processes: u32) -> Family {
        let names = (0..processes).map(process_name);
        let marks = names.map(|name| Mark::new(&self.job.id, &self.token(&name)));
        Family::of_processes(self.token_prefix(), marks)
    }

    /// What the tokens of all processes of the node start with.
    fn token_prefix(&self) -> String {
        format!("{}-{}-{}-{}-", self.job.id, self.job.incarnation, self.node_id, self.service)
    }

    fn token(&self, name: &str) -> String {
        format!("{}{name}.", self.token_prefix())
    }

    /// What it is started with.
    pub(crate) fn process_settings(&self, name: &str, start: &Start, gpu: Option<u32>) -> ProcessSettings {
        let (logs, node_id) = (&self.job.logs, self.node_id);
        let token = self.token(name);
        let own = [
            ("AZUREML_RUN_ID", self.job.id.clone()),
            ("AZUREML_BI_OUTPUT_PATH", start.output_dir.clone()),
            ("AZ_BATCHAI_GPU_COUNT_FOUND", self.settings.host.gpus.to_string()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let users = self.job.spec.environment_variables.clone();
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
            gpu,
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

fn describe_input(input: &Input) -> InputInfo {
    InputInfo { name: input.name.clone(), kind: input.kind.to_string(), path: input.source.label() }
}
