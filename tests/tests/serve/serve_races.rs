//! Many who change the same at two servers at once, each of whom saw the same version of it: one of them wins, and the others are told that
//! it is another now. And what callers who look again and again are told, until they may not look any more.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use prs_tests::deadline::{comes_within, wait_for};
use prs_tests::harness::served::Watching;
use prs_tests::harness::{Answer, Fleet, HOLDS, Job, Web};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const FORM: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=b");
const CREATE: (&str, &str) = ("If-None-Match", "*");
const PATIENCE: Duration = Duration::from_mins(2);
/// How many change the same side by side.
const TIMES: usize = 50;
/// A revoked token is refused after so long at most, and what a slow machine adds.
const REVOKED: Duration = Duration::from_secs(10 + 5);
const DEPLOYMENT: &str = "
type: model
model: {path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
";

/// A folder with what a deployment needs, and a job whose mini-batches run side by side: one that is held keeps no other back.
fn job(script: &str) -> Job {
    let job = Job::new(script).with_files(3).with("mini_batch_size", 1).with("process_count_per_node", 3);
    let job = job.with_runtime_folder();
    for (name, text) in [
        ("src/score.py", "def run(batch):\n    return batch\n"),
        ("model/weights", "one"),
        ("letters/a", "a"),
    ] {
        fs::create_dir_all(job.path(name).parent().unwrap()).unwrap();
        fs::write(job.path(name), text).unwrap();
    }
    job
}

fn served(job: &Job) -> Web {
    let rates = ["--write-rate", "10000", "--read-rate", "10000", "--max-requests-of-one", "500"];
    Web::of_user(job, &rates)
}

/// The archive of the code of the deployment.
fn code(job: &Job) -> Vec<u8> {
    let path = job.path("code.tar.gz");
    let (path, folder) = (path.to_str().unwrap(), job.path(""));
    let made = std::process::Command::new("tar")
        .args(["czf", path, "-C", folder.to_str().unwrap(), "src", "model"])
        .status();
    assert!(made.unwrap().success());
    fs::read(path).unwrap()
}

/// The deployment with this description, and its code.
fn form(description: &str, code: &[u8]) -> Vec<u8> {
    let head = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
    let next = "\r\n--b\r\nContent-Disposition: form-data; name=\"code\"; filename=\"code.tar.gz\"\r\n\r\n";
    let file = format!("{DEPLOYMENT}description: {description}\n");
    [head.as_bytes(), file.as_bytes(), next.as_bytes(), code, b"\r\n--b--\r\n"].concat()
}

/// What came of requests that were made side by side, at both servers in turn, each to do `what` in its own words: how often each
/// status was the answer, and the words of those who were not refused.
fn side_by_side(
    webs: [&Web; 2],
    what: &str,
    send: impl Fn(&Web, &str) -> Answer + Sync,
) -> (BTreeMap<u16, usize>, Vec<String>) {
    let answers: Vec<_> = std::thread::scope(|scope| {
        let send = &send;
        let threads = (0..TIMES).map(|at| {
            scope.spawn(move || {
                let name = format!("{what} by {at}");
                (send(webs[at % 2], &name), name)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (mut statuses, mut winners) = (BTreeMap::new(), Vec::new());
    for (answer, name) in answers {
        assert!(answer.status < 500, "{}", answer.text());
        *statuses.entry(answer.status).or_default() += 1;
        if answer.status < 300 {
            winners.push(name);
        }
    }
    (statuses, winners)
}

/// One of those who send `method` to `path`, each with its own body and the tag that is there now, wins, and its change is what is
/// there.
fn one_wins(webs: [&Web; 2], method: &str, path: &str, body: &(dyn Fn(&str) -> Vec<u8> + Sync)) {
    let tag = webs[0].get(path).header("etag").unwrap().to_owned();
    assert_eq!(webs[1].get(path).header("etag"), Some(&*tag), "{path}: both servers have the same tag");
    assert!(!tag.starts_with("W/"), "{path}: {tag}");
    let kind = if method == "PUT" && path.contains("/deployments/") { FORM } else { JSON };
    let headers = [kind, ("If-Match", &*tag)];
    let (statuses, winners) =
        side_by_side(webs, method, |web, name| web.send(method, path, &headers, &body(name)));
    assert_eq!(statuses, BTreeMap::from([(200, 1), (412, TIMES - 1)]), "{method} {path}");
    for web in webs {
        assert_eq!(web.get(path).json(200)["description"], *winners[0], "{method} {path}");
        let told = web.send(method, path, &headers, &body("late")).json(412);
        assert_eq!(told["type"], "/problems/precondition-failed");
        assert_eq!(web.send(method, path, &[kind], &body("blind")).status, 428);
    }
}

/// One of those who delete it wins; the others are told that it is another, or gone.
fn one_deletes(webs: [&Web; 2], path: &str, query: &str) {
    let tag = webs[0].get(path).header("etag").unwrap().to_owned();
    let at = format!("{path}{query}");
    let (statuses, _) =
        side_by_side(webs, "DELETE", |web, _| web.send("DELETE", &at, &[("If-Match", &*tag)], b""));
    let won: usize = [202, 204].iter().filter_map(|done| statuses.get(done)).sum();
    assert_eq!(won, 1, "{path}: {statuses:?}");
    assert!(statuses.keys().all(|status| [202, 204, 404, 412].contains(status)), "{path}: {statuses:?}");
    assert_eq!(webs[1].get(path).status, 404, "{path}");
}

/// One of those who create the same wins.
fn one_creates(webs: [&Web; 2], path: &str, kind: (&str, &str), body: &(dyn Fn(&str) -> Vec<u8> + Sync)) {
    let (statuses, _) =
        side_by_side(webs, "made", |web, name| web.send("PUT", path, &[kind, CREATE], &body(name)));
    assert_eq!(statuses, BTreeMap::from([(201, 1), (412, TIMES - 1)]), "{path}");
}

fn races(webs: [&Web; 2], job: &Job, name: &str) {
    let described = |text: &str| json!({ "description": text }).to_string().into_bytes();
    let endpoint = format!("/api/v1/endpoints/{name}");
    one_creates(webs, &endpoint, JSON, &described);
    one_wins(webs, "PATCH", &endpoint, &described);
    one_wins(webs, "PUT", &endpoint, &described);

    let (deployment, code) = (format!("{endpoint}/deployments/first"), code(job));
    one_creates(webs, &deployment, FORM, &|text| form(text, &code));
    one_wins(webs, "PATCH", &deployment, &described);
    one_wins(webs, "PUT", &deployment, &|text| form(text, &code));
    one_deletes(webs, &deployment, "?yes=true");
    one_deletes(webs, &endpoint, "?yes=true");

    // A version that is there has its content for good.
    let version = format!("/api/v1/registry/data/{name}/versions/3");
    let data = |text: &str| {
        let path = format!("s3://fleet/{}/", text.replace(' ', "-"));
        json!({ "type": "uri_folder", "path": path, "description": text }).to_string().into_bytes()
    };
    let (statuses, _) =
        side_by_side(webs, "made", |web, text| web.send("PUT", &version, &[JSON], &data(text)));
    assert_eq!(statuses, BTreeMap::from([(201, 1), (409, TIMES - 1)]), "{version}");
    one_wins(webs, "PATCH", &version, &described);
    one_deletes(webs, &version, "");
}

#[test]
fn one_of_many_at_two_servers_of_this_machine_wins() {
    let job = job("");
    let (one, other) = (served(&job), served(&job));
    races([&one, &other], &job, "raced");
}

#[test]
fn one_of_many_at_two_servers_of_a_fleet_wins() {
    let fleet = Fleet::apart();
    let job = fleet.job(job(""));
    let (one, other) = (served(&job), served(&job));
    races([&one, &other], &job, "raced-of-fleet");
}

#[test]
fn a_token_that_many_revoke_is_revoked_once() {
    let fleet = Fleet::apart();
    let job = fleet.job(job(""));
    let (one, other) = (served(&job), served(&job));
    let made = one.send("POST", "/api/v1/tokens", &[JSON], br#"{"name": "raced", "role": "read"}"#);
    let id = made.json(201)["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/tokens/{id}");
    let (statuses, _) = side_by_side([&one, &other], "DELETE", |web, _| web.send("DELETE", &path, &[], b""));
    assert_eq!(statuses, BTreeMap::from([(204, TIMES)]), "who comes later finds it done");
    let revoked = |web: &Web| {
        let tokens = web.get("/api/v1/tokens?limit=500").json(200);
        let all = tokens["value"].as_array().unwrap();
        all.iter().find(|token| token["id"] == *id).unwrap()["revoked_at"].clone()
    };
    assert!(revoked(&one).is_string());
    assert_eq!(revoked(&one), revoked(&other));
}

/// The keys whose values differ, with both values.
fn differences(one: &Value, other: &Value) -> Vec<String> {
    let keys = one.as_object().unwrap().keys().filter(|key| one[*key] != other[*key]);
    keys.map(|key| format!("{key}: {} {}", one[key], other[key])).collect()
}

#[test]
fn who_looks_at_a_job_again_and_again_gets_it_when_it_changes() {
    let fleet = Fleet::apart();
    let job = fleet.job(job(HOLDS)).with("compute_target", "looked-at");
    let _worker = fleet.worker(&job, &["--target", "looked-at", "--slots", "3"]);
    let (one, other) = (served(&job), served(&job));
    let id = fleet.hand_in(&job);
    let path = format!("/api/v1/jobs/{id}");
    let state = |answer: &Answer| answer.json(200)["mini_batches"]["succeeded"].clone();
    wait_for("the first mini-batch is done", PATIENCE, || (state(&one.get(&path)) == 1).then_some(()));
    // Rows, tries and what is in hand are published after the count, and change the job once more.
    wait_for("all that changes by itself has changed", PATIENCE, || {
        let told = one.get(&path).json(200);
        (told["processes"] == 3 && told["in_flight"] == 2 && told["rows"] == 1).then_some(())
    });
    let tag = |web: &Web| web.get(&path).header("etag").unwrap().to_owned();
    let mut differ = Vec::new();
    let seen = comes_within(PATIENCE / 6, || {
        let [one, other] = [&one, &other].map(|web| web.get(&path));
        let objects = [one.json(200), other.json(200)];
        differ = differences(&objects[0], &objects[1]);
        let [one, other] = [one, other].map(|answer| answer.header("etag").unwrap().to_owned());
        (one == other).then(|| (one, objects[0].clone()))
    });
    let (seen, object) = seen.unwrap_or_else(|| panic!("both servers have another tag: {differ:?}"));
    assert!(seen.starts_with("W/\"1."), "{seen}");
    for web in [&one, &other] {
        for given in [seen.clone(), format!("\"0\", {seen}"), seen.trim_start_matches("W/").to_owned()] {
            let same = web.ask_with("GET", &path, &[("If-None-Match", &given)], "");
            let is_sent = same.status == 200;
            let changed = if is_sent { differences(&object, &same.json(200)) } else { Vec::new() };
            assert_eq!((same.status, same.body.len()), (304, 0), "{given}: {changed:?}");
            assert_eq!(same.header("etag"), Some(&*seen));
        }
        assert_eq!(web.ask_with("GET", &path, &[("If-None-Match", "W/\"0.0\"")], "").status, 200);
    }
    job.mark("go");
    for web in [&one, &other] {
        let changed = wait_for("it has changed", PATIENCE, || {
            let answer = web.ask_with("GET", &path, &[("If-None-Match", &seen)], "");
            (answer.status == 200 && answer.json(200)["state"] == "completed").then_some(answer)
        });
        assert_ne!(changed.header("etag"), Some(&*seen));
    }
    wait_for("both servers have the same tag of its end", PATIENCE, || {
        (tag(&one) == tag(&other)).then_some(())
    });
}

#[test]
fn the_streams_of_a_revoked_token_end() {
    let fleet = Fleet::apart();
    let job = fleet.job(job(HOLDS)).with("compute_target", "watched");
    let _worker = fleet.worker(&job, &["--target", "watched", "--slots", "3"]);
    let mut webs = [served(&job), served(&job)];
    let id = fleet.hand_in(&job);
    let made = webs[0].send("POST", "/api/v1/tokens", &[JSON], br#"{"name": "watches", "role": "read"}"#);
    let made: Value = made.json(201);
    let (token, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    for web in &mut webs {
        web.set_token(secret);
    }
    let watched = |web: &Web| {
        let page = format!("/jobs/{id}/live");
        [Watching::start(web, &id), Watching::at(web, "/api/v1/events"), Watching::at(web, &page)]
    };
    let watching = webs.each_ref().map(watched);
    job.command(&["token", "revoke", token]).expect_code(0);
    let revoked = Instant::now();
    for streams in &watching {
        for stream in streams {
            wait_for("the stream ends", REVOKED.saturating_sub(revoked.elapsed()), || {
                stream.has_ended().then_some(())
            });
        }
    }
    for web in &webs {
        assert_eq!(web.get("/api/v1/jobs").json(401)["type"], "/problems/wrong-credentials");
    }
    job.mark("go");
}
