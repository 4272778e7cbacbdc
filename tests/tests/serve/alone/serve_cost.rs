//! What pages about jobs of any size cost: bytes, calls to storage and ledger, and bytes that are read. Nothing of it depends on how many
//! mini-batches a job has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prs_tests::deadline::wait_for;
use prs_tests::harness::served::Watching;
use prs_tests::harness::{Job, LISTS_ALL, LISTS_FOLDER, Redis, Simulated, SimulatedFleet, Simulation, Web};

const PATIENCE: Duration = Duration::from_mins(2);
/// Nodes of a job, and workers of a target.
const NODES: u32 = 500;
/// Objects that a list of tries reads: the record, the directory and four parts, each of a few rows at least.
const MOST_OF_TRIES: usize = 7;
const SIZES: [u64; 3] = [10, 10_000, 1_000_000];

/// Looks at a job that are told, and the most KB of each; a picture may be as many KB ahead of that.
const LOOKS: usize = 10;
const MOST_OF_LOOK: usize = 16;
const AHEAD: usize = 40;
/// Objects that an address of a job asks for at most, whatever it gives: the directory, parts of both tables of tries, what was printed.
const MOST_OF_ANY: usize = 40;

/// The most KB of the overview of a job of ten thousand mini-batches on four nodes.
const TYPICAL: usize = 60;

/// The pages of a job, with the most KB of each and the most when they are compressed.
const PAGES: [(&str, usize, usize); 7] = [
    ("", 100, 18),
    ("/nodes", 60, 12),
    ("/mini-batches", 60, 12),
    ("/mini-batches?state=all", 60, 12),
    ("/mini-batches?state=running", 60, 12),
    ("/mini-batches?state=slow", 60, 12),
    ("/mini-batches?state=waiting", 60, 12),
];

fn own(job: Job) -> Job {
    job.with_runtime_folder()
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &[])
}

/// Bytes of a page, and of the page as it goes to a browser.
#[track_caller]
fn sizes(web: &Web, path: &str) -> (usize, usize) {
    let plain = web.page(path);
    assert_eq!(plain.status, 200, "{path}: {}", plain.text());
    let headers = [("Accept", "text/html"), ("Accept-Encoding", "gzip")];
    let packed = web.ask_with("GET", path, &headers, "");
    assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
    (plain.body.len(), packed.body.len())
}

/// Whether one is not more than half as large again as the other: pictures of a few rounds of mini-batches and of hundreds differ.
fn are_alike(one: usize, other: usize) -> bool {
    one.max(other) * 2 <= one.min(other) * 3
}

/// What is wrong with the size of a page.
fn excess(what: &str, (html, packed): (usize, usize), (most, most_packed): (usize, usize)) -> Option<String> {
    let fits = html <= most << 10 && packed <= most_packed << 10;
    (!fits).then(|| format!("{what}: {html} bytes of {most} KB, {packed} compressed of {most_packed} KB"))
}

#[track_caller]
fn fits(what: &str, found: (usize, usize), most: (usize, usize)) {
    assert_eq!(excess(what, found, most), None);
}

#[test]
fn fifty_of_ten_thousand_jobs_are_a_small_page() {
    let job = own(Job::new(""));
    let runs = job.path("prs-runs");
    let first = runs.join("score-00000");
    fs::create_dir_all(&first).unwrap();
    let made = Simulation { mini_batches: 10_000, nodes: 4, is_running: false }.write("score-00000", &first);
    for at in 1..10_000_u64 {
        let id = format!("score-{at:05}");
        let mut record = made.record.clone();
        record.submitted_us -= at * 1_000_000;
        record.job_id.clone_from(&id);
        if let Some(result) = &mut record.result {
            result.job_id.clone_from(&id);
        }
        let folder = runs.join(&id);
        fs::create_dir(&folder).unwrap();
        let body = prs_common::seal::seal(serde_json::to_string_pretty(&record).unwrap());
        fs::write(folder.join("job.json"), body).unwrap();
    }
    let web = served(&job);
    let all = wait_for("all are listed", PATIENCE, || {
        let list = web.get("/api/v1/jobs?limit=1").json(200);
        (list["partial"].is_null()).then_some(list)
    });
    assert_eq!(all["total"], 10_000);
    fits("/jobs", sizes(&web, "/jobs"), (45, 9));
    let found = web.get("/api/v1/jobs?q=score-0123&state=completed").json(200);
    assert_eq!(found["total"], 10, "{found}");
}

/// What asks a server of the tests' own, told by it.
struct Monitor {
    lines: Arc<Mutex<Vec<String>>>,
    marks: AtomicU32,
}

impl Monitor {
    fn start(redis: &Redis) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                noted.lock().unwrap().push(line);
            }
        });
        Self { lines, marks: AtomicU32::new(0) }
    }

    /// Waits until all that Redis was asked is noted, and gives it.
    fn take(&self, redis: &Redis) -> Vec<String> {
        let mark = format!("mark-{}", self.marks.fetch_add(1, Ordering::Relaxed));
        redis.cli(&["echo", &mark]);
        wait_for("the monitor has seen the mark", PATIENCE, || {
            self.lines.lock().unwrap().iter().any(|line| line.contains(&mark)).then_some(())
        });
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    /// The calls about what has this in its keys.
    fn calls(&self, redis: &Redis, about: &str) -> Vec<String> {
        let is_call = |line: &String| line.contains(about) && !line.contains("[0 lua]");
        self.take(redis).into_iter().filter(is_call).collect()
    }
}

/// The calls for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Calls {
    storage: Vec<(String, String)>,
    ledger: usize,
}

/// A job that was simulated, with the number of its orchestrator where it runs.
struct Made {
    id: String,
    simulated: Simulated,
    fence: Option<u64>,
}

impl Made {
    /// Says for the orchestrator and the nodes what they would say each second.
    fn say(&self, fleet: &SimulatedFleet) {
        let Some(fence) = self.fence else { return };
        fleet.hear_nodes(&self.simulated).unwrap();
        let parts = self.simulated.parts().into_iter().map(|(name, part)| (name, Bytes::from(part)));
        fleet.publish(&self.id, &parts.collect::<Vec<_>>(), fence).unwrap();
    }

    /// The first who reads waits for what is published for them.
    fn is_read_first(&self, fleet: &SimulatedFleet, web: &Web) {
        let is_shown = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(web.page(&format!("/jobs/{}", self.id)).status, 200);
                is_shown.store(true, Ordering::Relaxed);
            });
            while !is_shown.load(Ordering::Relaxed) {
                self.say(fleet);
            }
        });
    }

    /// What an address of the job costs that was asked before; the keeper of the index of jobs may ask for the job in between.
    fn calls(&self, fleet: &SimulatedFleet, (web, monitor): (&Web, &Monitor), path: &str) -> Calls {
        let id = &self.id;
        let look = || {
            self.say(fleet);
            drop((monitor.take(&fleet.redis), fleet.s3.requests()));
            assert_eq!(web.page(path).status, 200, "{path}");
            let ledger = monitor.calls(&fleet.redis, &format!("{{{id}}}"));
            let storage: Vec<_> =
                fleet.s3.requests().into_iter().filter(|(_, key)| key.contains(id)).collect();
            assert!(storage.iter().all(|(_, key)| !key.contains("segments/")), "{storage:?}");
            Calls { storage, ledger: ledger.len() }
        };
        (0..3).map(|_| look()).min_by_key(|calls| calls.ledger + calls.storage.len()).unwrap()
    }
}

fn job_of(fleet: &SimulatedFleet) -> Job {
    fleet.variables().iter().fold(own(Job::new("")), |job, (name, value)| job.with_own_variable(name, value))
}

/// How the page of a longer job differs in size from that of a shorter one, where that is not about the same.
fn differ(what: &str, shorter: (usize, usize), longer: (usize, usize)) -> Option<String> {
    let is_alike = are_alike(shorter.0, longer.0) && are_alike(shorter.1, longer.1);
    (!is_alike).then(|| format!("{what}: {longer:?} bytes, and {shorter:?} of the shorter job"))
}

/// Writes a job as if it were one of `here`; of one that runs the lock is held as long as the file is.
fn written(here: &Job, id: &str, simulation: Simulation) -> (Simulated, fs::File) {
    let folder = here.path("prs-runs").join(id);
    fs::create_dir_all(&folder).unwrap();
    let simulated = simulation.write(id, &folder);
    // A program that works there holds the lock.
    let lock = fs::File::create(folder.join(".lock")).unwrap();
    if simulation.is_running {
        lock.lock().unwrap();
    }
    (simulated, lock)
}

#[test]
fn pages_cost_the_same_whatever_the_length_of_a_job() {
    let here = own(Job::new(""));
    let mut made = Vec::new();
    for mini_batches in SIZES {
        for is_running in [false, true] {
            let id = format!("score-{mini_batches}-{is_running}");
            let (simulated, lock) =
                written(&here, &id, Simulation { mini_batches, nodes: NODES, is_running });
            made.push((Made { id, simulated, fence: None }, lock));
        }
    }
    let mut typical = Vec::new();
    for is_running in [false, true] {
        let id = format!("typical-{is_running}");
        typical.push(written(&here, &id, Simulation { mini_batches: 10_000, nodes: 4, is_running }));
    }
    let web = served(&here);
    let mut wrong = Vec::new();
    for (page, most, most_packed) in PAGES {
        // What is typical, and what is large.
        for is_running in [false, true] {
            let what = format!("/jobs/typical-{is_running}{page}");
            wrong.extend(excess(&what, sizes(&web, &what), (TYPICAL.min(most), most_packed)));
        }
        for is_running in [false, true] {
            let mut before = None;
            for mini_batches in SIZES {
                let what = format!("/jobs/score-{mini_batches}-{is_running}{page}");
                let found = sizes(&web, &what);
                wrong.extend(excess(&what, found, (most, most_packed)));
                if mini_batches == SIZES[2] {
                    wrong.extend(differ(&what, before.unwrap(), found));
                }
                before = Some(found);
            }
        }
    }
    assert_eq!(web.get("/api/v1/jobs/score-1000000-true").json(200)["state"], "running");
    assert_eq!(wrong, Vec::<String>::new());
    drop(web);

    // The same jobs in storage and ledger of a fleet.
    let fleet = SimulatedFleet::start();
    let monitor = Monitor::start(&fleet.redis);
    let job = job_of(&fleet);
    for (one, _) in &mut made {
        fleet.bring(&one.id, &here.path("prs-runs").join(&one.id));
        one.fence = one.id.ends_with("true").then(|| fleet.enter(&one.simulated));
    }
    let web = served(&job);
    for (at, (page, ..)) in PAGES.into_iter().enumerate() {
        let mut before = BTreeMap::new();
        for (one, _) in &made {
            if at == 0 {
                one.is_read_first(&fleet, &web);
            }
            let calls = one.calls(&fleet, (&web, &monitor), &format!("/jobs/{}{page}", one.id));
            // The record, and the list of errors of one that runs; of its tries the directory and parts. What hosts did is looked for by
            // a listing.
            let lists = usize::from(page == "/nodes");
            let most = match (one.fence.is_some(), page.starts_with("/mini-batches")) {
                (false, false) => (0, 1 + lists),
                (true, false) => (1, 2 + lists),
                (false, true) => (0, MOST_OF_TRIES),
                (true, true) => (1, MOST_OF_TRIES),
            };
            assert!(calls.ledger <= most.0 && calls.storage.len() <= most.1, "{}{page}: {calls:?}", one.id);
            let count = (calls.ledger, calls.storage.len());
            // A list of tries may look into more parts where there are more, up to so many.
            let is_of_tries = page.starts_with("/mini-batches");
            if let Some(shorter) = before.insert(one.fence.is_some(), count)
                && one.id.contains("1000000")
                && !is_of_tries
            {
                assert_eq!(count, shorter, "{}{page}", one.id);
            }
        }
    }
    // Who watches the largest is sent no more with a look than a line takes, but for a picture now and then.
    let (largest, _) = made.iter().find(|(one, _)| one.id == "score-1000000-true").unwrap();
    let watching = Watching::at(&web, &format!("/jobs/{}/live", largest.id));
    let sizes = wait_for("looks at the largest job are told", PATIENCE, || {
        largest.say(&fleet);
        Some(watching.sizes()).filter(|sizes| sizes.len() >= LOOKS)
    });
    let mut sum = 0;
    for (at, size) in sizes.iter().enumerate() {
        sum += size;
        assert!(sum <= (at + 1) * (MOST_OF_LOOK << 10) + (AHEAD << 10), "{sizes:?}");
    }
    drop(watching);
    // How a job stands: its record, and one look at the ledger while it runs.
    for (one, _) in &made {
        let calls = one.calls(&fleet, (&web, &monitor), &format!("/api/v1/jobs/{}", one.id));
        let most = usize::from(one.fence.is_some());
        assert!(calls.ledger <= most && calls.storage.len() <= 1, "{}: {calls:?}", one.id);
    }
}

/// Pages of a job, beside [`PAGES`], with the most KB of each and the most when they are compressed.
const OTHER_PAGES: [(&str, usize, usize); 15] = [
    ("/errors", 60, 12),
    ("/errors?sort=-last_at&from=20", 60, 12),
    ("/errors/part/table-{group}", 20, 4),
    ("/errors/{group}", 100, 20),
    ("/logs", 60, 12),
    ("/logs?in=user%2Fstdout%2F", 60, 12),
    ("/logs?in=user%2Fstdout%2F2%2F", 60, 12),
    ("/logs?kind=stdout&node=0", 60, 12),
    ("/logs?name=process", 60, 12),
    ("/logs/job_errors.json", 300, 60),
    ("/mini-batches/3", 60, 12),
    ("/nodes/0", 60, 12),
    ("/output", 60, 12),
    ("/settings", 60, 12),
    ("/code", 60, 12),
];
/// Addresses that list all below a folder, and which: what they give may be in any of its folders.
const LIST_ALL: [(&str, &str); 6] = [
    ("/logs?name=process", "logs/"),
    ("/log-search", "logs/"),
    ("/logs.tar.gz", "logs/"),
    ("/outputs", "output/"),
    ("/perf", "logs/perf/"),
    ("/output", "output/"),
];

#[test]
fn no_address_of_a_job_lists_or_reads_segments_or_lists_more_than_it_gives() {
    let here = own(Job::new(""));
    let fleet = SimulatedFleet::start();
    let mut jobs = Vec::new();
    for (id, is_running) in [("running", true), ("ended", false)] {
        let (simulated, _lock) =
            written(&here, id, Simulation { mini_batches: 10_000, nodes: 4, is_running });
        for node_id in 0..4 {
            let folder = here.path(&format!("prs-runs/{id}/logs/user/stdout/{node_id}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("process000.stdout.txt"), "it says something\n").unwrap();
        }
        fleet.bring(id, &here.path("prs-runs").join(id));
        let fence = is_running.then(|| fleet.enter(&simulated));
        jobs.push(Made { id: id.to_owned(), simulated, fence });
    }
    let job = job_of(&fleet);
    let web = served(&job);
    let document = web.get("/openapi.json").json(200);
    let of_jobs = document["paths"].as_object().unwrap().iter().filter(|(path, methods)| {
        path.starts_with("/api/v1/jobs/{job}") && methods.get("get").is_some() && !path.ends_with("/events")
    });
    let of_jobs: Vec<String> = of_jobs.map(|(path, _)| path.clone()).collect();
    assert!(of_jobs.len() > 20, "{of_jobs:?}");
    let mut wrong = Vec::new();
    for one in &jobs {
        one.is_read_first(&fleet, &web);
        let groups = web.get(&format!("/api/v1/jobs/{}/errors", one.id)).json(200);
        let group = groups["value"][0]["group"].as_str().unwrap();
        let filled = |path: &str| {
            let path = path.replace("{job}", &one.id).replace("{group}", group).replace("{index}", "3");
            let path = path.replace("{node_id}", "0").replace("/logs/{path}", "/logs/job_errors.json");
            let path = path.replace("{path}", "nothing");
            match path.rsplit('/').next() {
                Some("log-lines") => format!("{path}?path=job_errors.json"),
                Some("log-search") => format!("{path}?q=nothing"),
                _ => path,
            }
        };
        let pages = PAGES.iter().map(|(page, ..)| *page).chain(OTHER_PAGES.iter().map(|(page, ..)| *page));
        let pages = pages.map(|page| (false, format!("/jobs/{{job}}{page}")));
        let extra = ["/errors/{group}/items?limit=5", "/failed-items?limit=5", "/logs?kind=stdout&node=0"];
        let extra = extra.map(|path| (true, format!("/api/v1/jobs/{{job}}{path}")));
        let calls = of_jobs.iter().map(|path| (true, path.clone())).chain(extra);
        let mut tells = BTreeMap::new();
        for (is_call, path) in pages.chain(calls) {
            one.say(&fleet);
            drop(fleet.s3.requests());
            let path = filled(&path);
            let answer = if is_call { web.get(&path) } else { web.page(&path) };
            // What was never run has no code.
            assert!(answer.status < 500 || path.contains("/code"), "{path}: {}", answer.text());
            let requests = fleet.s3.requests();
            let of_job: Vec<_> = requests
                .iter()
                .filter_map(|(operation, key)| {
                    Some((&**operation, key.split_once(&format!("{}/", one.id))?.1))
                })
                .collect();
            let mut holds = |is_so: bool| {
                if !is_so {
                    wrong.push(format!("{path}: {of_job:?}"));
                }
            };
            holds(of_job.iter().all(|(_, key)| !key.starts_with("segments")));
            let lists: Vec<_> = of_job.iter().filter(|(operation, _)| *operation == LISTS_ALL).collect();
            let bare = path.split('?').next().unwrap();
            let allowed = LIST_ALL.iter().find(|(end, _)| bare.ends_with(end) || path.ends_with(end));
            let is_allowed = |below: &str| allowed.is_some_and(|(_, of)| below == *of);
            // A node has a folder for each kind of its logs.
            let is_of_node = |below: &str| below.starts_with("logs/") && below.ends_with("/0/");
            let many = if bare.ends_with("/nodes/0") { 4 } else { 1 };
            holds(
                lists.iter().all(|(_, below)| is_allowed(below) || is_of_node(below)) && lists.len() <= many,
            );
            let folders = of_job.iter().filter(|(operation, _)| *operation == LISTS_FOLDER).count();
            holds(folders <= 1 && of_job.len() <= MOST_OF_ANY);
            tells.insert(path, answer.status);
        }
        // It is what is there that was asked for.
        let known =
            |end: &str| tells.iter().filter(|(path, status)| path.ends_with(end) && **status == 200).count();
        assert!(known("/logs") == 2 && known("/items") == 1 && known("/errors") == 2, "{tells:?}");
        for (page, most, packed) in OTHER_PAGES {
            let path = filled(&format!("/jobs/{{job}}{page}"));
            if tells[&path] == 200 {
                wrong.extend(excess(&path, sizes(&web, &path), (most, packed)));
            }
        }
        let items = web.get(&format!("/api/v1/jobs/{}/errors/{group}/items?limit=5", one.id)).json(200);
        let lost = items["value"].as_array().unwrap();
        assert!(!lost.is_empty() && lost.len() <= 5 && lost[0]["tries"][0]["status"].is_string(), "{items}");
    }
    assert_eq!(wrong, Vec::<String>::new());
    drop(web);
    // A server that never read the job reads its record, the parts that are shown, and for pages that show errors their list and the code.
    for (method, path, most) in [
        ("HEAD", "", 2),
        ("GET", "/part/table-rate", 2),
        ("GET", "/part/table-plan", 3),
        ("GET", "/nodes", 4),
        ("GET", "/errors", 6),
        ("GET", "", 8),
    ] {
        let web = served(&job);
        drop(fleet.s3.requests());
        let answer = web.ask_with(method, &format!("/jobs/ended{path}"), &[("Accept", "text/html")], "");
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        let requests = fleet.s3.requests();
        let read: BTreeSet<_> = requests.iter().filter(|(_, key)| key.contains("/ended/")).collect();
        assert!((1..=most).contains(&read.len()), "{method} {path}: {read:?}");
    }
}

#[test]
fn a_fleet_of_five_hundred_workers_is_a_small_page() {
    let fleet = SimulatedFleet::start();
    let job = job_of(&fleet);
    fleet.idle("default", NODES);
    let web = served(&job);
    fits("/fleet", sizes(&web, "/fleet"), (50, 10));
    fits("/fleet/default", sizes(&web, "/fleet/default"), (50, 10));
}
