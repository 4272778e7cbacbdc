//! A bucket that refuses, is away or slow: before the job begins, and exactly when it delivers.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::servers::proxy::{Fault, HttpFaults, HttpProxy};
use prs_tests::harness::servers::s3::Rights;
use prs_tests::harness::{Fleet, Job, Live, Web, says};
use serde_json::{Value, json};

use super::{Bucket, JSON, PATIENCE, RESULT, WAITS, here, on_fleet};

/// Each mini-batch returns so many rows of a megabyte.
const LARGE: &str = "
def run(mini_batch):
    return ['x' * 999_999] * 55
";
/// Bytes of what two of them return.
const LARGE_BYTES: u64 = 110_000_000;
/// Bytes of memory beyond which a program holds more of a result than the parts that are on their way.
const MOST_MEMORY: u64 = 400 << 20;

/// A way to the store on which nothing is spoiled before a test says so.
fn way(fleet: &Fleet) -> HttpProxy {
    let faults = HttpFaults { percent: 0, stall: Duration::from_secs(2), ..HttpFaults::default() };
    HttpProxy::start(fleet.s3.address(), faults)
}

/// The same, where what is spoiled waits for longer than any test.
fn way_that_stops(fleet: &Fleet) -> HttpProxy {
    let faults = HttpFaults { percent: 0, stall: Duration::from_hours(1), ..HttpFaults::default() };
    HttpProxy::start(fleet.s3.address(), faults)
}

fn through(way: &HttpProxy, job: Job) -> Job {
    job.with_own_variable("AWS_ENDPOINT_URL_S3", &way.endpoint())
}

fn worker_through(fleet: &Fleet, way: &HttpProxy, job: &Job, target: &str, more: &[(&str, &str)]) -> Live {
    let endpoint = way.endpoint();
    let given = [&[("AWS_ENDPOINT_URL_S3", &*endpoint)], more].concat();
    let variables: Vec<_> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    fleet.worker_with(job, &["--target", target], &variables)
}

/// What a place is refused for, by every way to hand a job in or to look at one.
#[test]
fn a_place_that_takes_nothing_is_told_before_anything_runs() {
    let fleet = Fleet::shared();
    let bucket = Bucket::make(fleet, "asked");
    bucket.put(&format!("full/{RESULT}"), "somebody's");
    let (key, _) = fleet.s3.key(Rights::Read);
    let way = way(fleet);
    let job = || here(fleet, WAITS);
    let reader = || job().with_own_variable("AWS_ACCESS_KEY_ID", &key);
    let away = through(&way, job());
    way.spoil("", Fault::CutBefore);
    for (what, job, folder, code, status, parts) in [
        ("read alone", reader(), "out", 2, 422, ["output: cannot write to s3://asked/out", "another output"]),
        ("away", away, "out", 3, 503, ["output: cannot look at s3://asked/out", "does not answer"]),
        ("taken", job(), "full", 2, 409, ["the path already exists", "s3://asked/full/"]),
    ] {
        let job = job.with_runtime_folder().with("output", bucket.url(folder));
        let file = job.write_job_file().display().to_string();
        let run = job.path("new-run");
        says(&job.command(&["validate", &file]), code, &parts);
        says(&job.command(&["submit", &file, "--run-dir", run.to_str().unwrap()]), code, &parts);
        assert!(!run.exists(), "{what}");
        let own = job.path("").display().to_string();
        let web = Web::of_user(&job, &["--allow-input", "s3://asked", "--allow-path", &own]);
        let spec = json!({ "spec": { "name": "asked", "source_directory": job.path("code"), "entry_script": "main.py",
            "inputs": [{ "type": "file", "path": job.path("data") }], "output": bucket.url(folder) } });
        for path in ["/api/v1/jobs?dry_run=true", "/api/v1/jobs"] {
            let told = web.send("POST", path, &[JSON], spec.to_string().as_bytes()).json(status);
            for part in parts {
                assert!(told["detail"].as_str().unwrap().contains(part), "{what} {path}: {told}");
            }
        }
    }
    let free = job().with("output", bucket.url("free"));
    let file = free.write_job_file().display().to_string();
    free.command(&["validate", &file]).expect_code(0);
    assert_eq!(bucket.keys(), [format!("full/{RESULT}")], "nothing is left by a look");
    assert_eq!(fleet.s3.incomplete_uploads("asked"), Vec::<String>::new());
}

/// The reason of a job that could not deliver; what it has is fetched, and `resume` delivers it without running anything.
fn is_kept_and_resumed(bucket: &Bucket<'_>, job: &Job, (name, failed): (&str, &Value), is_back: impl Fn()) {
    let reason = failed["reason"].as_str().unwrap();
    for part in ["the output cannot be put to ", "prs resume"] {
        assert!(reason.contains(part), "{part:?} is not said: {reason}");
    }
    assert_eq!(failed["items"]["succeeded"], 2, "{failed}");
    is_back();
    let copy = format!("copy-of-{}", bucket.name);
    job.command(&["result", name, "--output-path", &copy]).expect_code(0);
    assert_eq!(fs::read_to_string(job.path(&copy).join(RESULT)).unwrap(), "row\nrow\n");
    let begun = job.marks("begun").len();
    job.command(&["resume", name, "-o", "json"]).expect_code(0);
    assert_eq!(bucket.text(&format!("out/{RESULT}")).as_deref(), Some("row\nrow\n"));
    assert_eq!(job.marks("begun").len(), begun, "nothing runs again");
}

#[test]
fn a_bucket_that_fails_when_a_run_of_this_machine_delivers() {
    let fleet = Fleet::shared();
    for (name, fault, delivers) in
        [("here-refuses", Fault::Refuse, false), ("here-away", Fault::CutBefore, true)]
    {
        let (bucket, way) = (Bucket::make(fleet, name), way(fleet));
        let job = through(&way, here(fleet, WAITS)).with("output", bucket.url("out"));
        let mut submit = job.start_submit(&[]);
        submit.wait_until("the first mini-batch", || !job.marks("begun").is_empty());
        way.spoil("", fault);
        job.mark("go");
        if fault == Fault::CutBefore {
            submit.wait_until_said("the output cannot be delivered yet");
            way.accept();
        }
        let ended = submit.wait();
        assert!(way.count(fault) > 0, "{name}");
        if delivers {
            job.has_completed(&ended);
            assert_eq!(bucket.text(&format!("out/{RESULT}")).as_deref(), Some("row\nrow\n"), "{name}");
            continue;
        }
        ended.expect_code(42);
        let run = job.run().path().display().to_string();
        is_kept_and_resumed(&bucket, &job, (&run, &ended.json()), || way.accept());
    }
}

#[test]
fn a_bucket_that_fails_when_a_fleet_delivers() {
    let fleet = Fleet::shared();
    for (name, fault, delivers) in
        [("refuses", Fault::Refuse, false), ("away", Fault::CutBefore, true), ("slow", Fault::Stall, true)]
    {
        let (bucket, way) = (Bucket::make(fleet, name), way(fleet));
        let job = on_fleet(fleet, name, WAITS).with("output", bucket.url("out"));
        let worker = worker_through(fleet, &way, &job, name, &[]);
        let id = fleet.hand_in(&job);
        wait_for("the first mini-batch", PATIENCE, || (!job.marks("begun").is_empty()).then_some(()));
        // The storage of the fleet stays.
        way.spoil(&format!("/{name}"), fault);
        job.mark("go");
        if fault == Fault::CutBefore {
            wait_for("it says what it waits for", PATIENCE, || {
                worker.stderr().contains("the output cannot be delivered yet").then_some(())
            });
            way.accept();
        }
        let ended = job.command(&["stream", &id, "-o", "json"]);
        assert!(way.count(fault) > 0, "{name}");
        if delivers {
            ended.expect_code(0);
            assert_eq!(bucket.text(&format!("out/{RESULT}")).as_deref(), Some("row\nrow\n"), "{name}");
            continue;
        }
        ended.expect_code(42);
        is_kept_and_resumed(&bucket, &job, (&id, &ended.json()), || way.accept());
    }
}

/// Killed once it is clear that the place takes nothing: before anybody knows, and before the record says so.
#[test]
fn the_successor_of_one_that_could_not_deliver() {
    let fleet = Fleet::shared();
    for (name, failpoint, delivers) in [("not-told", "output_written", true), ("told", "concluded", false)] {
        let (bucket, way) = (Bucket::make(fleet, name), way(fleet));
        let job = on_fleet(fleet, name, WAITS).with("output", bucket.url("out"));
        let dying = worker_through(fleet, &way, &job, name, &[("PRS_FAILPOINT", failpoint)]);
        let id = fleet.hand_in(&job);
        wait_for("the first mini-batch", PATIENCE, || (!job.marks("begun").is_empty()).then_some(()));
        way.refuse(&format!("/{name}"));
        job.mark("go");
        let died = dying.wait();
        assert_eq!(died.code, None, "it is killed at {failpoint}: {}", died.stderr);
        let _worker = fleet.worker(&job, &["--target", name]);
        let ended = job.command(&["stream", &id, "-o", "json"]);
        if delivers {
            ended.expect_code(0);
            assert_eq!(bucket.text(&format!("out/{RESULT}")).as_deref(), Some("row\nrow\n"));
            continue;
        }
        ended.expect_code(42);
        is_kept_and_resumed(&bucket, &job, (&id, &ended.json()), || ());
    }
}

/// Who goes on takes back what the killed one had sent, and nobody else's upload.
#[test]
fn a_result_of_many_parts_is_delivered_by_who_goes_on() {
    let fleet = Fleet::shared();
    let key = format!("out/{RESULT}");
    let (kept, taken_over) = (Bucket::make(fleet, "parts-here"), Bucket::make(fleet, "parts"));

    let way = way_that_stops(fleet);
    let job = through(&way, here(fleet, LARGE)).with("output", kept.url("out"));
    way.spoil(&format!("PUT /{}/{key}", kept.name), Fault::Stall);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("an upload", || way.count(Fault::Stall) > 2);
    let memory = submit.peak_memory();
    assert!(submit.kill());
    assert!(memory < MOST_MEMORY, "{memory} bytes");
    job.soon_leaves_nothing();
    assert_eq!(fleet.s3.incomplete_uploads(kept.name), [&*key]);
    way.accept();
    job.has_completed(&job.resume());

    let way = way_that_stops(fleet);
    let job = on_fleet(fleet, "parts", LARGE).with("output", taken_over.url("out"));
    way.spoil(&format!("PUT /{}/{key}", taken_over.name), Fault::Stall);
    let dying = worker_through(fleet, &way, &job, "parts", &[]);
    let id = fleet.hand_in(&job);
    wait_for("an upload", PATIENCE, || (way.count(Fault::Stall) > 2).then_some(()));
    assert!(dying.kill());
    let mut worker = fleet.worker(&job, &["--target", "parts"]);
    job.command(&["stream", &id, "-o", "json"]).expect_code(0);
    let memory = worker.peak_memory();
    assert!(!worker.has_ended() && memory < MOST_MEMORY, "{memory} bytes");
    for bucket in [kept, taken_over] {
        assert_eq!(fleet.s3.objects(bucket.name), [(key.clone(), LARGE_BYTES)]);
        assert_eq!(fleet.s3.incomplete_uploads(bucket.name), Vec::<String>::new());
    }
}
