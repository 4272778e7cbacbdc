//! Tries of a mini-batch: what makes one fail, how often it is made, what the reports say of it (spec E7, E10, S3-S5, S11).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use prs_tests::harness::{Job, parse_csv};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Mini-batch 1 does `$body`; the others return their files' names. Every call leaves a mark with its try.
fn job_with(body: &str) -> Job {
    let script = format!(
        r#"
import os, signal, sys, time
from marks import mark, wait_for, is_marked

def run(mini_batch, context):
    index, retry = context.minibatch_index, context.retry_count
    mark("ran", f"{{index}} {{retry}}")
    if index == 1:
        {body}
    return [os.path.basename(path) for path in mini_batch]
"#,
    );
    Job::new(&script).with_files(8)
}

/// The rows of all mini-batches but the second.
const OTHERS: [&str; 6] = ["0000.txt", "0001.txt", "0004.txt", "0005.txt", "0006.txt", "0007.txt"];

fn counts(printed: &Value) -> [&Value; 2] {
    [&printed["mini_batches"], &printed["items"]]
}

fn one_failed() -> [Value; 2] {
    [
        json!({ "scheduled": 4, "succeeded": 3, "failed": 1 }),
        json!({ "total": 8, "succeeded": 6, "failed": 2 }),
    ]
}

#[test]
fn an_exception_is_tried_run_max_try_times_and_fails_alone() {
    let job = job_with("raise ValueError(f'bad image, try {retry}')").with("run_max_try", 4);
    let printed = job.completes();
    assert_eq!(counts(&printed), one_failed().each_ref());
    assert_eq!(job.run().rows(), OTHERS);
    let mut ran = job.marks("ran");
    ran.sort();
    assert_eq!(ran, ["0 0", "1 0", "1 1", "1 2", "1 3", "2 0", "3 0"]);

    let statuses = job.run().statuses();
    assert_eq!(statuses["mb-0000000001"], ["RUN_EXCEPTION"; 4]);
    assert_eq!(statuses["mb-0000000000"], ["RUN_DONE"]);
    let failed = job.run().failed_mini_batches();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["mini_batch_id"], "mb-0000000001");
    let items = ["0002.txt", "0003.txt"].map(|name| job.path("data").join(name).display().to_string());
    assert_eq!(failed[0]["items"], json!(items));
    let tries = failed[0]["tries"].as_array().unwrap();
    assert_eq!(tries.len(), 4);
    for (at, one) in tries.iter().enumerate() {
        assert_eq!((&one["status"], &one["category"]), (&json!("RUN_EXCEPTION"), &json!("ValueError")));
        assert_eq!(one["message"], format!("bad image, try {at}"));
        assert_eq!(one["node_id"], 0);
        assert!(one["process"].as_str().unwrap().starts_with("process"), "{one}");
    }
}

#[test]
fn a_try_that_succeeds_makes_up_for_those_before() {
    let job = job_with("if retry < 2: raise OSError('flaky')");
    let printed = job.completes();
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 4, "succeeded": 4, "failed": 0 }));
    assert_eq!(job.run().rows().len(), 8);
    assert_eq!(job.run().statuses()["mb-0000000001"], ["RUN_EXCEPTION", "RUN_EXCEPTION", "RUN_DONE"]);
    assert!(job.run().failed_mini_batches().is_empty());
    assert_eq!(job.run().files("output"), ["output/parallel_run_step.txt"]);
}

#[test]
fn every_try_is_reported_exactly_once_however_many_there_are() {
    const MINI_BATCHES: usize = 200;
    let script = r#"
def run(mini_batch, context):
    if context.retry_count < 2:
        raise ValueError(f"try {context.retry_count}")
    return mini_batch
"#;
    // Which tries are committed together differs from run to run.
    for run in 0..3 {
        let job = Job::new(script).with_files(MINI_BATCHES).with("mini_batch_size", 1).with("run_max_try", 3);
        assert_eq!(counts(&job.completes())[0]["succeeded"], MINI_BATCHES, "run {run}");
        assert_eq!(job.run().tries().len(), 3 * MINI_BATCHES, "run {run}");
        let statuses = job.run().statuses();
        assert_eq!(statuses.len(), MINI_BATCHES, "run {run}");
        for (id, statuses) in statuses {
            let expected = ["RUN_EXCEPTION", "RUN_EXCEPTION", "RUN_DONE"];
            assert_eq!(statuses, expected, "run {run}, mini-batch {id}");
        }
    }
}

#[test]
fn each_try_of_a_mini_batch_is_in_another_process() {
    for processes in [1, 2] {
        let job = job_with("raise ValueError('bad image')").with("process_count_per_node", processes);
        assert_eq!(counts(&job.completes()), one_failed().each_ref());
        let tries = job.run().tries();
        let names =
            tries.iter().filter(|row| row["Mini-batch Id"] == "mb-0000000001").map(|row| &row["Process"]);
        let names: Vec<_> = names.collect();
        assert!(names.len() == 3 && names[0] != names[1] && names[1] != names[2], "{processes}: {names:?}");
    }
}

#[test]
fn an_item_that_breaks_its_process_for_good_costs_its_mini_batch_alone() {
    let script = r#"
import os

broken = False

def run(mini_batch, context):
    global broken
    broken = broken or context.minibatch_index == int(os.environ["BAD"])
    if broken:
        raise RuntimeError("device-side assert triggered")
    return [0] * len(mini_batch)
"#;
    // The first one is broken before anything has succeeded.
    for (bad, processes) in [(17, 1), (17, 2), (0, 2)] {
        let job = Job::new(script).with_files(200).with("mini_batch_size", 1);
        let job = job.with("process_count_per_node", processes).with_variable("BAD", &bad.to_string());
        let printed = job.completes();
        assert_eq!(counts(&printed)[0], &json!({ "scheduled": 200, "succeeded": 199, "failed": 1 }));
        let (_, summary) = parse_csv(&job.run().text("logs/sys/job_report/process_summary.csv"));
        let replaced = summary.iter().filter(|row| row["Replaced"] == "1").count();
        assert!((1..=8).contains(&replaced), "{summary:?}");
        let (_, summary) = parse_csv(&job.run().text("logs/sys/job_report/node_summary.csv"));
        assert_eq!(summary[0]["Replaced"], replaced.to_string());
        let told = format!("replaced      {replaced} processes, because mini-batches failed in them");
        assert!(
            job.run().text("logs/job_result.txt").contains(&told),
            "{}",
            job.run().text("logs/job_result.txt")
        );
    }
}

#[test]
fn one_try_means_one_try() {
    let job = job_with("raise OSError('flaky')").with("run_max_try", 1);
    assert_eq!(counts(&job.completes()), one_failed().each_ref());
    assert_eq!(job.run().statuses()["mb-0000000001"], ["RUN_EXCEPTION"]);
}

#[test]
fn a_timeout_kills_the_process_and_a_new_one_takes_its_place() {
    let job = job_with("time.sleep(1000)").with("run_invocation_timeout", 1).with("run_max_try", 2);
    assert_eq!(counts(&job.completes()), one_failed().each_ref());
    assert_eq!(job.run().rows(), OTHERS);
    let tries = job.run().tries();
    let timeouts: Vec<_> = tries.iter().filter(|row| row["Mini-batch Id"] == "mb-0000000001").collect();
    assert_eq!(timeouts.len(), 2);
    let mut processes = BTreeSet::new();
    for row in timeouts {
        assert_eq!(row["Status"], "RUN_TIMEOUT");
        let seconds: f64 = row["Elapsed Seconds"].parse().unwrap();
        assert!((1.0..3.0).contains(&seconds), "killed after {seconds} s");
        assert!(row["Error Message"].contains("run_invocation_timeout"), "{}", row["Error Message"]);
        processes.insert(row["Process"].clone());
    }
    assert_eq!(processes.len(), 2, "a new process for the second try: {processes:?}");
}

#[test]
fn a_timeout_needs_no_help_from_the_script() {
    // Signals blocked, the interpreter's lock held: only SIGKILL ends this.
    let body = "import re; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)); re.match(r'(a+)+$', 'a' * 60 + 'b')";
    let job = job_with(body).with("run_invocation_timeout", 1).with("run_max_try", 1);
    assert_eq!(counts(&job.completes()), one_failed().each_ref());
    assert_eq!(job.run().statuses()["mb-0000000001"], ["RUN_TIMEOUT"]);
}

#[test]
fn a_run_that_takes_its_time_is_left_alone() {
    let job = job_with("time.sleep(1.2)").with("run_invocation_timeout", 30);
    job.completes();
    let tries = job.run().tries();
    let slow = tries.iter().find(|row| row["Mini-batch Id"] == "mb-0000000001").unwrap();
    assert!(slow["Run Method Seconds"].parse::<f64>().unwrap() >= 1.2);
    assert!(slow["Process Seconds"].parse::<f64>().unwrap() < 1.0, "sleeping is no CPU time");
}

#[test]
fn time_in_which_the_program_was_stopped_counts_for_no_timeout() {
    let body = "mark('pid', os.getpid()); [time.sleep(0.1) for _ in range(20)]";
    let job = job_with(body).with("run_invocation_timeout", 5).with("progress_update_timeout", 5);
    let mut live = job.start_submit(&[]);
    live.wait_until("the long mini-batch", || job.marks("pid").len() == 1);
    let process = Pid::from_raw(job.marks("pid")[0].parse().unwrap()).unwrap();
    assert!(live.signal(Signal::STOP));
    kill_process(process, Signal::STOP).unwrap();
    // As a person does who stops a job for a while.
    std::thread::sleep(Duration::from_secs(7));
    kill_process(process, Signal::CONT).unwrap();
    assert!(live.signal(Signal::CONT));
    let printed = job.has_completed(&live.wait());
    assert_eq!(printed["tries"]["failed"], 0, "{printed}");
}

#[test]
fn time_in_which_a_process_was_stopped_counts_for_no_timeout_of_a_task() {
    let script = "
import asyncio, os
from marks import mark

async def run(mini_batch):
    mark('pid', os.getpid())
    for _ in range(20):
        await asyncio.sleep(0.1)
    return [os.path.basename(path) for path in mini_batch]
";
    let job = Job::new(script).with_files(3).with("mini_batch_size", 1).with("process_count_per_node", 1);
    let job = job.with("run_invocation_timeout", 5).with("run_max_try", 1);
    let mut live = job.start_submit(&[]);
    live.wait_until("the mini-batches", || job.marks("pid").len() == 3);
    let process = Pid::from_raw(job.marks("pid")[0].parse().unwrap()).unwrap();
    assert!(live.signal(Signal::STOP));
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(7));
    kill_process(process, Signal::CONT).unwrap();
    assert!(live.signal(Signal::CONT));
    let printed = job.has_completed(&live.wait());
    assert_eq!(printed["tries"]["failed"], 0, "{printed}");
}

#[test]
fn the_death_of_a_process_fails_only_its_current_try() {
    for (body, returncode) in [("os._exit(0)", 0), ("os.kill(os.getpid(), signal.SIGKILL)", -9)] {
        let job = job_with(body).with("run_max_try", 2).with("process_count_per_node", 1);
        assert_eq!(counts(&job.completes()), one_failed().each_ref(), "{body}");
        assert_eq!(job.run().rows(), OTHERS, "{body}");
        assert_eq!(job.run().statuses()["mb-0000000001"], ["PROCESS_DIED"; 2], "{body}");
        // What a dying process had finished but not told runs again; none of that is a failed try.
        let ran: BTreeSet<_> = job.marks("ran").into_iter().collect();
        assert_eq!(ran, ["0 0", "1 0", "1 1", "2 0", "3 0"].map(str::to_owned).into(), "{body}");
        let main = job.run().text("logs/sys/node/0/_main.txt");
        let told = format!("exits with returncode {returncode}.");
        // The last process of all ends in order.
        let expected = if returncode == 0 { 3 } else { 2 };
        assert_eq!(main.matches(&told).count(), expected, "{body}:\n{main}");
        let failed = job.run().failed_mini_batches();
        assert_eq!(failed[0]["tries"][0]["status"], "PROCESS_DIED");
    }
}

#[test]
fn a_process_that_runs_out_of_memory_is_told_as_returncode_minus_9() {
    // What the kernel does when memory runs out, without taking the machine's: the process dies of SIGKILL at
    // the allocation that is too much.
    let body = r"
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
        try:
            hoard = [bytearray(1 << 26) for _ in range(1 << 20)]
        except MemoryError:
            os.kill(os.getpid(), signal.SIGKILL)
";
    let job = job_with(body).with("run_max_try", 2);
    assert_eq!(counts(&job.completes()), one_failed().each_ref());
    let main = job.run().text("logs/sys/node/0/_main.txt");
    let line = main.lines().find(|line| line.contains("exits with returncode -9.")).expect(&main);
    let process = job.run().failed_mini_batches()[0]["tries"][0]["process"].as_str().unwrap().to_owned();
    assert!(line.contains(&format!("{process} exits with returncode -9.")), "{line}");
    let message =
        &job.run().tries().into_iter().find(|row| row["Status"] == "PROCESS_DIED").unwrap()["Error Message"];
    assert!(message.contains("memory"), "the likely cause is said: {message}");
}

#[test]
fn a_short_return_counts_its_missing_items_and_is_not_tried_again() {
    let job = job_with("return ['one row only']");
    let printed = job.completes();
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 4, "succeeded": 4, "failed": 0 }));
    assert_eq!(printed["items"], json!({ "total": 8, "succeeded": 7, "failed": 1 }));
    assert_eq!(job.run().rows().len(), 7);
    assert_eq!(job.marks("ran").len(), 4);
    let tries = job.run().tries();
    let short = tries.iter().find(|row| row["Mini-batch Id"] == "mb-0000000001").unwrap();
    assert_eq!([&short["Total"], &short["Succeeded"], &short["Failed"]], ["2", "1", "1"]);
    assert_eq!([&short["Status"], &short["Error Category"]], ["RUN_DONE", "ReturnedTooFew"]);
    assert_eq!(short["Error Message"], "run() returned 1 element for 2 items");
    let listed = job.run().failed_mini_batches();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["items"].as_array().unwrap().len(), 2);
    assert_eq!((&listed[0]["items_total"], &listed[0]["items_missing"]), (&json!(2), &json!(1)));
    assert_eq!(listed[0]["tries"][0]["category"], "ReturnedTooFew");
}

#[test]
fn more_rows_than_items_are_all_written_and_counted_at_most_as_items() {
    let job = job_with("return ['row'] * 5");
    let printed = job.completes();
    assert_eq!(printed["items"], json!({ "total": 8, "succeeded": 8, "failed": 0 }));
    assert_eq!(printed["surplus"], json!({ "mini_batches": 1, "items": 2, "elements": 5 }));
    let note = "run() returned 5 elements for 2 items, in 1 mini-batch";
    assert!(job.run().text("logs/job_result.txt").contains(note), "{}", job.run().story());
    assert_eq!(printed["output"]["rows"], 11);
    assert_eq!(job.run().rows().len(), 11);
}

#[test]
fn no_row_at_all_fails_an_append_row_job_and_says_so() {
    let job = Job::new("def run(mini_batch):\n    return []\n").with_files(4);
    let printed = job.fails(&["append_row", "no row"]);
    assert_eq!(printed["items"], json!({ "total": 4, "succeeded": 0, "failed": 4 }));
    assert!(!job.run().path().join("output/parallel_run_step.txt").exists());
}

#[test]
fn no_row_at_all_is_fine_for_summary_only() {
    let job =
        Job::new("def run(mini_batch):\n    return []\n").with_files(4).with("output_action", "summary_only");
    assert_eq!(job.completes()["items"], json!({ "total": 4, "succeeded": 0, "failed": 4 }));
}

#[test]
fn a_summary_only_job_of_which_every_mini_batch_failed_fails() {
    let job = Job::new("def run(mini_batch):\n    raise ValueError('no model')\n").with_files(4);
    let printed = job.with("output_action", "summary_only").fails(&["every mini-batch failed", "no model"]);
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 2, "succeeded": 0, "failed": 2 }));
}

#[test]
fn failed_mini_batches_of_a_table_name_file_and_bytes() {
    let script = r#"
def run(mini_batch):
    if 5 in mini_batch["id"].values:
        raise ValueError("five")
    return mini_batch
"#;
    let job = Job::new(script).with_tables(&[3, 4, 2]).with("run_max_try", 1);
    let printed = job.completes();
    assert_eq!(printed["items"], json!({ "total": 9, "succeeded": 5, "failed": 4 }));
    let failed = job.run().failed_mini_batches();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["minibatch_index"], 1);
    let item = &failed[0]["items"][0];
    assert_eq!(item["file"], job.path("data/001.csv").display().to_string());
    let size = std::fs::metadata(job.path("data/001.csv")).unwrap().len();
    assert_eq!((&item["start"], &item["end"]), (&json!("id,name,value\n".len()), &json!(size)));
}

/// Does to its socket what is said here in mini-batch 5 of several that are under way.
#[track_caller]
fn breaks_its_socket_among_others(does: &str, said: &str) {
    let script = format!(
        r#"
import asyncio, os
from marks import mark

async def run(mini_batch, context):
    index = context.minibatch_index
    await asyncio.sleep(0.05)
    if index == 5:
        mark("broke")
        for s in [int(name) for name in os.listdir("/proc/self/fd")]:
            if os.path.exists(f"/proc/self/fd/{{s}}") and "socket" in os.readlink(f"/proc/self/fd/{{s}}"):
                {does}
    return [f"{{index}}"]
"#
    );
    let job = Job::new(&script).with_files(12).with("mini_batch_size", 1).with("process_count_per_node", 1);
    let job = job.with("max_concurrency", 4).with("run_invocation_timeout", 2).with("run_max_try", 1);
    let ended = job.submit();
    let printed = job.has_completed(&ended);
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 12, "succeeded": 11, "failed": 1 }));
    assert!(ended.took < Duration::from_mins(1), "{:?}", ended.took);
    let failed = job.run().failed_mini_batches();
    assert_eq!(failed[0]["minibatch_index"], 5);
    let error = &failed[0]["tries"][0];
    let message = error["message"].as_str().unwrap();
    assert_eq!(error["category"], "ProcessDied");
    assert!(message.contains("because its socket to prs is broken") && message.contains(said), "{message}");
}

#[test]
fn a_socket_that_is_covered_among_others_is_a_broken_process() {
    breaks_its_socket_among_others(
        "os.dup2(os.open('/dev/null', os.O_RDWR), s)",
        "after the end of a mini-batch its outcome has not come",
    );
}

#[test]
fn a_socket_that_is_half_filled_among_others_is_a_broken_process() {
    breaks_its_socket_among_others(
        "os.write(s, bytes([0, 0, 0, 1]))",
        "after the end of a mini-batch its outcome has not come",
    );
}

#[test]
fn a_socket_that_is_filled_among_others_is_a_broken_process() {
    breaks_its_socket_among_others("os.write(s, b'\\xff' * 64)", "it sent what prs does not understand");
}

#[test]
fn a_socket_that_a_script_covers_or_fills_is_a_broken_process_by_that_reason() {
    let sockets = "for s in [int(name) for name in os.listdir('/proc/self/fd')]:\n            \
                   if os.path.exists(f'/proc/self/fd/{s}') and 'socket' in os.readlink(f'/proc/self/fd/{s}'): ";
    for (does, said) in [
        (
            "os.dup2(os.open('/dev/null', os.O_RDWR), s)",
            "after the end of a mini-batch its outcome has not come",
        ),
        ("os.write(s, bytes([0, 0, 0, 1]))", "after the end of a mini-batch its outcome has not come"),
        ("os.write(s, b'\\xff' * 64)", "it sent what prs does not understand (a frame of "),
    ] {
        let job = job_with(&format!("time.sleep(0.1); {sockets}{does}").replace("; for", "\n        for"))
            .with("run_invocation_timeout", 2)
            .with("process_count_per_node", 1)
            .with("run_max_try", 1);
        let printed = job.completes();
        assert_eq!(counts(&printed), one_failed().each_ref(), "{does}");
        let failed = job.run().failed_mini_batches();
        assert_eq!(failed[0]["mini_batch_id"], "mb-0000000001", "{does}");
        let error = &failed[0]["tries"][0];
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["category"], "ProcessDied");
        assert!(
            message.contains("because its socket to prs is broken") && message.contains(said),
            "{message}"
        );
    }
}

#[test]
fn a_process_that_has_had_what_the_job_allows_makes_room_for_a_fresh_one() {
    let script = "
import os
from marks import mark
hoard = []
def init():
    mark('init', os.getpid())
def run(mini_batch):
    hoard.append(b'x' * (8 << 20))
    return [os.getpid()]
";
    let asynchronous = script.replace("def run", "async def run");
    let asynchronous = asynchronous.as_str();
    for (script, key, most, processes, each) in [
        (script, "max_mini_batches_per_process", json!(5), 4..=4, 1..=5),
        (script, "max_memory_per_process", json!("60MB"), 3..=19, 1..=8),
        (asynchronous, "max_memory_per_process", json!("60MB"), 3..=19, 1..=9),
    ] {
        let job =
            Job::new(script).with_files(20).with("mini_batch_size", 1).with("process_count_per_node", 1);
        let mut job = job.with(key, most);
        if script == asynchronous {
            job = job.with("max_concurrency", 2);
        }
        let printed = job.has_completed(&job.submit());
        assert_eq!(printed["mini_batches"], json!({ "scheduled": 20, "succeeded": 20, "failed": 0 }));
        let mut ran: BTreeMap<String, usize> = BTreeMap::new();
        for pid in job.run().rows() {
            *ran.entry(pid).or_default() += 1;
        }
        assert!(
            processes.contains(&ran.len()) && ran.values().all(|count| each.contains(count)),
            "{key}: {ran:?}"
        );
        // None is started that has nothing to do, and no try is lost.
        assert_eq!(job.marks("init").len(), ran.len(), "{key}");
        assert_eq!(job.run().tries().len(), 20, "{key}");
    }
}
