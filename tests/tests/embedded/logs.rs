//! The logs of a job (spec section 5): all there, with the right content, while it runs and at its end.

use std::collections::BTreeMap;

use prs_tests::harness::{Job, Row, parse_csv};
use serde_json::json;

/// Says something everywhere; mini-batch 2 fails once, mini-batch 3 always.
const TALKS: &str = r#"
import logging, os, subprocess, sys
from azureml_user.parallel_run import EntryScript

def init():
    EntryScript().logger.info("own logger in init")
    EntryScript().logger.debug("too fine")

def run(mini_batch, context):
    index = context.minibatch_index
    print("printed", index)
    sys.stderr.write(f"complained {index}\n")
    os.write(1, f"written {index}\n".encode())
    subprocess.run(["echo", "child", str(index)])
    logging.info("root info %d", index)
    logging.debug("root debug %d", index)
    EntryScript().logger.warning("own logger %d", index)
    if index == 2 and context.retry_count == 0:
        raise OSError("flaky disk")
    if index == 3:
        raise ValueError('bad, "very bad"\nreally')
    return [os.path.basename(path) for path in mini_batch]
"#;

const COLUMNS: [&str; 17] = [
    "Mini-batch Id",
    "Picked Count",
    "Node Id",
    "Process",
    "Process Id",
    "Ip",
    "Start Time",
    "Total",
    "Succeeded",
    "Failed",
    "Elapsed Seconds",
    "Process Seconds",
    "Run Method Seconds",
    "Status",
    "Error Category",
    "Error Message",
    "Mini-batch Detail",
];

fn talks() -> Job {
    Job::new(TALKS).with_files(10)
}

#[test]
fn every_log_of_the_layout_is_there() {
    let job = talks();
    job.completes();
    let run = job.run();
    let files = run.files("logs");
    let processes: std::collections::BTreeSet<_> =
        run.tries().iter().map(|row| row["Process"].clone()).collect();
    let mut expected: Vec<String> = [
        "job_result.txt",
        "job_error.txt",
        "readme.txt",
        "sys/master_role.txt",
        "sys/job_report/processed_mini-batches.csv",
        "sys/job_report/process_summary.csv",
        "sys/job_report/node_summary.csv",
        "sys/node/0/_main.txt",
        "user/error.txt",
    ]
    .map(str::to_owned)
    .into();
    for process in &processes {
        assert!(process.starts_with("process") && process[7..].parse::<u32>().is_ok(), "{process}");
        expected.push(format!("sys/node/0/{process}.txt"));
        expected.push(format!("user/entry_script_log/0/{process}.log.txt"));
        expected.push(format!("user/stdout/0/{process}.stdout.txt"));
        expected.push(format!("user/stderr/0/{process}.stderr.txt"));
    }
    for name in expected {
        assert!(files.contains(&format!("logs/{name}")), "{name} is missing: {files:#?}");
    }
    assert!(run.path().join("logs/sys/error").is_dir());
    assert!(files.iter().any(|name| name.starts_with("logs/user/error/0/process")), "{files:#?}");
    let overview =
        files.iter().find(|name| name.starts_with("logs/job_progress_overview.")).expect("an overview");
    let day = overview.strip_prefix("logs/job_progress_overview.").and_then(|rest| rest.strip_suffix(".txt"));
    assert!(day.is_some_and(|day| day.len() == 8 && day.parse::<u32>().is_ok()), "{overview}");

    let readme = run.text("logs/readme.txt");
    for file in files.iter().filter(|file| !file.ends_with("readme.txt")) {
        let folder = file.trim_start_matches("logs/").split('/').take(2).collect::<Vec<_>>().join("/");
        let part = folder.split('.').next().unwrap();
        assert!(readme.contains(part), "{file} is not explained in readme.txt");
    }
}

#[test]
fn what_host_and_processes_use_is_written_down() {
    let script = "import subprocess\ndef run(mini_batch):\n    subprocess.run(['sleep', '2.5'])\n    return mini_batch\n";
    let mut job = Job::new(script).with_files(2);
    job.set("mini_batch_size", 1);
    job.set("resource_monitor_interval", 1);
    job.completes();
    let run = job.run();
    let (header, rows) = parse_csv(&run.text("logs/perf/0/processes_resource_usage.csv"));
    assert_eq!(header[..3], ["Time", "Process", "Process Id"]);
    let (own, scripts): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row["Process"] == "prs");
    assert!(own.len() >= 2, "{rows:#?}");
    assert!(scripts.iter().all(|row| row["Process"].starts_with("process0")), "{rows:#?}");
    assert!(scripts.iter().any(|row| row["Memory MB"].parse::<f64>().unwrap() > 5.0), "{rows:#?}");
    assert!(scripts.iter().any(|row| row["Processes"] == "2"), "the child of a script counts: {rows:#?}");
    let (_, hosts) = parse_csv(&run.text("logs/perf/0/node_resource_usage.csv"));
    assert!(
        hosts.len() >= 2 && hosts.iter().all(|row| row["Cores"].parse::<u32>().unwrap() > 0),
        "{hosts:#?}"
    );
    let (_, disks) = parse_csv(&run.text("logs/perf/0/node_disk_usage.csv"));
    assert!(disks.iter().all(|row| row["Mount"].starts_with('/')), "{disks:#?}");
    let mut lists = run.files("logs").into_iter().filter(|name| name.starts_with("logs/perf/0/os/"));
    let list = run.text(&lists.next_back().expect("a list of all processes"));
    assert!(list.lines().any(|line| line.ends_with(" prs")), "{list}");
}

#[test]
fn the_report_has_a_row_for_every_try() {
    let job = talks();
    job.completes();
    let (header, rows) = parse_csv(&job.run().text("logs/sys/job_report/processed_mini-batches.csv"));
    assert_eq!(header, COLUMNS);
    let mut tries: Vec<_> = rows
        .iter()
        .map(|row| [&row["Mini-batch Id"], &row["Picked Count"], &row["Status"]].map(String::as_str))
        .collect();
    tries.sort_unstable();
    assert_eq!(
        tries,
        [
            ["mb-0000000000", "1", "RUN_DONE"],
            ["mb-0000000001", "1", "RUN_DONE"],
            ["mb-0000000002", "1", "RUN_EXCEPTION"],
            ["mb-0000000002", "2", "RUN_DONE"],
            ["mb-0000000003", "1", "RUN_EXCEPTION"],
            ["mb-0000000003", "2", "RUN_EXCEPTION"],
            ["mb-0000000003", "3", "RUN_EXCEPTION"],
            ["mb-0000000004", "1", "RUN_DONE"],
        ]
    );
    let now = jiff::Timestamp::now();
    for row in &rows {
        let failed = row["Status"] != "RUN_DONE";
        assert_eq!(row["Node Id"], "0");
        assert!(row["Process"].starts_with("process"), "{row:?}");
        assert!(row["Process Id"].parse::<u32>().unwrap() > 1);
        assert!(row["Ip"].parse::<std::net::IpAddr>().is_ok(), "{row:?}");
        let age = now.duration_since(row["Start Time"].parse().unwrap()).as_secs();
        assert!((0..60).contains(&age), "{row:?}");
        let counts = [&row["Total"], &row["Succeeded"], &row["Failed"]].map(String::as_str);
        assert_eq!(counts, if failed { ["2", "0", "2"] } else { ["2", "2", "0"] });
        let seconds = ["Elapsed Seconds", "Process Seconds", "Run Method Seconds"];
        let [elapsed, cpu, run] = seconds.map(|name| row[name].parse::<f64>().unwrap());
        assert!(elapsed >= run && run > 0.0 && cpu > 0.0 && elapsed < 10.0, "{row:?}");
        assert!(row["Mini-batch Detail"].contains(".txt and 1 more"), "{row:?}");
    }
    let of = |id: &str| rows.iter().find(|row| row["Mini-batch Id"].ends_with(id)).unwrap();
    assert_eq!(
        [&of("3")["Error Category"], &of("3")["Error Message"]],
        ["ValueError", "bad, \"very bad\"\nreally"]
    );
    assert_eq!([&of("2")["Error Category"], &of("2")["Error Message"]], ["OSError", "flaky disk"]);
    assert_eq!([&of("0")["Error Category"], &of("0")["Error Message"]], ["", ""]);
}

fn sum(rows: &[Row], column: &str) -> u64 {
    rows.iter().map(|row| row[column].parse::<u64>().unwrap()).sum()
}

#[test]
fn the_summaries_add_up() {
    let job = talks();
    let printed = job.completes();
    let tries = job.run().tries();
    for name in ["process_summary", "node_summary"] {
        let (header, rows) = parse_csv(&job.run().text(&format!("logs/sys/job_report/{name}.csv")));
        assert_eq!(header[0], "Node Id", "{name}");
        assert_eq!(sum(&rows, "Tries"), tries.len() as u64, "{name}");
        assert_eq!(sum(&rows, "Tries Failed"), 4, "{name}");
        assert_eq!(json!(sum(&rows, "Items Succeeded")), printed["items"]["succeeded"], "{name}");
        assert_eq!(sum(&rows, "Items"), sum(&tries, "Total"), "{name}");
    }
    let (_, processes) = parse_csv(&job.run().text("logs/sys/job_report/process_summary.csv"));
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &tries {
        *by_name.entry(&row["Process"]).or_default() += 1;
    }
    let told: BTreeMap<&str, usize> =
        processes.iter().map(|row| (row["Process"].as_str(), row["Tries"].parse().unwrap())).collect();
    assert_eq!(told, by_name);
}

#[test]
fn errors_are_told_apart_and_counted() {
    let job = talks();
    job.completes();
    let text = job.run().text("logs/job_error.txt");
    assert_eq!(text, job.run().text("logs/user/error.txt"));
    let line = |part: &str| {
        text.lines().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"))
    };
    // The most frequent one first, each with its count and where to read more.
    assert!(line("bad, \"very bad\"") < line("flaky disk"), "{text}");
    assert!(text.contains("3 times") && text.contains("once"), "{text}");
    let named =
        text.split_whitespace().find(|word| word.starts_with("logs/user/error/")).expect("an example");
    assert!(job.run().path().join(named.trim_end_matches([',', '.', ':'])).is_file(), "{named}");
    let tracebacks = job.run().logs("user/error/0", ".txt");
    assert_eq!(tracebacks.matches("Traceback (most recent call last)").count(), 4, "{tracebacks}");
    assert!(
        tracebacks.contains("main.py\", line") && tracebacks.contains("raise OSError(\"flaky disk\")"),
        "{tracebacks}"
    );
    assert!(
        !tracebacks.contains("azureml_user/parallel_run/"),
        "frames of prs itself say nothing: {tracebacks}"
    );
}

#[test]
fn a_job_without_errors_says_so() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_files(2);
    job.completes();
    assert_eq!(job.run().text("logs/job_error.txt").trim(), "no error");
    assert_eq!(job.run().logs("user/stdout/0", ".txt") + &job.run().logs("user/stderr/0", ".txt"), "");
}

#[test]
fn what_the_script_says_lands_where_it_belongs() {
    let job = talks();
    job.completes();
    let stdout = job.run().logs("user/stdout/0", ".stdout.txt");
    let stderr = job.run().logs("user/stderr/0", ".stderr.txt");
    let own = job.run().logs("user/entry_script_log/0", ".log.txt");
    for part in ["printed 0", "written 1", "child 4", "root info 0"] {
        assert!(stdout.contains(part), "{part} is not on standard output:\n{stdout}");
    }
    assert!(stderr.contains("complained 0"), "{stderr}");
    assert!(own.contains("own logger in init") && own.contains("own logger 4"), "{own}");
    for (text, other) in
        [(&stdout, "complained"), (&stdout, "own logger"), (&stderr, "printed"), (&own, "root info")]
    {
        assert!(!text.contains(other), "{other:?} in\n{text}");
    }
    assert!(!stdout.contains("root debug") && !own.contains("too fine"), "INFO is the default");
    assert_eq!(stdout.matches("printed ").count(), 8, "once for each try");
}

#[test]
fn logging_level_decides_what_is_kept() {
    let debug = talks().with("logging_level", "DEBUG");
    debug.completes();
    assert!(debug.run().logs("user/stdout/0", ".txt").contains("root debug 0"));
    assert!(debug.run().logs("user/entry_script_log/0", ".txt").contains("too fine"));
    let warning = talks().with("logging_level", "WARNING");
    warning.completes();
    let said = warning.run().logs("user", ".txt");
    assert!(!said.contains("root info") && !said.contains("own logger in init"), "{said}");
    assert!(said.contains("own logger 0"));
}

#[test]
fn processes_and_node_tell_what_they_did() {
    let job = talks();
    job.completes();
    let tries = job.run().tries();
    for row in &tries {
        let log = job.run().text(&format!("logs/sys/node/0/{}.txt", row["Process"]));
        assert!(log.contains(&row["Mini-batch Id"]), "{log}");
        assert!(log.contains(&row["Process Id"]) && log.contains(&row["Ip"]), "its address and id:\n{log}");
        assert!(log.contains(&row["Status"]), "{log}");
    }
    let main = job.run().text("logs/sys/node/0/_main.txt");
    let pids: std::collections::BTreeSet<_> = tries.iter().map(|row| &row["Process Id"]).collect();
    for pid in pids {
        assert!(main.contains(pid.as_str()), "process {pid} is not in\n{main}");
    }
    assert!(main.contains("exits with returncode 0."), "{main}");
    let master = job.run().text("logs/sys/master_role.txt");
    for part in
        ["node 0 joined", "5 mini-batches", "the job is running", "the job is finalizing", "completed"]
    {
        assert!(master.contains(part), "{part:?} is not in\n{master}");
    }
}

#[test]
fn job_result_tells_counts_thresholds_and_where_to_go_on() {
    let job = talks().with("error_threshold", 5);
    job.completes();
    let text = job.run().text("logs/job_result.txt");
    for part in [
        "completed: 2 of 10 items are missing from the result\n",
        "5 scheduled, 4 succeeded, 1 failed",
        "10 total, 8 succeeded, 2 failed",
        "error_threshold 5",
        "output/parallel_run_step.txt",
        "failed_mini_batches.jsonl",
        "prs resume",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let overview =
        job.run().files("logs").into_iter().find(|name| name.contains("job_progress_overview")).unwrap();
    let overview = job.run().text(&overview);
    let last = overview.trim_end().lines().last().unwrap();
    assert!(last.contains("completed: 2 of 10 items"), "the result stands at the end:\n{overview}");
    assert!(overview.contains("5 of 5 mini-batches processed, 1 failed"), "{overview}");
}

#[test]
fn logs_are_there_while_the_job_runs() {
    let script = r#"
import logging
from azureml_user.parallel_run import EntryScript
from marks import wait_for

def run(mini_batch, context):
    if context.minibatch_index == 1:
        print("I am here")
        logging.info("so am I")
        EntryScript().logger.info("and I")
        wait_for("go")
    return mini_batch
"#;
    let job = Job::new(script).with_files(6);
    let mut submit = job.start_submit(&[]);
    let begun = std::time::Instant::now();
    submit.wait_until("every line of the script", || {
        let said = job.run().logs("user", ".txt");
        ["I am here", "so am I", "and I"].iter().all(|part| said.contains(part))
    });
    submit.wait_until("the mini-batches that are done", || {
        job.run().text_so_far("logs/sys/job_report/processed_mini-batches.csv").matches("RUN_DONE").count()
            == 2
    });
    submit.wait_until("the state in every log", || {
        let overview = job.run().logs("", ".txt");
        overview.contains("mini-batches processed") && overview.contains("the job is running")
    });
    submit.wait_until("the counts of the processes", || {
        job.run().text_so_far("logs/sys/job_report/process_summary.csv").contains("process0")
    });
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    job.mark("go");
    job.has_completed(&submit.wait());
}
