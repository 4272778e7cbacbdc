//! A server whose own servers fail: a ledger that is gone, emptied or full, no broker, a full disk, a folder that is not mounted, damaged
//! statistics, orchestrators that die. A client gets what is known, or a problem that says what is away, and nothing panics.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, Simulated, SimulatedFleet, Simulation, Tmpfs, Web};
use serde_json::json;

const PATIENCE: Duration = Duration::from_mins(2);
/// A page is right again so long after what was away is back, and what a slow machine adds.
const RECOVERY: Duration = Duration::from_secs(3 + 12);
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// What people look at, and what programs ask for, of the jobs `running` and `ended` and of the fleet.
const PAGES: [&str; 10] = [
    "/jobs",
    "/jobs/running",
    "/jobs/running/nodes",
    "/jobs/running/mini-batches",
    "/jobs/running/logs",
    "/jobs/running/settings",
    "/jobs/ended",
    "/jobs/ended/output",
    "/fleet",
    "/endpoints",
];
const CALLS: [&str; 14] = [
    "/api/v1/jobs",
    "/api/v1/jobs/running",
    "/api/v1/jobs/running/errors",
    "/api/v1/jobs/running/statistics",
    "/api/v1/jobs/running/nodes",
    "/api/v1/jobs/running/mini-batches?state=failed",
    "/api/v1/jobs/running/logs",
    "/api/v1/jobs/ended",
    "/api/v1/jobs/ended/outputs",
    "/api/v1/targets",
    "/api/v1/workers",
    "/api/v1/endpoints",
    "/api/v1/registry/data",
    "/api/v1/tokens",
];

fn own(job: Job) -> Job {
    job.with_runtime_folder()
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &["--read-rate", "10000", "--max-requests-of-one", "500"])
}

/// An answer that tells what is known, or what is away.
#[track_caller]
fn is_honest(path: &str, answer: &Answer) {
    let text = answer.text();
    match answer.status {
        200..=299 => {}
        502 | 503 => {
            let kind = answer.header("content-type").unwrap_or_default();
            assert!(kind == "application/problem+json" || kind.starts_with("text/html"), "{path}: {kind}");
        }
        status => panic!("{path}: {status} {text}"),
    }
}

/// Asks for everything at once, while something fails.
fn all_are_honest(web: &Web) -> Vec<u16> {
    std::thread::scope(|scope| {
        let pages = PAGES.iter().map(|path| scope.spawn(move || (path, web.page(path))));
        let calls = CALLS.iter().map(|path| scope.spawn(move || (path, web.get(path))));
        let asked: Vec<_> = pages.chain(calls).collect();
        let answers = asked.into_iter().map(|one| one.join().unwrap());
        answers
            .map(|(path, answer)| {
                is_honest(path, &answer);
                answer.status
            })
            .collect()
    })
}

/// Waits until everything is answered again.
fn all_are_there(web: &Web, since: &str) {
    wait_for(&format!("all is there again after {since}"), RECOVERY, || {
        all_are_honest(web).iter().all(|status| *status == 200).then_some(())
    });
}

/// A client that watches a job, and the names of the events that came.
struct Watching {
    events: Arc<Mutex<Vec<String>>>,
}

impl Watching {
    fn start(web: &Web, id: &str) -> Self {
        let address = web.url.trim_start_matches("http://").to_owned();
        let request = format!(
            "GET /api/v1/jobs/{id}/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
            web.token()
        );
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&events);
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                if let Some(name) = line.strip_prefix("event: ") {
                    noted.lock().unwrap().push(name.to_owned());
                }
            }
        });
        let watching = Self { events };
        watching.hears("status");
        watching
    }

    /// Waits for an event of this name, and forgets those before.
    #[track_caller]
    fn hears(&self, name: &str) {
        wait_for(&format!("the watcher hears {name}"), PATIENCE, || {
            let mut events = self.events.lock().unwrap();
            let at = events.iter().position(|event| event == name)?;
            events.drain(..=at);
            Some(())
        });
    }
}

/// Says what an orchestrator would say, until it is dropped.
struct Orchestrator {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Orchestrator {
    fn start(fleet: &Arc<SimulatedFleet>, mut made: Simulated, fence: u64) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (fleet, is_over) = (Arc::clone(fleet), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                made.goes_on();
                let parts = made.parts().into_iter().map(|(name, part)| (name, Bytes::from(part)));
                fleet.publish(&made.record.job_id, &parts.collect::<Vec<_>>(), fence);
                fleet.hear_nodes(&made);
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

/// A fleet with a job that runs and one that has ended.
fn simulated(job: &Job) -> (Arc<SimulatedFleet>, Simulated, u64) {
    let fleet = Arc::new(SimulatedFleet::start());
    let mut running = None;
    for (id, is_running) in [("running", true), ("ended", false)] {
        let folder = job.path(id);
        fs::create_dir(&folder).unwrap();
        let made = Simulation { mini_batches: 1_000, nodes: 4, is_running }.write(id, &folder);
        fleet.bring(id, &folder);
        if is_running {
            running = Some(made);
        }
    }
    let running = running.unwrap();
    let fence = fleet.enter(&running);
    (fleet, running, fence)
}

fn has_not_panicked(web: &Web) {
    let said = web.program.stderr();
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_ledger_that_is_gone_emptied_or_full_leaves_what_storage_has() {
    let job = own(Job::new(""));
    let (fleet, running, fence) = simulated(&job);
    let variables = fleet.variables();
    let job = variables.iter().fold(job, |job, (name, value)| job.with_own_variable(name, value));
    let web = served(&job);
    {
        let _orchestrator = Orchestrator::start(&fleet, running, fence);
        all_are_there(&web, "the start");
        // It may be read, and takes nothing more.
        fleet.redis.cli(&["config", "set", "maxmemory-policy", "noeviction"]);
        fleet.redis.cli(&["config", "set", "maxmemory", "1"]);
        all_are_honest(&web);
        assert_eq!(web.page("/jobs/ended").status, 200);
        fleet.redis.cli(&["config", "set", "maxmemory", "0"]);
        all_are_there(&web, "a full ledger");
    }
    fleet.redis.kill();
    all_are_honest(&web);
    for path in ["/jobs", "/jobs/running", "/jobs/ended"] {
        let page = web.page(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        assert!(page.text().contains("ended") || page.text().contains("nightly scoring"), "{path}");
    }
    fleet.redis.restart();
    all_are_there(&web, "a ledger that was away");
    fleet.redis.wipe_and_restart();
    all_are_there(&web, "a ledger that was emptied");
    wait_for("the list has both jobs, or says that it is not whole", RECOVERY, || {
        let list = web.get("/api/v1/jobs").json(200);
        let has_both = list["total"] == 2;
        assert!(has_both || !list["partial"].is_null(), "{list}");
        has_both.then_some(())
    });
    // Nobody submits without a broker, and a client that tries is told.
    let spec = json!({ "name": "new", "source_directory": job.path("code"), "entry_script": "main.py",
        "inputs": [{ "type": "file", "path": job.path("data") }] });
    let body = json!({ "spec": spec }).to_string();
    let refused = web.send("POST", "/api/v1/jobs", &[JSON], body.as_bytes());
    assert!(matches!(refused.status, 422 | 502 | 503), "{} {}", refused.status, refused.text());
    has_not_panicked(&web);
}

#[test]
fn damaged_statistics_are_told_and_hide_nothing_else() {
    let job = own(Job::new(""));
    let run = job.path("prs-runs/ended");
    fs::create_dir_all(&run).unwrap();
    Simulation { mini_batches: 1_000, nodes: 4, is_running: false }.write("ended", &run);
    let web = served(&job);
    let below = |name: &str| run.join("logs/sys").join(name);
    let mut places: Vec<_> = ["live", "activity", "summary", "errors", "nodes"]
        .iter()
        .map(|name| below("statistics").join(name))
        .collect();
    places.extend([below("job_report/tries/directory"), below("job_report/tries/failed-000001")]);
    let pages = ["", "/nodes", "/mini-batches", "/mini-batches?state=all", "/logs"];
    for place in &places {
        let whole = fs::read(place).unwrap();
        for seed in 0..12_usize {
            let mut damaged = whole.clone();
            let at = seed * 7_919 % damaged.len();
            damaged[at] ^= 1 << (seed % 8);
            if seed % 4 == 3 {
                damaged.truncate(at);
            }
            fs::write(place, &damaged).unwrap();
            for page in pages {
                let answer = web.page(&format!("/jobs/ended{page}"));
                // A table that cannot be read is a problem of its page alone.
                let is_of_tries = page.starts_with("/mini-batches");
                assert!(
                    answer.status == 200 || (is_of_tries && matches!(answer.status, 409 | 422 | 502 | 503)),
                    "{} bit {at}: {page} {} {}",
                    place.display(),
                    answer.status,
                    answer.text()
                );
            }
        }
        fs::write(place, whole).unwrap();
    }
    assert_eq!(web.page("/jobs/ended/mini-batches").status, 200);
    has_not_panicked(&web);
}

#[test]
fn a_full_disk_is_told_to_who_changes_something() {
    let disk = Tmpfs::mount("8m");
    let job = own(Job::new(""));
    let runs = disk.path().join("prs-runs");
    let run = runs.join("ended");
    fs::create_dir_all(&run).unwrap();
    Simulation { mini_batches: 100, nodes: 1, is_running: false }.write("ended", &run);
    std::os::unix::fs::symlink(&runs, job.path("prs-runs")).unwrap();
    let web = served(&job);
    assert_eq!(web.page("/jobs/ended").status, 200);
    let ballast = disk.fill();
    for path in ["/jobs", "/jobs/ended", "/jobs/ended/nodes", "/jobs/ended/mini-batches"] {
        assert_eq!(web.page(path).status, 200, "{path}");
    }
    let change = json!({ "display_name": "n".repeat(200) }).to_string();
    let refused = web.send("PATCH", "/api/v1/jobs/ended", &[JSON], change.as_bytes());
    assert!(matches!(refused.status, 502 | 503 | 507), "{} {}", refused.status, refused.text());
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    fs::remove_file(ballast).unwrap();
    let changed = web.send("PATCH", "/api/v1/jobs/ended", &[JSON], change.as_bytes());
    assert_eq!(changed.status, 200, "{}", changed.text());
    has_not_panicked(&web);
}

/// Each mini-batch waits a little, so that the job goes on while its orchestrators die.
const SLOW: &str = "
import time
def run(mini_batch):
    time.sleep(0.25)
    return mini_batch
";

#[test]
fn pages_are_right_while_orchestrators_die() {
    let fleet = Fleet::start();
    let job = own(fleet.job(Job::new(SLOW))).with_files(160).with("mini_batch_size", 1).with("node_count", 2);
    // As the fleet names them.
    let names = std::cell::Cell::new(0);
    let hire = || {
        let number = names.replace(names.get() + 1);
        (format!("worker-{number}"), fleet.worker(&job, &[]))
    };
    let mut workers = vec![hire(), hire()];
    let web = served(&job);
    let id = fleet.hand_in(&job);
    let watching = Watching::start(&web, &id);
    let page = format!("/jobs/{id}");
    for kill in 0..3 {
        let owner = wait_for("a worker watches over the job", PATIENCE, || fleet.orchestrator_of(&id));
        let is_owner = |name: &str| {
            owner.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
        };
        let at = workers.iter().position(|(name, _)| is_owner(name));
        let (_, worker) = workers.remove(at.unwrap_or_else(|| panic!("{owner} is one of the workers")));
        assert!(worker.kill(), "kill {kill}");
        workers.push(hire());
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            for answer in [web.page(&page), web.get(&format!("/api/v1/jobs/{id}"))] {
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
        }
    }
    let ended = wait_for("the job ends", PATIENCE, || {
        let object = web.get(&format!("/api/v1/jobs/{id}")).json(200);
        object["ended_at"].is_string().then_some(object)
    });
    assert_eq!((&ended["state"], &ended["mini_batches"]["succeeded"]), (&json!("completed"), &json!(160)));
    watching.hears("end");
    wait_for("the page says so", RECOVERY, || web.page(&page).text().contains("completed").then_some(()));
    has_not_panicked(&web);
}

#[test]
fn a_folder_that_is_not_mounted_is_no_folder_without_jobs() {
    let job = own(Job::new(""));
    let runs = job.path("prs-runs");
    fs::create_dir(&runs).unwrap();
    let disk = Tmpfs::mount_on(&runs, "8m");
    let run = runs.join("ended");
    fs::create_dir(&run).unwrap();
    Simulation { mini_batches: 100, nodes: 1, is_running: false }.write("ended", &run);
    let web = served(&job);
    assert_eq!(web.get("/api/v1/jobs").json(200)["total"], 1);
    drop(disk);
    wait_for("the list says what is the matter", PATIENCE, || {
        let answer = web.get("/api/v1/jobs");
        is_honest("/api/v1/jobs", &answer);
        (answer.status == 503).then_some(())
    });
    let said = web.program.stderr();
    assert!(said.contains("another folder than before"), "{said}");
    // One that is removed is removed.
    let disk = Tmpfs::mount_on(&runs, "8m");
    fs::create_dir(&run).unwrap();
    Simulation { mini_batches: 100, nodes: 1, is_running: false }.write("ended", &run);
    wait_for("the list is there again", PATIENCE, || {
        let answer = web.get("/api/v1/jobs");
        (answer.status == 200 && answer.json(200)["total"] == 1).then_some(())
    });
    job.command(&["rm", "ended", "--yes"]).expect_code(0);
    wait_for("the removed job is gone", PATIENCE, || {
        (web.get("/api/v1/jobs").json(200)["total"] == 0).then_some(())
    });
    drop(disk);
}
