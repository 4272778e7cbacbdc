//! A folder for a while, in the temporary folder of the system, that no other user can look into.

use std::path::Path;

use crate::private_folder::{PrivateFolder, PrivateFolderError};
use crate::tree::remove_tree;

/// A private folder; removed when dropped.
#[derive(Debug)]
pub struct TemporaryFolder(PrivateFolder);

impl TemporaryFolder {
    /// Makes a folder whose name begins with `prefix`.
    pub fn make(prefix: &str) -> Result<Self, PrivateFolderError> {
        PrivateFolder::fresh(&std::env::temp_dir(), prefix).map(Self)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_everything_in_it() {
        let folder = TemporaryFolder::make("prs-test-").unwrap();
        let path = folder.path().to_owned();
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
