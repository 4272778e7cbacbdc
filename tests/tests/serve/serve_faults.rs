//! A server whose own servers fail: a ledger that is gone, emptied or full, no broker, a full disk, a folder that is not mounted, damaged
//! statistics, orchestrators that die. A client gets what is known, or a problem that says what is away, and nothing panics.

use std::fs;
use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::served::{Orchestrator, RECOVERY, Watching, is_honest, two_jobs};
use prs_tests::harness::{Fleet, Job, Simulation, Tmpfs, Web};
use serde_json::json;

const PATIENCE: Duration = Duration::from_mins(2);
const JSON: (&str, &str) = ("Content-Type", "application/json");

fn own(job: Job) -> Job {
    job.with_runtime_folder()
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &["--read-rate", "10000", "--max-requests-of-one", "500"])
}

#[test]
fn a_ledger_that_is_gone_emptied_or_full_leaves_what_storage_has() {
    let job = own(Job::new(""));
    let (fleet, running, fence) = two_jobs(&job);
    let variables = fleet.variables();
    let job = variables.iter().fold(job, |job, (name, value)| job.with_own_variable(name, value));
    let web = served(&job);
    {
        let _orchestrator = Orchestrator::start(&fleet, running, fence);
        web.all_is_there("the start");
        // It may be read, and takes nothing more.
        fleet.redis.cli(&["config", "set", "maxmemory-policy", "noeviction"]);
        fleet.redis.cli(&["config", "set", "maxmemory", "1"]);
        web.all_is_honest();
        assert_eq!(web.page("/jobs/ended").status, 200);
        fleet.redis.cli(&["config", "set", "maxmemory", "0"]);
        web.all_is_there("a full ledger");
    }
    fleet.redis.kill();
    web.all_is_honest();
    for path in ["/jobs", "/jobs/running", "/jobs/ended"] {
        let page = web.page(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        assert!(page.text().contains("ended") || page.text().contains("nightly scoring"), "{path}");
    }
    fleet.redis.restart();
    web.all_is_there("a ledger that was away");
    fleet.redis.wipe_and_restart();
    web.all_is_there("a ledger that was emptied");
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
    web.has_not_panicked();
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
    web.has_not_panicked();
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
    web.has_not_panicked();
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
    web.has_not_panicked();
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
