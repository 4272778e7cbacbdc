//! The list of jobs of a fleet at its servers: every server sees a change at once, whatever becomes of Redis.

use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Web};
use serde_json::Value;

const ECHO: &str = "
def run(mini_batch):
    return [open(path).read() for path in mini_batch]
";
const PATIENCE: Duration = Duration::from_mins(2);

fn job(fleet: &Fleet) -> Job {
    let job = fleet.job(Job::new(ECHO)).with_files(4).with("mini_batch_size", 1);
    job.with_runtime_folder()
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &[])
}

fn list(web: &Web) -> Value {
    web.get("/api/v1/jobs").json(200)
}

/// What the list of a server says of a job; nothing where it has none.
fn listed(web: &Web, id: &str) -> Option<Value> {
    let list = list(web);
    list["value"].as_array().unwrap().iter().find(|job| job["job_id"] == id).cloned()
}

#[track_caller]
fn is_listed_as(web: &Web, id: &str, state: &str) -> Value {
    wait_for(&format!("{id} is listed as {state}"), PATIENCE, || {
        listed(web, id).filter(|job| job["state"] == state)
    })
}

#[test]
fn every_server_lists_what_changes_and_goes_on_over_the_loss_of_redis() {
    let fleet = Fleet::start();
    let job = job(&fleet);
    let webs = [served(&job), served(&job)];
    for web in &webs {
        wait_for("the index is filled", PATIENCE, || list(web)["partial"].is_null().then_some(()));
        assert_eq!(list(web)["total"], 0);
    }
    let id = fleet.hand_in(&job);
    let handed_in = Instant::now();
    for web in &webs {
        let job = is_listed_as(web, &id, "queued");
        assert_eq!((&job["target"], &job["incarnation"]), (&"default".into(), &1.into()), "{job}");
    }
    // A copy asks once a second; the rest is the slowness of this machine.
    assert!(handed_in.elapsed() < Duration::from_secs(10), "{:?}", handed_in.elapsed());
    for web in &webs {
        wait_for("the index says that no worker is there", PATIENCE, || {
            (listed(web, &id)?["attention"]["code"] == "no-worker").then_some(())
        });
    }
    let _worker = fleet.worker(&job, &[]);
    for web in &webs {
        let ended = is_listed_as(web, &id, "completed");
        assert_eq!((&ended["complete"], &ended["mini_batches"]["succeeded"]), (&true.into(), &4.into()));
        assert!(ended["attention"].is_null() && ended["ended_at"].is_string(), "{ended}");
    }

    // While Redis is away, storage has to do.
    fleet.redis.kill();
    for web in &webs {
        assert_eq!(listed(web, &id).unwrap()["state"], "completed");
    }
    // It comes back without anything in it: no server forgets a job, and one fills the index again.
    fleet.redis.wipe_and_restart();
    for web in &webs {
        wait_for("the index is filled again", PATIENCE, || {
            let list = list(web);
            assert_eq!(list["total"], 1, "{list}");
            (fleet.redis_cli(&["HEXISTS", "prs:jobs:index", "filling"]).trim() == "1").then_some(())
        });
        assert_eq!(listed(web, &id).unwrap()["state"], "completed");
    }
    assert_eq!(fleet.redis_cli(&["HEXISTS", "prs:jobs", &id]).trim(), "1");

    job.command(&["rm", &id, "--yes"]).expect_code(0);
    for web in &webs {
        wait_for("the removed job is gone", PATIENCE, || listed(web, &id).is_none().then_some(()));
    }
}

#[test]
fn an_index_that_does_not_say_what_storage_has_is_set_right() {
    let fleet = Fleet::apart();
    let job = job(&fleet);
    let _worker = fleet.worker(&job, &[]);
    let result = fleet.completes(&job);
    let id = result["job_id"].as_str().unwrap();
    let web = served(&job);
    is_listed_as(&web, id, "completed");
    // A job that is not in storage, and one that the index does not have.
    let summary = fleet.redis_cli(&["HGET", "prs:jobs", id]);
    let ghost = summary.trim().replace(id, "ghost").replace("completed", "running");
    let ghost =
        ghost.split(',').map(|part| if part.starts_with("\"as_of_us\"") { "\"as_of_us\":1}" } else { part });
    let ghost = ghost.collect::<Vec<_>>().join(",");
    fleet.redis_cli(&["HSET", "prs:jobs", "ghost", &ghost]);
    let last: u64 = fleet.redis_cli(&["HGET", "prs:jobs:index", "last"]).trim().parse().unwrap();
    fleet.redis_cli(&["ZADD", "prs:jobs:changed", &(last + 1).to_string(), "ghost"]);
    assert!(is_listed_as(&web, "ghost", "running")["links"].is_object());
    wait_for("the ghost is gone", PATIENCE, || listed(&web, "ghost").is_none().then_some(()));
    assert!(listed(&web, id).is_some());
}
