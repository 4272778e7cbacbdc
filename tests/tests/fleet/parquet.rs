//! Parquet inputs: mini-batches of whole row groups, as pandas reads them, embedded and on a fleet; and files that are none.

use std::fs;

use prs_tests::harness::{Fleet, Job, expected_by_python, pytest, says};
use serde_json::{Value, json};

/// Writes files of any types, in row groups of any size, with each codec; `row` numbers the rows of each file.
const ANY_TABLES: &str = r#"
import random
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

random.seed(12)
VALUES = {
    "int": lambda: random.randint(-2**63, 2**63 - 1),
    "small": lambda: random.randint(0, 9),
    "float": lambda: random.choice([random.random(), float("inf"), -0.0]),
    "text": lambda: random.choice(["", "ü", "x" * random.randint(0, 40), "a\n\"b\""]),
    "bool": lambda: random.random() < 0.5,
    "time": lambda: pd.Timestamp(random.randint(0, 10**18), unit="ns").floor("us"),
    "bytes": lambda: random.randbytes(3),
    "list": lambda: [random.randint(0, 9) for _ in range(random.randint(0, 3))],
    "struct": lambda: {"a": random.randint(0, 9), "b": {"c": "x"}},
}
for number in range(24):
    rows = random.choice([0, 1, 7, 300, 1000])
    columns = {"row": list(range(rows))}
    for name in random.sample(sorted(VALUES), random.randint(1, len(VALUES))):
        nulls = random.choice([0, 0.3])
        columns[name] = [None if random.random() < nulls else VALUES[name]() for _ in range(rows)]
    if number % 4 == 0:
        frame = pd.DataFrame(columns).convert_dtypes() if number % 8 else pd.DataFrame(columns)
        if "text" in frame:
            frame["kind"] = frame["text"].astype("category")
        if number % 3:
            frame.index = pd.Index([f"k{row}" for row in range(rows)], name="key", dtype="str")
        table = pa.Table.from_pandas(frame)
    else:
        table = pa.table(columns)
    pq.write_table(
        table, f"{number:02}.parquet", row_group_size=random.choice([3, 50, 400, 5000]),
        compression=random.choice(["snappy", "zstd", "gzip", "none"]),
        write_page_checksum=random.random() < 0.5, data_page_version=random.choice(["1.0", "2.0"]),
    )
"#;

/// Compares each mini-batch with the same rows of its file, which pyarrow has read as a whole.
const COMPARES: &str = r#"
import os
import pandas as pd
import pyarrow.parquet as pq

tables = {}

def run(mini_batch, context):
    [name] = context.items
    if name not in tables:
        tables[name] = pq.read_table(os.path.join(os.environ["DATA"], name))
    first = int(mini_batch["row"].iloc[0])
    expected = tables[name].slice(first, len(mini_batch)).to_pandas()
    if "kind" in expected:
        # The categories of a slice are those of its row groups.
        mini_batch = mini_batch.astype({"kind": expected["kind"].cat.categories.dtype})
        expected = expected.astype({"kind": expected["kind"].cat.categories.dtype})
    pd.testing.assert_frame_equal(mini_batch, expected)
    return [f"{name} {row}" for row in mini_batch["row"]]
"#;

#[test]
fn every_mini_batch_is_what_pandas_reads() {
    let input = json!({ "type": "tabular", "path": "data", "split_row_groups": true });
    let job = Job::new(COMPARES).with("mini_batch_size", "3KB").with("inputs", json!([input]));
    fs::create_dir_all(job.path("data")).unwrap();
    expected_by_python(&job.path("data"), ANY_TABLES);
    let data = job.path("data").display().to_string();
    let printed = job.with_variable("DATA", &data);
    let told = printed.completes();
    assert_eq!(told["complete"], true, "{:?}", printed.run().failed_mini_batches());
    let count = "import glob, pyarrow.parquet as pq\nfor name in sorted(glob.glob('*.parquet')):\n    \
                 [print(name, row) for row in range(pq.read_metadata(name).num_rows)]\n";
    let expected = String::from_utf8(expected_by_python(&printed.path("data"), count)).unwrap();
    assert!(printed.run().rows().iter().eq(expected.lines()), "a row is missing, or stands elsewhere");
}

/// Writes tables of one kind: 1,000 rows in row groups of 100, and 3 rows. Nothing but the data of all row groups tells the types of
/// some columns, nor the categories.
const TABLES: &str = r#"
import pandas as pd

def table(first, rows):
    ids = range(first, first + rows)
    return pd.DataFrame({
        "id": ids,
        "name": [f"name, {one}" if one % 5 else None for one in ids],
        "when": pd.to_datetime([one * 10**9 + 5 for one in ids]),
        "tags": [[str(one), "x"] for one in ids],
        "place": [{"lat": one / 8, "lon": None} for one in ids],
        "wide": ["%040d" % (one ** 7) for one in ids],
        "level": [None if one == 990 else one for one in ids],
        "tokens": [[one, None] if one == 950 else [one] for one in ids],
        "kind": pd.Categorical([f"k{(one // 100 * 7) % 10}" for one in ids]),
    })

table(0, 1000).to_parquet("a.parquet", row_group_size=100, write_statistics=False)
table(1000, 3).to_parquet("b.pq", compression="zstd")
table(0, 0).to_parquet("c.parquet")
"#;

/// What the jobs over [`TABLES`] give back of each mini-batch.
const ROWS: &str = "
def run(mini_batch):
    kinds = [str(kind) for kind in mini_batch.dtypes]
    codes = mini_batch['kind'].cat.codes if 'kind' in mini_batch else [0] * len(mini_batch)
    rows = mini_batch.itertuples(index=False, name=None)
    return [f'{row} {code} {kinds}' for row, code in zip(rows, codes)]
";

#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
fn tables(script: &str, more: Value) -> Job {
    let job = Job::new(script);
    fs::create_dir_all(job.path("data")).unwrap();
    expected_by_python(&job.path("data"), TABLES);
    let mut input = json!({ "type": "tabular", "path": "data" });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job.with("inputs", json!([input])).with("mini_batch_size", "16KB")
}

/// The same of whole files, by pandas alone.
fn expected(job: &Job) -> String {
    let script = format!(
        "import pandas as pd\n{ROWS}\nfor name in ['a.parquet', 'b.pq']:\n    \
         print('\\n'.join(run(pd.read_parquet(name))))\n"
    );
    String::from_utf8(expected_by_python(&job.path("data"), &script)).unwrap()
}

#[test]
fn the_bytes_are_the_same_here_and_on_a_fleet() {
    let job = || tables(ROWS, json!({ "split_row_groups": true })).with("mini_batch_size", "4KB");
    let here = job();
    let told = here.completes();
    let expected = expected(&here);
    assert_eq!(here.run().text("output/parallel_run_step.txt"), expected);
    assert!(told["mini_batches"]["succeeded"].as_u64().unwrap() > 2, "{told}");

    let fleet = Fleet::shared();
    let there = fleet.job(job()).with("compute_target", "parquet-bytes");
    let _worker = fleet.worker(&there, &["--target", "parquet-bytes"]);
    let printed = fleet.completes(&there);
    assert_eq!(printed["mini_batches"], told["mini_batches"]);
    let stored = fleet.stored(printed["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.result()).unwrap(), expected);
}

/// Makes bad files of `a.parquet`.
const BAD: &str = r#"
import gzip
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

good = open("a.parquet", "rb").read()
open("d-cut.parquet", "wb").write(good[:-100])
open("e-text.parquet", "w").write("id,name\n1,a\n")
open("f-empty.parquet", "w")
open("g-zipped.parquet.gz", "wb").write(gzip.compress(good))
pq.write_table(pa.table({"id": range(5000, 9000)}), "h-page.parquet", row_group_size=2000, compression="none",
               use_dictionary=False, write_page_checksum=True)
page = bytearray(open("h-page.parquet", "rb").read())
page[9000] ^= 4
open("h-page.parquet", "wb").write(page)
pd.DataFrame({"other": [1.5]}).to_parquet("i-other.parquet")
pd.DataFrame(index=range(3)).to_parquet("j-nothing.parquet")
"#;

#[test]
fn a_bad_file_fails_its_mini_batches_and_no_others() {
    let job =
        tables("def run(mini_batch):\n    return list(mini_batch.iloc[:, 0])\n", json!({ "path": "data/*" }));
    expected_by_python(&job.path("data"), BAD);
    let job = job.with("run_max_try", 1);
    let ended = job.submit();
    ended.expect_code(10);
    let failed = job.run().failed_mini_batches();
    let messages: Vec<_> =
        failed.iter().map(|one| one["tries"][0]["message"].as_str().unwrap().to_owned()).collect();
    let not_parquet = "it is not a Parquet file, or is cut off: its last bytes are not those of Parquet";
    for (message, (file, reason)) in messages.iter().zip([
        ("d-cut.parquet", not_parquet),
        ("e-text.parquet", not_parquet),
        ("f-empty.parquet", not_parquet),
        ("g-zipped.parquet.gz", "decompress it first"),
        ("h-page.parquet", "(mini-batch of row group 0)"),
    ]) {
        assert!(message.contains(&format!("/data/{file}")) && message.contains(reason), "{file}: {message}");
    }
    assert_eq!(messages.len(), 5, "{messages:?}");
    assert!(messages[4].to_lowercase().contains("crc"), "{}", messages[4]);
    let rows = job.run().rows();
    assert_eq!(rows.len(), 1_003 + 2_000 + 1);
    assert_eq!((&*rows[1_003], &*rows[3_003]), ("7000", "1.5"));
    let run = job.run().path().display().to_string();
    says(&job.command(&["errors", &run]), 0, &["DataError", "d-cut.parquet"]);
    says(
        &job.command(&["try", &run, "--failed"]),
        42,
        &["d-cut.parquet from byte ", "reading the data failed"],
    );
}

#[test]
fn a_column_that_a_file_does_not_have_fails_that_file() {
    let job = tables(ROWS, json!({ "columns": ["id", "name"] })).with("run_max_try", 1);
    expected_by_python(
        &job.path("data"),
        "import pandas\npandas.DataFrame({'id': [1]}).to_parquet('aa.parquet')",
    );
    job.submit().expect_code(10);
    let failed = job.run().failed_mini_batches();
    let message = failed[0]["tries"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("/data/aa.parquet, byte ")
            && message.ends_with("it has no column \"name\": its columns are id"),
        "{message}"
    );
    assert_eq!((failed.len(), job.run().rows().len()), (1, 1_003));
}

#[test]
fn what_a_job_file_may_ask_of_parquet() {
    let project = |more| tables(ROWS, more);
    project(json!({ "columns": ["id", "id"] })).is_refused(&["\"id\" is there twice"]);
    // A name says nothing where the format does.
    let job = project(json!({ "format": "parquet", "path": "data/table" }));
    fs::copy(job.path("data/b.pq"), job.path("data/table")).unwrap();
    job.completes();
    assert_eq!(job.run().rows().len(), 3);
}

#[test]
fn a_row_names_the_mini_batch_that_has_it() {
    let script = "def run(mini_batch):\n    return list(mini_batch['id'])\n";
    let job = tables(script, json!({ "split_row_groups": true })).with("mini_batch_size", "6KB");
    let file = job.write_job_file().display().to_string();
    for (item, id) in [("data/a.parquet:777", 777), ("b.pq:2", 1_002)] {
        let told = job.command(&["try", &file, "-o", "json", "--item", item]).json();
        let first: u64 = told["first_rows"][0].as_str().unwrap().parse().unwrap();
        assert_eq!(first + told["row"].as_u64().unwrap(), id, "{item}: {told}");
        assert!(told["items"].as_u64().unwrap() <= 200, "{told}");
    }
    says(
        &job.command(&["try", &file, "--item", "a.parquet:1000"]),
        2,
        &["has 1000 rows: give a row from 0 to 999"],
    );
}

#[test]
fn a_mini_batch_becomes_a_test() {
    let script =
        "def run(mini_batch):\n    assert 777 not in set(mini_batch['id'])\n    return mini_batch['id']\n";
    let fleet = Fleet::shared();
    let job = tables(script, json!({ "columns": ["id", "tags"] }))
        .with("mini_batch_size", "6KB")
        .with("run_max_try", 1);
    let job = fleet.job(job).with("compute_target", "parquet-test");
    let _worker = fleet.worker(&job, &["--target", "parquet-test"]);
    let submitted = fleet.submit(&job).json();
    let id = submitted["job_id"].as_str().unwrap();
    let of = |number: &str| job.command(&["try", id, "--mini-batch", number, "--pytest"]);
    let number = fleet.stored(id).text("output/failed_mini_batches.jsonl");
    let number = serde_json::from_str::<Value>(&number).unwrap()["minibatch_index"].to_string();
    let (fails, passes) = (of(&number), of("0"));
    fs::remove_dir_all(job.path("data")).unwrap();
    for (printed, code) in [(fails, 1), (passes, 0)] {
        printed.expect_code(0);
        fs::write(job.path("test_it.py"), &printed.stdout).unwrap();
        let (ended, said) = pytest(&job.path(""));
        assert_eq!(ended, code, "{said}");
    }
}
