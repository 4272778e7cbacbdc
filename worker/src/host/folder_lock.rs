//! The file by whose lock a worker holds a folder.

use std::fs::File;

use prs_common::private_folder::PrivateFolder;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

/// The file that is locked.
pub(crate) const LOCK: &str = ".lock";

/// Locks the file in `folder`, which is made where it is not there, until it is dropped; nothing when another program has
/// it locked.
pub(crate) fn lock_in(folder: &PrivateFolder) -> Result<Option<File>, Errno> {
    let how = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = File::from(openat(folder, LOCK, how, Mode::RUSR | Mode::WUSR)?);
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        locked => locked.map(|()| Some(lock)),
    }
}
