//! Jobs whose entry script is prs's own: what their settings have that no job file gives.

use super::form::BuiltIn;
use super::mlflow::MLFLOW_SCRIPT;
use super::spec::JobSpec;
use crate::dataset::input::{Input, InputKind, InputSource, ONE_ITEM};

/// The entry script of a job that is one command.
pub const COMMAND_SCRIPT: &str = "azureml_user.parallel_run.command";

impl BuiltIn {
    /// Its entry script.
    pub(super) fn script(self) -> &'static str {
        match self {
            Self::Command { .. } => COMMAND_SCRIPT,
            Self::Mlflow => MLFLOW_SCRIPT,
        }
    }

    /// Whether the job has no input of its own.
    pub(super) fn is_one_item(self) -> bool {
        matches!(self, Self::Command { .. })
    }

    /// Whether the job has a folder of code.
    pub(super) fn has_code(self) -> bool {
        matches!(self, Self::Command { has_code: true })
    }
}

/// The one input of a job that is one command.
pub(super) fn item() -> Input {
    Input::new(ONE_ITEM, InputKind::File, InputSource::OneItem)
}

impl JobSpec {
    /// Whether the job is one command, which prs has the entry script of.
    pub fn is_command(&self) -> bool {
        self.entry_script == COMMAND_SCRIPT
    }

    /// Whether prs has the entry script of the job.
    pub fn is_built_in(&self) -> bool {
        self.is_command() || self.prepares_groups() || self.counts_rows() || self.scores_mlflow()
    }

    /// Whether the job has no code of its own.
    pub fn has_no_code(&self) -> bool {
        self.source_directory.as_os_str().is_empty()
    }
}
