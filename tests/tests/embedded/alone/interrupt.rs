//! Ctrl-C and SIGTERM: the program ends within two seconds, leaves nothing running, and `resume` goes on.

use std::time::Duration;

use prs_tests::deadline::{Stopwatch, wait_for};
use prs_tests::harness::{Job, RunFolder};
use rustix::process::Signal;
use serde_json::json;

/// Longest time from the signal to the end of the program.
const LIMIT: Duration = Duration::from_secs(2);
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Holds the mini-batches from the tenth on until the mark `go`.
const HOLDS: &str = r#"
import os
from marks import mark, wait_for, is_marked

def run(mini_batch, context):
    mark("ran", context.minibatch_index)
    if context.minibatch_index >= 10:
        mark("held")
        wait_for("go")
    return [f"{context.minibatch_index} {os.path.basename(path)}" for path in mini_batch]
"#;

fn job() -> Job {
    Job::new(HOLDS).with_files(60).with("run_invocation_timeout", 600)
}

fn expected() -> Vec<String> {
    (0..60).map(|number| format!("{} {number:04}.txt", number / 2)).collect()
}

fn interrupted_by(signal: Signal) {
    let job = job();
    let mut submit = job.start_submit(&[]);
    submit.wait_until("ten mini-batches that are done and two that are held", || {
        let report = job.run().text_so_far("logs/sys/job_report/processed_mini-batches.csv");
        job.marks("held").len() == 2 && report.matches("RUN_DONE").count() == 10
    });
    let watch = Stopwatch::start();
    assert!(submit.signal(signal));
    let ended = submit.wait();
    assert!(watch.elapsed() < LIMIT, "{:?}", watch.elapsed());
    ended.expect_code(130);
    job.has_left_nothing();
    assert!(job.run().first_line().starts_with("canceled: interrupted"), "{}", job.run().first_line());
    let printed = ended.json();
    assert_eq!(printed["state"], "canceled");
    let done = printed["mini_batches"]["succeeded"].as_u64().unwrap();
    assert_eq!(done, 10, "what is finished is kept: {printed}");
    let segments = RunFolder::new(job.run().path()).files("segments");
    assert!(!segments.is_empty(), "what is finished is kept");

    job.mark("go");
    let printed = job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), expected());
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 30, "succeeded": 30, "failed": 0 }));
    for index in 0..10 {
        let times = job.marks("ran").iter().filter(|ran| **ran == index.to_string()).count();
        assert_eq!(times, 1, "mini-batch {index} was done before");
    }
}

#[test]
fn ctrl_c_ends_a_job_and_resume_goes_on() {
    interrupted_by(Signal::INT);
}

#[test]
fn sigterm_ends_a_job_and_resume_goes_on() {
    interrupted_by(Signal::TERM);
}

#[test]
fn the_second_ctrl_c_ends_the_program_at_once() {
    let job = job();
    let mut submit = job.start_submit(&[]);
    submit.wait_until("two mini-batches that are held", || job.marks("held").len() == 2);
    submit.interrupt();
    // It may have ended by the first already.
    submit.signal(Signal::INT);
    let watch = Stopwatch::start();
    submit.wait().expect_code(130);
    assert!(watch.elapsed() < LIMIT);
    job.soon_leaves_nothing();
    job.mark("go");
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), expected());
}

#[test]
fn ctrl_c_works_from_the_first_moment_on() {
    // While the processes are still starting; and before anything is known to the user but the folder. No
    // mini-batch ends before the interrupt, so the job cannot have completed by then.
    let job = job();
    let mut submit = job.start_submit(&[]);
    submit.wait_until("a run folder", || job.run().path().join("job.json").exists());
    submit.interrupt();
    let watch = Stopwatch::start();
    let ended = submit.wait();
    assert!(watch.elapsed() < LIMIT, "{:?}", watch.elapsed());
    ended.expect_code(130);
    job.has_left_nothing();
    // Also where nothing of it had begun.
    let told = job.command(&["status", "run", "-o", "json"]).json();
    assert_eq!(told["state"], "canceled", "{told}");
    assert!(told["reason"].as_str().unwrap().contains("interrupted (Ctrl-C)"), "{told}");
    job.mark("go");
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), expected());
}

#[test]
fn a_script_that_ignores_every_signal_is_ended_too() {
    let script = r#"
import signal
from marks import mark

def run(mini_batch):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
    mark("held")
    while True:
        pass
"#;
    let job = Job::new(script).with_files(4);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("both processes at work", || job.marks("held").len() == 2);
    let watch = Stopwatch::start();
    submit.interrupt();
    submit.wait().expect_code(130);
    assert!(watch.elapsed() < LIMIT, "{:?}", watch.elapsed());
    job.has_left_nothing();
}

#[test]
fn ctrl_c_ends_a_job_that_is_finalizing_and_resume_goes_on() {
    const MINI_BATCHES: usize = 20;
    const FILES_EACH: usize = 150;
    let script = format!(
        r#"
import os
from azureml_user.parallel_run import EntryScript
from marks import mark

def run(mini_batch, context):
    mark("ran", context.minibatch_index)
    for number in range({FILES_EACH}):
        with open(os.path.join(EntryScript().output_dir, f"{{context.minibatch_index}}-{{number}}"), "w") as file:
            file.write(f"{{context.minibatch_index}} {{number}}")
    return [os.path.basename(path) for path in mini_batch]
"#
    );
    let job = Job::new(&script).with_files(2 * MINI_BATCHES).with("output", "place");
    let place = RunFolder::new(job.path("place"));
    let job = job.with_own_variable("PRS_FAILPOINT", "file_published:100:stop");
    let mut submit = job.start_submit(&[]);
    wait_for("the first published files", PATIENCE, || submit.is_stopped().then_some(()));
    submit.interrupt();
    let watch = Stopwatch::start();
    assert!(submit.signal(Signal::CONT));
    let ended = submit.wait();
    assert!(watch.elapsed() < LIMIT, "{:?}", watch.elapsed());
    ended.expect_code(130);
    job.has_left_nothing();
    let published = place.files("").len();
    assert!(published < MINI_BATCHES * FILES_EACH, "{published} files: it was finalizing no more");
    assert!(job.run().first_line().starts_with("canceled: interrupted"), "{}", job.run().first_line());
    let all = json!({ "scheduled": MINI_BATCHES, "succeeded": MINI_BATCHES, "failed": 0 });
    assert_eq!(ended.json()["mini_batches"], all);

    let job = job.with_own_variable("PRS_FAILPOINT", "");
    let printed = job.has_completed(&job.resume());
    assert_eq!(printed["mini_batches"], all);
    let rows: Vec<_> = (0..2 * MINI_BATCHES).map(|number| format!("{number:04}.txt")).collect();
    assert_eq!(place.text("parallel_run_step.txt"), rows.join("\n") + "\n");
    let names = place.files("");
    assert_eq!(names.len(), MINI_BATCHES * FILES_EACH + 1, "no file twice, no temporary file");
    for name in names.iter().filter(|name| *name != "parallel_run_step.txt") {
        assert_eq!(place.text(name), name.replace('-', " "));
    }
    assert_eq!(job.marks("ran").len(), MINI_BATCHES, "nothing ran again");
}
