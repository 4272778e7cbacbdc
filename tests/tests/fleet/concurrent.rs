//! Several mini-batches under way in one process: an `async def run`, and scripts that stream (spec E17).

use std::time::{Duration, Instant};

use prs_tests::deadline::{Stopwatch, wait_for};
use prs_tests::harness::{Fleet, Job};
use rustix::process::Signal;
use serde_json::json;

/// Longest time from a signal to the end of the program.
const LIMIT: Duration = Duration::from_secs(2);
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A job of one process whose `run()` awaits; `$body` is what happens to mini-batch 7 then.
fn async_job(wait: f64, body: &str) -> Job {
    let script = format!(
        r#"
import asyncio, ctypes, os, time
from marks import mark, is_marked

async def run(mini_batch, context):
    index = context.minibatch_index
    mark("ran", f"{{index}} {{context.retry_count}}")
    await asyncio.sleep({wait})
    if index == 7:
        {body}
    return [f"{{index}} {{os.path.basename(path)}}" for path in mini_batch]
"#
    );
    Job::new(&script).with("process_count_per_node", 1).with("max_concurrency", 50)
}

/// The same for a script that streams, over a loop in a thread of its own.
fn streaming_job(wait: f64, body: &str) -> Job {
    let script = format!(
        r#"
import asyncio, copy, os, threading
from marks import mark

def init():
    global loop, finished, enqueued, given
    loop, finished, enqueued, given = asyncio.new_event_loop(), {{}}, 0, 0
    threading.Thread(target=loop.run_forever, daemon=True).start()

async def work(mini_batch, context):
    index = context.minibatch_index
    mark("ran", f"{{index}} {{context.retry_count}}")
    await asyncio.sleep({wait})
    if index == 7:
        {body}
    rows = [f"{{index}} {{os.path.basename(path)}}" for path in mini_batch]
    finished[context.mini_batch_id] = {{"ret": rows, "mini_batch_context": context, "exception": None}}

def enqueue(mini_batch, context):
    global enqueued
    enqueued += 1
    asyncio.run_coroutine_threadsafe(work(mini_batch, context), loop)

def get_finished_batch_result():
    global given
    names = list(finished)
    given += len(names)
    return {{name: copy.deepcopy(finished.pop(name)) for name in names}}

def check_all_tasks_processed():
    return given == enqueued

def get_processing_batch_number():
    return enqueued - given
"#
    );
    let job = Job::new(&script).with("process_count_per_node", 1).with("max_concurrency", 50);
    job.with("arguments", json!(["--amlbi_async_mode", "true"]))
}

fn rows(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number} {number:04}.txt")).collect()
}

fn all_but_seven(count: usize) -> Vec<String> {
    rows(count).into_iter().filter(|row| !row.starts_with("7 ")).collect()
}

/// The tries that were counted for the others: each one that succeeded, whatever was run again.
fn others_have_one_try(job: &Job, count: usize) {
    let mut statuses = job.run().statuses();
    statuses.remove("mb-0000000007");
    assert_eq!(statuses.len(), count - 1);
    for (id, tries) in statuses {
        assert_eq!(tries, ["RUN_DONE"], "{id}");
    }
}

#[test]
fn two_hundred_waits_of_half_a_second_take_a_few_seconds() {
    let plain = "import os\ndef run(mini_batch, context):\n    index = context.minibatch_index\n    \
                 return [f'{index} {os.path.basename(path)}' for path in mini_batch]\n";
    let plain = Job::new(plain).with_files(200).with("mini_batch_size", 1);
    plain.completes();
    for job in [async_job(0.5, "pass"), streaming_job(0.5, "pass")] {
        let job = job.with_files(200).with("mini_batch_size", 1);
        let before = Instant::now();
        let printed = job.completes();
        // One after the other they take 100 s.
        assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
        assert_eq!(printed["mini_batches"], json!({ "scheduled": 200, "succeeded": 200, "failed": 0 }));
        assert_eq!(job.run().result(), plain.run().result());
        assert_eq!(job.marks("ran").len(), 200);
    }
}

#[test]
fn who_ends_or_hangs_a_process_is_blamed_and_nobody_beside_it() {
    let table = [
        // what happens, statuses of its tries
        ("os._exit(3)", "PROCESS_DIED"),
        ("await asyncio.get_running_loop().run_in_executor(None, ctypes.string_at, 0)", "PROCESS_DIED"),
        ("time.sleep(600)", "RUN_TIMEOUT"),
        ("await asyncio.sleep(600)", "RUN_TIMEOUT"),
    ];
    for (body, status) in table {
        let job = async_job(0.2, body).with_files(40).with("mini_batch_size", 1);
        let job = job.with("run_max_try", 2).with("run_invocation_timeout", 2);
        let printed = job.completes();
        assert_eq!(
            printed["mini_batches"],
            json!({ "scheduled": 40, "succeeded": 39, "failed": 1 }),
            "{body}"
        );
        assert_eq!(job.run().statuses()["mb-0000000007"], [status; 2], "{body}");
        assert_eq!(job.run().rows(), all_but_seven(40), "{body}");
        others_have_one_try(&job, 40);
    }
}

#[test]
fn a_script_that_streams_has_the_same_promises() {
    let table = [("os._exit(3)", "PROCESS_DIED"), ("await asyncio.sleep(600)", "RUN_TIMEOUT")];
    for (body, status) in table {
        let job = streaming_job(0.1, body).with_files(40).with("mini_batch_size", 1);
        let job = job.with("run_max_try", 2).with("run_invocation_timeout", 2);
        let printed = job.completes();
        assert_eq!(
            printed["mini_batches"],
            json!({ "scheduled": 40, "succeeded": 39, "failed": 1 }),
            "{body}"
        );
        assert_eq!(job.run().statuses()["mb-0000000007"], [status; 2], "{body}");
        assert_eq!(job.run().rows(), all_but_seven(40), "{body}");
        others_have_one_try(&job, 40);
    }
}

#[test]
fn files_are_published_with_the_mini_batch_that_wrote_them() {
    let body = "if context.retry_count == 0: raise ValueError('once')";
    let job = async_job(0.05, body).with_files(20).with("mini_batch_size", 1);
    job.code(
        "main.py",
        "import asyncio, os\nfrom azureml_user.parallel_run import EntryScript\n\
         async def run(mini_batch, context):\n    index = context.minibatch_index\n    \
         name = f'{index}-{context.retry_count}'\n    \
         open(os.path.join(EntryScript().output_dir, name), 'w').close()\n    \
         await asyncio.sleep(0.05)\n    \
         if index == 7 and context.retry_count == 0: raise ValueError('once')\n    return [index]\n",
    );
    job.completes();
    let mut files = job.run().files("output");
    files.retain(|name| name != "output/parallel_run_step.txt");
    let mut expected: Vec<String> =
        (0..20).map(|index| format!("output/{index}-{}", u32::from(index == 7))).collect();
    expected.sort();
    files.sort();
    assert_eq!(files, expected);
}

#[test]
fn interrupted_and_killed_jobs_go_on_where_they_were() {
    for signal in [Signal::INT, Signal::KILL] {
        let job =
            async_job(0.1, "pass").with_files(120).with("mini_batch_size", 1).with("max_concurrency", 8);
        job.code(
            "main.py",
            "import asyncio, os\nfrom marks import is_marked\n\
             async def run(mini_batch, context):\n    index = context.minibatch_index\n    \
             await asyncio.sleep(0.1)\n    \
             while index >= 60 and not is_marked('go'): await asyncio.sleep(0.01)\n    \
             return [f'{index} {os.path.basename(path)}' for path in mini_batch]\n",
        );
        let mut submit = job.start_submit(&[]);
        submit.wait_until("some that are done", || {
            job.run()
                .text_so_far("logs/sys/job_report/processed_mini-batches.csv")
                .matches("RUN_DONE")
                .count()
                > 10
        });
        let watch = Stopwatch::start();
        assert!(submit.signal(signal));
        let ended = submit.wait();
        assert!(watch.elapsed() < LIMIT, "{:?}", watch.elapsed());
        if signal == Signal::INT {
            ended.expect_code(130);
            job.has_left_nothing();
        } else {
            job.soon_leaves_nothing();
        }
        job.mark("go");
        let printed = job.has_completed(&job.resume());
        assert_eq!(printed["mini_batches"], json!({ "scheduled": 120, "succeeded": 120, "failed": 0 }));
        assert_eq!(job.run().rows(), rows(120));
    }
}

#[test]
fn max_concurrency_without_meaning_is_refused() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n")
        .with_files(2)
        .with("mini_batch_size", 1)
        .with("max_concurrency", 5);
    job.fails(&["max_concurrency: 5 is for scripts with an async def run()"]);
    let job =
        Job::new("def run(mini_batch):\n    return mini_batch\n").with_files(2).with("mini_batch_size", 1);
    let job = job.with("arguments", json!(["--amlbi_async_mode", "true"]));
    job.fails(&["has no function enqueue(), which --amlbi_async_mode true asks for"]);
}

#[test]
fn a_fleet_gives_the_same_bytes_whatever_dies() {
    let fleet = Fleet::shared();
    for job in [async_job(0.3, "pass"), streaming_job(0.3, "pass")] {
        let job =
            fleet.job(job.with("compute_target", "concurrent")).with_files(160).with("mini_batch_size", 1);
        let job = job.with("max_concurrency", 10).with("node_count", 2);
        let id = fleet.hand_in(&job);
        let target = ["--target", "concurrent"];
        let mut leaves = fleet.worker(&job, &target);
        let dies = fleet.worker(&job, &target);
        wait_for("mini-batches that are under way", PATIENCE, || (job.marks("ran").len() > 50).then_some(()));
        assert!(dies.kill());
        let mut stays = fleet.worker(&job, &target);
        wait_for("more of them", PATIENCE, || (job.marks("ran").len() > 80).then_some(()));
        assert!(leaves.signal(Signal::TERM));
        leaves.wait().expect_code(0);
        let state = || job.command(&["status", &id, "-o", "json"]).json()["state"].clone();
        wait_for("the end of the job", PATIENCE, || (state() == "completed").then_some(()));
        let result = fleet.stored(&id).result();
        assert_eq!(String::from_utf8(result).unwrap().lines().collect::<Vec<_>>(), rows(160));
        let printed = job.command(&["status", &id, "-o", "json"]).json();
        assert_eq!(printed["mini_batches"]["succeeded"], 160, "{printed}");
        assert!(stays.signal(Signal::TERM));
        stays.wait();
    }
}
