//! A Python that runs beside the tests of a program and tells what its libraries make of something.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::json;

use super::copy_folder;
use super::programs::python;
use super::servers::Supervised;

/// Imports what takes long once, and forks for each request.
const ORACLE: &str = include_str!("oracle.py");

struct Oracle {
    folder: PathBuf,
    made: Mutex<BTreeSet<String>>,
    _process: Supervised,
}

impl Oracle {
    fn shared() -> &'static Self {
        static SHARED: LazyLock<Oracle> = LazyLock::new(Oracle::start);
        &SHARED
    }

    fn start() -> Self {
        // Removed when the test process ends, as a static is not dropped.
        let folder = tempfile::Builder::new().prefix("prs-oracle-").tempdir().unwrap().keep();
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        let mut command = Command::new(python());
        // Threads of a numeric library would not be in the forks.
        command
            .args(["-c", ORACLE])
            .env("OPENBLAS_NUM_THREADS", "1")
            .stdin(Stdio::from(OwnedFd::from(listener)));
        let process = Supervised::start(command, Some(&folder)).unwrap();
        Self { folder, made: Mutex::default(), _process: process }
    }

    fn run(&self, folder: &Path, code: &str) -> Vec<u8> {
        let mut connection = UnixStream::connect(self.folder.join("socket")).unwrap();
        writeln!(connection, "{}", json!({ "folder": folder, "code": code })).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        let said = answer.split_off(answer.len().min(1));
        assert_eq!(answer, [0], "{}", String::from_utf8_lossy(&said));
        said
    }
}

/// What `code` writes to standard output when it runs by itself, in `folder`: the expected bytes where Python's
/// own libraries decide.
pub fn expected_by_python(folder: &Path, code: &str) -> Vec<u8> {
    Oracle::shared().run(folder, code)
}

/// Puts into `folder` what `make` puts into an empty one. It runs once for all tests of a program that give this name.
pub fn made_once(name: &str, folder: &Path, make: impl FnOnce(&Path)) {
    let oracle = Oracle::shared();
    let kept = oracle.folder.join(name);
    let mut names = oracle.made.lock().unwrap_or_else(PoisonError::into_inner);
    if !names.contains(name) {
        // A test that failed may have left half of it.
        let _ = std::fs::remove_dir_all(&kept);
        std::fs::create_dir(&kept).unwrap();
        make(&kept);
        names.insert(name.to_owned());
    }
    drop(names);
    copy_folder(&kept, folder);
}
