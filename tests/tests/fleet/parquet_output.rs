//! `output_format: parquet`: returned DataFrames as one Parquet file, the same bytes whatever dies and wherever it is made,
//! with the types of all mini-batches. pandas reads what comes out.

use prs_tests::harness::{Fleet, Job, expected_by_python};
use serde_json::{Value, json};

/// Gives columns of many types. The first mini-batch has no row to give, the fifth waits for the mark `go`.
const SCORES: &str = r#"
import datetime, decimal, random, time
import pandas
from marks import mark, wait_for

def columns(table):
    ids = table["id"].tolist()
    table = table.copy()
    table["third"] = table["value"] / 3
    table["even"] = pandas.array([n % 2 == 0 if n % 5 else None for n in ids], dtype="boolean")
    table["whole"] = pandas.array([n if n % 3 else None for n in ids], dtype="Int64")
    sizes = ["xl", "l", "m", "s"]
    table["size"] = pandas.Categorical([sizes[n % 3] for n in ids], categories=sizes, ordered=True)
    table["when"] = pandas.to_datetime(table["id"], unit="s", utc=True).dt.tz_convert("Europe/Berlin")
    table["day"] = [datetime.date(2024, 1, 1) + datetime.timedelta(days=n) for n in ids]
    table["price"] = [decimal.Decimal(n) / 100 for n in ids]
    table["month"] = pandas.PeriodIndex([pandas.Period(ordinal=600 + n, freq="M") for n in ids])
    table["list"] = [list(range(n % 4)) for n in ids]
    table["nested"] = [{"n": n, "name": str(n)} if n % 3 else None for n in ids]
    return table

def run(mini_batch, context):
    time.sleep(random.random() / 50)
    if context.minibatch_index == 4:
        wait_for("go")
    mark("ran", context.minibatch_index)
    return columns(mini_batch[mini_batch["id"] >= 0])
"#;

/// Tables of which the first has no row that is kept.
fn job() -> Job {
    let job = Job::new(SCORES)
        .with_tables(&[1, 60, 1, 3, 200, 80])
        .with("mini_batch_size", "1kb")
        .with("append_row_file_name", "scores.parquet")
        .with("error_threshold", -1)
        .with("output_format", "parquet");
    job.data("000.csv", "id,name,value\n-1,nobody,0.5\n");
    job
}

/// Compares the result of [`SCORES`] with what pandas writes of all of the data, and reads again.
const COMPARE: &str = r#"
import glob, io, os, sys, types
import pandas, pyarrow.parquet

sys.modules["marks"] = types.SimpleNamespace(mark=None, wait_for=None)
scores = {}
exec(SCRIPT, scores)
tables = [pandas.read_csv(name) for name in sorted(glob.glob("*.csv"))]
table = pandas.concat([table[table["id"] >= 0] for table in tables], ignore_index=True)
written = io.BytesIO()
scores["columns"](table).to_parquet(written)
expected = pandas.read_parquet(written)
result = pandas.read_parquet(RESULT)
pandas.testing.assert_frame_equal(result, expected)
assert result["size"].cat.ordered and result["size"].cat.categories.tolist() == ["xl", "l", "m", "s"]
assert pyarrow.parquet.ParquetFile(RESULT).num_row_groups == 1
"#;

fn agrees_with_pandas(job: &Job, result: &str) {
    let result = job.run().path().join(result);
    let names = format!("SCRIPT, RESULT = {}, {}\n", json!(SCORES), json!(result));
    expected_by_python(&job.path("data"), &(names + COMPARE));
}

/// The result of a job, as JSON: dtypes by column, and rows.
fn read(job: &Job) -> Value {
    let code = "
import json, pandas
table = pandas.read_parquet('parallel_run_step.txt')
rows = json.loads(table.to_json(orient='records'))
print(json.dumps([{name: str(kind) for name, kind in table.dtypes.items()}, rows]))
";
    serde_json::from_slice(&expected_by_python(&job.run().path().join("output"), code)).unwrap()
}

/// A job whose mini-batch of index n returns the n-th of these DataFrames.
fn returning(frames: &[&str]) -> Job {
    let frames = frames.join(",\n    ");
    let script = format!(
        "import pandas as pd\ndef run(mini_batch, context):\n    return [\n    {frames}][context.minibatch_index]\n"
    );
    let job = Job::new(&script).with_files(frames.lines().count()).with("mini_batch_size", 1);
    job.with("output_format", "parquet").with("error_threshold", -1).with("run_max_try", 1)
}

#[test]
fn the_file_is_the_same_after_a_kill_and_on_a_fleet() {
    let killed = job().with("process_count_per_node", 3);
    let mut submit = killed.start_submit(&[]);
    submit.wait_until("half of the mini-batches", || killed.marks("ran").len() > 5);
    assert!(submit.kill());
    killed.mark("go");
    killed.resume().expect_code(0);
    let result = killed.run().bytes("output/scores.parquet");
    agrees_with_pandas(&killed, "output/scores.parquet");

    let fleet = Fleet::shared();
    let there = fleet.job(job()).with("compute_target", "parquet").with("node_count", 2);
    there.mark("go");
    let _workers = [(); 2].map(|()| fleet.worker(&there, &["--target", "parquet"]));
    let printed = fleet.completes(&there);
    let stored = fleet.stored(printed["job_id"].as_str().unwrap());
    assert!(stored.bytes("output/scores.parquet") == result, "the bytes differ");
}

#[test]
fn types_that_differ_between_mini_batches_are_widened() {
    let job = returning(&[
        "pd.DataFrame({'a': [1], 'n': [None], 'c': pd.Categorical(['x'])})",
        "pd.DataFrame({'a': []})",
        "pd.DataFrame({'a': [2.5], 'new': ['text'], 'n': pd.array([3], dtype='Int64'), 'c': pd.Categorical(['y'])})",
        "pd.DataFrame({'new': [None], 'a': pd.Series([4], dtype='int8')})",
    ]);
    job.completes();
    let read = read(&job);
    let (dtypes, rows) = (&read[0], &read[1]);
    assert_eq!(
        [&dtypes["a"], &dtypes["n"], &dtypes["c"]],
        [&json!("float64"), &json!("Int64"), &json!("category")]
    );
    assert_eq!(dtypes.as_object().unwrap().len(), 4);
    let expected = json!([
        { "a": 1.0, "n": null, "c": "x", "new": null },
        { "a": 2.5, "n": 3, "c": "y", "new": "text" },
        { "a": 4.0, "n": null, "c": null, "new": null },
    ]);
    assert_eq!(*rows, expected);
}

#[test]
fn a_column_without_a_value_takes_the_type_of_the_others() {
    let job = returning(&[
        "pd.DataFrame({'id': [float('nan')], 'text': pd.Series([None], dtype='str'), 'size': pd.Categorical([None])})",
        "pd.DataFrame({'id': [2**53 + 1], 'text': ['x'], 'size': pd.Categorical(['s'], ['s', 'l'], ordered=True)})",
        "pd.DataFrame({'id': [2], 'text': [float('nan')], 'size': pd.Categorical([None], ['l', 's'], ordered=True)})",
    ]);
    job.completes();
    let code = "
import pandas, pyarrow.parquet
table = pyarrow.parquet.read_table('parallel_run_step.txt')
assert table['id'].to_pylist() == [None, 2**53 + 1, 2], table['id']
assert table['text'].to_pylist() == [None, 'x', None], table['text']
assert not [field for field in table.schema if field.metadata and b'prs:missing' in field.metadata]
size = pandas.read_parquet('parallel_run_step.txt')['size']
assert size.isna().tolist() == [True, False, True] and size[1] == 's'
assert size.cat.ordered and size.cat.categories.tolist() == ['s', 'l'], size
";
    expected_by_python(&job.run().path().join("output"), code);
}

#[test]
fn types_that_do_not_go_together_fail_the_job_and_are_named() {
    let job =
        returning(&["pd.DataFrame({'a': [1]})", "pd.DataFrame({'a': [2]})", "pd.DataFrame({'a': ['x']})"]);
    job.fails(&[
        "column a is of type int64 in mini-batch 0 and of type string in mini-batch 2",
        "astype(TYPE)",
    ]);
    let job = returning(&["pd.DataFrame({'a': [{}]})", "pd.DataFrame({'a': [None]})"]);
    job.fails(&["the rows of mini-batch 0 cannot be written as Parquet: column a has dicts without keys"]);
    // Years beyond the nanoseconds that another mini-batch has.
    let job = returning(&[
        "pd.DataFrame({'a': pd.Series(['2024-01-01'], dtype='datetime64[ns]')})",
        "pd.DataFrame({'a': pd.Series(['9999-01-01'], dtype='datetime64[s]')})",
    ]);
    job.fails(&["the rows of mini-batch 1 cannot be written as Parquet"]);
}

#[test]
fn without_a_row_there_is_no_file() {
    let job = returning(&["pd.DataFrame({'a': []})", "[]"]);
    job.fails(&["append_row: no row was returned in the whole job"]);
    assert!(!job.run().path().join("output/parallel_run_step.txt").exists());
}

#[test]
fn what_is_no_table_fails_its_mini_batch_and_try_shows_rows() {
    let job = returning(&["['text']", "pd.DataFrame({'a': [1, 2], 'b': ['x\\ny', None]})"]);
    job.submit().expect_code(0);
    let failed = job.run().text("output/failed_mini_batches.jsonl");
    assert!(failed.contains("run() returned a list; the job file has output_format"), "{failed}");
    assert_eq!(read(&job)[1], json!([{ "a": 1, "b": "x\ny" }, { "a": 2, "b": null }]));
    let tried = job.command(&["try", "job.yml", "--item", "0001.txt", "-o", "json"]).json();
    assert_eq!((&tried["header"], &tried["first_rows"]), (&json!("a, b"), &json!(["1, x\\ny", "2, null"])));
}

#[test]
fn a_result_of_many_megabytes_grows_while_it_is_made() {
    let script = "
import numpy, pandas as pd

def run(mini_batch, context):
    random = numpy.random.default_rng(context.minibatch_index)
    return pd.DataFrame({'n': context.minibatch_index, 'x': random.random(400_000)})
";
    let mut job = Job::new(script).with_files(12).with("mini_batch_size", 1);
    job.set("output_format", "parquet");
    job.completes();
    let code = "
import numpy, pandas, pyarrow.parquet
file = pyarrow.parquet.ParquetFile('parallel_run_step.txt')
groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
assert groups == [1_062_144, 1_068_928, 1_062_144, 1_068_928, 537_856], groups
table = pandas.read_parquet('parallel_run_step.txt')
assert (table['n'].to_numpy() == numpy.repeat(numpy.arange(12), 400_000)).all()
for n in range(12):
    assert (table['x'][n * 400_000:(n + 1) * 400_000] == numpy.random.default_rng(n).random(400_000)).all()
";
    expected_by_python(&job.run().path().join("output"), code);
}
