//! The pages that a newcomer reads first, done as they say: docs/first-job.md and docs/my-job-failed.md.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use prs_tests::harness::{bin_dir, python};

const FIRST_JOB: &str = include_str!("../../../docs/first-job.md");
const MY_JOB_FAILED: &str = include_str!("../../../docs/my-job-failed.md");

/// The blocks of code of this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fenced = page.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// What a page shows below a command.
#[track_caller]
fn shown<'a>(page: &'a str, command: &str) -> Vec<&'a str> {
    let block = blocks(page, "").into_iter().find(|block| block.starts_with(&format!("$ {command}")));
    block.unwrap_or_else(|| panic!("{command} is not shown")).lines().skip(1).collect()
}

/// Types a command; what it prints, and its exit code.
fn type_in(folder: &Path, command: &str) -> (String, Option<i32>) {
    let path = format!("{}:{}:/usr/bin:/bin", bin_dir().display(), python().parent().unwrap().display());
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{command} 2>&1")]).current_dir(folder).stdin(Stdio::null());
    let output = shell.env_clear().env("PATH", path).env("HOME", folder).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

/// A line without the id of its job and where its folder is: they differ from run to run.
fn masked(line: &str, folder: &str) -> String {
    let line = line.replace(folder, "/home/you/first");
    let parts = line.split("count-2");
    parts
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { &part["0261122-132128-8996".len()..] })
        .collect()
}

#[test]
fn the_first_job_runs_fails_and_is_resumed_as_the_pages_say() {
    let folder = tempfile::tempdir().unwrap();
    let (made, code) = type_in(folder.path(), blocks(FIRST_JOB, "sh")[0]);
    assert_eq!(code, Some(0), "{made}");
    let first = folder.path().join("first").canonicalize().unwrap();
    fs::write(first.join("code/count.py"), blocks(FIRST_JOB, "python")[0]).unwrap();
    fs::write(first.join("job.yml"), blocks(FIRST_JOB, "yaml")[0]).unwrap();

    let (said, code) = type_in(&first, "prs submit job.yml");
    assert_eq!(code, Some(0), "{said}");
    let cat = "cat prs-runs/*/output/parallel_run_step.txt";
    let (rows, _) = type_in(&first, cat);
    assert_eq!(rows.lines().collect::<Vec<_>>(), shown(FIRST_JOB, cat));
    let (said, code) = type_in(&first, "prs try job.yml");
    assert!(code == Some(0) && said.contains("\nok\n"), "{said}");

    let number = fs::read_to_string(first.join("data/3.txt")).unwrap();
    fs::write(first.join("data/3.txt"), format!("{number}seven\n")).unwrap();
    let (said, code) = type_in(&first, "prs submit job.yml");
    assert_eq!(code, Some(10), "{said}");
    let here = first.display().to_string();
    let said: Vec<String> = said.lines().map(|line| masked(line, &here)).collect();
    for line in shown(MY_JOB_FAILED, "prs submit job.yml").into_iter().filter(|line| *line != "...") {
        let line = masked(line, &here);
        assert!(said.contains(&line), "{line:?} is not said:\n{}", said.join("\n"));
    }
    let (said, code) = type_in(&first, "prs try @latest --failed");
    assert!(code == Some(42) && said.contains("invalid literal for int() with base 10: 'seven'"), "{said}");

    let script = fs::read_to_string(first.join("code/count.py")).unwrap();
    let script = script.replace("total += int(line)", "total += int(line) if line.isdigit() else 0");
    fs::write(first.join("code/count.py"), script).unwrap();
    let (said, code) = type_in(&first, "prs resume @latest --code new");
    assert!(code == Some(0) && said.contains("2 mini-batches are done already"), "{said}");
}
