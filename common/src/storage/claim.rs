//! The claim of a job to a folder that it fills: two jobs never fill one folder at a time.
//!
//! A claim is a file in the folder itself, so it does not matter by which name the folder is known: relative, through a
//! link, by another mount. It is created exclusively, which decides also between hosts that share the folder, and it is
//! locked as long as its owner lives, so that the claim of a program that was killed locks nobody out of a folder of
//! this host. The file says who has the claim; taking over the claim of a dead owner replaces it as a whole, under its
//! lock, so that of several who do so one succeeds.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::PutMode;
use super::local::{LocalStorage, TEMPORARY, Temporary};
use super::placing::{has_the_name, open_to_lock};
use crate::host_name;
use crate::layout::CLAIM;
use crate::timestamp::{format_us, now_us};
use crate::tree::{self, Held, OpenFolder};

/// How long another program may hold the lock that only looks whose the claim is.
const LOOKERS: Duration = Duration::from_millis(500);
/// Between two attempts meanwhile.
const PAUSE: Duration = Duration::from_millis(10);
/// A claim is shorter, bytes.
const LARGEST: u64 = 64 << 10;

/// Who has a claim; the content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimHolder {
    /// The job.
    pub job_id: String,
    /// The host of the program that took it.
    pub host: String,
    /// The id of that program's process.
    pub pid: u32,
    /// When it was taken, in UTC.
    pub since: String,
}

/// Why a folder cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A program that lives fills it.
    #[error(
        "{} is being filled by job {} (process {} on {}, since {}): wait for its end, or give another folder",
        folder.display(), holder.job_id, holder.pid, holder.host, holder.since
    )]
    Taken {
        /// The folder.
        folder: PathBuf,
        /// Who.
        holder: Box<ClaimHolder>,
    },
    /// A job on another host claimed it.
    #[error(
        "{} is claimed by job {} (process {} on {}, since {}), and whether that program still runs is not known here: \
         wait for its end, or give another folder; when it runs no more, remove {}",
        folder.display(), holder.job_id, holder.pid, holder.host, holder.since, folder.join(CLAIM).display()
    )]
    Elsewhere {
        /// The folder.
        folder: PathBuf,
        /// Who.
        holder: Box<ClaimHolder>,
    },
    /// What has the name of the file is something else.
    #[error("{} is no claim of a job ({reason}): remove it, or give another folder", path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder cannot be written.
    #[error("the output folder {} cannot be written: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A folder that one job fills; given up when this is dropped, or when the program ends.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    made_folder: bool,
    /// The folder that was claimed, whatever its path leads to meanwhile.
    folder: Held,
    /// Locked.
    file: File,
}

impl Claim {
    /// Claims `folder` for the job `job_id`; makes the folder where there is none. The claim of a program of this host
    /// that is dead is taken over, and that of the same job whose program is not known to live.
    pub fn take(folder: &Path, job_id: &str) -> Result<Self, ClaimError> {
        let holder = ClaimHolder {
            job_id: job_id.to_owned(),
            host: host_name(),
            pid: std::process::id(),
            since: format_us(now_us()),
        };
        let made_folder = !folder.exists();
        let failed = |source| ClaimError::Folder { folder: folder.to_owned(), source };
        let deadline = Instant::now() + LOOKERS;
        let (draft, file) = Draft::write(folder, &holder).map_err(failed)?;
        loop {
            match draft.0.place(CLAIM, &PutMode::Create) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                placed => {
                    placed.map_err(failed)?;
                    break;
                }
            }
            match look((folder, &draft.0.root), &holder)? {
                Found::Gone => {}
                Found::Alive(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Found::Alive(holder) => return Err(ClaimError::Taken { folder: folder.to_owned(), holder }),
                Found::Dead(_locked) => {
                    draft.0.place(CLAIM, &PutMode::Overwrite).map_err(failed)?;
                    break;
                }
            }
        }
        let held = Held::of(folder, Arc::clone(&draft.0.root));
        Ok(Self { path: folder.to_owned(), made_folder, folder: held, file })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let folder = self.folder.folder();
        if is_at(&self.file, folder) {
            // What cannot be removed is of a dead owner from now on.
            let _ = folder.remove_file(CLAIM.as_ref());
        }
        let _ = folder.remove_folder(TEMPORARY.as_ref());
        if self.made_folder {
            let _ = tree::remove_folder(&self.path);
        }
    }
}

/// The name of a claim before it has its own; removed when it is dropped.
struct Draft(Temporary);

impl Draft {
    /// A whole claim, locked before other programs can see it.
    fn write(folder: &Path, holder: &ClaimHolder) -> io::Result<(Self, File)> {
        let (temporary, mut file) = LocalStorage::new(folder).temporary()?;
        let draft = Self(temporary);
        // Where the file system knows no locks, the process id tells who lives.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let text = serde_json::to_vec(holder)?;
        file.write_all(&text)?;
        file.sync_data()?;
        Ok((draft, file))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.0.remove();
        let _ = self.0.root.remove_folder(TEMPORARY.as_ref());
    }
}

/// What there is of another's claim.
enum Found {
    /// Nothing any more.
    Gone,
    /// Its owner lives.
    Alive(Box<ClaimHolder>),
    /// Its owner is dead; nobody else takes it over as long as this file is open.
    Dead(File),
}

/// Looks whose claim is in `folder`, which was opened; an error for one that must not be taken over.
fn look((folder, opened): (&Path, &OpenFolder), ours: &ClaimHolder) -> Result<Found, ClaimError> {
    let strange = |reason: &dyn std::fmt::Display| ClaimError::Strange {
        path: folder.join(CLAIM),
        reason: reason.to_string(),
    };
    let file = match open_to_lock(opened, CLAIM.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Gone),
        file => file.map_err(|error| strange(&error))?,
    };
    let lock = flock(&file, FlockOperation::NonBlockingLockExclusive);
    if !is_at(&file, opened) {
        return Ok(Found::Gone);
    }
    let mut text = String::new();
    (&file).take(LARGEST).read_to_string(&mut text).map_err(|error| strange(&error))?;
    let holder: ClaimHolder = serde_json::from_str(&text).map_err(|error| strange(&error))?;
    let holder = Box::new(holder);
    let is_here = holder.host == ours.host;
    match lock {
        Err(Errno::WOULDBLOCK) => Ok(Found::Alive(holder)),
        Err(_) if is_here && is_alive(holder.pid) => Ok(Found::Alive(holder)),
        _ if is_here || holder.job_id == ours.job_id => Ok(Found::Dead(file)),
        _ => Err(ClaimError::Elsewhere { folder: folder.to_owned(), holder }),
    }
}

/// Whether `file` is the claim in `folder`.
fn is_at(file: &File, folder: &OpenFolder) -> bool {
    has_the_name(file, folder, CLAIM.as_ref()).unwrap_or(false)
}

/// Whether a process of this host, other than this one, has the id.
fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| pid != rustix::process::getpid() && test_kill_process(pid) != Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Barrier;

    use super::*;

    fn holder(job_id: &str, host: &str) -> ClaimHolder {
        // No process has this id.
        ClaimHolder {
            job_id: job_id.to_owned(),
            host: host.to_owned(),
            pid: 0x7fff_fff0,
            since: String::new(),
        }
    }

    fn left_by(folder: &Path, holder: &ClaimHolder) {
        fs::write(folder.join(CLAIM), serde_json::to_vec(holder).unwrap()).unwrap();
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn a_folder_has_one_claim_whatever_it_is_called() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("new/place");
        let claim = Claim::take(&folder, "a").unwrap();
        symlink(&folder, outer.path().join("link")).unwrap();
        for name in [folder.clone(), folder.join("."), outer.path().join("link"), folder.join("../place")] {
            for job in ["b", "a"] {
                let refused = Claim::take(&name, job).unwrap_err();
                let ClaimError::Taken { holder, .. } = &refused else { panic!("{refused}") };
                assert_eq!((&*holder.job_id, holder.pid), ("a", std::process::id()));
                let words = refused.to_string();
                assert!(words.contains("is being filled by job a (process "), "{words}");
            }
        }
        drop(claim);
        assert!(!folder.exists(), "what it made and did not fill is gone with it");
        fs::create_dir(&folder).unwrap();
        drop(Claim::take(&folder, "b").unwrap());
        assert!(files(&folder).is_empty());
    }

    #[test]
    fn a_dead_owners_claim_of_this_host_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        left_by(folder.path(), &holder("a", &host_name()));
        let claim = Claim::take(folder.path(), "b").unwrap();
        let text = fs::read(folder.path().join(CLAIM)).unwrap();
        assert_eq!(serde_json::from_slice::<ClaimHolder>(&text).unwrap().job_id, "b");
        drop(claim);
        assert!(files(folder.path()).is_empty());
    }

    #[test]
    fn a_claim_of_another_host_is_taken_over_by_its_job_alone() {
        let folder = tempfile::tempdir().unwrap();
        left_by(folder.path(), &holder("a", "elsewhere"));
        let refused = Claim::take(folder.path(), "b").unwrap_err();
        assert!(matches!(refused, ClaimError::Elsewhere { .. }), "{refused}");
        let remedy = format!("remove {}", folder.path().join(CLAIM).display());
        assert!(refused.to_string().contains(&remedy), "{refused}");
        drop(Claim::take(folder.path(), "a").unwrap());
        assert!(files(folder.path()).is_empty());
    }

    #[test]
    fn of_many_who_take_over_at_once_one_succeeds() {
        const TAKERS: usize = 8;
        for round in 0..8 {
            let folder = tempfile::tempdir().unwrap();
            if round % 2 == 0 {
                left_by(folder.path(), &holder("dead", &host_name()));
            }
            let (start, end) = (Barrier::new(TAKERS), Barrier::new(TAKERS));
            let taken: Vec<bool> = std::thread::scope(|scope| {
                let takers: Vec<_> = (0..TAKERS)
                    .map(|taker| {
                        let (folder, start, end) = (folder.path(), &start, &end);
                        scope.spawn(move || {
                            start.wait();
                            let claim = Claim::take(folder, &format!("job-{taker}"));
                            // Those that hold it do so until all have tried.
                            end.wait();
                            claim.is_ok()
                        })
                    })
                    .collect();
                takers.into_iter().map(|taker| taker.join().unwrap()).collect()
            });
            assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "round {round}: {taken:?}");
            assert!(files(folder.path()).is_empty(), "{:?}", files(folder.path()));
        }
    }

    #[test]
    fn what_is_no_claim_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join(CLAIM), folder.path().join("other"));
        let refused = || {
            let refused = Claim::take(folder.path(), "a").unwrap_err();
            assert!(matches!(refused, ClaimError::Strange { .. }), "{refused}");
            assert!(refused.to_string().contains("remove it"), "{refused}");
        };
        fs::write(&path, "something else").unwrap();
        refused();
        assert_eq!(fs::read(&path).unwrap(), b"something else");
        fs::remove_file(&path).unwrap();
        fs::write(&other, serde_json::to_vec(&holder("a", &host_name())).unwrap()).unwrap();
        symlink(&other, &path).unwrap();
        refused();
        assert!(other.exists() && path.is_symlink());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused();
        assert!(path.is_dir());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("file"), "").unwrap();
        let refused = Claim::take(&outer.path().join("file/below"), "a").unwrap_err();
        assert!(matches!(refused, ClaimError::Folder { .. }), "{refused}");
        assert!(refused.to_string().contains("file/below"), "{refused}");
    }
}
