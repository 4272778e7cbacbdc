//! Job files and inputs that are wrong: refused before anything runs, or failing alone what cannot be read.

use std::fs;
use std::os::unix::fs::symlink;

use prs_tests::harness::{Job, expected_by_python};
use serde_json::json;

const READS: &str = r#"
import os

def run(mini_batch):
    rows = []
    for path in mini_batch:
        with open(path) as file:
            rows.append(f"{os.path.basename(path)}: {file.read()}")
    return rows
"#;

fn job() -> Job {
    Job::new(READS).with_files(4)
}

#[test]
fn a_key_that_is_unknown_is_refused_with_the_nearest_one() {
    job().with("mini_batch_sise", 5).is_refused(&["mini_batch_sise", "mini_batch_size"]);
    job().with("colour", "red").is_refused(&["colour"]);
    let inputs = json!([{ "type": "file", "path": "data", "pathh": "x" }]);
    job().with("inputs", inputs).is_refused(&["pathh"]);
}

#[test]
fn a_key_that_is_not_built_yet_is_refused_and_not_ignored() {
    let keys = job().with("partition_keys", json!(["user"]));
    keys.is_refused(&["\"user\" is no column of a path", "give one that partition_format has"]);
    job()
        .with("side_inputs", json!([{ "name": "a", "path": "data" }]))
        .is_refused(&["side_inputs", "a mapping"]);
}

#[test]
fn values_out_of_range_are_refused_with_key_value_and_range() {
    job().with("mini_batch_size", "1MB").is_refused(&["mini_batch_size", "1MB"]);
    job().with("name", "Upper").is_refused(&["name", "Upper"]);
}

#[test]
fn every_mistake_is_named_at_once() {
    job().with("run_max_try", 0).with("node_count", 0).with("colour", 1).is_refused(&[
        "run_max_try",
        "node_count",
        "colour",
    ]);
}

#[test]
fn a_job_file_that_is_no_job_file_is_refused() {
    let job = job();
    let path = job.write_job_file();
    fs::write(&path, "a: [").unwrap();
    let ended = job.command(&["submit", "job.yml"]);
    ended.expect_code(2);
    assert!(ended.stderr.contains("job.yml") && ended.stdout.is_empty(), "{}", ended.stderr);
    let ended = job.command(&["submit", "no-such-file.yml"]);
    ended.expect_code(2);
    assert!(ended.stderr.contains("no-such-file.yml"), "{}", ended.stderr);
    assert!(!job.path("prs-runs").exists(), "nothing was run");
}

#[test]
fn an_interpreter_that_is_missing_is_refused() {
    job().with("environment", "/no/such/python").is_refused(&["environment", "/no/such/python"]);
    job().with("environment", "no-such-command").is_refused(&["environment", "no-such-command"]);
}

#[test]
fn an_interpreter_that_is_none_fails_the_job() {
    let job = job().with("environment", "/bin/false");
    let ended = job.submit();
    job.has_failed(&ended, &["returncode 1"]);
}

#[test]
fn an_empty_input_folder_is_refused() {
    let job = job().with("inputs", json!([{ "type": "file", "path": "empty" }]));
    fs::create_dir_all(job.path("empty/deeper")).unwrap();
    job.is_refused(&["empty", "no file"]);
}

#[test]
fn a_glob_that_matches_nothing_is_refused() {
    let job = job().with("inputs", json!([{ "type": "file", "path": "data/*.png" }]));
    job.is_refused(&["data/*.png"]);
}

#[test]
fn an_input_that_is_not_there_is_refused() {
    job()
        .with("inputs", json!([{ "type": "file", "path": "no/such/folder" }]))
        .is_refused(&["no/such/folder"]);
    job().with("inputs", json!([])).is_refused(&["inputs"]);
    let job = job().with("inputs", json!([{ "type": "file", "list": "list" }]));
    job.is_refused(&["list"]);
}

#[test]
fn files_that_cannot_be_read_fail_their_mini_batch_alone() {
    let job = job().with("mini_batch_size", 1).with("run_max_try", 2);
    symlink("/nowhere/at/all", job.path("data/0001b.txt")).unwrap();
    let list = ["0000.txt", "vanished.txt", "0001.txt", "0001b.txt", ".", "0002.txt"];
    let lines: Vec<_> = list.iter().map(|name| job.path("data").join(name).display().to_string()).collect();
    fs::write(job.path("list"), lines.join("\n")).unwrap();
    let job = job.with("inputs", json!([{ "type": "file", "list": "list" }]));
    let printed = job.completes();
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 6, "succeeded": 3, "failed": 3 }));
    assert_eq!(job.run().rows(), ["0000.txt: item 0", "0001.txt: item 1", "0002.txt: item 2"]);
    let failed = job.run().failed_mini_batches();
    let told: Vec<_> = failed
        .iter()
        .map(|one| (one["minibatch_index"].as_u64().unwrap(), one["tries"][0]["category"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [(1, "FileNotFoundError"), (3, "FileNotFoundError"), (4, "IsADirectoryError")]);
    assert!(failed.iter().all(|one| one["tries"].as_array().unwrap().len() == 2));
}

const TABLE: &str = "def run(mini_batch):\n    return mini_batch\n";

#[test]
fn a_table_that_cannot_be_read_fails_its_mini_batch_with_file_offset_and_reason() {
    // The ragged row, the bad bytes and the file that is none, each between good ones.
    let job = Job::new(TABLE).with_tables(&[2]).with("run_max_try", 2);
    let good = "id,name,value\n5,x,1.5\n";
    job.data("100.csv", "id,name,value\n1,a,1.5\n2,b\n3,c,2.5\n");
    job.data("200.csv", good);
    job.data("300.csv", b"id,name,value\n1,\xff\xfe,1.5\n");
    job.data("400.csv", good);
    job.data("500.csv", "id,name,value\n1,\"never closed,1.5\n");
    job.data("600.csv", good);
    let printed = job.completes();
    let (counts, rows) = (&printed["mini_batches"], job.run().rows());
    assert_eq!((&counts["succeeded"], &counts["failed"]), (&json!(4), &json!(3)), "{printed} {rows:?}");
    assert_eq!(rows.len(), 5);
    let tries = job.run().tries();
    for (file, offset) in [("100.csv", 22), ("300.csv", 14), ("500.csv", 14)] {
        let path = job.path("data").join(file).display().to_string();
        let row = tries.iter().find(|row| row["Mini-batch Detail"].contains(&path)).expect(file);
        assert_eq!(row["Status"], "LOAD_EXCEPTION", "{row:?}");
        let message = &row["Error Message"];
        assert!(message.contains(&path), "{message}");
        let numbers: Vec<u64> =
            message.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
        assert!(
            numbers.iter().any(|number| (offset..offset + 5).contains(number)),
            "offset {offset} in: {message}"
        );
    }
}

#[test]
fn a_table_that_is_no_file_is_told_by_its_name() {
    let job = Job::new(TABLE).with_tables(&[2, 3]);
    symlink("/nowhere/at/all", job.path("data/0001.csv")).unwrap();
    // Whether it is refused at once or fails alone: it is named, and nothing else is lost.
    let ended = job.submit();
    let told = format!("{}{}", ended.stderr, job.run().text_so_far("logs/job_error.txt"));
    assert!(told.contains("0001.csv"), "{told}\n{}", job.run().story());
    if ended.code == Some(0) {
        assert_eq!(job.run().rows().len(), 5);
    } else {
        assert!(matches!(ended.code, Some(2 | 42)), "{ended:?}");
    }
    job.has_left_nothing();
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let job = job();
    symlink("/nowhere/at/all", job.path("data/0002b.txt")).unwrap();
    let ended = job.submit();
    assert!(matches!(ended.code, Some(2 | 42)), "{ended:?}");
    assert!(ended.stderr.contains("0002b.txt"), "{}", ended.stderr);
    if ended.code == Some(42) {
        job.has_failed(&ended, &["0002b.txt"]);
    }
    job.has_left_nothing();
}

#[test]
fn a_compressed_table_that_was_cut_short_fails_alone() {
    let job = Job::new(TABLE).with_tables(&[2]).with("run_max_try", 1);
    let compress =
        "import gzip, sys\nsys.stdout.buffer.write(gzip.compress(open('000.csv', 'rb').read() * 200))";
    let whole = expected_by_python(&job.path("data"), compress);
    job.data("100.csv.gz", &whole[..whole.len() / 2]);
    job.data("200.csv", "id,name,value\n5,x,1.5\n");
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data" }]));
    let ended = job.submit();
    let printed = job.has_completed(&ended);
    assert!(printed["mini_batches"]["failed"].as_u64().unwrap() >= 1, "{printed}");
    let rows = job.run().rows();
    assert_eq!(
        (rows.first().unwrap().as_str(), rows.last().unwrap().as_str()),
        ("0 \"name, 0\" 0.5", "5 x 1.5")
    );
    // Two records and a header again and again, and the record of the other file: none of them in part.
    let distinct: std::collections::BTreeSet<_> = rows.iter().collect();
    assert!(distinct.len() <= 4, "{distinct:?}");
    let failed = job.run().tries().into_iter().find(|row| row["Status"] != "RUN_DONE").unwrap();
    assert_eq!(failed["Status"], "LOAD_EXCEPTION");
    assert!(failed["Error Message"].contains("100.csv.gz"), "{failed:?}");
}

#[test]
fn a_source_directory_that_is_not_there_is_refused() {
    job().with("source_directory", "no-such-folder").is_refused(&["source_directory", "no-such-folder"]);
}

#[test]
fn overrides_are_held_to_the_same_rules() {
    let job = job();
    for (set, parts) in
        [("entry_script=x.py", ["entry_script", "--set"]), ("run_max_try", ["run_max_try", "KEY=VALUE"])]
    {
        let ended = job.start_submit(&["--set", set]).wait();
        ended.expect_code(2);
        for part in parts {
            assert!(ended.stderr.contains(part), "{set}: {}", ended.stderr);
        }
        assert!(!job.run().path().exists());
    }
}
