//! Where the programs under test are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variables of others that programs or processes heed.
const OTHERS: [&str; 7] = [
    "CUDA_VISIBLE_DEVICES",
    "PYTHONHOME",
    "PYTHONPATH",
    "RUST_LOG",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "VIRTUAL_ENV",
];

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

/// A command of one of the programs. What is tested must not depend on where: nothing in its environment says how
/// prs or its servers are to be used.
pub(super) fn program(name: &str) -> Command {
    let mut command = Command::new(bin_dir().join(name));
    for (name, _) in std::env::vars_os() {
        let is_ours = ["PRS_", "AWS_"].iter().any(|start| name.to_string_lossy().starts_with(start));
        if is_ours || OTHERS.iter().any(|other| name == *other) {
            command.env_remove(name);
        }
    }
    command.env("AZ_BATCHAI_GPU_COUNT_FOUND", "0");
    command
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
