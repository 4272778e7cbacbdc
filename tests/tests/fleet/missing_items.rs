//! Nothing is lost in silence: items that are missing from a result, with cause and next command (spec E7, E10, S12).

use std::fs;
use std::path::PathBuf;

use prs_tests::harness::{Ended, Fleet, Job};
use serde_json::json;

/// Mini-batch 1 raises until the mark `cure`, and of mini-batch 2 one element is left out; mini-batch 3 raises once.
const LOSES: &str = r#"
import os
from marks import is_marked, mark

def parse(path):
    raise ValueError(f"cannot parse {os.path.basename(path)}")

def run(mini_batch, context):
    index = context.minibatch_index
    mark("ran", index)
    if index == 3 and context.retry_count == 0:
        raise OSError("flaky disk")
    if not is_marked("cure"):
        if index == 1:
            parse(mini_batch[context.retry_count % 2])
        if index == 2:
            return mini_batch[1:]
    return [os.path.basename(path) for path in mini_batch]
"#;

fn loses() -> Job {
    Job::new(LOSES).with_files(8).with("run_max_try", 2)
}

/// Submits as a person does: the text of both streams is read.
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
fn the_end_of_a_job_says_what_is_missing_and_why() {
    let job = loses();
    let ended = submitted(&job);
    ended.expect_code(10);
    let list = job.run().path().join("output/failed_mini_batches.jsonl").display().to_string();
    says(
        &ended.stdout,
        &[
            "state         completed, but 3 of 8 items are missing from the result\n",
            &format!("missing       items of 2 of 4 mini-batches: {list}\n"),
            "tries         3 failed; later tries made 1 of them good\n",
            "ValueError: cannot parse 0003.txt\n    2 tries failed, 1 mini-batch lost (2 items)\n    code/main.py:6 in parse: raise ValueError(",
            "ReturnedTooFew: run() returned 1 element for 2 items\n    1 item missing in 1 mini-batch\n    code/main.py:8 in run: def run(mini_batch, context):\n",
            "OSError: flaky disk\n    1 try failed, nothing lost\n    code/main.py:12 in run: raise OSError(\"flaky disk\")\n",
            "  prs errors run               tracebacks and items\n",
            "  prs try run --failed --pdb   the first of these mini-batches here, in a debugger\n",
            "  prs resume run               runs 2 mini-batches again\n",
        ],
    );
    says(&ended.stderr, &["items are missing (exit code 10:", "error_threshold"]);
    let text = job.run().text("logs/job_result.txt");
    assert!(text.starts_with("completed: 3 of 8 items are missing from the result\n"), "{text}");
    says(&text, &["3 failed; later tries made 1 of them good", "ReturnedTooFew", "main.py:6 in parse)"]);

    // The same later, by any command that asks.
    let status = job.command(&["status", "run"]);
    status.expect_code(0);
    assert_eq!(status.stdout, ended.stdout);
    let status = job.command(&["status", "run", "-o", "json"]).json();
    assert_eq!((&status["complete"], &status["failures_allowed"]), (&json!(false), &json!(false)));
    assert_eq!(status["tries"], json!({ "failed": 3, "made_good": 1 }));
    assert_eq!(status["errors"].as_array().unwrap().len(), 3);
    assert_eq!(job.command(&["result", "run", "-o", "json"]).json()["complete"], false);
    says(&job.command(&["result", "run"]).stdout, &["3 of 8 items are missing from the result"]);

    // A mini-batch that lacks items runs again as one that failed does.
    let ran = job.marks("ran").len();
    job.mark("cure");
    let resumed = job.command(&["resume", "run"]);
    resumed.expect_code(0);
    assert!(!resumed.stdout.contains("missing") && resumed.stdout.contains("state         completed\n"));
    assert_eq!(job.run().rows(), (0..8).map(|number| format!("{number:04}.txt")).collect::<Vec<_>>());
    let mut again = job.marks("ran")[ran..].to_vec();
    again.sort();
    assert_eq!(again, ["1", "2"]);
    assert!(job.run().failed_mini_batches().is_empty());
    let done = job.command(&["resume", "run", "-o", "json"]);
    done.expect_code(0);
    says(&done.stderr, &["the job has completed already; no item is missing"]);
    assert_eq!(done.json()["complete"], true);
}

#[test]
fn a_threshold_in_the_job_file_allows_what_it_allows() {
    let ended = loses().with("error_threshold", "3").submit();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json()["complete"], false);
    // On the command line as well.
    let job = loses();
    let ended = job.start_submit(&["--set", "error_threshold=-1"]).wait();
    assert_eq!(job.has_completed(&ended)["complete"], false);
}

#[test]
fn too_many_elements_are_told() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch + mini_batch\n").with_files(30);
    let ended = submitted(&job);
    ended.expect_code(0);
    says(
        &ended.stdout,
        &["note          run() returned 60 elements for 30 items, in 15 mini-batches; all of them are in"],
    );
}

#[test]
fn rows_that_cannot_be_read_are_missing() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_tables(&[3, 3]);
    job.data("001.csv", "id,name,value\n1,a,1\n2,b,2,what,is,this\n");
    let ended = submitted(&job);
    ended.expect_code(10);
    says(&ended.stdout, &["missing from the result", "1 mini-batch lost", "001.csv"]);
}

#[test]
fn a_fleet_says_the_same() {
    let fleet = Fleet::apart();
    let output = PathBuf::from("out");
    let job = fleet.job(loses()).with("output", output.display().to_string());
    let _worker = fleet.worker(&job, &["--slots", "2"]);
    let file = job.write_job_file().display().to_string();
    let ended = job.command(&["submit", &file]);
    ended.expect_code(10);
    let listed = job.path("out/failed_mini_batches.jsonl");
    assert_eq!(fs::read_to_string(&listed).unwrap().lines().count(), 2);
    let code = job.path("code/main.py").display().to_string();
    says(
        &ended.stdout,
        &[
            "completed, but 3 of 8 items are missing from the result\n",
            &format!("missing       items of 2 of 4 mini-batches: {}\n", listed.display()),
            "    code/main.py:6 in parse: raise ValueError(",
            "  prs errors test-job-",
        ],
    );
    let id = ended.stdout.lines().find_map(|line| line.strip_prefix("job ")).unwrap().trim().to_owned();
    let errors = job.command(&["errors", &id]);
    errors.expect_code(0);
    says(
        &errors.stdout,
        &["Traceback (most recent call last)", &format!("File \"{code}\", line 6, in parse")],
    );
    let items = job.command(&["errors", &id, "--items"]);
    assert_eq!(items.stdout.lines().count(), 4, "{}", items.stdout);
    job.mark("cure");
    let resumed = job.command(&["resume", &id, "-o", "json"]);
    resumed.expect_code(0);
    assert_eq!(resumed.json()["complete"], true);
}
