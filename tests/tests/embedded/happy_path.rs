//! Jobs that complete: the result of a file and of a tabular job, in input order, for any number of processes.

use std::fmt::Write as _;
use std::fs;

use prs_tests::harness::{Job, expected_by_python};
use serde_json::json;
use sha2::{Digest, Sha256};

/// One row for each file: its name and content.
const ROW_PER_FILE: &str = r#"
import os

def run(mini_batch):
    rows = []
    for path in mini_batch:
        with open(path) as file:
            rows.append(f"{os.path.basename(path)}: {file.read()}")
    return rows
"#;

/// The same, with mini-batches that end in any order.
const OUT_OF_ORDER: &str = r#"
import os, random, time

def run(mini_batch):
    time.sleep(random.random() / 50)
    return [f"{os.path.basename(path)}: {open(path).read()}" for path in mini_batch]
"#;

fn rows_of_files(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:04}.txt: item {number}")).collect()
}

#[test]
fn a_job_over_its_own_folder_reads_neither_runs_nor_its_output() {
    let names =
        "import os\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";
    let mut job = Job::new(names)
        .with("append_row_file_name", "scores.csv")
        .with("allow_reuse", false)
        .with("output", "data/out");
    job.data("a.csv", "x");
    job.data("deep/b.csv", "x");
    for (path, ignore) in [("data/**/*.csv", json!([])), ("data", json!(["*.tmp"]))] {
        job.data("c.tmp", "x");
        job.set("inputs", json!([{ "type": "file", "path": path, "ignore": ignore }]));
        job.write_job_file();
        for number in 0..2 {
            // A run among the data, and an output.
            let run = format!("data/run-{}-{number}", path.len());
            let ended = job.command(&["submit", "job.yml", "--run-dir", &run, "-o", "json"]);
            ended.expect_code(0);
            let printed = ended.json();
            assert_eq!(printed["items"]["total"], 2, "{path}: {printed}");
            let told = printed["left_out"].to_string();
            assert!(
                told.contains("left out (data/run-")
                    || told.contains("left out (run-")
                    || told.contains("such as run-"),
                "{told}"
            );
            assert!(told.contains("1 folder of an output left out (out)"), "{told}");
            assert_eq!(told.contains("1 entry that ignore names left out (c.tmp)"), path == "data", "{told}");
            let report = fs::read_to_string(job.path(&run).join("logs/job_result.txt")).unwrap();
            assert!(report.contains("note          input input_1: "), "{report}");
            fs::remove_dir_all(job.path("data/out")).unwrap();
        }
    }
}

#[test]
fn a_file_job_appends_its_rows_in_input_order() {
    let job = Job::new(ROW_PER_FILE).with_files(23).with("mini_batch_size", 3);
    let printed = job.completes();
    let run = job.run();
    assert_eq!(run.rows(), rows_of_files(23));

    let result = run.result();
    let sha256 = Sha256::digest(&result).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let output = &printed["output"];
    assert_eq!(output["rows"], 23);
    assert_eq!(output["bytes"], result.len());
    assert_eq!(output["sha256"], sha256);
    assert_eq!(fs::read(output["file"].as_str().unwrap()).unwrap(), result);
    assert_eq!(printed["name"], "test-job");
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 8, "succeeded": 8, "failed": 0 }));
    assert_eq!(printed["items"], json!({ "total": 23, "succeeded": 23, "failed": 0 }));
    assert_eq!(printed["logs"], run.path().join("logs").display().to_string());
    assert!(printed["seconds"].as_f64().unwrap() > 0.0);
    assert!(!printed["job_id"].as_str().unwrap().is_empty());

    let keys: Vec<_> = printed.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "at_work",
        "complete",
        "conclusion",
        "distinct_errors",
        "ended_at",
        "errors",
        "eta_seconds",
        "failures_allowed",
        "first_errors",
        "items",
        "job_id",
        "keep_until",
        "known",
        "last_start",
        "left_out",
        "logs",
        "mini_batches",
        "mini_batches_missing",
        "mini_batches_unlisted",
        "name",
        "nodes",
        "nodes_wanted",
        "output",
        "per_second",
        "preparing",
        "printed",
        "processes",
        "reason",
        "reused_from",
        "schema",
        "seconds",
        "starts",
        "state",
        "steps",
        "submitted_at",
        "surplus",
        "tries",
        "types_differ",
        "waited_seconds",
        "waits_for",
        "workers",
    ];
    assert_eq!(keys, expected);
    for name in ["job.json", "code", "segments", "output", "logs"] {
        assert!(run.path().join(name).exists(), "{name} is part of a run folder");
    }
    assert_eq!(run.files("output"), ["output/parallel_run_step.txt"]);
}

#[test]
fn a_file_jobs_result_is_the_same_for_any_number_of_processes() {
    // Nothing is done before two of many are there.
    let together = "
import marks
read = run

def init():
    marks.mark('up')

def run(mini_batch):
    while marks.count('up') < PROCESSES:
        time.sleep(0.002)
    return read(mini_batch)
";
    let job = |processes: u32| {
        let together = together.replace("PROCESSES", &processes.min(2).to_string());
        Job::new(&format!("{OUT_OF_ORDER}{together}"))
            .with_files(60)
            .with("mini_batch_size", 2)
            .with("process_count_per_node", processes)
    };
    let (one, many) = (job(1), job(8));
    one.completes();
    many.completes();
    assert_eq!(one.run().rows(), rows_of_files(60));
    assert!(one.run().result() == many.run().result(), "the bytes are the same");
    let names: std::collections::BTreeSet<_> =
        many.run().tries().into_iter().map(|row| row["Process"].clone()).collect();
    assert!(names.len() > 1, "only {names:?} had work, which proves nothing");
}

#[test]
fn a_tabular_job_gets_data_frames_and_appends_them_as_to_csv_does() {
    let script = r#"
import random, time

def run(mini_batch):
    time.sleep(random.random() / 50)
    mini_batch["twice"] = mini_batch["value"] * 2
    return mini_batch
"#;
    let job = |processes: u32| {
        Job::new(script)
            .with_tables(&[500, 3, 1, 700])
            .with("mini_batch_size", "2kb")
            .with("process_count_per_node", processes)
    };
    let (one, many) = (job(1), job(8));
    let printed = one.completes();
    many.completes();
    let expected = expected_by_python(
        &one.path("data"),
        r#"
import glob, sys
import pandas
for name in sorted(glob.glob("*.csv")):
    table = pandas.read_csv(name)
    table["twice"] = table["value"] * 2
    table.to_csv(sys.stdout, sep=" ", header=False, index=False)
"#,
    );
    assert_eq!(String::from_utf8(one.run().result()).unwrap(), String::from_utf8(expected).unwrap());
    assert!(one.run().result() == many.run().result(), "the bytes are the same");
    assert_eq!(printed["output"]["rows"], 1204);
    assert_eq!(printed["items"], json!({ "total": 1204, "succeeded": 1204, "failed": 0 }));
    // A mini-batch never crosses a file; the small files are one each, the large ones several.
    assert!(printed["mini_batches"]["scheduled"].as_u64().unwrap() > 8, "{printed}");
}

#[test]
fn the_header_of_data_frames_is_written_once() {
    let script = "def run(mini_batch):\n    return mini_batch\n";
    let job = Job::new(script)
        .with_tables(&[400, 2])
        .with("mini_batch_size", "2kb")
        .with("arguments", json!(["--append_row_dataframe_header", "True"]));
    job.completes();
    let rows = job.run().rows();
    assert_eq!(rows[0], "id name value");
    assert_eq!(rows[1], "0 \"name, 0\" 0.5");
    assert_eq!(rows.len(), 403);
    assert_eq!(rows.iter().filter(|row| row.starts_with("id ")).count(), 1);
}

#[test]
fn settings_beside_the_script_change_how_data_frames_are_written() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_tables(&[3]);
    let settings =
        json!({ "append_row": { "pandas.DataFrame.to_csv": { "sep": ";", "float_format": "%.2f" } } });
    job.code("parallel_run_step.settings.json", &settings.to_string());
    job.completes();
    assert_eq!(job.run().rows(), ["0;name, 0;0.50", "1;name, 1;7.50", "2;name, 2;14.50"]);
}

#[test]
fn every_kind_of_result_is_written() {
    let script = r#"
import os
import numpy, pandas

def run(mini_batch):
    name = os.path.basename(mini_batch[0])
    rows = [f"{name} a", 2, None]
    if name == "0000.txt": return rows
    if name == "0001.txt": return tuple(rows)
    if name == "0002.txt": return numpy.array([1.5, 2.5])
    if name == "0003.txt": return pandas.Series(["s", 1])
    if name == "0004.txt": return (row for row in rows)
    if name == "0005.txt": return iter(rows)
    if name == "0006.txt": return map(str, rows)
    if name == "0007.txt": return pandas.DataFrame({"x": [1, 2], "y": ["a b", None]})
    return ["a\nb", "ünï", ""]
"#;
    let job = Job::new(script).with_files(9).with("mini_batch_size", 1);
    job.completes();
    let expected = "0000.txt a\n2\nNone\n0001.txt a\n2\nNone\n1.5\n2.5\ns\n1\n0004.txt a\n2\nNone\n0005.txt a\n2\nNone\n\
                    0006.txt a\n2\nNone\n1 \"a b\"\n2 \na\nb\nünï\n\n";
    assert_eq!(String::from_utf8(job.run().result()).unwrap(), expected);
}

#[test]
fn summary_only_counts_and_writes_no_result() {
    let script = "def run(mini_batch):\n    return [None] * len(mini_batch)\n";
    let job = Job::new(script).with_files(7).with("mini_batch_size", 3).with("output_action", "summary_only");
    let printed = job.completes();
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 3, "succeeded": 3, "failed": 0 }));
    assert_eq!(printed["items"], json!({ "total": 7, "succeeded": 7, "failed": 0 }));
    assert_eq!((&printed["output"]["sha256"], &printed["output"]["bytes"]), (&json!(null), &json!(0)));
    assert!(job.run().files("output").is_empty());
}

#[test]
fn each_input_is_partitioned_on_its_own_and_named_in_the_context() {
    let script = r#"
import copy, os, pickle

def run(mini_batch, mini_batch_context):
    context = pickle.loads(pickle.dumps(copy.deepcopy(mini_batch_context)))
    names = ",".join(os.path.relpath(path, os.environ["DATA"]) for path in mini_batch)
    row = [context.minibatch_index, context.mini_batch_id, context.dataset_name, context.retry_count]
    return [f"{row} {context.partition_key_value} {names}"] * len(mini_batch)
"#;
    let job = Job::new(script);
    for name in ["one/a/1", "one/b/2", "one/c", "two/d", "two/e"] {
        job.data(name, name);
    }
    let data = job.path("data").display().to_string();
    let job = job.with_variable("DATA", &data).with("mini_batch_size", 2).with(
        "inputs",
        json!([{ "name": "first", "type": "file", "path": "data/one" }, { "type": "file", "path": "data/two" }]),
    );
    job.completes();
    let first = "[0, 'mb-0000000000', 'first', 0] {} one/a/1,one/b/2";
    let second = "[1, 'mb-0000000001', 'first', 0] {} one/c";
    let third = "[2, 'mb-0000000002', 'input_2', 0] {} two/d,two/e";
    assert_eq!(job.run().rows(), [first, first, second, third, third]);
}

#[test]
fn a_list_is_worked_through_in_its_own_order() {
    let job = Job::new(ROW_PER_FILE).with_files(6);
    let listed = [4, 0, 5, 0, 2];
    let paths = listed.map(|number| job.path(&format!("data/{number:04}.txt")).display().to_string());
    job.data("list", paths.join("\n"));
    let job = job.with("inputs", json!([{ "type": "file", "list": "data/list" }])).with("mini_batch_size", 2);
    job.completes();
    assert_eq!(job.run().rows(), listed.map(|number| format!("{number:04}.txt: item {number}")));
}

#[test]
fn the_script_is_imported_with_its_package() {
    let job = Job::new("").with_files(2).with("entry_script", "pkg.inner.main").with("mini_batch_size", 2);
    job.code("pkg/__init__.py", "");
    job.code("pkg/inner/__init__.py", "");
    job.code("pkg/sibling.py", "WORD = 'sibling'\n");
    job.code("pkg/data.txt", "data");
    job.code("top.py", "WORD = 'top'\n");
    job.code(
        "pkg/inner/main.py",
        r#"
import os, pickle
from ..sibling import WORD
import top

class Row:
    def __str__(self):
        return f"{__name__} {WORD} {top.WORD} {text}"

text = open(os.path.join(os.path.dirname(__file__), "..", "data.txt")).read()

def run(mini_batch):
    return [pickle.loads(pickle.dumps(Row())) for _ in mini_batch]
"#,
    );
    job.completes();
    assert_eq!(job.run().rows(), ["pkg.inner.main sibling top data"; 2]);
}

#[test]
fn init_and_shutdown_are_called_once_in_each_process() {
    let script = r#"
import os
from marks import mark, wait_for, count

def init():
    mark("init", os.getpid())

def run(mini_batch):
    mark("run", os.getpid())
    while count("init") < 3:
        pass
    return mini_batch

def shutdown():
    mark("shutdown", os.getpid())
"#;
    let job = Job::new(script).with_files(30).with("mini_batch_size", 1).with("process_count_per_node", 3);
    job.completes();
    let sorted = |name: &str| {
        let mut pids = job.marks(name);
        pids.sort();
        pids
    };
    let (started, ended) = (sorted("init"), sorted("shutdown"));
    assert_eq!(started.len(), 3, "{started:?}");
    assert_eq!(started, ended);
    assert!(job.marks("run").iter().all(|pid| started.contains(pid)));
}

#[test]
fn ten_thousand_tiny_mini_batches() {
    let job = Job::new("def run(mini_batch):\n    return [path[-9:] for path in mini_batch]\n")
        .with("mini_batch_size", 1);
    let list: Vec<_> = (0..10_000).map(|number| format!("/nowhere/{number:05}.txt")).collect();
    job.data("list", list.join("\n"));
    let job = job.with("inputs", json!([{ "type": "file", "list": "data/list" }]));
    let printed = job.completes();
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 10_000, "succeeded": 10_000, "failed": 0 }));
    assert!(job.run().rows().iter().enumerate().all(|(at, row)| *row == format!("{at:05}.txt")));
    assert_eq!(job.run().tries().len(), 10_000);
}
