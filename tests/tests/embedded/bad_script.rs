//! Scripts that do wrong: each has the right state, exit code and first line, and harms nothing else.

use std::time::Duration;

use prs_tests::harness::Job;
use serde_json::json;

/// Longest time that a job of such a script may take.
const PROMPT: Duration = Duration::from_secs(20);

fn job(script: &str) -> Job {
    Job::new(script).with_files(6)
}

/// The first mini-batch does `$body` in its first try; everything else is fine.
fn once(body: &str) -> Job {
    let script = format!(
        r"
import os, sys, signal, threading, time

def run(mini_batch, context):
    if context.minibatch_index == 0 and context.retry_count == 0:
        {body}
    return [os.path.basename(path) for path in mini_batch]
"
    );
    job(&script)
}

const ALL_ROWS: [&str; 6] = ["0000.txt", "0001.txt", "0002.txt", "0003.txt", "0004.txt", "0005.txt"];

#[test]
fn a_script_that_is_missing_is_refused() {
    let job = job("").with("entry_script", "other.py");
    job.is_refused(&["entry_script", "other.py"]);
    let job = job.with("entry_script", "pkg.other");
    job.is_refused(&["entry_script", "pkg.other"]);
}

#[test]
fn a_script_that_cannot_be_imported_fails_the_job_with_its_error() {
    let job = job("import no_such_module\n\ndef run(mini_batch):\n    return []\n");
    let ended = job.submit();
    job.has_failed(&ended, &["no_such_module"]);
    assert!(ended.took < PROMPT, "it took {:?}", ended.took);
}

#[test]
fn a_script_that_is_no_python_is_refused() {
    job("def run(mini_batch)\n    return mini_batch\n").is_refused(&[
        "main.py cannot be compiled",
        "line 1",
        "SyntaxError",
    ]);
    // A null byte, and text that is not in the encoding it names.
    job("\0").is_refused(&["cannot be compiled"]);
    job("# coding: ascii\nname = 'é'\n").is_refused(&["SyntaxError"]);
}

#[test]
fn a_process_that_ends_while_it_imports_the_script_fails_the_job() {
    job("import os\nos._exit(5)\n").fails(&["returncode 5"]);
}

#[test]
fn a_result_of_the_wrong_type_is_explained() {
    let job =
        job("def run(mini_batch):\n    return None\n").with("run_max_try", 1).with("error_threshold", 5);
    job.fails(&["6 items failed", "error_threshold 5"]);
    let errors = job.run().text("logs/job_error.txt");
    for part in ["run() returned None", "expected"] {
        assert!(errors.contains(part), "{part:?} is not in job_error.txt:\n{errors}");
    }
    assert_eq!(job.run().text("logs/user/error.txt"), errors);
}

#[test]
fn mini_batches_that_all_fail_leave_no_row() {
    let script = r#"
def run(mini_batch, context):
    if context.minibatch_index == 0:
        raise KeyError("rare")
    raise ValueError("no good")
"#;
    let job = job(script);
    let printed = job.fails(&["no row", "most frequent error", "ValueError: no good"]);
    assert!(!job.run().first_line().contains("rare"), "{}", job.run().first_line());
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 3, "succeeded": 0, "failed": 3 }));
    assert_eq!(job.run().failed_mini_batches().len(), 3);
    assert!(job.run().text("logs/job_error.txt").contains("no good"));
}

#[test]
fn any_way_out_of_run_is_a_failed_try_and_no_more() {
    for (body, category) in [
        ("sys.exit(3)", "SystemExit"),
        ("raise ValueError('\\udc80 ' + 'x' * 10_000_000)", "ValueError"),
        ("raise ValueError('a \"quoted\",\\nlong\\r\\nmessage')", "ValueError"),
    ] {
        let job = once(body);
        job.completes();
        assert_eq!(job.run().rows(), ALL_ROWS, "{body}");
        let tries = job.run().tries();
        let failed: Vec<_> = tries.iter().filter(|row| row["Status"] != "RUN_DONE").collect();
        assert_eq!(failed.len(), 1, "{body}: {failed:?}");
        assert_eq!(
            (failed[0]["Status"].as_str(), failed[0]["Error Category"].as_str()),
            ("RUN_EXCEPTION", category)
        );
        let traceback = job.run().logs("user/error/0", ".txt");
        assert!(traceback.contains(category), "{body}: the traceback is kept:\n{traceback:.2000}");
    }
}

#[test]
fn descriptors_the_script_closes_are_its_own_loss() {
    // Standard output is the script's; closing it harms nothing.
    let job = once("os.close(0); os.close(1); os.close(2); print('unheard')");
    job.completes();
    assert_eq!(job.run().rows(), ALL_ROWS);
    // Closing everything cuts the process off: it is replaced.
    let job = once("os.closerange(3, 1024)");
    job.completes();
    assert_eq!(job.run().rows(), ALL_ROWS);
    assert_eq!(job.run().statuses()["mb-0000000000"], ["PROCESS_DIED", "RUN_DONE"]);
}

#[test]
fn a_script_that_changes_its_surroundings_harms_nobody() {
    for body in [
        "import shutil; shutil.rmtree(os.getcwd())",
        "os.umask(0o777)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    ] {
        let job = once(body);
        let ended = job.submit();
        job.has_completed(&ended);
        assert_eq!(job.run().rows(), ALL_ROWS, "{body}");
        assert!(ended.took < PROMPT, "{body} took {:?}", ended.took);
    }
}

#[test]
fn a_script_that_cuts_off_its_descriptors_ends_at_most_itself() {
    // What the process shares with the agent is among them; without its memory, the agent would die of a signal.
    let body = r"
        def cut_off(number):
            try:
                os.ftruncate(number, 0)
            except OSError as error:
                return error.errno
        links = {number: os.readlink(f'/proc/self/fd/{number}') for number in range(3, 64) if os.path.exists(f'/proc/self/fd/{number}')}
        pages = [number for number, link in links.items() if link.startswith('/memfd:prs')]
        import errno
        assert [cut_off(number) for number in pages] == [errno.EPERM], links
        time.sleep(0.1)
";
    let job = once(body);
    job.completes();
    assert_eq!(job.run().rows(), ALL_ROWS);
    assert_eq!(job.run().statuses()["mb-0000000000"], ["RUN_DONE"]);
}

#[test]
fn printing_without_end_is_kept_in_the_log_and_slows_nothing_else() {
    const MEGABYTES: usize = 200;
    let job = once(&format!(
        "sys.stdout.write('x' * 99 + '\\n'); [print('y' * 1023) for _ in range({MEGABYTES} << 10)]"
    ));
    job.completes();
    assert_eq!(job.run().rows(), ALL_ROWS);
    let folder = job.run().path().join("logs/user/stdout/0");
    let sizes = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(sizes.sum::<u64>(), 100 + ((MEGABYTES as u64) << 20));
}

#[test]
fn rows_of_any_size_come_through() {
    let script = r#"
def run(mini_batch, context):
    if context.minibatch_index == 0:
        return ["z" * (40 << 20), ""]
    return mini_batch
"#;
    let job = job(script);
    job.completes();
    let result = job.run().result();
    assert!(result[..40 << 20].iter().all(|byte| *byte == b'z') && result[40 << 20] == b'\n');
    let rest = String::from_utf8(result[(40 << 20) + 1..].to_vec()).unwrap();
    assert_eq!(rest.lines().count(), 5);
}

fn echo_and(more: &str) -> String {
    format!("def run(mini_batch):\n    return mini_batch\n\n{more}")
}

#[track_caller]
fn completes_all_the_same(script: &str, within: Duration) -> Job {
    let job = job(script);
    let ended = job.submit();
    job.has_completed(&ended);
    assert_eq!(job.run().rows().len(), 6);
    assert!(ended.took < within, "{script:?} took {:?}", ended.took);
    job
}

#[test]
fn a_shutdown_that_fails_does_not_spoil_the_job() {
    completes_all_the_same(&echo_and("def shutdown():\n    raise ValueError('late')\n"), PROMPT);
    completes_all_the_same(&echo_and("import os\ndef shutdown():\n    os._exit(9)\n"), PROMPT);
}

#[test]
fn a_shutdown_that_hangs_does_not_spoil_the_job() {
    // It has 20 s.
    let limit = Duration::from_secs(30);
    completes_all_the_same(&echo_and("import time\ndef shutdown():\n    time.sleep(1000)\n"), limit);
}

#[test]
fn a_thread_that_never_ends_does_not_spoil_the_job() {
    // Both processes have work, so both say good-bye; then each has 3 s to end.
    let script = r#"
import threading, time
from marks import mark, count

def init():
    threading.Thread(target=time.sleep, args=(1000,)).start()

def run(mini_batch):
    mark("ran")
    while count("ran") < 2:
        time.sleep(0.002)
    return mini_batch
"#;
    let job = completes_all_the_same(script, Duration::from_secs(8));
    let main = job.run().text("logs/sys/node/0/_main.txt");
    assert_eq!(main.matches("has said good-bye and stays; it is killed").count(), 2, "{main}");
}
