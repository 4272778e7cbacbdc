//! `output_format`: returned DataFrames as CSV, with one header, whatever order mini-batches end in and wherever they run.

use prs_tests::harness::{Fleet, Job, expected_by_python};
use serde_json::{Value, json};

/// Adds fields that need quotes. The first mini-batch has no row to give, the fifth waits for the mark `go`.
const SCORES: &str = r#"
import random, time
from marks import mark, wait_for

def run(mini_batch, context):
    time.sleep(random.random() / 50)
    if context.minibatch_index == 4:
        wait_for("go")
    mark("ran", context.minibatch_index)
    mini_batch["a, \"b\""] = [f'"{n}"\r' if n % 3 else f"{n}\n," for n in mini_batch["id"]]
    return mini_batch[mini_batch["id"] >= 0]
"#;

/// The result of [`SCORES`], made by pandas from all of the data.
const EXPECTED: &str = r#"
import csv, glob, io, sys
import pandas

def write(fields):
    line = io.StringIO()
    # Every version of Python quotes a carriage return that is a part of the line end.
    csv.writer(line, lineterminator="\r\n").writerow(fields)
    sys.stdout.buffer.write(line.getvalue()[:-2].encode() + b"\n")

table = pandas.concat([pandas.read_csv(name) for name in sorted(glob.glob("*.csv"))])
table["a, \"b\""] = [f'"{n}"\r' if n % 3 else f"{n}\n," for n in table["id"]]
write(table.columns)
for row in table[table["id"] >= 0].itertuples(index=False):
    write(row)
"#;

/// Tables of which the first has no row that is kept.
fn job() -> Job {
    let job = Job::new(SCORES)
        .with_tables(&[1, 60, 1, 3, 200, 80])
        .with("mini_batch_size", "1kb")
        .with("append_row_file_name", "scores.csv")
        .with("error_threshold", -1)
        .with("output_format", "csv");
    job.data("000.csv", "id,name,value\n-1,nobody,0.5\n");
    job
}

fn expected(job: &Job) -> String {
    let expected = String::from_utf8(expected_by_python(&job.path("data"), EXPECTED)).unwrap();
    assert!(expected.starts_with("id,name,value,\"a, \"\"b\"\"\"\n1,"), "{expected}");
    expected
}

#[test]
fn the_bytes_are_the_same_after_a_kill_and_on_a_fleet() {
    let killed = job().with("process_count_per_node", 3);
    let mut submit = killed.start_submit(&[]);
    submit.wait_until("half of the mini-batches", || killed.marks("ran").len() > 5);
    assert!(submit.kill());
    killed.mark("go");
    let resumed = killed.resume();
    resumed.expect_code(0);
    let result = killed.run().text("output/scores.csv");
    assert_eq!(result, expected(&killed));

    let fleet = Fleet::shared();
    let there = fleet.job(job()).with("compute_target", "csv").with("node_count", 2);
    there.mark("go");
    let _workers = [(); 2].map(|()| fleet.worker(&there, &["--target", "csv"]));
    let printed = fleet.completes(&there);
    let stored = fleet.stored(printed["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.bytes("output/scores.csv")).unwrap(), result);
}

#[test]
fn another_delimiter_and_no_header() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n")
        .with_tables(&[2])
        .with("output_format", json!({ "delimiter": ";", "header": false }));
    job.completes();
    assert_eq!(job.run().rows(), ["0;name, 0;0.5", "1;name, 1;7.5"]);
    let shown = job.command(&["show", &job.run().path().display().to_string(), "-o", "json"]).json();
    assert_eq!(shown["spec"]["output_format"], json!({ "delimiter": ";", "header": false }));
}

#[test]
fn a_job_whose_columns_differ_fails_and_names_them() {
    let script = "
def run(mini_batch, context):
    return mini_batch[['id', 'name'] if context.minibatch_index == 1 else ['id', 'value']]
";
    let job = Job::new(script).with_tables(&[1, 1, 1]).with("output_format", json!({ "delimiter": "," }));
    let printed = job.fails(&["\"id,name\"", "\"id,value\"", "result.reindex(columns=NAMES)"]);
    assert_eq!(printed["state"], "failed");
    let lenient = Job::new(script).with_tables(&[1, 1, 1]).with("output_format", json!({ "header": false }));
    lenient.completes();
    assert_eq!(lenient.run().rows(), ["0,0.5", "1,\"name, 1\"", "2,14.5"]);
}

#[test]
fn what_is_no_table_fails_its_mini_batch() {
    let script = "
def run(mini_batch, context):
    return mini_batch if context.minibatch_index else [str(name) for name in mini_batch['name']]
";
    let job = Job::new(script).with_tables(&[2, 1]).with("output_format", "csv").with("run_max_try", 1);
    let ended = job.submit();
    ended.expect_code(10);
    assert_eq!(job.run().rows(), ["id,name,value", "2,\"name, 2\",14.5"]);
    let said = "run() returned a list; the job file has output_format, so expected is a pandas DataFrame";
    let failed = job.run().text("output/failed_mini_batches.jsonl");
    assert!(failed.contains(said), "{failed}");
}

#[test]
fn a_file_that_is_called_csv_and_is_none_is_told() {
    const NOTE: &str = "append_row_file_name: DataFrames go into scores.csv as ParallelRunStep writes them";
    let mut job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_tables(&[2]);
    job.set("append_row_file_name", "scores.csv");
    let says = |job: &Job, command: &str| {
        job.write_job_file();
        let ended = job.command(&[command, "job.yml"]);
        ended.expect_code(0);
        ended.stderr.contains(NOTE)
    };
    assert!(says(&job, "submit"));
    let settings: Value = json!({ "append_row": { "pandas.DataFrame.to_csv": { "sep": "," } } });
    job.code("parallel_run_step.settings.json", &settings.to_string());
    assert!(!says(&job, "validate"), "the script says how");
}
