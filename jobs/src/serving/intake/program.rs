//! Programs that run jobs of this machine for a server. Each is a process of its own, in a session of its own: it lives on when the
//! server ends, and a signal of the server's terminal does not reach it. What it says on the way is in a log of its job.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use prs_common::layout;
use prs_common::traces;
use prs_common::tree::{self, Held, remove_tree};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::order::{Order, Word};
use crate::failure::Failure;
use crate::homes::run_folder;

/// How long a job may take to begin before nobody waits for that any longer.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(50);
/// What the program says, among the logs of the job.
const LOG: &str = "logs/sys/program.txt";

/// How such a program is started: it gets the path of the order behind these arguments.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
}

/// That it does not say in time whether the job has begun.
pub(super) fn late() -> Failure {
    Failure::server(anyhow::anyhow!(
        "the job has not begun yet: its inputs may be many; it goes on, and the list of jobs shows it once it has"
    ))
}

impl Program {
    /// Has the order in `file` done for the run in `folder`, and waits until the job has begun.
    pub(super) async fn run(&self, file: &Path, folder: &Path) -> Result<(), Failure> {
        let log = folder.join(LOG);
        let open = || {
            let _held = Held::open(folder)?;
            log.parent().map_or(Ok(()), tree::make_folders)?;
            let log = tree::append(&log)?;
            log.set_permissions(fs::Permissions::from_mode(0o600)).map(|()| log)
        };
        let log = open().with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(&self.path);
        if let Some(span) = traces::current() {
            command.env("TRACEPARENT", span.to_string());
        }
        command.args(&self.arguments).arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let started = command.spawn().with_context(|| format!("cannot run {}", self.path.display()));
        let mut child = started?;
        let said = child.stdout.take().context("the program has no output")?;
        let mut line = String::new();
        let mut said = BufReader::new(said);
        let read = tokio::time::timeout(PATIENCE, said.read_line(&mut line)).await;
        match read {
            Err(_) => Err(late()),
            Ok(_) => match serde_json::from_str(&line) {
                Ok(Word::Begun) => Ok(()),
                Ok(Word::Refused(refusal)) => Err(refusal.into()),
                Err(_) => {
                    let ended =
                        child.wait().await.map_or_else(|error| error.to_string(), |how| how.to_string());
                    Err(Failure::from(anyhow::anyhow!(
                        "the program that was to run the job ended without a word ({ended}): its log {LOG} may say why"
                    )))
                }
            },
        }
    }

    /// Has the new job in `folder` taken up, and waits until it has begun. One that is refused goes, unless another program has
    /// taken it up.
    pub(super) async fn take_up(&self, folder: &Path) -> Result<(), Failure> {
        let is_there = || folder.join(layout::JOB).is_file();
        if is_there() {
            return Ok(());
        }
        if !run_folder::is_locked(folder) {
            let Err(failure) = self.run(&Order::file_in(folder), folder).await else { return Ok(()) };
            match run_folder::lock(folder) {
                Ok(Some(_lock)) if !is_there() => {
                    if let Err(error) = remove_tree(folder) {
                        tracing::warn!(path = %folder.display(), %error, "a job that was refused is left behind");
                    }
                    return Err(failure);
                }
                // It is there, or is about to be.
                _ => {}
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while !is_there() {
            if !folder.exists() {
                return Err(Failure::wrong("the job was refused: send it again, which says why"));
            }
            if Instant::now() > deadline {
                return Err(late());
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Has the jobs in `runs` taken up that a server which is gone left there.
    pub(super) async fn take_up_all(&self, runs: &Path) {
        let entries = fs::read_dir(runs).into_iter().flatten().flatten();
        for folder in entries.map(|entry| entry.path()) {
            let is_waiting = Order::file_in(&folder).is_file()
                && !folder.join(layout::JOB).exists()
                && !run_folder::is_locked(&folder);
            if !is_waiting {
                continue;
            }
            match self.take_up(&folder).await {
                Ok(()) => {
                    tracing::info!(folder = %folder.display(), "a job that was handed in before has begun");
                }
                Err(failure) => {
                    tracing::warn!(folder = %folder.display(), %failure, "a job that was handed in before is refused");
                }
            }
        }
    }
}
