//! Inputs that are corrected before a job goes on (spec S11), and starts that fail after one that completed.

use std::fs;
use std::time::Duration;

use prs_tests::harness::{Job, PICKY, expected_by_python, picky_table};
use serde_json::json;

/// A table of which these records have another text.
fn table(other: &[(usize, &str)]) -> String {
    picky_table("\"as, it\nwas\"", other)
}

/// A job over a table, in slices of about four records.
fn picky(table: &str) -> Job {
    let job = Job::new(PICKY).with_tables(&[]).with("mini_batch_size", 64).with("run_max_try", 1);
    job.data("t.csv", table);
    job
}

/// The rows of a job that has never run on anything else.
fn clean(table: &str) -> Vec<String> {
    let job = picky(table);
    job.completes();
    job.run().rows()
}

#[test]
fn a_table_is_cut_anew_around_what_has_rows() {
    let job = picky(&table(&[(9, "bad"), (30, "bad")]));
    let before = job.completes();
    assert_eq!(before["mini_batches"]["failed"], 2);
    // Longer, and a record more; the other one goes.
    let corrected = table(&[(9, "much longer than it was\n77,added")]).replace("30,\"as, it\nwas\"\n", "");
    job.data("t.csv", &corrected);
    let ended = job.resume();
    let printed = job.has_completed(&ended);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(job.run().rows(), clean(&corrected));
    assert_eq!(printed["items"], json!({ "total": 40, "succeeded": 40, "failed": 0 }));
    let (scheduled, kept) = (before["mini_batches"]["scheduled"].as_u64().unwrap(), &printed["starts"][0]);
    assert_eq!(kept["mini_batches"], scheduled - 2);
    let second = printed["starts"][1]["ranges"].as_array().unwrap();
    assert!(
        second.iter().all(|range| range[0].as_u64() >= Some(scheduled)),
        "ids behind the last: {second:?}"
    );
    assert!(!job.run().path().join("output/failed_mini_batches.jsonl").exists());

    // It has ended for good, and says so.
    job.resume().expect_code(0);
}

#[test]
fn a_corrected_job_is_corrected_once_more() {
    let job = picky(&table(&[(9, "bad"), (30, "bad")]));
    job.completes();
    for corrected in [
        table(&[(9, "a long text in place of it\n78,bad"), (30, "bad")]),
        table(&[(9, "a long text in place of it\n78,good"), (30, "good")]),
    ] {
        job.data("t.csv", &corrected);
        job.has_completed(&job.resume());
    }
    let corrected = fs::read_to_string(job.path("data/t.csv")).unwrap();
    assert_eq!(job.run().rows(), clean(&corrected));
}

#[test]
fn a_correction_that_changes_what_there_are_rows_of_touches_nothing() {
    let job = picky(&table(&[(9, "bad")]));
    let printed = job.completes();
    let all = || -> Vec<_> {
        let files = job.run().files("").into_iter();
        files.map(|name| (job.run().bytes(&name), name)).collect()
    };
    let before = all();
    // A column that is no number any more; records that had rows.
    for (corrected, told) in [
        (table(&[]).replace("39,", "x39,"), "t.csv has other columns now (n is str and was int64)"),
        (table(&[(1, "other")]), "t.csv has other content there, and mini-batch 0 had it"),
    ] {
        job.data("t.csv", corrected);
        let ended = job.resume();
        ended.expect_code(2);
        assert!(ended.stderr.contains(told) && ended.stderr.contains("prs resubmit"), "{}", ended.stderr);
        assert!(before == all(), "nothing in the run folder has changed");
    }
    let run = job.run().path().display().to_string();
    let result = job.command(&["result", &run, "-o", "json"]);
    result.expect_code(0);
    assert_eq!(result.json()["output"], printed["output"]);
}

#[test]
fn a_file_of_parquet_is_the_same_by_its_content() {
    let job = Job::new(PICKY).with("mini_batch_size", 20).with("run_max_try", 1);
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/t.parquet" }]));
    let write = |text: &str| {
        let code = format!(
            "import pandas, os; os.makedirs('data', exist_ok=True); \
             pandas.DataFrame(dict(n=range(40), text=['{text}'] * 20 + ['bad'] + ['{text}'] * 19)) \
             .to_parquet('data/t.parquet', row_group_size=4, compression=None, write_statistics=False)"
        );
        expected_by_python(&job.path(""), &code);
    };
    write("good");
    assert_eq!(job.completes()["mini_batches"]["failed"], 1);
    let path = job.path("data/t.parquet");
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    write("good");
    let ended = job.resume();
    assert_eq!(job.has_completed(&ended)["mini_batches"]["failed"], 1, "{}", ended.stderr);
    let rows = job.run().rows();
    assert_eq!(rows.len(), 36);
    write("mood");
    fs::File::options().append(true).open(&path).unwrap().set_modified(written).unwrap();
    let ended = job.resume();
    ended.expect_code(2);
    assert!(ended.stderr.contains("t.parquet changed (it has other content"), "{}", ended.stderr);
    assert_eq!(job.run().rows(), rows);
}

#[test]
fn a_start_that_fails_leaves_what_the_job_had_completed() {
    let job = picky(&table(&[(9, "bad")]));
    let printed = job.completes();
    let rows = job.run().rows();
    let failures = job.run().failed_mini_batches();
    let run = job.run().path().display().to_string();
    for start in [2, 3] {
        // The check of the script would find this one.
        job.script(&format!("import os\nif 'AZUREML_BI_OUTPUT_PATH' in os.environ: raise RuntimeError('broken {start}')\ndef run(mini_batch):\n    return mini_batch\n"));
        let ended = job.command(&["resume", &run, "--code", "new", "-o", "json"]);
        ended.expect_code(42);
        assert!(ended.stderr.contains(&format!("start {start} failed")), "{}", ended.stderr);
        let last = &ended.json()["last_start"];
        assert_eq!((&last["start"], &last["state"]), (&json!(start), &json!("failed")));
        assert!(last["reason"].as_str().unwrap().contains(&format!("broken {start}")), "{last}");
        for name in ["state", "mini_batches", "items", "output", "complete", "seconds"] {
            assert_eq!(ended.json()[name], printed[name], "{name}");
        }
        assert_eq!((job.run().rows(), job.run().failed_mini_batches()), (rows.clone(), failures.clone()));
        job.command(&["result", &run]).expect_code(0);
        assert!(
            job.run().text("logs/job_result.txt").contains("last start    start"),
            "{}",
            job.run().text("logs/job_result.txt")
        );
    }
    job.script(PICKY);
    job.data("t.csv", table(&[(9, "good")]));
    let ended = job.command(&["resume", &run, "--code", "new", "-o", "json"]);
    job.has_completed(&ended);
    assert_eq!(
        (ended.json()["last_start"].clone(), job.run().rows()),
        (json!(null), clean(&table(&[(9, "good")])))
    );
}

#[test]
fn a_plan_of_a_start_that_never_began_says_nothing() {
    let (before, corrected) = (table(&[(9, "bad")]), table(&[(9, "much longer than it was\n77,added")]));
    let job = picky(&before);
    let file = job.path("data/t.csv");
    // What was changed just now is not known for certain.
    let put = |content: &str, minutes: u64| {
        job.data("t.csv", content);
        let then = std::time::SystemTime::UNIX_EPOCH + Duration::from_mins(20_000_000 + minutes);
        fs::File::options().write(true).open(&file).unwrap().set_modified(then).unwrap();
    };
    put(&before, 1);
    job.completes();
    let resume = |failpoint: &str| {
        let path = job.run().path().display().to_string();
        job.command_with_variable(&["resume", &path, "-o", "json"], ("PRS_FAILPOINT", failpoint))
    };
    put(&corrected, 2);
    assert_eq!(resume("start_stored").code, None);
    // The next start of that number is one over the inputs as they were, and is killed before it has listed them.
    put(&before, 1);
    assert_eq!(resume("published").code, None);
    put(&corrected, 2);
    let ended = resume("");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("inputs were corrected"), "{}", ended.stderr);
    assert_eq!(job.run().rows(), clean(&corrected));
}
