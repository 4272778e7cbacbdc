//! `resume`: runs only what is missing or failed, once, and refuses what would mix two jobs (spec S11).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Job, Live, expected_by_python, sealed};
use rustix::process::Signal;
use serde_json::json;

/// Mini-batches 1 and 4 fail until the mark `cure`.
const CURABLE: &str = r#"
import os
from azureml_user.parallel_run import EntryScript
from marks import mark, is_marked

def run(mini_batch, context):
    index = context.minibatch_index
    mark("ran", index)
    if index in (1, 4) and not is_marked("cure"):
        raise ValueError("not yet")
    with open(os.path.join(EntryScript().output_dir, f"file-{index}"), "w") as file:
        file.write(str(index))
    return [f"{index} {os.path.basename(path)}" for path in mini_batch]
"#;

fn curable() -> Job {
    Job::new(CURABLE).with_files(12).with("run_max_try", 2)
}

fn expected() -> Vec<String> {
    (0..12).map(|number| format!("{} {number:04}.txt", number / 2)).collect()
}

#[test]
fn failed_mini_batches_run_again_and_nothing_else() {
    let job = curable();
    let printed = job.completes();
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 6, "succeeded": 4, "failed": 2 }));
    assert_eq!(job.run().rows().len(), 8);
    let first = job.marks("ran").len();

    // Not cured yet: the same again, with tries of its own.
    let printed = job.has_completed(&job.resume());
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 6, "succeeded": 4, "failed": 2 }));
    assert_eq!(job.run().failed_mini_batches().len(), 2);
    let second = job.marks("ran");
    assert_eq!(second.len() - first, 4, "two tries of each");

    job.mark("cure");
    let printed = job.has_completed(&job.resume());
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 6, "succeeded": 6, "failed": 0 }));
    assert_eq!(printed["items"], json!({ "total": 12, "succeeded": 12, "failed": 0 }));
    assert_eq!(job.run().rows(), expected());
    assert_eq!(printed["output"]["rows"], 12);
    let mut third = job.marks("ran")[second.len()..].to_vec();
    third.sort();
    assert_eq!(third, ["1", "4"], "only what had failed");
    let mut files: Vec<_> = (0..6).map(|index| format!("output/file-{index}")).collect();
    files.push("output/parallel_run_step.txt".to_owned());
    assert_eq!(job.run().files("output"), files, "and no list of failures any more");
}

#[test]
fn a_job_that_failed_by_its_threshold_can_be_resumed() {
    let job = curable().with("allowed_failed_count", 0);
    job.fails(&["allowed_failed_count 0"]);
    job.mark("cure");
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), expected());
}

#[test]
fn a_job_that_completed_says_so_and_is_untouched() {
    let job = curable();
    job.mark("cure");
    let printed = job.completes();
    let before: Vec<_> = job.run().files("").into_iter().map(|name| (job.run().bytes(&name), name)).collect();
    let ran = job.marks("ran").len();
    let ended = job.resume();
    ended.expect_code(0);
    assert_eq!(ended.json(), printed, "the same object again");
    assert!(ended.stderr.contains("completed"), "{}", ended.stderr);
    assert_eq!(job.marks("ran").len(), ran);
    let after: Vec<_> = job.run().files("").into_iter().map(|name| (job.run().bytes(&name), name)).collect();
    assert!(before == after, "nothing in the run folder has changed");
}

#[test]
fn a_job_that_is_running_is_refused() {
    let script = "from marks import mark, wait_for\ndef run(mini_batch):\n    mark('on'); wait_for('go')\n    return mini_batch\n";
    let job = Job::new(script).with_files(4);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("work", || !job.marks("on").is_empty());
    let refused = job.resume();
    refused.expect_code(2);
    assert!(refused.stderr.contains("running"), "{}", refused.stderr);
    refused.has_no_data();
    // A second submission into the same folder as well.
    let refused = job.submit();
    refused.expect_code(2);
    assert!(
        refused.stderr.contains("in use") || refused.stderr.contains("holds a job"),
        "{}",
        refused.stderr
    );
    job.mark("go");
    job.has_completed(&submit.wait());
    assert_eq!(job.run().rows().len(), 4);
}

#[test]
fn of_two_that_resume_at_once_one_goes_on() {
    let script = "from marks import is_marked, mark, wait_for\ndef run(mini_batch):\n    if not is_marked('cure'):\n        \
                  raise ValueError('not yet')\n    mark('on'); wait_for('go')\n    return mini_batch\n";
    let job = Job::new(script).with_files(4).with("run_max_try", 1);
    job.submit();
    job.mark("cure");
    let run = job.run().path().display().to_string();
    let mut both: Vec<_> = (0..2).map(|_| job.start(&["resume", &run, "-o", "json"])).collect();
    both[0].wait_until("work", || !job.marks("on").is_empty());
    let lost = wait_for("the other one to end", Duration::from_secs(30), || {
        both.iter_mut().position(Live::has_ended)
    });
    let refused = both.remove(lost).wait();
    refused.expect_code(2);
    assert!(refused.stderr.contains("is running; there is nothing to resume"), "{}", refused.stderr);
    refused.has_no_data();
    job.mark("go");
    job.has_completed(&both.remove(0).wait());
    assert_eq!(job.run().rows().len(), 4);
}

/// Mini-batches that are known to be done.
fn done(job: &Job) -> usize {
    job.run().text_so_far("logs/sys/job_report/processed_mini-batches.csv").matches("RUN_DONE").count()
}

/// A job of six mini-batches that was interrupted when the first three were done.
fn half_done() -> Job {
    let script = r#"
import os
from marks import mark, wait_for

def run(mini_batch, context):
    mark("ran", context.minibatch_index)
    if context.minibatch_index >= 3:
        mark("held")
        wait_for("go")
    return [f"{context.minibatch_index} {os.path.basename(path)}" for path in mini_batch]
"#;
    let job = Job::new(script).with_files(12);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("three mini-batches done", || job.marks("held").len() == 2 && done(&job) == 3);
    assert!(submit.signal(Signal::INT));
    let printed = submit.wait().json();
    assert_eq!(printed["mini_batches"]["succeeded"], 3);
    job.mark("go");
    job
}

/// Resumes a job that cannot go on because of `file`: nothing is touched.
fn is_refused_as_changed(job: &Job, file: &str) {
    let before = job.run().text("job.json");
    let ended = job.resume();
    ended.expect_code(2);
    for part in ["the inputs changed", file, "mini-batch", "prs resubmit"] {
        assert!(ended.stderr.contains(part), "{part:?} is not in {}", ended.stderr);
    }
    assert!(!job.run().path().join("output/parallel_run_step.txt").exists(), "no result of two jobs");
    assert_eq!(job.run().text("job.json"), before);
    job.has_left_nothing();
}

#[test]
fn inputs_that_are_as_they_were_are_no_obstacle() {
    let job = half_done();
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), expected());
}

#[test]
fn files_whose_content_stayed_are_no_obstacle() {
    let job = half_done();
    let path = |name: &str| job.path("data").join(name);
    fs::set_permissions(path("0000.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(path("0001.txt"), job.path("backup")).unwrap();
    // Written again, and restored from a copy.
    fs::write(path("0002.txt"), "item 2").unwrap();
    fs::write(job.path("copy"), "item 3").unwrap();
    fs::rename(job.path("copy"), path("0003.txt")).unwrap();
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), expected());
}

#[test]
fn content_that_changed_is_refused_whatever_size_and_time_say() {
    let job = half_done();
    disguise(&job.path("data/0004.txt"), "item X");
    is_refused_as_changed(
        &job,
        "0004.txt changed (it has other content, though it has the size and the time",
    );
}

/// Gives a file other content and the time of change it had.
fn disguise(path: &Path, content: &str) {
    let then = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, content).unwrap();
    fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn a_script_that_hides_what_it_wrote_to_its_input_is_found_out() {
    let script = r#"
import os
def run(mini_batch):
    for path in mini_batch:
        then = os.stat(path).st_mtime_ns
        with open(path, "rb+") as file:
            file.write(os.urandom(4))
        os.utime(path, ns=(then, then))
    return mini_batch
"#;
    let job = Job::new(script).with_files(2);
    job.fails(&["0000.txt changed since it was planned", "its time of change set back"]);
    // A name that comes and goes leaves the same question open, and the content answers it.
    let script = r#"
import os
def run(mini_batch):
    for path in mini_batch:
        other = os.path.join(os.environ["PRS_TEST_MARKS"], os.path.basename(path))
        os.link(path, other)
        os.unlink(other)
        os.chmod(path, 0o640)
    return mini_batch
"#;
    let job = Job::new(script).with_files(6);
    let printed = job.completes();
    assert_eq!(printed["items"]["succeeded"], 6);
}

#[test]
fn a_side_input_is_what_it_was_by_its_content() {
    let script = r#"
import sys
from marks import is_marked
def run(mini_batch, context):
    path = sys.argv[sys.argv.index("--weights") + 1]
    if context.minibatch_index == 1 and not is_marked("cure"):
        raise ValueError("not yet")
    if is_marked("write"):
        with open(path, "w") as file:
            file.write("ones")
    return [open(path).read()] * len(mini_batch)
"#;
    let mut job = Job::new(script).with_files(4).with("run_max_try", 1).with("allowed_failed_count", 4);
    let path = job.path("weights");
    fs::write(&path, "zero").unwrap();
    job.set("side_inputs", json!({ "weights": { "path": "weights" } }));
    job.set("arguments", json!(["--weights", "${{side_inputs.weights}}"]));
    job.completes();
    job.mark("cure");
    disguise(&path, "ones");
    let ended = job.resume();
    let told = "side input weights changed since the job was first started";
    job.has_failed_again(&ended, &[told]);
    // As it was, though at another time and with other rights.
    fs::write(&path, "zero").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), ["zero"; 4]);

    let job = Job::new(script).with_files(4);
    fs::write(job.path("weights"), "zero").unwrap();
    let job = job.with("side_inputs", json!({ "weights": { "path": "weights" } }));
    let job = job.with("arguments", json!(["--weights", "${{side_inputs.weights}}"]));
    job.mark("cure");
    job.mark("write");
    job.fails(&[told]);
}

#[test]
fn a_file_that_came_in_between_runs_in_its_place() {
    let job = half_done();
    job.data("0001b.txt", "new");
    let ended = job.resume();
    let printed = job.has_completed(&ended);
    let told = "inputs were corrected: 3 mini-batches keep their rows, 4 run, 1 of them new";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 7, "succeeded": 7, "failed": 0 }));
    assert_eq!(printed["items"], json!({ "total": 13, "succeeded": 13, "failed": 0 }));
    let mut rows = expected();
    rows.insert(2, "6 0001b.txt".to_owned());
    assert_eq!(job.run().rows(), rows);
}

#[test]
fn a_file_that_is_gone_is_refused() {
    let job = half_done();
    fs::remove_file(job.path("data/0000.txt")).unwrap();
    is_refused_as_changed(&job, "0000.txt is gone, and mini-batch 0 had it");
}

#[test]
fn inputs_of_which_what_was_done_is_gone_are_refused() {
    // The last mini-batches were done; the plan ends before them now.
    let script = r#"
from marks import mark, wait_for

def run(mini_batch, context):
    if context.minibatch_index < 2:
        mark("held")
        wait_for("go")
    return [f"{context.minibatch_index}"] * len(mini_batch)
"#;
    let job = Job::new(script).with_files(12).with("process_count_per_node", 3);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("four mini-batches done", || done(&job) == 4);
    submit.interrupt();
    submit.wait().expect_code(130);
    job.mark("go");
    for number in 6..12 {
        fs::remove_file(job.path(&format!("data/{number:04}.txt"))).unwrap();
    }
    is_refused_as_changed(&job, "0006.txt is gone, and mini-batch 3 had it");
}

#[test]
fn a_table_whose_content_changed_is_refused() {
    let script = r#"
from marks import mark, wait_for

def run(mini_batch, context):
    if context.minibatch_index >= 1:
        mark("held")
        wait_for("go")
    return mini_batch
"#;
    let job = Job::new(script).with_tables(&[2, 2, 2]);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("one mini-batch done", || done(&job) == 1);
    submit.interrupt();
    submit.wait().expect_code(130);
    job.mark("go");
    // Of the same size, so that only a look at more than the listing tells.
    let text = fs::read_to_string(job.path("data/000.csv")).unwrap();
    job.data("000.csv", text.replace("name, 0", "NAME, 9"));
    is_refused_as_changed(&job, "000.csv has other content there, and mini-batch 0 had it");
}

#[test]
fn damage_to_a_segment_costs_a_second_run_and_no_row() {
    let job = half_done();
    let segments = job.run().files("segments");
    assert!(!segments.is_empty());
    for name in segments {
        let path = job.run().path().join(&name);
        let bytes = fs::read(&path).unwrap();
        // As a copy that was cut short would be.
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), expected());
}

fn goes_on_where_its_folder_was_moved_to(end: impl FnOnce(Live)) {
    let script = r#"
from marks import mark, wait_for

def run(mini_batch, context):
    mark("ran", context.minibatch_index)
    if context.minibatch_index >= 3:
        mark("held")
        wait_for("go")
    return mini_batch
"#;
    let make = || {
        let job = Job::new(script)
            .with_tables(&[400])
            .with("mini_batch_size", "1kb")
            .with("process_count_per_node", 2);
        let compress =
            "import gzip, sys\nsys.stdout.buffer.write(gzip.compress(open('000.csv', 'rb').read()))";
        job.data("table.csv.gz", expected_by_python(&job.path("data"), compress));
        job.with("inputs", json!([{ "type": "tabular", "path": "data/table.csv.gz" }]))
    };
    let quiet = make();
    quiet.mark("go");
    let undisturbed = quiet.completes();
    assert!(undisturbed["mini_batches"]["scheduled"].as_u64().unwrap() > 6, "{undisturbed}");

    let job = make();
    let mut submit = job.start_submit(&[]);
    submit.wait_until("three mini-batches done", || job.marks("held").len() == 2 && done(&job) == 3);
    end(submit);
    job.soon_leaves_nothing();
    let moved = job.path("another/place/moved");
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    fs::rename(job.run().path(), &moved).unwrap();
    let job = job.with_run_folder(&moved);
    job.mark("go");
    let ended = job.resume();
    let printed = job.has_completed(&ended);
    assert!(ended.stderr.contains("3 mini-batches are done already"), "{}", ended.stderr);
    assert!(job.run().result() == quiet.run().result(), "the bytes are those of an undisturbed run");
    for key in ["mini_batches", "items"] {
        assert_eq!(printed[key], undisturbed[key]);
    }
    assert_eq!(printed["output"]["sha256"], undisturbed["output"]["sha256"]);
    assert_eq!(printed["output"]["file"], moved.join("output/parallel_run_step.txt").display().to_string());
    for index in ["0", "1", "2"] {
        let times = job.marks("ran").iter().filter(|ran| *ran == index).count();
        assert_eq!(times, 1, "mini-batch {index} was done before");
    }
    assert!(!job.path("run").exists(), "nothing comes back at the former place");
}

#[test]
fn a_run_folder_that_was_moved_after_an_interrupt_goes_on_with_a_compressed_table() {
    goes_on_where_its_folder_was_moved_to(|mut submit| {
        submit.interrupt();
        submit.wait().expect_code(130);
    });
}

#[test]
fn a_run_folder_that_was_moved_after_a_kill_goes_on_with_a_compressed_table() {
    goes_on_where_its_folder_was_moved_to(|submit| assert!(submit.kill()));
}

#[test]
fn a_job_of_another_version_is_refused_with_the_remedy() {
    let job = half_done();
    let path = job.run().path().join("job.json");
    let written = fs::read_to_string(&path).unwrap();
    let mut of_another: serde_json::Value = serde_json::from_str(&written).unwrap();
    of_another["prs_version"] = "0.1.0".into();
    let mut of_another_form = of_another.clone();
    of_another_form.as_object_mut().unwrap().remove("status");
    for (record, told) in [(of_another, "resume it with prs 0.1.0"), (of_another_form, "of prs 0.1.0")] {
        fs::write(&path, sealed(record)).unwrap();
        let refused = job.resume();
        refused.expect_code(2);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    fs::write(&path, written).unwrap();
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), expected());
}
