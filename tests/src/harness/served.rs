//! What clients of a server see while something behind it fails: all pages and calls asked at once, and streams that are watched.
//!
//! A client gets what is known, or a problem that says what is away, and never after more time than the server has for an answer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::ledger::LedgerErrorKind;

use super::{Answer, Job, Simulated, SimulatedFleet, Simulation, Web};
use crate::deadline::{comes_within, wait_for};

/// A page is right again so long after what was away is back, and what a slow machine adds.
pub const RECOVERY: Duration = Duration::from_secs(3 + 12);
/// An answer to what reads begins within so long, and what a slow machine adds.
pub const READ: Duration = Duration::from_secs(15 + 10);
/// The same of what changes something, and what hands in a job.
pub const WRITE: Duration = Duration::from_secs(30 + 10);
/// The same of what hands in a job.
pub const HANDING_IN: Duration = Duration::from_secs(75 + 10);
/// How long a watcher waits for an event.
const PATIENCE: Duration = Duration::from_mins(2);

/// What people look at of the jobs `running` and `ended` and of the fleet.
const PAGES: [&str; 16] = [
    "/jobs",
    "/jobs/running",
    "/jobs/running/errors",
    "/jobs/running/nodes",
    "/jobs/running/mini-batches",
    "/jobs/running/logs",
    "/jobs/running/settings",
    "/jobs/ended",
    "/jobs/ended/output",
    "/fleet",
    "/endpoints",
    "/registry/data",
    "/admin/servers",
    "/admin/tokens",
    "/admin/audit",
    "/compare?a=running&b=ended",
];
/// What programs ask for.
const CALLS: [&str; 24] = [
    "/api/v1/jobs",
    "/api/v1/jobs/running",
    "/api/v1/jobs/running/errors",
    "/api/v1/jobs/running/failed-items",
    "/api/v1/jobs/running/statistics",
    "/api/v1/jobs/running/nodes",
    "/api/v1/jobs/running/mini-batches?state=failed",
    "/api/v1/jobs/running/mini-batches/3",
    "/api/v1/jobs/running/tries",
    "/api/v1/jobs/running/logs",
    "/api/v1/jobs/running/log-search?q=error",
    "/api/v1/jobs/running/spec",
    "/api/v1/jobs/ended",
    "/api/v1/jobs/ended/outputs",
    "/api/v1/targets",
    "/api/v1/workers",
    "/api/v1/servers",
    "/api/v1/endpoints",
    "/api/v1/registry/data",
    "/api/v1/tokens",
    "/api/v1/audit",
    "/api/v1/whoami",
    "/metrics",
    "/openapi.json",
];

/// Asserts that an answer tells what is known, or what is away, and nothing else.
#[track_caller]
pub fn is_honest(path: &str, answer: &Answer) {
    let text = answer.text();
    match answer.status {
        200..=299 => {}
        502 | 503 => {
            let kind = answer.header("content-type").unwrap_or_default();
            if kind == "application/problem+json" {
                let problem = answer.json(answer.status);
                let names_cause = ["storage", "Storage", "ledger", "broker"]
                    .iter()
                    .any(|server| problem["detail"].as_str().is_some_and(|detail| detail.contains(server)));
                assert!(names_cause, "{path}: {text}");
            } else {
                assert!(kind.starts_with("text/html"), "{path}: {kind}");
            }
        }
        status => panic!("{path}: {status} {text}"),
    }
}

impl Web {
    /// Asks for everything at once; each answer is honest and in time. Gives the paths, with their status.
    pub fn all_is_honest(&self) -> Vec<(&'static str, u16)> {
        let timed = |ask: &dyn Fn() -> Answer| {
            let asked = Instant::now();
            (ask(), asked.elapsed())
        };
        std::thread::scope(|scope| {
            let pages = PAGES.iter().map(|path| scope.spawn(move || (*path, timed(&|| self.page(path)))));
            let calls = CALLS.iter().map(|path| scope.spawn(move || (*path, timed(&|| self.get(path)))));
            let asked: Vec<_> = pages.chain(calls).collect();
            let answers = asked.into_iter().map(|one| one.join().expect("an answer"));
            answers
                .map(|(path, (answer, took))| {
                    is_honest(path, &answer);
                    assert!(took < READ, "{path}: {took:?}");
                    (path, answer.status)
                })
                .collect()
        })
    }

    /// Waits until everything is answered again.
    #[track_caller]
    pub fn all_is_there(&self, since: &str) {
        let mut lacks = Vec::new();
        let is_there = comes_within(RECOVERY, || {
            lacks = self.all_is_honest();
            lacks.retain(|(_, status)| *status != 200);
            lacks.is_empty().then_some(())
        });
        let said = self.program.stderr();
        assert!(
            is_there.is_some(),
            "{RECOVERY:?} after {since} there are not {lacks:?}; the server said:\n{said}"
        );
    }

    /// Asserts that nothing of the program broke.
    #[track_caller]
    pub fn has_not_panicked(&self) {
        let said = self.program.stderr();
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// A client that watches a stream, and the names of the events that came.
#[derive(Debug)]
pub struct Watching {
    events: Arc<Mutex<Vec<String>>>,
    sizes: Arc<Mutex<Vec<usize>>>,
    has_ended: Arc<AtomicBool>,
}

impl Watching {
    /// Begins to watch the job with this id.
    #[track_caller]
    pub fn start(web: &Web, id: &str) -> Self {
        let watching = Self::at(web, &format!("/api/v1/jobs/{id}/events"));
        watching.hears("status");
        watching
    }

    /// Begins to read the stream at this address.
    pub fn at(web: &Web, path: &str) -> Self {
        let address = web.url.trim_start_matches("http://").to_owned();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            web.token()
        );
        let mut stream = TcpStream::connect(&address).expect("the server listens");
        stream.write_all(request.as_bytes()).expect("the server reads");
        let watching = Self { events: Arc::default(), sizes: Arc::default(), has_ended: Arc::default() };
        let (noted, ended) = (Arc::clone(&watching.events), Arc::clone(&watching.has_ended));
        let sizes = Arc::clone(&watching.sizes);
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { break };
                if let Some(name) = line.strip_prefix("event: ") {
                    noted.lock().expect("no thread broke").push(name.to_owned());
                } else if line.starts_with("data: ") {
                    sizes.lock().expect("no thread broke").push(line.len());
                }
            }
            ended.store(true, Ordering::Relaxed);
        });
        watching
    }

    /// Waits for an event of this name, and forgets those before.
    #[track_caller]
    pub fn hears(&self, name: &str) {
        wait_for(&format!("the watcher hears {name}"), PATIENCE, || self.has_heard(name).then_some(()));
    }

    /// Whether an event of this name came; those before it are forgotten then.
    pub fn has_heard(&self, name: &str) -> bool {
        let mut events = self.events.lock().expect("no thread broke");
        let at = events.iter().position(|event| event == name);
        events.drain(..at.map_or(0, |at| at + 1));
        at.is_some()
    }

    /// Bytes of each event that came.
    pub fn sizes(&self) -> Vec<usize> {
        self.sizes.lock().expect("no thread broke").clone()
    }

    /// Whether the stream is over.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// Says what an orchestrator would say, until it is dropped.
#[derive(Debug)]
pub struct Orchestrator {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Orchestrator {
    /// Begins, with this number of its watch.
    pub fn start(fleet: &Arc<SimulatedFleet>, mut made: Simulated, fence: u64) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (fleet, is_over) = (Arc::clone(fleet), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                made.goes_on();
                let parts = made.parts().into_iter().map(|(name, part)| (name, Bytes::from(part)));
                let said = fleet.publish(&made.record.job_id, &parts.collect::<Vec<_>>(), fence);
                // A ledger that is full takes nothing, and it goes on all the same.
                if let Err(refused) = said.and_then(|()| fleet.hear_nodes(&made)) {
                    assert_eq!(refused.kind, LedgerErrorKind::Unavailable, "{refused}");
                }
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Orchestrator {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()));
    }
}

/// A fleet with the jobs `running` and `ended`; and what is known of the former, with the number of its watch.
pub fn two_jobs(job: &Job) -> (Arc<SimulatedFleet>, Simulated, u64) {
    let fleet = Arc::new(SimulatedFleet::start());
    let made = [("running", true), ("ended", false)].map(|(id, is_running)| {
        let folder = job.path(id);
        fs::create_dir(&folder).expect("a new folder");
        let made = Simulation { mini_batches: 1_000, nodes: 4, is_running }.write(id, &folder);
        fleet.bring(id, &folder);
        made
    });
    let [running, _] = made;
    let fence = fleet.enter(&running);
    (fleet, running, fence)
}
