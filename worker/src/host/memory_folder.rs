//! A folder in memory for small inputs: making files on a disk takes longer than fetching what is in them.
//!
//! It lies in `/dev/shm`, is this user's alone and locked as the worker's folder is ([`WorkFolder`]): it goes with the job,
//! and what killed programs left there goes when the next one starts. Files in it take memory of the host, or of the
//! container, so they are bounded by what is asked for and by a part of what is free: scripts use the same place.

use std::path::{Path, PathBuf};

use rustix::fs::statfs;

use crate::host::work_folder::{WorkFolder, WorkFolderError, remove_leftovers};

/// Where memory is a file system.
const SHARED_MEMORY: &str = "/dev/shm";
/// What the system calls the file system there.
const TMPFS: i64 = 0x0102_1994;
/// The part of what is free that may be taken.
const SHARE: u64 = 4;
/// Less room than this is none, bytes.
const LEAST: u64 = 1 << 20;

/// A folder in memory; removed when dropped.
#[derive(Debug)]
pub(crate) struct MemoryFolder {
    folder: WorkFolder,
    /// Most bytes to put there.
    pub(crate) bytes: u64,
}

impl MemoryFolder {
    /// Makes one for at most `wanted` bytes; none where the host has no room for it in memory, or where `instead`, the
    /// folder that is used otherwise, lies in memory itself.
    pub(crate) fn open(wanted: u64, instead: &Path) -> Option<Self> {
        if wanted == 0 || free_memory(instead).is_some() {
            return None;
        }
        Self::open_in(Path::new(SHARED_MEMORY), wanted)
    }

    /// The same in a folder of the test's.
    pub(crate) fn open_in(place: &Path, wanted: u64) -> Option<Self> {
        let Some(free) = free_memory(place) else {
            tracing::debug!(place = %place.display(), "there is no memory to put files into; they go to the work folder");
            return None;
        };
        let bytes = room(wanted, free);
        if bytes == 0 {
            tracing::debug!(
                place = %place.display(),
                free,
                "there is too little room in memory for files; they go to the work folder"
            );
            return None;
        }
        let made: Result<_, WorkFolderError> = WorkFolder::open_among_others(place.to_owned());
        match made {
            Ok(folder) => Some(Self { folder, bytes }),
            Err(error) => {
                tracing::info!(%error, "small inputs are not kept in memory");
                None
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path()
    }
}

/// Removes what killed programs of this user left in memory.
pub fn tidy_memory() {
    if free_memory(Path::new(SHARED_MEMORY)).is_some() {
        remove_leftovers(Path::new(SHARED_MEMORY));
    }
}

/// Bytes that are free at `place`, where that is memory.
fn free_memory(place: &Path) -> Option<u64> {
    let system = statfs(place).ok()?;
    // The types differ between architectures.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "not on every architecture")]
    let (kind, block) = (system.f_type as i64, system.f_bsize as u64);
    (kind == TMPFS).then(|| system.f_bavail.saturating_mul(block))
}

/// How many of `free` bytes are taken where so many are wanted.
fn room(wanted: u64, free: u64) -> u64 {
    let room = wanted.min(free / SHARE);
    if room < LEAST { 0 } else { room }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_part_of_what_is_free_is_taken() {
        let table = [
            (256 << 20, 24 << 30, 256 << 20),
            // What a container has unless it is told otherwise.
            (256 << 20, 64 << 20, 16 << 20),
            (256 << 20, 3 << 20, 0),
            (256 << 20, 0, 0),
            (0, 24 << 30, 0),
        ];
        for (wanted, free, expected) in table {
            assert_eq!(room(wanted, free), expected, "{wanted} of {free}");
        }
    }

    #[test]
    fn a_disk_is_no_memory() {
        let disk = Path::new("/proc");
        assert!(MemoryFolder::open_in(disk, 256 << 20).is_none());
        assert!(MemoryFolder::open_in(Path::new("/not/there"), 256 << 20).is_none());
        assert!(MemoryFolder::open(0, disk).is_none());
    }
}
