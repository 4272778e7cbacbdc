//! `init()` that fails, dies or blocks (spec S6).

use std::time::Duration;

use prs_tests::deadline::Stopwatch;
use prs_tests::harness::Job;

fn job(init: &str) -> Job {
    let script = format!(
        r#"
import os, time
from marks import mark, count, wait_for

def init():
    mark("init", os.getpid())
    {init}

def run(mini_batch):
    return [os.path.basename(path) for path in mini_batch]
"#
    );
    Job::new(&script).with_files(8)
}

#[test]
fn an_init_that_always_fails_ends_the_job_with_its_error() {
    let job = job("raise ValueError('no model here')");
    let ended = job.submit();
    job.has_failed(&ended, &["init()", "no model here"]);
    // Three failures in a row for each of the two processes; one more may be under way by then.
    let attempts = job.marks("init").len();
    assert!((6..=8).contains(&attempts), "{attempts} attempts");
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    assert!(
        job.run().logs("user/error/0", ".txt").contains("ValueError: no model here"),
        "{}",
        job.run().story()
    );
}

#[test]
fn an_init_that_kills_its_process_ends_the_job() {
    job("os.kill(os.getpid(), 9)").fails(&["init()", "returncode -9"]);
}

#[test]
fn an_init_that_fails_twice_and_then_succeeds_does_no_harm() {
    let job = job("if count('init') < 3: raise OSError('not yet')").with("process_count_per_node", 1);
    job.completes();
    assert_eq!(job.run().rows().len(), 8);
    assert_eq!(job.marks("init").len(), 3);
    let main = job.run().text("logs/sys/node/0/_main.txt");
    assert_eq!(main.matches("not yet").count(), 2, "every failure is in the node's log:\n{main}");
}

#[test]
fn a_process_that_cannot_start_leaves_the_work_to_the_others() {
    // The first process never gets through; the second does all the work. Its name tells which it is: both may
    // be in init() before either can count.
    let job = job("from azureml_user.parallel_run import EntryScript\n    \
         if EntryScript().agent_name == 'process000': mark('blocked'); wait_for('released')\n    \
         else: wait_for('blocked')");
    let ended = job.submit();
    job.has_completed(&ended);
    assert_eq!(job.run().rows().len(), 8);
    assert!(ended.took < Duration::from_secs(30), "the end waits for nobody's init(): {:?}", ended.took);
}

#[test]
fn an_init_that_blocks_everywhere_ends_the_job_in_time_and_shows_where_it_was() {
    let job = job("import threading; threading.Thread(target=wait_for, args=['never'], daemon=True).start(); time.sleep(1000)")
        .with("run_invocation_timeout", 1);
    let ended = job.submit();
    let place = "code/main.py:7 in init";
    let result = job
        .has_failed(&ended, &["init()", "33 s", "run_invocation_timeout", place, "user/error/0/process00"]);
    let limit = Duration::from_secs(33);
    assert!(ended.took > limit && ended.took < limit + Duration::from_secs(7), "{:?}", ended.took);
    assert_eq!(result["errors"][0]["category"], "Timeout", "{result}");

    let errors = job.command(&["errors", &job.run().path().display().to_string()]).stdout;
    let code = job.path("code/main.py").display().to_string();
    for part in [
        "Timeout: init() took longer than 3 * run_invocation_timeout + 30 (33 s)",
        "  2 processes did not start; node 0\n",
        place,
        "wait_for",
        &format!("File \"{code}\", line 7 in init"),
    ] {
        assert!(errors.contains(part), "{part:?} is not in\n{errors}");
    }
    let main = job.run().text("logs/sys/node/0/_main.txt");
    assert_eq!(main.matches(" starts (pid ").count(), 2, "none is killed before the job ends:\n{main}");
}

#[test]
fn a_job_that_blocks_in_init_can_be_interrupted() {
    let job = job("time.sleep(1000)");
    let mut submit = job.start_submit(&[]);
    submit.wait_until("both processes in init()", || job.marks("init").len() == 2);
    let watch = Stopwatch::start();
    submit.interrupt();
    let ended = submit.wait();
    ended.expect_code(130);
    assert!(watch.elapsed() < Duration::from_secs(2), "{:?}", watch.elapsed());
    job.has_left_nothing();
}

#[test]
fn a_process_that_hangs_while_others_work_is_replaced_and_counts_as_a_failure() {
    let script = r"
import os, time
from azureml_user.parallel_run import EntryScript

def hang():
    time.sleep(1000)

def init():
    if EntryScript().agent_name == 'process000': hang()

def run(mini_batch):
    time.sleep(0.5)
    return [EntryScript().agent_name for path in mini_batch]
";
    let job = Job::new(script).with_files(84).with("mini_batch_size", 1).with("run_invocation_timeout", 1);
    let ended = job.submit();
    let result = job.has_completed(&ended);
    assert_eq!(result["items"]["succeeded"], 84);
    let rows = job.run().rows();
    assert!(rows.iter().any(|row| row == "process002"), "the process in its place works");
    assert!(!rows.iter().any(|row| row == "process000"));
    let main = job.run().text("logs/sys/node/0/_main.txt");
    let told = "code/main.py:6 in hang: init() took longer than 33 s; it is replaced";
    assert!(main.contains(told), "{main}");
    let traceback = job.run().text("logs/user/error/0/process000.txt");
    assert!(traceback.contains("Timeout") && traceback.contains("in hang"), "{traceback}");
    let errors = job.command(&["errors", &job.run().path().display().to_string()]).stdout;
    assert!(errors.contains("1 process did not start"), "{errors}");
}
