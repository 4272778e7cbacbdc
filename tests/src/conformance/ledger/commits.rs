//! Outcomes of mini-batches: the first commit counts, once.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use prs_common::ledger::{Checkpoint, Ledger, MiniBatchOutcome};

use super::{ended, failed, fresh, publishing, succeeded};
use crate::deadline::within;

fn all_succeeded(indexes: impl IntoIterator<Item = u64>) -> Vec<MiniBatchOutcome> {
    indexes.into_iter().map(succeeded).collect()
}

pub(super) async fn commit_is_seen_at_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "seen").await;
    let entries = [succeeded(0), failed(2), succeeded(5)];
    assert!(job.commit("seg/a", 123, &entries).await.unwrap().is_empty());
    let progress = job.progress().await.unwrap();
    assert_eq!((progress.succeeded, progress.failed, progress.ended()), (2, 1, 3));
    assert_eq!((progress.items, progress.items_succeeded, progress.items_failed()), (30, 18, 12));
    assert_eq!(progress.segments, 1);
    assert_eq!(ended(&*job, 0..7).await.unwrap(), [true, false, true, false, false, true, false]);
    let segments = job.segments(0, usize::MAX).await.unwrap();
    assert_eq!(segments.len(), 1);
    assert_eq!((segments[0].key.as_str(), segments[0].size), ("seg/a", 123));
    assert!(segments[0].duplicates.is_empty());
    let checkpoint = Checkpoint { scheduled: 3, items: 30, descriptors: 7, complete: true, end: 0 };
    job.checkpoint(checkpoint, publishing(&*job).await).await.unwrap();
    assert!(job.progress().await.unwrap().is_complete());
}

pub(super) async fn commit_twice_counts_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "twice").await;
    job.commit("a", 1, &all_succeeded(0..4)).await.unwrap();
    let overlapping = all_succeeded(2..8);
    let lost = job.commit("b", 2, &overlapping).await.unwrap();
    assert_eq!(sorted(lost), [2, 3]);
    let before = job.progress().await.unwrap();
    let segments = job.segments(0, usize::MAX).await.unwrap();
    for _ in 0..3 {
        // The answer to a repetition is that of the first call: what this very segment brought is not lost.
        assert_eq!(sorted(job.commit("b", 2, &overlapping).await.unwrap()), [2, 3]);
        assert!(job.commit("a", 1, &all_succeeded(0..4)).await.unwrap().is_empty());
    }
    assert_eq!(job.progress().await.unwrap(), before);
    assert_eq!(before.succeeded, 8);
    assert_eq!(job.segments(0, usize::MAX).await.unwrap(), segments);
}

fn sorted(mut indexes: Vec<u64>) -> Vec<u64> {
    indexes.sort_unstable();
    indexes
}

pub(super) async fn first_commit_wins(ledger: &dyn Ledger) {
    let job = fresh(ledger, "first").await;
    job.commit("a", 1, &all_succeeded([1, 3])).await.unwrap();
    let lost = job.commit("b", 1, &all_succeeded([0, 1, 2, 3])).await.unwrap();
    assert_eq!(sorted(lost), [1, 3]);
    let lost = job.commit("c", 1, &all_succeeded([0, 1, 2, 3])).await.unwrap();
    assert_eq!(sorted(lost), [0, 1, 2, 3]);
    assert!(job.commit("d", 1, &[]).await.unwrap().is_empty());
    let lost: Vec<_> =
        job.segments(0, usize::MAX).await.unwrap().into_iter().map(|one| sorted(one.duplicates)).collect();
    assert_eq!(lost, [vec![], vec![1, 3], vec![0, 1, 2, 3], vec![]]);
    let progress = job.progress().await.unwrap();
    assert_eq!((progress.succeeded, progress.items, progress.segments), (4, 40, 4));
}

pub(super) async fn failed_outcome_wins_too(ledger: &dyn Ledger) {
    let job = fresh(ledger, "failed").await;
    job.commit("a", 1, &[failed(0)]).await.unwrap();
    assert_eq!(job.commit("b", 1, &[succeeded(0)]).await.unwrap(), [0]);
    let progress = job.progress().await.unwrap();
    assert_eq!((progress.succeeded, progress.failed, progress.items_succeeded), (0, 1, 0));
}

pub(super) async fn outcome_that_the_plan_does_not_have_never_counts(ledger: &dyn Ledger) {
    let job = fresh(ledger, "beyond").await;
    let plan = Checkpoint { scheduled: 2, items: 20, descriptors: 7, complete: true, end: 0 };
    job.checkpoint(plan, publishing(&*job).await).await.unwrap();
    // Remembering the last one would take half a gigabyte.
    let beyond = u64::from(u32::MAX);
    let entries = [beyond, 1, 2].map(succeeded);
    for _ in 0..2 {
        assert_eq!(sorted(job.commit("a", 1, &entries).await.unwrap()), [2, beyond]);
    }
    let progress = job.progress().await.unwrap();
    assert_eq!((progress.succeeded, progress.items, progress.items_succeeded), (1, 10, 9));
    assert_eq!(sorted(job.segments(0, 9).await.unwrap().remove(0).duplicates), [2, beyond]);
    assert_eq!(ended(&*job, 0..3).await.unwrap(), [false, true, false]);
    assert!(job.commit("b", 1, &[succeeded(0)]).await.unwrap().is_empty());
    assert!(job.progress().await.unwrap().is_complete());

    // One whose indexes are not dense.
    let job = fresh(ledger, "gaps").await;
    let plan = Checkpoint { scheduled: 2, items: 20, descriptors: 7, complete: false, end: 6 };
    job.checkpoint(plan, publishing(&*job).await).await.unwrap();
    assert_eq!(job.commit("a", 1, &[succeeded(5), succeeded(6)]).await.unwrap(), [6]);
    job.checkpoint(Checkpoint { complete: true, ..plan }, publishing(&*job).await).await.unwrap();
    assert_eq!(job.commit("b", 1, &[succeeded(9), succeeded(1)]).await.unwrap(), [9]);
    assert!(job.progress().await.unwrap().is_complete());
}

pub(super) async fn mini_batch_twice_in_a_commit_counts_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "within").await;
    let entries = [succeeded(3), failed(4), failed(3), succeeded(3)];
    for _ in 0..2 {
        assert_eq!(job.commit("a", 1, &entries).await.unwrap(), [3, 3]);
    }
    let progress = job.progress().await.unwrap();
    assert_eq!((progress.succeeded, progress.failed), (1, 1), "the first of them counts");
    assert_eq!((progress.items, progress.items_succeeded), (20, 9));
    assert_eq!(job.segments(0, usize::MAX).await.unwrap()[0].duplicates, [3, 3]);
}

/// A ledger may count in doubles.
pub(super) async fn counts_are_exact(ledger: &dyn Ledger) {
    const LARGE: u64 = (1 << 53) - 1;
    let job = fresh(ledger, "exact").await;
    let large =
        |index| MiniBatchOutcome { index, succeeded: true, items: LARGE - 6, items_succeeded: LARGE - 7 };
    job.commit("a", LARGE, &[large(0)]).await.unwrap();
    assert_eq!(job.commit("b", 1, &[large(0), succeeded(1)]).await.unwrap(), [0]);
    let checkpoint = Checkpoint { scheduled: LARGE, items: LARGE, descriptors: 7, complete: false, end: 0 };
    job.checkpoint(checkpoint, publishing(&*job).await).await.unwrap();
    job.checkpoint(Checkpoint { scheduled: LARGE - 1, ..checkpoint }, publishing(&*job).await).await.unwrap();
    let progress = job.progress().await.unwrap();
    assert_eq!(progress.checkpoint, checkpoint);
    assert_eq!((progress.items, progress.items_succeeded), (LARGE + 4, LARGE + 2));
    assert_eq!(job.segments(0, usize::MAX).await.unwrap()[0].size, LARGE);
}

pub(super) async fn racing_segments_share_every_mini_batch(ledger: &dyn Ledger) {
    const SEGMENTS: u64 = 24;
    const MINI_BATCHES: u64 = 60;
    let job = fresh(ledger, "racing").await;
    let commits = (0..SEGMENTS).map(|segment| {
        let job = &job;
        async move {
            // Each segment holds two thirds of all, in an order of its own.
            let held = (0..MINI_BATCHES).filter(|index| (index + segment) % 3 != 0);
            let mut entries = all_succeeded(held);
            entries.rotate_left((segment * 5) as usize % 40);
            let key = format!("segment-{segment}");
            let lost = job.commit(&key, 1, &entries).await.unwrap();
            let again = job.commit(&key, 1, &entries).await.unwrap();
            assert_eq!(sorted(lost.clone()), sorted(again), "the answer to a repetition is the same");
            (key, entries, sorted(lost))
        }
    });
    let commits = join_all(commits).await;
    let mut won: BTreeMap<u64, u32> = BTreeMap::new();
    for (_, entries, lost) in &commits {
        for entry in entries.iter().filter(|entry| !lost.contains(&entry.index)) {
            *won.entry(entry.index).or_default() += 1;
        }
    }
    assert!(won.values().all(|times| *times == 1), "one segment wins each mini-batch: {won:?}");
    assert_eq!(won.len() as u64, MINI_BATCHES);
    let progress = job.progress().await.unwrap();
    assert_eq!((progress.succeeded, progress.items), (MINI_BATCHES, MINI_BATCHES * 10));
    assert_eq!(progress.segments, SEGMENTS);
    let listed = job.segments(0, usize::MAX).await.unwrap();
    let listed: BTreeMap<_, _> = listed.into_iter().map(|one| (one.key, sorted(one.duplicates))).collect();
    let answered: BTreeMap<_, _> = commits.into_iter().map(|(key, _, lost)| (key, lost)).collect();
    assert_eq!(listed, answered, "the list says what the commits were told");
}

pub(super) async fn the_same_commit_racing_counts_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "retries").await;
    job.commit("before", 1, &all_succeeded(0..5)).await.unwrap();
    let entries = all_succeeded(0..20);
    let answers = join_all((0..8).map(|_| job.commit("same", 1, &entries))).await;
    for answer in answers {
        assert_eq!(sorted(answer.unwrap()), [0, 1, 2, 3, 4]);
    }
    let progress = job.progress().await.unwrap();
    assert_eq!((progress.succeeded, progress.segments), (20, 2));
}

pub(super) async fn ended_answers_for_any_range(ledger: &dyn Ledger) {
    let job = fresh(ledger, "ranges").await;
    job.commit("a", 1, &all_succeeded([0, 7, 8, 9, 63, 64, 1_000])).await.unwrap();
    for (first, count, expected) in [
        (0, 1, vec![0]),
        (1, 6, vec![]),
        (7, 3, vec![7, 8, 9]),
        (60, 6, vec![63, 64]),
        (998, 5, vec![1_000]),
        (5_000, 4, vec![]),
        (0, 0, vec![]),
    ] {
        let answer = ended(&*job, first..first + count).await.unwrap();
        assert_eq!(answer.len() as u64, count);
        let ended: Vec<u64> = (first..).zip(answer).filter_map(|(at, is)| is.then_some(at)).collect();
        assert_eq!(ended, expected, "from {first}, {count} of them");
    }
}

pub(super) async fn ended_answers_in_the_order_asked(ledger: &dyn Ledger) {
    let job = fresh(ledger, "order").await;
    job.commit("a", 1, &all_succeeded([2, 9_999])).await.unwrap();
    assert_eq!(job.ended(&[9, 2, 2, 0, 9_999]).await.unwrap(), [false, true, true, false, true]);
    let down: Vec<u64> = (0..10_000).rev().collect();
    let answer = job.ended(&down).await.unwrap();
    let ended: Vec<u64> = down.into_iter().zip(answer).filter_map(|(at, is)| is.then_some(at)).collect();
    assert_eq!(ended, [9_999, 2]);
}

pub(super) async fn segments_come_in_order_of_commit(ledger: &dyn Ledger) {
    let job = fresh(ledger, "list").await;
    for number in 0..10_u64 {
        // The names are not in the order of the commits.
        let key = format!("{}", 9 - number);
        job.commit(&key, number, &[succeeded(number)]).await.unwrap();
    }
    let all = job.segments(0, usize::MAX).await.unwrap();
    assert!(all.iter().map(|one| one.size).eq(0..10));
    assert_eq!(job.segments(7, usize::MAX).await.unwrap(), all[7..]);
    for (after, limit) in [(0, 1), (0, 10), (3, 4), (9, 1), (9, 7)] {
        let some = job.segments(after, limit).await.unwrap();
        assert_eq!(some, all[after as usize..][..limit.min(10 - after as usize)], "{limit} from {after} on");
    }
    assert!(job.segments(10, usize::MAX).await.unwrap().is_empty());
    assert!(job.segments(99, usize::MAX).await.unwrap().is_empty());
}

pub(super) async fn large_commit_goes_through(ledger: &dyn Ledger) {
    let job = fresh(ledger, "large").await;
    let entries = all_succeeded(0..50_000);
    assert!(within("a commit", job.commit("a", 1, &entries)).await.unwrap().is_empty());
    let lost = within("a commit", job.commit("b", 1, &entries)).await.unwrap();
    assert_eq!(lost.len(), 50_000);
    assert_eq!(job.progress().await.unwrap().succeeded, 50_000);
    assert!(ended(&*job, 0..50000).await.unwrap().into_iter().all(|ended| ended));
}
