//! What a person sees while a job runs on this machine: phases, counts and the first errors, on a terminal and off it.

use std::time::{Duration, Instant};

use prs_tests::harness::{Ended, Job, python, shown_lines};

/// Loads until it is told to go on, then holds the mini-batches from the second on.
const SLOW: &str = r#"
import os
from marks import mark, wait_for

def init():
    mark("loading")
    wait_for("loaded")

def run(mini_batch, context):
    if context.minibatch_index >= 1:
        wait_for("go")
    return [os.path.basename(path) for path in mini_batch]
"#;

/// Columns that a string takes on a terminal: everything here is as wide as its characters.
fn columns(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn a_terminal_of_any_width_shows_the_phases_on_one_line() {
    for width in [40, 80, 120] {
        let job = Job::new(SLOW).with_files(6);
        let file = job.write_job_file().display().to_string();
        let mut submit = job.start_on_terminal(width, &["submit", &file]);
        let shows = |submit: &prs_tests::harness::Live, parts: &[&str]| {
            let lines = shown_lines(&submit.stdout());
            lines.iter().any(|line| parts.iter().all(|part| line.contains(part)))
        };
        let story = |shown: &str| shown_lines(shown).join("\n");
        wait_shown(&mut submit, |submit| shows(submit, &["loading 0:0"]));
        job.mark("loaded");
        let counts = if width == 40 { "1/3" } else { "1/3 mini-batches" };
        wait_shown(&mut submit, |submit| shows(submit, &["running 0:0", counts]));
        if width == 120 {
            wait_shown(&mut submit, |submit| shows(submit, &["running", "█", "░", "2/6 items"]));
        }
        job.mark("go");
        let ended = submit.wait();
        ended.expect_code(0);
        for line in shown_lines(&ended.stdout) {
            let is_live =
                ["loading ", "running ", "ending ", "starting "].iter().any(|phase| line.contains(phase));
            let is_live = is_live && !line.contains("job ");
            assert!(
                !is_live || columns(&line) <= width as usize,
                "{width}: {line:?}\n{}",
                story(&ended.stdout)
            );
        }
    }
}

#[test]
fn what_init_prints_is_shown_while_it_runs() {
    let script = r#"
import os, sys, time
from marks import wait_for

def init():
    print("a model of 8 GB", flush=True)
    for percent in (0, 20, 40):
        time.sleep(0.05)
        sys.stderr.write(f"\r\x1b[32mshards\x1b[0m:\t{percent} %")
        sys.stderr.flush()
    wait_for("loaded")

def run(mini_batch):
    wait_for("go")
    return [os.path.basename(path) for path in mini_batch]
"#;
    let job = Job::new(script).with_files(2).with("process_count_per_node", 1);
    let file = job.write_job_file().display().to_string();
    let run = job.run().path().display().to_string();
    let mut submit = job.start_on_terminal(100, &["submit", &file, "--run-dir", &run]);
    wait_shown(&mut submit, |submit| {
        let lines = shown_lines(&submit.stdout());
        lines.iter().any(|line| line.contains("loading 0:") && line.contains("  process000: shards: 40 %"))
    });
    // A run folder is brought up to date once a second.
    let printed = || job.command(&["status", &run, "-o", "json"]).json()["printed"].clone();
    let told = prs_tests::deadline::wait_for("the line in the status", Duration::from_secs(30), || {
        Some(printed()).filter(|printed| printed["line"] == "shards: 40 %")
    });
    assert_eq!((&told["node_id"], &told["process"]), (&0.into(), &"process000".into()), "{told}");
    let told = job.command(&["status", &run]).stdout;
    assert!(told.contains("loading    process000: shards: 40 %\n"), "{told}");
    job.mark("loaded");
    prs_tests::deadline::wait_for("the end of init()", Duration::from_secs(30), || {
        printed().is_null().then_some(())
    });
    job.mark("go");
    submit.wait().expect_code(0);
}

#[track_caller]
fn wait_shown(live: &mut prs_tests::harness::Live, shows: impl Fn(&prs_tests::harness::Live) -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !shows(live) {
        assert!(!live.has_ended() || shows(live), "it ended before\n{}", live.stdout());
        assert!(Instant::now() < deadline, "{}", shown_lines(&live.stdout()).join("\n"));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The lines about errors.
fn errors(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter_map(|line| line.strip_prefix("✗ ")).collect()
}

#[test]
fn the_first_of_each_distinct_error_is_told_while_the_job_runs() {
    let script = r#"
import os
from marks import wait_for

def run(mini_batch, context):
    name = os.path.basename(mini_batch[0])
    if name == "0000.txt":
        wait_for("go")
        return [name]
    raise ValueError(f"cannot parse {name}")
"#;
    let job = Job::new(script).with_files(6).with("mini_batch_size", 1).with("run_max_try", 2);
    let mut submit = job.start_submit(&[]);
    // Before the job has ended.
    submit.wait_until_said("✗ mini-batch ");
    job.mark("go");
    let ended = submit.wait();
    let told = errors(&ended);
    assert_eq!(told.len(), 1, "five mini-batches fail twice, for one reason\n{}", ended.stderr);
    let place = "code/main.py:10 in run";
    for part in ["000", ", try 1 of 2): ValueError: cannot parse 000", place] {
        let part = part.replace("): ", ": ");
        assert!(told[0].contains(&part), "{part:?} is not said: {}", told[0]);
    }
    assert!(told[0].contains(".txt), try 1 of 2: "), "{}", told[0]);
}

#[test]
fn three_distinct_errors_are_told_and_the_others_counted() {
    let script = r#"
import os
from marks import wait_for

class Odd0(Exception): pass
class Odd1(Exception): pass
class Odd2(Exception): pass
class Odd3(Exception): pass
class Odd4(Exception): pass

def run(mini_batch, context):
    if context.minibatch_index < 5:
        raise [Odd0, Odd1, Odd2, Odd3, Odd4][context.minibatch_index]("odd")
    wait_for("seen")
    return [os.path.basename(path) for path in mini_batch]
"#;
    let job = Job::new(script).with_files(12).with("run_max_try", 1).with("run_invocation_timeout", 600);
    let mut submit = job.start_submit(&[]);
    let deadline = Instant::now() + Duration::from_mins(1);
    while submit.stderr().matches(": Odd").count() < 3 {
        assert!(Instant::now() < deadline && !submit.has_ended(), "{}", submit.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    job.mark("seen");
    let ended = submit.wait();
    assert_eq!(errors(&ended).len(), 3, "{}", ended.stderr);
}

#[test]
fn a_timeout_is_told_too() {
    let script = "
import time
def run(mini_batch, context):
    if context.minibatch_index == 0 and context.retry_count == 0:
        time.sleep(1000)
    return mini_batch
";
    let job = Job::new(script).with_files(4).with("run_invocation_timeout", 1);
    let ended = job.submit();
    job.has_completed(&ended);
    let told = errors(&ended);
    assert_eq!(told.len(), 1, "{}", ended.stderr);
    assert!(told[0].contains("try 1 of 3: Timeout: run() took longer than"), "{}", told[0]);
}

#[test]
fn an_init_that_fails_is_told_the_first_time() {
    let script = r#"
import os
from marks import count, mark, wait_for

def init():
    mark("init")
    if count("init") > 2:
        wait_for("seen")
    raise RuntimeError("CUDA error: no kernel image")

def run(mini_batch):
    return mini_batch
"#;
    let job = Job::new(script).with_files(2).with("process_count_per_node", 1);
    let mut submit = job.start_submit(&[]);
    submit.wait_until_said("✗ init() failed in process000 after");
    assert!(!submit.has_ended(), "it is told while there is hope");
    job.mark("seen");
    let ended = submit.wait();
    job.has_failed(&ended, &["init() failed 3 times in a row", "no kernel image", "code/main.py:9 in init"]);
    let told = errors(&ended);
    assert_eq!(told.len(), 1, "{}", ended.stderr);
    for part in [
        "RuntimeError: CUDA error: no kernel image",
        "code/main.py:9 in init",
        "(the job fails after 3 failures in a row)",
    ] {
        assert!(told[0].contains(part), "{part:?} is not said: {}", told[0]);
    }
}

#[test]
fn what_cannot_be_imported_fails_the_job_at_once_and_says_what_to_do() {
    let python = python().display().to_string();
    let interpreter = format!("{python} (Python 3.");
    let remedy = format!("{python} -m pip install no_such_module");
    let table: [(&str, &[&str]); 4] = [
        (
            "import os\nimport no_such_module.deep\n",
            &[
                "the script cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
                "code/main.py:2    import no_such_module.deep",
                &interpreter,
                "named by environment",
                &remedy,
                "environment: /path/to/bin/python",
            ],
        ),
        ("from os import no_such_name\n", &["the script cannot be imported: ImportError", "code/main.py:1"]),
        ("def init():\n    pass\n", &["the script cannot be imported", "has no function run()"]),
        (
            "def init():\n    import no_such_module\n\ndef run(mini_batch):\n    return 1\n",
            &["init() failed: ModuleNotFoundError", "code/main.py:2 in init", &remedy],
        ),
    ];
    for (script, parts) in table {
        let job = Job::new(script).with_files(2).with("process_count_per_node", 4);
        let ended = job.submit();
        let result = job.has_failed(&ended, &[]);
        let reason = result["reason"].as_str().unwrap();
        for part in parts {
            assert!(reason.contains(part), "{part:?} is not the reason: {reason}");
        }
        let main = job.run().text("logs/sys/node/0/_main.txt");
        assert!(main.matches(" starts (pid ").count() <= 4, "each slot tries once at most:\n{main}");
        assert!(script.contains("init") || !reason.contains("init()"), "{reason}");
        assert_eq!(errors(&ended), Vec::<&str>::new(), "the reason says it");
    }
}

#[test]
fn what_may_pass_at_import_is_tried_again() {
    let script = r#"
import os
from marks import count, mark

mark("import")
if count("import") < 3:
    raise OSError("no answer")

def run(mini_batch):
    return [os.path.basename(path) for path in mini_batch]
"#;
    let job = Job::new(script).with_files(4).with("process_count_per_node", 1);
    let ended = job.submit();
    job.has_completed(&ended);
    assert_eq!(job.marks("import").len(), 3);
    assert_eq!(errors(&ended).len(), 1, "{}", ended.stderr);
    assert!(errors(&ended)[0].starts_with("importing the script failed in process000"), "{}", ended.stderr);

    let always = Job::new("raise OSError('no answer')\n").with_files(2).with("process_count_per_node", 1);
    always.fails(&["importing the script failed 3 times in a row: OSError: no answer", "code/main.py:1"]);
}

#[test]
fn status_tells_the_errors_of_a_job_that_runs() {
    let script = r#"
import os
from marks import wait_for

def run(mini_batch, context):
    if context.minibatch_index == 0:
        wait_for("go")
        return [os.path.basename(path) for path in mini_batch]
    raise ValueError("no good")
"#;
    let job = Job::new(script).with_files(4).with("run_max_try", 1);
    let mut submit = job.start_submit(&[]);
    submit.wait_until_said("✗ mini-batch 1 ");
    let run = job.run().path().display().to_string();
    // A run folder is brought up to date once a second.
    let told = prs_tests::deadline::wait_for("the error in the status", Duration::from_secs(30), || {
        let told = job.command(&["status", &run]).stdout;
        told.contains("ValueError").then_some(told)
    });
    let line = told.lines().find(|line| line.starts_with("error ")).unwrap();
    assert!(line.contains("mini-batch 1 (") && line.contains("code/main.py:9 in run"), "{told}");
    let told = job.command(&["status", &run, "-o", "json"]).json();
    assert_eq!(
        (&told["tries"]["failed"], &told["first_errors"][0]["category"]),
        (&1.into(), &"ValueError".into()),
        "{told}"
    );
    job.mark("go");
    submit.wait();
}
