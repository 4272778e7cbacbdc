//! Tables whose `skip` and `take` count what a filter, a sample or `invalid_lines: drop` leaves: a job in front counts it.
//! Compared with pandas, embedded, on a fleet, and killed in both steps.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, expected_by_python, says};
use serde_json::{Value, json};

const IDS: &str = "def run(mini_batch):\n    assert len(mini_batch)\n    return list(mini_batch['id'])\n";

/// A table of 600 rows in four files of each format.
const MAKE: &str = r#"
import os
import pandas

table = pandas.DataFrame({"id": range(600), "kind": ["abc"[(row * 7 + row // 11) % 3] for row in range(600)]})
for kind in ("csv", "jsonl", "parquet"):
    os.makedirs(kind, exist_ok=True)
at = 0
for name, rows in [("a", 250), ("b", 3), ("c", 200), ("d", 147)]:
    part = table.iloc[at:at + rows].reset_index(drop=True)
    at += rows
    part.to_csv(f"csv/{name}.csv", index=False)
    part.to_json(f"jsonl/{name}.jsonl", orient="records", lines=True)
    part.to_parquet(f"parquet/{name}.parquet", row_group_size=20)
"#;

const READERS: [(&str, &str); 3] =
    [("csv", "read_delimited"), ("jsonl", "read_json_lines"), ("parquet", "read_parquet")];

/// A job over the table in this format with these transformations, each a name and its argument.
fn job_of(kind: &str, steps: &Value) -> Job {
    let job = Job::new(IDS).with("inputs", json!([{ "type": "mltable", "path": format!("data/{kind}") }]));
    fs::create_dir_all(job.path("data")).unwrap();
    expected_by_python(&job.path("data"), MAKE);
    let (_, reader) = READERS.iter().find(|(known, _)| *known == kind).unwrap();
    let mut table = format!("paths: [pattern: '*.{kind}']\ntransformations:\n- {reader}\n");
    for step in steps.as_array().unwrap() {
        let (name, argument) = (step[0].as_str().unwrap(), &step[1]);
        writeln!(table, "- {name}: {argument}").unwrap();
    }
    job.data(&format!("{kind}/MLTable"), table);
    job.with("mini_batch_size", "300")
}

/// The ids that pandas leaves.
fn by_pandas(job: &Job, steps: &Value) -> Vec<String> {
    let script = format!(
        r#"
import glob, json
import pandas

table = pandas.concat([pandas.read_csv(path) for path in sorted(glob.glob("csv/*.csv"))], ignore_index=True)
for name, argument in json.loads({:?}):
    if name == "filter":
        table = table.query(argument)
    elif name == "skip":
        table = table.iloc[argument:]
    elif name == "take":
        table = table.iloc[:argument]
print("\n".join(map(str, table["id"])))
"#,
        steps.to_string()
    );
    let printed = String::from_utf8(expected_by_python(&job.path("data"), &script)).unwrap();
    printed.lines().map(str::to_owned).collect()
}

fn filter(text: &str) -> Value {
    json!(["filter", text])
}

#[test]
fn rows_are_counted_behind_a_filter_as_pandas_counts_them() {
    for (kind, steps) in [
        (
            "csv",
            json!([
                ["skip", 7],
                filter("kind != 'a'"),
                ["take", 300],
                filter("id > 9"),
                ["drop_columns", "kind"]
            ]),
        ),
        ("parquet", json!([filter("id >= 249 and id < 260"), ["skip", 1], ["take", 8]])),
    ] {
        let job = job_of(kind, &steps);
        let expected = by_pandas(&job, &steps);
        assert!(!expected.is_empty(), "{steps}");
        let told = job.completes();
        assert_eq!(job.run().rows(), expected, "{kind} {steps}");
        assert_eq!(
            told["items"],
            json!({ "total": expected.len(), "succeeded": expected.len(), "failed": 0 })
        );
        // It is the job that was submitted, in all that a user sees.
        assert_eq!((&told["state"], &told["name"]), (&"completed".into(), &"test-job".into()));
    }
}

#[test]
fn rows_are_counted_behind_a_sample_and_behind_lines_that_are_dropped() {
    let sample = json!(["take_random_sample", { "probability": 0.4, "seed": 7 }]);
    let all = job_of("parquet", &json!([sample]));
    all.completes();
    let drawn = all.run().rows();
    let job = job_of("parquet", &json!([sample, ["skip", 30], ["take", 111]]));
    job.completes();
    assert_eq!(job.run().rows(), drawn[30..141]);
    let job = job_of("jsonl", &json!([]));
    let lines = (0..40).map(|id| format!("no object\n{{\"id\": {id}}}\n")).collect::<Vec<_>>().concat();
    for name in ["a", "b", "c", "d"] {
        job.data(&format!("jsonl/{name}.jsonl"), if name == "b" { "none\nnone\n" } else { &*lines });
    }
    let table = "paths: [pattern: '*.jsonl']\ntransformations:\n- read_json_lines: {invalid_lines: drop}\n- skip: 38\n- take: 44\n";
    job.data("jsonl/MLTable", table);
    job.completes();
    let expected = [38, 39].into_iter().chain(0..40).chain(0..2).map(|id: u32| id.to_string());
    assert_eq!(job.run().rows(), expected.collect::<Vec<_>>());
}

#[test]
fn files_are_counted_behind_a_sample_of_files() {
    let script =
        "import os\n\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";
    let files = |transformations: &str| {
        let job = Job::new(script).with("inputs", json!([{ "type": "mltable", "path": "data" }]));
        for at in 0..60 {
            job.data(&format!("{at:02}.txt"), "x");
        }
        job.data("MLTable", format!("paths: [folder: .]\ntransformations:\n{transformations}"));
        job.completes();
        job.run().rows()
    };
    let sample = "- take_random_sample: {probability: 0.5, seed: 3}\n";
    let drawn = files(sample);
    assert!(drawn.len() > 20, "{drawn:?}");
    assert_eq!(files(&format!("{sample}- skip: 4\n- take: 9\n")), drawn[4..13]);
}

#[test]
fn each_input_is_counted_by_itself() {
    let counted = json!([filter("kind == 'a'"), ["skip", 5], ["take", 20]]);
    let job = job_of("csv", &counted);
    job.data(
        "parquet/MLTable",
        "paths: [pattern: '*.parquet']\ntransformations:\n- read_parquet\n- take: 4\n",
    );
    let table = "paths: [pattern: '*.jsonl']\ntransformations:\n- read_json_lines\n- filter: kind == 'b'\n- skip: 190\n";
    job.data("jsonl/MLTable", table);
    let input = |name: &str| json!({ "name": name, "type": "mltable", "path": format!("data/{name}") });
    let job = job.with("inputs", json!([input("csv"), input("parquet"), input("jsonl")]));
    let mut expected = by_pandas(&job, &counted);
    expected.extend((0..4).map(|id| id.to_string()));
    expected.extend(by_pandas(&job, &json!([filter("kind == 'b'"), ["skip", 190]])));
    job.completes();
    assert_eq!(job.run().rows(), expected);
}

#[test]
fn what_leaves_nothing_and_what_cannot_be_counted_says_so() {
    job_of("csv", &json!([filter("id < 9"), ["skip", 9]])).fails(&["the inputs hold no records"]);
    job_of("csv", &json!([filter("id < 'x'"), ["take", 9]]))
        .fails(&["step count failed", "the filter compares it with 'x'"]);
    let keys = job_of("csv", &json!([filter("id < 9"), ["take", 9]]));
    keys.with("partition_keys", json!(["kind"])).is_refused(&[
        "the MLTable of input input_1 has skip or take, which count rows in the order of the files",
    ]);
    let validated = job_of("csv", &json!([filter("id < 9"), ["take", 9]]));
    let file = validated.write_job_file().display().to_string();
    says(
        &validated.command(&["validate", &file]),
        0,
        &["not planned: its rows are counted behind a filter first"],
    );
}

#[test]
fn a_job_that_is_killed_in_either_step_goes_on_to_the_same_rows() {
    let steps = json!([filter("kind == 'a'"), ["skip", 10], ["take", 150]]);
    for step in ["count", "run"] {
        let job = job_of("csv", &steps);
        let expected = by_pandas(&job, &steps);
        let live = job.start_submit(&[]);
        let begun = || {
            let mut folders = fs::read_dir(job.path("run/steps")).ok()?.flatten();
            let folder = folders.find(|one| one.file_name().to_string_lossy().ends_with(step))?.path();
            folder.join("job.json").exists().then_some(())
        };
        wait_for(&format!("{step} to begin"), Duration::from_mins(2), begun);
        assert!(live.kill(), "it ended before it was killed in {step}");
        job.resume().expect_code(0);
        assert_eq!(job.run().rows(), expected, "killed in {step}");
    }
}

#[test]
fn a_fleet_counts_the_same_rows_whoever_dies() {
    let fleet = Fleet::shared();
    let name = "mltable-counted";
    let steps = json!([filter("kind == 'a'"), ["skip", 10], ["take", 150]]);
    let job = fleet.job(job_of("csv", &steps)).with("compute_target", name).with("output", "fetched");
    let expected = by_pandas(&job, &steps);
    let first = fleet.worker(&job, &["--target", name]);
    let submitted = fleet.start_submit(&job, &[]);
    wait_for("the first step", Duration::from_mins(1), || {
        fleet.active().iter().any(|active| active.contains("-count")).then_some(())
    });
    assert!(first.kill());
    let _second = fleet.worker(&job, &["--target", name]);
    submitted.wait().expect_code(0);
    let fetched = fs::read_to_string(job.path("fetched/parallel_run_step.txt")).unwrap();
    assert_eq!(fetched.lines().collect::<Vec<_>>(), expected);
}
