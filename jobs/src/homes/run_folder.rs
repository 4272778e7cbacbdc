//! The folder of a run: where it is, who works in it, and how others ask for its end.
//!
//! prs runs the code in it, so a run begins, and goes on, only in a folder that no other user can change. Commands that
//! only read take any.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use prs_common::layout;
use prs_common::private_folder::PrivateFolder;
use prs_common::storage::{LocalStorage, TEMPORARY, is_valid_key};
use prs_common::tree::{self, Held, remove_tree};
use prs_orchestrator::JobRecord;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::failure::Failure;
use crate::paths::shown;

/// Where runs are kept unless another folder is given, below the current one.
pub const RUNS: &str = "prs-runs";
/// Folder for what need not outlive the program that runs the job.
const WORK: &str = "work";
/// Folders that no other user can look into, also where the user opens the run folder to others. The output is none of
/// them: the user's umask says who may read it.
const PRIVATE: [&str; 12] = [
    layout::CODE,
    layout::DAMAGED,
    layout::FILES,
    layout::INPUTS,
    layout::LOGS,
    layout::NOTES,
    layout::PLAIN,
    layout::PLAN,
    layout::SEGMENTS,
    SENT,
    TEMPORARY,
    WORK,
];
/// Folder of the jobs of the steps of a pipeline.
pub const STEPS: &str = "steps";
/// Folder of what came with a job that was handed in to a server.
pub const SENT: &str = "sent";
/// Asks the program that works in the folder to cancel the job; holds who asks.
const CANCEL: &str = "cancel";
/// Between two looks for such a wish.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a command that only looks whether a job is running may hold the lock.
const LOOKERS: Duration = Duration::from_millis(200);
/// How long a program may hold it after its job has ended, while it tidies up.
const LEAVING: Duration = Duration::from_secs(5);

/// A run folder in which this program works alone. What is done with paths below it goes to this folder, whatever a script puts in
/// its place.
#[derive(Debug)]
pub struct Locked {
    _file: File,
    _held: Held,
}

/// Locks `folder`, which must exist; nothing when another program has it.
pub fn lock(folder: &Path) -> anyhow::Result<Option<Locked>> {
    let path = folder.join(layout::RUN_LOCK);
    let held = Held::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
    let file = held.folder().append(layout::RUN_LOCK.as_ref());
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let deadline = Instant::now() + LOOKERS;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(Locked { _file: file, _held: held })),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() > deadline => return Ok(None),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
}

/// Whether some program works in `folder`.
pub fn is_locked(folder: &Path) -> bool {
    // In the folder of another user it may be anything, also a pipe that would be waited for.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(folder.join(layout::RUN_LOCK));
    file.is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    })
}

/// Makes the folder of a new run.
pub fn make(folder: &Path) -> Result<PathBuf, Failure> {
    prepare(&PrivateFolder::make(folder).context("cannot use the run folder").map_err(Failure::usage)?)
}

/// The folder of a run that goes on.
pub fn find_to_resume(name: &str, runs: &Path) -> Result<PathBuf, Failure> {
    prepare(&open_to_run(name, runs)?)
}

/// The folder of a run whose code is to be run elsewhere.
pub fn find_to_run(name: &str, runs: &Path) -> Result<PathBuf, Failure> {
    Ok(open_to_run(name, runs)?.path().to_owned())
}

fn open_to_run(name: &str, runs: &Path) -> Result<PrivateFolder, Failure> {
    PrivateFolder::open(&look_in(name, runs)?).context("cannot use the run folder").map_err(Failure::usage)
}

/// Makes the folders of a run that others could look into otherwise.
fn prepare(folder: &PrivateFolder) -> Result<PathBuf, Failure> {
    if folder.is_open_to_others() {
        for name in PRIVATE {
            let made = folder.make_below(name.trim_end_matches('/'));
            made.context("cannot use the run folder").map_err(Failure::usage)?;
        }
    }
    Ok(folder.path().to_owned())
}

/// The folder of the job `name`, an id or a folder, where `runs` holds the runs of this machine.
pub fn find(name: &str, runs: &Path) -> Result<PathBuf, Failure> {
    let found = look_in(name, runs)?;
    fs::canonicalize(&found)
        .with_context(|| format!("cannot open {}", found.display()))
        .map_err(Failure::usage)
}

/// Removes a run, as it was seen at its `start`, but for an output elsewhere. Its record goes last: until then it is in the
/// list. With `keeps_output` the result in it stays, too. False when it works, or was started again since: then all of it stays.
pub async fn remove(folder: &Path, start: Option<u32>, keeps_output: bool) -> Result<bool, Failure> {
    let removed = remove_locked(folder, start, keeps_output).await;
    // Another program may remove it, too.
    if folder.join(layout::JOB).exists() { removed } else { Ok(true) }
}

async fn remove_locked(folder: &Path, start: Option<u32>, keeps_output: bool) -> Result<bool, Failure> {
    let is_as_seen = async || {
        let record = JobRecord::read(&LocalStorage::new(folder)).await.map_err(Failure::usage)?;
        Ok::<_, Failure>(Some(record.incarnation) == start)
    };
    let deadline = Instant::now() + LEAVING;
    let _locked = loop {
        let folder = folder.to_owned();
        // It waits by itself for those who only look.
        let tried = tokio::task::spawn_blocking(move || lock(&folder)).await;
        match tried.map_err(|error| Failure::from(anyhow::Error::new(error)))?? {
            Some(locked) => break locked,
            None if Instant::now() > deadline || !is_as_seen().await? => return Ok(false),
            None => {}
        }
    };
    if !is_as_seen().await? {
        return Ok(false);
    }
    let output = folder.join(layout::OUTPUT);
    let keeps_output = keeps_output && output.read_dir().is_ok_and(|mut files| files.next().is_some());
    let remove = || {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let stays = keeps_output && path == output;
            if !(stays || path.ends_with(layout::JOB) || path.ends_with(layout::RUN_LOCK)) {
                remove_tree(&path)?;
            }
        }
        // Before the lock, which the next one would make anew.
        remove_tree(folder.join(layout::JOB))?;
        if keeps_output { remove_tree(folder.join(layout::RUN_LOCK)) } else { remove_tree(folder) }
    };
    remove().with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(true)
}

/// Whether `name`, an id or a folder, is a job of this machine, whose runs are in `runs`.
pub fn holds_a_job(name: &str, runs: &Path) -> bool {
    candidates(name, runs).any(|folder| has_record(&folder))
}

/// The folder of the job with this id in `runs`, of a step that of its pipeline.
pub(crate) fn of_id(id: &str, runs: &Path) -> Option<PathBuf> {
    // Nothing that leads elsewhere.
    let is_id = is_valid_key(id) && !id.contains('/');
    let folders = std::iter::once(runs.join(id)).chain(of_steps(id, runs)).filter(|_| is_id);
    folders.into_iter().find(|folder| folder.join(layout::JOB).is_file())?.canonicalize().ok()
}

/// Where the job of a step may be: below its pipeline, whose id its own begins with.
fn of_steps<'a>(id: &'a str, runs: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    id.match_indices('-').map(move |(at, _)| runs.join(&id[..at]).join(STEPS).join(id))
}

/// Where the job `name` may be: a folder, or an id.
fn candidates<'a>(name: &'a str, runs: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let of_steps = of_steps(name, runs).filter(|_| !name.contains('/'));
    [PathBuf::from(name), runs.join(name)].into_iter().chain(of_steps)
}

/// Tells whether `folder` has the record of a job, by which a run folder is known: other programs have files of that name, too.
fn has_record(folder: &Path) -> bool {
    tree::read(folder.join(layout::JOB)).is_ok_and(|text| serde_json::from_slice::<JobRecord>(&text).is_ok())
}

fn look_in(name: &str, runs: &Path) -> Result<PathBuf, Failure> {
    let is_there = |folder: &PathBuf| folder.join(layout::JOB).is_file();
    // One that is damaged is told as that, where no other is meant.
    let found = candidates(name, runs).find(|folder| has_record(folder));
    found.or_else(|| candidates(name, runs).find(is_there)).ok_or_else(|| {
        Failure::not_found(format!(
            "there is no job {name:?}: neither {name} nor {} holds a job.json; prs list shows the jobs of a folder",
            runs.join(name).display()
        ))
    })
}

/// What commands call the job in `folder`: its id where they look for it by themselves, else the folder.
pub fn called(folder: &Path) -> String {
    let runs = std::env::current_dir().map(|here| here.join(RUNS));
    let is_of_step = |parent: &Path, runs: &Path| {
        parent.file_name().is_some_and(|name| name == STEPS)
            && parent.parent().and_then(Path::parent) == Some(runs)
    };
    let is_there =
        |runs: PathBuf| folder.parent().is_some_and(|parent| parent == runs || is_of_step(parent, &runs));
    let id = folder.file_name().filter(|_| runs.is_ok_and(is_there));
    id.map_or_else(|| shown(folder), |id| id.to_string_lossy().into_owned())
}

/// Where the result of a job goes.
pub fn output(folder: &Path, record: &JobRecord) -> PathBuf {
    record.spec.output.clone().unwrap_or_else(|| folder.join("output"))
}

/// Asks the program that works in `folder` to cancel the job, unless that is asked already.
pub fn ask_to_cancel(folder: &Path, who: &str) -> anyhow::Result<()> {
    let path = folder.join(CANCEL);
    if path.exists() {
        return Ok(());
    }
    tree::write_whole(&path, who).with_context(|| format!("cannot write {}", path.display()))
}

/// Who asks to cancel the job in `folder`.
pub fn wish_to_cancel(folder: &Path) -> Option<String> {
    let who = tree::read(folder.join(CANCEL)).ok()?;
    Some(String::from_utf8_lossy(&who).lines().next().map_or("another program", str::trim).to_owned())
}

/// When that was asked, microseconds since the Unix epoch; nothing where nobody did.
pub fn cancel_asked_us(folder: &Path) -> Option<u64> {
    let asked = fs::metadata(folder.join(CANCEL)).ok()?.modified().ok()?;
    u64::try_from(asked.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_micros()).ok()
}

/// Takes the wish back.
pub fn forget_cancel(folder: &Path) {
    let _ = tree::remove_file(folder.join(CANCEL));
}

/// Waits until a command asks to cancel the job in `folder`, and says who.
pub async fn canceled_by(folder: &Path) -> String {
    loop {
        if let Some(who) = wish_to_cancel(folder) {
            return who;
        }
        tokio::time::sleep(CANCEL_INTERVAL).await;
    }
}

/// Why a job without a result is not running.
pub fn interrupted(folder: &Path) -> String {
    format!(
        "interrupted: the program that ran it is gone; prs resume {} goes on from there",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_folder_is_known_by_its_record() {
        let parent = tempfile::tempdir().unwrap();
        let runs = parent.path().join("runs");
        let (here, there) = (parent.path().join("rows"), runs.join("rows"));
        let name = here.to_str().unwrap();
        fs::create_dir_all(&here).unwrap();
        fs::create_dir_all(&there).unwrap();
        assert!(!holds_a_job(name, &runs) && look_in(name, &runs).is_err());
        for other in ["{}", "{\"job_id\": 7}", "no JSON"] {
            fs::write(here.join(layout::JOB), other).unwrap();
            assert!(!holds_a_job(name, &runs), "{other}");
            // It may be a damaged one.
            assert_eq!(look_in(name, &runs).unwrap(), here, "{other}");
        }
        let spec = prs_common::job::JobSpec::new("rows", "/code", "main.py", vec![]);
        let mut record = JobRecord::new("rows-1".to_owned(), String::new(), spec);
        record.write(&LocalStorage::new(&there)).await.unwrap();
        assert!(holds_a_job("rows", &runs));
        assert_eq!(look_in("rows", &runs).unwrap(), there);
    }

    #[tokio::test]
    async fn a_run_is_removed_once_its_program_has_tidied_up() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("run");
        fs::create_dir(&folder).unwrap();
        let spec = prs_common::job::JobSpec::new("job", "/code", "main.py", vec![]);
        let mut record = JobRecord::new("job-1".to_owned(), String::new(), spec);
        record.write(&LocalStorage::new(&folder)).await.unwrap();
        let tidying = lock(&folder).unwrap().unwrap();
        // One that was started again since stays, and nobody waits for it.
        let began = Instant::now();
        assert!(!remove(&folder, Some(record.incarnation + 1), false).await.unwrap());
        assert!(began.elapsed() < LEAVING);
        let tidies = std::thread::spawn(move || {
            std::thread::sleep(3 * LOOKERS);
            drop(tidying);
        });
        assert!(remove(&folder, Some(record.incarnation), false).await.unwrap());
        assert!(!folder.exists());
        tidies.join().unwrap();
    }
}
