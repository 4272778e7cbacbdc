//! SIGTERM, SIGHUP and Ctrl-C: every command that waits ends soon, with 130, and says how to go on.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prs_tests::deadline::Stopwatch;
use prs_tests::harness::{Job, NAMES};
use rustix::process::Signal;

/// Longest time from the signal to the end of a program that waits.
const SOON: Duration = Duration::from_secs(2);

const SIGNALS: [(Signal, &str); 3] =
    [(Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP"), (Signal::INT, "Ctrl-C")];

/// A server that takes connections and never says a word.
struct Silent {
    port: u16,
    taken: Arc<AtomicUsize>,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        std::thread::spawn(move || {
            let held: Mutex<Vec<TcpStream>> = Mutex::default();
            for connection in listener.incoming().flatten() {
                held.lock().unwrap().push(connection);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { port, taken }
    }

    /// A job whose commands wait for this server in place of each of a fleet's.
    fn job(&self) -> Job {
        let at = format!("127.0.0.1:{}", self.port);
        Job::new(NAMES)
            .with_files(2)
            .with_own_variable("PRS_BROKER_URL", &format!("amqp://{at}/%2f"))
            .with_own_variable("PRS_REDIS_URL", &format!("redis://{at}/0"))
            .with_own_variable("PRS_STORAGE_URL", "s3://bucket/prs")
            .with_own_variable("AWS_ENDPOINT_URL_S3", &format!("http://{at}"))
            .with_own_variable("AWS_ACCESS_KEY_ID", "a")
            .with_own_variable("AWS_SECRET_ACCESS_KEY", "b")
    }
}

#[test]
fn every_command_that_waits_for_a_server_ends_at_a_signal() {
    let server = Silent::start();
    let job = server.job();
    job.write_job_file();
    let commands: [&[&str]; 26] = [
        &["submit", "job.yml"],
        &["submit", "job.yml", "--detach"],
        &["resubmit", "a-job"],
        &["resume", "a-job"],
        &["try", "a-job"],
        &["result", "a-job"],
        &["status", "a-job"],
        &["list"],
        &["show", "a-job"],
        &["stream", "a-job"],
        &["errors", "a-job"],
        &["report", "a-job"],
        &["logs", "a-job", "--follow"],
        &["cancel", "a-job"],
        &["rm", "a-job", "--yes"],
        &["gc"],
        &["dataset", "list"],
        &["model", "list"],
        &["environment", "list"],
        &["component", "list"],
        &["endpoint", "list"],
        &["deployment", "list", "--endpoint", "an-endpoint"],
        &["invoke", "an-endpoint"],
        &["token", "list"],
        &["workers"],
        &["job", "list"],
    ];
    for (at, words) in commands.iter().enumerate() {
        // Each with one of them; all with each would only take longer.
        let (signal, name) = SIGNALS[at % SIGNALS.len()];
        let before = server.taken.load(Ordering::SeqCst);
        let mut command = job.start(words);
        command.wait_until("a connection", || server.taken.load(Ordering::SeqCst) > before);
        let watch = Stopwatch::start();
        assert!(command.signal(signal), "{words:?} does not wait");
        let ended = command.wait();
        assert!(watch.elapsed() < SOON, "{words:?} took {:?}", watch.elapsed());
        ended.expect_code(130);
        let told = ended.stderr.lines().last().unwrap_or_default();
        assert!(told.contains(&format!("interrupted ({name})")), "{words:?}: {told}");
    }
    for words in [["worker", "--slots=1"], ["serve", "--listen=127.0.0.1:0"]] {
        for (signal, _) in SIGNALS {
            let before = server.taken.load(Ordering::SeqCst);
            let mut service = job.start(&words);
            service.wait_until("a connection", || server.taken.load(Ordering::SeqCst) > before);
            let watch = Stopwatch::start();
            assert!(service.signal(signal));
            service.wait().expect_code(0);
            assert!(watch.elapsed() < SOON, "{words:?} took {:?}", watch.elapsed());
        }
    }
}

#[test]
fn what_looks_at_a_script_ends_at_a_signal() {
    let job = Job::new(
        "from marks import mark, wait_for\nmark('imports')\nwait_for('go')\ndef run(mini_batch):\n    return []\n",
    );
    let job = job.with_files(2);
    job.write_job_file();
    for (at, words) in [["validate", "job.yml"], ["try", "job.yml"], ["submit", "job.yml"]].iter().enumerate()
    {
        for (signal, name) in SIGNALS {
            let begun = job.marks("imports").len();
            let mut command = job.start(words);
            command.wait_until("the import", || job.marks("imports").len() > begun);
            let watch = Stopwatch::start();
            assert!(command.signal(signal));
            let ended = command.wait();
            assert!(watch.elapsed() < SOON, "{words:?} took {:?}", watch.elapsed());
            ended.expect_code(130);
            assert!(ended.stderr.contains(name), "{at} {words:?}: {}", ended.stderr);
            job.soon_leaves_nothing();
        }
    }
}

/// Waits until the mark `go`, in each mini-batch.
const WAITS: &str = "
from marks import mark, wait_for
def run(mini_batch):
    mark('held')
    wait_for('go')
    return [len(mini_batch)]
";

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let job = Job::new(WAITS).with_files(4);
    let mut submit = job.start_submit_ignoring("HUP INT");
    submit.wait_until("both processes at work", || job.marks("held").len() == 2);
    for signal in [Signal::HUP, Signal::INT] {
        assert!(submit.signal(signal));
    }
    // SIGTERM would end it; the others have been there before.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!submit.has_ended(), "{}", submit.stderr());
    job.mark("go");
    job.has_completed(&submit.wait());
}

#[test]
fn a_closed_terminal_ends_an_embedded_run_in_order() {
    let job = Job::new(WAITS).with_files(4);
    let file = job.write_job_file().display().to_string();
    let run = job.run().path().display().to_string();
    let mut submit = job.start_on_terminal(80, &["submit", &file, "--run-dir", &run]);
    submit.wait_until("both processes at work", || job.marks("held").len() == 2);
    // The terminal goes with the program that has the other end of it.
    assert!(submit.kill());
    job.soon_leaves_nothing();
    assert_eq!(job.run().first_line(), "canceled: interrupted (SIGHUP)");
    job.mark("go");
    job.has_completed(&job.resume());
}
