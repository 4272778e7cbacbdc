//! The index of jobs. Other cases may note jobs in it at the same time.

use std::time::Duration;

use bytes::Bytes;
use prs_common::ledger::{EndKind, EndedJob, Filling, IndexedJob, JobState, Ledger, Noted};
use prs_common::timestamp::now_us;

use super::unique;

fn job(job_id: &str, order: u64, summary: &str) -> IndexedJob {
    let summary = Bytes::copy_from_slice(summary.as_bytes());
    IndexedJob { job_id: job_id.to_owned(), order, summary, ended: None }
}

/// What changed of jobs whose ids begin so, behind a change, in the order of the changes; and the number of the last.
async fn changed(ledger: &dyn Ledger, begin: &str, mut since: u64) -> (Vec<(String, Option<String>)>, u64) {
    let mut found = Vec::new();
    loop {
        let changes = ledger.changed_jobs(since, 2).await.unwrap();
        if changes.changed.is_empty() {
            assert_eq!(changes.last, since);
            return (found, since);
        }
        assert!(changes.changed.len() <= 2 && changes.last > since, "{changes:?}");
        since = changes.last;
        for (id, summary) in changes.changed {
            if id.starts_with(begin) {
                found.push((id, summary.map(|summary| String::from_utf8(summary.to_vec()).unwrap())));
            }
        }
    }
}

pub(super) async fn noted_jobs_are_asked_for_by_what_changed(ledger: &dyn Ledger) {
    let begin = unique("noted");
    let id = |name: &str| format!("{begin}-{name}");
    for name in ["a", "b", "c"] {
        assert!(ledger.note_job(&job(&id(name), 1, "first: \u{e4}"), Noted::Now).await.unwrap());
    }
    let of = |name: &str, summary: Option<&str>| (id(name), summary.map(str::to_owned));
    let first = Some("first: \u{e4}");
    let (found, last) = changed(ledger, &begin, 0).await;
    assert_eq!(found, [of("a", first), of("b", first), of("c", first)]);
    assert_eq!(changed(ledger, &begin, last).await.0, []);
    // Several changes of one are one, and come after those of the others.
    for summary in ["second", "third"] {
        assert!(ledger.note_job(&job(&id("a"), 1, summary), Noted::Now).await.unwrap());
    }
    assert!(ledger.note_job(&job(&id("b"), 1, "first: \u{e4}"), Noted::Now).await.unwrap());
    let (found, last) = changed(ledger, &begin, last).await;
    assert_eq!(found, [of("a", Some("third"))], "b is as it was");
    for _ in 0..2 {
        ledger.forget_job(&id("c")).await.unwrap();
    }
    let (found, last) = changed(ledger, &begin, last).await;
    assert_eq!(found, [of("c", None)]);
    assert_eq!(changed(ledger, &begin, last).await.0, []);
    let (found, _) = changed(ledger, &begin, 0).await;
    assert_eq!(found, [of("b", first), of("a", Some("third")), of("c", None)]);
}

pub(super) async fn summary_that_is_out_of_date_changes_nothing(ledger: &dyn Ledger) {
    let id = unique("order");
    assert!(ledger.note_job(&job(&id, 12, "ended"), Noted::Now).await.unwrap());
    assert!(!ledger.note_job(&job(&id, 9, "running"), Noted::Now).await.unwrap());
    assert_eq!(changed(ledger, &id, 0).await.0, [(id.clone(), Some("ended".to_owned()))]);
    assert!(ledger.note_job(&job(&id, 13, "started again"), Noted::Now).await.unwrap());
    assert_eq!(changed(ledger, &id, 0).await.0, [(id.clone(), Some("started again".to_owned()))]);
}

pub(super) async fn job_that_was_found_replaces_nothing(ledger: &dyn Ledger) {
    let (id, gone) = (unique("found"), unique("gone"));
    assert!(ledger.note_job(&job(&id, 1, "found"), Noted::Found).await.unwrap());
    assert!(!ledger.note_job(&job(&id, 7, "found again"), Noted::Found).await.unwrap());
    assert_eq!(changed(ledger, &id, 0).await.0, [(id.clone(), Some("found".to_owned()))]);
    // It was read before it was removed, and noted after that.
    ledger.forget_job(&gone).await.unwrap();
    assert!(!ledger.note_job(&job(&gone, 1, "found"), Noted::Found).await.unwrap());
    assert_eq!(changed(ledger, &gone, 0).await.0, [(gone.clone(), None)]);
    // Another job got the id.
    assert!(ledger.note_job(&job(&gone, 1, "new"), Noted::Now).await.unwrap());
    assert_eq!(changed(ledger, &gone, 0).await.0, [(gone.clone(), Some("new".to_owned()))]);
}

pub(super) async fn one_at_a_time_keeps_the_index(ledger: &dyn Ledger) {
    let long = Duration::from_mins(1);
    assert!(ledger.keep_index("a", Duration::ZERO).await.unwrap());
    assert!(ledger.keep_index("b", long).await.unwrap(), "the time of a is over");
    assert!(ledger.keep_index("b", long).await.unwrap());
    assert!(!ledger.keep_index("a", long).await.unwrap());
    let of = |owner, name| Filling { owner, name, begins: false, found: 1, total: 2, is_filled: false };
    let begins = |filling| Filling { begins: true, ..filling };
    let all = |filling| Filling { found: 2, is_filled: true, ..filling };
    assert!(!ledger.fill_index(begins(of("a", "1"))).await.unwrap(), "it does not keep it");
    assert!(!ledger.fill_index(of("b", "1")).await.unwrap(), "nothing has begun");
    assert!(ledger.fill_index(begins(of("b", "1"))).await.unwrap());
    assert!(ledger.fill_index(of("b", "1")).await.unwrap());
    assert!(ledger.fill_index(begins(of("b", "2"))).await.unwrap());
    assert!(!ledger.fill_index(all(of("b", "1"))).await.unwrap(), "what it entered may be lost");
    let now = ledger.changed_jobs(u64::from(u32::MAX) << 20, 1).await.unwrap();
    assert_eq!((now.filling.as_str(), now.found, now.total), ("", 1, 2));
    assert!(ledger.fill_index(all(of("b", "2"))).await.unwrap());
    let filled = ledger.changed_jobs(0, 1).await.unwrap().filling;
    assert!(!filled.is_empty());
    assert!(ledger.fill_index(all(begins(of("b", "3")))).await.unwrap());
    assert_eq!(ledger.changed_jobs(0, 1).await.unwrap().filling, filled, "it was filled once");
}

pub(super) async fn jobs_of_the_index_are_counted(ledger: &dyn Ledger) {
    let id = unique("counted");
    let before = ledger.changed_jobs(0, 1).await.unwrap().jobs;
    for _ in 0..2 {
        ledger.note_job(&job(&id, 1, "x"), Noted::Now).await.unwrap();
    }
    let noted = ledger.changed_jobs(0, 1).await.unwrap().jobs;
    ledger.forget_job(&id).await.unwrap();
    let forgotten = ledger.changed_jobs(0, 1).await.unwrap().jobs;
    assert!(noted > 0 && before <= noted && forgotten < u64::MAX / 2, "{before} {noted} {forgotten}");
}

/// How many jobs of a target ended, by state and whether with every item.
async fn ended(ledger: &dyn Ledger, target: &str) -> Vec<(JobState, bool, u64)> {
    let counts = ledger.ended_jobs().await.unwrap().into_iter();
    let of_target = counts.filter(|(kind, _)| kind.target == target);
    of_target.map(|(kind, count)| (kind.state, kind.is_complete, count)).collect()
}

pub(super) async fn end_of_a_start_is_counted_once(ledger: &dyn Ledger) {
    // Its name has what stands between the parts of a count.
    let (target, id) = (format!("{} 1 x", unique("ended")), unique("ends"));
    let end = |state, is_complete, minutes: u64| {
        let kind = EndKind { target: target.clone(), state, is_complete };
        Some(EndedJob { kind, ended_us: now_us() - minutes * 60_000_000 })
    };
    let failed = IndexedJob { ended: end(JobState::Failed, false, 0), ..job(&id, 12, "failed") };
    ledger.note_job(&job(&id, 9, "running"), Noted::Now).await.unwrap();
    // The state may be told before how it came to it.
    ledger.note_job(&job(&id, 12, "ends"), Noted::Now).await.unwrap();
    assert_eq!(ended(ledger, &target).await, []);
    for summary in ["failed", "failed", "tagged"] {
        let noted = IndexedJob { summary: summary.into(), ..failed.clone() };
        assert!(ledger.note_job(&noted, Noted::Now).await.unwrap());
        assert_eq!(ended(ledger, &target).await, [(JobState::Failed, false, 1)], "{summary}");
    }
    // It goes on, and ends another time.
    ledger.note_job(&job(&id, 14, "queued"), Noted::Now).await.unwrap();
    ledger.note_job(&failed, Noted::Now).await.unwrap();
    let completed = IndexedJob { ended: end(JobState::Completed, true, 180), ..job(&id, 19, "completed") };
    for _ in 0..2 {
        ledger.note_job(&completed, Noted::Now).await.unwrap();
    }
    let both = [(JobState::Completed, true, 1), (JobState::Failed, false, 1)];
    assert_eq!(ended(ledger, &target).await, both, "an end that is known late counts, too");
    // A note of what was removed comes late.
    ledger.forget_job(&id).await.unwrap();
    ledger.note_job(&completed, Noted::Now).await.unwrap();
    assert_eq!(ended(ledger, &target).await, both);
}

pub(super) async fn end_of_an_unknown_job_counts_where_it_is_new(ledger: &dyn Ledger) {
    let target = unique("ended");
    for (name, minutes, noted, expected) in [
        ("new", 1, Noted::Now, 1),
        ("old", 61, Noted::Now, 1),
        ("found", 1, Noted::Found, 1),
        ("another", 0, Noted::Now, 2),
    ] {
        let id = unique(name);
        let kind = EndKind { target: target.clone(), state: JobState::Canceled, is_complete: false };
        let ended_us = now_us() - minutes * 60_000_000;
        let seen = IndexedJob { ended: Some(EndedJob { kind, ended_us }), ..job(&id, 5, "ended") };
        ledger.note_job(&seen, noted).await.unwrap();
        // What is said of it later changes no count.
        let tagged = IndexedJob { summary: "tagged".into(), ..seen };
        ledger.note_job(&tagged, Noted::Now).await.unwrap();
        assert_eq!(ended(ledger, &target).await, [(JobState::Canceled, false, expected)], "{name}");
    }
}
