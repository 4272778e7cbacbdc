//! Folders that this program holds open, by their paths.
//!
//! Run folders, folders of workers, caches and outputs have an owner in this program. It opens its folder before a script runs,
//! through the links that a person has put above it, and holds it as long as it is in use. Paths below then lead down from the
//! folder that was opened, even when something else has its name meanwhile.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::{OpenFolder, PASSED};

/// The folders that are held; of several with one path the last one counts.
static HELD: LazyLock<RwLock<HashMap<PathBuf, Vec<Arc<OpenFolder>>>>> = LazyLock::new(RwLock::default);

/// A folder that is held open until this is dropped: each path below it leads down from it.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    folder: Arc<OpenFolder>,
}

impl Held {
    /// Holds the folder at `path`, which must be there.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::of(path, root(path)?))
    }

    /// Holds `folder`, which was opened at `path`.
    pub fn of(path: &Path, folder: Arc<OpenFolder>) -> Self {
        let path = absolute(path);
        let mut held = HELD.write().unwrap_or_else(PoisonError::into_inner);
        held.entry(path.clone()).or_default().push(Arc::clone(&folder));
        Self { path, folder }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Arc<OpenFolder> {
        &self.folder
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = HELD.write().unwrap_or_else(PoisonError::into_inner);
        let Some(folders) = held.get_mut(&self.path) else { return };
        if let Some(at) = folders.iter().rposition(|folder| Arc::ptr_eq(folder, &self.folder)) {
            folders.remove(at);
        }
        if folders.is_empty() {
            held.remove(&self.path);
        }
    }
}

/// Opens the folder at `path`: the one that is held, or what a held one has there, or the one that a person names. Others are
/// reached through it; it cannot be listed itself.
pub fn root(path: &Path) -> io::Result<Arc<OpenFolder>> {
    match nearest(path, 0) {
        Some((folder, rest)) if rest.as_os_str().is_empty() => Ok(folder),
        Some((folder, rest)) => folder.opened(&rest, PASSED).map(Arc::new),
        None => OpenFolder::follow(path).map(Arc::new),
    }
}

/// The same, with the folders that are missing made.
pub fn make_root(path: &Path) -> io::Result<Arc<OpenFolder>> {
    match nearest(path, 0) {
        Some((folder, rest)) if rest.as_os_str().is_empty() => Ok(folder),
        Some((folder, rest)) => folder.made(&rest, PASSED).map(Arc::new),
        None => {
            make_all(path)?;
            OpenFolder::follow(path).map(Arc::new)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a person names it, and links are followed")]
fn make_all(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// The folder that is held nearest above `path`, with its own path.
pub fn holder(path: &Path) -> Option<(PathBuf, Arc<OpenFolder>)> {
    let (folder, rest) = nearest(path, 0)?;
    let above = absolute(path).ancestors().nth(rest.components().count())?.to_owned();
    Some((above, folder))
}

/// The folder that is held nearest above `path`, or at least `above` folders above it, and the path from there.
pub(super) fn nearest(path: &Path, above: usize) -> Option<(Arc<OpenFolder>, PathBuf)> {
    let path = absolute(path);
    let held = HELD.read().unwrap_or_else(PoisonError::into_inner);
    for folder in path.ancestors().skip(above) {
        let Some(found) = held.get(folder).and_then(|folders| folders.last()) else { continue };
        let rest = path.strip_prefix(folder).unwrap_or(Path::new(""));
        // A path that leads up again is a person's.
        if super::names(rest).is_ok() {
            return Some((Arc::clone(found), rest.to_owned()));
        }
    }
    None
}

/// A relative path counts from the present folder; where that is gone, none is held.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tree;

    #[test]
    fn paths_lead_down_from_what_is_held() {
        let scene = tempfile::tempdir().unwrap();
        let at = |path: &str| scene.path().join(path);
        fs::create_dir_all(at("real/run/work")).unwrap();
        fs::create_dir_all(at("others/work")).unwrap();
        fs::write(at("others/work/file"), "of others").unwrap();
        // A link above it is the person's.
        symlink("real", at("runs")).unwrap();
        let run = at("runs/run");
        let held = Held::open(&run).unwrap();
        tree::write(run.join("work/file"), b"own").unwrap();
        assert_eq!(fs::read(at("real/run/work/file")).unwrap(), b"own");

        fs::rename(at("real/run"), at("real/away")).unwrap();
        symlink(at("others"), at("real/run")).unwrap();
        tree::remove_file(run.join("work/file")).unwrap();
        tree::make_folders(run.join("work/new/deep")).unwrap();
        tree::write(run.join("work/new/file"), b"own").unwrap();
        assert!(!at("real/away/work/file").exists() && at("real/away/work/new/file").exists());
        tree::remove_tree(run.join("work")).unwrap();
        assert!(!at("real/away/work").exists());
        assert!(root(&run.join("work")).is_err() && Arc::ptr_eq(&root(&run).unwrap(), held.folder()));
        assert_eq!(fs::read(at("others/work/file")).unwrap(), b"of others");
        assert_eq!(fs::read_dir(at("others/work")).unwrap().count(), 1);

        // It is nobody's any more: the path is what a person says.
        drop(held);
        tree::remove_tree(run.join("work")).unwrap();
        assert!(!at("others/work").exists());
    }

    #[test]
    fn the_last_of_one_path_counts_and_none_is_left() {
        let scene = tempfile::tempdir().unwrap();
        let path = scene.path().join("folder");
        fs::create_dir(&path).unwrap();
        let first = Held::open(&path).unwrap();
        let same = Held::open(&path).unwrap();
        assert!(Arc::ptr_eq(first.folder(), same.folder()));
        drop(same);
        fs::rename(&path, scene.path().join("before")).unwrap();
        fs::create_dir(&path).unwrap();
        let other = Held::of(&path, Arc::new(OpenFolder::follow(&path).unwrap()));
        tree::write(path.join("file"), b"").unwrap();
        assert!(path.join("file").exists() && !scene.path().join("before/file").exists());
        drop(other);
        tree::write(path.join("first"), b"").unwrap();
        assert!(scene.path().join("before/first").exists());
        drop(first);
        assert!(nearest(&path.join("file"), 0).is_none());
        // What leads up again is not below it.
        let _held = Held::open(&path).unwrap();
        tree::write(path.join("../beside"), b"").unwrap();
        assert!(scene.path().join("beside").exists());
    }
}
