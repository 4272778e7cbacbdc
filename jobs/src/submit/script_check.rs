//! Whether an interpreter can compile the script of a job, and whether it has a function to call: cheap enough to be asked before every
//! submission.
//!
//! The script is not run, and what it imports is not looked at: `validate` does that.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use prs_common::job::{Environment, JobSpec, RunsOn, script_below};
use prs_worker::find_interpreter;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::caller::Caller;
use crate::failure::Failure;

/// What the interpreter does. `-I -S` keep it from looking for packages.
const CHECK: &str = include_str!("script_check.py");
/// How long it may take. What takes longer is not looked at.
const PATIENCE: Duration = Duration::from_secs(10);
/// Makes the interpreter the leader of a group, which ends with this program: a watcher in the group reads standard input, and
/// this program holds the other end.
const GROUP: &str =
    "exec 3<&0; (read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec \"$0\" \"$@\" 3<&- </dev/null";
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
    group: Group,
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
        let started = start(&python, &script);
        let (child, group) =
            started.with_context(|| format!("cannot run {}", python.display())).map_err(Failure::usage)?;
        Ok(Some(Self { python, script, child, group, is_its_own }))
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
        let Self { python, script, child, group, .. } = self;
        let Ok(ended) = tokio::time::timeout(PATIENCE, end_of(child, group)).await else {
            tracing::warn!(script = %script.display(), "nobody knows whether the script can be compiled: that takes too long");
            return Ok(None);
        };
        let (status, verdict, said) =
            ended.with_context(|| format!("cannot run {}", python.display())).map_err(Failure::usage)?;
        let says = |word: &str| verdict.lines().any(|line| line == word);
        if status.success() {
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

/// The group of an interpreter; killed when dropped.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Nobody may be left in it.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Starts an interpreter that looks at a script. An interpreter may be a script itself, which starts others: all are in its
/// group.
fn start(python: &Path, script: &Path) -> io::Result<(Child, Group)> {
    let mut command = Command::new("sh");
    command.args(["-c", GROUP]).arg(python).args(["-I", "-S", "-c", CHECK]).arg(script);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.kill_on_drop(true).spawn()?;
    let group = Group(child.id().and_then(|pid| Pid::from_raw(pid as i32)));
    Ok((child, group))
}

/// How an interpreter ends, and what it said: the verdict, and its errors. Its group ends with it.
async fn end_of(mut child: Child, group: Group) -> io::Result<(ExitStatus, String, String)> {
    // As long as it is held, the watcher waits. Waiting for the child would close it.
    let held = child.stdin.take();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        let status = child.wait().await;
        // What it left holds its standard streams open.
        drop(group);
        status
    };
    let ended = tokio::try_join!(ended, all_of(stdout), all_of(stderr));
    drop(held);
    ended
}

/// All text of a stream.
async fn all_of(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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

    /// An interpreter that is a script of its own: it starts a program that outlives it, notes its id, and does `then`.
    fn with_a_child(folder: &Path, then: &str) -> (PathBuf, impl Fn() -> bool + use<>) {
        use std::os::unix::fs::PermissionsExt;
        let (python, noted) = (folder.join("python"), folder.join("pid"));
        let text = format!("#!/bin/sh\nsleep 100 &\necho $! > {}\n{then}\n", noted.display());
        std::fs::write(&python, text).unwrap();
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        let is_gone = move || {
            let pid = std::fs::read_to_string(&noted).unwrap_or_default();
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            // Its parent may not have heard of its end.
            !pid.is_empty() && (stat.is_empty() || stat.contains(") Z "))
        };
        (python, is_gone)
    }

    /// Waits until that is so.
    async fn until(is_so: impl Fn() -> bool) {
        let look = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), look).await.expect("a child is left behind");
    }

    #[tokio::test]
    async fn what_an_interpreter_starts_ends_with_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("main.py");
        std::fs::write(&script, "def run(batch): pass\n").unwrap();
        let real = find_interpreter(None).unwrap();
        let (python, is_gone) = with_a_child(folder.path(), &format!("exec {} \"$@\"", real.display()));
        let (child, group) = start(&python, &script).unwrap();
        let (status, verdict, said) = end_of(child, group).await.unwrap();
        assert!(status.success() && verdict.is_empty() && said.is_empty(), "{verdict} {said}");
        until(is_gone).await;

        // One that takes too long.
        let (python, is_gone) = with_a_child(folder.path(), "sleep 100");
        let (child, group) = start(&python, &script).unwrap();
        let ended = tokio::time::timeout(Duration::from_millis(300), end_of(child, group)).await;
        assert!(ended.is_err(), "{ended:?}");
        until(is_gone).await;

        // The end of this program closes its end of standard input.
        let (python, is_gone) = with_a_child(folder.path(), "sleep 100");
        let (mut child, group) = start(&python, &script).unwrap();
        std::mem::forget(group);
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(child.stdin.take());
        until(is_gone).await;
        assert!(!child.wait().await.unwrap().success());
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
