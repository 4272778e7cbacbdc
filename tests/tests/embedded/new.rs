//! `new`: a job to begin with, which runs as it is.

use std::fs;

use prs_tests::harness::Job;

/// A folder to make jobs in, with an interpreter that has pandas where jobs look for one.
fn anywhere() -> Job {
    let job = Job::new("");
    let python = prs_tests::harness::python();
    let home = python.parent().and_then(|bin| bin.parent()).unwrap().display().to_string();
    job.with_own_variable("VIRTUAL_ENV", &home)
}

#[test]
fn a_new_job_runs_as_it_is() {
    let job = anywhere();
    let rows = "apple.txt: 4 words\nmoon.txt: 6 words\ntide.txt: 3 words\n";
    let tables = "table 120.0 GBP 140.4\nlamp 40.0 EUR 40.0\nchair 55.5 USD 51.06\nlamp 38.0 EUR 38.0\nshelf 75.25 USD 69.23\nchair 49.99 EUR 49.99\n";
    for (name, more, expected) in [("pictures", &[][..], rows), ("deep/er/sales", &["--tabular"], tables)] {
        let made = job.command(&[&["new", name], more].concat());
        made.expect_code(0);
        let next = made.stdout.lines().last().unwrap().strip_prefix("next").unwrap().trim();
        let file = next.strip_prefix("prs submit ").unwrap();
        let run = format!("run-of-{}", made.stdout.len());
        job.command(&["submit", file, "--run-dir", &run]).expect_code(0);
        let result = fs::read_to_string(job.path(&run).join("output/parallel_run_step.txt")).unwrap();
        assert_eq!(result, expected);
    }
}

#[test]
fn nothing_is_overwritten() {
    let job = anywhere();
    fs::create_dir(job.path("mine")).unwrap();
    fs::write(job.path("file"), "mine").unwrap();
    for (name, told) in [
        ("mine", "mine exists already"),
        ("file", "file exists already"),
        ("file/below", "cannot make file"),
        ("Bad_Name", "\"Bad_Name\" is not a job name"),
        ("..", "\"\" is not a job name"),
    ] {
        let refused = job.command(&["new", name]);
        refused.expect_code(2);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    assert_eq!(fs::read_dir(job.path("mine")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(job.path("file")).unwrap(), "mine");
}
