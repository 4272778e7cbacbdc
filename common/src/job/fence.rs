//! Local paths of a job that comes as a text, from a caller who may not look around on this machine: they stay in the folders
//! that came with it.
//!
//! Reading a job turns what it says into paths in many places, and reads some of them: components, requirements, tables. So a
//! fence stands around one whole reading, which runs on one thread, and every path passes it where it is made. What lies
//! outside is noted, is not read, and is then all that is said of the job: other messages might tell what is there.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::near_path::LONGEST_PATH;

/// A path that nothing has.
pub(super) const NOWHERE: &str = "/dev/null/outside";

thread_local! {
    static FENCE: RefCell<Option<Fence>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
struct Fence {
    /// Without links.
    folders: Vec<PathBuf>,
    outside: Vec<Outside>,
    led_to: Vec<LedTo>,
    /// Where each path stands in `led_to`.
    places: HashMap<PathBuf, usize>,
    /// The entries of `outside`.
    told: HashSet<String>,
}

/// A path that was made, wherever it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LedTo {
    /// It.
    pub(super) path: PathBuf,
    /// As the job has it.
    pub(super) given: String,
    pub(super) purpose: Purpose,
}

/// What a path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be read as it is.
    Data,
    /// To be packed as code.
    Code,
    /// To be written.
    Output,
}

/// A path that leads outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outside {
    /// As the job has it.
    pub(super) given: String,
}

/// Does `read` within `folders`, and tells which paths lead out of them, each once.
pub(super) fn around<T>(folders: &[PathBuf], read: impl FnOnce() -> T) -> (T, Vec<Outside>) {
    let (done, fence) = within(folders, read);
    (done, fence.map(|fence| fence.outside).unwrap_or_default())
}

/// Does `read` within `folders`, and tells all paths that were made, each once.
pub(super) fn led_to<T>(folders: &[PathBuf], read: impl FnOnce() -> T) -> Vec<LedTo> {
    within(folders, read).1.map(|fence| fence.led_to).unwrap_or_default()
}

fn within<T>(folders: &[PathBuf], read: impl FnOnce() -> T) -> (T, Option<Fence>) {
    let folders = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    let former = FENCE.replace(Some(Fence { folders, ..Fence::default() }));
    let done = read();
    (done, FENCE.replace(former))
}

/// Says what `path`, which was made, is for.
pub(super) fn is_for(path: &Path, purpose: Purpose) {
    FENCE.with_borrow_mut(|fence| {
        if let Some(fence) = fence
            && let Some(place) = fence.places.get(path)
        {
            fence.led_to[*place].purpose = purpose;
        }
    });
}

/// Whether there is one.
pub(super) fn is_up() -> bool {
    FENCE.with_borrow(Option::is_some)
}

/// Notes where `path`, which the job has as `given`, leads outside; false then.
pub(super) fn pass(path: &Path, given: &str) -> bool {
    FENCE.with_borrow_mut(|fence| {
        let Some(fence) = fence else { return true };
        let is_inside = fence.has(path);
        if path == Path::new(NOWHERE) {
            return false;
        }
        if !fence.places.contains_key(path) {
            fence.places.insert(path.to_owned(), fence.led_to.len());
            let (path, given) = (path.to_owned(), given.to_owned());
            fence.led_to.push(LedTo { path, given, purpose: Purpose::Data });
        }
        if !is_inside && fence.told.insert(given.to_owned()) {
            fence.outside.push(Outside { given: given.to_owned() });
        }
        is_inside
    })
}

impl Fence {
    fn has(&self, path: &Path) -> bool {
        // Of what is not there the folder counts that is; `..` behind that leads anywhere.
        let mut shorter = path.ancestors().skip_while(|path| path.as_os_str().len() > LONGEST_PATH);
        let Some(there) = shorter.find(|ancestor| ancestor.symlink_metadata().is_ok()) else {
            return false;
        };
        let (Ok(place), Ok(rest)) = (there.canonicalize(), path.strip_prefix(there)) else { return false };
        let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain && self.folders.iter().any(|folder| place.starts_with(folder))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_leads_outside_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("in/a")).unwrap();
        fs::create_dir(path("also")).unwrap();
        fs::create_dir(path("out")).unwrap();
        symlink(path("out"), path("in/link")).unwrap();
        symlink(path("nowhere"), path("in/dangling")).unwrap();
        let table = [
            ("in", true),
            ("in/a/new/file", true),
            ("in/a/../a", true),
            ("also/x", true),
            ("in/*.csv", true),
            ("out", false),
            ("inside", false),
            ("in/..", false),
            ("in/new/../../out", false),
            ("in/link/x", false),
            ("in/dangling", false),
            ("", false),
        ];
        let folders = [path("in"), path("also")];
        let (passed, outside) = around(&folders, || table.map(|(name, _)| pass(&path(name), name)));
        assert_eq!(passed, table.map(|(_, expected)| expected));
        let told: Vec<&str> = outside.iter().map(|one| &*one.given).collect();
        let expected: Vec<&str> = table.iter().filter(|(_, inside)| !inside).map(|(name, _)| *name).collect();
        assert_eq!(told, expected);
        assert!(!is_up() && pass(&path("out"), "out"), "it stands around one reading");
    }
}
