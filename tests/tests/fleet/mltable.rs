//! Tables of the kind `MLTable`: each folder of `tests/compat/mltable` is a table and, in plain pandas, what it has to be; embedded, on a fleet,
//! and whatever dies.

use std::fs;
use std::path::Path;

use prs_tests::harness::{Fleet, Job, copy_compat, expected_by_python, pytest, python, says};
use serde_json::json;

/// Gives each row back with the names of its columns, and each file with what it holds.
const SCRIPT: &str = r#"
import os

def run(mini_batch):
    if isinstance(mini_batch, list):
        return [f"{os.path.basename(path)} {open(path).read()!r}" for path in mini_batch]
    columns = list(mini_batch.columns)
    return [str({name: str(value) for name, value in zip(columns, row)}) for row in mini_batch.itertuples(index=False, name=None)]
"#;

/// Prints the same of what `expected.py` has.
const EXPECTED: &str = r#"
import os
from expected import *
if "FILES" in globals():
    print("\n".join(f"{os.path.basename(path)} {open(path).read()!r}" for path in FILES))
else:
    for frame in FRAMES:
        for row in frame.itertuples(index=False, name=None):
            print(str({name: str(value) for name, value in zip(frame.columns, row)}))
"#;

/// The names of all cases.
fn cases() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("compat/mltable");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A job over fresh copies of these cases, an input each, and the rows that plain pandas has of them.
fn job_of(cases: &[String]) -> (Job, String) {
    let job = Job::new(SCRIPT);
    let mut expected = String::new();
    for case in cases {
        copy_compat(&format!("mltable/{case}"), &job.path(case));
        if job.path(case).join("make.py").exists() {
            expected_by_python(&job.path(case), "import make");
        }
        expected.push_str(&String::from_utf8(expected_by_python(&job.path(case), EXPECTED)).unwrap());
        let _ = fs::remove_dir_all(job.path(case).join("__pycache__"));
    }
    let inputs = cases.iter().map(|case| json!({ "name": case, "type": "mltable", "path": case }));
    let size = if is_of_files(&cases[0]) { json!(2) } else { json!("200") };
    let job = job.with("inputs", inputs.collect::<Vec<_>>()).with("mini_batch_size", size);
    (job, expected)
}

fn is_of_files(case: &str) -> bool {
    case.starts_with("files")
}

#[test]
fn every_table_is_what_pandas_makes_of_it() {
    let (files, rows): (Vec<_>, Vec<_>) = cases().into_iter().partition(|case| is_of_files(case));
    for cases in [files, rows] {
        let (job, expected) = job_of(&cases);
        let told = job.completes();
        let found = job.run().text("output/parallel_run_step.txt");
        for (line, expected) in found.lines().zip(expected.lines()) {
            assert_eq!(line, expected);
        }
        assert_eq!(found, expected);
        assert_eq!(told["complete"], true, "{told}");
        assert_eq!(told["items"]["succeeded"], expected.lines().count(), "{told}");
    }
}

/// A job over a table of 400 rows in two files, with this transformation behind `read_delimited`.
fn rows(script: &str, transformations: &str) -> Job {
    let job = Job::new(script).with("inputs", json!([{ "type": "mltable", "path": "data" }]));
    for (name, first) in [("a.csv", 0), ("b.csv", 200)] {
        let lines = (first..first + 200).map(|row| format!("{row},x{row}\n")).collect::<Vec<_>>().concat();
        job.data(name, format!("id,text\n{lines}"));
    }
    let table = "paths: [pattern: '*.csv']\ntransformations:\n- read_delimited\n";
    job.data("MLTable", format!("{table}{transformations}"));
    job.with("mini_batch_size", "100")
}

const IDS: &str = "def run(mini_batch):\n    assert len(mini_batch)\n    return list(mini_batch['id'])\n";

#[test]
fn a_mini_batch_that_a_filter_leaves_nothing_of_succeeds_without_run() {
    let job = rows(IDS, "- filter: id >= 100 and id < 103 or id == 399\n");
    let told = job.completes();
    assert_eq!(job.run().rows(), ["100", "101", "102", "399"]);
    assert_eq!(told["complete"], true, "{told}");
    assert_eq!(told["items"], json!({ "total": 4, "succeeded": 4, "failed": 0 }));
    assert_eq!(told["mini_batches"]["failed"], 0);
    let nothing = rows(IDS, "- filter: id < 0\n");
    nothing.fails(&["no row was returned in the whole job"]);
}

#[test]
fn nothing_behind_a_satisfied_take_is_read() {
    let job = rows(IDS, "- skip: 3\n- take: 150\n");
    // It would not be read for anything.
    fs::remove_file(job.path("data/b.csv")).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", job.path("data/b.csv")).unwrap();
    job.completes();
    let expected: Vec<String> = (3..153).map(|row| row.to_string()).collect();
    assert_eq!(job.run().rows(), expected);
}

#[test]
fn data_that_a_step_does_not_fit_fails_its_mini_batches_alone() {
    let job = rows(IDS, "- keep_columns: [id]\n").with("run_max_try", 1);
    job.data("ab.csv", "id,wrong\n1\n");
    job.data("b.csv", "id\n7\n");
    job.submit().expect_code(10);
    let failed = job.run().failed_mini_batches();
    let message = |index: usize| failed[index]["tries"][0]["message"].as_str().unwrap().to_owned();
    assert!(message(0).contains("/data/ab.csv") && message(0).contains("fields"), "{}", message(0));
    assert!(
        message(1).contains("/data/b.csv") && message(1).contains("the columns are the 2 of the first file"),
        "{}",
        message(1)
    );
    assert_eq!((failed.len(), job.run().rows().len()), (2, 200));
}

#[test]
fn values_that_do_not_convert_are_told() {
    let job = rows(
        "def run(mini_batch):\n    return list(mini_batch['text'].isna())\n",
        "- convert_column_types: [{columns: text, column_type: int}]\n",
    )
    .with("process_count_per_node", 1);
    job.completes();
    assert!(job.run().rows().iter().all(|row| row == "True"));
    let log = job.run().text("logs/sys/node/0/_main.txt");
    assert_eq!(log.matches("WARNING: column 'text' has ").count(), 1, "{log}");
}

#[test]
fn a_table_is_refused_with_the_line_of_its_file() {
    rows(IDS, "- filter: id = 1\n- keep_colums: x\n").is_refused(&[
        "/data/MLTable:4: transformations[1].filter: \"id = 1\", at character 4: '=' has no meaning here",
        "/data/MLTable:5: transformations[2].keep_colums: there is no such transformation: did you mean `keep_columns`?",
    ]);
}

#[test]
fn what_failed_is_run_again_without_another_look_at_the_table() {
    let script = "
import os

def run(mini_batch):
    if 250 in set(mini_batch['id']) and not os.path.exists(os.environ['GO']):
        open(os.environ['GO'], 'w')
        raise SystemExit(3)
    return list(mini_batch['id'])
";
    let job = rows(script, "- skip: 5\n- filter: id != 7\n").with("run_max_try", 1);
    let go = job.path("go").display().to_string();
    let job = job.with_variable("GO", &go);
    job.submit().expect_code(10);
    // The table is not read again.
    fs::write(job.path("data/MLTable"), "no table").unwrap();
    job.resume().expect_code(0);
    let expected: Vec<String> = (5..400).filter(|row| *row != 7).map(|row| row.to_string()).collect();
    assert_eq!(job.run().rows(), expected);
}

#[test]
fn a_job_is_shown_and_tried_with_its_table() {
    let job = rows(IDS, "- filter: id >= 100\n");
    let file = job.write_job_file().display().to_string();
    let tried = job.command(&["try", &file, "--item", "b.csv:3"]);
    says(&tried, 0, &["203"]);
    let printed = job.command(&["try", &file, "--item", "b.csv:3", "--pytest"]);
    printed.expect_code(0);
    fs::write(job.path("test_it.py"), &printed.stdout).unwrap();
    let (ended, said) = pytest(&job.path(""));
    assert_eq!(ended, 0, "{said}");
    job.completes();
    let run = job.run().path().display().to_string();
    let shown = job.command(&["show", &run]).stdout;
    assert!(shown.contains("type: tabular") && shown.contains("/data/MLTable"), "{shown}");
    fs::write(job.path("again.yml"), &shown).unwrap();
    says(&job.command(&["validate", "again.yml"]), 0, &[]);
}

#[test]
fn a_parallel_job_has_rows_by_its_mode() {
    let rows = rows(IDS, "- take: 30\n");
    let yaml = |mode: &str| {
        format!(
            "type: parallel\nname: by-mode\ninputs:\n  x: {{type: mltable, path: data, mode: {mode}}}\noutputs:\n  out: {{type: \
             uri_file, path: ./{mode}.txt}}\ninput_data: ${{{{inputs.x}}}}\ntask: {{type: run_function, code: ., \
             entry_script: {mode}.py, environment: {}, append_row_to: '${{{{outputs.out}}}}'}}\n",
            python().display()
        )
    };
    fs::write(rows.path("direct.py"), IDS).unwrap();
    let names =
        "import os\n\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";
    fs::write(rows.path("eval_mount.py"), names).unwrap();
    let numbers = (0..30).map(|row| format!("{row}\n")).collect::<Vec<_>>().concat();
    for (mode, expected, said) in
        [("direct", &*numbers, ""), ("eval_mount", "a.csv\nb.csv\n", "rows need mode: direct")]
    {
        fs::write(rows.path(&format!("{mode}.yml")), yaml(mode)).unwrap();
        let ended = rows.command(&["submit", &format!("{mode}.yml"), "--run-dir", mode]);
        says(&ended, 0, &[said]);
        assert_eq!(fs::read_to_string(rows.path(&format!("{mode}.txt"))).unwrap(), expected);
    }
}

#[test]
fn every_table_is_the_same_on_a_fleet() {
    let fleet = Fleet::shared();
    let (files, rows): (Vec<_>, Vec<_>) = cases().into_iter().partition(|case| is_of_files(case));
    for (cases, name) in [(files, "mltable-files"), (rows, "mltable-rows")] {
        let (job, expected) = job_of(&cases);
        let job = fleet.job(job).with("compute_target", name);
        let _workers = [(); 2].map(|()| fleet.worker(&job, &["--target", name]));
        let printed = fleet.completes(&job);
        let stored = fleet.stored(printed["job_id"].as_str().unwrap());
        assert_eq!(String::from_utf8(stored.result()).unwrap(), expected);
        assert_eq!(printed["items"]["succeeded"], expected.lines().count(), "{printed}");
    }
}

#[test]
fn files_in_a_bucket_are_named_by_their_urls() {
    let fleet = Fleet::shared();
    let name = "mltable-bucket";
    fleet.s3.make_bucket(name);
    for (key, first) in [("in/a.csv", 0), ("in/b.csv", 50), ("other.csv", 100)] {
        let lines = (first..first + 50).map(|row| format!("{row}\n")).collect::<Vec<_>>().concat();
        fleet.s3.put_object(name, key, format!("id\n{lines}").as_bytes());
    }
    let script = "def run(mini_batch):\n    return [f'{path} {id}' for path, id in zip(mini_batch['Path'], mini_batch['id'])]\n";
    let table = |paths: &str| {
        let job = Job::new(script).with("inputs", json!([{ "type": "mltable", "path": "data" }]));
        job.data(
            "MLTable",
            format!(
                "paths: [{paths}]\ntransformations:\n- read_delimited: {{include_path_column: true}}\n- skip: 40\n- take: 80\n- \
                 filter: id != 60\n"
            ),
        );
        fleet.job(job).with("mini_batch_size", "30").with("compute_target", name)
    };
    let job = table(&format!("pattern: 's3://{name}/in/*.csv', file: s3://{name}/other.csv"));
    let _worker = fleet.worker(&job, &["--target", name]);
    let printed = fleet.completes(&job);
    let row = |id: u32| match id {
        0..50 => format!("s3://{name}/in/a.csv {id}\n"),
        50..100 => format!("s3://{name}/in/b.csv {id}\n"),
        _ => format!("s3://{name}/other.csv {id}\n"),
    };
    let expected: String = (40..120).filter(|id| *id != 60).map(row).collect();
    let stored = fleet.stored(printed["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.result()).unwrap(), expected);
    // Each entry has to name something.
    let absent = table(&format!("file: s3://{name}/other.csv, file: s3://{name}/absent.csv"));
    says(&fleet.submit(&absent), 2, &[&format!("no file found in s3://{name}/absent.csv")]);
}

#[test]
fn the_rows_are_the_same_when_a_worker_is_killed() {
    let fleet = Fleet::shared();
    let name = "mltable-killed";
    let script = "
from marks import mark, wait_for

def run(mini_batch):
    if 150 in set(mini_batch['id']):
        mark('waits')
        wait_for('go')
    return list(mini_batch['id'])
";
    let job = rows(script, "- skip: 7\n- filter: id != 8 and text > 'x1'\n");
    let job = fleet.job(job).with("compute_target", name).with("process_count_per_node", 1);
    let first = fleet.worker(&job, &["--target", name]);
    let mut submitted = fleet.start_submit(&job, &[]);
    submitted.wait_until("a mini-batch that waits", || !job.marks("waits").is_empty());
    assert!(first.kill());
    let _second = fleet.worker(&job, &["--target", name]);
    job.mark("go");
    let ended = submitted.wait();
    ended.expect_code(0);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let expected = (7..400)
        .filter(|id| *id != 8 && format!("x{id}").as_str() > "x1")
        .map(|id| format!("{id}\n"))
        .collect::<Vec<_>>()
        .concat();
    assert_eq!(String::from_utf8(fleet.stored(&id).result()).unwrap(), expected);
}
