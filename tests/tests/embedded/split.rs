//! `split_failed`: a bad item costs itself, and no other of its mini-batch.

use std::process::Command;

use prs_tests::harness::{Job, python};
use serde_json::{Value, json};

/// Does `does` with the file whose name it is given, and returns the names of the others.
fn job_with(does: &str) -> Job {
    let script = format!(
        r#"
import os, time
from azureml_user.parallel_run import EntryScript

broken = False

def run(mini_batch, context):
    global broken
    folder = EntryScript().output_dir
    rows = []
    for path in mini_batch:
        name = os.path.basename(path)
        with open(os.path.join(folder, name), "w") as file:
            file.write(name)
        bad = name == os.environ["BAD"]
        {does}
        rows.append(name)
    assert [os.path.basename(item) for item in context.items] == rows, context.items
    return rows
"#
    );
    Job::new(&script).with("split_failed", true)
}

/// The names of `count` files without those of `bad`.
fn names_without(count: usize, bad: &[usize]) -> Vec<String> {
    (0..count).filter(|item| !bad.contains(item)).map(|item| format!("{item:04}.txt")).collect()
}

fn counts(printed: &Value) -> [&Value; 2] {
    [&printed["mini_batches"], &printed["items"]]
}

#[test]
fn a_bad_item_costs_itself_whatever_it_does() {
    // What it does; files; processes; tries of a whole; the status of its tries.
    for (does, count, processes, tries, status) in [
        ("if bad: raise ValueError('no picture')", 20, 2, 3, "RUN_EXCEPTION"),
        ("if bad: os._exit(3)", 20, 1, 1, "PROCESS_DIED"),
        ("if bad: time.sleep(100)", 4, 2, 1, "RUN_TIMEOUT"),
        // A process that it broke fails all that come after it.
        ("broken = broken or bad; assert not broken", 20, 1, 3, "RUN_EXCEPTION"),
        ("broken = broken or bad; assert not broken", 20, 2, 3, "RUN_EXCEPTION"),
    ] {
        let case = format!("{does}, {processes} processes");
        let bad = count + 3;
        let job =
            job_with(does).with_files(2 * count).with("mini_batch_size", count).with("run_max_try", tries);
        let job = job.with("process_count_per_node", processes).with("run_invocation_timeout", 1);
        let job = job.with_variable("BAD", &format!("{bad:04}.txt"));
        let printed = job.completes();
        let whole = json!({ "scheduled": 2, "succeeded": 2, "failed": 0 });
        let items = json!({ "total": 2 * count, "succeeded": 2 * count - 1, "failed": 1 });
        assert_eq!(counts(&printed), [&whole, &items], "{case}");
        assert_eq!(job.run().rows(), names_without(2 * count, &[bad]), "{case}");
        let mut files = job.run().files("output");
        files.retain(|file| !file.contains("parallel_run_step") && !file.contains("failed_mini"));
        let expected = names_without(2 * count, &[bad]);
        assert_eq!(files, expected.iter().map(|name| format!("output/{name}")).collect::<Vec<_>>(), "{case}");

        // The list names the one file.
        let failed = job.run().failed_mini_batches();
        assert_eq!(failed.len(), 1, "{case}");
        let name = job.path("data").join(format!("{bad:04}.txt")).display().to_string();
        assert_eq!(failed[0]["items"], json!([name]), "{case}");
        assert_eq!(failed[0]["failed_items"], json!([[3, 4]]), "{case}");
        assert_eq!((&failed[0]["items_total"], &failed[0]["items_missing"]), (&json!(count), &json!(1)));

        // Each try of a part is a row.
        let (whole, parts): (Vec<_>, Vec<_>) =
            job.run().tries().into_iter().partition(|row| !row["Mini-batch Detail"].contains(", item"));
        assert_eq!(whole.len(), 1 + tries, "{case}");
        let most = 2.0 * ((count as f64).log2() + 2.0);
        assert!(parts.len() as f64 <= most, "{case}: {}", parts.len());
        let (well, ill): (Vec<_>, Vec<_>) = parts.iter().partition(|row| row["Status"] == "RUN_DONE");
        assert!(ill.iter().all(|row| row["Status"] == status), "{case}: {ill:?}");
        let succeeded: usize = well.iter().map(|row| row["Succeeded"].parse::<usize>().unwrap()).sum();
        assert_eq!(succeeded, count - 1, "{case}");
        let last = ill.iter().find(|row| row["Mini-batch Detail"] == format!("{bad:04}.txt, item 3"));
        assert!(last.is_some_and(|row| row["Total"] == "1"), "{case}: {ill:?}");
        // One error, and what it cost.
        let errors = job.command(&["errors", job.run().path().to_str().unwrap(), "-o", "json"]).json();
        assert_eq!(errors["errors"].as_array().map(Vec::len), Some(1), "{case}: {errors}");
        assert_eq!(errors["errors"][0]["items_lost"], 1, "{case}: {errors}");
    }
}

#[test]
fn rows_of_a_table_keep_their_types_and_order() {
    let script = r#"
def run(mini_batch):
    assert list(mini_batch.index) == list(range(len(mini_batch)))
    if mini_batch["id"].isin([2, 11]).any():
        raise ValueError("a bad row")
    mini_batch["sum"] = mini_batch["value"] + 1
    return mini_batch if len(mini_batch) > 2 else mini_batch.astype({"id": "float64"})
"#;
    for (format, rows) in [("csv", 13), ("parquet", 13), ("json_lines", 13)] {
        let job = Job::new(script).with_tables(&[rows, 3]).with("split_failed", true).with("run_max_try", 1);
        let job = job.with("output_format", format).with("append_row_file_name", "rows");
        let printed = job.completes();
        let items = json!({ "total": 16, "succeeded": 14, "failed": 2 });
        assert_eq!(printed["items"], items, "{format}");
        let read = r#"
import sys
import pandas
path, form = sys.argv[1:]
read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet}.get(form)
frame = read(path) if read else pandas.read_json(path, lines=True)
assert list(frame.columns) == ["id", "name", "value", "sum"], frame.columns
print([int(one) for one in frame["id"]])
"#;
        let path = job.run().path().join("output/rows");
        let printed = Command::new(python()).args(["-c", read]).arg(path).arg(format).output().unwrap();
        let ids: Vec<u32> = (0..16).filter(|id| ![2, 11].contains(id)).collect();
        let told = String::from_utf8(printed.stdout).unwrap();
        assert_eq!(told.trim(), format!("{ids:?}"), "{format}: {}", String::from_utf8_lossy(&printed.stderr));
    }
}

#[test]
fn several_at_once_are_split_as_well() {
    let script = r#"
import asyncio, os

async def run(mini_batch, context):
    await asyncio.sleep(0.01)
    if any(path.endswith(("0007.txt", "0008.txt")) for path in mini_batch):
        raise ValueError("no picture")
    return [os.path.basename(path) for path in mini_batch]
"#;
    let job = Job::new(script).with_files(24).with("mini_batch_size", 4).with("split_failed", true);
    let printed = job.with("process_count_per_node", 1).completes();
    assert_eq!(printed["items"], json!({ "total": 24, "succeeded": 22, "failed": 2 }));
}

#[test]
fn thresholds_count_the_items_and_no_mini_batch() {
    let does = "if bad: raise ValueError('no picture')";
    for (key, most, is_aborted) in [("allowed_failed_count", 0, false), ("error_threshold", 0, true)] {
        let job =
            job_with(does).with_files(8).with("mini_batch_size", 4).with(key, most).with("run_max_try", 1);
        let job = job.with_variable("BAD", "0001.txt");
        if is_aborted {
            job.fails(&["error_threshold", "1 item"]);
        } else {
            assert_eq!(job.completes()["items"]["failed"], 1, "{key}");
        }
    }
}

#[test]
fn where_no_item_succeeds_the_mini_batch_fails() {
    let job = job_with("raise ValueError('no picture')").with_files(4).with("mini_batch_size", 4);
    let job = job.with_variable("BAD", "");
    job.fails(&["every mini-batch failed"]);
    let statuses = &job.run().statuses()["mb-0000000000"];
    // Three of the whole, six of parts, and two that ran once more.
    assert!((9..=11).contains(&statuses.len()), "{statuses:?}");
    assert!(statuses.iter().all(|status| status == "RUN_EXCEPTION"), "{statuses:?}");
    let failed = job.run().failed_mini_batches();
    assert_eq!(
        (failed[0]["items"].as_array().map(Vec::len), &failed[0]["failed_items"]),
        (Some(4), &Value::Null)
    );
}
