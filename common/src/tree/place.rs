//! A folder that is known by its name, though a script may replace it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Kind, OpenFolder, Seen};

/// A folder that is known by its name in the one above it: a script may take it away, and make another one.
#[derive(Debug)]
pub struct Place {
    above: Arc<OpenFolder>,
    name: OsString,
    folder: OpenFolder,
    seen: Seen,
}

impl Place {
    /// Opens the folder at `path` and its parent. Makes the folder where it is not there.
    pub fn make(path: &Path) -> io::Result<Self> {
        let (above, name) = super::above(path)?;
        Self::make_in(above, name)
    }

    /// Makes the folder `name` in `above`, where it is not there.
    pub fn make_in(above: impl Into<Arc<OpenFolder>>, name: &OsStr) -> io::Result<Self> {
        let above = above.into();
        let folder = above.make(Path::new(name))?;
        let seen = folder.seen()?;
        Ok(Self { above, name: name.to_owned(), folder, seen })
    }

    /// Returns the folder as it was opened last.
    pub fn folder(&self) -> &OpenFolder {
        &self.folder
    }

    /// Returns its time of change, unless another folder has its name by now. Costs one system call.
    pub fn changed(&self) -> io::Result<Option<(i64, i64)>> {
        let seen = self.above.look_at(&self.name)?;
        Ok(seen.filter(|seen| seen.identity == self.seen.identity).map(|seen| seen.changed))
    }

    /// Opens the folder that has the name now, or makes one. The inner error describes anything else that has the name.
    pub fn refresh(&mut self) -> io::Result<Result<(), &'static str>> {
        match self.above.look_at(&self.name)? {
            Some(seen) if seen.identity == self.seen.identity => {}
            Some(Seen { kind: Kind::Other(what), .. }) => return Ok(Err(what)),
            Some(Seen { kind: Kind::File, .. }) => return Ok(Err("a file")),
            Some(Seen { kind: Kind::Folder, .. }) | None => {
                self.folder = self.above.make(Path::new(&self.name))?;
                self.seen = self.folder.seen()?;
            }
        }
        Ok(Ok(()))
    }

    /// Removes the file or link that has its name.
    pub fn clear(&self) -> io::Result<()> {
        self.above.remove_file(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_stands_in_its_place_is_seen_and_never_followed() {
        let scene = tempfile::tempdir().unwrap();
        let path = scene.path().join("place");
        let mut place = Place::make(&path).unwrap();
        assert!(place.changed().unwrap().is_some());
        assert_eq!(place.refresh().unwrap(), Ok(()));
        fs::create_dir(scene.path().join("others")).unwrap();
        fs::remove_dir(&path).unwrap();
        symlink("others", &path).unwrap();
        assert_eq!(place.changed().unwrap(), None);
        assert_eq!(place.refresh().unwrap(), Err("a symbolic link"));
        place.clear().unwrap();
        assert_eq!(place.refresh().unwrap(), Ok(()));
        assert!(path.is_dir() && scene.path().join("others").is_dir());
        // The script may move its folder away, and make another one.
        fs::rename(&path, scene.path().join("away")).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(place.changed().unwrap(), None);
        assert_eq!(place.refresh().unwrap(), Ok(()));
        fs::write(path.join("file"), "").unwrap();
        assert_eq!(place.folder().entries().unwrap().len(), 1);
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(place.refresh().unwrap(), Err("a file"));
    }
}
