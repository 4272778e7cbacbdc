//! Starts of a pipeline that fail or are canceled after one that completed: what that brought stands.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use prs_tests::harness::{BROKEN, Ended, GROUPED, Job};
use serde_json::{Value, json};

/// `make` brings the output of the pipeline, and fails where there is the file `fail`; `lack` loses one item of two.
const STEPS: &str = "type: pipeline
name: flow
outputs: {all: {type: uri_folder}}
jobs:
  make:
    command: 'test -f HERE/sleep && touch HERE/began && sleep 60; test ! -f HERE/fail && echo one > ${{outputs.o}}/a'
    outputs: {o: '${{parent.outputs.all}}'}
  lack:
    type: parallel
    mini_batch_size: '1'
    input_data: ${{inputs.i}}
    inputs: {i: {type: uri_folder, path: data}}
    task: {type: run_function, code: ., entry_script: lack.py}
    mini_batch_error_threshold: 5
    retry_settings: {max_retries: 0}
";

const LACK: &str = "import os
def run(mini_batch):
    if mini_batch[0].endswith('bad'):
        raise ValueError('a bad item')
    return [os.path.basename(mini_batch[0])]
";

/// All files of a folder, by their paths below it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            let below = self::files(&entry.path()).into_iter();
            files.extend(below.map(|(path, bytes)| (format!("{name}/{path}"), bytes)));
        } else {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    files
}

/// Asserts that a start `start` ended so, and that what `printed` tells of start 1 stands.
#[track_caller]
fn stands(job: &Job, ended: &Ended, printed: &Value, (start, state, code): (u32, &str, i32)) {
    assert_eq!(ended.code, Some(code), "{}\n{}", ended.stdout, ended.stderr);
    let told = ended.json();
    let last = &told["last_start"];
    assert_eq!(
        (&last["start"], &last["result_of"], &last["state"]),
        (&json!(start), &json!(1), &json!(state)),
        "{told}"
    );
    for name in ["state", "reason", "mini_batches", "items", "output", "complete", "seconds", "steps"] {
        assert_eq!(told[name], printed[name], "{name}: {}", ended.stderr);
    }
    let line = format!("start {start} {state}");
    assert!(ended.stderr.contains(&line), "{}", ended.stderr);
    let report = job.run().text("logs/job_result.txt");
    assert!(
        report.starts_with("completed") && report.contains(&format!("\nlast start    {line}")),
        "{report}"
    );
    job.command(&["result", "run"]).expect_code(0);
    let status = job.command(&["status", "run"]);
    assert!(status.stdout.contains(&line), "{}", status.stdout);
    let listed = job.command(&["list", "--runs", "."]);
    assert!(listed.stdout.contains(&line), "{}", listed.stdout);
}

#[test]
fn a_pipeline_keeps_what_it_completed() {
    let job = Job::new("");
    let here = job.path("").display().to_string();
    fs::write(job.path("pipeline.yml"), STEPS.replace("HERE/", &here)).unwrap();
    fs::write(job.path("lack.py"), LACK).unwrap();
    job.data("good", "");
    job.data("bad", "");
    let ended = job.command(&["submit", "pipeline.yml", "--run-dir", "run", "-o", "json"]);
    ended.expect_code(0);
    let printed = ended.json();
    assert_eq!(printed["items"]["failed"], 1, "{}", ended.stderr);
    let output = files(&job.path("run/output"));
    let brought = job.path(&format!("run/steps/{}-make/output/o/a", printed["job_id"].as_str().unwrap()));

    // It is made again because it is gone.
    fs::remove_file(&brought).unwrap();
    fs::write(job.path("fail"), "").unwrap();
    let resume = ["resume", "run", "-o", "json"];
    stands(&job, &job.command(&resume), &printed, (2, "failed", 42));
    assert_eq!(files(&job.path("run/output")), output);
    fs::write(job.path("sleep"), "").unwrap();
    let mut running = job.start(&resume);
    running.wait_until("make", || job.path("began").exists());
    running.interrupt();
    stands(&job, &running.wait(), &printed, (3, "canceled", 130));
    assert_eq!(files(&job.path("run/output")), output);

    // Killed while its outputs may be those of another start already, it keeps none: a start that fails then has none.
    fs::remove_file(job.path("fail")).unwrap();
    fs::remove_file(job.path("sleep")).unwrap();
    let job = job.with_own_variable("PRS_FAILPOINT", "pipeline_publishes");
    assert_eq!(job.command(&resume).code, None);
    let job = job.with_own_variable("PRS_FAILPOINT", "");
    fs::remove_file(&brought).unwrap();
    fs::write(job.path("fail"), "").unwrap();
    let ended = job.command(&resume);
    ended.expect_code(42);
    assert_eq!((&ended.json()["state"], &ended.json()["last_start"]), (&json!("failed"), &Value::Null));

    fs::remove_file(job.path("fail")).unwrap();
    let ended = job.command(&resume);
    assert_eq!((ended.code, &ended.json()["last_start"]), (Some(0), &Value::Null), "{}", ended.stderr);
    assert_eq!(files(&job.path("run/output")), output);
}

#[test]
fn a_job_whose_rows_are_put_together_keeps_what_it_completed() {
    let job = Job::new(GROUPED).with("allowed_failed_count", 5).with("run_max_try", 1);
    job.data("in/1.csv", "k,n\na,1\nb,2\na,3\n");
    job.data("in/2.csv", "k,n\na,4\nbad,5\n");
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/in" }]));
    let job = job.with("partition_keys", json!(["k"]));
    let printed = job.submit().json();
    assert_eq!(printed["mini_batches"]["failed"], 1, "{printed}");
    let output = files(&job.path("run/output"));
    assert!(output.contains_key("failed_mini_batches.jsonl"), "{:?}", output.keys());
    let main = format!("run/steps/{}-run/job.json", printed["job_id"].as_str().unwrap());
    let statistics = || {
        let record: Value = serde_json::from_slice(&fs::read(job.path(&main)).unwrap()).unwrap();
        record["statistics"].clone()
    };
    let before = statistics();
    assert!(before.is_string());

    job.script(BROKEN);
    for start in [2, 3] {
        let ended = job.command(&["resume", "run", "--code", "new", "-o", "json"]);
        stands(&job, &ended, &printed, (start, "failed", 42));
        let reason = ended.json()["last_start"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("broken"), "{reason}");
        assert_eq!(files(&job.path("run/output")), output);
        assert_eq!(statistics(), before);
    }
    job.script(&GROUPED.replace("raise ValueError", "print"));
    let ended = job.command(&["resume", "run", "--code", "new", "-o", "json"]);
    assert_eq!((ended.code, &ended.json()["last_start"]), (Some(0), &Value::Null), "{}", ended.stderr);
    assert_eq!(job.run().text("output/parallel_run_step.txt"), "a 1\na 3\na 4\nb 2\nbad 5\n");
}
