//! The names of the program: `prs`, and the two that become it.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use prs_tests::harness::bin_dir;

/// Runs a program with these arguments, without a fleet.
fn run(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    for variable in ["PRS_BROKER_URL", "PRS_REDIS_URL", "PRS_STORAGE_URL", "PRS_LOG"] {
        command.env_remove(variable);
    }
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn expect(output: &Output, code: i32, parts: &[&str]) {
    let said =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not said:\n{said}");
    }
}

#[test]
fn each_name_is_the_one_that_usage_and_errors_have() {
    let program = |name: &str| bin_dir().join(name);
    expect(&run(&program("prs"), &["submit"]), 2, &["Usage: prs submit", "<JOB_FILE>"]);
    expect(&run(&program("prs-producer"), &["submit"]), 2, &["Usage: prs-producer submit", "<JOB_FILE>"]);
    expect(&run(&program("prs"), &["worker", "--help"]), 0, &["Usage: prs worker", "--exit-when-idle"]);
    expect(&run(&program("prs-worker"), &["--help"]), 0, &["Usage: prs-worker", "--exit-when-idle"]);
    expect(&run(&program("prs-worker"), &["status"]), 2, &["'status'", "Usage: prs-worker"]);
    for name in ["prs", "prs-producer", "prs-worker"] {
        expect(&run(&program(name), &["--version"]), 0, &[env!("CARGO_PKG_VERSION")]);
    }
}

#[test]
fn a_worker_is_the_same_under_both_names() {
    let [called, named] = [(bin_dir().join("prs"), &["worker"][..]), (bin_dir().join("prs-worker"), &[])]
        .map(|(program, first)| {
            let ended = run(&program, &[first, &["--broker", "amqp://host/prs"]].concat());
            expect(&ended, 2, &["PRS_REDIS_URL", "PRS_STORAGE_URL"]);
            String::from_utf8(ended.stderr).unwrap()
        });
    let without_time = |line: &str| line.split_once(' ').unwrap().1.to_owned();
    assert_eq!(without_time(&called), without_time(&named));
}

#[test]
fn another_name_becomes_the_program_in_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("node");
    symlink(bin_dir().join("prs-worker"), &link).unwrap();
    expect(&run(&link, &["--help"]), 0, &["Usage: prs-worker"]);

    let alone = folder.path().join("prs-worker");
    // By another program: what a test forks meanwhile would hold it open to be written, and nobody runs such a file.
    let copied = Command::new("cp").args([&bin_dir().join("prs-worker"), &alone]).status().unwrap();
    assert!(copied.success());
    let missing = format!("{}/prs: No such file", folder.path().display());
    expect(&run(&alone, &[]), 127, &["prs-worker is another name of prs", &missing]);
}
