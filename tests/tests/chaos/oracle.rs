//! What must hold after every job, whatever happened to it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use prs_tests::deadline::comes_within;
use prs_tests::harness::{Fleet, Row, parse_csv};
use serde_json::{Value, json};

use crate::chaos_run::{ChaosRun, Expected, FILES, panics};

/// How long what is left of a job may take to be cleaned up, once its result is known.
const CLEAN_UP: Duration = Duration::from_mins(1);
/// What is printed of a result as it is in storage.
const PRINTED: [&str; 12] = [
    "/job_id",
    "/state",
    "/reason",
    "/complete",
    "/items",
    "/mini_batches",
    "/mini_batches_missing",
    "/starts",
    "/tries",
    "/output/rows",
    "/output/bytes",
    "/output/sha256",
];
/// What the report says of a try that came after the first commit of its mini-batch.
const NOT_COUNTED: &str = "Duplicate";

/// Asserts all of it. Ends the workers.
pub(crate) fn asked(chaos: &mut ChaosRun<'_>, printed: Option<&Value>, expected: &Expected) {
    let result = chaos.result().expect("the job has ended");
    if let Some(printed) = printed {
        is_printed(&result, printed);
    }
    is_tidied_up(chaos, expected);
    the_bytes(chaos, &result, &expected.failed);
    the_counts(chaos, &result, &expected.failed);
    nothing_left(chaos, expected);
    let panicked = panics(chaos.fleet) > chaos.panics_before;
    assert_eq!(panicked, expected.panics, "whether a worker panicked\n{}", chaos.fleet.story());
}

/// What was printed of a result is what is in storage.
pub(crate) fn is_printed(result: &Value, printed: &Value) {
    for key in PRINTED {
        assert_eq!(printed.pointer(key), result.pointer(key), "{key}, printed and in storage");
    }
}

fn the_bytes(chaos: &ChaosRun<'_>, result: &Value, failed: &[usize]) {
    assert_eq!(result["state"], "completed", "{result}\n{}", chaos.story());
    let stored = chaos.fleet.stored(&chaos.id()).result();
    let stored = String::from_utf8(stored).unwrap();
    let expected = chaos.rows(failed);
    if stored != expected {
        let differs = stored.lines().zip(expected.lines()).position(|(is, should)| is != should);
        let (is, should) = (stored.lines().count(), expected.lines().count());
        panic!("{is} rows and not {should}, the first other one at {differs:?}\n{result}\n{}", chaos.story());
    }
    assert_eq!(result["output"]["rows"], expected.lines().count());
    assert_eq!(result["output"]["bytes"], expected.len());
}

/// The printed result, `job_result.txt` and the report of tries say the same: each mini-batch ended once.
fn the_counts(chaos: &ChaosRun<'_>, result: &Value, failed: &[usize]) {
    let all = chaos.shape.mini_batches;
    let good = all - failed.len();
    assert_eq!(
        result["mini_batches"],
        json!({ "scheduled": all, "succeeded": good, "failed": failed.len() })
    );
    let items = json!({ "total": all * FILES, "succeeded": good * FILES, "failed": failed.len() * FILES });
    assert_eq!(result["items"], items);

    let stored = chaos.fleet.stored(&chaos.id());
    let said = stored.text("logs/job_result.txt");
    let counts = format!("mini-batches  {all} scheduled, {good} succeeded, {} failed\n", failed.len());
    let state = if failed.is_empty() { "completed\n" } else { "completed: " };
    assert!(said.starts_with(state) && said.contains(&counts), "{said}");

    let report = stored.text("logs/sys/job_report/processed_mini-batches.csv");
    let (odd, ran) = odd_ones(&report, (0..all).filter(|index| !failed.contains(index)), FILES);
    assert!(
        odd.is_empty(),
        "not each item of each mini-batch counts once: {odd:?}\n{ran:#?}\n{}",
        chaos.story()
    );
}

/// The mini-batches of which not each of so many items counts once, by the report of tries of the whole or of its parts, with
/// how many do; and all their tries.
pub(crate) fn odd_ones(
    report: &str,
    expected: impl Iterator<Item = usize>,
    items: usize,
) -> (BTreeMap<String, Option<usize>>, Vec<Row>) {
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let (_, tries) = parse_csv(report);
    for row in &tries {
        if row["Status"] == "RUN_DONE" && row["Error Category"] != NOT_COUNTED {
            *done.entry(row["Mini-batch Id"].clone()).or_default() +=
                row["Succeeded"].parse::<usize>().unwrap();
        }
    }
    let once: BTreeMap<String, usize> = expected.map(|index| (format!("mb-{index:010}"), items)).collect();
    let odd = once.keys().chain(done.keys()).filter(|id| once.get(*id) != done.get(*id));
    let odd: BTreeMap<_, _> = odd.map(|id| (id.clone(), done.get(id).copied())).collect();
    let ran = tries.into_iter().filter(|row| odd.contains_key(&row["Mini-batch Id"])).collect();
    (odd, ran)
}

/// The job is in no list of what is to be done any more, so its reports are finished.
fn is_tidied_up(chaos: &ChaosRun<'_>, expected: &Expected) {
    let mut left = String::new();
    let clean = comes_within(CLEAN_UP, || {
        left = left_on_servers(chaos.fleet, expected.dead);
        left.is_empty().then_some(())
    });
    assert!(clean.is_some(), "left behind: {left}\n{}", chaos.story());
}

fn nothing_left(chaos: &mut ChaosRun<'_>, expected: &Expected) {
    let id = chaos.id();
    let of_no_use = |key: &String| {
        ["segments/", "files/", "damaged/", "notes/", "plan/", "plain/"]
            .iter()
            .any(|start| key.starts_with(start))
    };
    // A worker that was away at the end may only now store its last rows, and removes them when it has heard.
    let mut left = Vec::new();
    let clean = comes_within(CLEAN_UP, || {
        left = chaos.fleet.stored(&id).keys();
        left.retain(of_no_use);
        // What failed may be resumed.
        (left.is_empty() || !expected.failed.is_empty()).then_some(())
    });
    assert!(clean.is_some(), "left in storage: {left:?}\n{}", chaos.story());
    let uploads = chaos.fleet.incomplete_uploads();
    assert!(uploads.is_empty(), "uploads that never ended: {uploads:?}");

    let mut processes = Vec::new();
    let ended = comes_within(CLEAN_UP, || {
        processes = chaos.job.script_processes();
        processes.is_empty().then_some(())
    });
    assert!(ended.is_some(), "processes of the job are left: {processes:?}\n{}", chaos.story());
    chaos.dismiss();
    chaos.job.soon_leaves_nothing();
    let work = chaos.fleet.work_folder();
    let left: Vec<_> = std::fs::read_dir(&work).into_iter().flatten().flatten().collect();
    assert!(left.is_empty() || chaos.kills > 0, "left in the work folder: {left:?}\n{}", chaos.story());
    let _ = std::fs::remove_dir_all(&work);
    if expected.dead > 0 {
        chaos.fleet.broker.control(&["purge_queue", "prs.dead"]);
    }
}

/// What there is on the broker and in Redis that should not be, but for so many dead letters; empty when all is well.
pub(crate) fn left_on_servers(fleet: &Fleet, dead: u64) -> String {
    let mut left = String::new();
    // Whose ledger it is, which targets have workers, which are idle, that the offers were compared with storage, and the index of
    // all jobs, is no job's.
    let of_no_job = |key: &&str| {
        ["prs:storage", "prs:targets", "prs:draining"].contains(key)
            || key.starts_with("prs:jobs")
            || (key.starts_with("prs:{@") && !key.ends_with(":offers"))
    };
    let keys = fleet.redis.cli(&["keys", "*"]);
    let keys: Vec<_> = keys.lines().filter(|key| !key.is_empty() && !of_no_job(key)).collect();
    if !keys.is_empty() {
        let _ = write!(left, "keys {keys:?} ");
    }
    let active = fleet.active();
    if !active.is_empty() {
        let _ = write!(left, "to be served {active:?} ");
    }
    let listed = fleet.broker.control(&["list_queues", "--no-table-headers", "name", "messages"]);
    for line in listed.lines() {
        let (name, messages) = line.split_once('\t').unwrap_or((line, "?"));
        let right = match name {
            "prs.dead" => dead.to_string(),
            _ => "no such queue".to_owned(),
        };
        if messages != right {
            let _ = write!(left, "queue {name} with {messages} messages ");
        }
    }
    left
}
