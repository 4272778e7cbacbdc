//! `try`: one mini-batch in the terminal of who asks, read and written as on a node.

use std::fs;
use std::path::Path;

use prs_tests::harness::{Ended, Fleet, Job, says};
use serde_json::json;

/// Gives the names of the files, says what it does, and writes a file.
const TALKS: &str = r#"
import os
from azureml_user.parallel_run import EntryScript
from marks import mark

def init():
    print("init is called")

def run(mini_batch, context):
    mark("ran", context.minibatch_index)
    print("run is called")
    EntryScript().logger.info("logged")
    with open(os.path.join(EntryScript().output_dir, f"file-{context.minibatch_index}"), "w") as file:
        file.write("x")
    return [f"{context.minibatch_index} {os.path.basename(path)}" for path in mini_batch]

def shutdown():
    mark("shut")
"#;

/// Tries the job file, with further arguments, in a temporary folder of its own, which must be empty again then.
fn try_file(job: &Job, more: &[&str], input: &str) -> Ended {
    let file = job.write_job_file().display().to_string();
    tried(job, &[&["try", &file], more].concat(), input)
}

/// Tries the job of the run folder.
fn try_run(job: &Job, more: &[&str], input: &str) -> Ended {
    let run = job.run().path().display().to_string();
    tried(job, &[&["try", &run], more].concat(), input)
}

fn tried(job: &Job, arguments: &[&str], input: &str) -> Ended {
    let ended = job.command_with_input(arguments, input);
    let left: Vec<_> = fs::read_dir(job.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "the temporary folder is left behind: {left:?}");
    assert!(!job.path("prs-runs").exists(), "a try makes no run folder");
    job.has_left_nothing();
    ended
}

/// A job whose commands have a temporary folder of their own.
fn with_own_temporary_folder(job: Job) -> Job {
    let folder = job.path("tmp");
    fs::create_dir(&folder).unwrap();
    let folder = folder.display().to_string();
    job.with_own_variable("TMPDIR", &folder)
}

fn job(script: &str) -> Job {
    with_own_temporary_folder(Job::new(script))
}

#[test]
fn a_mini_batch_of_a_job_file_runs_in_the_terminal_and_nothing_is_made() {
    let job = job(TALKS).with_files(12);
    let ended = try_file(&job, &[], "");
    says(
        &ended,
        0,
        &["mini-batch 0: 2 files, ", "0000.txt", "returned  2 elements for 2 items", "files     file-0"],
    );
    assert!(ended.stdout.starts_with("init is called\nrun is called\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n  0 0000.txt\n  0 0001.txt\nok\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains("logged"), "what is logged is seen: {}", ended.stderr);
    assert_eq!((job.marks("ran"), job.marks("shut").len()), (vec!["0".to_owned()], 1));

    let third = try_file(&job, &["--mini-batch", "3"], "");
    assert!(third.stdout.contains("\n  3 0006.txt\n"), "{}", third.stdout);
    let of_item = try_file(&job, &["--item", "data/0009.txt"], "");
    assert!(of_item.stdout.contains("\n  4 0008.txt\n  4 0009.txt\n"), "{}", of_item.stdout);
    for (arguments, part) in [
        (&["--mini-batch", "6"][..], "the job has 6 mini-batches: give a number from 0 to 5"),
        (&["--failed"], "--failed is for former jobs"),
        (&["--code", "old"], "--code is for former jobs"),
        (&["--set", "mini_batch_size=0"], "mini_batch_size"),
    ] {
        says(&try_file(&job, arguments, ""), 2, &[part]);
    }
    let larger = try_file(&job, &["--set", "mini_batch_size=5"], "");
    says(&larger, 0, &["returned  5 elements for 5 items"]);
}

#[test]
fn programs_get_one_object() {
    let job = job(TALKS).with_files(4);
    let ended = try_file(&job, &["-o", "json", "--mini-batch", "1"], "");
    let printed = ended.json();
    assert!(ended.stderr.contains("run is called"), "{}", ended.stderr);
    for (key, expected) in [
        ("minibatch_index", json!(1)),
        ("mini_batch_id", json!("mb-0000000001")),
        ("input", json!("input_1")),
        ("items", json!(2)),
        ("returned", json!(2)),
        ("first_rows", json!(["1 0002.txt", "1 0003.txt"])),
        ("files", json!(["file-1"])),
        ("error", json!(null)),
    ] {
        assert_eq!(printed[key], expected, "{key}");
    }
}

#[test]
fn what_the_script_raises_is_told_with_the_lines_of_its_own_file() {
    let main = |job: &Job| job.path("code/main.py").display().to_string();
    let raises = job("def run(mini_batch):\n    value = 'n/k'\n    return [int(value)]\n").with_files(2);
    let ended = try_file(&raises, &[], "");
    says(
        &ended,
        42,
        &[
            "run() failed: ValueError: invalid literal",
            &format!("File \"{}\", line 3, in run", main(&raises)),
        ],
    );
    let printed = try_file(&raises, &["-o", "json"], "");
    printed.expect_code(42);
    assert_eq!(printed.json()["error"]["category"], "ValueError");

    for (script, parts) in [
        (
            "def init(): raise KeyError('model')\ndef run(mini_batch): return mini_batch",
            &["KeyError", "in init"][..],
        ),
        ("import os\ndef run(mini_batch): os._exit(3)", &["the process ended by itself (returncode 3)"]),
    ] {
        raises.script(script);
        says(&try_file(&raises, &[], ""), 42, parts);
    }
    raises.script("def run(mini_batch): return mini_batch[:1]");
    says(&try_file(&raises, &[], ""), 0, &["1 element for 2 items: 1 item would count as failed"]);
}

#[test]
fn the_terminal_belongs_to_the_script() {
    let job =
        job("def run(mini_batch):\n    secret = 6 * 7\n    breakpoint()\n    return [secret, input()]\n")
            .with_files(2);
    let ended = try_file(&job, &[], "p 'secret is', secret\nc\nfrom standard input\n");
    says(&ended, 0, &["('secret is', 42)", "\n  42\n  from standard input\n"]);
    let left = try_file(&job, &[], "q\n");
    says(&left, 130, &["the debugger was left"]);
}

#[test]
fn pdb_begins_at_the_line_of_the_script() {
    let script = r"
import json

def parse(path):
    with open(path) as file:
        return json.loads(file.read())

def run(mini_batch):
    return [parse(path) for path in mini_batch]
";
    let job = job(script).with_files(2);
    let ended = try_file(&job, &["--pdb"], "p 'path is', path\nup\nup\np len(mini_batch)\nq\n");
    let parts = [
        "JSONDecodeError: ",
        "code/main.py(6)parse()",
        "-> return json.loads(file.read())",
        &format!("('path is', '{}')", job.path("data/0000.txt").display()),
        "\n(Pdb) 2\n",
        "run() failed: JSONDecodeError",
    ];
    says(&ended, 42, &parts);
    job.script(
        "def init():\n    model = 'lost'\n    raise OSError(model)\ndef run(mini_batch): return mini_batch\n",
    );
    says(&try_file(&job, &["--pdb"], "p model * 2\nq\n"), 42, &["'lostlost'", "OSError: lost"]);
    job.script("def run(mini_batch): return None\n");
    says(&try_file(&job, &["--pdb"], "q\n"), 42, &["pdb has nothing to show", "run() returned None"]);
}

/// Runs a command in a terminal of its own, and presses Ctrl-C there when it has printed this.
const CTRL_C_AT: &str = r#"
import os, pty, sys

at = sys.argv[1].encode()
seen = b""

def read(descriptor):
    global seen, at
    data = os.read(descriptor, 4096)
    seen += data
    if at and at in seen:
        at = b""
        os.write(descriptor, b"\x03")
    return data

sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[2:], read)))
"#;

#[test]
fn ctrl_c_is_the_scripts() {
    let script = "import time\ndef run(mini_batch):\n    print('it works', flush=True)\n    time.sleep(60)\n    return mini_batch\n";
    let job = job(script).with_files(2);
    let mut command = std::process::Command::new(prs_tests::harness::python());
    command.args(["-c", CTRL_C_AT, "it works"]).arg(prs_tests::harness::bin_dir().join("prs"));
    command.arg("try").arg(job.write_job_file()).env("TMPDIR", job.path("tmp"));
    let ended = command.stdin(std::process::Stdio::null()).output().unwrap();
    let seen = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.code() == Some(130) && seen.contains("interrupted (Ctrl-C)"), "{seen}");
    assert_eq!(fs::read_dir(job.path("tmp")).unwrap().count(), 0, "nothing is left behind");

    // Who is told to end by other means takes the script along.
    let mut other = job.start(&["try", &job.path("job.yml").display().to_string()]);
    other.wait_until("run() to be called", || !job.script_processes().is_empty());
    other.signal(rustix::process::Signal::TERM);
    other.wait().expect_code(130);
    job.has_left_nothing();
}

#[test]
fn an_editor_is_waited_for_where_debugpy_is_installed() {
    let script = "def run(mini_batch):\n    return mini_batch\n";
    let debugged = job(script).with_files(2);
    let packages = debugged.path("packages").display().to_string();
    let debugged = debugged.with_variable("PYTHONPATH", &packages);
    // The interpreter of the tests may have it.
    let absent = "raise ModuleNotFoundError(\"No module named 'debugpy'\", name='debugpy')\n";
    fs::create_dir(debugged.path("packages")).unwrap();
    fs::write(debugged.path("packages/debugpy.py"), absent).unwrap();
    let ended = try_file(&debugged, &["--listen", "5678"], "");
    says(&ended, 2, &["debugpy is not installed for", "-m pip install debugpy"]);
    says(&try_file(&debugged, &["--listen", "0"], ""), 2, &["--listen"]);

    let debugpy = r#"
def listen(address):
    if address[1] == 7:
        raise RuntimeError("Address already in use")
    print("listens at", address)

def wait_for_client():
    print("an editor is there")
"#;
    fs::write(debugged.path("packages/debugpy.py"), debugpy).unwrap();
    let parts = [
        "debugpy waits for an editor at 127.0.0.1:5678",
        "listens at ('127.0.0.1', 5678)",
        "an editor is there",
    ];
    says(&try_file(&debugged, &["--listen", "5678"], ""), 0, &parts);
    says(&try_file(&debugged, &["--listen", "7"], ""), 2, &["Address already in use; give another port"]);
}

/// Fails where a value is no number; gives the types of the columns.
const PARSES: &str = r#"
def run(mini_batch):
    kinds = ",".join(str(kind) for kind in mini_batch.dtypes)
    if mini_batch["name"].str.contains("n/k").any():
        raise ValueError(f"cannot parse {len(mini_batch)} rows of {kinds}")
    return [f"{kinds} {row.id}" for row in mini_batch.itertuples()]
"#;

fn parses() -> Job {
    let job = job(PARSES).with_tables(&[900]).with("mini_batch_size", "4kb").with("run_max_try", 1);
    let text = fs::read_to_string(job.path("data/000.csv")).unwrap();
    job.data("000.csv", text.replace("name, 500", "n/k 500"));
    job
}

#[test]
fn the_slice_that_failed_is_read_as_it_was() {
    let job = parses();
    job.submit();
    let failed = &job.run().failed_mini_batches()[0];
    let message = failed["tries"][0]["message"].as_str().unwrap();
    let number = failed["minibatch_index"].as_u64().unwrap();
    let ended = try_run(&job, &["--failed", "--pdb"], "p len(mini_batch)\nq\n");
    let heading = format!("mini-batch {number}: ");
    says(
        &ended,
        42,
        &[
            &heading,
            "in the job it failed: ValueError: cannot parse",
            &format!("run() failed: ValueError: {message}"),
        ],
    );

    // Another one of the same job, with the rows that it has in the result.
    let other = try_run(&job, &["--mini-batch", "0", "-o", "json"], "").json();
    let rows = job.run().rows();
    assert_eq!(
        other["first_rows"].as_array().unwrap()[..],
        rows[..10].iter().map(|row| json!(row)).collect::<Vec<_>>()
    );
    says(&try_run(&job, &["--failed", "--mini-batch", "0"], ""), 2, &["has not failed; failed are "]);

    // The code of now, and that of the job.
    job.script("def run(mini_batch):\n    return list(mini_batch['id'])\n");
    says(&try_run(&job, &["--failed"], ""), 0, &["\nok\n"]);
    says(&try_run(&job, &["--failed", "--code", "old"], ""), 42, &["run() failed: ValueError: cannot parse"]);
    fs::rename(job.path("code"), job.path("elsewhere")).unwrap();
    says(&try_run(&job, &["--failed"], ""), 2, &["is not on this machine: --code old"]);
    says(&try_run(&job, &["--failed", "--code", "old"], ""), 42, &["cannot parse"]);

    // An input that changed since is not taken for what failed.
    let text = fs::read_to_string(job.path("data/000.csv")).unwrap();
    job.data("000.csv", text.replace("n/k", "ok "));
    says(&try_run(&job, &["--failed", "--code", "old"], ""), 42, &["reading the data failed: InputChanged"]);
}

#[test]
fn a_compressed_table_is_read_again() {
    let job = parses();
    let compress = "import gzip, sys\nsys.stdout.buffer.write(gzip.compress(open('000.csv', 'rb').read()))";
    job.data("table.csv.gz", prs_tests::harness::expected_by_python(&job.path("data"), compress));
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data/table.csv.gz" }]));
    job.submit();
    assert_eq!(job.run().failed_mini_batches().len(), 1);
    says(
        &try_run(&job, &["--failed"], ""),
        42,
        &["table.csv.gz bytes", "run() failed: ValueError: cannot parse"],
    );
}

#[test]
fn a_mini_batch_that_lacks_items_has_failed_too() {
    let short = "def run(mini_batch, context):\n    return mini_batch[:1] if context.minibatch_index == 2 else mini_batch\n";
    let lacks = job(short).with_files(8);
    let submitted = lacks.submit();
    let told =
        submitted.stderr + &lacks.command(&["status", &lacks.run().path().display().to_string()]).stdout;
    assert!(told.contains("--failed --pdb   the first of these mini-batches here"), "{told}");
    says(&try_run(&lacks, &["--failed"], ""), 0, &["mini-batch 2: ", "1 element for 2 items"]);
}

#[test]
fn what_failed_is_known_while_the_job_runs_and_after_it_was_killed() {
    let script = r#"
from marks import mark, wait_for

def run(mini_batch, context):
    if context.minibatch_index == 1:
        raise ValueError("early")
    if context.minibatch_index > 1:
        mark("held")
        wait_for("never")
    return mini_batch
"#;
    let killed = job(script).with_files(12).with("run_max_try", 1);
    let mut submit = killed.start_submit(&[]);
    let report = "logs/sys/job_report/processed_mini-batches.csv";
    submit.wait_until("a failure", || killed.run().text_so_far(report).contains("RUN_EXCEPTION"));
    // A job that is running can be looked into as well.
    let run = killed.run().path().display().to_string();
    says(&killed.command(&["try", &run, "--failed"]), 42, &["mini-batch 1: ", "ValueError: early"]);
    assert!(submit.kill());
    killed.soon_leaves_nothing();
    fs::remove_dir_all(killed.path("tmp")).unwrap();
    fs::create_dir(killed.path("tmp")).unwrap();
    says(&try_run(&killed, &["--failed"], ""), 42, &["mini-batch 1: ", "ValueError: early"]);
}

#[test]
fn objects_of_a_bucket_are_fetched_for_the_one_mini_batch() {
    let fleet = Fleet::shared();
    let script = "import os\ndef run(mini_batch):\n    folder = os.path.dirname(mini_batch[0])\n    return [f'{open(path).read()} of {sorted(os.listdir(folder))}' for path in mini_batch]\n";
    let job = fleet.job(job(script));
    for number in 0..6 {
        fleet.s3.put_object(
            fleet.bucket(),
            &format!("tried/{number}.txt"),
            format!("item {number}").as_bytes(),
        );
    }
    let job = job
        .with("mini_batch_size", 2)
        .with("inputs", json!([{ "type": "file", "path": "s3://fleet/tried" }]));
    let ended = try_file(&job, &["--item", "s3://fleet/tried/3.txt"], "");
    says(&ended, 0, &["mini-batch 1: 2 files, s3://fleet/tried/2.txt", "  item 3 of ['2.txt', '3.txt']"]);
    let cached = with_own_cache(job);
    let file = cached.write_job_file().display().to_string();
    cached.script("def run(mini_batch):\n    texts = [open(path).read() for path in mini_batch]\n    assert texts == ['item 4', 'item 5']\n    return texts\n");
    let (text, output) = as_a_test(&cached, &[&file, "--mini-batch", "2"]);
    assert!(text.contains("\"item 5\""), "what was fetched stands in the test: {text}");
    tests_say(&output, 0, "1 passed");
}

#[test]
fn a_job_without_failures_says_so() {
    let job = job(TALKS).with_files(4);
    job.submit();
    says(&try_run(&job, &["--failed"], ""), 2, &["has no failed mini-batch"]);
    says(&try_run(&job, &["--mini-batch", "1"], ""), 0, &["\n  1 0002.txt\n"]);
}

#[test]
fn a_mini_batch_of_a_fleet_is_tried_with_what_storage_has_of_it() {
    let fleet = Fleet::shared();
    for (name, job) in [
        ("files", job("def run(mini_batch):\n    texts = [open(path).read() for path in mini_batch]\n    if 'item 3' in texts:\n        raise ValueError(texts)\n    return texts\n").with_files(12)),
        ("table", parses()),
    ] {
        let job = fleet.job(job.with("run_max_try", 1)).with("compute_target", format!("try-{name}"));
        let mut worker = fleet.worker(&job, &["--target", &format!("try-{name}")]);
        let submitted = fleet.submit(&job).json();
        let id = submitted["job_id"].as_str().unwrap();
        // Only storage is needed from here on, and nothing of what was submitted.
        worker.signal(rustix::process::Signal::TERM);
        fs::remove_dir_all(job.path("data")).unwrap();
        let before = fleet.stored(id).keys();
        let expected = if name == "files" { "ValueError: ['item 2', 'item 3']" } else { "ValueError: cannot parse" };
        says(&tried(&job, &["try", id, "--failed"], ""), 42, &[expected]);
        says(&tried(&job, &["try", id, "--failed", "--code", "old"], ""), 42, &[expected]);
        let other = tried(&job, &["try", id, "--mini-batch", "0", "-o", "json"], "").json();
        let rows = String::from_utf8(fleet.stored(id).result()).unwrap();
        let first = rows.lines().next().unwrap();
        assert_eq!(other["first_rows"][0], first);
        let mut after = fleet.stored(id).keys();
        // The logs of the job come to storage in their own time.
        after.retain(|key| !key.starts_with("logs/"));
        let before: Vec<_> = before.into_iter().filter(|key| !key.starts_with("logs/")).collect();
        assert_eq!(after, before, "the job is only read");
    }
}

#[test]
fn the_folder_of_another_user_is_not_run() {
    let job = parses();
    job.submit();
    let folder = job.run().path();
    let open = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(folder, 0o777);
    says(&try_run(&job, &["--failed"], ""), 2, &["writable by other users"]);
    open(folder, 0o700);
}

/// The test that `try` prints for these arguments, run by pytest.
fn as_a_test(job: &Job, arguments: &[&str]) -> (String, std::process::Output) {
    let printed = tried(job, &[&["try"], arguments, &["--pytest"]].concat(), "");
    printed.expect_code(0);
    let file = job.path("test_it.py");
    fs::write(&file, &printed.stdout).unwrap();
    let mut pytest = std::process::Command::new(prs_tests::harness::python());
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(&file).current_dir(job.path(""));
    pytest.env("PRS_TEST_MARKS", job.path("marks"));
    (printed.stdout, pytest.output().unwrap())
}

#[track_caller]
fn tests_say(output: &std::process::Output, code: i32, part: &str) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(code) && said.contains(part), "{part:?} is not said:\n{said}");
}

fn with_own_cache(job: Job) -> Job {
    let cache = job.path("cache").display().to_string();
    job.with_own_variable("XDG_CACHE_HOME", &cache)
}

#[test]
fn a_mini_batch_becomes_a_test() {
    let of_files =
        with_own_cache(job(TALKS).with_files(4)).with("arguments", json!(["--mine", "it's \"so\""]));
    of_files.script(
        "import sys\ndef run(mini_batch, context):\n    assert sys.argv[-1] == 'it\\'s \"so\"'\n    assert context.minibatch_index == 1\n    return [open(path).read() for path in mini_batch]\n",
    );
    let file = of_files.write_job_file().display().to_string();
    let (text, output) = as_a_test(&of_files, &[&file, "--mini-batch", "1"]);
    assert!(text.contains("data/0002.txt"), "{text}");
    tests_say(&output, 0, "1 passed");
    of_files.script("def run(mini_batch): return mini_batch[:1]\n");
    tests_say(&as_a_test(&of_files, &[&file]).1, 1, "one element for each item");

    let of_rows = with_own_cache(parses());
    of_rows.submit();
    let run = of_rows.run().path().display().to_string();
    let (text, output) = as_a_test(&of_rows, &[&run, "--failed"]);
    assert!(text.contains("n/k 500"), "the rows stand in the test: {text}");
    tests_say(&output, 1, "ValueError: cannot parse");
    fs::remove_dir_all(of_rows.path("data")).unwrap();
    of_rows.script("def run(mini_batch):\n    assert 500 in list(mini_batch['id'])\n    return list(mini_batch['name'])\n");
    let again = std::process::Command::new(prs_tests::harness::python())
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(of_rows.path("test_it.py"))
        .env("PRS_TEST_MARKS", of_rows.path("marks"))
        .output();
    tests_say(&again.unwrap(), 0, "1 passed");
}
