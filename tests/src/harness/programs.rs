//! Where the programs under test are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn named(variable: &str, what: &str) -> PathBuf {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty());
    let path = PathBuf::from(value.unwrap_or_else(|| panic!("{variable} is not set: it names {what}")));
    assert!(path.is_absolute(), "{variable} must be an absolute path, not {}", path.display());
    path
}

/// The folder with the programs.
pub fn bin_dir() -> PathBuf {
    let what = "the folder with prs-producer and libprs_process.so; build both before these tests run";
    let folder = named("PRS_TEST_BIN_DIR", what);
    for name in ["prs-producer", "libprs_process.so"] {
        assert!(folder.join(name).is_file(), "PRS_TEST_BIN_DIR: there is no {name} in {}", folder.display());
    }
    folder
}

/// `prs-producer`.
pub fn producer() -> PathBuf {
    bin_dir().join("prs-producer")
}

/// The interpreter for the scripts.
pub fn python() -> PathBuf {
    let path = named("PRS_TEST_PYTHON", "a Python interpreter that has pandas and numpy");
    assert!(path.is_file(), "PRS_TEST_PYTHON: there is no file {}", path.display());
    path
}

/// What `code` writes to standard output when it runs by itself, in `folder`: the expected bytes where Python's
/// own libraries decide.
pub fn expected_by_python(folder: &Path, code: &str) -> Vec<u8> {
    let output =
        Command::new(python()).args(["-c", code]).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
