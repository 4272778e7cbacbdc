//! `output_format: json_lines`: rows and elements as JSON, the same bytes whatever dies and wherever they are made.
//! (CSV has `csv_output.rs`.)

use prs_tests::harness::{Fleet, Job, expected_by_python};
use serde_json::{Value, json};

/// Gives columns of many types. The first mini-batch has no row to give, the fifth waits for the mark `go`.
const SCORES: &str = r#"
import random, time
import pandas
from marks import mark, wait_for

def run(mini_batch, context):
    time.sleep(random.random() / 50)
    if context.minibatch_index == 4:
        wait_for("go")
    mark("ran", context.minibatch_index)
    result = mini_batch[mini_batch["id"] >= 0].copy()
    result["third"] = result["value"] / 3
    result["even"] = result["id"] % 2 == 0
    result["day"] = pandas.to_datetime(result["id"], unit="D", utc=True)
    result["nested"] = [{"n": n} if n % 3 else None for n in result["id"].tolist()]
    return result
"#;

/// The result of [`SCORES`], by `json.dumps` of each row of all of the data.
const EXPECTED: &str = r#"
import csv, datetime, glob, json

for name in sorted(glob.glob("*.csv")):
    with open(name, newline="") as file:
        for row in csv.DictReader(file):
            n, value = int(row["id"]), float(row["value"])
            if n < 0:
                continue
            day = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(days=n)
            row = {"id": n, "name": row["name"], "value": value, "third": value / 3, "even": n % 2 == 0}
            row |= {"day": day.isoformat(), "nested": {"n": n} if n % 3 else None}
            print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
"#;

/// Tables of which the first has no row that is kept.
fn job() -> Job {
    let job = Job::new(SCORES)
        .with_tables(&[1, 60, 1, 3, 200, 80])
        .with("mini_batch_size", "1kb")
        .with("append_row_file_name", "scores.jsonl")
        .with("error_threshold", -1)
        .with("output_format", "json_lines");
    job.data("000.csv", "id,name,value\n-1,nobody,0.5\n");
    job
}

fn expected(job: &Job) -> String {
    let expected = String::from_utf8(expected_by_python(&job.path("data"), EXPECTED)).unwrap();
    assert!(
        expected.starts_with(r#"{"id":1,"name":"name, 1","value":7.5,"third":2.5,"even":false,"#),
        "{expected}"
    );
    expected
}

#[test]
fn json_lines_are_the_same_after_a_kill_and_on_a_fleet() {
    let killed = job().with("process_count_per_node", 3);
    let mut submit = killed.start_submit(&[]);
    submit.wait_until("half of the mini-batches", || killed.marks("ran").len() > 5);
    assert!(submit.kill());
    killed.mark("go");
    killed.resume().expect_code(0);
    let result = killed.run().text("output/scores.jsonl");
    assert_eq!(result, expected(&killed));

    let fleet = Fleet::shared();
    let there = fleet.job(job()).with("compute_target", "lines").with("node_count", 2);
    there.mark("go");
    let _workers = [(); 2].map(|()| fleet.worker(&there, &["--target", "lines"]));
    let printed = fleet.completes(&there);
    let stored = fleet.stored(printed["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.bytes("output/scores.jsonl")).unwrap(), result);
}

#[test]
fn elements_and_frames_may_differ_between_mini_batches() {
    let script = r#"
import pandas

def run(mini_batch, context):
    name = mini_batch[0].rsplit("/", 1)[1]
    return [
        [{"file": name, "score": float("nan")}],
        [name],
        pandas.DataFrame({"other": [1.5]}),
        iter([None]),
    ][context.minibatch_index]
"#;
    let mut job = Job::new(script).with_files(4).with("mini_batch_size", 1);
    job.set("output_format", "json_lines");
    job.completes();
    let rows = [r#"{"file":"0000.txt","score":null}"#, r#""0001.txt""#, r#"{"other":1.5}"#, "null"];
    assert_eq!(job.run().rows(), rows);
    let shown = job.command(&["show", &job.run().path().display().to_string(), "-o", "json"]).json();
    assert_eq!(shown["spec"]["output_format"], "json_lines");
    let tried = job.command(&["try", "job.yml", "--item", "0000.txt", "-o", "json"]).json();
    assert_eq!(tried["first_rows"], json!([rows[0]]));
}

#[test]
fn a_value_that_json_cannot_have_fails_its_mini_batch_by_its_column() {
    let script = "
def run(mini_batch, context):
    mini_batch['raw'] = [b'x' if context.minibatch_index == 0 else 'x'] * len(mini_batch)
    return mini_batch
";
    let job =
        Job::new(script).with_tables(&[2, 1]).with("run_max_try", 1).with("output_format", "json_lines");
    job.submit().expect_code(10);
    assert_eq!(job.run().rows(), [r#"{"id":2,"name":"name, 2","value":14.5,"raw":"x"}"#]);
    let failed: Value = serde_json::from_str(&job.run().text("output/failed_mini_batches.jsonl")).unwrap();
    let said = "column 'raw' of the DataFrame that run() returned cannot be written as JSON: JSON has no value of type bytes \
                (row 0, counted from 0); convert it in run(), or leave the column out";
    assert!(failed.to_string().contains(said), "{failed}");
}
