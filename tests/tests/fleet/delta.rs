//! Delta tables (`read_delta_lake` of an MLTable): each version is what was written to it, embedded and on a fleet, and what
//! cannot be read is told with its remedy.

use std::fs;
use std::path::Path;

use prs_tests::harness::{Fleet, Job, expected_by_python, made_once, pytest, says};
use serde_json::{Value, json};

/// Gives each row back with the names of its columns.
const SCRIPT: &str = "
def run(mini_batch):
    columns = list(mini_batch.columns)
    return [str({name: str(value) for name, value in zip(columns, row)}) for row in mini_batch.itertuples(index=False, name=None)]
";

/// Writes the tables `sales` and `own`, and for each version the rows that it has.
const TABLES: &str = include_str!("delta_tables/write.py");

/// Puts the tables into the folder of `job`, and the rows of each version.
fn make_tables(job: &Job) {
    made_once("delta", &job.path(""), |folder| _ = expected_by_python(folder, TABLES));
}

/// A job over these versions of the tables at `place`, an input each: table, arguments, and what else is done with its rows.
fn job_over(place: &str, versions: &[(&str, &str, &str)]) -> Job {
    let job = Job::new(SCRIPT);
    make_tables(&job);
    inputs(job, place, versions).with("mini_batch_size", "300")
}

fn inputs(job: Job, place: &str, versions: &[(&str, &str, &str)]) -> Job {
    let mut inputs: Vec<Value> = Vec::new();
    for (number, (table, arguments, more)) in versions.iter().enumerate() {
        let folder = job.path(&format!("tables/{number}"));
        fs::create_dir_all(&folder).unwrap();
        let place = if place.is_empty() { job.path("").display().to_string() } else { place.to_owned() };
        let place = place.trim_end_matches('/');
        let text = format!(
            "paths: [folder: '{place}/{table}']\ntransformations:\n- read_delta_lake: {{{arguments}}}\n{more}"
        );
        fs::write(folder.join("MLTable"), text).unwrap();
        inputs.push(
            json!({ "name": format!("t{number}"), "type": "mltable", "path": format!("tables/{number}") }),
        );
    }
    job.with("inputs", inputs)
}

/// The rows of these versions.
fn rows(job: &Job, versions: &[&str]) -> String {
    versions.iter().map(|version| fs::read_to_string(job.path(&format!("{version}.txt"))).unwrap()).collect()
}

#[test]
fn each_version_is_what_was_written() {
    let job = job_over(
        "",
        &[
            ("sales", "version_as_of: 0", ""),
            ("sales", "version_as_of: 1", ""),
            ("sales", "version_as_of: 2", ""),
            ("sales", "version_as_of: 3", ""),
            ("sales", "version_as_of: 4", ""),
            ("sales", "version_as_of: 5", ""),
            ("sales", "version_as_of: 6", ""),
            ("sales", "timestamp_as_of: '2024-01-01T00:00:20Z'", ""),
            ("sales", "timestamp_as_of: '2024-01-01T01:00:29.999+01:00'", ""),
            ("own", "timestamp_as_of: '2024-01-01T00:00:12Z'", ""),
            ("own", "timestamp_as_of: '2024-01-01T00:15:00Z'", ""),
            ("own", "timestamp_as_of: '2024-01-01T00:16:40Z'", ""),
            ("own", "timestamp_as_of: '2024-01-01T01:06:39Z'", ""),
            ("own", "timestamp_as_of: '2024-01-01T01:23:20Z'", ""),
        ],
    );
    let told = job.completes();
    let found = job.run().text("output/parallel_run_step.txt");
    let versions = [
        "sales-0", "sales-1", "sales-2", "sales-3", "sales-4", "sales-5", "sales-6", "sales-2", "sales-2",
        "own-1", "own-1", "own-2", "own-4", "own-6",
    ];
    let expected = rows(&job, &versions);
    for (line, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
    assert_eq!(told["complete"], true, "{told}");
}

#[test]
fn other_transformations_work_on_its_rows() {
    let more = "- filter: score > 1 and day >= '2024-01-01'\n- skip: 2\n- take: 9\n- drop_columns: [name]\n";
    let job = job_over(
        "",
        &[
            (
                "sales",
                "version_as_of: 4, include_path_column: true",
                "- take: 3\n- keep_columns: [Path, day]\n",
            ),
            (
                "sales",
                "version_as_of: 3",
                "- extract_columns_from_partition_format: '{folder}/{file}.parquet'\n- take: 1\n",
            ),
        ],
    );
    job.completes();
    let path = job.path("sales/day=2024-01-01/a two%.parquet").display().to_string();
    let mut expected = vec![format!("{{'Path': '{path}', 'day': '2024-01-01'}}"); 3];
    let first = rows(&job, &["sales-3"])
        .lines()
        .next()
        .unwrap()
        .replace('}', ", 'folder': 'day=2024-01-01', 'file': 'a two%'}");
    expected.push(first);
    assert_eq!(job.run().rows(), expected);
    let counted = inputs(job, "", &[("sales", "version_as_of: 4", more)]);
    let run = counted.path("counted");
    let counted = counted.with_run_folder(run);
    counted.submit().expect_code(0);
    let expected: Vec<String> = (7..16)
        .map(|row| {
            format!("{{'id': '{}', 'day': '2024-01-03', 'score': '{:?}'}}", 80 + row, f64::from(row) / 4.0)
        })
        .collect();
    assert_eq!(counted.run().rows(), expected);
}

#[test]
fn rows_are_put_together_by_a_partition_column() {
    let script = "
def run(mini_batch, context):
    return [f\"{key}: {len(mini_batch)} {list(mini_batch.columns)}\" for key in [str(context.partition_key_value)] ] + [None] * (len(mini_batch) - 1)
";
    let job = Job::new(script);
    make_tables(&job);
    let more = "- filter: id >= 60\n";
    let job = inputs(job, "", &[("sales", "version_as_of: 4", more)]).with("partition_keys", json!(["day"]));
    job.submit().expect_code(0);
    let text = job.run().text("output/parallel_run_step.txt");
    let columns = "['id', 'day', 'name', 'score']";
    for (day, rows) in [("1", 20), ("3", 40)] {
        let line = format!("{{'day': datetime.date(2024, 1, {day})}}: {rows} {columns}");
        assert!(text.lines().any(|told| told == line), "{line}\n{text}");
    }
}

#[test]
fn what_is_tried_and_resumed_is_the_version_that_was_read() {
    let script = "
import os

def run(mini_batch):
    if 45 in set(mini_batch['id']) and not os.path.exists(os.environ['GO']):
        raise ValueError('not yet')
    return list(mini_batch['id'])
";
    let job = Job::new(script);
    make_tables(&job);
    let go = job.path("go").display().to_string();
    let job = inputs(job, "", &[("sales", "timestamp_as_of: '2024-01-01T00:00:15Z'", "")])
        .with("run_max_try", 1)
        .with("mini_batch_size", "300")
        .with_variable("GO", &go);
    let file = job.write_job_file().display().to_string();
    says(&job.command(&["validate", &file]), 0, &["mini-batches  12"]);
    says(&job.command(&["try", &file, "--mini-batch", "1"]), 0, &["26"]);
    let printed = job.command(&["try", &file, "--mini-batch", "1", "--pytest"]);
    printed.expect_code(0);
    fs::write(job.path("test_it.py"), &printed.stdout).unwrap();
    let (ended, said) = pytest(&job.path(""));
    assert_eq!(ended, 0, "{said}");
    job.submit().expect_code(10);
    // What comes later to the log changes nothing, and it is not read again.
    fs::remove_dir_all(job.path("sales/_delta_log")).unwrap();
    fs::write(&go, "").unwrap();
    job.resume().expect_code(0);
    let expected: Vec<String> = (20..40).chain(0..20).chain(40..60).map(|id| id.to_string()).collect();
    assert_eq!(job.run().rows(), expected);
}

/// What the check of a job says over this version of `sales`, after `change` was made to its folder.
fn refused(arguments: &str, change: impl Fn(&Path)) -> String {
    let job = job_over("", &[("sales", arguments, "")]);
    change(&job.path("sales"));
    let file = job.write_job_file().display().to_string();
    let ended = job.command(&["validate", &file]);
    ended.expect_code(2);
    assert!(
        ended.stderr.contains(&format!("input t0: the Delta table {}", job.path("sales").display())),
        "{}",
        ended.stderr
    );
    ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_cannot_be_read_is_told_with_its_remedy() {
    let log = |sales: &Path, name: &str| sales.join("_delta_log").join(name);
    let commit = |sales: &Path, version: u64| log(sales, &format!("{version:020}.json"));
    let checkpoint = "00000000000000000003.checkpoint.parquet";
    for (arguments, change, expected) in [
        (
            "version_as_of: 7",
            &|_: &Path| () as _,
            "there is no version 7: the versions that its log tells are 0 to 6; give one of these",
        ),
        (
            "version_as_of: 1",
            &|sales: &Path| (0..3).for_each(|version| fs::remove_file(commit(sales, version)).unwrap()),
            "there is no version 1: the versions that its log tells are 3 to 6",
        ),
        (
            "version_as_of: 4",
            &|sales: &Path| fs::remove_file(commit(sales, 4)).unwrap(),
            "version 4 takes _delta_log/00000000000000000004.json, which is not there: bring it back",
        ),
        (
            "timestamp_as_of: '2023-12-31T23:59:59Z'",
            &|_: &Path| (),
            "2023-12-31T23:59:59Z is before version 0, the first that its log tells, which is of 2024-01-01T00:00:00.000000Z: give a time from then on",
        ),
        (
            "timestamp_as_of: '2024-01-01T00:01:00.001Z'",
            &|_: &Path| (),
            "is after version 6, the last one, which is of 2024-01-01T00:01:00.000000Z, and the table may still get versions before that: give a time up to then, or version_as_of: 6",
        ),
        (
            "version_as_of: 4",
            &|sales: &Path| fs::write(commit(sales, 4), "{\"add\": {\n").unwrap(),
            "_delta_log/00000000000000000004.json, line 1: it is no action: EOF while parsing",
        ),
        (
            "version_as_of: 4",
            &|sales: &Path| {
                let whole = fs::read(log(sales, checkpoint)).unwrap();
                fs::write(log(sales, checkpoint), &whole[..whole.len() / 2]).unwrap();
            },
            "_delta_log/00000000000000000003.checkpoint.parquet: it is not a Parquet file, or is cut off",
        ),
        (
            "version_as_of: 4",
            &|sales: &Path| fs::remove_file(sales.join("day=2024-01-03/d.parquet")).unwrap(),
            "version 4 has the file day=2024-01-03/d.parquet, which is not there: VACUUM removes files of former versions, so give a later one",
        ),
        (
            "version_as_of: 0",
            &|sales: &Path| {
                fs::write(
                    commit(sales, 0),
                    fs::read_to_string(commit(sales, 0)).unwrap().replace(
                        "\"minReaderVersion\": 1",
                        "\"minReaderVersion\": 3, \"readerFeatures\": [\"catalogManaged\"]",
                    ),
                )
                .unwrap();
            },
            "it is for readers with catalogManaged, which is not read: run ALTER TABLE ... DROP FEATURE",
        ),
        (
            "version_as_of: 0",
            &|sales: &Path| {
                fs::write(
                    commit(sales, 0),
                    fs::read_to_string(commit(sales, 0))
                        .unwrap()
                        .lines()
                        .filter(|line| !line.contains("\"add\""))
                        .collect::<Vec<_>>()
                        .join("\n"),
                )
                .unwrap();
            },
            "version 0 of the table has no file, so there is nothing to run on",
        ),
    ] as [(&str, &dyn Fn(&Path), &str); 10]
    {
        let said = refused(arguments, change);
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}

#[test]
fn each_version_is_the_same_on_a_fleet() {
    let fleet = Fleet::shared();
    let name = "delta-fleet";
    fleet.s3.make_bucket(name);
    let job = job_over(
        &format!("s3://{name}/lake"),
        &[
            ("sales", "version_as_of: 2", ""),
            ("sales", "version_as_of: 5", ""),
            ("sales", "version_as_of: 6", "- filter: id >= 100\n- keep_columns: [id, day]\n"),
        ],
    );
    let below = String::from_utf8(expected_by_python(
        &job.path(""),
        "import os\nprint('\\n'.join(os.path.join(at, one) for at, _, names in os.walk('sales') for one in names))",
    ));
    for path in below.unwrap().trim_end().lines() {
        fleet.s3.put_object(name, &format!("lake/{path}"), &fs::read(job.path(path)).unwrap());
    }
    // A file that the version has and the bucket does not.
    let gone = fs::read(job.path("sales/day=2024-01-02/b.parquet")).unwrap();
    // And two on this machine: one is uploaded, the other read in its place.
    for (at, version) in [(3, 4), (4, 1)] {
        let local = job.path(&format!("tables/{at}"));
        fs::create_dir_all(&local).unwrap();
        let read = format!("read_delta_lake: {{version_as_of: {version}}}");
        fs::write(
            local.join("MLTable"),
            format!("paths: [folder: ../../sales]\ntransformations:\n- {read}\n"),
        )
        .unwrap();
    }
    let mode = |at: u32| if at == 4 { "direct" } else { "upload" };
    let input = |at: u32| json!({ "name": format!("t{at}"), "type": "mltable", "path": format!("tables/{at}"), "mode": mode(at) });
    let mut inputs: Vec<Value> = (0..5).map(input).collect();
    let job = fleet.job(job).with("compute_target", name).with("inputs", inputs.clone());
    let _workers = [(); 2].map(|()| fleet.worker(&job, &["--target", name]));
    let printed = fleet.completes(&job);
    let stored = fleet.stored(printed["job_id"].as_str().unwrap());
    let few: Vec<String> = (100..120).map(|id| format!("{{'id': '{id}', 'day': '2024-01-03'}}\n")).collect();
    let expected = rows(&job, &["sales-2", "sales-5"]) + &few.concat() + &rows(&job, &["sales-4", "sales-1"]);
    assert_eq!(String::from_utf8(stored.result()).unwrap(), expected);

    fleet.s3.delete_object(name, "lake/sales/day=2024-01-02/b.parquet");
    inputs.truncate(1);
    let job = job.with("inputs", inputs).with("run_max_try", 1);
    let ended = fleet.submit(&job);
    ended.expect_code(10);
    says(&ended, 10, &["VACUUM removes files of former versions, so give a later one"]);
    fleet.s3.put_object(name, "lake/sales/day=2024-01-02/b.parquet", &gone);
}
