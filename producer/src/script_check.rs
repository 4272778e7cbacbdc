//! Whether an interpreter can compile the script of a job: cheap enough to be asked before every submission.
//!
//! What the script imports is not looked at: `validate` does that.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context;
use prs_common::job::{JobSpec, script_below};
use tokio::process::{Child, Command};

use crate::failure::Failure;

/// Compiles the script without running it. `-I -S` keep the interpreter from looking for packages.
const ARGUMENTS: [&str; 4] =
    ["-I", "-S", "-c", "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')"];
/// Lines that describe a syntax error: place, text, caret, message.
const LINES: usize = 4;
/// How the last of them begins. What else a program says, that may be no Python, is told when the job uses it.
const ERRORS: [&str; 5] =
    ["SyntaxError:", "IndentationError:", "TabError:", "ValueError:", "UnicodeDecodeError:"];

/// A compilation that goes on beside other work.
#[derive(Debug)]
pub(crate) struct ScriptCheck {
    python: PathBuf,
    script: PathBuf,
    child: Child,
}

impl ScriptCheck {
    /// Starts to compile the script of a job with `python`; nothing where there is no such file.
    pub(crate) fn start(spec: &JobSpec, python: PathBuf) -> Result<Option<Self>, Failure> {
        let Some(script) = script_below(&spec.source_directory, &spec.entry_script) else { return Ok(None) };
        let mut command = Command::new(&python);
        command.args(ARGUMENTS).arg(&script).kill_on_drop(true);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child =
            child.with_context(|| format!("cannot run {}", python.display())).map_err(Failure::usage)?;
        Ok(Some(Self { python, script, child }))
    }

    /// Waits for its end. Fails with what the interpreter says of a script that is no Python.
    pub(crate) async fn finish(self) -> Result<(), Failure> {
        let Self { python, script, child } = self;
        let ended = child.wait_with_output().await;
        let ended =
            ended.with_context(|| format!("cannot run {}", python.display())).map_err(Failure::usage)?;
        let said = String::from_utf8_lossy(&ended.stderr);
        let lines: Vec<&str> = said.lines().collect();
        let is_refused = lines.last().is_some_and(|last| ERRORS.iter().any(|error| last.starts_with(error)));
        if ended.status.success() || !is_refused {
            return Ok(());
        }
        let error = lines[lines.len().saturating_sub(LINES)..].join("\n");
        Err(Failure::wrong(format!(
            "{} cannot be compiled by {}:\n{error}",
            script.display(),
            python.display()
        )))
    }
}
