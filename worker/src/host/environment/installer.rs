//! What installs packages: uv where it is on `PATH` or beside the program, else `venv` and pip of an interpreter.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::store::python_of;
use crate::host::interpreter::{find_interpreter, find_program};

/// Prints the version of an interpreter.
const VERSION: &str = "import sys; print('%d.%d' % sys.version_info[:2])";

/// What makes an environment on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Installer {
    /// uv, and what it makes the environment of: a version of Python, which it may fetch, or an interpreter.
    Uv { program: PathBuf, python: String },
    /// `venv` and pip of this interpreter.
    Pip { python: PathBuf },
}

/// Finds what makes an environment of Python `wanted`, `X.Y`, and that version; without one of the host's own Python. Fails
/// with what is missing.
pub(super) async fn find(wanted: Option<&str>) -> Result<(Installer, String), String> {
    let uv = find_program("uv");
    if let Some((program, version)) = uv.as_ref().zip(wanted) {
        let installer = Installer::Uv { program: program.clone(), python: version.to_owned() };
        return Ok((installer, version.to_owned()));
    }
    let own = find_interpreter(None).map_err(|error| error.to_string());
    let (python, version) = match wanted {
        None => {
            let own = own?;
            let version = version(&own).await.ok_or_else(|| format!("{} does not run", own.display()))?;
            (own, version)
        }
        Some(wanted) => {
            let mut found = None;
            for python in find_program(&format!("python{wanted}")).into_iter().chain(own.ok()) {
                if version(&python).await.as_deref() == Some(wanted) {
                    found = Some(python);
                    break;
                }
            }
            let python = found.ok_or_else(|| {
                format!(
                    "there is no Python {wanted} on this host: install it, or uv, which fetches it; or have the job ask for \
                     another version, or name an interpreter"
                )
            })?;
            (python, wanted.to_owned())
        }
    };
    let installer = match uv {
        Some(program) => Installer::Uv { program, python: python.display().to_string() },
        None => Installer::Pip { python },
    };
    Ok((installer, version))
}

/// The version of an interpreter that runs, `X.Y`.
async fn version(python: &Path) -> Option<String> {
    let output =
        Command::new(python).args(["-I", "-S", "-c", VERSION]).kill_on_drop(true).output().await.ok()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !said.is_empty()).then_some(said)
}

impl Installer {
    /// What it is called.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Uv { program, .. } => format!("uv ({})", program.display()),
            Self::Pip { python } => format!("venv and pip of {}", python.display()),
        }
    }

    /// Makes an empty environment in `folder`.
    pub(super) fn make(&self, folder: &Path) -> Command {
        let mut command;
        match self {
            Self::Uv { program, python } => {
                command = Command::new(program);
                command.args(["venv", "--no-project", "--python", python]).arg(folder);
            }
            Self::Pip { python } => {
                command = Command::new(python);
                command.args(["-m", "venv"]).arg(folder);
            }
        }
        command
    }

    /// Installs what the requirements file says into the environment in `folder`.
    pub(super) fn install(&self, folder: &Path, requirements: &Path, constraints: Option<&Path>) -> Command {
        let python = python_of(folder);
        let mut command;
        match self {
            Self::Uv { program, .. } => {
                command = Command::new(program);
                command.args(["pip", "install", "--python"]).arg(python);
            }
            Self::Pip { .. } => {
                command = Command::new(python);
                command.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check"]);
                command.args(["--progress-bar", "off"]);
            }
        }
        command.arg("-r").arg(requirements);
        if let Some(constraints) = constraints {
            command.arg("-c").arg(constraints);
        }
        command
    }
}
