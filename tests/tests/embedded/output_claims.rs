//! Jobs with one output: one of them at a time fills it, and none replaces what another brought.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prs_common::hexadecimal;
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Ended, Job, Live, RunFolder, sealed};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const RESULT: &str = "parallel_run_step.txt";
const FAILURES: &str = "failed_mini_batches.jsonl";
const CLAIM: &str = ".prs-claim";
/// The first mini-batch waits for the mark `go`.
const WAITS: &str = r#"
from marks import mark, wait_for
def run(mini_batch, context):
    mark("ran", str(context.minibatch_index))
    if context.minibatch_index == 0:
        wait_for("go")
    return [f"row {context.minibatch_index} of {len(mini_batch)}"] * 2
"#;
const ROWS: &str = "row 0 of 2\nrow 0 of 2\nrow 1 of 2\nrow 1 of 2\n";
/// The second mini-batch fails without the mark `mended`, and its row says how often it was tried.
const FAILS: &str = r#"
from marks import count, is_marked, mark
def run(mini_batch, context):
    mark("ran", str(context.minibatch_index))
    if context.minibatch_index == 1 and not is_marked("mended"):
        raise ValueError("not yet")
    return [f"row {context.minibatch_index}"] * 2
"#;

fn job(script: &str) -> Job {
    Job::new(script).with_files(4).with("output", "place").with("run_max_try", 1)
}

fn place(job: &Job) -> RunFolder {
    RunFolder::new(job.path("place"))
}

/// Submits the job once more, into a run folder of its own.
fn submit_again(job: &Job, file: &Path, run: &str) -> Live {
    let run = job.path(run).display().to_string();
    job.start(&["submit", &file.display().to_string(), "--run-dir", &run, "-o", "json"])
}

/// The job file with another `output`.
fn file_with_output(job: &Job, output: &Path) -> PathBuf {
    let text = fs::read_to_string(job.write_job_file()).unwrap();
    let output = format!("output: {}", json!(output.display().to_string()));
    let text = text.replace("output: \"place\"", &output);
    assert!(text.contains(&output), "{text}");
    let path = job.path("other.yml");
    fs::write(&path, text).unwrap();
    path
}

#[track_caller]
fn refused(ended: &Ended, parts: &[&str]) {
    ended.expect_code(2);
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} is not said:\n{}", ended.stderr);
    }
    ended.has_no_data();
}

#[test]
fn a_second_job_is_refused_while_the_first_fills_the_output_whatever_it_is_called() {
    let job = job(WAITS);
    let mut first = job.start_submit(&[]);
    first.wait_until("the first mini-batch", || !job.marks("ran").is_empty());
    symlink(job.path("place"), job.path("link")).unwrap();
    fs::create_dir(job.path("folder")).unwrap();
    let names = [
        job.path("place"),
        job.path("link"),
        job.path("folder/../place"),
        PathBuf::from("link"),
        job.path("link/../place/."),
    ];
    for (number, name) in names.iter().enumerate() {
        let run = format!("run-{number}");
        let second = submit_again(&job, &file_with_output(&job, name), &run).wait();
        refused(&second, &["is being filled by job test-job-", "process ", "or give another folder"]);
        assert!(!job.path(&run).exists(), "nothing was made for it");
    }
    let ran = job.marks("ran").len();
    assert!(ran <= 2, "only the first job ran anything");
    job.mark("go");
    job.has_completed(&first.wait());
    assert_eq!(place(&job).text(RESULT), ROWS);
    assert_eq!(place(&job).files(""), [RESULT], "the claim is gone with the run");

    let third = submit_again(&job, &job.write_job_file(), "run-late").wait();
    refused(&third, &["exists already"]);
}

#[test]
fn of_jobs_that_are_submitted_at_once_one_runs() {
    let job = job(WAITS);
    let file = job.write_job_file();
    let mut submits: Vec<_> =
        (0..6).map(|number| submit_again(&job, &file, &format!("run-{number}"))).collect();
    // All others have their answer before the one that runs can end.
    wait_for("five refusals", Duration::from_mins(1), || {
        let ended = submits.iter_mut().filter_map(|submit| submit.has_ended().then_some(())).count();
        (ended == 5).then_some(())
    });
    job.mark("go");
    let ended: Vec<_> = submits.into_iter().map(Live::wait).collect();
    let (winner, losers): (Vec<_>, Vec<_>) = ended.iter().partition(|ended| ended.code == Some(0));
    assert_eq!(winner.len(), 1, "{ended:#?}");
    for loser in losers {
        refused(loser, &["is being filled by job"]);
    }
    assert_eq!(job.marks("ran").len(), 2, "one job ran");
    assert_eq!(place(&job).text(RESULT), ROWS);
    assert_eq!(winner[0].json()["output"]["bytes"], ROWS.len());
}

#[test]
fn the_claim_of_a_killed_run_locks_nobody_out() {
    let job = job(WAITS);
    let mut first = job.start_submit(&[]);
    first.wait_until("the first mini-batch", || !job.marks("ran").is_empty());
    assert!(first.kill());
    job.soon_leaves_nothing();
    assert_eq!(place(&job).files(""), [CLAIM], "it was killed");

    // Another job takes the folder.
    let mut other = submit_again(&job, &job.write_job_file(), "other");
    other.wait_until("the other job", || job.path("other/job.json").exists());
    let resumed = job.resume();
    refused(&resumed, &["is being filled by job"]);
    assert!(other.kill());
    job.soon_leaves_nothing();

    // And the first job takes it back.
    job.mark("go");
    job.has_completed(&job.resume());
    assert_eq!(place(&job).text(RESULT), ROWS);
    assert_eq!(place(&job).files(""), [RESULT]);
    let late = job.command(&["resume", &job.path("other").display().to_string()]);
    refused(&late, &[RESULT, "is not what job", "move it away"]);
    assert_eq!(place(&job).text(RESULT), ROWS);
}

#[test]
fn a_claim_of_another_host_is_told_with_the_remedy() {
    let job = job(WAITS);
    job.mark("go");
    let claim = job.path("place").join(CLAIM);
    fs::create_dir(job.path("place")).unwrap();
    let holder =
        json!({ "job_id": "job-elsewhere", "host": "elsewhere", "pid": 1, "since": "2026-01-01 00:00:00" });
    fs::write(&claim, holder.to_string()).unwrap();
    let remedy = format!("remove {}", claim.display());
    job.is_refused(&[
        "is claimed by job job-elsewhere (process 1 on elsewhere, since 2026-01-01 00:00:00)",
        &remedy,
    ]);
    assert!(claim.exists());
    fs::remove_file(&claim).unwrap();
    job.completes();
}

#[test]
fn an_output_within_the_run_folder_is_refused() {
    job(WAITS).with("output", "run/logs/below").is_refused(&["is within the run folder"]);
    let job = job(WAITS).with("output", "run/output");
    job.mark("go");
    job.completes();
    assert_eq!(job.run().text("output/parallel_run_step.txt"), ROWS);
}

#[test]
fn names_that_prs_uses_itself_are_refused() {
    let name = "Failed_Mini_Batches.JSONL.";
    let job = job(WAITS).with("append_row_file_name", name);
    job.is_refused(&["append_row_file_name", &format!("{name:?}")]);
}

/// Writes a setting of a stored job over.
fn change_record(job: &Job, change: impl FnOnce(&mut Value)) {
    let path = job.run().path().join("job.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut record);
    fs::write(&path, sealed(record)).unwrap();
}

#[test]
fn a_stored_job_with_a_name_that_prs_uses_is_not_resumed() {
    let job = job(FAILS);
    job.submit().expect_completed();
    let ran = job.marks("ran").len();
    change_record(&job, |record| record["spec"]["append_row_file_name"] = json!(FAILURES));
    job.mark("mended");
    let resumed = job.resume();
    refused(&resumed, &["append_row_file_name", FAILURES, "submit it again with another name"]);
    let resubmitted = job.command(&["resubmit", &job.run().path().display().to_string()]);
    refused(&resubmitted, &["append_row_file_name", FAILURES]);
    assert_eq!(job.marks("ran").len(), ran);
    assert!(!place(&job).text(FAILURES).is_empty(), "the failures are still listed");
}

#[test]
fn a_result_that_came_meanwhile_stays_and_a_resume_needs_to_run_nothing() {
    let job = job(WAITS);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("the first mini-batch", || !job.marks("ran").is_empty());
    let there = job.path("place").join(RESULT);
    fs::write(&there, "precious").unwrap();
    job.mark("go");
    job.has_failed(&submit.wait(), &[RESULT, "move it away and resume the job"]);
    assert_eq!(place(&job).files(""), [RESULT]);
    assert_eq!(place(&job).text(RESULT), "precious");
    assert!(!job.run().files("segments").is_empty(), "what is done is kept");

    refused(&job.resume(), &[&there.display().to_string(), "move it away"]);
    fs::rename(&there, job.path("moved")).unwrap();
    job.has_completed(&job.resume());
    assert_eq!(place(&job).text(RESULT), ROWS);
    assert_eq!(fs::read(job.path("moved")).unwrap(), b"precious");
    assert_eq!(job.marks("ran").len(), 2, "nothing ran again");
    assert!(job.run().files("segments").is_empty(), "nothing is left to resume");
}

#[test]
fn a_link_that_came_meanwhile_is_not_written_through() {
    let job = job(WAITS);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("the first mini-batch", || !job.marks("ran").is_empty());
    symlink(job.path("victim"), job.path("place").join(RESULT)).unwrap();
    job.mark("go");
    job.has_failed(&submit.wait(), &[RESULT, "move it away"]);
    assert!(!job.path("victim").exists());
}

#[test]
fn a_list_of_failures_that_came_meanwhile_stays() {
    for mended in [true, false] {
        let script = WAITS.replace(
            "    return",
            "    import marks\n    assert context.minibatch_index == 0 or marks.is_marked('mended')\n    return",
        );
        let job = job(&script);
        if mended {
            job.mark("mended");
        }
        let mut submit = job.start_submit(&[]);
        submit.wait_until("the first mini-batch", || !job.marks("ran").is_empty());
        fs::write(job.path("place").join(FAILURES), "precious").unwrap();
        job.mark("go");
        let ended = submit.wait();
        if mended {
            job.has_completed(&ended);
            assert_eq!(place(&job).text(RESULT), ROWS);
        } else {
            job.has_failed(&ended, &[FAILURES, "move it away"]);
            assert!(!place(&job).path().join(RESULT).exists());
        }
        assert_eq!(place(&job).text(FAILURES), "precious");
    }
}

/// Where a program is killed while it ends a job that has failures; then these are mended, and it goes on.
fn killed_at(failpoint: &str) {
    let job = job(FAILS).with_own_variable("PRS_FAILPOINT", failpoint);
    let killed = job.submit();
    assert_eq!(killed.code, None, "{failpoint}: {}", killed.stderr);
    job.soon_leaves_nothing();
    job.mark("mended");
    let job = job.with_own_variable("PRS_FAILPOINT", "");
    job.has_completed(&job.resume());
    assert_eq!(place(&job).files(""), [RESULT], "{failpoint}");
    assert_eq!(place(&job).text(RESULT), "row 0\nrow 0\nrow 1\nrow 1\n", "{failpoint}");
}

#[test]
fn a_job_that_dies_over_its_result_finds_it_to_be_its_own() {
    for failpoint in ["finalizing", "output_written", "result_written"] {
        killed_at(failpoint);
    }
}

#[test]
fn what_a_former_start_brought_is_replaced() {
    let job = job(FAILS);
    job.submit().expect_completed();
    assert_eq!(place(&job).files(""), [FAILURES, RESULT]);
    assert_eq!(place(&job).text(RESULT), "row 0\nrow 0\n");
    job.mark("mended");
    job.has_completed(&job.resume());
    assert_eq!(place(&job).files(""), [RESULT]);
    assert_eq!(place(&job).text(RESULT), "row 0\nrow 0\nrow 1\nrow 1\n");
}

#[test]
fn what_a_user_made_of_a_former_result_is_not_replaced() {
    let job = job(FAILS);
    job.submit().expect_completed();
    let there = job.path("place").join(RESULT);
    fs::write(&there, "row 0, edited\n").unwrap();
    job.mark("mended");
    refused(&job.resume(), &[&there.display().to_string(), "is not what job"]);
    assert_eq!(place(&job).text(RESULT), "row 0, edited\n");
    assert_eq!(place(&job).files(""), [FAILURES, RESULT]);
    fs::rename(&there, job.path("edited")).unwrap();
    job.has_completed(&job.resume());
    assert_eq!(place(&job).text(RESULT), "row 0\nrow 0\nrow 1\nrow 1\n");
}

/// The second mini-batch gets the name that the third had when the second had failed.
#[test]
fn files_of_mini_batches_take_the_place_of_their_jobs_own_and_of_no_others() {
    let script = r#"
import os
from azureml_user.parallel_run import EntryScript
from marks import is_marked

def run(mini_batch, context):
    index = context.minibatch_index
    if index == 0 and not is_marked("mended"):
        raise ValueError("not yet")
    for name in ["same.txt", f"own-{index}.txt"]:
        with open(os.path.join(EntryScript().output_dir, name), "w") as file:
            file.write(f"{name} of {index}")
    return [f"row {index}"] * 2
"#;
    for output in [None, Some("place")] {
        let mut job = Job::new(script).with_files(6).with("run_max_try", 1);
        job.set("output", output);
        job.submit().expect_completed();
        let place = output.map_or(job.run().path().join("output"), |name| job.path(name));
        let place = RunFolder::new(place);
        assert_eq!(place.text("same.txt"), "same.txt of 1");
        fs::write(place.path().join("own-0.txt"), "precious").unwrap();
        job.mark("mended");
        job.has_completed(&job.resume());
        let expected = [
            ("own-0.mb-0000000000.txt", "own-0.txt of 0"),
            ("own-0.txt", "precious"),
            ("own-1.txt", "own-1.txt of 1"),
            ("own-2.txt", "own-2.txt of 2"),
            (RESULT, "row 0\nrow 0\nrow 1\nrow 1\nrow 2\nrow 2\n"),
            ("same.mb-0000000001.txt", "same.txt of 1"),
            ("same.mb-0000000002.txt", "same.txt of 2"),
            ("same.txt", "same.txt of 0"),
        ];
        let found: Vec<_> =
            place.files("").into_iter().map(|name| (name.clone(), place.text(&name))).collect();
        let found: Vec<_> = found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(found, expected, "{output:?}");
    }
}

#[test]
fn result_says_when_the_file_is_not_what_the_job_wrote() {
    let job = job(WAITS);
    job.mark("go");
    job.completes();
    let run = job.run().path().display().to_string();
    let there = job.path("place").join(RESULT);
    job.command(&["result", &run]).expect_code(0);

    // The size is looked at always, the bytes when they are copied.
    let other = ROWS.replace("row 1", "row 7");
    fs::write(&there, &other).unwrap();
    job.command(&["result", &run]).expect_code(0);
    let copy = job.path("copy").display().to_string();
    let told = job.command(&["result", &run, "--output-path", &copy]);
    told.expect_code(42);
    let sums = [ROWS, &other].map(|text| hexadecimal(&Sha256::digest(text)));
    for part in [&there.display().to_string(), &sums[0], &sums[1], "nothing was copied"] {
        assert!(told.stderr.contains(part), "{part:?} is not said: {}", told.stderr);
    }
    assert!(!job.path("copy").exists(), "nothing is left of the copy");

    fs::write(&there, "short").unwrap();
    for command in [&["result", &run][..], &["resume", &run], &["result", &run, "--output-path", &copy]] {
        let told = job.command(command);
        told.expect_code(42);
        assert!(told.stderr.contains(&there.display().to_string()), "{}", told.stderr);
    }
    fs::remove_file(&there).unwrap();
    for command in [&["result", &run][..], &["resume", &run]] {
        let told = job.command(command);
        told.expect_code(42);
        assert!(told.stderr.contains("is gone") && told.stderr.contains("resubmit"), "{}", told.stderr);
    }
    job.command(&["result", &run, "--output-path", &copy]).expect_code(42);
    assert!(!job.path("copy").exists());
}

#[test]
fn a_folder_that_a_job_fills_is_no_place_for_a_copy() {
    let job = job(WAITS);
    job.mark("go");
    job.completes();
    let run = job.run().path().display().to_string();
    job.unmark("go");
    let mut other = submit_again(&job, &file_with_output(&job, &job.path("other-place")), "other");
    other.wait_until("the other job", || job.marks("ran").len() > 2);
    let taken = job.path("other-place").display().to_string();
    refused(&job.command(&["result", &run, "--output-path", &taken]), &["is being filled by job"]);
    job.mark("go");
    other.wait().expect_code(0);
    assert_eq!(RunFolder::new(&taken).files(""), [RESULT]);
}
