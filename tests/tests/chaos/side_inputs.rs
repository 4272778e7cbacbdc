//! Side inputs while those who fetch them die, and while the copy that a host has is damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use prs_common::hexadecimal;
use prs_tests::harness::{Fleet, Random};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::chaos_run::{ChaosJob, ChaosRun, Expected};

/// Files of the side input.
const FILES: u64 = 40;
/// One that is not read in one step, bytes.
const LARGE: usize = 3 << 20;
/// What the script has beside it: the SHA-256 of all files of a folder, in the order of their names.
const HASH: &str = r#"
import hashlib, os
from marks import mark

def check():
    found = hashlib.sha256()
    for folder, folders, names in os.walk(os.environ["WEIGHTS"]):
        folders.sort()
        for name in sorted(names):
            with open(os.path.join(folder, name), "rb") as file:
                found.update(file.read())
    if found.hexdigest() != os.environ["WEIGHTS_SHA256"]:
        mark("wrong", found.hexdigest())
        raise ValueError("the side input is another")
"#;

/// A job whose mini-batches look at a side input first.
fn looking(mini_batches: usize, pause: u64) -> ChaosJob {
    ChaosJob { mini_batches, pause, first: "import weights; weights.check()", ..ChaosJob::default() }
}

/// What no other side input of these tests has.
fn content() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("weights of {} ", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn file_of(content: &str, number: u64) -> Vec<u8> {
    let text = content.repeat(1 + number as usize).into_bytes();
    if number == 7 { text.repeat(LARGE / text.len()) } else { text }
}

/// Gives the job a side input with this content.
fn with_side_input<'a>(mut chaos: ChaosRun<'a>, content: &str) -> ChaosRun<'a> {
    let folder = chaos.job.path("weights");
    fs::create_dir_all(folder.join("deep")).unwrap();
    let mut hash = Sha256::new();
    let (deep, flat): (Vec<u64>, Vec<u64>) = (0..FILES).partition(|number| number % 4 == 0);
    for (below, numbers) in [("", flat), ("deep", deep)] {
        for number in numbers {
            let bytes = file_of(content, number);
            hash.update(&bytes);
            fs::write(folder.join(below).join(format!("{number:02}")), bytes).unwrap();
        }
    }
    chaos.job.code("weights.py", HASH);
    chaos.job = chaos
        .job
        .with("side_inputs", json!({ "weights": folder }))
        .with_variable("WEIGHTS", "${{side_inputs.weights}}")
        .with_variable("WEIGHTS_SHA256", &hexadecimal(&hash.finalize()));
    chaos
}

/// A worker that ran with another side input said so.
fn ends_right(chaos: ChaosRun<'_>) {
    chaos.ends_with(&Expected::default(), |chaos| {
        assert_eq!(chaos.job.marks("wrong"), [""; 0], "{}", chaos.story());
    });
}

/// Both nodes die while they fetch it, twice, on one host or on two; the second time broker and ledger forget the job.
pub(crate) fn fetchers_die(fleet: &mut Fleet, random: &mut Random) {
    let hosts = [["work", "work"], ["work", "another-host"]][random.below(2) as usize];
    let mut chaos = with_side_input(ChaosRun::new(fleet, looking(120, 100)), &content());
    let hire = |chaos: &mut ChaosRun<'_>, random: &mut Random| {
        for host in hosts {
            let at = format!("side_input_file:{}", 1 + random.below(FILES));
            chaos.hire_on(host, &[("PRS_FAILPOINT", &at)]);
        }
    };
    hire(&mut chaos, random);
    chaos.submit(&[]);
    for again in [true, false] {
        while !chaos.crew.is_empty() {
            chaos.dies(0);
        }
        if again {
            hire(&mut chaos, random);
        }
    }
    assert_eq!(chaos.begun(), 0, "no mini-batch may begin without the side input");
    chaos.fleet.redis.wipe_and_restart();
    chaos.fleet.broker.wipe_and_restart();
    for host in hosts {
        chaos.hire_on(host, &[]);
    }
    ends_right(chaos);
}

/// What may become of the copy that a host keeps.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Content,
    FileGone,
    FileMore,
    FolderGone,
    NoteEmpty,
    NoteGarbage,
    NoteGone,
}

/// The copy that the host has of this side input: its folder, and the file that is locked.
fn copy_of(fleet: &Fleet, content: &str) -> (PathBuf, PathBuf) {
    let folders = fs::read_dir(fleet.work_folder().join("prs-side-inputs")).unwrap().flatten();
    let is_it = |folder: &PathBuf| {
        fs::read(folder.join("01")).is_ok_and(|bytes| bytes == file_of(content, 1))
            || fs::read(folder.join("02")).is_ok_and(|bytes| bytes == file_of(content, 2))
    };
    let folder = folders.map(|entry| entry.path()).find(is_it).expect("the host keeps it");
    let lock = PathBuf::from(format!("{}.lock", folder.display()));
    assert!(lock.is_file(), "{}", lock.display());
    (folder, lock)
}

fn damage(folder: &Path, lock: &Path, how: Damage) {
    let file = folder.join("01");
    let writable = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    writable(folder);
    match how {
        Damage::Content => {
            writable(&file);
            fs::write(&file, "damaged").unwrap();
        }
        Damage::FileGone => fs::remove_file(&file).unwrap(),
        Damage::FileMore => fs::write(folder.join("more"), "more").unwrap(),
        Damage::FolderGone => fs::remove_dir_all(folder).unwrap(),
        Damage::NoteEmpty => fs::write(lock, "").unwrap(),
        Damage::NoteGarbage => fs::write(lock, b"\xff 17 what is this\n\n").unwrap(),
        Damage::NoteGone => fs::remove_file(lock).unwrap(),
    }
}

/// A worker keeps the copy from job to job; in between it is damaged, in every way in turn. Each job has it whole.
pub(crate) fn copies_are_damaged(fleet: &mut Fleet, random: &mut Random) {
    let content = content();
    let shape = ChaosJob { nodes: 1, ..looking(8, 10) };
    let mut first = with_side_input(ChaosRun::new(fleet, shape.clone()), &content);
    first.hire(&[]);
    first.submit(&[]);
    first.forget_submit().wait().expect_completed();
    let mut ways = [
        Damage::Content,
        Damage::FileGone,
        Damage::FileMore,
        Damage::FolderGone,
        Damage::NoteEmpty,
        Damage::NoteGarbage,
        Damage::NoteGone,
    ];
    for last in (1..ways.len()).rev() {
        ways.swap(last, random.below(last as u64 + 1) as usize);
    }
    let mut crew = std::mem::take(&mut first.crew);
    for (number, how) in ways.into_iter().enumerate() {
        let (folder, lock) = copy_of(first.fleet, &content);
        damage(&folder, &lock, how);
        let mut next = with_side_input(ChaosRun::new(first.fleet, shape.clone()), &content);
        next.crew = std::mem::take(&mut crew);
        next.submit(&[]);
        if number + 1 == ways.len() {
            ends_right(next);
            break;
        }
        let ended = next.forget_submit().wait();
        assert_eq!(ended.code, Some(0), "{how:?}: {}\n{}", ended.stderr, next.story());
        assert_eq!(next.job.marks("wrong"), [""; 0], "{how:?}: {}", next.story());
        crew = std::mem::take(&mut next.crew);
    }
}

/// One bit of what was uploaded is another, before a worker fetched it: the job fails and names the file, and the worker
/// serves the next job.
pub(crate) fn what_was_uploaded_is_damaged(fleet: &mut Fleet, random: &mut Random) {
    const BUCKET: &str = "fleet";
    let content = content();
    let mut chaos = with_side_input(ChaosRun::new(fleet, looking(8, 10)), &content);
    chaos.submit_detached();
    let number = 1 + random.below(FILES - 1);
    let bytes = file_of(&content, number);
    let objects = chaos.fleet.s3.objects(BUCKET).into_iter().map(|(key, _)| key);
    let is_it = |key: &String| chaos.fleet.s3.object(BUCKET, key).is_some_and(|found| found == bytes);
    let key = objects.collect::<Vec<_>>().into_iter().find(is_it).expect("it was uploaded");
    let bit = random.below(bytes.len() as u64 * 8) as usize;
    let mut flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
    chaos.fleet.s3.damage(BUCKET, &key, &mut flip);
    chaos.hire(&[]);
    chaos.hire(&[]);
    chaos.until_ended(|_| {});
    let result = chaos.result().expect("it has ended");
    let reason = result["reason"].as_str().unwrap_or_default();
    let names = format!("{number:02}");
    assert!(
        result["state"] == "failed"
            && reason.contains("side input weights cannot be read")
            && reason.contains(&names),
        "{result}\n{}",
        chaos.story()
    );
    assert_eq!(chaos.begun(), 0, "no mini-batch may begin without the side input");
    // Whole again, for the next job with the same file.
    chaos.fleet.s3.damage(BUCKET, &key, &mut flip);
    let crew = std::mem::take(&mut chaos.crew);
    let mut next = with_side_input(ChaosRun::new(chaos.fleet, looking(8, 10)), &content);
    next.crew = crew;
    next.submit(&[]);
    ends_right(next);
}
