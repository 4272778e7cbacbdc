//! Servers that are killed under those who watch, beside another one of the same registry, and servers whose clock jumps: who comes again
//! sees the same, and what was under way is done once.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::served::{Orchestrator, Watching, two_jobs};
use prs_tests::harness::{Answer, DEPLOYMENT, Fleet, HOLDS, Job, NAMES, Random, Web, host_of};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const PATIENCE: Duration = Duration::from_mins(2);
const RATES: [&str; 6] = ["--write-rate", "10000", "--read-rate", "100000", "--max-requests-of-one", "500"];

/// The secret of a new token, which all servers take.
fn secret(job: &Job, role: &str) -> String {
    let made = job.command(&["token", "create", "all-servers", "--role", role, "-o", "json"]);
    made.json()["secret"].as_str().unwrap().to_owned()
}

fn state_of(web: &Web, id: &str) -> Value {
    let object = web.get(&format!("/api/v1/jobs/{id}")).json(200);
    json!([
        object["state"],
        object["mini_batches"],
        object["items"],
        object["incarnation"],
        object["submitted_at"]
    ])
}

#[test]
fn who_watches_a_server_that_is_killed_sees_the_same_at_another_and_when_it_is_back() {
    let fleet = Fleet::apart();
    let job = Job::new(HOLDS).with_files(3).with("mini_batch_size", 1).with("compute_target", "watched");
    // All run side by side: one that is held keeps no other back.
    let job = fleet.job(job.with("process_count_per_node", 3).with_runtime_folder());
    let _worker = fleet.worker(&job, &["--target", "watched", "--slots", "3"]);
    let id = fleet.hand_in(&job);
    let secret = secret(&job, "submit");
    let mut killed = Web::start(&job, &RATES);
    let mut other = Web::start(&job, &RATES);
    killed.set_token(&secret);
    other.set_token(&secret);
    let is_held = |web: &Web| state_of(web, &id)[1]["succeeded"] == 1;
    wait_for("a mini-batch is done", PATIENCE, || (is_held(&killed) && is_held(&other)).then_some(()));
    let page = format!("/jobs/{id}");
    let live = format!("{page}/live");
    let watches = |web: &Web| {
        let mut watching: Vec<_> = (0..8).map(|_| Watching::start(web, &id)).collect();
        watching.push(Watching::at(web, &live));
        watching.push(Watching::at(web, "/api/v1/events"));
        watching
    };
    let (of_killed, of_other) = (watches(&killed), watches(&other));
    let before = state_of(&killed, &id);
    assert_eq!(state_of(&other, &id), before);

    let port = killed.port();
    assert!(killed.program.kill(), "the server ran");
    for watching in &of_killed {
        wait_for("the stream of the killed server is over", PATIENCE, || watching.has_ended().then_some(()));
    }
    assert!(of_other.iter().all(|watching| !watching.has_ended()), "the other server goes on");
    assert_eq!(state_of(&other, &id), before);
    assert_eq!(other.page(&page).status, 200);
    let come_again = watches(&other);

    let mut back = Web::start_at(&job, port, &RATES);
    back.set_token(&secret);
    assert_eq!(state_of(&back, &id), before);
    let of_back = watches(&back);
    for web in [&back, &other] {
        let shown = web.page(&page);
        assert!(shown.status == 200 && shown.text().contains("running"), "{}", shown.text());
        assert!(!web.page("/jobs").text().contains("class=\"stale\""));
    }
    job.mark("go");
    for watching in of_other.iter().chain(&come_again).chain(&of_back) {
        // The list of jobs has no end.
        wait_for("the watcher hears of the end", PATIENCE, || {
            (watching.has_heard("end") || watching.has_heard("job")).then_some(())
        });
    }
    assert_eq!(state_of(&back, &id), state_of(&other, &id));
    assert_eq!(state_of(&back, &id)[0], "completed");
    for web in [back, other] {
        web.has_not_panicked();
    }
}

/// Sends a request under a key to a server that comes and goes, until it is answered. Counts requests in `under_way` and answers that
/// never came in `lost`.
fn until_answered(
    web: &Web,
    (path, body): (&str, &Value),
    key: &str,
    (under_way, lost): (&AtomicUsize, &AtomicUsize),
) -> String {
    let answer: Answer = wait_for("the request is answered", PATIENCE, || {
        under_way.fetch_add(1, Ordering::SeqCst);
        let headers = [JSON, ("Idempotency-Key", key)];
        let answer = web.try_send("POST", path, &headers, body.to_string().as_bytes());
        under_way.fetch_sub(1, Ordering::SeqCst);
        if answer.is_none() {
            lost.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(50));
        }
        answer.filter(|answer| answer.status != 409 && answer.status != 503)
    });
    assert!(answer.status < 300, "{key}: {}", answer.text());
    answer.json(answer.status)["job_id"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_under_way_at_a_server_that_is_killed_again_and_again_is_done_once() {
    const KINDS: usize = 6;
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(NAMES).with_files(3).with_runtime_folder());
    fs::create_dir(job.path("model")).unwrap();
    fs::write(job.path("model/weights"), "one").unwrap();
    fs::write(job.path("deployment.yml"), DEPLOYMENT).unwrap();
    let _worker = fleet.worker_with(&job, &[], &host_of(&job, &job.path("worker-cache")));
    job.command(&["endpoint", "create", "-n", "cut-off"]).expect_code(0);
    let deployment = job.path("deployment.yml").display().to_string();
    job.command(&["deployment", "create", "-f", &deployment, "-e", "cut-off", "-n", "cut-off"])
        .expect_code(0);
    let folder = job.path("").display().to_string();
    let options = [&RATES[..], &["--allow-path", &folder]].concat();
    let secret = secret(&job, "submit");
    let mut killed = Web::start(&job, &options);
    killed.set_token(&secret);
    // Who asks knows the address, and nothing of the program behind it.
    let mut caller = Web::start(&job, &options);
    caller.ask_at(killed.port());
    caller.set_token(&secret);
    let call = json!({ "inputs": { "any": { "path": job.path("data"), "type": "uri_folder" } } });
    let submission = |name: &str| {
        let spec = json!({
            "name": name, "source_directory": job.path("code"), "entry_script": "main.py",
            "inputs": [{"name": "pictures", "type": "file", "path": job.path("data")}],
            "mini_batch_size": 1, "run_max_try": 1, "process_count_per_node": 1,
        });
        json!({ "spec": spec })
    };
    let (under_way, lost, is_done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let (under_way, lost, is_done) = (&under_way, &lost, &is_done);
    let counts = (under_way, lost);
    let ids: Vec<String> = std::thread::scope(|scope| {
        let (caller, call, submission) = (&caller, &call, &submission);
        let asked: Vec<_> = (0..2 * KINDS)
            .map(|at| {
                scope.spawn(move || {
                    let key = format!("cut-off-key-{at}");
                    if at % 2 == 0 {
                        let body = submission(&format!("cut-off-{at}"));
                        until_answered(caller, ("/api/v1/jobs", &body), &key, counts)
                    } else {
                        until_answered(caller, ("/api/v1/endpoints/cut-off/invoke", call), &key, counts)
                    }
                })
            })
            .collect();
        let (job, options) = (&job, &options);
        let killing = scope.spawn(move || {
            let mut random = Random::new(11);
            for _ in 0..5 {
                let waits = || (under_way.load(Ordering::SeqCst) > 0).then_some(());
                wait_for("a request is under way", PATIENCE, || {
                    if is_done.load(Ordering::SeqCst) { Some(()) } else { waits() }
                });
                std::thread::sleep(Duration::from_millis(random.below(400)));
                killed = killed.killed_and_restarted(job, options);
            }
            killed
        });
        let ids = asked.into_iter().map(|one| one.join().unwrap()).collect();
        is_done.store(true, Ordering::SeqCst);
        killing.join().unwrap().has_not_panicked();
        ids
    });
    assert!(lost.load(Ordering::SeqCst) > 0, "a request was cut off");
    let mut distinct = ids.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 2 * KINDS, "{ids:?}");
    for id in &ids {
        job.command(&["stream", id]).expect_code(0);
    }
    // All that there are, however far they came.
    let mut there: Vec<String> = fleet
        .s3
        .objects(fleet.bucket())
        .into_iter()
        .filter_map(|(key, _)| {
            let below = key.strip_prefix("prs/index/").or_else(|| key.strip_prefix("prs/jobs/"))?;
            below.split('/').next().filter(|id| id.starts_with("cut-off")).map(str::to_owned)
        })
        .collect();
    there.sort();
    there.dedup();
    assert_eq!(there, distinct);
}

/// Libraries that shift the clock of the program they are loaded into.
const FAKETIME: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// The hours that the clock of a server is ahead of this machine's, as its answers say.
fn hours_ahead(web: &Web) -> i64 {
    let list = web.get("/api/v1/jobs").json(200);
    let as_of: jiff::Timestamp = list["as_of"].as_str().unwrap().parse().unwrap();
    let seconds = as_of.as_second() - jiff::Timestamp::now().as_second();
    (seconds as f64 / 3600.0).round() as i64
}

/// The texts of a page that have a number below zero: no age is one.
fn numbers_below_zero(page: &str) -> Vec<&str> {
    let texts = page.split('<').filter_map(|part| Some(part.split_once('>')?.1));
    let is_below = |word: &str| {
        let number = word.strip_prefix('-').or_else(|| word.strip_prefix('\u{2212}'));
        number.is_some_and(|number| number.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    texts.filter(|text| text.split_whitespace().any(is_below)).collect()
}

#[test]
fn a_clock_that_jumps_breaks_nothing() {
    let library = FAKETIME.into_iter().find(|path| Path::new(path).exists());
    let library = library.expect("libfaketime is needed by this test: apt-get install faketime");
    let job = Job::new("").with_runtime_folder();
    let (fleet, running, fence) = two_jobs(&job);
    let clock = job.path("clock");
    let set = |shift: &str| {
        let new = job.path("clock.new");
        fs::write(&new, shift).unwrap();
        fs::rename(new, job.path("clock")).unwrap();
    };
    set("+0");
    let variables = [
        ("LD_PRELOAD", library.to_owned()),
        ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
        ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let own = variables.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(fleet.variables());
    let served = own
        .fold(Job::new("").with_runtime_folder(), |job, (name, value)| job.with_own_variable(&name, &value));
    let web = Web::of_user(&served, &RATES);
    let _orchestrator = Orchestrator::start(&fleet, running, fence);
    web.all_is_there("the start");
    let watching = [Watching::start(&web, "running"), Watching::at(&web, "/jobs/running/live")];
    for (shift, hours) in [("+1h", 1), ("+0", 0), ("-1h", -1), ("+0", 0)] {
        set(shift);
        wait_for("the clock has jumped", PATIENCE, || (hours_ahead(&web) == hours).then_some(()));
        web.all_is_there(shift);
        watching[0].hears("status");
        watching[0].hears("status");
        assert!(watching.iter().all(|watching| !watching.has_ended()), "{shift}");
        for path in ["/jobs", "/jobs/running", "/jobs/ended", "/fleet"] {
            let page = web.page(path).text();
            let below_zero = numbers_below_zero(&page);
            assert!(below_zero.is_empty(), "{shift} {path}: {below_zero:?}");
        }
        let object = web.get("/api/v1/jobs/running").json(200);
        let stale = object["stale_seconds"].as_f64().unwrap();
        assert!((0.0..20.0).contains(&stale), "{shift}: {object}");
    }
    web.has_not_panicked();
}
