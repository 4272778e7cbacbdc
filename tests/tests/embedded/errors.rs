//! The commands that show why something failed: `errors`, and the logs by the names that messages give them.

use prs_tests::harness::{Ended, Job};
use rustix::process::Signal;
use serde_json::json;

/// Every file but the first cannot be parsed, each with another message; one mini-batch is cured by its second try.
const FAILS: &str = r#"
import os

def parse(path):
    if "0000" not in path:
        raise ValueError(f"cannot parse {os.path.basename(path)}")
    return path

def run(mini_batch, context):
    if context.minibatch_index == 3:
        if context.retry_count == 0:
            raise OSError("flaky disk")
        return mini_batch
    return [parse(path) for path in mini_batch]
"#;

fn fails() -> Job {
    Job::new(FAILS).with_files(4).with("mini_batch_size", 1).with("run_max_try", 2)
}

fn submitted(job: &Job) -> Ended {
    let file = job.write_job_file().display().to_string();
    job.command(&["submit", &file, "--run-dir", "run"])
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn errors_are_grouped_by_the_line_that_raised_them() {
    let job = fails();
    submitted(&job).expect_code(10);
    let errors = job.command(&["errors", "run"]);
    errors.expect_code(0);
    let code = job.path("code/main.py").display().to_string();
    says(
        &errors.stdout,
        &[
            "ValueError: cannot parse 000",
            "  4 tries failed, 2 mini-batches lost (2 items); node 0; other messages differ\n",
            "  code/main.py:6 in parse: raise ValueError(f\"cannot parse {os.path.basename(path)}\")\n",
            "  for example mini-batch mb-000000000",
            ": logs/user/error/0/process00",
            "    Traceback (most recent call last):\n",
            &format!("      File \"{code}\", line 6, in parse\n"),
            "\nOSError: flaky disk\n  1 try failed, nothing lost; node 0\n",
        ],
    );
    assert!(errors.stdout.starts_with("ValueError"), "what costs most comes first: {}", errors.stdout);
    assert_eq!(errors.stdout.matches("Traceback").count(), 2, "{}", errors.stdout);

    let printed = job.command(&["errors", "run", "-o", "json"]).json();
    assert_eq!((&printed["schema"], &printed["failed_tries"]), (&json!(1), &json!(5)));
    let first = &printed["errors"][0];
    assert_eq!((&first["frame"]["file"], &first["frame"]["line"]), (&json!(code), &json!(6)));
    assert_eq!((&first["tries"], &first["items_lost"], &first["nodes"]), (&json!(4), &json!(2), &json!([0])));
    assert_eq!(first["example"]["is_lost"], true);

    let items = job.command(&["errors", "run", "--items"]);
    let data = |name: &str| job.path("data").join(name).display().to_string() + "\n";
    assert_eq!(items.stdout, data("0001.txt") + &data("0002.txt"));
    let listed = job.command(&["errors", "run", "--items", "-o", "json"]).json();
    assert_eq!(listed["mini_batches"][1]["minibatch_index"], 2);
    // The logs and tracebacks name files that are there.
    says(&job.run().logs("user/error/0", ".txt"), &[&format!("File \"{code}\", line 6")]);
}

#[test]
fn errors_of_a_job_that_goes_on_are_shown() {
    let script = r#"
from marks import mark, wait_for
def run(mini_batch, context):
    if context.minibatch_index == 0:
        raise ValueError("no good")
    mark("waits")
    wait_for("go")
    return mini_batch
"#;
    let job = Job::new(script).with_files(4).with("run_max_try", 1);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("the error of a job that runs", || {
        job.command(&["errors", "run"])
            .stdout
            .contains("ValueError: no good\n  1 try failed, 1 mini-batch lost")
    });
    let items = job.command(&["errors", "run", "--items"]);
    assert_eq!(items.stdout.lines().count(), 2, "{}", items.stdout);
    job.mark("go");
    job.has_completed(&submit.wait());
    assert_eq!(job.command(&["errors", "run", "--items"]).stdout, items.stdout);
}

#[test]
fn a_job_without_errors_says_so() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_files(2);
    job.completes();
    let errors = job.command(&["errors", "run"]);
    errors.expect_code(0);
    assert!(errors.stdout.is_empty() && errors.stderr.contains("has no error"), "{errors:?}");
    assert_eq!(job.command(&["errors", "run", "--items"]).stdout, "");
    job.command(&["errors", "elsewhere"]).expect_code(2);
}

#[test]
fn failures_of_init_are_errors_too() {
    let job =
        Job::new("def init():\n    raise RuntimeError('no CUDA')\ndef run(mini_batch):\n    return []\n");
    let job = job.with_files(2);
    let ended = submitted(&job);
    ended.expect_code(42);
    let code = job.path("code/main.py").display().to_string();
    says(&ended.stdout, &["RuntimeError: no CUDA\n", "code/main.py:2 in init", "prs errors run"]);
    says(
        &job.run().text("logs/job_error.txt"),
        &["INIT_EXCEPTION RuntimeError: no CUDA", "main.py:2 in init"],
    );
    let errors = job.command(&["errors", "run"]);
    let traceback =
        format!("    Traceback (most recent call last):\n      File \"{code}\", line 2, in init\n");
    says(&errors.stdout, &["did not start; node 0\n", &traceback]);
    // The log that a message names can be printed by that name.
    let name = errors.stdout.split("logs/user/error/").nth(1).unwrap().lines().next().unwrap();
    for prefix in ["logs/user/error/", "user/error/", "./logs/user/error/"] {
        let log = job.command(&["logs", "run", "--file", &format!("{prefix}{name}")]);
        log.expect_code(0);
        says(&log.stdout, &["RuntimeError: no CUDA"]);
    }
    job.command(&["logs", "run", "--file", "logs/none.txt"]).expect_code(2);
}

#[test]
fn logs_of_processes_that_had_errors_are_printed() {
    let script = r#"
import sys
def run(mini_batch, context):
    print("printed", context.minibatch_index)
    print("complained", file=sys.stderr)
    if context.minibatch_index == 0:
        raise ValueError("no good")
    return mini_batch
"#;
    let job = Job::new(script).with_files(4).with("run_max_try", 1).with("process_count_per_node", 1);
    job.completes();
    let failed = job.command(&["logs", "run", "--failed"]);
    failed.expect_code(0);
    says(
        &failed.stdout,
        &["==> logs/user/error/0/process000.txt <==\n", "ValueError: no good", "printed 0", "complained"],
    );
    let listed = job.command(&["logs", "run", "--failed", "-o", "json"]).json();
    assert_eq!(listed["logs"].as_array().unwrap().len(), 3);
    let fine = Job::new("def run(mini_batch):\n    return mini_batch\n").with_files(2);
    fine.completes();
    let none = fine.command(&["logs", "run", "--failed"]);
    assert!(none.stdout.is_empty() && none.stderr.contains("no process"), "{none:?}");
}

#[test]
fn logs_are_followed_to_the_end() {
    let script = r#"
from marks import wait_for
def run(mini_batch, context):
    print("looking at", context.minibatch_index)
    if context.minibatch_index == 1:
        wait_for("go")
        print("gone")
    return mini_batch
"#;
    let job = Job::new(script).with_files(4).with("process_count_per_node", 1).with("mini_batch_size", 2);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("a log", || job.run().logs("user/stdout/0", ".txt").contains("looking at 1"));
    let one = job.start(&["logs", "run", "-f", "--file", "0/process000.stdout"]);
    let [mut all, mut left] = [(); 2].map(|()| job.start(&["logs", "run", "--follow"]));
    for follower in [&mut all, &mut left] {
        follower.wait_until_printed("[0/process000.stdout] looking at 1\n");
    }
    assert!(left.signal(Signal::INT));
    left.wait().expect_code(130);
    job.mark("go");
    let submitted = submit.wait();
    let one = one.wait();
    one.expect_code(0);
    assert_eq!(one.stdout, "looking at 0\nlooking at 1\ngone\n");
    let all = all.wait();
    all.expect_code(0);
    says(
        &all.stdout,
        &["[0/process000.stdout] looking at 0\n", "[0/process000.stdout] gone\n", "[master_role] "],
    );
    job.has_completed(&submitted);
}

/// Where it was, in the terminal, in the list and in the reports.
#[track_caller]
fn says_where(job: &Job, parts: &[&str]) {
    let ended = submitted(job);
    ended.expect_code(10);
    says(&ended.stdout, parts);
    let errors = job.command(&["errors", "run"]);
    says(&errors.stdout, parts);
    let code = job.path("code/main.py").display().to_string();
    says(&errors.stdout, &[&format!("    File \"{code}\", line 5 in stay\n"), "(most recent call first)"]);
    assert!(!errors.stdout.contains("parallel_run/process.py"), "{}", errors.stdout);
    assert!(job.run().tries().iter().filter(|row| row["Status"] != "RUN_DONE").count() == 1);
}

/// Mini-batch 1 does `$body` in a function of its own.
fn stays(body: &str) -> Job {
    let script = format!(
        "import os, signal, time, re\n\ndef stay():\n    # Not here.\n    {body}\n\n\
         def run(mini_batch, context):\n    if context.minibatch_index == 1:\n        stay()\n    return mini_batch\n"
    );
    Job::new(&script).with_files(4).with("run_max_try", 1)
}

#[test]
fn a_timeout_tells_where_it_struck() {
    for body in ["time.sleep(1000)", "re.match(r'(a+)+$', 'a' * 60 + 'b')"] {
        let job = stays(body).with("run_invocation_timeout", 1);
        says_where(
            &job,
            &[
                "Timeout: run() took longer than run_invocation_timeout (1 s)",
                &format!("code/main.py:5 in stay: {body}\n"),
            ],
        );
    }
}

#[test]
fn a_crash_tells_where_it_happened() {
    for (body, signal) in [("os.kill(os.getpid(), signal.SIGSEGV)", 11), ("os.abort()", 6)] {
        let died = format!("ProcessDied: the process was killed by signal {signal} (returncode -{signal})");
        says_where(&stays(body), &[&died, &format!("code/main.py:5 in stay: {body}\n")]);
    }
}
