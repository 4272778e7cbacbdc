//! How the programs end when what they write to does not take it: standard output, standard error, files that may not
//! grow.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use prs_tests::harness::{Fleet, Job, bin_dir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const ECHO: &str = "import os
def run(mini_batch):
    return [os.path.basename(path) for path in mini_batch]
";

/// Runs a line of bash in the job's folder; `$prs` is `prs`, `$worker` the worker, `$submit` submits the job.
fn shell(job: &Job, line: &str) -> Output {
    let file = job.write_job_file();
    let submit = format!("{}/prs submit {}", bin_dir().display(), file.display());
    let mut command = Command::new("bash");
    for variable in ["PRS_BROKER_URL", "PRS_REDIS_URL", "PRS_STORAGE_URL", "PRS_LOG"] {
        command.env_remove(variable);
    }
    command
        .args(["-c", line])
        .current_dir(job.path(""))
        .env("prs", bin_dir().join("prs"))
        .env("worker", bin_dir().join("prs-worker"))
        .env("submit", submit)
        .env("PRS_TEST_TOKEN", job.token())
        .stdin(Stdio::null());
    command.output().unwrap()
}

#[track_caller]
fn expect(output: &Output, code: i32) -> (String, String) {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let signal = output.status.signal();
    assert_eq!((output.status.code(), signal), (Some(code), None), "stdout:\n{stdout}\nstderr:\n{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    (stdout, stderr)
}

fn job() -> Job {
    Job::new(ECHO).with_files(4)
}

/// The state of the run in `folder`, as it is stored.
fn state(job: &Job, folder: &str) -> Value {
    let record = fs::read_to_string(job.path(folder).join("job.json")).unwrap();
    serde_json::from_str::<Value>(&record).unwrap()["state"].clone()
}

#[test]
fn data_that_cannot_be_written_is_an_error_of_every_command() {
    let job = job();
    for format in ["table", "json"] {
        let run = format!("run-{format}");
        let (_, stderr) =
            expect(&shell(&job, &format!("$submit --run-dir {run} -o {format} >/dev/full")), 42);
        for part in
            ["cannot write to standard output", "No space left", &format!("{run}/logs/job_result.txt")]
        {
            assert!(stderr.contains(part), "{part:?} is not said:\n{stderr}");
        }
        assert_eq!(state(&job, &run), "completed", "the job is as it is");
        let commands =
            ["status", "show", "stream", "logs", "result", "resume"].map(|name| format!("{name} {run}"));
        let log = [format!("logs {run} --file job_result.txt"), "list --runs .".to_owned()];
        for command in commands.iter().chain(&log) {
            let (_, stderr) = expect(&shell(&job, &format!("$prs {command} -o {format} >/dev/full")), 42);
            assert!(stderr.contains("cannot write to standard output"), "{command}: {stderr}");
        }
        let file = job.write_job_file();
        expect(&shell(&job, &format!("$prs validate {} -o {format} >/dev/full", file.display())), 42);
    }
    for line in ["$prs --help", "$prs --version", "$prs submit --help", "$worker --help"] {
        expect(&shell(&job, &format!("{line} >/dev/full")), 42);
        let (stdout, _) = expect(&shell(&job, line), 0);
        assert!(!stdout.is_empty(), "{line}");
    }
    job.has_left_nothing();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let job = job();
    // Waits until the reader is gone, so that every write meets a closed pipe.
    let (_, stderr) =
        expect(&shell(&job, "set -o pipefail; { sleep 0.2; exec $submit --run-dir run -o json; } | true"), 0);
    assert!(!stderr.contains("cannot write"), "{stderr}");
    for command in ["status run", "logs run", "logs run --file readme.txt", "show run", "list --runs ."] {
        let line = format!("set -o pipefail; {{ sleep 0.1; exec $prs {command}; }} | true");
        expect(&shell(&job, &line), 0);
    }
}

#[test]
fn standard_error_that_takes_nothing_changes_nothing() {
    let job = job().with("node_count", 2);
    for (number, stderr) in ["/dev/full", "&-"].into_iter().enumerate() {
        let run = format!("run-{number}");
        let line = format!("$submit --run-dir {run} -o json 2>{stderr}");
        let (stdout, _) = expect(&shell(&job, &line), 0);
        let result: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(result["state"], "completed");
        expect(&shell(&job, &format!("PRS_LOG=trace $prs resume {run} 2>{stderr}")), 0);
        expect(&shell(&job, &format!("$prs stream {run} 2>{stderr}")), 0);
        expect(&shell(&job, &format!("$prs status no-such-job 2>{stderr}")), 2);
        expect(&shell(&job, &format!("$prs no-such-command 2>{stderr}")), 2);
        expect(&shell(&job, &format!("$worker 2>{stderr}")), 2);
        expect(&shell(&job, &format!("PRS_LOG=trace $worker --broker no-url 2>{stderr}")), 2);
    }
    job.has_left_nothing();
}

#[test]
fn a_failed_job_is_told_by_its_code_when_nothing_can_be_said() {
    let job = Job::new("def run(mini_batch):\n    raise ValueError('no')\n")
        .with_files(4)
        .with("error_threshold", 0);
    expect(&shell(&job, "$submit --run-dir run >/dev/full 2>/dev/full"), 42);
    assert_eq!(state(&job, "run"), "failed");
}

#[test]
fn a_limit_on_the_size_of_files_is_told_as_what_it_is() {
    let job = Job::new("import signal\ndef run(mini_batch):\n    return ['x' * 5000 for _ in mini_batch]\n")
        .with_files(8);
    // In units of 1,024 bytes: too little for the record of the job, for its logs, for its rows.
    for (number, limit) in [1, 8, 30].into_iter().enumerate() {
        let run = format!("run-{number}");
        let line = format!("ulimit -f {limit}; exec $submit --run-dir {run} -o json");
        let (_, stderr) = expect(&shell(&job, &line), 42);
        assert!(stderr.contains("File too large"), "{limit}: {stderr}");
        job.has_left_nothing();
    }
    // Without the limit the job goes on.
    expect(&shell(&job, "$prs resume run-2 -o json"), 0);
    let rows = fs::read_to_string(job.path("run-2/output/parallel_run_step.txt")).unwrap();
    assert_eq!(rows.lines().count(), 8);
}

#[test]
fn what_a_script_starts_has_signals_as_they_are_by_default() {
    // SIGPIPE and SIGXFSZ, 13 and 25: neither ignored nor caught by what was started without Python's help.
    let script = r#"
import re, subprocess
def run(mini_batch):
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, restore_signals=True).stdout
    ignored = int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16)
    return [str([number for number in (13, 25) if ignored >> (number - 1) & 1])]
"#;
    let job = Job::new(script).with_files(2);
    job.completes();
    assert_eq!(job.run().rows(), ["[]"]);
    // And Python itself was started with the defaults: a signal that is ignored at its start stays so for it.
    let script = r"
import signal
START = [signal.getsignal(number) for number in (signal.SIGPIPE, signal.SIGXFSZ)]
def run(mini_batch):
    return [str([handler == signal.SIG_IGN for handler in START])]
";
    let job = Job::new(script).with_files(2);
    job.completes();
    assert_eq!(job.run().rows(), ["[True, True]"], "Python ignores both, as always");
}

#[test]
fn a_limit_on_addresses_is_told_as_what_it_is() {
    let script = "def run(mini_batch):\n    return [str(len(bytearray(8 << 30))) for _ in mini_batch]\n";
    let job = Job::new(script).with_files(4).with("run_max_try", 1);
    let (_, stderr) = expect(&shell(&job, "ulimit -v 1500000; exec $submit -o json"), 42);
    let said = "MemoryError without a message (ulimit -v gives each process 1464 MiB of addresses here";
    assert!(stderr.contains(said), "{stderr}");
}

#[test]
fn a_worker_whose_files_may_not_grow_tells_the_job() {
    let fleet = Fleet::shared();
    let job = fleet.job(Job::new(ECHO)).with("compute_target", "limited").with_files(4);
    let submit = fleet.start_submit(&job, &[]);
    let said = job.path("limited.err");
    let mut worker = Command::new("bash")
        .args(["-c", "ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(bin_dir().join("prs-worker"))
        .args(["--target", "limited", "--work-dir"])
        .arg(job.path("work"))
        .envs(fleet.variables())
        .env("PRS_TEST_TOKEN", job.token())
        .stdin(Stdio::null())
        .stderr(fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let ended = submit.wait();
    ended.expect_code(42);
    assert!(ended.stderr.contains("File too large"), "{}", ended.stderr);
    // The worker lives, and ends as it is asked to.
    let pid = Pid::from_raw(worker.id() as i32).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = worker.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}\n{}", fs::read_to_string(&said).unwrap());
}
