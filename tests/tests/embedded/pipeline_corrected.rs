//! Inputs of the steps of a pipeline that are corrected before it goes on: looked at before anything is touched.

use std::fs;

use prs_tests::harness::{Ended, GROUPED, Job};
use serde_json::{Value, json};

/// `score` fails on a bad file. `next` reads what it brought.
const STEPS: &str = "type: pipeline
name: flow
jobs:
  score:
    type: parallel
    mini_batch_size: '2'
    input_data: ${{inputs.i}}
    inputs: {i: {type: uri_folder, path: data}}
    outputs: {rows: {type: uri_file}}
    task: {type: run_function, code: code, entry_script: score.py, append_row_to: '${{outputs.rows}}'}
    mini_batch_error_threshold: 0
    retry_settings: {max_retries: 0}
  next:
    command: 'cat ${{inputs.i}} > ${{outputs.all}}'
    inputs: {i: '${{parent.jobs.score.outputs.rows}}'}
    outputs: {all: {type: uri_file}}
";

const SCORE: &str = "import os
def run(mini_batch):
    for path in mini_batch:
        if 'bad' in open(path).read():
            raise ValueError('a bad file')
    return [os.path.basename(path) + ' ' + open(path).read() for path in mini_batch]
";

/// Names and bytes of all files of the run.
fn all(job: &Job) -> Vec<(Vec<u8>, String)> {
    job.run().files("").into_iter().map(|name| (job.run().bytes(&name), name)).collect()
}

/// Asserts that `resume` refuses the inputs as they are, with these words, and touches nothing.
#[track_caller]
fn is_refused(job: &Job, parts: &[&str]) {
    let before = all(job);
    let ended = job.command(&["resume", "run"]);
    ended.expect_code(2);
    for part in parts {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    assert!(before == all(job), "nothing in the run folder has changed");
}

fn resume(job: &Job) -> Ended {
    job.command(&["resume", "run", "-o", "json"])
}

#[test]
fn a_step_goes_on_with_corrected_inputs_and_with_no_others() {
    let job = Job::new("");
    fs::write(job.path("pipeline.yml"), STEPS).unwrap();
    fs::create_dir_all(job.path("code")).unwrap();
    fs::write(job.path("code/score.py"), SCORE).unwrap();
    for name in ["b", "c", "d", "e", "f", "g"] {
        job.data(name, if name == "e" { "bad" } else { "good" });
    }
    let ended = job.command(&["submit", "pipeline.yml", "--run-dir", "run", "-o", "json"]);
    ended.expect_code(42);

    let then = fs::metadata(job.path("data/c")).unwrap().modified().unwrap();
    job.data("c", "another");
    is_refused(&job, &["step score: ", "/c changed", "mini-batch 0 had it", "prs resubmit"]);
    job.data("c", "evil");
    fs::File::options().write(true).open(job.path("data/c")).unwrap().set_modified(then).unwrap();
    is_refused(&job, &["step score: ", "/c changed", "other content"]);
}

#[test]
fn a_step_keeps_its_rows_where_its_inputs_are_corrected() {
    let job = Job::new("");
    fs::write(job.path("pipeline.yml"), STEPS).unwrap();
    fs::create_dir_all(job.path("code")).unwrap();
    fs::write(job.path("code/score.py"), SCORE).unwrap();
    for name in ["b", "c", "d", "e", "f", "g"] {
        job.data(name, if name == "e" { "bad" } else { "good" });
    }
    let ended = job.command(&["submit", "pipeline.yml", "--run-dir", "run", "-o", "json"]);
    ended.expect_code(42);
    fs::remove_file(job.path("data/d")).unwrap();
    job.data("a", "new");
    job.data("e", "mended");
    let ended = resume(&job);
    ended.expect_code(0);
    assert!(
        ended.stderr.contains("inputs were corrected: 2 mini-batches keep their rows"),
        "{}",
        ended.stderr
    );
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let rows = job.run().text(&format!("steps/{id}-next/output/all"));
    assert_eq!(rows, "a new\nb good\nc good\ne mended\nf good\ng good\n");
    assert_eq!(ended.json()["steps"]["score"]["starts"][0]["mini_batches"], 2, "{}", ended.stdout);
}

fn grouped() -> Job {
    let job = Job::new(GROUPED).with("allowed_failed_count", 5).with("run_max_try", 1);
    job.data("in/1.csv", "k,n\na,1\nb,2\na,3\n");
    job.data("in/2.csv", "k,n\na,4\nbad,5\n");
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/in" }]));
    job.with("partition_keys", json!(["k"]))
}

#[test]
fn rows_that_were_put_together_are_of_the_inputs_as_they_were() {
    let job = grouped();
    let printed = job.submit().json();
    assert_eq!(printed["mini_batches"]["failed"], 1, "{printed}");
    let anew = format!("prs resubmit {}", printed["job_id"].as_str().unwrap());
    let parts = |told| ["step split: the inputs changed", told, &*anew];
    job.data("in/2.csv", "k,n\na,4\nmended,5\n");
    is_refused(&job, &parts("in/2.csv has other content there, and mini-batch 1 had it"));
    job.data("in/2.csv", "k,n\na,4\nbad,5\n");
    job.data("in/3.csv", "k,n\na,6\n");
    is_refused(&job, &parts("in/3.csv"));
    job.data("in/0.csv", "k,n\na,6\n");
    is_refused(&job, &parts("in/0.csv"));
    fs::remove_file(job.path("data/in/3.csv")).unwrap();
    fs::remove_file(job.path("data/in/0.csv")).unwrap();
    // The bytes are those of before, at another time.
    job.script(&GROUPED.replace("raise ValueError", "print"));
    let ended = job.command(&["resume", "run", "--code", "new", "-o", "json"]);
    assert_eq!((ended.code, &ended.json()["last_start"]), (Some(0), &Value::Null), "{}", ended.stderr);
    assert_eq!(job.run().text("output/parallel_run_step.txt"), "a 1\na 3\na 4\nb 2\nbad 5\n");
}

#[test]
fn a_step_that_puts_rows_together_goes_on_where_what_it_has_is_as_it_was() {
    let job = grouped();
    job.data("in/2.csv", b"k,n\na,4\n\xff,5\n");
    job.data("in/3.csv", "k,n\nc,6\n");
    let ended = job.submit();
    assert_eq!((ended.code, &ended.json()["items"]["succeeded"]), (Some(42), &json!(0)), "{}", ended.stderr);
    let first = fs::metadata(job.path("data/in/1.csv")).unwrap().modified().unwrap();
    job.data("in/1.csv", "k,n\na,1\nb,2\na,7\n");
    is_refused(&job, &["step split: ", "in/1.csv has other content there, and mini-batch 0 had it"]);
    job.data("in/1.csv", "k,n\na,1\nb,2\na,3\n");
    fs::File::options().write(true).open(job.path("data/in/1.csv")).unwrap().set_modified(first).unwrap();
    job.data("in/2.csv", "k,n\na,4\nmended,5\n");
    let ended = resume(&job);
    ended.expect_code(0);
    assert_eq!(job.run().text("output/parallel_run_step.txt"), "a 1\na 3\na 4\nb 2\nmended 5\nc 6\n");
}
