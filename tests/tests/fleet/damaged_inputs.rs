//! What stores and disks give back as an input is checked: right rows, or a failure that names the object. Messages
//! that name data of others are no mini-batches of the job.

use std::fs;
use std::time::Duration;

use prs_common::mini_batch::{MiniBatch, ObjectRef, ObjectSource, StoreRef, Work};
use prs_common::queue::{Queue, RabbitMqQueue};
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Live, Random, expected_by_python};
use serde_json::{Value, json};

const READS: &str = "
import os
def run(mini_batch):
    return [f'{os.path.basename(path)} {open(path).read()}' for path in mini_batch]
";
const TABLE: &str = "def run(frame):\n    return frame\n";
const BUCKET: &str = "fleet";
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn on_fleet(fleet: &Fleet, target: &str, script: &str) -> Job {
    fleet.job(Job::new(script)).with("compute_target", target).with("name", target).with("run_max_try", 1)
}

/// Submits `job` and waits until all of it is planned; no worker has come yet.
fn planned(fleet: &Fleet, job: &Job, name: &str) -> (Live, String) {
    let mut submitted = fleet.start_submit(job, &[]);
    let mut id = None;
    submitted.wait_until("the plan", || {
        id = fleet.id_of(name);
        let key = id.as_ref().map(|id| format!("prs:{{{id}}}:job"));
        key.is_some_and(|key| fleet.redis_cli(&["hget", &key, "planned"]) == "1")
    });
    (submitted, id.unwrap())
}

/// The key of the uploaded file with this content.
fn blob_of(fleet: &Fleet, content: &[u8]) -> String {
    let mut keys = fleet.s3.objects(BUCKET).into_iter().map(|(key, _)| key);
    let is_it = |key: &String| fleet.s3.object(BUCKET, key).is_some_and(|bytes| bytes == content);
    keys.find(is_it).expect("it was uploaded")
}

/// Flips one bit of an object.
fn flip(fleet: &Fleet, key: &str, place: usize) {
    let mut bytes = fleet.s3.object(BUCKET, key).unwrap();
    bytes[place] ^= 0x04;
    fleet.s3.put_object(BUCKET, key, &bytes);
}

/// Lets the job run to its end, which must be a completed one; its failed mini-batches.
fn completes(fleet: &Fleet, job: &Job, target: &str, submitted: Live) -> (String, Vec<Value>) {
    let _worker = fleet.worker(job, &["--target", target]);
    let ended = submitted.wait();
    assert!(matches!(ended.code, Some(0 | 10)), "{}\n{}", ended.stderr, fleet.story());
    let result = ended.expect_completed();
    let stored = fleet.stored(result["job_id"].as_str().unwrap());
    let failed = stored.keys().contains(&"output/failed_mini_batches.jsonl".to_owned());
    let failed = if failed { stored.text("output/failed_mini_batches.jsonl") } else { String::new() };
    let failed = failed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (String::from_utf8(stored.result()).unwrap(), failed)
}

#[track_caller]
fn says(failed: &Value, index: u64, parts: &[&str]) {
    let one = &failed["tries"][0];
    assert_eq!((&failed["minibatch_index"], &one["status"]), (&json!(index), &json!("LOAD_EXCEPTION")));
    let message = one["message"].as_str().unwrap();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not said: {message}");
    }
}

#[test]
fn an_uploaded_file_that_is_damaged_fails_its_mini_batch() {
    let fleet = Fleet::shared();
    let name = "damaged-blob";
    let job = on_fleet(fleet, name, READS).with_files(5).with("mini_batch_size", 1);
    // No other test has it.
    job.data("0003.txt", "damaged");
    let (submitted, _) = planned(fleet, &job, name);
    let key = blob_of(fleet, b"damaged");
    flip(fleet, &key, 5);
    let (rows, failed) = completes(fleet, &job, name, submitted);
    assert_eq!(rows, "0000.txt item 0\n0001.txt item 1\n0002.txt item 2\n0004.txt item 4\n");
    assert_eq!(failed.len(), 1);
    says(&failed[0], 3, &["data/0003.txt", &key, "is damaged: it does not hold what its name says"]);
}

#[test]
fn a_table_that_is_damaged_in_storage_is_not_planned() {
    let fleet = Fleet::shared();
    let name = "damaged-table";
    let job = on_fleet(fleet, name, TABLE).with_tables(&[20, 30, 40]);
    let text = fs::read(job.path("data/001.csv")).unwrap();
    let id = fleet.hand_in(&job);
    let key = blob_of(fleet, &text);
    flip(fleet, &key, text.len() - 3);
    let waiting = job.start(&["stream", &id, "-o", "json"]);
    let _worker = fleet.worker(&job, &["--target", name]);
    let ended = waiting.wait();
    let stored = fleet.stored(&id);
    assert_eq!(ended.code, Some(10), "{}\n{}", ended.stderr, fleet.story());
    assert_eq!(String::from_utf8(stored.result()).unwrap().lines().count(), 60);
    let failed: Value = serde_json::from_str(&stored.text("output/failed_mini_batches.jsonl")).unwrap();
    says(&failed, 1, &["data/001.csv", &key, "is damaged: it does not hold what its name says"]);
}

#[test]
fn a_plain_copy_that_is_damaged_fails_slices_and_is_made_again_by_resume() {
    let fleet = Fleet::shared();
    let name = "damaged-copy";
    let job = on_fleet(fleet, name, TABLE).with_tables(&[400]).with("mini_batch_size", "1KB");
    let text = fs::read(job.path("data/000.csv")).unwrap();
    let compress = "import gzip, sys\nsys.stdout.buffer.write(gzip.compress(open('000.csv', 'rb').read()))";
    job.data("000.csv.gz", expected_by_python(&job.path("data"), compress));
    fs::remove_file(job.path("data/000.csv")).unwrap();
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data" }]));
    let (submitted, id) = planned(fleet, &job, name);
    let key = "plain/0-000000";
    assert_eq!(fleet.stored(&id).bytes(key), text);
    flip(fleet, &format!("prs/jobs/{id}/{key}"), text.len() / 2);
    let (rows, failed) = completes(fleet, &job, name, submitted);
    assert_eq!(failed.len(), 1, "{failed:?}");
    let index = failed[0]["minibatch_index"].as_u64().unwrap();
    says(&failed[0], index, &["000.csv.gz", key, "are not those that were planned"]);
    assert!(rows.lines().count() < 400);

    let _worker = fleet.worker(&job, &["--target", name]);
    let resumed = job.command(&["resume", &id, "-o", "json"]);
    resumed.expect_code(0);
    assert_eq!(resumed.json()["mini_batches"]["failed"], 0, "{}", fleet.story());
    let result = String::from_utf8(fleet.stored(&id).result()).unwrap();
    let ids: Vec<u32> = result.lines().map(|row| row.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(ids.into_iter().eq(0..400));
}

#[test]
fn a_stored_descriptor_that_is_damaged_fails_its_mini_batch() {
    let fleet = Fleet::shared();
    let name = "damaged-plan";
    let job = on_fleet(fleet, name, "def run(mini_batch):\n    return mini_batch\n").with_files(0);
    for number in 0..1_500 {
        job.data(&format!("{number:04}-with-a-name-that-makes-descriptors-long.txt"), "");
    }
    let job = job.with("mini_batch_size", 750);
    let (submitted, id) = planned(fleet, &job, name);
    let key = "plan/0000000001";
    flip(fleet, &format!("prs/jobs/{id}/{key}"), 40_000);
    let (rows, failed) = completes(fleet, &job, name, submitted);
    assert_eq!(rows.lines().count(), 750);
    assert_eq!(failed.len(), 1);
    says(&failed[0], 1, &[key, "the descriptor of the mini-batch is damaged"]);
}

#[test]
fn a_listing_that_is_damaged_fails_the_job_and_is_named() {
    let fleet = Fleet::shared();
    let name = "damaged-listing";
    let job = on_fleet(fleet, name, READS).with_files(300).with("mini_batch_size", 1);
    let id = fleet.hand_in(&job);
    let key = format!("prs/jobs/{id}/inputs/input_1.manifest");
    let whole = fleet.s3.object(BUCKET, &key).unwrap();
    flip(fleet, &key, Random::new(7).below(whole.len() as u64 - 20) as usize + 10);
    let waiting = job.start(&["stream", &id, "-o", "json"]);
    let _worker = fleet.worker(&job, &["--target", name]);
    let ended = waiting.wait();
    assert_eq!(ended.code, Some(42), "{}\n{}", ended.stderr, fleet.story());
    let reason = fleet.stored(&id).text("logs/job_result.txt");
    let reason = reason.lines().next().unwrap();
    assert!(reason.contains("the listing inputs/input_1.manifest is damaged: "), "{reason}");
}

#[test]
fn objects_that_are_replaced_after_the_plan_fail_their_mini_batches() {
    let fleet = Fleet::shared();
    let name = "replaced-objects";
    fleet.s3.make_bucket(name);
    for number in 0..4 {
        fleet.s3.put_object(name, &format!("in/{number:04}.txt"), format!("item {number}").as_bytes());
    }
    let inputs = json!([{ "type": "file", "path": format!("s3://{name}/in") }]);
    let job = on_fleet(fleet, name, READS).with("inputs", inputs).with("mini_batch_size", 1);
    let (submitted, _) = planned(fleet, &job, name);
    fleet.s3.put_object(name, "in/0002.txt", b"ITEM 2");
    let (rows, failed) = completes(fleet, &job, name, submitted);
    assert_eq!(rows, "0000.txt item 0\n0001.txt item 1\n0003.txt item 3\n");
    assert_eq!(failed.len(), 1);
    let told = format!("s3://{name}/in/0002.txt");
    says(&failed[0], 2, &[&told, "it changed since it was planned: the object was replaced by another one"]);
}

/// What the store keeps a checksum of, whether it is read in one piece or in many.
#[test]
fn objects_that_are_damaged_at_rest_fail_their_mini_batches() {
    let fleet = Fleet::shared();
    let name = "damaged-objects";
    fleet.s3.make_bucket(name);
    let sizes = [10, 3 << 20, 20 << 20];
    for (number, size) in sizes.into_iter().enumerate() {
        for state in ["damaged", "sound"] {
            fleet.s3.put_object(name, &format!("in/{number}-{state}"), &vec![7; size]);
        }
        fleet.s3.damage(name, &format!("in/{number}-damaged"), &mut |bytes| bytes[size - 1] ^= 1);
    }
    let script = "
import os
def run(mini_batch):
    return [f'{os.path.basename(path)} {os.path.getsize(path)}' for path in mini_batch]
";
    let inputs = json!([{ "type": "file", "path": format!("s3://{name}/in") }]);
    let job = on_fleet(fleet, name, script).with("inputs", inputs).with("mini_batch_size", 1);
    let (submitted, _) = planned(fleet, &job, name);
    let (rows, failed) = completes(fleet, &job, name, submitted);
    let sound = sizes.iter().enumerate().map(|(number, size)| format!("{number}-sound {size}\n"));
    assert_eq!(rows, sound.collect::<String>());
    assert_eq!(failed.len(), sizes.len());
    for (number, failed) in failed.iter().enumerate() {
        let told = format!("s3://{name}/in/{number}-damaged");
        says(failed, 2 * number as u64, &[&told, "damaged", "write it anew"]);
    }
}

#[test]
fn a_table_in_a_bucket_that_is_replaced_after_the_plan_gives_no_mixed_rows() {
    let fleet = Fleet::shared();
    let name = "replaced-table";
    fleet.s3.make_bucket(name);
    let text: String =
        std::iter::once("id,name\n".to_owned()).chain((0..300).map(|id| format!("{id},before\n"))).collect();
    fleet.s3.put_object(name, "t.csv", text.as_bytes());
    let inputs = json!([{ "type": "tabular", "path": format!("s3://{name}") }]);
    let job = on_fleet(fleet, name, TABLE).with("inputs", inputs).with("mini_batch_size", "1KB");
    let (submitted, id) = planned(fleet, &job, name);
    fleet.s3.put_object(name, "t.csv", text.replace("before", "after!").as_bytes());
    let _worker = fleet.worker(&job, &["--target", name]);
    let ended = submitted.wait();
    ended.expect_code(42);
    let reason = fleet.stored(&id).text("logs/job_result.txt");
    assert!(reason.contains("it changed since it was planned: the object was replaced"), "{reason}");
}

#[test]
fn a_plain_copy_that_is_damaged_on_the_host_fails_slices() {
    let script = "
from marks import mark, wait_for
def run(frame, context):
    if context.minibatch_index == 0:
        mark('begun')
        wait_for('go')
    return frame
";
    let job = Job::new(script).with_tables(&[400]).with("mini_batch_size", "1KB").with("run_max_try", 1);
    let compress = "import gzip, sys\nsys.stdout.buffer.write(gzip.compress(open('000.csv', 'rb').read()))";
    job.data("000.csv.gz", expected_by_python(&job.path("data"), compress));
    fs::remove_file(job.path("data/000.csv")).unwrap();
    let inputs = json!([{ "type": "tabular", "path": "data" }]);
    let job = job.with("inputs", inputs).with("process_count_per_node", 1);
    let mut submitted = job.start_submit(&[]);
    submitted.wait_until("the first mini-batch", || !job.marks("begun").is_empty());
    let copy = job.run().files("").into_iter().find(|name| name.ends_with("plain/0-000000")).unwrap();
    let copy = job.run().path().join(copy);
    let mut bytes = fs::read(&copy).unwrap();
    let place = bytes.len() - 5;
    bytes[place] ^= 0x02;
    fs::write(&copy, bytes).unwrap();
    job.mark("go");
    submitted.wait().expect_code(10);
    let failed = job.run().failed_mini_batches();
    assert_eq!(failed.len(), 1);
    let index = failed[0]["minibatch_index"].as_u64().unwrap();
    says(&failed[0], index, &["000.csv.gz: its copy ", "plain/0-000000 is damaged"]);
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows().len(), 400);
    assert!(job.run().failed_mini_batches().is_empty());
}

#[test]
fn messages_that_name_data_of_others_go_to_the_dead_letters() {
    let fleet = Fleet::apart();
    let name = "foreign-data";
    let job = on_fleet(&fleet, name, READS).with_files(4).with("mini_batch_size", 1);
    let (submitted, id) = planned(&fleet, &job, name);
    let foreign = |store, key| {
        let source = ObjectSource { number: 0, store, prefix: "", origin: "/", is_listed: true };
        let file = ObjectRef { source: 0, relative: "stolen", key, size: None, version: "" };
        Work::Objects { sources: vec![source], files: vec![file] }
    };
    let job_file = format!("jobs/{id}/job.json");
    let works = [
        Work::Files { base: "/etc", paths: vec!["passwd"], versions: &[], names: Vec::new() },
        foreign(StoreRef::Local, "passwd"),
        foreign(StoreRef::Url("file:///etc"), "passwd"),
        foreign(StoreRef::Shared, &job_file),
        foreign(StoreRef::Job, "job.json"),
    ];
    let bodies = works.map(|work| MiniBatch::new(3, 0, work).encode().into());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let depth = |queue: &'static str| {
        runtime.block_on(async {
            let broker = RabbitMqQueue::connect(&fleet.broker_url()).await.unwrap();
            let depth = broker.depth(queue).await.map_or(0, |depth| depth.ready);
            broker.close().await;
            depth
        })
    };
    runtime.block_on(async {
        let broker = RabbitMqQueue::connect(&fleet.broker_url()).await.unwrap();
        broker.publish(&format!("prs.job.{id}"), bodies.to_vec()).await.unwrap();
        broker.close().await;
    });
    let (rows, failed) = completes(&fleet, &job, name, submitted);
    assert_eq!(rows, "0000.txt item 0\n0001.txt item 1\n0002.txt item 2\n0003.txt item 3\n");
    assert!(failed.is_empty());
    wait_for("the dead letters", PATIENCE, || (depth("prs.dead") == 5).then_some(()));
    let story = fleet.story();
    for what in [
        "names /etc/passwd, and input input_1 has no local files",
        "names file:///etc, and input input_1 is not there",
        "names the object jobs/",
        "names the object job.json, which is no input of the job",
    ] {
        assert!(story.contains(what), "{what}\n{story}");
    }
}
