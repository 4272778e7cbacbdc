//! Where the data of a fleet's job may lie: its storage in a shared folder, its inputs in a bucket.

use std::fs;

use prs_tests::harness::{Fleet, Job};
use serde_json::{Value, json};

const NAMES: &str = "
import os
def run(mini_batch):
    return [f'{os.path.basename(path)} {open(path).read()}' for path in mini_batch]
";
const BUCKET: &str = "inputs";

fn on_fleet(fleet: &Fleet, target: &str) -> Job {
    fleet.job(Job::new(NAMES)).with("compute_target", target)
}

fn id(result: &Value) -> &str {
    result["job_id"].as_str().unwrap()
}

/// The rows of a job over `count` files.
fn rows(count: usize) -> String {
    let lines = (0..count).map(|number| format!("{number:04}.txt item {number}\n"));
    lines.collect::<Vec<_>>().concat()
}

#[test]
fn a_shared_folder_is_the_storage() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "folder").with_files(25).with("node_count", 2);
    let folder = job.path("shared");
    fs::create_dir(&folder).unwrap();
    let storage = ("PRS_STORAGE_URL".to_owned(), format!("file://{}", folder.display()));
    let job = job.with_own_variable(&storage.0, &storage.1);

    // The Redis of the fleet of the bucket, once that has been there.
    let elsewhere = on_fleet(fleet, "elsewhere");
    let mut first = fleet.worker(&elsewhere, &["--target", "elsewhere"]);
    first.wait_until_said("the worker is ready");
    for refused in [
        fleet.submit(&job),
        fleet.worker_with(&job, &["--target", "folder"], std::slice::from_ref(&storage)).wait(),
    ] {
        refused.expect_code(3);
        assert!(refused.stderr.contains("the servers do not belong together"), "{}", refused.stderr);
        assert!(refused.stderr.contains(&folder.display().to_string()), "{}", refused.stderr);
    }

    // A database of its own: the last one, for fleets take the first ones.
    let redis = ("PRS_REDIS_URL".to_owned(), format!("{}/511", fleet.redis.url()));
    let job = job.with_own_variable(&redis.0, &redis.1);
    let variables = [storage, redis];
    let _workers = [(); 2].map(|()| fleet.worker_with(&job, &["--target", "folder"], &variables));
    let result = fleet.completes(&job);
    assert_eq!(result["mini_batches"], json!({ "scheduled": 13, "succeeded": 13, "failed": 0 }));
    let stored = folder.join("jobs").join(id(&result));
    assert_eq!(fs::read_to_string(stored.join("output/parallel_run_step.txt")).unwrap(), rows(25));
    assert!(fs::read_to_string(stored.join("logs/job_result.txt")).unwrap().starts_with("completed\n"));
    assert_eq!(fleet.stored(id(&result)).keys(), Vec::<String>::new(), "nothing of it is in the bucket");
    let fetched = job.command(&["result", id(&result), "--output-path", "fetched"]);
    fetched.expect_code(0);
    assert_eq!(fs::read_to_string(job.path("fetched/parallel_run_step.txt")).unwrap(), rows(25));
}

#[test]
fn inputs_are_read_from_a_bucket() {
    let fleet = Fleet::shared();
    let bucket = "pictures";
    fleet.s3.make_bucket(bucket);
    for number in 0..25 {
        let key = format!("some/place/{number:04}.txt");
        fleet.s3.put_object(bucket, &key, format!("item {number}").as_bytes());
    }
    fleet.s3.put_object(bucket, "some/place/other.bin", b"not picked");
    let urls = json!([{ "type": "file", "path": format!("s3://{bucket}/some/place/*.txt") }]);
    let job = on_fleet(fleet, "bucket").with("inputs", urls).with("mini_batch_size", 2).with("node_count", 2);
    let _workers = [(); 2].map(|()| fleet.worker(&job, &["--target", "bucket"]));
    let result = fleet.completes(&job);
    assert_eq!(result["mini_batches"]["scheduled"], 13);
    assert_eq!(String::from_utf8(fleet.stored(id(&result)).result()).unwrap(), rows(25));
}

#[test]
fn names_of_objects_may_be_as_long_as_a_bucket_allows() {
    let fleet = Fleet::shared();
    fleet.s3.make_bucket(BUCKET);
    let folders = ["a", "b", "c", "d"].map(|letter| letter.repeat(240)).join("/");
    for number in 0..3 {
        let key = format!("{folders}/{number:04}.txt");
        fleet.s3.put_object(BUCKET, &key, format!("item {number}").as_bytes());
    }
    // The longest there is: 1,024 bytes.
    let last = format!("{folders}/{}", "z".repeat(1_024 - folders.len() - 1));
    fleet.s3.put_object(BUCKET, &last, b"last");
    let inputs = json!([{ "type": "file", "path": format!("s3://{BUCKET}") }]);
    let job = on_fleet(fleet, "long-names").with("inputs", inputs).with("mini_batch_size", 1);
    let _worker = fleet.worker(&job, &["--target", "long-names"]);
    let result = fleet.completes(&job);
    assert_eq!(result["mini_batches"], json!({ "scheduled": 4, "succeeded": 4, "failed": 0 }));
    let name = last.rsplit('/').next().unwrap();
    let expected = format!("{}{name} last\n", rows(3));
    assert_eq!(String::from_utf8(fleet.stored(id(&result)).result()).unwrap(), expected);
}

#[test]
fn a_bucket_loses_no_object_without_a_word() {
    let fleet = Fleet::shared();
    let bucket = "odd-names";
    fleet.s3.make_bucket(bucket);
    let odd = [
        "sales/2026//02/b.csv",
        "up/a/../b.txt",
        "dot/./a.txt",
        "bs/win\\style.txt",
        "tab/a\tb.txt",
        "ctl/a\u{1}b.txt",
    ];
    for key in odd.into_iter().chain(["sales/2026/01/a.csv", "sales/", "[DE] x/a +%é.txt", "D x/other.txt"])
    {
        fleet.s3.put_object(bucket, key, b"it");
    }
    let job =
        fleet.s3.env().iter().fold(Job::new(NAMES), |job, (name, value)| job.with_own_variable(name, value));
    let mut job = job.with("mini_batch_size", 1);
    let mut over = |path: &str| {
        job.set("inputs", json!([{ "type": "file", "path": format!("s3://{bucket}/{path}") }]));
        job.write_job_file();
        job.command(&["submit", "job.yml", "-o", "json"])
    };
    for (path, says) in [
        ("sales", "sales/2026//02/b.csv: the name has an empty part"),
        ("up", "up/a/../b.txt: the name has a part `.` or `..`"),
        ("dot", "dot/./a.txt: the name has a part"),
        ("bs", r"bs/win\\style.txt: the name has a backslash"),
        ("tab", r"tab/a\tb.txt: the name has a control character"),
        ("ctl/*.txt", r"ctl/a\u{1}b.txt: the name has a control character"),
    ] {
        let refused = over(path);
        refused.expect_code(2);
        assert!(refused.stderr.contains(says), "{path}: {}", refused.stderr);
    }
    // A glob names the others, and a folder is meant by its name.
    for (path, row) in
        [("sales/*/01/*.csv", "a.csv it\n"), ("[DE] x", "a +%é.txt it\n"), ("[DE] x/*.txt", "a +%é.txt it\n")]
    {
        let ended = over(path);
        ended.expect_code(0);
        let output = ended.json()["output"]["uri"].as_str().unwrap().to_owned();
        assert_eq!(fs::read_to_string(format!("{output}/parallel_run_step.txt")).unwrap(), row, "{path}");
    }
}
