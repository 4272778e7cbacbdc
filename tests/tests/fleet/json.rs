//! `-o json`: one record of a job in all commands, every other record as its schema says, and failures as objects.
//!
//! [`Ended::json`] holds what it reads to the schema of the command.

use prs_tests::harness::{Ended, Fleet, Job};
use serde_json::{Value, json};

/// Fails on one file, prints, and returns one element for each of the others.
const FLAKY: &str = r#"
import os
def run(mini_batch):
    names = [os.path.basename(path) for path in mini_batch]
    if "0001.txt" in names:
        raise ValueError("no good: " + names[0])
    return names
"#;

fn job() -> Job {
    Job::new(FLAKY).with_files(5).with("run_max_try", 1)
}

#[track_caller]
fn json_of(job: &Job, arguments: &[&str], code: i32) -> Value {
    let ended = job.command(&[arguments, &["-o", "json"]].concat());
    ended.expect_code(code);
    ended.json()
}

/// Asserts that all commands print the same record of an ended job, and the others theirs.
fn every_command_prints_its_record(job: &Job, printed: &Value) {
    let id = printed["job_id"].as_str().unwrap();
    for (command, code) in [("status", 0), ("stream", 10), ("result", 0)] {
        assert_eq!(json_of(job, &[command, id], code), *printed, "{command}");
    }
    let list = json_of(job, &["list"], 0);
    assert_eq!((&list["jobs"][0], &list["left_out"]), (printed, &json!(0)));
    assert_eq!(json_of(job, &["list", "-n", "0"], 0)["left_out"], 1);

    assert_eq!((&printed["schema"], &printed["complete"]), (&json!(1), &json!(false)));
    let (submitted, ended) =
        (printed["submitted_at"].as_str().unwrap(), printed["ended_at"].as_str().unwrap());
    assert!(submitted < ended, "{submitted} {ended}");
    assert_eq!(printed["tries"], json!({ "failed": 1, "made_good": 0 }));
    let error = &printed["errors"][0];
    assert_eq!((&error["category"], &error["traceback"]), (&json!("ValueError"), &Value::Null));
    let (folder, file) =
        (printed["output"]["uri"].as_str().unwrap(), printed["output"]["file"].as_str().unwrap());
    assert_eq!(file, format!("{folder}/parallel_run_step.txt"));

    let errors = json_of(job, &["errors", id], 0);
    assert!(errors["errors"][0]["traceback"].as_str().unwrap().starts_with("Traceback"), "{errors}");
    let failed = json_of(job, &["errors", id, "--items"], 0);
    assert_eq!(failed["mini_batches"][0]["items"].as_array().unwrap().len(), 2, "{failed}");
    assert_eq!(json_of(job, &["show", id], 0)["start"], 1);
    let logs = json_of(job, &["logs", id], 0);
    assert!(logs["logs"].as_array().unwrap().iter().any(|log| log["file"] == "job_result.txt"), "{logs}");
    assert_eq!(json_of(job, &["try", id], 42)["error"]["category"], "ValueError");
    assert_eq!(json_of(job, &["try", id, "--mini-batch", "1"], 0)["error"], Value::Null);

    let copied = json_of(job, &["result", id, "--output-path", "copy"], 0);
    assert_eq!(copied["output"]["uri"], json!(job.path("copy")));
    assert_eq!(copied["output"]["file"], json!(job.path("copy/parallel_run_step.txt")));
}

#[test]
fn a_job_has_one_record_in_all_commands() {
    let job = job();
    job.write_job_file();
    assert_eq!(json_of(&job, &["validate", "job.yml"], 0)["mini_batches"], 3);
    let printed = json_of(&job, &["submit", "job.yml"], 10);
    every_command_prints_its_record(&job, &printed);

    let id = printed["job_id"].as_str().unwrap();
    let removed = json_of(&job, &["rm", id, "--yes"], 0);
    let expected = (&json!("completed"), &printed["submitted_at"]);
    assert_eq!((&removed["jobs"][0]["state"], &removed["jobs"][0]["submitted_at"]), expected);
    assert_eq!(json_of(&job, &["list"], 0)["jobs"], json!([]));
}

#[test]
fn the_same_on_a_fleet() {
    let fleet = Fleet::apart();
    let job = fleet.job(job()).with("inputs", json!([{ "type": "file", "path": "data", "mode": "direct" }]));
    job.write_job_file();
    let id = json_of(&job, &["submit", "job.yml", "--detach"], 0)["job_id"].as_str().unwrap().to_owned();
    let queued = json_of(&job, &["status", &id], 0);
    assert_eq!((&queued["state"], &queued["ended_at"]), (&json!("queued"), &Value::Null));
    assert_eq!((&queued["workers"]["idle"], &queued["output"]["file"]), (&json!(0), &Value::Null));
    let canceled = json_of(&job, &["cancel", &id], 0);
    assert_eq!((&canceled["state"], &canceled["job_id"]), (&json!("canceled"), &json!(id)));
    json_of(&job, &["rm", &id, "--yes"], 0);

    let _worker = fleet.worker(&job, &[]);
    let printed = json_of(&job, &["submit", "job.yml"], 10);
    every_command_prints_its_record(&job, &printed);
    assert_eq!(json_of(&job, &["workers"], 0)["workers"][0]["targets"], json!(["default"]));
}

#[track_caller]
fn fails(ended: &Ended, code: i32, name: &str, part: &str) {
    ended.expect_code(code);
    let error = &ended.json()["error"];
    assert_eq!((&error["code"], &error["exit_code"]), (&json!(name), &json!(code)), "{error}");
    assert!(error["message"].as_str().unwrap().contains(part), "{part:?} is not said: {error}");
    ended.has_no_data();
}

#[test]
fn a_command_that_fails_prints_an_object() {
    let job = job();
    job.write_job_file();
    let unreachable = [
        "workers",
        "--broker",
        "amqp://127.0.0.1:1",
        "--redis",
        "redis://127.0.0.1:1",
        "--storage",
        "s3://b",
    ];
    let table: &[(&[&str], i32, &str, &str)] = &[
        (&["status", "no-such-job"], 2, "usage", "no-such-job"),
        (&["submit", "absent.yml"], 2, "usage", "absent.yml"),
        (&["submit", "job.yml", "--set", "node_count=0"], 2, "usage", "out of range"),
        (&unreachable, 3, "cannot_connect", "127.0.0.1:1"),
        (&["status"], 2, "usage", "<JOB>"),
        (&["submit", "job.yml", "--no-such-option"], 2, "usage", "--no-such-option"),
        (&["no-such-command"], 2, "usage", "no-such-command"),
    ];
    for (arguments, code, name, part) in table {
        fails(&job.command(&[arguments, &["-o", "json"][..]].concat()), *code, name, part);
    }
}
