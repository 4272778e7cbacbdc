//! The ways in which a job goes wrong, each read as its user reads it: the cause is on the screen when the job has ended,
//! and the traceback is one command away, the one that the screen names.
//!
//! A job of a fleet that no worker serves is in `fleet_progress.rs`; wrong job files are in `bad_input.rs`.

use std::fs;

use prs_tests::harness::{Ended, Job, reasons_of};
use serde_json::{Value, json};

/// One way to fail.
struct Failure {
    name: &'static str,
    script: &'static str,
    /// Keys of the job file.
    settings: &'static [(&'static str, i64)],
    code: i32,
    /// What the screen says.
    cause: &'static [&'static str],
    /// What the command that the screen names adds; nothing where there is no stack.
    traceback: &'static [&'static str],
}

const FAILURES: &[Failure] = &[
    Failure {
        name: "a package is missing",
        script: "import no_such_module\n\ndef run(mini_batch):\n    return mini_batch\n",
        settings: &[],
        code: 42,
        cause: &[
            "the script cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
            "code/main.py:1",
            "interpreter  ",
            "-m pip install no_such_module",
        ],
        traceback: &["Traceback (most recent call last):", "line 1, in <module>", "import no_such_module"],
    },
    Failure {
        name: "the script is not valid Python",
        script: "def run(mini_batch)\n    return mini_batch\n",
        settings: &[],
        code: 2,
        cause: &["main.py cannot be compiled by ", "line 1", "def run(mini_batch)", "SyntaxError:"],
        traceback: &[],
    },
    Failure {
        name: "init() raises",
        script: "def load():\n    raise RuntimeError('no kernel image')\n\ndef init():\n    load()\n\n\
                 def run(mini_batch):\n    return mini_batch\n",
        settings: &[],
        code: 42,
        cause: &["init() failed 6 times in a row: RuntimeError: no kernel image", "code/main.py:2 in load"],
        traceback: &["Traceback (most recent call last):", "line 5, in init", "line 2, in load"],
    },
    Failure {
        name: "run() raises for some items",
        script: "def parse(path):\n    raise ValueError('cannot parse it')\n\n\
                 def run(mini_batch, context):\n    if context.minibatch_index == 1:\n        parse(mini_batch[0])\n\
                 \x20   return mini_batch\n",
        settings: &[],
        code: 10,
        cause: &[
            "completed, but 2 of 6 items are missing from the result",
            "ValueError: cannot parse it",
            "code/main.py:2 in parse",
            "3 tries failed, 1 mini-batch lost (2 items)",
        ],
        traceback: &["Traceback (most recent call last):", "line 6, in run", "line 2, in parse"],
    },
    Failure {
        name: "every mini-batch fails",
        script: "def run(mini_batch):\n    raise TypeError('no age')\n",
        settings: &[],
        code: 42,
        cause: &[
            "append_row: no row was returned, because every mini-batch failed; the most frequent error: TypeError: no age",
        ],
        traceback: &["Traceback (most recent call last):", "line 2, in run"],
    },
    Failure {
        name: "more fail than the job allows",
        script: "def run(mini_batch, context):\n    if context.minibatch_index:\n        raise TypeError('no age')\n\
                 \x20   return mini_batch\n",
        settings: &[("error_threshold", 1)],
        code: 42,
        cause: &["items failed, more than error_threshold 1 allows", "TypeError: no age"],
        traceback: &["Traceback (most recent call last):", "line 3, in run"],
    },
    Failure {
        name: "run() returns nothing",
        script: "def run(mini_batch):\n    pass\n",
        settings: &[],
        code: 42,
        cause: &["TypeError: run() returned None (is a return statement missing?)", "code/main.py:1 in run"],
        traceback: &["TypeError: run() returned None"],
    },
    Failure {
        name: "run() returns too few elements",
        script: "def run(mini_batch):\n    return mini_batch[1:]\n",
        settings: &[],
        code: 10,
        cause: &[
            "completed, but 3 of 6 items are missing from the result",
            "ReturnedTooFew: run() returned 1 element for 2 items",
            "code/main.py:1 in run",
        ],
        traceback: &["3 items missing in 3 mini-batches"],
    },
    Failure {
        name: "run() returns too many elements",
        script: "def run(mini_batch):\n    return mini_batch * 2\n",
        settings: &[],
        code: 0,
        cause: &["run() returned 12 elements for 6 items"],
        traceback: &[],
    },
    Failure {
        name: "run() hangs",
        script: "import time\n\ndef hang():\n    time.sleep(1000)\n\n\
                 def run(mini_batch, context):\n    if context.minibatch_index == 1:\n        hang()\n\
                 \x20   return mini_batch\n",
        settings: &[("run_invocation_timeout", 5), ("run_max_try", 1)],
        code: 10,
        cause: &[
            "Timeout: run() took longer than run_invocation_timeout (5 s)",
            "a larger run_invocation_timeout",
            "code/main.py:4 in hang",
        ],
        traceback: &["line 4 in hang", "line 8 in run"],
    },
    Failure {
        name: "the kernel kills the process",
        script: "import os, signal\n\ndef run(mini_batch, context):\n    if context.minibatch_index == 1:\n\
                 \x20       os.kill(os.getpid(), signal.SIGKILL)\n    return mini_batch\n",
        settings: &[("run_max_try", 1)],
        code: 10,
        cause: &["the process was killed (returncode -9; the kernel does this when memory runs out)"],
        traceback: &[],
    },
    Failure {
        name: "the process crashes",
        script: "import ctypes\n\ndef crash():\n    ctypes.string_at(0)\n\n\
                 def run(mini_batch, context):\n    if context.minibatch_index == 1:\n        crash()\n\
                 \x20   return mini_batch\n",
        settings: &[("run_max_try", 1)],
        code: 10,
        cause: &["killed by signal 11 (returncode -11)", "code/main.py:4 in crash"],
        traceback: &["Segmentation fault", "line 4 in crash", "line 8 in run"],
    },
];

impl Failure {
    /// Two processes, three mini-batches of two files.
    fn job(&self) -> Job {
        let job = Job::new(self.script).with_files(6);
        self.settings.iter().fold(job, |job, (key, value)| job.with(key, *value))
    }
}

/// Submits as a person does, off a terminal.
fn submitted(job: &Job) -> Ended {
    let file = job.write_job_file().display().to_string();
    job.command(&["submit", &file, "--run-dir", "run"])
}

/// All that a person sees of a command.
fn screen(ended: &Ended) -> String {
    format!("{}{}", ended.stderr, ended.stdout)
}

/// The command of this name that the screen ends with, ready to be run: without the program and what it is said to do.
fn named(screen: &str, command: &str) -> Option<Vec<String>> {
    let lines = screen.lines().filter_map(|line| line.strip_prefix("  prs")?.split_once(' '));
    let mut commands = lines.map(|(_, line)| line.split("   ").next().unwrap_or_default());
    let words = commands.find(|line| line.split(' ').next() == Some(command))?;
    Some(words.split(' ').map(str::to_owned).collect())
}

#[track_caller]
fn run(job: &Job, words: &[String], more: &[&str]) -> Ended {
    let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
    job.command(&words)
}

/// Paths that start with this, in a text.
fn paths<'a>(text: &'a str, start: &'static str) -> impl Iterator<Item = &'a str> {
    text.split([' ', '(', ')', ',', ';', '\n', '"']).filter(move |word| word.starts_with(start))
}

#[test]
fn the_cause_is_on_the_screen_and_the_traceback_one_command_away() {
    for failure in FAILURES {
        let name = failure.name;
        let job = failure.job();
        let ended = submitted(&job);
        let shown = screen(&ended);
        assert_eq!(ended.code, Some(failure.code), "{name}\n{shown}");
        for part in failure.cause {
            assert!(shown.contains(part), "{name}: {part:?} is not on the screen\n{shown}");
        }
        let Some(command) = named(&shown, "errors") else {
            assert!(failure.traceback.is_empty(), "{name}: no command is named\n{shown}");
            continue;
        };
        let errors = run(&job, &command, &[]);
        errors.expect_code(0);
        for part in failure.traceback {
            assert!(errors.stdout.contains(part), "{name}: {part:?} is not in\n{}", errors.stdout);
        }
        // Every name of a log can be given to `logs`, every file of the script opened.
        let told = format!("{shown}{}", errors.stdout);
        for log in paths(&told, "logs/user/") {
            let read = job.command(&["logs", "run", "--file", log]);
            assert!(read.code == Some(0), "{name}: {log}: {}", read.stderr);
        }
        let code = job.path("code").display().to_string();
        for file in paths(&errors.stdout, "/").filter(|path| path.starts_with(&code)) {
            let file = file.split(':').next().unwrap_or_default();
            assert!(fs::metadata(file).is_ok(), "{name}: there is no {file}\n{}", errors.stdout);
        }
    }
}

#[test]
fn every_item_that_is_missing_is_named() {
    for failure in FAILURES.iter().filter(|failure| failure.code == 10) {
        let name = failure.name;
        let job = failure.job();
        let shown = screen(&submitted(&job));
        let command = named(&shown, "errors").expect(&shown);
        let items = run(&job, &command, &["--items"]).stdout;
        let listed = job.run().text("output/failed_mini_batches.jsonl");
        let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let expected: Vec<&str> = listed
            .iter()
            .flat_map(|line| line["items"].as_array().unwrap())
            .filter_map(Value::as_str)
            .collect();
        assert!(!expected.is_empty(), "{name}");
        assert_eq!(items.lines().collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn summary_only_with_every_mini_batch_failed_is_a_failure() {
    let job = Job::new("def run(mini_batch):\n    raise TypeError('no age')\n").with_files(6);
    let job = job.with("output_action", "summary_only");
    let ended = submitted(&job);
    ended.expect_code(42);
    let shown = screen(&ended);
    let cause = "summary_only: every mini-batch failed; the most frequent error: TypeError: no age";
    assert!(shown.contains(cause), "{shown}");
}

#[test]
fn data_that_cannot_be_read_is_named_with_its_place() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_tables(&[50]);
    job.data("001.csv", "id,name,value\n1,a,0.5\n2,b\n");
    let ended = submitted(&job);
    ended.expect_code(10);
    let shown = screen(&ended);
    for part in ["completed, but ", "data/001.csv", "byte "] {
        assert!(shown.contains(part), "{part:?} is not on the screen\n{shown}");
    }
}

#[test]
fn the_commands_that_are_named_lead_to_the_whole_result() {
    let broken = "def run(mini_batch, context):\n    if context.minibatch_index == 1:\n        raise ValueError('no')\n\
                  \x20   return [path[-8:] for path in mini_batch]\n";
    let job = Job::new(broken).with_files(6);
    let ended = submitted(&job);
    ended.expect_code(10);
    let shown = screen(&ended);
    let mut first_failed = named(&shown, "try").expect(&shown);
    first_failed.retain(|word| word != "--pdb");
    let tried = run(&job, &first_failed, &[]);
    assert_eq!(tried.code, Some(42), "{}", tried.stderr);
    assert!(screen(&tried).contains("line 3, in run"), "{}", screen(&tried));

    job.script(&broken.replace("== 1", "== 100"));
    run(&job, &first_failed, &[]).expect_code(0);
    let resume = named(&shown, "resume").expect(&shown);
    let undecided = run(&job, &resume, &[]);
    undecided.expect_code(2);
    let decided = named(&undecided.stderr, "resume").expect(&undecided.stderr);
    assert!(decided.ends_with(&["--code".to_owned(), "new".to_owned()]), "{decided:?}");
    run(&job, &decided, &[]).expect_code(0);
    let rows = job.run().text("output/parallel_run_step.txt");
    let expected = ["0000.txt", "0001.txt", "0002.txt", "0003.txt", "0004.txt", "0005.txt"];
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn an_interrupt_and_a_cancel_name_the_command_that_goes_on() {
    let script = "from marks import is_marked, mark, wait_for\n\ndef run(mini_batch):\n    mark('began')\n\
                  \x20   wait_for('go')\n    return mini_batch\n";
    for way in ["interrupt", "cancel"] {
        let job = Job::new(script).with_files(2).with("run_invocation_timeout", 600);
        let file = job.write_job_file().display().to_string();
        let mut submit = job.start(&["submit", &file, "--run-dir", "run"]);
        submit.wait_until("a mini-batch", || !job.marks("began").is_empty());
        let reason = if way == "interrupt" {
            submit.interrupt();
            "interrupted (Ctrl-C)"
        } else {
            job.command(&["cancel", "run"]).expect_code(0);
            "canceled by "
        };
        let ended = submit.wait();
        ended.expect_code(130);
        let shown = screen(&ended);
        assert!(shown.contains(&format!("reason        {reason}")), "{shown}");
        let told = job.command(&["status", "run", "-o", "json"]).json();
        assert_eq!(reasons_of(told["reason"].as_str().unwrap()).len(), 1, "{told}");
        job.mark("go");
        run(&job, &named(&shown, "resume").expect(&shown), &[]).expect_code(0);
        assert_eq!(job.command(&["status", "run", "-o", "json"]).json()["complete"], json!(true));
    }
}
