//! One bit of anything that a job has in storage is another: the result has the right bytes, or the end of the command
//! names what is damaged. No row of a completed job is wrong (spec S15).
//!
//! `PRS_DAMAGE_ROUNDS` rounds of each test [20], from the seed `PRS_DAMAGE_SEED` [1] on.

use std::fs;

use prs_common::segment::{ProcessRef, SegmentBuilder, TryRecord, TryStatus};
use prs_tests::harness::{Ended, Fleet, Job, Random, copy_folder};
use serde_json::json;

/// Mini-batches 1 and 4 fail until the mark `cure`; each writes a file.
const CURABLE: &str = r#"
import os
from azureml_user.parallel_run import EntryScript
from marks import is_marked

def run(mini_batch, context):
    index = context.minibatch_index
    if index in (1, 4) and not is_marked("cure"):
        raise ValueError("not yet")
    with open(os.path.join(EntryScript().output_dir, f"file-{index}"), "w") as file:
        file.write(f"content of {index}\n" * 20)
    return [f"{index} {os.path.basename(path)} {'#' * 100}" for path in mini_batch]
"#;
const FILES: usize = 20;

fn curable() -> Job {
    Job::new(CURABLE).with_files(FILES).with("run_max_try", 1)
}

/// The rows, and the files beside them.
fn expected() -> Vec<(String, String)> {
    let row = |number: usize| format!("{} {number:04}.txt {}\n", number / 2, "#".repeat(100));
    let rows = (0..FILES).map(row).collect::<Vec<_>>().concat();
    let files = (0..FILES / 2)
        .map(|index| (format!("output/file-{index}"), format!("content of {index}\n").repeat(20)));
    std::iter::once(("output/parallel_run_step.txt".to_owned(), rows)).chain(files).collect()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn rounds() -> impl Iterator<Item = u64> {
    let first = setting("PRS_DAMAGE_SEED", 1);
    first..first + setting("PRS_DAMAGE_ROUNDS", 20)
}

/// Flips one bit, of which the caller is told.
fn flip(bytes: &mut [u8], random: &mut Random) -> String {
    let bit = random.below(bytes.len() as u64 * 8) as usize;
    bytes[bit / 8] ^= 1 << (bit % 8);
    format!("bit {bit}")
}

/// Asserts what holds after one bit of `key` was flipped.
fn is_right_or_named(what: &str, key: &str, ended: &Ended, read: impl Fn(&str) -> Option<Vec<u8>>) {
    let said = format!("{what} of {key}: {:?}\n{}\n{}", ended.code, ended.stdout, ended.stderr);
    if ended.code == Some(0) {
        for (name, content) in expected() {
            let read = read(&name).unwrap_or_else(|| panic!("{name} is missing; {said}"));
            assert!(read == content.as_bytes(), "{name} is wrong; {said}");
        }
        assert_eq!(ended.json()["mini_batches"]["succeeded"], FILES / 2, "{said}");
        return;
    }
    let name = key.rsplit('/').next().unwrap();
    assert!(ended.stderr.contains(name), "the end does not name what is damaged; {said}");
    assert!(!ended.stderr.contains("panicked"), "{said}");
}

/// One of the objects, most often not a log: nobody reads these.
fn choose<'a>(objects: &'a [String], random: &mut Random) -> &'a str {
    let with_logs = random.below(10) == 0;
    let objects: Vec<_> = objects.iter().filter(|name| with_logs || !name.starts_with("logs/")).collect();
    objects[random.below(objects.len() as u64) as usize]
}

#[test]
fn in_a_run_folder() {
    let job = curable();
    let printed = job.completes();
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 10, "succeeded": 8, "failed": 2 }));
    job.mark("cure");
    for round in rounds() {
        let random = &mut Random::new(round);
        let run = job.path(&format!("run-{round}"));
        copy_folder(job.run().path(), &run);
        let objects: Vec<_> =
            job.run().files("").into_iter().filter(|name| !job.run().bytes(name).is_empty()).collect();
        let key = choose(&objects, random);
        let mut bytes = fs::read(run.join(key)).unwrap();
        let what = flip(&mut bytes, random);
        fs::write(run.join(key), bytes).unwrap();
        let ended = job.command(&["resume", &run.display().to_string(), "-o", "json"]);
        is_right_or_named(&format!("round {round}, {what}"), key, &ended, |name| {
            fs::read(run.join(name)).ok()
        });
        fs::remove_dir_all(run).unwrap();
    }
}

#[test]
fn in_a_bucket() {
    let fleet = Fleet::start();
    let job = fleet.job(curable());
    let worker = fleet.worker(&job, &[]);
    for round in rounds() {
        let random = &mut Random::new(round);
        let printed = fleet.completes(&job);
        assert_eq!(printed["mini_batches"]["failed"], 2);
        let id = printed["job_id"].as_str().unwrap();
        let stored = fleet.stored(id);
        let keys: Vec<_> = stored.keys().into_iter().filter(|key| !stored.bytes(key).is_empty()).collect();
        let key = choose(&keys, random);
        let mut what = String::new();
        stored.damage(key, |bytes| what = flip(bytes, random));
        job.mark("cure");
        let ended = job.command(&["resume", id, "-o", "json"]);
        let what = format!("round {round}, {what}\n{}", fleet.story());
        is_right_or_named(&what, key, &ended, |name| {
            stored.keys().contains(&name.to_owned()).then(|| stored.bytes(name))
        });
        job.unmark("cure");
    }
    drop(worker);
}

/// The archive of another script under the name of this job's.
#[test]
fn code_that_was_replaced_never_runs() {
    let (job, other) = (curable(), Job::new("def run(mini_batch):\n    return ['EVIL']\n").with_files(2));
    job.completes();
    other.completes();
    let archive = |job: &Job| job.run().path().join(&job.run().files("code")[0]);
    fs::copy(archive(&other), archive(&job)).unwrap();
    job.mark("cure");
    let ended = job.resume();
    job.has_failed_again(&ended, &["code/", "not what its name says"]);
    let refused = job.command(&["resubmit", &job.run().path().display().to_string()]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("not what its name says"), "{}", refused.stderr);
}

/// A segment as prs writes them, with an outcome of a mini-batch that the plan does not have.
#[test]
fn indices_that_no_plan_has_cost_nothing() {
    let job = curable();
    job.completes();
    job.mark("cure");
    for (number, index) in [1 << 40, u64::from(u32::MAX), 30_000_000, 5_000].into_iter().enumerate() {
        let run = job.path(&format!("run-{number}"));
        copy_folder(job.run().path(), &run);
        let key = format!("segments/0001-00009-dead-{number:08}.seg");
        let mut segment = SegmentBuilder::default();
        let record = TryRecord { last: true, ..TryRecord::new(index, b"", TryStatus::RunDone) };
        segment.add(record, &ProcessRef::default(), "a row of nobody\n".into());
        let (parts, _) = segment.seal(&key, 1, 9, "192.0.2.1");
        fs::write(run.join(&key), parts.concat()).unwrap();
        let mut resume = job.start(&["resume", &run.display().to_string(), "-o", "json"]);
        let mut peak = 0;
        while !resume.has_ended() {
            peak = peak.max(resume.peak_memory());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let ended = resume.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains(&key), "{index} is not told: {}", ended.stderr);
        is_right_or_named("a foreign index", &key, &ended, |name| fs::read(run.join(name)).ok());
        assert!(peak < 200 << 20, "{peak} bytes for {index}");
    }
}
