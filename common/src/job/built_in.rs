//! Jobs whose entry script is prs's own: what their settings have that no job file gives.

use std::path::PathBuf;

use super::form::BuiltIn;
use super::spec::JobSpec;
use crate::dataset::input::{Input, InputKind, InputMode, InputSource, ONE_ITEM};

/// The entry script of a job that is one command.
pub const COMMAND_SCRIPT: &str = "azureml_user.parallel_run.command";

/// The one input of such a job.
pub(super) fn item() -> Input {
    Input {
        name: ONE_ITEM.to_owned(),
        kind: InputKind::File,
        source: InputSource::OneItem,
        mode: InputMode::Upload,
        tabular: None,
        mltable: None,
        partition_format: None,
    }
}

/// Completes the settings of such a job.
pub(super) fn take(built_in: BuiltIn, spec: &mut JobSpec) {
    let BuiltIn::Command { has_code } = built_in;
    COMMAND_SCRIPT.clone_into(&mut spec.entry_script);
    if !has_code {
        spec.source_directory = PathBuf::new();
    }
}

impl JobSpec {
    /// Whether the job is one command, which prs has the entry script of.
    pub fn is_command(&self) -> bool {
        self.entry_script == COMMAND_SCRIPT
    }

    /// Whether prs has the entry script of the job.
    pub fn is_built_in(&self) -> bool {
        self.is_command() || self.prepares_groups() || self.counts_rows()
    }

    /// Whether the job has no code of its own.
    pub fn has_no_code(&self) -> bool {
        self.source_directory.as_os_str().is_empty()
    }
}
