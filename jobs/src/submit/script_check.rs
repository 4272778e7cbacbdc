//! Whether an interpreter can compile the script of a job, and whether it has a function to call: cheap enough to be asked before every
//! submission.
//!
//! The script is not run, and what it imports is not looked at: `validate` does that.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use prs_common::job::{Environment, JobSpec, RunsOn, script_below};
use prs_worker::find_interpreter;
use tokio::process::{Child, Command};

use crate::caller::Caller;
use crate::failure::Failure;

/// What the interpreter does. `-I -S` keep it from looking for packages.
const CHECK: &str = include_str!("script_check.py");
/// How long it may take. What takes longer is not looked at.
const PATIENCE: Duration = Duration::from_secs(10);
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
    /// Whether this interpreter runs the script in the end.
    is_its_own: bool,
}

impl ScriptCheck {
    /// Starts to look at the script of a job; nothing where there is no such file, or no interpreter here. Where the one that runs it is
    /// not here, or may be another version, the one of this program looks. Of a job for workers that `is_text`, nothing that it names is
    /// run here: who handed that in may run code there and not on this machine.
    pub(crate) fn start(spec: &JobSpec, runs_on: RunsOn, is_text: bool) -> Result<Option<Self>, Failure> {
        let script = script_below(&spec.source_directory, &spec.entry_script).filter(|_| !spec.is_built_in());
        let named = match &spec.environment {
            Some(Environment::Interpreter(named)) if !is_text || runs_on == RunsOn::ThisMachine => {
                find_interpreter(Some(named)).ok()
            }
            _ => None,
        };
        let is_its_own = runs_on == RunsOn::ThisMachine && (named.is_some() || spec.environment.is_none());
        let python = named.or_else(|| find_interpreter(None).ok());
        let Some((script, python)) = script.zip(python) else { return Ok(None) };
        let mut command = Command::new(&python);
        command.args(["-I", "-S", "-c", CHECK]).arg(&script).kill_on_drop(true);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child =
            child.with_context(|| format!("cannot run {}", python.display())).map_err(Failure::usage)?;
        Ok(Some(Self { python, script, child, is_its_own }))
    }

    /// Waits for its end. Fails with what the interpreter says of a script that is no Python; where another one runs it, that is
    /// only told.
    pub(crate) async fn finish(self, caller: &dyn Caller) -> Result<(), Failure> {
        let is_its_own = self.is_its_own;
        match self.found().await? {
            Some(Found { error: Some(error), .. }) if is_its_own => Err(Failure::wrong(error)),
            Some(Found { error: Some(error), .. }) => {
                caller.note(&format_args!("note: {error}\nwhat runs it has an interpreter of its own"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The same of the script of a deployment, which has to have a function run. Where another interpreter runs it, what may be
    /// right there is told, and all else is refused.
    pub(crate) async fn finish_strictly(self, caller: &dyn Caller) -> Result<(), Failure> {
        let (script, is_its_own) = (self.script.clone(), self.is_its_own);
        match self.found().await? {
            Some(Found { error: Some(error), may_be_newer, .. }) if is_its_own || !may_be_newer => {
                Err(Failure::wrong(error))
            }
            Some(Found { error: Some(error), .. }) => {
                caller.note(&format_args!(
                    "note: {error}\na newer Python may compile it: what runs it has an interpreter of its own"
                ));
                Ok(())
            }
            Some(Found { has_no_run: true, .. }) => Err(Failure::wrong(format!(
                "{} has no function run(): define run(mini_batch)",
                script.display()
            ))),
            _ => Ok(()),
        }
    }

    /// What was found; nothing where the interpreter is none, or did not come to an end.
    async fn found(self) -> Result<Option<Found>, Failure> {
        let Self { python, script, child, .. } = self;
        let Ok(ended) = tokio::time::timeout(PATIENCE, child.wait_with_output()).await else {
            tracing::warn!(script = %script.display(), "nobody knows whether the script can be compiled: that takes too long");
            return Ok(None);
        };
        let ended =
            ended.with_context(|| format!("cannot run {}", python.display())).map_err(Failure::usage)?;
        let (verdict, said) =
            (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let says = |word: &str| verdict.lines().any(|line| line == word);
        if ended.status.success() {
            return Ok(Some(Found { error: None, may_be_newer: false, has_no_run: says("no run") }));
        }
        let lines: Vec<&str> = said.lines().collect();
        let is_refused = lines.last().is_some_and(|last| ERRORS.iter().any(|error| last.starts_with(error)));
        if !is_refused {
            return Ok(None);
        }
        let error = lines[lines.len().saturating_sub(LINES)..].join("\n");
        let error = format!("{} cannot be compiled by {}:\n{error}", script.display(), python.display());
        Ok(Some(Found { error: Some(error), may_be_newer: says("newer"), has_no_run: false }))
    }
}

/// What an interpreter says of a script.
struct Found {
    /// Why it cannot be compiled.
    error: Option<String>,
    /// Whether a newer one may do it.
    may_be_newer: bool,
    /// Whether it surely has no function that is called.
    has_no_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an interpreter says of a script: whether it compiles, and its words.
    fn said_of(script: &str, version: &str) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("main.py");
        std::fs::write(&path, script).unwrap();
        let check = CHECK.replace("sys.version_info[:2]", version);
        let python = find_interpreter(None).unwrap();
        let output =
            std::process::Command::new(python).args(["-I", "-S", "-c", &check]).arg(path).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    #[test]
    fn a_script_has_a_function_to_call_or_may_get_one() {
        let table = [
            ("def run(mini_batch): pass", ""),
            ("async def run(mini_batch): pass", ""),
            ("run = lambda mini_batch: []", ""),
            ("from score import run", ""),
            ("import score as run", ""),
            ("try:\n    from score import run\nexcept ImportError:\n    def run(batch): pass", ""),
            ("class run:\n    def __init__(self, batch): pass", ""),
            ("def init():\n    global run\n    run = print", ""),
            ("def enqueue(batch, context): pass\ndef get_finished_batch_result(): pass", ""),
            ("from score import *", ""),
            ("globals()['run'] = print", ""),
            ("import sys\nsys.modules[__name__].run = print", ""),
            ("def __getattr__(name): return print", ""),
            ("def init(): pass\ndef score(batch): pass", "no run"),
            ("class Model:\n    def run(self, batch): pass", "no run"),
            ("def init():\n    def run(batch): pass\n    run = 1", "no run"),
            ("print(run)", "no run"),
            ("", "no run"),
        ];
        for (script, expected) in table {
            assert_eq!(said_of(script, "sys.version_info[:2]"), (true, expected.to_owned()), "{script}");
        }
    }

    #[test]
    fn what_is_wrong_may_be_right_in_a_newer_python() {
        let old = "(3, 9)";
        let table = [
            ("def run(:", old, ""),
            ("def run(batch):\nreturn batch", old, ""),
            ("def run(batch):\n    return [1, 2", old, ""),
            // Nothing that any version takes, but as an older Python sees what came later.
            ("match batch:\n    case 1 2: pass", old, "newer"),
            ("def run[T](batch: T: pass", old, "newer"),
            ("type X = int int", old, "newer"),
            ("type X = int int", "(3, 12)", ""),
            ("try:\n    pass\nexcept* ValueError ValueError: pass", old, "newer"),
            ("print(f\"{x['a'\"])", old, "newer"),
            ("x = t\"{y}\" z", "(3, 13)", "newer"),
            ("try:\n    pass\nexcept A, B C: pass", "(3, 13)", "newer"),
            ("try:\n    pass\nexcept A, B C: pass", "(3, 14)", ""),
        ];
        for (script, version, expected) in table {
            assert_eq!(said_of(script, version), (false, expected.to_owned()), "{script}");
        }
    }
}
