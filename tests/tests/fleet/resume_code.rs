//! `resume` after the script was changed: which code runs the rest is said or asked, never guessed; `resume --set`; and
//! the report says which start and code brought which mini-batches.

use std::fs;

use prs_tests::harness::{Ended, Fleet, Job};
use serde_json::{Value, json};

/// Gives the names of the files, with this word before them; mini-batches 1 and 4 fail.
const FAILS: &str = r#"
import os
from marks import mark

def run(mini_batch, context):
    index = context.minibatch_index
    mark("ran", index)
    if index in (1, 4):
        raise ValueError("cannot parse")
    return [f"old {os.path.basename(path)}" for path in mini_batch]
"#;

/// The same, mended.
const MENDED: &str = r#"
import os
from marks import mark

def run(mini_batch, context):
    mark("mended", context.minibatch_index)
    return [f"new {os.path.basename(path)}" for path in mini_batch]
"#;

fn fails() -> Job {
    Job::new(FAILS).with_files(12).with("run_max_try", 1)
}

fn expected() -> Vec<String> {
    let word = |number: usize| if [1, 4].contains(&(number / 2)) { "new" } else { "old" };
    (0..12).map(|number| format!("{} {number:04}.txt", word(number))).collect()
}

fn resume(job: &Job, more: &[&str]) -> Ended {
    job.command(&[&["resume", &job.run().path().display().to_string(), "-o", "json"], more].concat())
}

/// The starts in what is printed, without the checksums, which must be two.
fn starts(printed: &Value) -> Value {
    let mut starts = printed["starts"].clone();
    let starts_of = starts.as_array_mut().unwrap();
    let codes: Vec<_> = starts_of
        .iter_mut()
        .map(|start| start.as_object_mut().unwrap().remove("code").unwrap().as_str().unwrap().to_owned())
        .collect();
    assert!(codes.iter().all(|code| code.len() == 64) && codes.first() != codes.last(), "{codes:?}");
    starts
}

#[test]
fn a_changed_script_runs_what_had_failed_once_that_is_said() {
    let job = fails();
    job.submit();
    job.script(MENDED);
    let run = job.run().path().display().to_string();

    let refused = resume(&job, &[]);
    refused.expect_code(2);
    for part in [
        "code/main.py differs from the code of the job; 4 of 6 mini-batches were made with that",
        &format!("prs resume {run} --code new   with code as it is now"),
        &format!("prs resume {run} --code old   with the code of the job"),
    ] {
        assert!(refused.stderr.contains(part), "{part:?} is not said:\n{}", refused.stderr);
    }
    refused.has_no_data();

    resume(&job, &["--code", "old"]);
    assert!(job.marks("mended").is_empty(), "the code of the job ran");
    assert_eq!(job.run().failed_mini_batches().len(), 2);

    let resumed = resume(&job, &["--code", "new"]);
    let printed = job.has_completed(&resumed);
    assert!(resumed.stderr.contains("the rest runs with it as it is now"), "{}", resumed.stderr);
    assert_eq!(job.run().rows(), expected());
    let mut mended = job.marks("mended");
    mended.sort();
    assert_eq!(mended, ["1", "4"], "nothing else ran again");
    let start = |number: u32, mini_batches: u32, ranges: Value| {
        json!({ "start": number, "mini_batches": mini_batches, "rows": 2 * mini_batches, "ranges": ranges,
            "ranges_left_out": 0 })
    };
    let of_all = json!([
        start(1, 4, json!([[0, 0], [2, 3], [5, 5]])),
        start(2, 0, json!([])),
        start(3, 2, json!([[1, 1], [4, 4]])),
    ]);
    assert_eq!(starts(&printed), of_all);
    let codes: Vec<_> = printed["starts"].as_array().unwrap().iter().map(|start| &start["code"]).collect();
    assert_eq!(codes[0], codes[1], "the second start ran the code of the first");
    let told = job.run().text("logs/job_result.txt");
    let line = format!(
        "1: code {}, 4 mini-batches done, 8 rows (mini-batches 0, 2-3, 5)",
        &codes[0].as_str().unwrap()[..12]
    );
    assert!(told.contains(&line), "{line}\n{told}");

    // It is done: nothing is asked, whatever the code is now.
    job.script(FAILS);
    let again = resume(&job, &[]);
    again.expect_code(0);
    assert_eq!(again.json(), printed);
}

#[test]
fn code_that_is_the_same_raises_no_question_wherever_the_output_lies() {
    // The job writes below its own source_directory.
    let job = fails().with("output", "code/out");
    job.submit();
    fs::create_dir_all(job.path("code/__pycache__")).unwrap();
    fs::write(job.path("code/__pycache__/main.pyc"), "bytes").unwrap();
    let resumed = resume(&job, &[]);
    assert!(!resumed.stderr.contains("differ"), "{}", resumed.stderr);
    assert_eq!(job.marks("ran").len(), 8, "the two that had failed ran again: {}", resumed.stderr);
}

#[test]
fn a_job_that_lacks_its_result_alone_runs_no_code() {
    let script = "from marks import mark, wait_for\ndef run(mini_batch):\n    mark('on'); wait_for('go')\n    return mini_batch\n";
    let job = Job::new(script).with_files(4);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("work", || !job.marks("on").is_empty());
    // Something else takes the name of the result meanwhile.
    let taken = job.run().path().join("output/parallel_run_step.txt");
    fs::create_dir_all(taken.parent().unwrap()).unwrap();
    fs::write(&taken, "mine").unwrap();
    job.mark("go");
    submit.wait().expect_code(42);
    fs::remove_file(&taken).unwrap();
    job.script(MENDED);
    job.has_completed(&resume(&job, &[]));
    assert_eq!((job.run().rows().len(), job.marks("mended").len()), (4, 0));
}

#[test]
fn code_that_cannot_run_is_refused_before_anything_changes() {
    let job = fails();
    job.submit();
    let before = job.run().text("job.json");
    job.script("def run(mini_batch)\n");
    let refused = resume(&job, &["--code", "new"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("main.py cannot be compiled by "), "{}", refused.stderr);
    fs::rename(job.path("code/main.py"), job.path("code/other.py")).unwrap();
    let refused = resume(&job, &["--code", "new"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("the entry script main.py is not in"), "{}", refused.stderr);
    fs::rename(job.path("code"), job.path("elsewhere")).unwrap();
    let refused = resume(&job, &["--code", "new"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("is not on this machine: --code old"), "{}", refused.stderr);
    assert_eq!(job.run().text("job.json"), before);
    let resumed = resume(&job, &[]);
    assert!(
        resumed.stderr.contains("is not on this machine; the code of the job runs"),
        "{}",
        resumed.stderr
    );
    assert_eq!(job.marks("ran").len(), 8);
}

#[test]
fn settings_that_leave_the_plan_alone_may_change() {
    let script = r#"
import sys
from marks import mark, is_marked

def run(mini_batch, context):
    mark(f"ran-{context.minibatch_index}")
    if context.minibatch_index == 1 and len(sys.argv) > 0:
        raise ValueError(" ".join(sys.argv))
    return mini_batch
"#;
    let job = Job::new(script).with_files(4).with("run_max_try", 1).with("allowed_failed_count", 0);
    job.fails(&["allowed_failed_count 0"]);
    let python = job.path("python");
    std::os::unix::fs::symlink(prs_tests::harness::python(), &python).unwrap();
    let set = ["--set", "run_max_try=3", "--set", "allowed_failed_count=-1", "--set", "environment=./python"];
    resume(&job, &set);
    assert_eq!(job.marks("ran-1").len(), 1 + 3);
    assert!(job.run().failed_mini_batches()[0].to_string().contains("--run_max_try 3"));
    assert!(job.run().text("logs/sys/node/0/_main.txt").contains(&python.display().to_string()));

    for (setting, told) in [
        ("mini_batch_size=3", "prs resubmit JOB --set mini_batch_size=3"),
        ("entry_script=b.py", "change it in the job file and submit that"),
        ("run_max_tries=3", "did you mean `run_max_try`?"),
        ("run_max_try=0", "--set run_max_try"),
        ("environment=./none", "cannot read"),
    ] {
        let refused = resume(&job, &["--set", setting]);
        refused.expect_code(2);
        assert!(refused.stderr.contains(told), "{setting}: {}", refused.stderr);
    }
}

/// Runs a command in a terminal of its own: types what is to be typed, and gives back all that is shown.
const IN_A_TERMINAL: &str = r#"
import os, pty, sys

typed = sys.argv[1].encode()
shown = b""

def read(descriptor):
    global shown, typed
    data = os.read(descriptor, 4096)
    shown += data
    if typed and b"[new/old]" in shown:
        os.write(descriptor, typed)
        typed = b""
    return data

sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[2:], read)))
"#;

#[test]
fn a_person_is_asked() {
    for (typed, rows) in [("new\n", 12), ("what\nold\n", 8)] {
        let job = fails();
        job.submit();
        job.script(MENDED);
        let program = prs_tests::harness::bin_dir().join("prs");
        let mut command = std::process::Command::new(prs_tests::harness::python());
        command.args(["-c", IN_A_TERMINAL, typed]).arg(program).arg("resume").arg(job.run().path());
        let ended = command.stdin(std::process::Stdio::null()).output().unwrap();
        let shown = String::from_utf8_lossy(&ended.stdout);
        assert!(shown.contains("which code? [new/old]"), "{shown}");
        assert_eq!(job.run().rows().len(), rows, "{shown}");
    }
}

#[test]
fn the_workers_of_a_fleet_run_the_code_that_is_chosen() {
    let fleet = Fleet::shared();
    let job = fleet.job(fails()).with("compute_target", "codes");
    let mut worker = fleet.worker(&job, &["--target", "codes"]);
    let submitted = fleet.submit(&job).json();
    let id = submitted["job_id"].as_str().unwrap();
    job.script(MENDED);
    let refused = job.command(&["resume", id]);
    refused.expect_code(2);
    assert!(refused.stderr.contains(&format!("prs resume {id} --code new")), "{}", refused.stderr);
    let resumed = job.command(&["resume", id, "--code", "new", "-o", "json"]);
    assert_eq!(resumed.code, Some(0), "{}\n{}", resumed.stderr, fleet.story());
    let stored = fleet.stored(id);
    let rows: Vec<_> = String::from_utf8(stored.result()).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(rows, expected());
    let brought: Vec<_> = starts(&resumed.json())
        .as_array()
        .unwrap()
        .iter()
        .map(|start| start["mini_batches"].as_u64().unwrap())
        .collect();
    assert_eq!(brought, [4, 2]);
    // The whole job anew runs what the job ran last, and says so.
    job.script(FAILS);
    let resubmitted = job.command(&["resubmit", id, "-o", "json"]);
    assert_eq!(resubmitted.code, Some(0), "{}", resubmitted.stderr);
    assert!(
        resubmitted.stderr.contains("code/main.py differs from the code of the job now"),
        "{}",
        resubmitted.stderr
    );
    assert_eq!(resubmitted.json()["output"]["rows"], 12);
    worker.signal(rustix::process::Signal::TERM);
}

/// Returns DataFrames with the columns `COLUMNS`; mini-batches 1 and 4 fail where `FAILS` is true.
const TABLES: &str = r#"
import os
import pandas
from marks import mark

def run(mini_batch, context):
    index = context.minibatch_index
    mark("ran", index)
    if FAILS and index in (1, 4):
        raise ValueError("cannot parse")
    return pandas.DataFrame([[os.path.basename(path)] * len(COLUMNS) for path in mini_batch], columns=COLUMNS)
"#;

fn tables(fails: &str, columns: &str) -> String {
    format!("FAILS, COLUMNS = {fails}, {columns}\n{TABLES}")
}

#[test]
fn new_code_with_other_columns_ends_the_job_and_leaves_what_was_there() {
    let job = Job::new(&tables("True", "['a', 'b']"))
        .with_files(12)
        .with("run_max_try", 1)
        .with("process_count_per_node", 1)
        .with("output_format", "csv");
    job.submit();
    job.script(&tables("False", "['a', 'b', 'c']"));
    for _ in 0..2 {
        // What the start before returned does not count, so the same is told again.
        let said = "output_format: start 1 of the job returned the columns \"a,b\", and its code now \"a,b,c\" (mini-batch ";
        job.has_failed_again(&resume(&job, &["--code", "new"]), &[said, "resubmit the job"]);
        job.script(&(tables("False", "['a', 'b', 'c']") + "\n# again\n"));
    }
    job.script(&tables("False", "['a', 'b']"));
    job.has_completed(&resume(&job, &["--code", "new"]));
    let names = (0..12).map(|number| format!("{number:04}.txt,{number:04}.txt"));
    let expected: Vec<_> = std::iter::once("a,b".to_owned()).chain(names).collect();
    assert_eq!(job.run().rows(), expected);
    let of_others = |index: &&String| !["1", "4"].contains(&index.as_str());
    assert_eq!(job.marks("ran").iter().filter(of_others).count(), 4, "what was there did not run again");
}
