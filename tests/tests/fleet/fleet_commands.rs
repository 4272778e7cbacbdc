//! The commands on a fleet: what they print where, their exit codes, and what they need of the servers (spec
//! section 7, S12, S13). One fleet for all of them: each test has a compute target of its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use prs_tests::deadline::{Stopwatch, wait_for};
use prs_tests::harness::servers::free_port;
use prs_tests::harness::servers::proxy::TcpProxy;
use prs_tests::harness::servers::s3::Rights;
use prs_tests::harness::{Ended, Fleet, HOLDS, Job, Live};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A command that meets a server which is not there ends within this time.
const SECONDS: Duration = Duration::from_secs(15);

const ECHO: &str = "
import os
def run(mini_batch):
    return [os.path.basename(path) for path in mini_batch]
";

/// A job of five files for the workers of `target`.
fn job(fleet: &Fleet, script: &str, target: &str) -> Job {
    let job = fleet.job(Job::new(script).with_files(5)).with("process_count_per_node", 2);
    job.with("inputs", json!([{ "type": "file", "path": "data", "mode": "direct" }]))
        .with("compute_target", target)
        .with("run_invocation_timeout", 600)
}

/// The same, on a machine that knows no fleet.
fn here(script: &str) -> Job {
    Job::new(script).with_files(5)
}

fn worker(fleet: &Fleet, job: &Job, target: &str) -> Live {
    fleet.worker(job, &["--target", target])
}

#[track_caller]
fn json_of(job: &Job, arguments: &[&str]) -> Value {
    let ended = job.command(&[arguments, &["-o", "json"]].concat());
    ended.expect_code(0);
    ended.json()
}

/// The refusal with this exit code, with all of `parts` on standard error, and neither data nor a secret.
#[track_caller]
fn refused(ended: &Ended, code: i32, parts: &[&str]) {
    ended.expect_code(code);
    ended.has_no_data();
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} is not said: {}", ended.stderr);
    }
    for secret in ["guest:guest", "hush", "test-secret"] {
        assert!(!ended.stderr.contains(secret), "{secret:?} is said: {}", ended.stderr);
    }
}

/// Waits until `status` shows what is wanted.
#[track_caller]
fn until_status(fleet: &Fleet, job: &Job, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let status = json_of(job, &["status", id]);
        if wanted(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{status}\n{}", fleet.story());
    }
}

fn listed(job: &Job, id: &str) -> Value {
    let list = json_of(job, &["list"]);
    let found = list["jobs"].as_array().unwrap().iter().find(|one| one["job_id"] == id);
    found.unwrap_or_else(|| panic!("{id} is not in {list}")).clone()
}

#[test]
fn a_job_is_seen_from_its_queue_to_its_result() {
    let fleet = Fleet::shared();
    let target = "seen";
    let job = job(fleet, HOLDS, target);
    let id = fleet.hand_in(&job);
    let other = fleet.hand_in(&job);
    assert_ne!(id, other, "a second submit is a second job");
    job.command(&["cancel", &other]).expect_code(0);

    let status = json_of(&job, &["status", &id]);
    assert_eq!(
        (&status["state"], &status["nodes"], &status["reason"]),
        (&json!("queued"), &json!(0), &Value::Null)
    );
    for key in
        ["job_id", "name", "output", "logs", "items", "seconds", "processes", "per_second", "eta_seconds"]
    {
        assert!(status.get(key).is_some(), "{key} is part of the status: {status}");
    }
    assert_eq!(status["waits_for"], Value::Null, "{status}");
    for (key, value) in [("idle", json!(0)), ("busy", json!(0)), ("watches", json!(false))] {
        assert_eq!(status["workers"][key], value, "{key}: {status}");
    }
    let text = job.command(&["status", &id]).stdout;
    assert!(text.contains("waiting: no worker serves the compute target seen"), "{text}");
    assert_eq!(listed(&job, &id)["state"], "queued");
    refused(&job.command(&["result", &id]), 2, &["queued"]);

    let mut stream = job.start(&["stream", &id, "-o", "json"]);
    let _worker = worker(fleet, &job, target);
    stream.wait_until("two held mini-batches", || job.marks("held").len() == 2);
    let status = until_status(fleet, &job, &id, |status| {
        status["state"] == "running" && status["processes"] == 2 && status["mini_batches"]["succeeded"] == 1
    });
    assert_eq!((&status["nodes"], &status["workers"]), (&json!(1), &Value::Null), "{status}");
    assert_eq!((&status["nodes_wanted"], &status["known"]), (&json!(1), &json!(true)), "{status}");
    assert!(
        status["waited_seconds"].as_f64().unwrap() > 0.0,
        "it was handed in before the worker came: {status}"
    );
    let status = until_status(fleet, &job, &id, |status| status["at_work"].as_array().unwrap().len() == 2);
    let has = |key: &str| [0, 1].map(|at| status["at_work"][at][key].clone());
    assert_eq!(has("process"), [json!("process000"), json!("process001")], "{status}");
    let mut held = has("minibatch_index").map(|index| index.as_u64().unwrap());
    held.sort_unstable();
    assert_eq!((held, has("mini_batches")), ([1, 2], [json!(1), json!(1)]), "{status}");
    let text = job.command(&["status", &id]).stdout;
    assert!(text.contains("process000 of node 0: mini-batch "), "{text}");
    assert!(
        text.contains("processes  2 (nodes: 1 of 1)\n") && text.contains(" without a worker\n"),
        "{text}"
    );
    assert_eq!(status["mini_batches"], json!({ "scheduled": 3, "succeeded": 1, "failed": 0 }));
    assert_eq!(status["items"], json!({ "total": 2, "succeeded": 2, "failed": 0 }));
    assert!(status["per_second"].as_f64().unwrap() > 0.0, "{status}");
    assert_eq!(listed(&job, &id)["state"], "running");
    refused(&job.command(&["resume", &id]), 2, &["is running", "stream"]);

    // Leaving a stream does not end the job.
    let mut left = job.start(&["stream", &id]);
    left.wait_until_said("[master_role] ");
    left.wait_until_said(".stdout] looking at 0");
    left.interrupt();
    let left = left.wait();
    refused(&left, 130, &["the job goes on"]);

    job.mark("go");
    let streamed = stream.wait();
    streamed.expect_code(0);
    let printed = streamed.json();
    assert_eq!((&printed["job_id"], &printed["state"]), (&json!(id), &json!("completed")));
    for part in ["[master_role] ", ".stdout] looking at 0", ".stdout] looking at 2", "the job is finalizing"]
    {
        assert!(streamed.stderr.contains(part), "{part:?} is not in\n{}", streamed.stderr);
    }
    let again = job.command(&["stream", &id, "-o", "json"]);
    again.expect_code(0);
    assert_eq!(again.json(), printed, "a stream of an ended job is its result");
    let status = json_of(&job, &["status", &id]);
    for (key, value) in printed.as_object().unwrap() {
        assert_eq!(&status[key], value, "status tells what stream told: {key}");
    }
    refused(&job.command(&["cancel", &id]), 2, &["completed"]);

    let names: Vec<String> = json_of(&job, &["logs", &id])["logs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|log| log["file"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        names.contains(&"job_result.txt".to_owned()) && names.contains(&"sys/node/0/_main.txt".to_owned())
    );
    for name in &names {
        let log = job.command(&["logs", &id, "--file", name]);
        log.expect_code(0);
        assert_eq!(log.stdout.as_bytes(), fleet.stored(&id).bytes(&format!("logs/{name}")));
    }
    for name in ["../job.json", "no-such.txt", "/etc/passwd", ""] {
        refused(&job.command(&["logs", &id, "--file", name]), 2, &["prs logs"]);
    }
    let fetched = job.command(&["result", &id, "--output-path", "fetched", "-o", "json"]);
    fetched.expect_code(0);
    assert_eq!(fs::read(job.path("fetched/parallel_run_step.txt")).unwrap(), fleet.stored(&id).result());
    assert_eq!(fetched.json()["output"]["sha256"], printed["output"]["sha256"]);
    refused(&job.command(&["result", &id, "--output-path", "fetched"]), 2, &["exists already"]);
    let resumed = job.command(&["resume", &id, "-o", "json"]);
    resumed.expect_code(0);
    assert_eq!(resumed.json(), printed, "nothing is left to do");
}

#[test]
fn what_is_shown_is_what_was_understood_and_a_job_runs_again_with_changes() {
    let fleet = Fleet::shared();
    let target = "again";
    // Its files are uploaded: a job that runs again needs neither them nor the script.
    let job = job(fleet, ECHO, target).with_files(5).with("run_max_try", 2);
    let _worker = worker(fleet, &job, target);
    let first = fleet.completes(&job);
    let id = first["job_id"].as_str().unwrap();
    let shown = json_of(&job, &["show", id]);
    assert_eq!(
        (&shown["job_id"], &shown["start"], &shown["state"]),
        (&json!(id), &json!(1), &json!("completed"))
    );
    assert_eq!(
        (&shown["spec"]["run_max_try"], &shown["spec"]["mini_batch_size"]),
        (&json!(2), &json!({ "files": 2 }))
    );
    assert!(
        shown["submitted_at"].as_str().unwrap().starts_with("20") && shown["version"].is_string(),
        "{shown}"
    );
    let table = job.command(&["show", id]);
    table.expect_code(0);
    for line in ["run_max_try: 2", &format!("compute_target: {target}")] {
        let mut settings = table.stdout.lines().map(|one| one.split("  # ").next().unwrap());
        assert!(settings.any(|one| one == line), "{line:?} is not in\n{}", table.stdout);
    }
    // It can be submitted, and its inputs are those of the job file.
    fs::write(job.path("shown.yml"), &table.stdout).unwrap();
    let same = json_of(&job, &["submit", "shown.yml"]);
    assert_eq!(same["output"]["sha256"], first["output"]["sha256"]);
    assert!(table.stdout.contains(&format!("path: {}", job.path("data").display())), "{}", table.stdout);

    let before = fleet.stored(id).bytes("job.json");
    // The code goes along from the former job, whatever became of the folder.
    job.script("def run(mini_batch):\n    return ['changed']\n");
    fs::remove_dir_all(job.path("data")).unwrap();
    let bad = [
        "--set",
        "mini_batch_size=1KB",
        "--set",
        "node_cuont=2",
        "--set",
        "run_max_try=0",
        "--set",
        "name=x",
    ];
    let ended = job.command(&[&["resubmit", id], &bad[..]].concat());
    refused(
        &ended,
        2,
        &[
            "--set mini_batch_size: \"1KB\" is not a whole number",
            "did you mean `node_count`?",
            "--set run_max_try: \"0\" is out of range",
            "--set name: the key can only be changed in the job file",
        ],
    );
    let again = job.command(&["resubmit", id, "--set", "mini_batch_size=1", "-o", "json"]);
    again.expect_code(0);
    let again = again.json();
    assert_ne!(again["job_id"], first["job_id"]);
    assert_eq!(again["mini_batches"], json!({ "scheduled": 5, "succeeded": 5, "failed": 0 }));
    let rows = |id: &Value| String::from_utf8(fleet.stored(id.as_str().unwrap()).result()).unwrap();
    assert_eq!(rows(&again["job_id"]), rows(&first["job_id"]));
    assert_eq!(again["output"]["sha256"], first["output"]["sha256"]);
    let spec = json_of(&job, &["show", again["job_id"].as_str().unwrap()])["spec"].clone();
    assert_eq!((&spec["mini_batch_size"], &spec["run_max_try"]), (&json!({ "files": 1 }), &json!(2)));
    assert_eq!(fleet.stored(id).bytes("job.json"), before, "the former job is not touched");

    let detached = job.command(&["resubmit", id, "--detach"]);
    detached.expect_code(0);
    let third = detached.stdout.trim();
    assert!(third.starts_with("test-job-") && third.lines().count() == 1, "{third:?}");
    job.command(&["stream", third]).expect_code(0);
    refused(&job.command(&["resubmit", id, "--run-dir", "x"]), 2, &["--run-dir"]);
    refused(&job.command(&["submit", "job.yml", "--run-dir", "x"]), 2, &["--run-dir"]);
    refused(&job.command(&["resubmit", "no-such-job"]), 2, &["no-such-job", "prs list"]);
}

#[test]
fn a_job_is_canceled_wherever_it_stands_and_can_be_resumed() {
    let fleet = Fleet::shared();
    let target = "cancel";
    let mut job = job(fleet, HOLDS, target).with_own_variable("USER", "ana");
    // Nobody serves it: the command itself ends the job.
    let queued = fleet.hand_in(&job);
    let watch = Stopwatch::start();
    let canceled = job.command(&["cancel", &queued, "-o", "json"]);
    canceled.expect_code(0);
    assert!(watch.elapsed() < Duration::from_secs(4), "{:?}", watch.elapsed());
    let canceled = canceled.json();
    assert_eq!(canceled["state"], "canceled");
    assert!(canceled["reason"].as_str().unwrap().starts_with("canceled by ana@"), "{canceled}");
    refused(&job.command(&["cancel", &queued]), 2, &["was canceled"]);
    job.command(&["stream", &queued]).expect_code(130);

    job.set("name", "runs-and-is-canceled");
    let mut submit = fleet.start_submit(&job, &[]);
    let mut worker = worker(fleet, &job, target);
    submit.wait_until("two held mini-batches", || job.marks("held").len() == 2);
    let id = fleet.id_of("runs-and-is-canceled").unwrap();
    until_status(fleet, &job, &id, |status| status["mini_batches"]["succeeded"] == 1);
    let watch = Stopwatch::start();
    let canceled = job.command(&["cancel", &id, "-o", "json"]);
    canceled.expect_code(0);
    assert!(watch.elapsed() < Duration::from_secs(4), "{:?}", watch.elapsed());
    let submitted = submit.wait();
    submitted.expect_code(130);
    assert_eq!(submitted.json(), canceled.json());
    assert_eq!(canceled.json()["mini_batches"]["succeeded"], 1, "what is done is kept");
    let first_line = fleet.stored(&id).text("logs/job_result.txt").lines().next().unwrap().to_owned();
    assert!(first_line.starts_with("canceled: canceled by ana@"), "{first_line}");

    job.mark("go");
    let resumed = job.command(&["resume", &id, "-o", "json"]);
    resumed.expect_code(0);
    assert!(resumed.stderr.contains("1 mini-batch is done already"), "{}", resumed.stderr);
    assert_eq!(resumed.json()["mini_batches"]["succeeded"], 3);
    assert_eq!(json_of(&job, &["show", &id])["start"], 2);
    assert!(!worker.has_ended());
}

#[test]
fn a_job_is_canceled_whose_orchestrator_was_killed() {
    let fleet = Fleet::shared();
    let target = "orphaned";
    let job = job(fleet, HOLDS, target).with("node_count", 2);
    let id = fleet.hand_in(&job);
    let names = ["first", "second"];
    let workers = names.map(|name| fleet.worker(&job, &["--target", target, "--name", name]));
    until_status(fleet, &job, &id, |status| status["nodes"] == 2 && job.marks("held").len() == 2);
    let owner = fleet.orchestrator_of(&id).unwrap();
    let mut others = Vec::new();
    for (name, worker) in names.into_iter().zip(workers) {
        if owner.starts_with(name) {
            assert!(worker.kill(), "the orchestrator had ended before");
        } else {
            others.push(worker);
        }
    }
    assert_eq!(others.len(), 1, "{owner} is one of {names:?}");
    let canceled = job.command(&["cancel", &id, "-o", "json"]);
    canceled.expect_code(0);
    assert_eq!(canceled.json()["state"], "canceled");
    // A lease outlives its owner by eight seconds.
    assert!(canceled.took < Duration::from_secs(40), "{:?}", canceled.took);
    assert_eq!(json_of(&job, &["status", &id])["state"], "canceled");
    assert!(!others[0].has_ended(), "{}", others[0].stderr());
    let gone = || job.script_processes().is_empty().then_some(());
    wait_for("the end of the script's processes", Duration::from_secs(20), gone);
}

#[test]
fn servers_that_cannot_be_used_are_exit_code_3_within_seconds() {
    let fleet = Fleet::shared();
    let [broker, redis, storage] = [0, 1, 2].map(|at| fleet.variables()[at].1.clone());
    assert!(storage.starts_with("s3://"));
    let run = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut job = fleet.job(here(ECHO));
        for (name, value) in variables {
            job = job.with_own_variable(name, value);
        }
        job.write_job_file();
        let ended = job.command(arguments);
        assert!(ended.took < SECONDS, "{arguments:?}: {:?}", ended.took);
        ended
    };
    let served = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let ended = fleet.worker_with(&here(ECHO), &[], &variables.collect::<Vec<_>>()).wait();
        assert!(ended.took < SECONDS, "the worker: {:?}", ended.took);
        ended
    };
    let submit = ["submit", "job.yml", "--detach"];
    let port = free_port();
    let nobody = format!("127.0.0.1:{port}");
    let cases: [(&str, String, &[&str]); 7] = [
        ("PRS_BROKER_URL", broker.replace("guest:guest", "guest:hush"), &["the broker", "password"]),
        ("PRS_BROKER_URL", format!("amqp://guest:hush@{nobody}/%2f"), &["the broker", &nobody, "refused"]),
        ("PRS_REDIS_URL", redis.replace("redis://", "redis://:hush@"), &["Redis", "password"]),
        ("PRS_REDIS_URL", format!("redis://:hush@{nobody}"), &["Redis", &nobody, "refused"]),
        (
            "PRS_STORAGE_URL",
            "s3://no-such-bucket/prs".to_owned(),
            &["the storage", "no-such-bucket", "the bucket does not exist"],
        ),
        ("AWS_SECRET_ACCESS_KEY", "hush-hush".to_owned(), &["the storage", "check AWS_SECRET_ACCESS_KEY"]),
        (
            "AWS_ENDPOINT_URL_S3",
            format!("http://{nobody}"),
            &["the storage", &nobody, "check AWS_ENDPOINT_URL_S3"],
        ),
    ];
    for (variable, value, parts) in cases {
        refused(&run(&[(variable, &value)], &submit), 3, parts);
        refused(&served(&[(variable, &value)]), 3, parts);
    }
    for missing in ["PRS_BROKER_URL", "PRS_REDIS_URL", "PRS_STORAGE_URL"] {
        for arguments in [&submit[..], &["list"], &["status", "x"], &["logs", "x"], &["cancel", "x"]] {
            refused(&run(&[(missing, "")], arguments), 2, &[missing]);
        }
        refused(&served(&[(missing, "")]), 2, &[missing]);
    }
    // Reading commands need only what they use.
    let no_broker = ("PRS_BROKER_URL", format!("amqp://guest:hush@{nobody}"));
    let no_redis = ("PRS_REDIS_URL", format!("redis://:hush@{nobody}"));
    let ours = job(fleet, ECHO, "nobody");
    let id = fleet.hand_in(&ours);
    let away = [(no_broker.0, &*no_broker.1), (no_redis.0, &*no_redis.1)];
    for arguments in [&["status", &id][..], &["list"], &["show", &id]] {
        let ended = run(&away, arguments);
        ended.expect_code(0);
        assert!(ended.stdout.contains(&id) && ended.stderr.contains("storage knows"), "{ended:?}");
        let (is_told, is_of_now) = (ended.stdout.contains("not known"), ended.stdout.contains("0 of 0"));
        assert_eq!((is_told, is_of_now), (arguments[0] != "show", false), "{}", ended.stdout);
        assert!(!ended.stderr.contains("hush"), "{}", ended.stderr);
    }
    run(&away, &["logs", &id]).expect_code(0);
    refused(&run(&away, &["cancel", &id]), 3, &[]);
    refused(
        &run(&[("PRS_REDIS_URL", &redis.replace("redis://", "redis://:hush@"))], &["status", &id]),
        3,
        &["Redis"],
    );
    ours.command(&["cancel", &id]).expect_code(0);
    for arguments in [&["status", &id][..], &["show", &id], &["logs", &id, "--file", "job_result.txt"]] {
        let ended = run(&away, arguments);
        ended.expect_code(0);
        assert!(ended.stdout.contains("canceled") && ended.stderr.is_empty(), "{ended:?}");
    }
    // A user who may read but not write.
    let (key, secret) = fleet.s3.key(Rights::Read);
    let reader = [("AWS_ACCESS_KEY_ID", &*key), ("AWS_SECRET_ACCESS_KEY", &*secret)];
    refused(&run(&reader, &submit), 3, &["cannot write to the storage", "permission"]);
    run(&reader, &["status", &id]).expect_code(0);
}

#[test]
fn a_job_is_left_though_no_server_answers() {
    let fleet = Fleet::shared();
    let addresses = fleet.addresses();
    let ways = addresses.map(TcpProxy::start);
    let through = |value: String| {
        let ways = addresses.iter().zip(&ways);
        ways.fold(value, |value, (to, way)| value.replace(&to.to_string(), &way.address().to_string()))
    };
    let variables = fleet.variables().into_iter();
    let job = variables.fold(job(fleet, ECHO, "left-alone"), |job, (name, value)| {
        job.with_own_variable(&name, &through(value))
    });
    let mut submit = fleet.start_submit(&job, &[]);
    submit.wait_until_said("prs worker --target left-alone");
    ways.iter().for_each(TcpProxy::cut_off);
    let watch = Stopwatch::start();
    assert!(submit.signal(Signal::TERM));
    let left = submit.wait();
    assert!(watch.elapsed() < Duration::from_secs(2), "{:?}", watch.elapsed());
    refused(&left, 130, &["the job goes on; prs stream test-job-"]);
}

#[test]
fn ctrl_c_while_a_job_is_handed_in_says_what_is_left_behind() {
    let fleet = Fleet::shared();
    let target = "handed-in";
    // The ledger is away when the job is stored and is about to be entered in it.
    let way = TcpProxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, fleet.redis.port())));
    let stops = job(fleet, ECHO, target).with_own_variable("PRS_FAILPOINT", "job_listed:1:stop");
    stops.write_job_file();
    let redis = format!("redis://{}", way.address());
    let mut submit = stops.start(&["submit", "job.yml", "--redis", &redis]);
    wait_for("the job to be stored", SECONDS, || submit.is_stopped().then_some(()));
    way.cut_off();
    assert!(submit.signal(Signal::CONT));
    let watch = Stopwatch::start();
    submit.interrupt();
    let ended = submit.wait();
    assert!(watch.elapsed() < Duration::from_secs(2), "{:?}", watch.elapsed());
    refused(&ended, 130, &["prs resume test-job-", "prs cancel test-job-"]);
    let id = ended.stderr.split_whitespace().find(|word| word.starts_with("test-job-")).unwrap();
    let job = job(fleet, ECHO, target);
    assert_eq!(listed(&job, id)["state"], "queued");

    let _worker = worker(fleet, &job, target);
    let resumed = job.command(&["resume", id, "-o", "json"]);
    resumed.expect_code(0);
    assert_eq!(resumed.json()["mini_batches"]["succeeded"], 3);
}
