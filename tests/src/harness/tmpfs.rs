//! A small file system of its own: for a disk that gets full, for a folder that cannot be removed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted tmpfs; unmounted when dropped, also by a panic.
#[derive(Debug)]
pub struct Tmpfs {
    path: PathBuf,
    /// Where it is mounted, if it made that place itself.
    folder: Option<tempfile::TempDir>,
}

impl Tmpfs {
    /// Mounts one of this size, in the words of `mount` (`4m`). Needs the right to mount.
    pub fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let mut mounted = Self::mount_on(&path, size);
        mounted.folder = Some(folder);
        mounted
    }

    /// Mounts one on a folder that is there.
    pub fn mount_on(path: &Path, size: &str) -> Self {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(path)
            .output()
            .unwrap();
        let why = String::from_utf8_lossy(&mounted.stderr);
        assert!(mounted.status.success(), "this is tested on a tmpfs, which root can mount: {why}");
        Self { path: path.to_owned(), folder: None }
    }

    /// Its root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills it to the last byte.
    pub fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.path.join("ballast");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [1 << 16, 1 << 10, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a process that is being ended may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
