//! `try` of a row of a table, and as a test of the code that a job ran.

use std::fs;
use std::time::{Duration, SystemTime};

use prs_tests::harness::{Fleet, Job, expected_by_python, pytest, says};
use serde_json::{Value, json};

/// Gives the ids, and fails where 777 is among them.
const IDS: &str = "
def run(mini_batch):
    ids = list(mini_batch['id'])
    if 777 in ids:
        raise ValueError(f'777 of {ids[0]}')
    return ids
";

/// Two tables: 000.csv with the ids 0 to 499, and 001.csv with those from 500 to 999.
fn tables() -> Job {
    Job::new(IDS).with_tables(&[500, 500]).with("mini_batch_size", 1_500).with("run_max_try", 1)
}

/// What `try` prints for programs.
fn tried(job: &Job, name: &str, more: &[&str]) -> Value {
    job.command(&[&["try", name, "-o", "json"], more].concat()).json()
}

/// Asserts that the row that is said to be the item has this id; ids follow each other.
#[track_caller]
fn has_id(job: &Job, name: &str, item: &str, id: u64) {
    let told = tried(job, name, &["--item", item]);
    let row = told["row"].as_u64().unwrap_or_else(|| panic!("{item}: {told}"));
    let first = told["first_rows"][0].as_str().unwrap();
    assert_eq!(first.parse::<u64>().unwrap() + row, id, "{item}: {told}");
    assert!(row < told["items"].as_u64().unwrap(), "{item}: {told}");
}

#[test]
fn a_row_names_the_mini_batch_that_has_it() {
    let job = tables();
    let path = job.path("data/001.csv").display().to_string();
    let file = job.write_job_file().display().to_string();
    has_id(&job, &file, "./data/001.csv:499", 999);
    let item = |item: &str| job.command(&["try", &file, "--item", item]);
    let failed = item("001.csv:277");
    says(&failed, 42, &["rows, ", "/data/001.csv bytes ", "001.csv:277 is row ", "777 of "]);
    let told = tried(&job, &file, &["--item", "001.csv:277"]);
    let first = told["error"]["message"].as_str().unwrap().strip_prefix("777 of ").unwrap();
    let row = 777 - first.parse::<u64>().unwrap();
    assert_eq!(told["row"], row);
    says(&failed, 42, &[&format!("001.csv:277 is row {row} of these: mini_batch.iloc[{row}]")]);
    says(&item("001.csv:500"), 2, &[&format!("{path} has 500 rows: give a row from 0 to 499")]);
}

#[test]
fn rows_of_unusual_tables_are_found() {
    let mut job = Job::new(IDS).with("mini_batch_size", 40);
    let rows = |ids: std::ops::Range<u64>| {
        let rows: Vec<_> = ids.map(|id| format!("{id},\"a\n\nb\"\n\n")).collect();
        rows.concat()
    };
    job.data("table", format!("id,text\n{}", rows(0..5)));
    job.data("table:3", format!("id,text\n{}", rows(100..110)));
    job.data("cut.csv", format!("id,text\n{}205,\"never closed\n", rows(200..205)));
    let compress = "import gzip, sys\nsys.stdout.buffer.write(gzip.compress(open('table:3', 'rb').read()))";
    job.data("table.gz", expected_by_python(&job.path("data"), compress));
    job.set("inputs", json!([{ "type": "tabular", "path": "data" }]));
    let file = job.write_job_file().display().to_string();
    for (item, id) in [("table:3", 3), ("table:3:3", 103), ("table.gz:7", 107)] {
        has_id(&job, &file, item, id);
    }
    says(&job.command(&["try", &file, "--item", "table:5"]), 2, &["/table has 5 rows"]);
    says(
        &job.command(&["try", &file, "--item", "cut.csv:5"]),
        42,
        &["cut.csv from byte", "reading the data failed", "never closed"],
    );

    // An input that names a table twice does not make it longer.
    job.set("inputs", json!([{ "type": "tabular", "paths": ["data/table", "data/table"] }]));
    let file = job.write_job_file().display().to_string();
    says(&job.command(&["try", &file, "--item", "table:5"]), 2, &["/table has 5 rows"]);
}

#[test]
fn a_file_has_no_rows() {
    let job = Job::new("def run(mini_batch):\n    raise ValueError(len(mini_batch))\n").with_files(4);
    job.data("12:30", "x");
    let file = job.write_job_file().display().to_string();
    says(
        &job.command(&["try", &file, "--item", "0001.txt:5"]),
        2,
        &["0001.txt is one item, not a table with rows: give --item 0001.txt"],
    );
    says(&job.command(&["try", &file, "--item", "12:30"]), 42, &["data/12:30"]);
    job.submit();
    let run = job.run().path().display().to_string();
    let failed = |item| job.command(&["try", &run, "--failed", "--item", item]);
    says(&failed("0001.txt:5"), 2, &["0001.txt is one item"]);
    says(&failed("12:30"), 42, &["data/12:30", "in the job it failed"]);
    says(&failed("nothing.txt"), 2, &["no failed mini-batch of job", "has the item; failed are 0, 1, 2"]);
}

#[test]
fn a_row_of_a_former_job_is_looked_up_in_its_tables() {
    let job = tables();
    job.submit();
    let number = job.run().failed_mini_batches()[0]["minibatch_index"].as_u64().unwrap();
    let run = job.run().path().display().to_string();
    let failed = |item: &str| job.command(&["try", &run, "--failed", "--item", item]);
    let parts = [
        &*format!("mini-batch {number}: "),
        "001.csv:277 is row ",
        "in the job it failed: ValueError: 777 of ",
    ];
    says(&failed("001.csv:277"), 42, &parts);
    says(&failed("001.csv:0"), 2, &["which has the item, has not failed; failed are ", &number.to_string()]);
    says(&failed("001.csv:500"), 2, &["has 500 rows"]);
    says(&failed("001.csv"), 2, &["give --item 001.csv:ROW"]);

    // A table before it has fewer mini-batches now.
    job.data("000.csv", "id,name,value\n1,a,1.5\n");
    says(&failed("001.csv:277"), 42, &parts);
    let text = fs::read_to_string(job.path("data/001.csv")).unwrap();
    job.data("001.csv", text.replace("500,", "5000,"));
    says(
        &failed("001.csv:277"),
        2,
        &["001.csv has changed since job ", &format!("--mini-batch, of {number}")],
    );
}

#[test]
fn a_row_of_a_fleets_job_is_looked_up_in_storage() {
    let fleet = Fleet::shared();
    let job = fleet.job(tables()).with("compute_target", "try-rows");
    let _worker = fleet.worker(&job, &["--target", "try-rows"]);
    let submitted = fleet.submit(&job).json();
    let id = submitted["job_id"].as_str().unwrap();
    let path = job.path("data/001.csv").display().to_string();
    fs::remove_dir_all(job.path("data")).unwrap();
    let ended = job.command(&["try", id, "--failed", "--item", &format!("{path}:277")]);
    says(&ended, 42, &["001.csv:277 is row ", "in the job it failed: ValueError: 777 of "]);
    has_id(&job, id, "000.csv:499", 499);
}

#[test]
fn a_test_runs_the_code_that_the_job_ran() {
    let job = tables();
    let cache = job.path("cache");
    let job = job.with_own_variable("XDG_CACHE_HOME", &cache.display().to_string());
    job.script("import limit\ndef run(mini_batch):\n    ids = list(mini_batch['id'])\n    assert limit.LIMIT not in ids, 'the limit of then'\n    return ids\n");
    job.code("limit.py", "LIMIT = 777\n");
    job.submit();
    job.script("def run(mini_batch):\n    return list(mini_batch['id'])\n");
    let run = job.run().path().display().to_string();
    let print = |code: &str| {
        let printed =
            job.command(&["try", &run, "--failed", "--item", "001.csv:277", "--pytest", "--code", code]);
        printed.expect_code(0);
        fs::write(job.path("test_it.py"), &printed.stdout).unwrap();
        printed.stdout
    };
    print("new");
    assert_eq!(pytest(&job.path("")).0, 0);
    // Neither the code of now is needed, nor what is left of the job.
    fs::remove_dir_all(job.path("code")).unwrap();
    let text = print("old");
    fs::rename(job.run().path(), job.path("elsewhere")).unwrap();
    let folder = fs::read_dir(cache.join("prs")).unwrap().map(|entry| entry.unwrap().path());
    let folder = folder.filter(|path| path.is_dir()).find(|path| path.join("limit.py").is_file()).unwrap();
    for part in
        ["001.csv:277 is row ", "Runs the code of job ", &format!("unpacked in {}.", folder.display())]
    {
        assert!(text.contains(part), "{part:?} is not in the test:\n{text}");
    }
    let (code, said) = pytest(&job.path(""));
    assert!(code == 1 && said.contains("the limit of then"), "{said}");
    // A run of the test is a use of the code, which goes when there is none for long.
    fs::File::open(&folder).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    pytest(&job.path(""));
    assert!(fs::metadata(&folder).unwrap().modified().unwrap().elapsed().unwrap() < Duration::from_hours(1));
    fs::rename(&folder, job.path("gone")).unwrap();
    let (code, said) = pytest(&job.path(""));
    assert!(code == 1 && said.contains("prs try --pytest --code old brings it back"), "{said}");
    fs::rename(job.path("gone"), &folder).unwrap();

    // What was changed there is not taken for the code of the job.
    fs::rename(job.path("elsewhere"), job.run().path()).unwrap();
    fs::write(folder.join("limit.py"), "LIMIT = -1\n").unwrap();
    assert_eq!(pytest(&job.path("")).0, 0);
    assert_eq!(print("old"), text);
    assert_eq!(pytest(&job.path("")).0, 1);
}
