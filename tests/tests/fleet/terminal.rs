//! Terminals of other widths: one that is resized while a job runs, and tables that fit.

use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, HOLDS, Job, shown_lines};
use rustix::process::Signal;

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Columns of the lines about a job that runs, in the order in which they were drawn.
fn running(shown: &str) -> Vec<usize> {
    let lines = shown_lines(shown);
    lines.iter().filter(|line| line.contains("running 0:")).map(|line| line.chars().count()).collect()
}

#[test]
fn a_terminal_that_is_resized_shows_lines_of_its_new_width() {
    let job = Job::new(HOLDS).with_files(4).with("run_invocation_timeout", 600);
    let file = job.write_job_file().display().to_string();
    let mut submit = job.start_on_terminal(100, &["submit", &file]);
    let is_wide = |columns: &usize| *columns > 50;
    wait_for("a line of the first width", PATIENCE, || {
        running(&submit.stdout()).iter().any(is_wide).then_some(())
    });
    assert!(submit.signal(Signal::USR1));
    wait_for("lines of the new width", PATIENCE, || {
        let lines = running(&submit.stdout());
        (lines.iter().rev().take_while(|columns| !is_wide(columns)).count() > 5).then_some(())
    });
    job.mark("go");
    let ended = submit.wait();
    ended.expect_code(0);
    let lines = running(&ended.stdout);
    // What was drawn before is not taken back; from the first line that fits on, all do.
    assert!(!lines.iter().skip_while(|columns| is_wide(columns)).any(is_wide), "{lines:?}\n{}", ended.stdout);
}

#[test]
fn tables_fit_the_terminal() {
    let job =
        Job::new("def run(mini_batch):\n    raise ValueError('no answer from a server with a long name')\n");
    let job = job.with_files(4);
    let file = job.write_job_file().display().to_string();
    job.command(&["submit", &file]).expect_code(42);
    for width in [40, 80, 120] {
        let listed = job.start_on_terminal(width, &["list"]).wait();
        listed.expect_code(0);
        let lines = shown_lines(&listed.stdout);
        assert_eq!(lines.len(), 2, "a heading and a job: {lines:?}");
        assert!(lines[1].contains("failed"), "{lines:?}");
        for line in lines {
            assert!(line.chars().count() <= width as usize, "{width}: {line:?}");
        }
    }
}

#[test]
fn workers_fit_the_terminal() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(HOLDS));
    let _worker = fleet.worker(&job, &["--name", "a-worker"]);
    for width in [40, 80, 120] {
        let lines = wait_for("the worker", PATIENCE, || {
            let shown = job.start_on_terminal(width, &["workers"]).wait();
            let lines = shown_lines(&shown.stdout);
            (lines.len() == 2).then_some(lines)
        });
        assert!(lines[1].starts_with("a-worker-") && lines[1].contains(" idle"), "{lines:?}");
        assert_eq!(lines[0].contains("HOST"), width > 40, "{lines:?}");
        for line in lines {
            assert!(line.chars().count() <= width as usize, "{width}: {line:?}");
        }
    }
}
