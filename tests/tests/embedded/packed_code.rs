//! What of `source_directory` goes along with a job, and what is said of it.

use std::fs::{self, File};

use prs_tests::harness::Job;
use rustix::process::Signal;

/// Gives the files beside the script.
const LISTS: &str = r#"
import os

def run(mini_batch):
    folder = os.path.dirname(__file__)
    found = [os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names]
    return [" ".join(sorted(name for name in found if not name.endswith(".pyc")))]
"#;

fn job() -> Job {
    let job = Job::new(LISTS).with_files(1).with("error_threshold", -1);
    for folder in ["models", "venv", "notes"] {
        fs::create_dir(job.path("code").join(folder)).unwrap();
    }
    job.code("models/a.bin", "weights");
    job.code("notes/b.txt", "old");
    job.code("venv/pyvenv.cfg", "");
    job
}

#[test]
fn an_ignore_file_says_what_stays_behind() {
    let job = job();
    job.code(".gitignore", "*.bin\nnotes/\n");
    let first = job.submit();
    first.expect_code(0);
    assert_eq!(job.run().rows(), ["main.py marks.py"]);
    let note = "note: .gitignore keeps models/a.bin, notes/ out of the code; a .prsignore beside it takes precedence";
    assert!(first.stderr.contains(note), "{}", first.stderr);

    job.code(".prsignore", "notes/\n");
    let validated = job.command(&["validate", "job.yml"]);
    validated.expect_code(0);
    assert!(!validated.stderr.contains("note"), "{}", validated.stderr);
    job.code("notes/b.txt", "new");
    let run = job.path("second").display().to_string();
    job.command(&["submit", "job.yml", "--run-dir", &run]).expect_code(0);
    let result = fs::read_to_string(job.path("second/output/parallel_run_step.txt")).unwrap();
    assert_eq!(result, "main.py marks.py models/a.bin\n");

    job.code(".prsignore", "main.py\n");
    for command in ["submit", "validate", "try"] {
        let refused = job.command(&[command, "job.yml"]);
        refused.expect_code(2);
        let said = "code/.prsignore keeps the entry script main.py out of the code";
        assert!(refused.stderr.contains(said), "{command}: {}", refused.stderr);
    }
}

#[test]
fn a_job_that_goes_on_compares_what_is_packed() {
    let job =
        Job::new("def run(mini_batch):\n    raise ValueError('no')\n").with_files(2).with("run_max_try", 1);
    fs::create_dir(job.path("code/notes")).unwrap();
    job.code(".prsignore", "notes/\n");
    job.submit().expect_code(42);
    job.code("notes/b.txt", "new");
    let run = job.run().path().display().to_string();
    let same = job.command(&["resume", &run]);
    assert!(!same.stderr.contains("differ"), "{}", same.stderr);
    job.code(".prsignore", "");
    let differs = job.command(&["resume", &run]);
    differs.expect_code(2);
    let said = "code/notes/b.txt (new) differs from the code of the job";
    assert!(differs.stderr.contains(said), "{}", differs.stderr);
}

#[test]
fn a_job_that_is_interrupted_while_its_code_is_unpacked_leaves_no_folder() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_files(2);
    fs::create_dir(job.path("code/lib")).unwrap();
    for number in 0..12_000 {
        job.code(&format!("lib/{number}.py"), "");
    }
    let mut submit = job.start_submit(&[]);
    let work = job.run().path().join("work");
    submit.wait_until("the first files of the code", || work.join("node-0/code/lib").exists());
    submit.signal(Signal::INT);
    let ended = submit.wait();
    ended.expect_code(130);
    assert!(!ended.stderr.contains("left behind") && !work.exists(), "{}", ended.stderr);
}

#[test]
fn large_code_is_told_with_what_takes_most() {
    let job = job();
    File::create(job.path("code/models/large.bin")).unwrap().set_len(22 << 20).unwrap();
    job.write_job_file();
    let validated = job.command(&["validate", "job.yml"]);
    validated.expect_code(0);
    for part in [
        "note: the job takes 22.00 MiB of source_directory along (models/ 22.00 MiB, ",
        "exclude what is not code with code/",
    ] {
        assert!(validated.stderr.contains(part), "{part:?}: {}", validated.stderr);
    }
    File::create(job.path("code/models/huge.bin")).unwrap().set_len(600 << 20).unwrap();
    let refused = job.command(&["submit", "job.yml"]);
    refused.expect_code(2);
    for part in ["holds more than 512 MiB", "models/ 622 MiB", ".prsignore"] {
        assert!(refused.stderr.contains(part), "{part:?}: {}", refused.stderr);
    }
}
