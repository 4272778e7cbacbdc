//! What a job leaves in its output: files of mini-batches (spec E15), names, other places, a result that is there.

use std::fs;

use prs_tests::harness::{Job, RunFolder};
use serde_json::json;

/// Writes one file a mini-batch, below the output folder.
const WRITES_FILES: &str = r#"
import os
from azureml_user.parallel_run import EntryScript

def run(mini_batch, context):
    folder = EntryScript().output_dir
    assert os.path.samefile(folder, os.environ["AZUREML_BI_OUTPUT_PATH"])
    os.makedirs(os.path.join(folder, "deep"), exist_ok=True)
    with open(os.path.join(folder, "deep", f"part-{context.minibatch_index}.bin"), "wb") as file:
        file.write(bytes([context.minibatch_index]) * 3)
    return mini_batch
"#;

#[test]
fn files_of_mini_batches_are_published() {
    let job = Job::new(WRITES_FILES).with_files(6).with("mini_batch_size", 1);
    job.completes();
    let mut expected: Vec<_> = (0..6).map(|index| format!("output/deep/part-{index}.bin")).collect();
    expected.push("output/parallel_run_step.txt".to_owned());
    assert_eq!(job.run().files("output"), expected);
    for index in 0..6 {
        assert_eq!(job.run().bytes(&expected[usize::from(index)]), [index; 3]);
    }
}

#[test]
fn files_are_published_without_a_result_as_well() {
    let job =
        Job::new(WRITES_FILES).with_files(3).with("mini_batch_size", 1).with("output_action", "summary_only");
    job.completes();
    assert_eq!(job.run().files("output"), [0, 1, 2].map(|index| format!("output/deep/part-{index}.bin")));
}

#[test]
fn files_of_one_name_are_all_kept_and_the_first_keeps_the_name() {
    let script = r#"
import os, time
from azureml_user.parallel_run import EntryScript
from marks import mark, wait_for

def run(mini_batch, context):
    index = context.minibatch_index
    if index == 0:
        # The first in input order is the last to be written.
        wait_for("1"); wait_for("2")
    for name in ["same.tar.gz", "plain", ".hidden"]:
        with open(os.path.join(EntryScript().output_dir, name), "w") as file:
            file.write(f"{name} of {index}")
    mark(str(index))
    return mini_batch
"#;
    let job = Job::new(script).with_files(3).with("mini_batch_size", 1);
    job.completes();
    let contents: Vec<_> = job
        .run()
        .files("output")
        .into_iter()
        .filter(|name| !name.ends_with("parallel_run_step.txt"))
        .map(|name| (name.clone(), job.run().text(&name)))
        .collect();
    assert_eq!(contents.len(), 9, "{contents:?}");
    for name in ["same.tar.gz", "plain", ".hidden"] {
        let content = |index: u32| contents.iter().find(|(_, text)| *text == format!("{name} of {index}"));
        assert_eq!(content(0).unwrap().0, format!("output/{name}"), "the first keeps the plain name");
        for index in [1, 2] {
            let (path, _) = content(index).expect("a file of every mini-batch");
            assert!(path.contains(&format!(".mb-000000000{index}")), "{path}");
        }
    }
    assert!(contents.iter().any(|(name, _)| name == "output/same.tar.mb-0000000001.gz"), "{contents:?}");
}

#[test]
fn a_name_made_for_a_second_file_takes_nobody_elses() {
    let script = r#"
import os
from azureml_user.parallel_run import EntryScript

NAMES = [["a.txt", "a.mb-0000000001.txt"], ["a.txt"], ["a.txt", "parallel_run_step.txt"]]

def run(mini_batch, context):
    for name in NAMES[context.minibatch_index]:
        with open(os.path.join(EntryScript().output_dir, name), "w") as file:
            file.write(f"{context.minibatch_index} {name}")
    return [f"row {context.minibatch_index}"]
"#;
    let job = Job::new(script).with_files(3).with("mini_batch_size", 1);
    job.completes();
    assert_eq!(job.run().rows(), ["row 0", "row 1", "row 2"], "the result is no file of a mini-batch");
    let mut contents: Vec<_> = job
        .run()
        .files("output")
        .iter()
        .map(|name| job.run().text(name))
        .filter(|text| !text.contains("row"))
        .collect();
    contents.sort_unstable();
    let expected = ["0 a.mb-0000000001.txt", "0 a.txt", "1 a.txt", "2 a.txt", "2 parallel_run_step.txt"];
    assert_eq!(contents, expected, "every file is kept: {:?}", job.run().files("output"));
}

#[test]
fn what_a_failed_try_wrote_is_discarded() {
    let script = r#"
import os
from azureml_user.parallel_run import EntryScript

def run(mini_batch, context):
    index, retry = context.minibatch_index, context.retry_count
    with open(os.path.join(EntryScript().output_dir, f"{index}-{retry}"), "w") as file:
        file.write("x")
    if index == 1 and retry == 0:
        raise ValueError("first try")
    if index == 2 and retry == 0:
        os._exit(3)
    if index == 3:
        raise ValueError("every try")
    return mini_batch
"#;
    let job = Job::new(script).with_files(4).with("mini_batch_size", 1);
    job.completes();
    let names = ["0-0", "1-1", "2-1", "failed_mini_batches.jsonl", "parallel_run_step.txt"];
    assert_eq!(job.run().files("output"), names.map(|name| format!("output/{name}")));
}

/// Has folders of its process lead to a folder of others, by the number of the mini-batch.
const LEADS_ELSEWHERE: &str = r#"
import os, shutil
from azureml_user.parallel_run import EntryScript

def run(mini_batch, context):
    folder, others = EntryScript().output_dir, os.environ["OTHERS"]
    index = context.minibatch_index
    if index in (1, 2):
        shutil.rmtree(folder)
        os.symlink(os.path.join(others, "output"), folder)
        if index == 1:
            raise ValueError("as it wants")
    elif index < 4:
        with open(os.path.join(folder, f"own-{index}"), "w") as file:
            file.write("own")
    else:
        of_process = os.path.dirname(folder)
        os.rename(of_process, of_process + "-away")
        os.symlink(others, of_process)
    return mini_batch
"#;

#[test]
fn nothing_is_touched_that_a_script_has_its_folders_lead_to() {
    let job = Job::new(LEADS_ELSEWHERE).with_files(5).with("mini_batch_size", 1).with("run_max_try", 1);
    let job = job.with("process_count_per_node", 1).with("error_threshold", -1);
    let others = job.path("others");
    let held: Vec<_> = ["output", "outputs", "working", "staging/1"].map(|folder| others.join(folder)).into();
    for folder in &held {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("file"), "of others").unwrap();
    }
    let job = job.with_variable("OTHERS", &others.display().to_string());
    job.submit().expect_code(0);
    for folder in &held {
        let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["file"], "{}", folder.display());
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "of others");
    }
    let failed = job.run().failed_mini_batches();
    assert_eq!(failed.len(), 2, "{failed:?}");
    let told = format!("{:?}", failed[1]);
    assert!(told.contains("is a symbolic link; only regular files can be written below"), "{told}");
    assert_eq!(
        job.run().files("output"),
        ["output/failed_mini_batches.jsonl", "output/own-0", "output/own-3", "output/parallel_run_step.txt"]
    );
    assert_eq!(job.run().rows().len(), 3);
}

#[test]
fn the_output_can_be_elsewhere_under_another_name() {
    let job = Job::new("def run(mini_batch):\n    return ['x']\n")
        .with_files(2)
        .with("output", "place/below")
        .with("append_row_file_name", "rows.csv");
    let printed = job.completes();
    let place = job.path("place/below/rows.csv");
    assert_eq!(fs::read(&place).unwrap(), b"x\n");
    assert_eq!(printed["output"]["file"], place.display().to_string());
    assert_eq!(printed["output"]["uri"], job.path("place/below").display().to_string());
    assert!(!job.run().path().join("output/rows.csv").exists());
}

#[test]
fn an_output_that_has_the_result_is_refused_and_untouched() {
    let job = Job::new("from marks import mark\ndef run(mini_batch):\n    mark('ran')\n    return ['x']\n")
        .with_files(2)
        .with("output", "place");
    fs::create_dir(job.path("place")).unwrap();
    let there = job.path("place/parallel_run_step.txt");
    fs::write(&there, "precious").unwrap();
    job.is_refused(&[&there.display().to_string()]);
    assert_eq!(fs::read(&there).unwrap(), b"precious");
    assert_eq!(fs::read_dir(job.path("place")).unwrap().count(), 1);
    assert!(job.marks("ran").is_empty());
}

#[test]
fn a_run_folder_that_holds_a_job_is_refused_and_untouched() {
    let job = Job::new("def run(mini_batch):\n    return ['x']\n").with_files(2);
    job.completes();
    let before: Vec<_> = snapshot(&job);
    let again = job.submit();
    again.expect_code(2);
    assert!(again.stderr.contains(&job.run().path().display().to_string()), "{}", again.stderr);
    assert_eq!(snapshot(&job), before);
}

fn snapshot(job: &Job) -> Vec<(String, Vec<u8>)> {
    job.run().files("").into_iter().map(|name| (name.clone(), job.run().bytes(&name))).collect()
}

#[test]
fn other_files_of_the_output_are_left_alone() {
    let job = Job::new(WRITES_FILES).with_files(1).with("output", "place");
    fs::create_dir(job.path("place")).unwrap();
    fs::write(job.path("place/other"), "mine").unwrap();
    job.completes();
    assert_eq!(fs::read(job.path("place/other")).unwrap(), b"mine");
    assert_eq!(fs::read(job.path("place/deep/part-0.bin")).unwrap(), [0; 3]);
}

#[test]
fn a_name_that_cannot_be_published_fails_its_mini_batch_alone_and_is_named() {
    for name in [r"back\slash.txt", ".tmp/x", ".prs-claim"] {
        let script = format!(
            r#"
import os
from azureml_user.parallel_run import EntryScript

def run(mini_batch, context):
    name = {name:?} if context.minibatch_index == 1 else f"good-{{context.minibatch_index}}"
    path = os.path.join(EntryScript().output_dir, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("x")
    return [context.minibatch_index]
"#
        );
        // One process, so that the next mini-batch would inherit what is wrong.
        let job = Job::new(&script).with_files(4).with("mini_batch_size", 1);
        let job = job.with("run_max_try", 2).with("process_count_per_node", 1);
        let printed = job.completes();
        assert_eq!(printed["mini_batches"], json!({ "scheduled": 4, "succeeded": 3, "failed": 1 }), "{name}");
        assert_eq!(job.run().rows(), ["0", "2", "3"], "{name}");
        let names = ["failed_mini_batches.jsonl", "good-0", "good-2", "good-3", "parallel_run_step.txt"];
        assert_eq!(job.run().files("output"), names.map(|name| format!("output/{name}")));
        let tries = job.run().tries();
        let failed: Vec<_> = tries.iter().filter(|row| row["Status"] != "RUN_DONE").collect();
        assert_eq!(failed.len(), 2, "{failed:?}");
        for row in failed {
            assert_eq!(row["Mini-batch Id"], "mb-0000000001");
            assert!(row["Error Message"].contains(&format!("/{name} ")), "{name} is not named: {row:?}");
        }
        assert!(job.run().text("logs/job_error.txt").contains(name), "{name}");
    }
}

/// Writes what the mini-batch with the index 1 and, where that is one, the next are told to.
const LONG: &str = r#"
import os
from azureml_user.parallel_run import EntryScript

NAME = os.environ["NAME"]
FEW = os.environ.get("FEW", "1").split()

def run(mini_batch, context):
    name = NAME if str(context.minibatch_index) in FEW else f"good-{context.minibatch_index}"
    path = os.path.join(EntryScript().output_dir, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(str(context.minibatch_index))
    return [context.minibatch_index]
"#;

fn with_long_name(name: &str, few: &str) -> Job {
    let job = Job::new(LONG).with_files(4).with("mini_batch_size", 1).with("run_max_try", 1);
    job.with_variable("NAME", name).with_variable("FEW", few)
}

#[test]
fn a_path_that_is_too_long_fails_its_mini_batch_alone() {
    let path = ["p"; 5].map(|part| part.repeat(200)).join("/");
    assert_eq!(path.len(), 1_004);
    let job = with_long_name(&path, "1");
    for ended in [job.submit(), job.resume()] {
        let printed = job.has_completed(&ended);
        assert_eq!(printed["mini_batches"], json!({ "scheduled": 4, "succeeded": 3, "failed": 1 }));
        assert_eq!(job.run().rows(), ["0", "2", "3"]);
        let failed = job.run().failed_mini_batches();
        let message = failed[0]["tries"][0]["message"].as_str().unwrap();
        assert!(
            message.contains("its path below EntryScript().output_dir has 1004 bytes, and "),
            "{message}"
        );
    }
}

#[test]
fn a_name_that_leaves_no_room_for_the_id_fails_its_mini_batches_alone() {
    // As long as names on a disk may be: from two mini-batches it could not be kept twice.
    let job = with_long_name(&format!("{}.txt", "n".repeat(251)), "1 2");
    for ended in [job.submit(), job.resume()] {
        let printed = job.has_completed(&ended);
        assert_eq!(printed["mini_batches"], json!({ "scheduled": 4, "succeeded": 2, "failed": 2 }));
        assert_eq!(job.run().rows(), ["0", "3"]);
    }
    // The longest that is taken, twice.
    let name = format!("{}.txt", "n".repeat(212));
    let job = with_long_name(&name, "1 2");
    job.completes();
    assert_eq!(job.run().text(&format!("output/{name}")), "1");
    let second = format!("output/{}.mb-0000000002.txt", "n".repeat(212));
    assert_eq!(job.run().text(&second), "2");
}

#[test]
fn a_name_that_is_a_folder_to_another_mini_batch_is_kept_beside_it() {
    let script = r#"
import os
from azureml_user.parallel_run import EntryScript

NAMES = ["other", "a", "a/b"]

def run(mini_batch, context):
    index = context.minibatch_index
    path = os.path.join(EntryScript().output_dir, NAMES[index])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(f"{NAMES[index]} of {index}")
    return [index]
"#;
    for output in [None, Some("place")] {
        let mut job = Job::new(script).with_files(3).with("mini_batch_size", 1);
        job.set("output", output);
        job.completes();
        let place = output.map_or(job.run().path().join("output"), |name| job.path(name));
        let place = RunFolder::new(place);
        assert_eq!(place.text("parallel_run_step.txt"), "0\n1\n2\n");
        let contents: Vec<_> = place.files("").iter().map(|name| (name.clone(), place.text(name))).collect();
        let content = |text: &str| contents.iter().find(|(_, found)| found == text).map(|(name, _)| &**name);
        assert_eq!(contents.len(), 4, "{contents:?}");
        assert_eq!((content("other of 0"), content("a of 1")), (Some("other"), Some("a")), "{contents:?}");
        let nested = content("a/b of 2").unwrap_or_else(|| panic!("it is lost: {contents:?}"));
        assert!(nested.contains(".mb-0000000002"), "{nested}");
    }
}

#[test]
fn another_file_of_the_same_name_stays_and_ours_is_beside_it() {
    let script = r#"
import os
from azureml_user.parallel_run import EntryScript

def run(mini_batch, context):
    with open(os.path.join(EntryScript().output_dir, "notes.txt"), "w") as file:
        file.write("ours")
    return ["row"]
"#;
    let job = Job::new(script).with_files(1).with("output", "place");
    fs::create_dir(job.path("place")).unwrap();
    fs::write(job.path("place/notes.txt"), "theirs").unwrap();
    job.completes();
    let place = RunFolder::new(job.path("place"));
    assert_eq!(place.files(""), ["notes.mb-0000000000.txt", "notes.txt", "parallel_run_step.txt"]);
    assert_eq!(place.text("notes.txt"), "theirs");
    assert_eq!(place.text("notes.mb-0000000000.txt"), "ours");
    assert_eq!(place.text("parallel_run_step.txt"), "row\n");
}

#[test]
fn an_output_that_cannot_be_a_folder_is_refused() {
    let job = Job::new("from marks import mark\nmark('ran')\ndef run(mini_batch):\n    return ['x']\n");
    let job = job.with_files(2).with("output", "file/below");
    fs::write(job.path("file"), "precious").unwrap();
    job.is_refused(&[&job.path("file/below").display().to_string()]);
    assert_eq!(fs::read(job.path("file")).unwrap(), b"precious");
    assert!(job.marks("ran").is_empty());
}
