//! Requests that come several times, at several servers, some of which are killed: one job comes of them. And what two servers think of a
//! token that is revoked, and of two who change the same.

use std::fs;
use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, DEPLOYMENT, Fleet, Job, NAMES, Web, host_of};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(2);
const JSON: (&str, &str) = ("Content-Type", "application/json");
/// How often a request comes side by side.
const TIMES: usize = 50;
/// Where a server is killed: from when it has noted a request until it has noted that it is done.
const SUBMISSION: [&str; 5] = ["request_begun", "job_picked", "uploaded", "job_listed", "request_done"];
const ON_THIS_MACHINE: [&str; 4] = ["request_begun", "job_picked", "handed_in", "request_done"];
/// A revoked token is refused after so long at most, and what a slow machine adds.
const REVOKED: Duration = Duration::from_secs(10 + 5);

/// A job with three files beside its code, which servers may read.
fn job() -> Job {
    let job = Job::new(NAMES).with_files(3);
    for folder in ["runtime", "model"] {
        fs::create_dir(job.path(folder)).unwrap();
    }
    fs::write(job.path("model/weights"), "one").unwrap();
    fs::write(job.path("deployment.yml"), DEPLOYMENT).unwrap();
    let (runtime, cache) =
        (job.path("runtime").display().to_string(), job.path("cache").display().to_string());
    job.with_own_variable("XDG_RUNTIME_DIR", &runtime).with_own_variable("XDG_CACHE_HOME", &cache)
}

fn served(job: &Job) -> Web {
    let folder = job.path("").display().to_string();
    Web::of_user(job, &["--write-rate", "1000", "--read-rate", "100000", "--allow-path", &folder])
}

/// A server that is killed when it comes to a place for the first time.
fn served_until(job: Job, place: &str) -> (Job, Web) {
    let job = job.with_own_variable("PRS_FAILPOINT", &format!("{place}:1"));
    let web = served(&job);
    (job.with_own_variable("PRS_FAILPOINT", ""), web)
}

/// A request for a job with this name.
fn submission(job: &Job, name: &str) -> (&'static str, Value) {
    let spec = json!({
        "name": name, "source_directory": job.path("code"), "entry_script": "main.py",
        "inputs": [{"name": "pictures", "type": "file", "path": job.path("data")}],
        "mini_batch_size": 1, "run_max_try": 1, "process_count_per_node": 1, "error_threshold": 0,
    });
    ("/api/v1/jobs", json!({ "spec": spec }))
}

fn send(web: &Web, (path, body): &(&str, Value), key: &str) -> Option<Answer> {
    web.try_send("POST", path, &[JSON, ("Idempotency-Key", key)], body.to_string().as_bytes())
}

/// Sends a request again and again, until it is answered; the id of the job.
fn until_answered(web: &Web, request: &(&str, Value), key: &str) -> String {
    let answer = wait_for("the retry is answered", PATIENCE, || {
        send(web, request, key).filter(|answer| answer.status != 409)
    });
    assert!(answer.status < 300, "{}", answer.text());
    id_of(&answer)
}

fn id_of(answer: &Answer) -> String {
    answer.json(answer.status)["job_id"].as_str().unwrap().to_owned()
}

fn completes(web: &Web, id: &str) {
    let path = format!("/api/v1/jobs/{id}?wait_for=ended&timeout=60");
    let ended = wait_for("the job ends", PATIENCE, || {
        let object = web.get(&path).json(200);
        ["completed", "failed", "canceled"].contains(&object["state"].as_str().unwrap()).then_some(object)
    });
    assert_eq!((&ended["state"], &ended["items"]["succeeded"]), (&json!("completed"), &json!(3)), "{ended}");
}

/// Ids of the jobs in storage that were submitted under this name, however far.
fn jobs_called(fleet: &Fleet, name: &str) -> Vec<String> {
    let begins = format!("{name}-");
    let objects = fleet.s3.objects(fleet.bucket()).into_iter();
    let mut ids: Vec<String> = objects
        .filter_map(|(key, _)| {
            let below = key.strip_prefix("prs/index/").or_else(|| key.strip_prefix("prs/jobs/"))?;
            below.split('/').next().filter(|id| id.starts_with(&begins)).map(str::to_owned)
        })
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

/// Sends a request many times at once at both servers; the id of the one job.
fn many_times(webs: [&Web; 2], request: &(&str, Value), key: &str) -> String {
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let sent: Vec<_> =
            (0..TIMES).map(|at| scope.spawn(move || send(webs[at % 2], request, key).unwrap())).collect();
        sent.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut ids = Vec::new();
    for answer in &answers {
        if answer.status == 409 {
            assert_eq!(answer.json(409)["type"], "/problems/request-in-progress");
            assert_eq!(answer.header("retry-after"), Some("1"));
        } else {
            assert!(answer.status < 300, "{}", answer.text());
            ids.push((id_of(answer), answer.header("idempotency-replayed") == Some("true")));
        }
    }
    assert_eq!(ids.iter().filter(|(_, is_again)| !is_again).count(), 1, "one of them made it: {ids:?}");
    let id = ids[0].0.clone();
    assert!(ids.iter().all(|(other, _)| *other == id), "{ids:?}");
    for web in webs {
        assert_eq!(until_answered(web, request, key), id);
    }
    id
}

#[test]
fn fifty_at_two_servers_of_this_machine_are_one_job() {
    let job = job();
    let (one, other) = (served(&job), served(&job));
    let id = many_times([&one, &other], &submission(&job, "fifty"), "fifty");
    completes(&other, &id);
    let runs = fs::read_dir(job.path("prs-runs")).unwrap().flatten();
    let runs: Vec<_> = runs.map(|run| run.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(runs.iter().filter(|name| name.starts_with("fifty-")).count(), 1, "{runs:?}");
}

#[test]
fn fifty_at_two_servers_of_a_fleet_are_one_job() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let _worker = fleet.worker_with(&job, &[], &host_of(&job, &job.path("worker-cache")));
    let (one, other) = (served(&job), served(&job));
    let id = many_times([&one, &other], &submission(&job, "fifty-of-fleet"), "fifty");
    completes(&other, &id);
    assert_eq!(jobs_called(&fleet, "fifty-of-fleet"), [id]);

    job.command(&["endpoint", "create", "-n", "fifty-calls"]).expect_code(0);
    let deployment = job.path("deployment.yml").display().to_string();
    let create = ["deployment", "create", "-f", &deployment, "-e", "fifty-calls", "-n", "fifty-calls"];
    job.command(&create).expect_code(0);
    let call = json!({ "inputs": { "any": { "path": job.path("data"), "type": "uri_folder" } } });
    let id = many_times([&one, &other], &("/api/v1/endpoints/fifty-calls/invoke", call), "fifty-calls");
    completes(&one, &id);
    assert_eq!(jobs_called(&fleet, "fifty-calls"), [id]);
}

#[test]
fn a_retry_at_another_server_of_this_machine_finishes_what_a_killed_one_began() {
    let killed_at = |place: &str| {
        let (job, killed) = served_until(job(), place);
        let other = served(&job);
        let request = submission(&job, "killed");
        assert!(send(&killed, &request, place).is_none(), "{place}");
        killed.program.wait();
        let id = until_answered(&other, &request, place);
        completes(&other, &id);
        let runs = fs::read_dir(job.path("prs-runs")).unwrap().flatten();
        let runs: Vec<_> = runs.map(|run| run.file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(runs.iter().filter(|name| name.starts_with("killed-")).count(), 1, "{place}: {runs:?}");
    };
    std::thread::scope(|scope| {
        for place in ON_THIS_MACHINE {
            scope.spawn(move || killed_at(place));
        }
    });
}

#[test]
fn a_retry_at_another_server_of_a_fleet_finishes_what_a_killed_one_began() {
    let fleet = Fleet::apart();
    let base = fleet.job(job());
    let _worker = fleet.worker_with(&base, &[], &host_of(&base, &base.path("worker-cache")));
    let other = served(&base);
    base.command(&["endpoint", "create", "-n", "killed-calls"]).expect_code(0);
    let deployment = base.path("deployment.yml").display().to_string();
    let create = ["deployment", "create", "-f", &deployment, "-e", "killed-calls", "-n", "killed-calls"];
    base.command(&create).expect_code(0);
    let call = json!({ "inputs": { "any": { "path": base.path("data"), "type": "uri_folder" } } });
    let call = ("/api/v1/endpoints/killed-calls/invoke", call);
    let killed_at = &|place: &str| {
        // With the paths that the other server may read.
        let fatal = fleet.job(job()).with_own_variable("PRS_FAILPOINT", &format!("{place}:1"));
        let allowed = base.path("").display().to_string();
        let start = || {
            Web::of_user(&fatal, &["--write-rate", "1000", "--read-rate", "100000", "--allow-path", &allowed])
        };
        let name = format!("killed-{}", place.replace('_', "-"));
        let killed = start();
        let request = submission(&base, &name);
        assert!(send(&killed, &request, place).is_none(), "{place}");
        killed.program.wait();
        let id = until_answered(&other, &request, place);
        completes(&other, &id);
        assert_eq!(jobs_called(&fleet, &name), [id], "{place}");

        let killed = start();
        let key = format!("{place}-call");
        assert!(send(&killed, &call, &key).is_none(), "{place}");
        killed.program.wait();
        let id = until_answered(&other, &call, &key);
        completes(&other, &id);
        id
    };
    // Each of them waits most of the time.
    let mut called: Vec<String> = std::thread::scope(|scope| {
        let places = SUBMISSION.map(|place| scope.spawn(move || killed_at(place)));
        places.into_iter().map(|place| place.join().unwrap()).collect()
    });
    called.sort();
    assert_eq!(jobs_called(&fleet, "killed-calls"), called);
}

#[test]
fn a_token_that_is_revoked_while_it_is_used_is_refused_at_both_servers_soon() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let made = job.command(&["token", "create", "in-use", "--role", "read", "-o", "json"]).json();
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let mut webs = [served(&job), served(&job)];
    for web in &mut webs {
        web.set_token(secret);
        assert_eq!(web.get("/api/v1/jobs").status, 200);
    }
    job.command(&["token", "revoke", id]).expect_code(0);
    let revoked = Instant::now();
    std::thread::scope(|scope| {
        for web in &webs {
            scope.spawn(move || {
                // It is used all the time.
                while web.get("/api/v1/jobs").status == 200 {
                    assert!(revoked.elapsed() < REVOKED, "{:?}", revoked.elapsed());
                }
                assert_eq!(web.get("/api/v1/jobs").json(401)["type"], "/problems/wrong-credentials");
            });
        }
    });
}
