//! `partition_keys` over columns of the data, as a user works with such a job: it is one job to every command.

use std::fs;

use prs_tests::harness::{Fleet, Job};
use serde_json::{Value, json};

/// Gives back the key, the input's path, and the rows of each group.
const GROUPS: &str = "
import os
from marks import mark

def run(mini_batch, context):
    mark('run')
    if 'bad' in mini_batch['k'].tolist() and not os.environ.get('MENDED'):
        raise ValueError('a bad group')
    key = context.partition_key_value['k']
    return [f'{key} {row.n} {os.path.basename(context.dataset.path)}' for row in mini_batch.itertuples()]
";

const ROWS: &str = "a 1 in\na 3 in\na 4 in\nb 2 in\nb 5 in\n";

fn job() -> Job {
    let job = Job::new(GROUPS);
    job.data("in/1.csv", "k,n\na,1\nb,2\na,3\n");
    job.data("in/2.csv", "k,n\na,4\nb,5\n");
    job.with("inputs", json!([{ "type": "tabular", "path": "data/in" }])).with("partition_keys", json!(["k"]))
}

/// One that lacks a group after its first start.
fn lacking() -> Job {
    let job = job().with("allowed_failed_count", 5).with("run_max_try", 1);
    job.data("in/2.csv", "k,n\na,4\nbad,5\n");
    job
}

fn rows(job: &Job) -> String {
    job.run().text("output/parallel_run_step.txt")
}

#[test]
fn it_is_shown_with_the_settings_that_it_was_given_and_its_steps() {
    let job = job().with("run_max_try", 2);
    let file = job.write_job_file().display().to_string();
    let validated = job.command(&["validate", &file]);
    validated.expect_code(0);
    for part in [
        "mini-batches  not planned: its rows are put together by partition_keys first",
        "run() is there",
        "ok",
    ] {
        assert!(validated.stdout.contains(part), "{part}: {}", validated.stdout);
    }
    assert!(!validated.stdout.contains("split"), "{}", validated.stdout);
    let validated = job.command(&["validate", &file, "-o", "json"]).json();
    assert_eq!((&validated["mini_batches"], &validated["steps"]), (&Value::Null, &Value::Null));
    let printed = job.command(&["try", &file, "--mini-batch", "0", "--pytest"]);
    printed.expect_code(0);
    let named = format!("(\"input_1\", \"tabular\", \"{}\")", job.path("data/in").display());
    assert!(printed.stdout.contains(&named), "{named}: {}", printed.stdout);
    job.submit().expect_code(0);
    assert_eq!(rows(&job), ROWS);
    let shown = job.command(&["show", "run"]);
    for part in [
        "partition_keys:",
        "data/in",
        "run_max_try: 2",
        "-split  # completed",
        "-run  # completed, after group",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    assert!(!shown.stdout.contains("ipeline"), "{}", shown.stdout);
    // What is shown is a job file with the same plan.
    fs::write(job.path("shown.yml"), &shown.stdout).unwrap();
    job.command(&["submit", "shown.yml", "--run-dir", "again", "--set", "allow_reuse=false"]).expect_code(0);
    assert_eq!(fs::read_to_string(job.path("again/output/parallel_run_step.txt")).unwrap(), ROWS);
    let shown = job.command(&["show", "run", "-o", "json"]).json();
    assert_eq!(shown["spec"]["partition_keys"], json!(["k"]));
    let states: Vec<&Value> = shown["steps"].as_array().unwrap().iter().map(|step| &step["state"]).collect();
    assert_eq!(states, ["completed"; 3]);
    for command in [&["status", "run"][..], &["errors", "run"], &["list", "--runs", "."]] {
        let ended = job.command(command);
        assert!(!ended.stdout.contains("ipeline"), "{command:?}: {}", ended.stdout);
    }
    assert!(!job.run().text("logs/job_result.txt").contains("ipeline"));
}

#[test]
fn a_group_of_a_job_file_is_tried_without_a_job() {
    let job = job();
    job.write_job_file();
    for (more, index, expected) in [
        (&[][..], 0, &["a 1 in", "a 3 in", "a 4 in"][..]),
        (&["--mini-batch", "1"], 1, &["b 2 in", "b 5 in"]),
    ] {
        let tried = job.command(&[&["try", "job.yml", "-o", "json"], more].concat());
        tried.expect_code(0);
        let told = tried.json();
        assert_eq!((&told["minibatch_index"], &told["first_rows"]), (&json!(index), &json!(expected)));
        assert!(tried.stderr.contains("5 rows put together\n"), "{}", tried.stderr);
    }
    assert!(!job.path("run").exists() && !job.path("prs-runs").exists());
    let refused = job.command(&["try", "job.yml", "--mini-batch", "2"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("the job has 2 mini-batches"), "{}", refused.stderr);
    let refused = job.command(&["try", "job.yml", "--item", "data/in/1.csv:1"]);
    refused.expect_code(2);
    assert!(
        refused.stderr.contains("put together by partition_keys: give --mini-batch N"),
        "{}",
        refused.stderr
    );
}

#[test]
fn other_settings_and_code_hold_for_what_is_left() {
    let job = lacking();
    let ended = job.submit();
    assert_eq!(ended.json()["mini_batches"]["failed"], 1, "{}", ended.stderr);
    let refused = job.command(&["resume", "run", "--set", "partition_keys=[\"n\"]"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("partition_keys"), "{}", refused.stderr);
    let ended =
        job.command(&["resume", "run", "--set", "run_max_try=3", "--set", "node_count=2", "-o", "json"]);
    assert_eq!(ended.json()["mini_batches"]["failed"], 1, "{}", ended.stderr);
    // Three more tries of the one group.
    assert_eq!(job.marks("run").len(), 3 + 3);
    let shown = job.command(&["show", "run", "-o", "json"]).json();
    assert_eq!((&shown["spec"]["run_max_try"], &shown["spec"]["node_count"]), (&json!(3), &json!(2)));
    job.script(&GROUPS.replace("raise ValueError", "print"));
    let undecided = job.command(&["resume", "run"]);
    undecided.expect_code(2);
    assert!(undecided.stderr.contains("say which code runs the rest"), "{}", undecided.stderr);
    job.command(&["resume", "run", "--code", "new"]).expect_code(0);
    assert_eq!(rows(&job), "a 1 in\na 3 in\na 4 in\nb 2 in\nbad 5 in\n");
    // It ran by itself: the steps before have nothing left to do.
    assert_eq!(job.marks("run").len(), 3 + 3 + 1);
}

#[test]
fn it_is_submitted_again_with_its_code_and_other_settings() {
    let job = job();
    job.submit().expect_code(0);
    job.script("def run(mini_batch):\n    raise ValueError('not this one')\n");
    job.command(&["resubmit", "run", "--run-dir", "other", "--set", "run_max_try=7"]).expect_code(0);
    assert_eq!(fs::read_to_string(job.path("other/output/parallel_run_step.txt")).unwrap(), ROWS);
    assert_eq!(job.command(&["show", "other", "-o", "json"]).json()["spec"]["run_max_try"], 7);
}

#[test]
fn the_output_of_a_former_job_is_given_at_once() {
    let job = job().with("allow_reuse", true);
    // What was changed just now is not known for certain.
    let old = std::time::SystemTime::now() - std::time::Duration::from_mins(10);
    for name in ["data/in/1.csv", "data/in/2.csv"] {
        fs::File::options().write(true).open(job.path(name)).unwrap().set_modified(old).unwrap();
    }
    job.write_job_file();
    let submit =
        |more: &[&str]| job.command(&[&["submit", "job.yml", "--runs", "runs", "-o", "json"], more].concat());
    let first = submit(&[]);
    first.expect_code(0);
    let runs = job.marks("run").len();
    let second = submit(&[]);
    second.expect_code(0);
    let told = second.json();
    assert_eq!(told["reused_from"], first.json()["job_id"], "{}", second.stderr);
    assert_eq!((job.marks("run").len(), &told["items"]["succeeded"]), (runs, &json!(2)));
    assert_eq!(fs::read_to_string(told["output"]["file"].as_str().unwrap()).unwrap(), ROWS);
    let id = told["job_id"].as_str().unwrap();
    let refused = job.command(&["try", id, "--runs", "runs"]);
    assert!(refused.stderr.contains("ran nothing: it was given the output of job"), "{}", refused.stderr);
    // It gives its output on, and can be run anew.
    let third = submit(&[]).json();
    assert!(third["reused_from"].is_string());
    let again = job.command(&["resubmit", id, "--runs", "runs", "-o", "json"]);
    again.expect_code(0);
    assert_eq!((job.marks("run").len(), &again.json()["reused_from"]), (runs * 2, &Value::Null));
    // Another setting is another job.
    let job = job.with("partition_keys", json!(["n"]));
    job.write_job_file();
    let other = job.command(&["submit", "job.yml", "--runs", "runs", "-o", "json"]).json();
    assert_eq!((&other["reused_from"], &other["mini_batches"]["scheduled"]), (&Value::Null, &json!(5)));
}

#[test]
fn a_key_that_no_json_record_has_fails_the_job_and_one_that_some_lack_does_not() {
    let job = job().with("run_max_try", 1);
    fs::remove_dir_all(job.path("data/in")).unwrap();
    job.data("in/1.jsonl", "{\"k\": \"a\", \"n\": 1}\n");
    job.data("in/2.jsonl", "{\"n\": 2}\n");
    let refused = job.with("partition_keys", json!(["kk"]));
    let ended = refused.submit();
    ended.expect_code(42);
    let reason = ended.json()["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains(r#"no record has the key "kk" of partition_keys: they have "k", "n""#),
        "{reason}"
    );
    fs::remove_dir_all(refused.path("run")).unwrap();
    let job = refused.with("partition_keys", json!(["k"]));
    job.script("def run(mini_batch, context):\n    return [str(context.partition_key_value['k'])]\n");
    job.submit().expect_code(0);
    assert_eq!(rows(&job), "a\nNone\n");
}

#[test]
fn large_keys_are_exact_where_a_value_is_missing() {
    let job = Job::new(
        "def run(mini_batch, context):\n    return [f\"{context.partition_key_value['k']} {mini_batch['n'].tolist()}\"]\n",
    );
    job.data("in/1.csv", "k,n\n9007199254740993,1\n,2\n9007199254740992,3\n");
    // Without anything missing the column is one of whole numbers.
    job.data("in/2.csv", "k,n\n9007199254740993,4\n");
    let job = job
        .with("inputs", json!([{ "type": "tabular", "path": "data/in" }]))
        .with("partition_keys", json!(["k"]));
    // A group is one item, and one element is enough for it.
    let ended = job.submit();
    ended.expect_code(0);
    assert_eq!(ended.json()["items"], json!({ "total": 3, "succeeded": 3, "failed": 0 }));
    assert_eq!(rows(&job), "9007199254740993 [1, 4]\nNone [2]\n9007199254740992 [3]\n");
}

#[test]
fn on_a_fleet_it_is_one_job_too() {
    let fleet = Fleet::shared();
    let job = fleet.job(lacking()).with("compute_target", "grouped").with("allow_reuse", true);
    let _worker = fleet.worker(&job, &["--target", "grouped"]);
    let ended = fleet.start_submit(&job, &[]).wait();
    let told = ended.json();
    assert_eq!(told["mini_batches"]["failed"], 1, "{}", ended.stderr);
    let id = told["job_id"].as_str().unwrap();
    let shown = job.command(&["show", id, "-o", "json"]).json();
    assert_eq!(
        (&shown["spec"]["partition_keys"], &shown["steps"][2]["state"]),
        (&json!(["k"]), &json!("completed"))
    );
    job.script(&GROUPS.replace("raise ValueError", "print"));
    let resumed = job.command(&["resume", id, "--code", "new", "--set", "run_max_try=2", "-o", "json"]);
    resumed.expect_code(0);
    let groups = told["mini_batches"]["scheduled"].clone();
    assert_eq!(resumed.json()["items"]["succeeded"], groups, "{}", resumed.stderr);
    let again = job.command(&["resubmit", id, "-o", "json"]);
    again.expect_code(0);
    assert_eq!((&again.json()["items"]["succeeded"], &again.json()["reused_from"]), (&groups, &Value::Null));
    // The code of the second start is that of both.
    let given = fleet.start_submit(&job, &[]).wait().json();
    assert_eq!(
        (&given["reused_from"], &given["items"]["succeeded"]),
        (&again.json()["job_id"], &groups),
        "{given}"
    );
    let given = given["job_id"].as_str().unwrap();
    job.command(&["result", given, "--output-path", "given"]).expect_code(0);
    let rows = fs::read_to_string(job.path("given/parallel_run_step.txt")).unwrap();
    assert_eq!(rows.lines().count(), 5, "{rows}");
}
