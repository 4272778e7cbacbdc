//! A folder for a while, in the temporary folder of the system, that no other user can look into.
//!
//! Its program holds a lock on it. The maker of one removes those of the same kind that killed programs of this user left: their
//! locks are free. One that has just been made is not locked yet and may be taken for such a folder; its maker finds that out, for it
//! does not get the lock, or gets it on a folder that is no more where it was, and makes another.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::private_folder::{PrivateFolder, PrivateFolderError};
use crate::tree::remove_tree;

/// Digits behind the prefix of a name.
const DIGITS: usize = 16;

/// A private folder; removed when dropped.
#[derive(Debug)]
pub struct TemporaryFolder(PrivateFolder);

impl TemporaryFolder {
    /// Makes a folder whose name begins with `prefix`, when what killed programs left under such names is removed.
    pub fn make(prefix: &str) -> Result<Self, PrivateFolderError> {
        Self::make_in(&std::env::temp_dir(), prefix)
    }

    fn make_in(parent: &Path, prefix: &str) -> Result<Self, PrivateFolderError> {
        remove_leftovers(parent, prefix);
        loop {
            let folder = PrivateFolder::fresh(parent, prefix)?;
            // Where a file system has no locks for folders, nobody gets one, and what is left stays.
            let is_own = flock(&folder, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK);
            if is_own && folder.is_there() {
                return Ok(Self(folder));
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(self.path()) {
            tracing::warn!(path = %self.path().display(), %error, "a temporary folder is left behind");
        }
    }
}

fn remove_leftovers(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_kind = name
            .to_str()
            .and_then(|name| name.strip_prefix(prefix))
            .is_some_and(|rest| rest.len() == DIGITS && rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let is_own = || entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw());
        if !is_kind || !is_own() {
            continue;
        }
        let Ok(folder) = PrivateFolder::open(&entry.path()) else { continue };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if let Err(error) = remove_tree(folder.path()) {
            tracing::debug!(%error, "what a killed program left stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_everything_in_it() {
        let folder = TemporaryFolder::make("prs-test-").unwrap();
        let path = folder.path().to_owned();
        fs::create_dir_all(path.join("a/b")).unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_program_left_goes_when_another_is_made() {
        let above = tempfile::tempdir().unwrap();
        let at = |name: &str| above.path().join(name);
        let living = TemporaryFolder::make_in(above.path(), "prs-a-").unwrap();
        // A killed program has no lock any more.
        let dead = PrivateFolder::fresh(above.path(), "prs-a-").unwrap().path().to_owned();
        fs::create_dir_all(dead.join("code/deep")).unwrap();
        let kept = ["prs-a-0123", "prs-a-0123456789abcdeg", "prs-b-0123456789abcdef", "target"];
        for name in kept {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("target/file"), "of others").unwrap();
        std::os::unix::fs::symlink("target", at("prs-a-1111111111111111")).unwrap();
        fs::write(at("prs-a-2222222222222222"), "").unwrap();
        let another = TemporaryFolder::make_in(above.path(), "prs-a-").unwrap();
        assert!(!dead.exists() && living.path().exists() && another.path().exists());
        assert!(kept.iter().all(|name| at(name).exists()) && at("target/file").exists());
        assert!(at("prs-a-1111111111111111").is_symlink() && at("prs-a-2222222222222222").exists());
    }

    #[test]
    fn many_that_are_made_at_once_take_none_from_each_other() {
        let above = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let folder = TemporaryFolder::make_in(above.path(), "prs-a-").unwrap();
                        fs::write(folder.path().join("file"), "own").unwrap();
                        assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"own");
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }
}
