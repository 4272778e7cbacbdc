//! Which file or folder was probably meant by a path that does not exist.

use std::fs;
use std::path::{Path, PathBuf};

use super::near_name::edits;

/// Entries of a folder that are looked at, at most.
const MOST: usize = 10_000;

/// Bytes of a path that Linux looks up, at most.
pub(super) const LONGEST_PATH: usize = 4095;

/// `: did you mean ...?`, or nothing where no entry beside the missing one has a similar name.
pub(super) fn hint(path: &Path) -> String {
    nearest(path).map(|near| format!(": did you mean {}?", near.display())).unwrap_or_default()
}

/// `path` with the first part of it that is not there replaced by the most similar one that is.
fn nearest(path: &Path) -> Option<PathBuf> {
    if path.as_os_str().len() > LONGEST_PATH {
        return None;
    }
    // The last ancestor of a relative path is empty: the current folder.
    let parts = path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists());
    let missing = parts.last()?;
    let (folder, name) = (missing.parent()?, missing.file_name()?.to_str()?);
    let allowed = (name.chars().count() / 3).max(1);
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names = fs::read_dir(listed).ok()?.take(MOST).flatten().map(|entry| entry.file_name());
    let near = names
        .filter_map(|name| name.into_string().ok())
        .map(|candidate| (edits(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        // Of equals the first in the alphabet, whatever the order on disk.
        .min()?;
    let below = path.strip_prefix(missing).ok()?;
    let meant = folder.join(near.1).join(below);
    // Without the end that joining nothing leaves.
    Some(meant.components().collect()).filter(|meant: &PathBuf| meant.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("data/left")).unwrap();
        fs::write(path("main.py"), "").unwrap();
        for (given, meant) in [
            ("dta", Some("data")),
            ("Data", Some("data")),
            ("dta/left", Some("data/left")),
            ("data/lfet", Some("data/left")),
            ("mian.py", Some("main.py")),
            ("dta/right", None),
            ("pictures", None),
            ("x", None),
            ("data", None),
            (&"x/".repeat(LONGEST_PATH), None),
        ] {
            let expected = meant.map(|meant| format!(": did you mean {}?", path(meant).display()));
            assert_eq!(hint(&path(given)), expected.unwrap_or_default(), "{given}");
        }
        assert_eq!(hint(Path::new("Cargo.tml")), ": did you mean Cargo.toml?", "in the current folder");
    }
}
