//! The folder of a run: where it is, and who works in it.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::storage::LocalStorage;
use prs_orchestrator::JobRecord;
use rustix::fs::{FlockOperation, flock};

use crate::cli::Job;
use crate::failure::Failure;

const LOCK: &str = ".lock";
/// How long somebody who only looks whether a job is running may hold the lock.
const LOOKERS: Duration = Duration::from_millis(200);

/// A run folder in which this program works alone.
#[derive(Debug)]
pub(crate) struct Locked {
    _file: File,
}

/// Locks `folder`, which must exist; nothing when another program has it.
pub(crate) fn lock(folder: &Path) -> anyhow::Result<Option<Locked>> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let deadline = Instant::now() + LOOKERS;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(Locked { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() > deadline => return Ok(None),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
}

/// Whether some program works in `folder`.
pub(crate) fn is_locked(folder: &Path) -> bool {
    File::open(folder.join(LOCK)).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    })
}

/// The folder of the job that a command names by id or folder.
pub(crate) fn find(job: &Job) -> Result<PathBuf, Failure> {
    let folders = [PathBuf::from(&job.job), job.runs.join(&job.job)];
    let found = folders.iter().find(|folder| folder.join(layout::JOB).is_file());
    let found = found.ok_or_else(|| {
        Failure::wrong(format!(
            "there is no job {:?}: neither {} nor {} holds a job.json; prs-producer list shows the jobs of a folder",
            job.job,
            folders[0].display(),
            folders[1].display()
        ))
    })?;
    fs::canonicalize(found)
        .with_context(|| format!("cannot open {}", found.display()))
        .map_err(Failure::usage)
}

/// Reads the record of the job in `folder`. A job that nobody works on any more, and that has no end, was
/// interrupted: the record says so.
pub(crate) async fn read(folder: &Path) -> anyhow::Result<JobRecord> {
    let storage = LocalStorage::new(folder);
    let record = JobRecord::read(&storage).await?;
    if record.state.is_final() || is_locked(folder) {
        return Ok(record);
    }
    // It may have ended between the two looks.
    let mut record = JobRecord::read(&storage).await?;
    if !record.state.is_final() {
        record.state = JobState::Failed;
    }
    Ok(record)
}

/// Why a job without a result is not running.
pub(crate) fn interrupted(folder: &Path) -> String {
    format!(
        "interrupted: the program that ran it is gone; prs-producer resume {} goes on from there",
        folder.display()
    )
}
