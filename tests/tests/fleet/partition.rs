//! Columns from the paths of files, `partition_format` and `partition_keys`, embedded and on a fleet, compared with pandas.

use std::fs;

use prs_tests::harness::{Fleet, Job, expected_by_python, pytest, says};
use serde_json::{Value, json};

/// The format of [`TABLES`].
const FORMAT: &str = "/{Store}/{Day:yyyy/MM/dd}/{file_name}.{kind}";
/// Writes tables of each kind below folders of three stores and two days.
const TABLES: &str = r#"
import os
import pandas as pd

first = 0
for store in ["2", "5 é", "10"]:
    for day in ["2019/12/31", "2020/02/29"]:
        os.makedirs(f"{store}/{day}", exist_ok=True)
        for kind in ["csv", "jsonl", "parquet"]:
            table = pd.DataFrame({"id": range(first, first + 40), "text": [f"t, {one}" for one in range(40)]})
            first += 40
            path = f"{store}/{day}/a.b.{kind}"
            if kind == "csv":
                table.to_csv(path, index=False)
            elif kind == "jsonl":
                table.to_json(path, orient="records", lines=True)
            else:
                table.to_parquet(path, row_group_size=10)
"#;
/// What the jobs over [`TABLES`] give back of each mini-batch.
const ROWS: &str = "
def run(mini_batch):
    types = [str(one) for one in mini_batch.dtypes]
    return [f'{row} {types}' for row in mini_batch.itertuples(index=False)]
";

fn tables(script: &str) -> Job {
    let job = Job::new(script);
    fs::create_dir_all(job.path("data")).unwrap();
    expected_by_python(&job.path("data"), TABLES);
    let input = json!({ "type": "tabular", "path": "data", "partition_format": FORMAT });
    job.with("inputs", json!([input])).with("mini_batch_size", 500)
}

/// The same of whole files, by pandas alone.
fn rows_by_pandas(job: &Job) -> String {
    let script = format!(
        r#"
import glob
import pandas as pd
{ROWS}
read = {{
    "csv": pd.read_csv, "jsonl": lambda path: pd.read_json(path, lines=True), "parquet": pd.read_parquet,
}}
for path in sorted(glob.glob("**/*.*", recursive=True)):
    store, year, month, day, name = path.split("/")
    name, kind = name.rsplit(".", 1)
    table = read[kind](path)
    table["Store"] = store
    table["Day"] = pd.Series(pd.Timestamp(f"{{year}}-{{month}}-{{day}}"), table.index, dtype="datetime64[ns]")
    table["file_name"] = name
    table["kind"] = kind
    print("\n".join(run(table)))
"#
    );
    String::from_utf8(expected_by_python(&job.path("data"), &script)).unwrap()
}

#[test]
fn tables_have_the_columns_of_their_paths_here_and_on_a_fleet() {
    let here = tables(ROWS);
    let told = here.completes();
    let expected = rows_by_pandas(&here);
    assert_eq!(expected.lines().count(), 720);
    assert!(expected.contains("Store='5 é'") && expected.contains("'datetime64[ns]'"), "{expected}");
    assert_eq!(here.run().text("output/parallel_run_step.txt"), expected);
    assert!(told["mini_batches"]["succeeded"].as_u64().unwrap() > 36, "{told}");

    let fleet = Fleet::shared();
    let there = fleet.job(tables(ROWS)).with("compute_target", "path-columns");
    let _worker = fleet.worker(&there, &["--target", "path-columns"]);
    let printed = fleet.completes(&there);
    assert_eq!(printed["mini_batches"], told["mini_batches"]);
    let stored = fleet.stored(printed["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.result()).unwrap(), expected);
}

#[test]
fn a_script_may_write_into_its_columns_and_add_to_them() {
    let job = tables(
        "
def run(mini_batch):
    mini_batch.loc[mini_batch.index[0], ['Store', 'kind']] = ['first', 'x']
    mini_batch['Day'] += mini_batch['Day'].iloc[0] - mini_batch['Day'].iloc[0]
    assert mini_batch['Store'].iloc[0] == 'first' and mini_batch['Store'].iloc[1] != 'first'
    return [1] * len(mini_batch)
",
    );
    let told = job.completes();
    assert_eq!(told["complete"], true);
}

#[test]
fn a_file_that_does_not_match_fails_alone() {
    let script = "
import os
def run(mini_batch, context):
    assert context.partition_key_value == {}
    return [os.path.basename(path) for path in mini_batch]
";
    let job = || {
        let job = Job::new(script).with("mini_batch_size", 10).with("run_max_try", 1);
        for name in
            ["u/summer/pop.wav", "u/summer/rock.wav", "u/summer/notes.txt", "u/winter/pop.wav", "top.wav"]
        {
            job.data(name, name);
        }
        let input =
            json!({ "type": "file", "path": "data", "partition_format": "{user}/{season}/{genre}.wav" });
        job.with("inputs", json!([input]))
    };
    let here = job();
    here.submit().expect_code(10);
    let failed = here.run().failed_mini_batches();
    let named = |list: &[Value]| -> Vec<String> {
        list.iter()
            .map(|one| one["items"][0]["file"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
            .collect()
    };
    // The folder of the input is no part of the way to top.wav: it is long enough by itself to match.
    assert_eq!(named(&failed), ["notes.txt"]);
    let message = failed[0]["tries"][0]["message"].as_str().unwrap();
    let says_all = message.contains("data/u/summer/notes.txt")
        && message.contains("does not match partition_format {user}/{season}/{genre}.wav: rename the file");
    assert!(says_all, "{message}");
    assert_eq!(here.run().rows(), ["top.wav", "pop.wav", "rock.wav", "pop.wav"]);
    let tried = here.command(&["try", &here.write_job_file().display().to_string(), "--item", "notes.txt"]);
    says(&tried, 42, &["does not match partition_format"]);

    let fleet = Fleet::shared();
    let there = fleet.job(job()).with("compute_target", "path-files");
    let _worker = fleet.worker(&there, &["--target", "path-files"]);
    let ended = fleet.submit(&there);
    ended.expect_code(10);
    let stored = fleet.stored(ended.json()["job_id"].as_str().unwrap());
    assert_eq!(stored.result(), here.run().result());
}

#[test]
fn where_no_file_matches_nothing_runs() {
    let job = || {
        let input = json!({ "type": "file", "path": "data", "partition_format": "{day:yyyy-MM-dd}.txt" });
        Job::new("def run(mini_batch):\n    return mini_batch\n").with_files(3).with("inputs", json!([input]))
    };
    let says = [
        "input input_1: none of its files has a path as partition_format {day:yyyy-MM-dd}.txt says",
        "0000.txt",
    ];
    job().fails(&says);
    let fleet = Fleet::shared();
    let ended = fleet.submit(&fleet.job(job()).with("compute_target", "path-none"));
    ended.expect_code(2);
    assert!(says.iter().all(|part| ended.stderr.contains(part)), "{}", ended.stderr);
}

#[test]
fn a_column_that_the_data_has_too_fails_its_file() {
    let job = tables(ROWS).with("run_max_try", 1);
    let input =
        json!({ "type": "tabular", "path": "data", "partition_format": "{text}/{d:yyyy/MM/dd}/{id}.{x}" });
    let job = job.with("inputs", json!([input]));
    fs::write(job.path("data/2/2019/12/31/z.csv"), "other\n1\n").unwrap();
    job.submit().expect_code(10);
    let failed = job.run().failed_mini_batches();
    assert!(failed.len() > 20, "{}", failed.len());
    for one in &failed {
        let message = one["tries"][0]["message"].as_str().unwrap();
        let says_all = message.contains("/data/")
            && message.contains(
                "the data has a column \"text\", and partition_format has the field {text}: give the field",
            );
        assert!(says_all, "{message}");
    }
    assert_eq!(job.run().rows().len(), 1, "the file without these columns is read");
}

#[test]
fn a_mini_batch_as_a_test_has_its_columns() {
    let job = tables(ROWS);
    let file = job.write_job_file().display().to_string();
    for (item, store) in [("10/2020/02/29/a.b.csv:3", "10"), ("2/2019/12/31/a.b.parquet:30", "2")] {
        let printed = job.command(&["try", &file, "--item", item, "--pytest"]);
        printed.expect_code(0);
        fs::write(job.path("test_it.py"), printed.stdout.replace("assert testing", &format!(
            "assert list(mini_batch.columns) == ['id', 'text', 'Store', 'Day', 'file_name', 'kind']\n    \
             assert set(mini_batch['Store']) == {{{store:?}}}\n    assert testing"))).unwrap();
        let (code, told) = pytest(&job.path(""));
        assert_eq!(code, 0, "{told}");
    }
}

/// Gives back the keys, and what is in the mini-batch.
const KEYS: &str = "
import sys

def run(mini_batch, context):
    assert sys.argv[sys.argv.index('--partition_keys') + 1] == '[\"Day\",\"Store\"]', sys.argv
    assert '--mini_batch_size' not in sys.argv
    keys = context.partition_key_value
    assert list(keys) == ['Day', 'Store'] and set(mini_batch['Store']) == {keys['Store']}
    types = [str(one) for one in mini_batch.dtypes]
    return [f'{keys} {row} {types}' for row in mini_batch.itertuples()]
";

/// Tables of [`TABLES`], with the keys store and day, in two folders of one input, and more in a third one.
fn grouped_tables() -> Job {
    let job = Job::new(KEYS);
    for folder in ["one", "two"] {
        fs::create_dir_all(job.path(&format!("data/{folder}"))).unwrap();
        expected_by_python(&job.path(&format!("data/{folder}")), TABLES);
    }
    let zipped = "import gzip, os\nos.makedirs('2/2019/12/31')\nopen('2/2019/12/31/z.csv', 'wb').write(\
                  gzip.compress(b'id,text,more\\n1,a,7\\n2,b,8\\n'))\n";
    fs::create_dir_all(job.path("data/three")).unwrap();
    expected_by_python(&job.path("data/three"), zipped);
    let paths = json!(["data/one", "data/two", "data/three"]);
    let input = json!({ "type": "tabular", "paths": paths, "partition_format": FORMAT });
    job.with("inputs", json!([input])).with("partition_keys", json!(["Day", "Store"]))
}

/// The same of whole files, by pandas alone.
fn grouped_by_pandas(job: &Job) -> String {
    let script = r#"
import glob
import pandas as pd

read = {
    "csv": lambda path: pd.read_csv(path, compression="gzip" if path.startswith("three") else None),
    "jsonl": lambda path: pd.read_json(path, lines=True), "parquet": pd.read_parquet,
}
groups = {}
for folder in ["one", "two", "three"]:
    for path in sorted(glob.glob(f"{folder}/**/*.*", recursive=True)):
        store, year, month, day, name = path.split("/")[1:]
        name, kind = name.rsplit(".", 1)
        table = read[kind](path)
        day = pd.Timestamp(int(year), int(month), int(day)).as_unit("ns")
        table["Store"] = store
        table["Day"] = pd.Series(day, table.index, dtype="datetime64[ns]")
        table["file_name"] = name
        table["kind"] = kind
        groups.setdefault((day, store), []).append(table)
for (day, store), tables in groups.items():
    table = pd.concat(tables, ignore_index=True)
    types = [str(one) for one in table.dtypes]
    for row in table.itertuples():
        print({"Day": day, "Store": store}, row, types)
"#;
    String::from_utf8(expected_by_python(&job.path("data"), script)).unwrap()
}

#[test]
fn tables_with_the_same_keys_are_one_dataframe_here_and_on_a_fleet() {
    let here = grouped_tables();
    let told = here.completes();
    let expected = grouped_by_pandas(&here);
    assert_eq!(expected.lines().count(), 1_442);
    assert_eq!(here.run().text("output/parallel_run_step.txt"), expected);
    assert_eq!(told["mini_batches"]["succeeded"], 6);
    let file = here.write_job_file().display().to_string();
    let tried = here.command(&["try", &file, "--item", "two/10/2020/02/29/a.b.parquet:17", "-o", "json"]);
    let tried = tried.json();
    let row = tried["row"].as_u64().unwrap();
    assert_eq!((row, &tried["items"]), (3 * 40 + 2 * 40 + 17, &json!(240)), "{tried}");
    says(&here.command(&["try", &file, "--pytest"]), 2, &["leave --pytest out"]);

    let fleet = Fleet::shared();
    let there = fleet.job(grouped_tables()).with("compute_target", "path-keys").with("node_count", 2);
    let _one = fleet.worker(&there, &["--target", "path-keys"]);
    let _two = fleet.worker(&there, &["--target", "path-keys"]);
    let printed = fleet.completes(&there);
    assert_eq!(printed["mini_batches"], told["mini_batches"]);
    let stored = fleet.stored(printed["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.result()).unwrap(), expected);
}

#[test]
fn a_file_that_cannot_be_read_fails_its_group_by_name() {
    let job = grouped_tables().with("run_max_try", 1);
    fs::write(job.path("data/two/5 é/2019/12/31/a.b.parquet"), "no parquet").unwrap();
    fs::write(job.path("data/two/10/2019/12/31/a.b.jsonl"), "{\"id\": 1}\n[\n").unwrap();
    job.submit().expect_code(10);
    let failed = job.run().failed_mini_batches();
    let message = |at: usize| failed[at]["tries"][0]["message"].as_str().unwrap();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(message(0).contains("data/two/10/2019/12/31/a.b.jsonl: the line at byte 10"), "{}", message(0));
    assert_eq!(failed[0]["items"].as_array().unwrap().len(), 6);
    assert!(
        message(1).contains("data/two/5 é/2019/12/31/a.b.parquet") && message(1).contains("not a Parquet")
    );
}

/// Gives back the keys and the files; one mini-batch waits for the mark `go`.
const FILES: &str = "
from marks import mark, wait_for

def run(mini_batch, context):
    keys = context.partition_key_value
    if keys['kind'] == 'k2':
        mark('begun')
        wait_for('go')
    assert len(mini_batch) == len(context.items)
    return [f'{keys} {name} {open(path).read()}' for path, name in zip(mini_batch, context.items)]
";

fn grouped_files() -> Job {
    let job = Job::new(FILES);
    for folder in ["one", "two"] {
        for number in 0..40 {
            let name = format!("{folder}/2020-{:02}/f{number:02}-k{}.txt", number % 3 + 1, number % 5);
            job.data(&name, &name);
        }
    }
    let input = json!({
        "type": "file", "paths": ["data/one", "data/two"], "partition_format": "{month:yyyy-MM}/{name}-{kind}.txt",
    });
    job.with("inputs", json!([input])).with("partition_keys", json!(["kind", "month"]))
}

fn grouped_names(job: &Job) -> String {
    let script = r#"
import glob
import pandas as pd

groups = {}
for folder in ["one", "two"]:
    for name in sorted(glob.glob("**/*.txt", root_dir=folder, recursive=True)):
        month, file = name.split("/")
        kind = file.split("-")[1].removesuffix(".txt")
        groups.setdefault((kind, month), []).append((folder, name))
for (kind, month), files in groups.items():
    for folder, name in files:
        print({"kind": kind, "month": pd.Timestamp(f"{month}-01").as_unit("ns")}, name, f"{folder}/{name}")
"#;
    String::from_utf8(expected_by_python(&job.path("data"), script)).unwrap()
}

#[test]
fn a_job_with_keys_goes_on_after_a_kill_and_is_the_same_on_a_fleet() {
    let here = grouped_files();
    let mut submit = here.start_submit(&[]);
    submit.wait_until("a mini-batch of k2", || !here.marks("begun").is_empty());
    submit.kill();
    here.mark("go");
    let resumed = here.resume();
    let told = here.has_completed(&resumed);
    let expected = grouped_names(&here);
    assert_eq!(here.run().text("output/parallel_run_step.txt"), expected);
    assert_eq!(told["mini_batches"]["succeeded"], 15);

    let fleet = Fleet::shared();
    let there = fleet.job(grouped_files()).with("compute_target", "path-groups").with("node_count", 2);
    let one = fleet.worker(&there, &["--target", "path-groups"]);
    let mut submit = fleet.start_submit(&there, &[]);
    submit.wait_until("a mini-batch of k2", || !there.marks("begun").is_empty());
    one.kill();
    submit.wait_until_said("was lost: worker ");
    there.mark("go");
    let _two = fleet.worker(&there, &["--target", "path-groups"]);
    let _three = fleet.worker(&there, &["--target", "path-groups"]);
    let ended = submit.wait();
    ended.expect_code(0);
    let stored = fleet.stored(ended.json()["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.result()).unwrap(), expected);
}
