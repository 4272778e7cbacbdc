//! Where the programs under test are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables of others that programs or processes heed.
const OTHERS: [&str; 9] = [
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "PYTHONHOME",
    "PYTHONPATH",
    "RUST_LOG",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "VIRTUAL_ENV",
];

/// The path that `variable` names, or `otherwise`.
fn named(variable: &str, otherwise: impl FnOnce() -> PathBuf) -> PathBuf {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty());
    let path = value.map_or_else(otherwise, PathBuf::from);
    assert!(path.is_absolute(), "{variable} must be an absolute path, not {}", path.display());
    path
}

/// Runs pytest on `test_it.py` in `folder`: its exit code, and what it printed.
pub fn pytest(folder: &Path) -> (i32, String) {
    let mut pytest = Command::new(python());
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]).current_dir(folder);
    let ended = pytest.output().expect("pytest runs");
    (ended.status.code().expect("it is not killed"), String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// The folder with the programs: `PRS_TEST_BIN_DIR`, or that of the build that these tests are of.
pub fn bin_dir() -> PathBuf {
    let folder = named("PRS_TEST_BIN_DIR", || {
        let tests = std::env::current_exe().expect("this program has a path");
        tests.ancestors().nth(2).expect("tests are in target/PROFILE/deps").to_owned()
    });
    for name in ["prs", "libprs_process.so"] {
        let is_there = folder.join(name).is_file();
        assert!(is_there, "there is no {name} in {}: cargo build --workspace", folder.display());
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
    // Nobody has a configuration there.
    command.env("XDG_CONFIG_HOME", "/dev/null");
    command
}

/// Runs a command on a terminal.
const TERMINAL: &str = include_str!("terminal.py");

/// `command` on a terminal of so many columns.
pub(super) fn on_terminal(columns: u32, command: &Command) -> Command {
    let mut on_terminal = Command::new(python());
    on_terminal.args(["-c", TERMINAL, &columns.to_string()]);
    through(on_terminal, command)
}

/// `command`, where no process may have a mount namespace of its own.
pub(super) fn without_namespaces(command: &Command) -> Command {
    let refuse = "echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$0\" \"$@\"";
    let mut refused = Command::new("unshare");
    refused.args(["--user", "--map-root-user", "sh", "-c", refuse]);
    through(refused, command)
}

/// `starter`, which starts the program of `command` with its arguments and in its environment.
pub(super) fn through(mut starter: Command, command: &Command) -> Command {
    starter.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => starter.env(name, value),
            None => starter.env_remove(name),
        };
    }
    starter
}

/// What a terminal showed, without colours and movements: what it wrote between two returns, each by itself.
pub fn shown_lines(shown: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = shown.chars();
    while let Some(next) = rest.next() {
        match next {
            '\r' | '\n' => lines.push(String::new()),
            // A control sequence ends with a letter.
            '\u{1b}' => _ = rest.by_ref().skip_while(|next| *next == '[').find(char::is_ascii_alphabetic),
            next => lines.last_mut().expect("there is one").push(next),
        }
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// The interpreter for the scripts: `PRS_TEST_PYTHON`, or that of `make install-deps`.
pub fn python() -> PathBuf {
    let path = named("PRS_TEST_PYTHON", || {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.venv/bin/python"))
    });
    assert!(path.is_file(), "there is no file {}: make install-deps", path.display());
    path
}
