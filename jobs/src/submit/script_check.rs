//! Whether an interpreter can compile the script of a job: cheap enough to be asked before every submission.
//!
//! What the script imports is not looked at: `validate` does that.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context;
use prs_common::job::{Environment, JobSpec, RunsOn, script_below};
use prs_worker::find_interpreter;
use tokio::process::{Child, Command};

use crate::caller::Caller;
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
    runs_on: RunsOn,
}

impl ScriptCheck {
    /// Starts to compile the script of a job; nothing where there is no such file, or no interpreter here. Of a job for workers
    /// that `is_text`, nothing that it names is run here: who handed that in may run code there and not on this machine.
    pub(crate) fn start(spec: &JobSpec, runs_on: RunsOn, is_text: bool) -> Result<Option<Self>, Failure> {
        if is_text && runs_on == RunsOn::Workers {
            return Ok(None);
        }
        let script = script_below(&spec.source_directory, &spec.entry_script).filter(|_| !spec.is_built_in());
        // The Python of an environment that is not made yet may be another one.
        let python = match &spec.environment {
            Some(Environment::Packages(_)) => None,
            Some(Environment::Interpreter(named)) => find_interpreter(Some(named)).ok(),
            None => find_interpreter(None).ok(),
        };
        let Some((script, python)) = script.zip(python) else { return Ok(None) };
        let mut command = Command::new(&python);
        command.args(ARGUMENTS).arg(&script).kill_on_drop(true);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child =
            child.with_context(|| format!("cannot run {}", python.display())).map_err(Failure::usage)?;
        Ok(Some(Self { python, script, child, runs_on }))
    }

    /// Waits for its end. Fails with what the interpreter says of a script that is no Python; of a job for workers, whose
    /// interpreter may be another one, that is only told.
    pub(crate) async fn finish(self, caller: &dyn Caller) -> Result<(), Failure> {
        let Self { python, script, child, runs_on } = self;
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
        let told = format!("{} cannot be compiled by {}:\n{error}", script.display(), python.display());
        if runs_on == RunsOn::ThisMachine {
            return Err(Failure::wrong(told));
        }
        caller.note(&format_args!("note: {told}\nthe workers use an interpreter of their own"));
        Ok(())
    }
}
