//! `partition_keys` over columns of the data: rows are put together first. Compared with pandas, embedded, on a fleet, and
//! killed in every step.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, expected_by_python};
use serde_json::json;

/// Gives back the keys, the types, and each row; with the mark `hold`, from some groups on when there is a mark `go`.
const ROWS: &str = "
from marks import is_marked, mark, wait_for

def run(mini_batch, context):
    mark('run')
    if context.minibatch_index >= 250 and is_marked('hold'):
        wait_for('go')
    types = [str(one) for one in mini_batch.dtypes]
    return [f'{context.partition_key_value} {types} {row}' for row in mini_batch.itertuples()]
";

/// 500 groups, one of which has half of the rows, in files of several formats, whose columns and types differ.
const TABLES: &str = r#"
import numpy, pandas

random = numpy.random.default_rng(7)
rows = 6_000
store = numpy.where(random.random(rows) < 0.5, 3.0, random.integers(0, 500, rows))
store[random.random(rows) < 0.01] = numpy.nan
kind = random.choice(["a", 'b,"x', "c\nd", "1"], rows, p=[0.97, 0.01, 0.01, 0.01])
table = pandas.DataFrame({"store": store, "kind": kind, "number": numpy.arange(rows)})
for at in range(4):
    part = table.iloc[at * 1_500:(at + 1) * 1_500].reset_index(drop=True)
    part["level"] = part["number"] + (0.5 if at == 3 else 0)
    part["flag"] = part["number"] % 3 == 1
    if at == 2:
        part["flag"] = part["flag"].astype(object)
        part.loc[700, "flag"] = None
        part["note"] = part["number"].astype(str) + "n"
    part.to_csv(f"csv/{at}.csv", index=False)
    part.to_json(f"jsonl/{at}.jsonl", orient="records", lines=True)
    part["label"] = pandas.Categorical(part["kind"], categories=["z", *sorted(set(table["kind"]))])
    part.to_parquet(f"parquet/{at}.parquet", row_group_size=250)
"#;

/// The same rows by pandas alone.
fn by_pandas(job: &Job, kind: &str) -> String {
    let script = format!(
        r#"
import glob
import json
import pandas as pd

read = {{
    "csv": pd.read_csv, "jsonl": lambda path: pd.DataFrame(map(json.loads, open(path))), "parquet": pd.read_parquet,
}}["{kind}"]
table = pd.concat([read(path) for path in sorted(glob.glob("{kind}/*"))], ignore_index=True)
for (store, kind), rows in table.groupby(["store", "kind"], sort=False, dropna=False):
    keys = {{"store": None if pd.isna(store) else float(store), "kind": kind}}
    rows = rows.reset_index(drop=True)
    types = [str(one) for one in rows.dtypes]
    for row in rows.itertuples():
        print(f"{{keys}} {{types}} {{row}}".replace("\n", "\\n"))
"#
    );
    String::from_utf8(expected_by_python(&job.path("data"), &script)).unwrap()
}

fn grouped(kind: &str) -> Job {
    let job = Job::new(ROWS);
    for kind in ["csv", "jsonl", "parquet"] {
        fs::create_dir_all(job.path(&format!("data/{kind}"))).unwrap();
    }
    expected_by_python(&job.path("data"), TABLES);
    let input = json!({ "type": "tabular", "path": format!("data/{kind}") });
    job.with("inputs", json!([input])).with("partition_keys", json!(["store", "kind"]))
}

/// What a job that was run here brought.
fn rows(job: &Job) -> String {
    job.run().text("output/parallel_run_step.txt")
}

#[test]
fn rows_with_the_same_values_are_one_dataframe_in_any_format() {
    for kind in ["parquet", "jsonl"] {
        let job = grouped(kind).with("process_count_per_node", 2);
        let ended = job.submit();
        ended.expect_code(0);
        let told = ended.json();
        let expected = by_pandas(&job, kind);
        assert_eq!(expected.lines().count(), 6_000);
        assert_eq!(told["items"]["succeeded"], told["mini_batches"]["succeeded"], "{kind}: {told}");
        assert!(told["mini_batches"]["succeeded"].as_u64().unwrap() > 500, "{kind}: {told}");
        for (row, expected) in rows(&job).lines().zip(expected.lines()) {
            assert_eq!(row, expected, "{kind}");
        }
        // It is the job that was submitted, in all that a user sees.
        assert_eq!((&told["state"], &told["name"]), (&"completed".into(), &"test-job".into()));
        if kind == "parquet" {
            job.command(&["resume", "run"]).expect_code(0);
            job.command(&["errors", "run"]).expect_code(0);
            assert!(job.command(&["logs", "run"]).stdout.contains("job_result.txt"));
        }
    }
}

#[test]
fn a_job_that_is_killed_in_any_step_goes_on_to_the_same_bytes() {
    let expected = by_pandas(&grouped("csv"), "csv");
    for step in ["split", "group", "run"] {
        let job = grouped("csv").with("run_invocation_timeout", 600);
        job.mark("hold");
        let live = job.start_submit(&[]);
        let begun = || {
            let mut folders = fs::read_dir(job.path("run/steps")).ok()?.flatten();
            let folder = folders.find(|one| one.file_name().to_string_lossy().ends_with(step))?.path();
            let has =
                |below: &str| fs::read_dir(folder.join(below)).is_ok_and(|mut found| found.next().is_some());
            (step != "run" && folder.join("job.json").exists() || has("segments")).then_some(())
        };
        wait_for(&format!("{step} to begin"), Duration::from_mins(2), begun);
        assert!(live.kill(), "it ended before it was killed in {step}");
        job.mark("go");
        let ended = job.resume();
        ended.expect_code(0);
        assert!(rows(&job) == expected, "killed in {step}, the rows are others");
        assert_eq!(ended.json()["items"]["failed"], 0);
    }
}

#[test]
fn a_fleet_of_three_nodes_each_killed_once_gives_the_same_rows() {
    let fleet = Fleet::shared();
    let job = fleet.job(grouped("csv")).with("compute_target", "shuffle").with("node_count", 3);
    let job = job.with("output", "fetched").with("process_count_per_node", 1);
    let expected = by_pandas(&job, "csv");
    let mut workers: Vec<_> = (0..3).map(|_| fleet.worker(&job, &["--target", "shuffle"])).collect();
    let submitted = fleet.start_submit(&job, &[]);
    for at in 0..3 {
        // One in each step, more or less.
        let step = ["split", "group", "run"][at];
        wait_for(&format!("step {step}"), Duration::from_mins(3), || {
            submitted.stderr().contains(&format!("step {step}: job")).then_some(())
        });
        let fresh = fleet.worker(&job, &["--target", "shuffle"]);
        std::mem::replace(&mut workers[at], fresh).kill();
    }
    let ended = submitted.wait();
    let printed = ended.expect_completed();
    assert_eq!(printed["items"]["failed"], 0, "{printed}");
    assert!(fs::read_to_string(job.path("fetched/parallel_run_step.txt")).unwrap() == expected);
    let id = printed["job_id"].as_str().unwrap();
    job.command(&["result", id, "--output-path", "again"]).expect_code(0);
    assert!(fs::read_to_string(job.path("again/parallel_run_step.txt")).unwrap() == expected);
}

#[test]
fn filters_come_before_groups_and_columns_of_paths_may_be_keys_too() {
    let job = Job::new(
        "def run(mini_batch, context):\n    \
         keys = context.partition_key_value\n    \
         return [f\"{keys} {row.n} {type(keys['day']).__name__}\" for row in mini_batch.itertuples()]\n",
    );
    for (name, text) in [
        ("x/a.csv", "day,n\n2024-01-01,-1\n2024-01-02,1\n2024-01-01,2\n2024-01-03,-2\n2024-01-02,3\n"),
        ("y/b.csv", "day,n\n2024-01-02,4\n2024-01-02,-5\n2024-01-01,5\n2024-01-02,-6"),
        ("x/c.csv", "day,n\r\n2024-01-02,7\r\n2024-01-03,-8\r\n"),
    ] {
        job.data(name, text);
    }
    fs::write(
        job.path("data/MLTable"),
        "paths:\n  - pattern: ./*/*.csv\ntransformations:\n  - read_delimited:\n      delimiter: ','\n      \
         encoding: utf8\n      header: all_files_same_headers\n  - convert_column_types:\n      \
         - columns: day\n        column_type:\n          datetime:\n            formats: ['%Y-%m-%d']\n  \
         - filter: 'col(\"n\") > 0'\n  - extract_columns_from_partition_format: '/{store}/{file}.csv'\n",
    )
    .unwrap();
    let job = job
        .with("inputs", json!([{ "type": "mltable", "path": "data" }]))
        .with("partition_keys", json!(["store", "day"]));
    job.submit().expect_code(0);
    let day = |day: u32| format!("Timestamp('2024-01-0{day} 00:00:00')");
    let row =
        |store: &str, on: u32, n: i32| format!("{{'store': '{store}', 'day': {}}} {n} Timestamp\n", day(on));
    let expected =
        [row("x", 2, 1), row("x", 2, 3), row("x", 2, 7), row("x", 1, 2), row("y", 2, 4), row("y", 1, 5)];
    assert_eq!(rows(&job), expected.concat());
}

#[test]
fn a_sample_is_drawn_of_the_files_and_not_of_the_groups() {
    let job = Job::new(
        "def run(mini_batch):\n    \
         return [f'{row.k} {row.n} {row.x}' for row in mini_batch.itertuples()]\n",
    );
    let rows_of_a = (0..300).map(|n| format!("k{},{n}", n % 7));
    let rows_of_b = (300..500).map(|n| format!("{n},k{},x", n % 7));
    for (name, header, rows) in
        [("a.csv", "k,n", rows_of_a.collect::<Vec<_>>()), ("b.csv", "n,k,x", rows_of_b.collect())]
    {
        job.data(name, format!("{header}\n{}\n", rows.join("\n")));
    }
    fs::write(
        job.path("data/MLTable"),
        "paths:\n  - pattern: ./*.csv\ntransformations:\n  - read_delimited:\n      \
         header: all_files_different_headers\n  - take_random_sample: {probability: 0.4, seed: 3}\n",
    )
    .unwrap();
    let job = job.with("inputs", json!([{ "type": "mltable", "path": "data" }]));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    job.submit().expect_code(0);
    let plain = sorted(&rows(&job));
    assert!((120..280).contains(&plain.len()), "{}", plain.len());
    fs::remove_dir_all(job.path("run")).unwrap();
    let job = job.with("partition_keys", json!(["k"]));
    job.submit().expect_code(0);
    assert_eq!(sorted(&rows(&job)), plain);
}

#[test]
fn an_input_of_which_no_row_is_left_is_left_out() {
    let job = Job::new("def run(mini_batch, context):\n    return [str(context.partition_key_value)]\n");
    job.data("full/a.csv", "k,n\na,1\n");
    job.data("none/a.csv", "k,n\na,1\n");
    fs::write(
        job.path("data/none/MLTable"),
        "paths:\n  - file: ./a.csv\ntransformations:\n  - read_delimited: {}\n  - filter: 'col(\"n\") > 5'\n",
    )
    .unwrap();
    let job = job
        .with(
            "inputs",
            json!([
                { "name": "none", "type": "mltable", "path": "data/none" },
                { "name": "full", "type": "tabular", "path": "data/full" }
            ]),
        )
        .with("partition_keys", json!(["k"]));
    job.submit().expect_code(0);
    assert_eq!(rows(&job), "{'k': 'a'}\n");
}

#[test]
fn what_cannot_be_put_together_fails_the_job_by_name() {
    let job = grouped("csv").with("partition_keys", json!(["shop"])).with("run_max_try", 1);
    let ended = job.submit();
    ended.expect_code(42);
    let reason = ended.json()["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains("partition_keys names 'shop', and the columns are 'store', 'kind', 'number'"),
        "{reason}"
    );

    let job = grouped("csv").with("run_max_try", 1);
    job.data("csv/9.csv", "store,kind,number\n1,a,2\n1,a,2,3,4\n");
    let ended = job.submit();
    ended.expect_code(42);
    let reason = ended.json()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("data/csv/9.csv"), "{reason}");
    // The file is mended, and the job goes on.
    let errors = job.command(&["errors", "run"]);
    assert!(errors.stdout.contains("9.csv"), "{}", errors.stdout);
}
