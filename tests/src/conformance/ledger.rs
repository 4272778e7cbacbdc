//! What every ledger must do (the contract is on [`Ledger`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::join_all;
use prs_common::ledger::{
    Begin, Blame, Checkpoint, Conclusion, Duty, Entry, FailedTry, JobState, Ledger, LedgerError,
    LedgerErrorKind, NodeInfo, NodeReport, Progress, Signal, TryLimits, Verdict,
};

use super::unique;
use crate::deadline::{eventually, within};

/// Hands the list of cases to `$crate::$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __ledger_cases {
    ($expand:ident, $($context:tt)+) => {
        $crate::$expand! { $($context)+;
            self {
                new_job_is_empty
                job_of_the_same_id_is_refused
                unknown_job_is_not_found
                jobs_are_apart
                removed_job_is_forgotten
                states_follow_each_other
                ended_job_never_changes
                one_of_many_final_states_wins
                checkpoint_only_grows
                commit_is_seen_at_once
                commit_twice_counts_once
                first_commit_wins
                failed_outcome_wins_too
                mini_batch_twice_in_a_commit_counts_once
                counts_are_exact
                racing_segments_share_every_mini_batch
                the_same_commit_racing_counts_once
                ended_answers_for_any_range
                ended_answers_in_the_order_asked
                segments_come_in_order_of_commit
                large_commit_goes_through
                failures_count_by_their_names
                limits_of_code_and_node_are_apart
                failure_after_the_outcome_changes_nothing
                racing_failures_give_up_once_the_limit_is_reached
                begin_blames_the_start_before
                begin_twice_blames_nobody
                begin_after_a_recorded_failure_blames_nobody
                begin_gives_up_at_the_limit
                begin_knows_the_outcome
                abandoned_start_blames_nobody
                names_may_hold_anything
                nodes_get_dense_ids
                worker_that_joins_again_keeps_its_id
                wished_id_is_given_where_it_is_free
                unknown_node_is_told_to_join_again
                racing_joins_get_different_ids
                heartbeat_is_seen_by_everyone
                node_that_leaves_stays_known
                conclusion_reaches_every_node
                first_conclusion_is_remembered
                conclusion_of_a_completed_job_stops_nobody
                state_tells_the_nodes_what_to_do
                lease_has_one_holder
                lease_of_any_length_is_given
                lease_changes_hands_after_it_ran_out
                racing_lease_has_one_winner
                released_lease_is_free_at_once
                duties_have_leases_of_their_own
            }
        }
    };
}

/// One test for each case: `ledger_conformance!((ledger, kept))`.
#[macro_export]
macro_rules! ledger_conformance {
    ($factory:expr) => {
        $crate::__ledger_cases!(__expand_cases, tests ledger, $factory);
    };
}

__ledger_cases!(__expand_cases, run dyn Ledger);

const LIMITS: TryLimits = TryLimits { run_max_try: 3, max_node_losses: 10 };

async fn fresh(ledger: &dyn Ledger, case: &str) -> String {
    limited(ledger, case, LIMITS).await
}

async fn limited(ledger: &dyn Ledger, case: &str, limits: TryLimits) -> String {
    let job = unique(case);
    ledger.create(&job, limits).await.unwrap();
    job
}

fn succeeded(index: u64) -> Entry {
    Entry { index, succeeded: true, items: 10, items_succeeded: 9 }
}

fn failed(index: u64) -> Entry {
    Entry { index, succeeded: false, items: 10, items_succeeded: 0 }
}

fn all_succeeded(indexes: impl IntoIterator<Item = u64>) -> Vec<Entry> {
    indexes.into_iter().map(succeeded).collect()
}

fn spoiled(index: u64, id: &str) -> FailedTry {
    FailedTry { index, id: id.to_owned(), blame: Blame::Code }
}

fn node_lost(index: u64, id: &str) -> FailedTry {
    FailedTry { index, id: id.to_owned(), blame: Blame::Node }
}

fn worker(name: &str) -> NodeInfo {
    NodeInfo { worker: name.to_owned(), ip: "192.0.2.7".to_owned(), slots: 4 }
}

async fn ended(ledger: &dyn Ledger, job: &str, range: Range<u64>) -> Result<Vec<bool>, LedgerError> {
    ledger.ended(job, &range.collect::<Vec<_>>()).await
}

fn aborted(state: JobState, reason: &str) -> Conclusion {
    Conclusion { state, reason: reason.to_owned() }
}

fn kind<T>(outcome: Result<T, LedgerError>) -> LedgerErrorKind {
    outcome.err().expect("the call must fail").kind
}

async fn new_job_is_empty(ledger: &dyn Ledger) {
    let job = fresh(ledger, "new").await;
    assert_eq!(ledger.state(&job).await.unwrap(), JobState::Queued);
    assert_eq!(ledger.progress(&job).await.unwrap(), Progress::default());
    assert_eq!(ended(ledger, &job, 0..3).await.unwrap(), [false; 3]);
    assert!(ledger.segments(&job, 0, usize::MAX).await.unwrap().is_empty());
    assert!(ledger.nodes(&job).await.unwrap().is_empty());
}

async fn job_of_the_same_id_is_refused(ledger: &dyn Ledger) {
    let job = fresh(ledger, "same").await;
    ledger.commit(&job, "a", 1, &[succeeded(0)]).await.unwrap();
    assert_eq!(kind(ledger.create(&job, LIMITS).await), LedgerErrorKind::AlreadyExists);
    assert_eq!(ledger.progress(&job).await.unwrap().succeeded, 1, "the job there is untouched");
    let name = unique("racing");
    let created = join_all((0..8).map(|_| ledger.create(&name, LIMITS))).await;
    assert_eq!(created.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

async fn unknown_job_is_not_found(ledger: &dyn Ledger) {
    let job = &unique("unknown");
    let second = Duration::from_secs(1);
    let not_found = |error: LedgerError| {
        assert_eq!(error.kind, LedgerErrorKind::NotFound, "{error}");
        assert_eq!(error.job, *job);
        assert!(!error.is_retryable());
    };
    not_found(ledger.state(job).await.unwrap_err());
    not_found(ledger.set_state(job, JobState::Running).await.unwrap_err());
    not_found(ledger.checkpoint(job, Checkpoint::default()).await.unwrap_err());
    not_found(ledger.progress(job).await.unwrap_err());
    not_found(ledger.ended(job, &[0]).await.unwrap_err());
    not_found(ledger.commit(job, "a", 1, &[succeeded(0)]).await.unwrap_err());
    not_found(ledger.segments(job, 0, usize::MAX).await.unwrap_err());
    not_found(ledger.record_failure(job, &spoiled(0, "a")).await.unwrap_err());
    not_found(ledger.begin(job, 0, "a").await.unwrap_err());
    not_found(ledger.abandon(job, 0, "a").await.unwrap_err());
    not_found(ledger.join(job, &worker("w"), None).await.unwrap_err());
    not_found(ledger.heartbeat(job, 0, "w", &NodeReport::default()).await.unwrap_err());
    not_found(ledger.leave(job, 0).await.unwrap_err());
    not_found(ledger.nodes(job).await.unwrap_err());
    not_found(ledger.conclude(job, &aborted(JobState::Failed, "why")).await.unwrap_err());
    not_found(ledger.lease(job, Duty::Watch, "me", second).await.unwrap_err());
    not_found(ledger.release(job, Duty::Watch, "me").await.unwrap_err());
    not_found(ledger.ended(job, &[]).await.unwrap_err());
    // None of these has made a job.
    ledger.create(job, LIMITS).await.unwrap();
}

async fn jobs_are_apart(ledger: &dyn Ledger) {
    let (one, other) = (fresh(ledger, "one").await, fresh(ledger, "other").await);
    ledger.commit(&one, "a", 1, &[succeeded(0)]).await.unwrap();
    ledger.record_failure(&one, &spoiled(1, "try")).await.unwrap();
    ledger.join(&one, &worker("w"), None).await.unwrap();
    ledger.conclude(&one, &aborted(JobState::Failed, "why")).await.unwrap();
    ledger.lease(&one, Duty::Watch, "me", Duration::from_mins(1)).await.unwrap();
    ledger.set_state(&one, JobState::Failed).await.unwrap();
    assert_eq!(ledger.progress(&other).await.unwrap(), Progress::default());
    assert_eq!(ledger.state(&other).await.unwrap(), JobState::Queued);
    assert_eq!(ledger.begin(&other, 1, "s").await.unwrap(), Begin::Run { spoiled: 0, lost: 0 });
    assert!(ledger.nodes(&other).await.unwrap().is_empty());
    assert!(ledger.lease(&other, Duty::Watch, "you", Duration::from_mins(1)).await.unwrap().is_some());
}

async fn removed_job_is_forgotten(ledger: &dyn Ledger) {
    let job = fresh(ledger, "remove").await;
    ledger.commit(&job, "a", 1, &[succeeded(0)]).await.unwrap();
    ledger.record_failure(&job, &spoiled(1, "try")).await.unwrap();
    ledger.join(&job, &worker("w"), None).await.unwrap();
    ledger.conclude(&job, &aborted(JobState::Failed, "why")).await.unwrap();
    let fence = ledger.lease(&job, Duty::Watch, "me", Duration::from_mins(1)).await.unwrap();
    assert!(fence.is_some());
    ledger.remove(&job).await.unwrap();
    ledger.remove(&job).await.unwrap();
    assert_eq!(kind(ledger.state(&job).await), LedgerErrorKind::NotFound);
    ledger.create(&job, LIMITS).await.unwrap();
    assert_eq!(ledger.progress(&job).await.unwrap(), Progress::default());
    assert_eq!(ended(ledger, &job, 0..1).await.unwrap(), [false]);
    assert_eq!(ledger.begin(&job, 1, "s").await.unwrap(), Begin::Run { spoiled: 0, lost: 0 });
    assert_eq!(ledger.join(&job, &worker("v"), None).await.unwrap(), 0);
    assert_eq!(ledger.heartbeat(&job, 0, "v", &NodeReport::default()).await.unwrap(), Signal::Run);
    assert!(ledger.lease(&job, Duty::Watch, "you", Duration::from_mins(1)).await.unwrap().is_some());
}

async fn states_follow_each_other(ledger: &dyn Ledger) {
    let job = fresh(ledger, "states").await;
    for state in [JobState::Scheduling, JobState::Running, JobState::Finalizing, JobState::Completed] {
        for _ in 0..2 {
            assert!(ledger.set_state(&job, state).await.unwrap(), "to {state:?}");
            assert_eq!(ledger.state(&job).await.unwrap(), state);
        }
    }
}

async fn ended_job_never_changes(ledger: &dyn Ledger) {
    for last in [JobState::Completed, JobState::Failed, JobState::Canceled] {
        let job = fresh(ledger, "final").await;
        assert!(ledger.set_state(&job, last).await.unwrap());
        let others = [
            JobState::Queued,
            JobState::Scheduling,
            JobState::Running,
            JobState::Finalizing,
            JobState::Completed,
            JobState::Failed,
            JobState::Canceled,
        ];
        for other in others.into_iter().filter(|other| *other != last) {
            assert!(!ledger.set_state(&job, other).await.unwrap(), "{last:?} to {other:?}");
            assert_eq!(ledger.state(&job).await.unwrap(), last);
        }
    }
}

async fn one_of_many_final_states_wins(ledger: &dyn Ledger) {
    for _ in 0..20 {
        let job = fresh(ledger, "race").await;
        let states = [JobState::Completed, JobState::Failed, JobState::Canceled, JobState::Running];
        let done = join_all(states.map(|state| ledger.set_state(&job, state))).await;
        let state = ledger.state(&job).await.unwrap();
        assert!(state.is_final());
        for (asked, took) in states.into_iter().zip(done) {
            let took = took.unwrap();
            assert!(took == (asked == state) || asked == JobState::Running, "{asked:?} of {states:?}");
        }
    }
}

async fn checkpoint_only_grows(ledger: &dyn Ledger) {
    let job = fresh(ledger, "checkpoint").await;
    let at = |scheduled, complete| Checkpoint { scheduled, items: scheduled * 10, complete };
    for (note, expected) in [
        (at(5, false), at(5, false)),
        (at(5, false), at(5, false)),
        (at(3, false), at(5, false)),
        (at(9, false), at(9, false)),
        (at(5, true), at(9, false)),
        (at(9, true), at(9, true)),
        (at(9, false), at(9, true)),
        (at(4, false), at(9, true)),
        (at(9, true), at(9, true)),
    ] {
        ledger.checkpoint(&job, note).await.unwrap();
        assert_eq!(ledger.progress(&job).await.unwrap().checkpoint, expected, "after {note:?}");
    }
    let job = fresh(ledger, "racing").await;
    let notes = (0..40).map(|step| ledger.checkpoint(&job, at((step * 7) % 40, false)));
    assert!(join_all(notes).await.into_iter().all(|outcome| outcome.is_ok()));
    assert_eq!(ledger.progress(&job).await.unwrap().checkpoint, at(39, false));
    // A job of nothing is complete as well.
    let job = fresh(ledger, "nothing").await;
    ledger.checkpoint(&job, at(0, true)).await.unwrap();
    assert!(ledger.progress(&job).await.unwrap().is_complete());
}

async fn commit_is_seen_at_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "seen").await;
    let entries = [succeeded(0), failed(2), succeeded(5)];
    assert!(ledger.commit(&job, "seg/a", 123, &entries).await.unwrap().is_empty());
    let progress = ledger.progress(&job).await.unwrap();
    assert_eq!((progress.succeeded, progress.failed, progress.ended()), (2, 1, 3));
    assert_eq!((progress.items, progress.items_succeeded, progress.items_failed()), (30, 18, 12));
    assert_eq!(progress.segments, 1);
    assert_eq!(ended(ledger, &job, 0..7).await.unwrap(), [true, false, true, false, false, true, false]);
    let segments = ledger.segments(&job, 0, usize::MAX).await.unwrap();
    assert_eq!(segments.len(), 1);
    assert_eq!((segments[0].key.as_str(), segments[0].size), ("seg/a", 123));
    assert!(segments[0].lost.is_empty());
    let checkpoint = Checkpoint { scheduled: 3, items: 30, complete: true };
    ledger.checkpoint(&job, checkpoint).await.unwrap();
    assert!(ledger.progress(&job).await.unwrap().is_complete());
}

async fn commit_twice_counts_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "twice").await;
    ledger.commit(&job, "a", 1, &all_succeeded(0..4)).await.unwrap();
    let overlapping = all_succeeded(2..8);
    let lost = ledger.commit(&job, "b", 2, &overlapping).await.unwrap();
    assert_eq!(sorted(lost), [2, 3]);
    let before = ledger.progress(&job).await.unwrap();
    let segments = ledger.segments(&job, 0, usize::MAX).await.unwrap();
    for _ in 0..3 {
        // The answer to a repetition is that of the first call: what this very segment brought is not lost.
        assert_eq!(sorted(ledger.commit(&job, "b", 2, &overlapping).await.unwrap()), [2, 3]);
        assert!(ledger.commit(&job, "a", 1, &all_succeeded(0..4)).await.unwrap().is_empty());
    }
    assert_eq!(ledger.progress(&job).await.unwrap(), before);
    assert_eq!(before.succeeded, 8);
    assert_eq!(ledger.segments(&job, 0, usize::MAX).await.unwrap(), segments);
}

fn sorted(mut indexes: Vec<u64>) -> Vec<u64> {
    indexes.sort_unstable();
    indexes
}

async fn first_commit_wins(ledger: &dyn Ledger) {
    let job = fresh(ledger, "first").await;
    ledger.commit(&job, "a", 1, &all_succeeded([1, 3])).await.unwrap();
    let lost = ledger.commit(&job, "b", 1, &all_succeeded([0, 1, 2, 3])).await.unwrap();
    assert_eq!(sorted(lost), [1, 3]);
    let lost = ledger.commit(&job, "c", 1, &all_succeeded([0, 1, 2, 3])).await.unwrap();
    assert_eq!(sorted(lost), [0, 1, 2, 3]);
    assert!(ledger.commit(&job, "d", 1, &[]).await.unwrap().is_empty());
    let lost: Vec<_> =
        ledger.segments(&job, 0, usize::MAX).await.unwrap().into_iter().map(|one| sorted(one.lost)).collect();
    assert_eq!(lost, [vec![], vec![1, 3], vec![0, 1, 2, 3], vec![]]);
    let progress = ledger.progress(&job).await.unwrap();
    assert_eq!((progress.succeeded, progress.items, progress.segments), (4, 40, 4));
}

async fn failed_outcome_wins_too(ledger: &dyn Ledger) {
    let job = fresh(ledger, "failed").await;
    ledger.commit(&job, "a", 1, &[failed(0)]).await.unwrap();
    assert_eq!(ledger.commit(&job, "b", 1, &[succeeded(0)]).await.unwrap(), [0]);
    let progress = ledger.progress(&job).await.unwrap();
    assert_eq!((progress.succeeded, progress.failed, progress.items_succeeded), (0, 1, 0));
}

async fn mini_batch_twice_in_a_commit_counts_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "within").await;
    let entries = [succeeded(3), failed(4), failed(3), succeeded(3)];
    for _ in 0..2 {
        assert_eq!(ledger.commit(&job, "a", 1, &entries).await.unwrap(), [3, 3]);
    }
    let progress = ledger.progress(&job).await.unwrap();
    assert_eq!((progress.succeeded, progress.failed), (1, 1), "the first of them counts");
    assert_eq!((progress.items, progress.items_succeeded), (20, 9));
    assert_eq!(ledger.segments(&job, 0, usize::MAX).await.unwrap()[0].lost, [3, 3]);
}

/// A ledger may count in doubles.
async fn counts_are_exact(ledger: &dyn Ledger) {
    const LARGE: u64 = (1 << 53) - 1;
    let job = fresh(ledger, "exact").await;
    let large = |index| Entry { index, succeeded: true, items: LARGE - 6, items_succeeded: LARGE - 7 };
    ledger.commit(&job, "a", LARGE, &[large(0)]).await.unwrap();
    assert_eq!(ledger.commit(&job, "b", 1, &[large(0), succeeded(1)]).await.unwrap(), [0]);
    let checkpoint = Checkpoint { scheduled: LARGE, items: LARGE, complete: false };
    ledger.checkpoint(&job, checkpoint).await.unwrap();
    ledger.checkpoint(&job, Checkpoint { scheduled: LARGE - 1, ..checkpoint }).await.unwrap();
    let progress = ledger.progress(&job).await.unwrap();
    assert_eq!(progress.checkpoint, checkpoint);
    assert_eq!((progress.items, progress.items_succeeded), (LARGE + 4, LARGE + 2));
    assert_eq!(ledger.segments(&job, 0, usize::MAX).await.unwrap()[0].size, LARGE);
}

async fn racing_segments_share_every_mini_batch(ledger: &dyn Ledger) {
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
            let lost = ledger.commit(job, &key, 1, &entries).await.unwrap();
            let again = ledger.commit(job, &key, 1, &entries).await.unwrap();
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
    let progress = ledger.progress(&job).await.unwrap();
    assert_eq!((progress.succeeded, progress.items), (MINI_BATCHES, MINI_BATCHES * 10));
    assert_eq!(progress.segments, SEGMENTS);
    let listed = ledger.segments(&job, 0, usize::MAX).await.unwrap();
    let listed: BTreeMap<_, _> = listed.into_iter().map(|one| (one.key, sorted(one.lost))).collect();
    let answered: BTreeMap<_, _> = commits.into_iter().map(|(key, _, lost)| (key, lost)).collect();
    assert_eq!(listed, answered, "the list says what the commits were told");
}

async fn the_same_commit_racing_counts_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "retries").await;
    ledger.commit(&job, "before", 1, &all_succeeded(0..5)).await.unwrap();
    let entries = all_succeeded(0..20);
    let answers = join_all((0..8).map(|_| ledger.commit(&job, "same", 1, &entries))).await;
    for answer in answers {
        assert_eq!(sorted(answer.unwrap()), [0, 1, 2, 3, 4]);
    }
    let progress = ledger.progress(&job).await.unwrap();
    assert_eq!((progress.succeeded, progress.segments), (20, 2));
}

async fn ended_answers_for_any_range(ledger: &dyn Ledger) {
    let job = fresh(ledger, "ranges").await;
    ledger.commit(&job, "a", 1, &all_succeeded([0, 7, 8, 9, 63, 64, 1_000])).await.unwrap();
    for (first, count, expected) in [
        (0, 1, vec![0]),
        (1, 6, vec![]),
        (7, 3, vec![7, 8, 9]),
        (60, 6, vec![63, 64]),
        (998, 5, vec![1_000]),
        (5_000, 4, vec![]),
        (0, 0, vec![]),
    ] {
        let answer = ended(ledger, &job, first..first + count).await.unwrap();
        assert_eq!(answer.len() as u64, count);
        let ended: Vec<u64> = (first..).zip(answer).filter_map(|(at, is)| is.then_some(at)).collect();
        assert_eq!(ended, expected, "from {first}, {count} of them");
    }
}

async fn ended_answers_in_the_order_asked(ledger: &dyn Ledger) {
    let job = fresh(ledger, "order").await;
    ledger.commit(&job, "a", 1, &all_succeeded([2, 9_999])).await.unwrap();
    assert_eq!(ledger.ended(&job, &[9, 2, 2, 0, 9_999]).await.unwrap(), [false, true, true, false, true]);
    let down: Vec<u64> = (0..10_000).rev().collect();
    let answer = ledger.ended(&job, &down).await.unwrap();
    let ended: Vec<u64> = down.into_iter().zip(answer).filter_map(|(at, is)| is.then_some(at)).collect();
    assert_eq!(ended, [9_999, 2]);
}

async fn segments_come_in_order_of_commit(ledger: &dyn Ledger) {
    let job = fresh(ledger, "list").await;
    for number in 0..10_u64 {
        // The names are not in the order of the commits.
        let key = format!("{}", 9 - number);
        ledger.commit(&job, &key, number, &[succeeded(number)]).await.unwrap();
    }
    let all = ledger.segments(&job, 0, usize::MAX).await.unwrap();
    assert!(all.iter().map(|one| one.size).eq(0..10));
    assert_eq!(ledger.segments(&job, 7, usize::MAX).await.unwrap(), all[7..]);
    for (after, limit) in [(0, 1), (0, 10), (3, 4), (9, 1), (9, 7)] {
        let some = ledger.segments(&job, after, limit).await.unwrap();
        assert_eq!(some, all[after as usize..][..limit.min(10 - after as usize)], "{limit} from {after} on");
    }
    assert!(ledger.segments(&job, 10, usize::MAX).await.unwrap().is_empty());
    assert!(ledger.segments(&job, 99, usize::MAX).await.unwrap().is_empty());
}

async fn large_commit_goes_through(ledger: &dyn Ledger) {
    let job = fresh(ledger, "large").await;
    let entries = all_succeeded(0..50_000);
    assert!(within("a commit", ledger.commit(&job, "a", 1, &entries)).await.unwrap().is_empty());
    let lost = within("a commit", ledger.commit(&job, "b", 1, &entries)).await.unwrap();
    assert_eq!(lost.len(), 50_000);
    assert_eq!(ledger.progress(&job).await.unwrap().succeeded, 50_000);
    assert!(ended(ledger, &job, 0..50000).await.unwrap().into_iter().all(|ended| ended));
}

async fn failures_count_by_their_names(ledger: &dyn Ledger) {
    let job = fresh(ledger, "failures").await;
    for _ in 0..3 {
        let verdict = ledger.record_failure(&job, &spoiled(4, "a")).await.unwrap();
        assert_eq!(verdict, Verdict::Retry { spoiled: 1 }, "the same try counts once");
    }
    assert_eq!(ledger.record_failure(&job, &spoiled(5, "a")).await.unwrap(), Verdict::Retry { spoiled: 1 });
    assert_eq!(ledger.record_failure(&job, &spoiled(4, "b")).await.unwrap(), Verdict::Retry { spoiled: 2 });
    for _ in 0..2 {
        let verdict = ledger.record_failure(&job, &spoiled(4, "c")).await.unwrap();
        assert_eq!(verdict, Verdict::GiveUp { spoiled: 3 });
    }
    // A failure is no outcome: that comes with a commit.
    assert_eq!(ledger.progress(&job).await.unwrap(), Progress::default());
}

async fn limits_of_code_and_node_are_apart(ledger: &dyn Ledger) {
    let job = limited(ledger, "apart", TryLimits { run_max_try: 2, max_node_losses: 3 }).await;
    assert_eq!(
        ledger.record_failure(&job, &node_lost(0, "n1")).await.unwrap(),
        Verdict::Retry { spoiled: 0 }
    );
    assert_eq!(
        ledger.record_failure(&job, &node_lost(0, "n2")).await.unwrap(),
        Verdict::Retry { spoiled: 0 }
    );
    assert_eq!(ledger.record_failure(&job, &spoiled(0, "c1")).await.unwrap(), Verdict::Retry { spoiled: 1 });
    assert_eq!(
        ledger.record_failure(&job, &node_lost(0, "n2")).await.unwrap(),
        Verdict::Retry { spoiled: 1 }
    );
    assert_eq!(
        ledger.record_failure(&job, &node_lost(0, "n3")).await.unwrap(),
        Verdict::GiveUp { spoiled: 1 }
    );
    assert_eq!(ledger.record_failure(&job, &spoiled(1, "c1")).await.unwrap(), Verdict::Retry { spoiled: 1 });
    assert_eq!(ledger.record_failure(&job, &spoiled(1, "c2")).await.unwrap(), Verdict::GiveUp { spoiled: 2 });
    let job = limited(ledger, "once", TryLimits { run_max_try: 1, max_node_losses: 10 }).await;
    assert_eq!(ledger.record_failure(&job, &spoiled(0, "c1")).await.unwrap(), Verdict::GiveUp { spoiled: 1 });
}

async fn failure_after_the_outcome_changes_nothing(ledger: &dyn Ledger) {
    let job = fresh(ledger, "late").await;
    ledger.record_failure(&job, &spoiled(0, "a")).await.unwrap();
    ledger.commit(&job, "s", 1, &[succeeded(0)]).await.unwrap();
    let before = ledger.progress(&job).await.unwrap();
    for id in ["a", "b", "c", "d"] {
        assert_eq!(ledger.record_failure(&job, &spoiled(0, id)).await.unwrap(), Verdict::Done);
        assert_eq!(ledger.record_failure(&job, &node_lost(0, id)).await.unwrap(), Verdict::Done);
    }
    assert_eq!(ledger.progress(&job).await.unwrap(), before);
}

async fn racing_failures_give_up_once_the_limit_is_reached(ledger: &dyn Ledger) {
    let job = limited(ledger, "tries", TryLimits { run_max_try: 6, max_node_losses: 10 }).await;
    let ids: Vec<String> = (0..6).map(|number| format!("try-{number}")).collect();
    let calls = ids.iter().map(|id| async {
        let failed = spoiled(0, id);
        let first = ledger.record_failure(&job, &failed).await.unwrap();
        ledger.record_failure(&job, &failed).await.unwrap();
        first
    });
    let verdicts = join_all(calls).await;
    let gave_up = verdicts.iter().filter(|verdict| **verdict == Verdict::GiveUp { spoiled: 6 }).count();
    assert_eq!(gave_up, 1, "{verdicts:?}");
    for spoiled in 1..6 {
        assert!(verdicts.contains(&Verdict::Retry { spoiled }), "{verdicts:?}");
    }
}

async fn begin_blames_the_start_before(ledger: &dyn Ledger) {
    let job = limited(ledger, "begin", TryLimits { run_max_try: 3, max_node_losses: 3 }).await;
    ledger.record_failure(&job, &spoiled(0, "t")).await.unwrap();
    for (start, lost) in [("a", 0), ("b", 1), ("c", 2)] {
        let begun = ledger.begin(&job, 0, start).await.unwrap();
        assert_eq!(begun, Begin::Run { spoiled: 1, lost }, "start {start}");
    }
    // Two of three nodes are lost so far; this start is the third loss.
    assert_eq!(ledger.begin(&job, 0, "d").await.unwrap(), Begin::GiveUp);
    assert_eq!(ledger.begin(&job, 1, "d").await.unwrap(), Begin::Run { spoiled: 0, lost: 0 });
}

async fn begin_twice_blames_nobody(ledger: &dyn Ledger) {
    let job = limited(ledger, "again", TryLimits { run_max_try: 3, max_node_losses: 2 }).await;
    for (start, lost) in [("a", 0), ("a", 0), ("a", 0), ("b", 1), ("b", 1)] {
        assert_eq!(ledger.begin(&job, 0, start).await.unwrap(), Begin::Run { spoiled: 0, lost });
    }
    // The repetition of a start that is known to be lost arrives late: the one under way is not to blame.
    ledger.begin(&job, 0, "a").await.unwrap();
    let verdict = ledger.record_failure(&job, &spoiled(0, "b")).await.unwrap();
    assert_eq!(verdict, Verdict::Retry { spoiled: 1 });
    assert_eq!(ledger.begin(&job, 0, "c").await.unwrap(), Begin::Run { spoiled: 1, lost: 1 });
}

async fn begin_after_a_recorded_failure_blames_nobody(ledger: &dyn Ledger) {
    let job = limited(ledger, "ended", TryLimits { run_max_try: 9, max_node_losses: 1 }).await;
    for number in 1..=4 {
        let name = format!("try-{number}");
        let before = Begin::Run { spoiled: number - 1, lost: 0 };
        assert_eq!(ledger.begin(&job, 0, &name).await.unwrap(), before, "no node was lost");
        let verdict = ledger.record_failure(&job, &spoiled(0, &name)).await.unwrap();
        assert_eq!(verdict, Verdict::Retry { spoiled: number });
    }
    // A failure that is told again ends no start that came after it: that node is lost all the same.
    ledger.begin(&job, 0, "lost").await.unwrap();
    ledger.record_failure(&job, &spoiled(0, "try-4")).await.unwrap();
    assert_eq!(ledger.begin(&job, 0, "next").await.unwrap(), Begin::GiveUp);
}

async fn begin_gives_up_at_the_limit(ledger: &dyn Ledger) {
    let job = limited(ledger, "limit", TryLimits { run_max_try: 1, max_node_losses: 10 }).await;
    for number in 0..10 {
        let begun = ledger.begin(&job, 0, &format!("start-{number}")).await.unwrap();
        assert_eq!(
            begun,
            Begin::Run { spoiled: 0, lost: number },
            "start {number}; losses do not eat the tries"
        );
    }
    for _ in 0..2 {
        assert_eq!(ledger.begin(&job, 0, "start-10").await.unwrap(), Begin::GiveUp);
    }
}

async fn begin_knows_the_outcome(ledger: &dyn Ledger) {
    let job = fresh(ledger, "outcome").await;
    ledger.begin(&job, 0, "a").await.unwrap();
    ledger.commit(&job, "s", 1, &[succeeded(0), failed(1)]).await.unwrap();
    for index in 0..2 {
        assert_eq!(ledger.begin(&job, index, "b").await.unwrap(), Begin::Done);
    }
    assert_eq!(ledger.begin(&job, 2, "b").await.unwrap(), Begin::Run { spoiled: 0, lost: 0 });
}

async fn abandoned_start_blames_nobody(ledger: &dyn Ledger) {
    let job = limited(ledger, "abandon", TryLimits { run_max_try: 3, max_node_losses: 1 }).await;
    for start in ["a", "b", "c"] {
        assert_eq!(ledger.begin(&job, 0, start).await.unwrap(), Begin::Run { spoiled: 0, lost: 0 });
        for _ in 0..2 {
            ledger.abandon(&job, 0, start).await.unwrap();
        }
    }
    // One that is told again, or of a mini-batch nobody began, takes nothing back.
    ledger.begin(&job, 0, "lost").await.unwrap();
    ledger.abandon(&job, 0, "c").await.unwrap();
    ledger.abandon(&job, 5, "c").await.unwrap();
    assert_eq!(ledger.begin(&job, 0, "next").await.unwrap(), Begin::GiveUp);
}

async fn names_may_hold_anything(ledger: &dyn Ledger) {
    for odd in ["", " ", "0", "null", "a:b{c}*", "zwölf\n\0'\"\\"] {
        let job = fresh(ledger, &format!("odd-{odd}")).await;
        ledger.commit(&job, odd, 1, &[succeeded(0)]).await.unwrap();
        ledger.commit(&job, odd, 1, &[succeeded(1)]).await.unwrap();
        let segments = ledger.segments(&job, 0, usize::MAX).await.unwrap();
        assert!(segments.iter().map(|segment| segment.key.as_str()).eq([odd]), "{segments:?}");
        for _ in 0..2 {
            let verdict = ledger.record_failure(&job, &spoiled(1, odd)).await.unwrap();
            assert_eq!(verdict, Verdict::Retry { spoiled: 1 });
            assert_eq!(ledger.begin(&job, 2, odd).await.unwrap(), Begin::Run { spoiled: 0, lost: 0 });
        }
        assert_eq!(ledger.join(&job, &worker("other"), None).await.unwrap(), 0);
        for _ in 0..2 {
            assert_eq!(ledger.join(&job, &worker(odd), None).await.unwrap(), 1);
        }
        let report = NodeReport { fatal: Some(odd.to_owned()), ..NodeReport::default() };
        assert_eq!(ledger.heartbeat(&job, 1, odd, &report).await.unwrap(), Signal::Run);
        let node = ledger.nodes(&job).await.unwrap().remove(1);
        assert_eq!((node.info, node.report), (worker(odd), report));
        let minute = Duration::from_mins(1);
        let fence = ledger.lease(&job, Duty::Watch, odd, minute).await.unwrap();
        assert!(fence.is_some());
        assert_eq!(ledger.lease(&job, Duty::Watch, "other", minute).await.unwrap(), None);
        assert_eq!(ledger.lease(&job, Duty::Watch, odd, minute).await.unwrap(), fence);
        let end = aborted(JobState::Canceled, odd);
        assert_eq!(ledger.conclude(&job, &end).await.unwrap(), end);
        assert_eq!(ledger.progress(&job).await.unwrap().conclusion, Some(end));
        ledger.remove(&job).await.unwrap();
    }
}

async fn nodes_get_dense_ids(ledger: &dyn Ledger) {
    let job = fresh(ledger, "nodes").await;
    for (expected, name) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(ledger.join(&job, &worker(name), None).await.unwrap() as usize, expected);
    }
    let nodes = ledger.nodes(&job).await.unwrap();
    assert!(nodes.iter().map(|node| node.node_id).eq(0..3));
    assert_eq!(nodes[1].info, worker("b"));
    assert!(nodes.iter().all(|node| !node.left && node.report == NodeReport::default()));
    assert!(nodes.iter().all(|node| node.silent < Duration::from_secs(10)), "{nodes:?}");
}

async fn worker_that_joins_again_keeps_its_id(ledger: &dyn Ledger) {
    let job = fresh(ledger, "rejoin").await;
    ledger.join(&job, &worker("a"), None).await.unwrap();
    let node_id = ledger.join(&job, &worker("b"), None).await.unwrap();
    ledger.leave(&job, node_id).await.unwrap();
    let restarted = NodeInfo { slots: 8, ..worker("b") };
    for _ in 0..2 {
        assert_eq!(ledger.join(&job, &restarted, None).await.unwrap(), node_id);
    }
    let nodes = ledger.nodes(&job).await.unwrap();
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes[node_id as usize].info, restarted);
    assert!(!nodes[node_id as usize].left, "it is back");
}

async fn wished_id_is_given_where_it_is_free(ledger: &dyn Ledger) {
    let job = fresh(ledger, "wish").await;
    assert_eq!(ledger.join(&job, &worker("c"), Some(2)).await.unwrap(), 2);
    assert_eq!(ledger.join(&job, &worker("a"), None).await.unwrap(), 0);
    assert_eq!(ledger.join(&job, &worker("d"), Some(2)).await.unwrap(), 1, "2 is taken");
    assert_eq!(ledger.join(&job, &worker("c"), Some(7)).await.unwrap(), 2, "it has an id already");
    assert_eq!(ledger.join(&job, &worker("e"), None).await.unwrap(), 3);
    let nodes = ledger.nodes(&job).await.unwrap();
    assert!(nodes.iter().map(|node| &*node.info.worker).eq(["a", "d", "c", "e"]), "{nodes:?}");
}

async fn unknown_node_is_told_to_join_again(ledger: &dyn Ledger) {
    let job = fresh(ledger, "unknown").await;
    let report = NodeReport { processes: 9, ..NodeReport::default() };
    assert_eq!(ledger.heartbeat(&job, 0, "a", &report).await.unwrap(), Signal::Rejoin);
    ledger.join(&job, &worker("b"), None).await.unwrap();
    assert_eq!(ledger.heartbeat(&job, 0, "a", &report).await.unwrap(), Signal::Rejoin, "0 is another's");
    assert_eq!(ledger.nodes(&job).await.unwrap()[0].report, NodeReport::default());
}

async fn racing_joins_get_different_ids(ledger: &dyn Ledger) {
    let job = fresh(ledger, "joins").await;
    let names: Vec<NodeInfo> = (0..16).map(|number| worker(&format!("w{number}"))).collect();
    let joined = join_all(names.iter().chain(&names).map(|info| ledger.join(&job, info, None))).await;
    let ids: Vec<u32> = joined.into_iter().map(Result::unwrap).collect();
    assert_eq!(ids[..16], ids[16..], "the same worker gets the same id");
    let mut dense = ids[..16].to_vec();
    dense.sort_unstable();
    assert!(dense.into_iter().eq(0..16));
    let nodes = ledger.nodes(&job).await.unwrap();
    assert!(ids[..16].iter().zip(&names).all(|(id, info)| nodes[*id as usize].info == *info));
}

async fn heartbeat_is_seen_by_everyone(ledger: &dyn Ledger) {
    let job = fresh(ledger, "heartbeat").await;
    let silent_node = ledger.join(&job, &worker("a"), None).await.unwrap();
    let node_id = ledger.join(&job, &worker("b"), None).await.unwrap();
    let report = NodeReport {
        processes: 3,
        init_failures: 2,
        ever_ready: true,
        all_in_init: Some(1.5),
        gave_up: true,
        init_error: Some("ValueError: é".to_owned()),
        fatal: Some("no room on the disk".to_owned()),
        in_hand: 7,
    };
    let silent = |node_id: u32| {
        let job = &job;
        async move { ledger.nodes(job).await.unwrap()[node_id as usize].silent }
    };
    eventually("a node that was silent for a while", || async {
        (silent(node_id).await > Duration::from_millis(100)).then_some(())
    })
    .await;
    assert_eq!(ledger.heartbeat(&job, node_id, "b", &report).await.unwrap(), Signal::Run);
    let nodes = ledger.nodes(&job).await.unwrap();
    assert_eq!(nodes[node_id as usize].report, report);
    assert_eq!(nodes[silent_node as usize].report, NodeReport::default());
    let (quiet, heard) = (nodes[silent_node as usize].silent, nodes[node_id as usize].silent);
    assert!(heard < quiet && quiet >= Duration::from_millis(100), "heard {heard:?}, quiet {quiet:?} ago");
}

async fn node_that_leaves_stays_known(ledger: &dyn Ledger) {
    let job = fresh(ledger, "leave").await;
    let first = ledger.join(&job, &worker("a"), None).await.unwrap();
    for _ in 0..2 {
        ledger.leave(&job, first).await.unwrap();
    }
    let second = ledger.join(&job, &worker("b"), None).await.unwrap();
    assert_ne!(first, second, "an id is never used again");
    ledger.leave(&job, 9).await.unwrap();
    let left: Vec<bool> = ledger.nodes(&job).await.unwrap().into_iter().map(|node| node.left).collect();
    assert_eq!(left, [true, false]);
}

async fn conclusion_reaches_every_node(ledger: &dyn Ledger) {
    let job = fresh(ledger, "conclusion").await;
    let report = NodeReport::default();
    let first = ledger.join(&job, &worker("a"), None).await.unwrap();
    ledger.set_state(&job, JobState::Running).await.unwrap();
    assert_eq!(ledger.heartbeat(&job, first, "a", &report).await.unwrap(), Signal::Run);
    ledger.conclude(&job, &aborted(JobState::Failed, "why")).await.unwrap();
    assert_eq!(ledger.heartbeat(&job, first, "a", &report).await.unwrap(), Signal::Stop);
    let late = ledger.join(&job, &worker("late"), None).await.unwrap();
    assert_eq!(ledger.heartbeat(&job, late, "late", &report).await.unwrap(), Signal::Stop);
    // What is finished can still be committed, and the way to the end changes nothing for the nodes.
    ledger.commit(&job, "s", 1, &[succeeded(0)]).await.unwrap();
    assert_eq!(ledger.progress(&job).await.unwrap().succeeded, 1);
    for state in [JobState::Finalizing, JobState::Failed] {
        ledger.set_state(&job, state).await.unwrap();
        assert_eq!(ledger.heartbeat(&job, first, "a", &report).await.unwrap(), Signal::Stop);
    }
}

async fn first_conclusion_is_remembered(ledger: &dyn Ledger) {
    let job = fresh(ledger, "reason").await;
    assert_eq!(ledger.progress(&job).await.unwrap().conclusion, None);
    let first = aborted(JobState::Canceled, "canceled by ana@one");
    let later = aborted(JobState::Failed, "too many failed");
    for conclusion in [&first, &later, &first, &later] {
        assert_eq!(ledger.conclude(&job, conclusion).await.unwrap(), first);
        assert_eq!(ledger.progress(&job).await.unwrap().conclusion.as_ref(), Some(&first));
    }
    // Asking is not yet ending.
    assert_eq!(ledger.state(&job).await.unwrap(), JobState::Queued);
    let job = fresh(ledger, "racing").await;
    let reasons: Vec<_> = (0..8).map(|who| aborted(JobState::Canceled, &format!("by {who}"))).collect();
    let answers = join_all(reasons.iter().map(|conclusion| ledger.conclude(&job, conclusion))).await;
    let remembered = ledger.progress(&job).await.unwrap().conclusion.expect("a conclusion was asked for");
    assert!(reasons.contains(&remembered));
    assert!(answers.into_iter().all(|answer| answer.unwrap() == remembered), "all hear the same");
}

async fn conclusion_of_a_completed_job_stops_nobody(ledger: &dyn Ledger) {
    let job = fresh(ledger, "completed").await;
    let node = ledger.join(&job, &worker("a"), None).await.unwrap();
    ledger.set_state(&job, JobState::Finalizing).await.unwrap();
    let done = Conclusion { state: JobState::Completed, reason: String::new() };
    assert_eq!(ledger.conclude(&job, &done).await.unwrap(), done);
    assert_eq!(ledger.heartbeat(&job, node, "a", &NodeReport::default()).await.unwrap(), Signal::Finish);
    let late = aborted(JobState::Canceled, "too late");
    assert_eq!(ledger.conclude(&job, &late).await.unwrap(), done);
}

async fn state_tells_the_nodes_what_to_do(ledger: &dyn Ledger) {
    for (state, signal) in [
        (JobState::Queued, Signal::Run),
        (JobState::Scheduling, Signal::Run),
        (JobState::Running, Signal::Run),
        (JobState::Finalizing, Signal::Finish),
        (JobState::Completed, Signal::Finish),
        (JobState::Failed, Signal::Stop),
        (JobState::Canceled, Signal::Stop),
    ] {
        let job = fresh(ledger, "signal").await;
        let node = ledger.join(&job, &worker("a"), None).await.unwrap();
        ledger.set_state(&job, state).await.unwrap();
        let told = ledger.heartbeat(&job, node, "a", &NodeReport::default()).await.unwrap();
        assert_eq!(told, signal, "{state:?}");
    }
}

async fn lease_has_one_holder(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "lease").await;
    let fence = ledger.lease(&job, Duty::Watch, "a", minute).await.unwrap().expect("the lease is free");
    for _ in 0..3 {
        assert_eq!(ledger.lease(&job, Duty::Watch, "b", minute).await.unwrap(), None);
        assert_eq!(
            ledger.lease(&job, Duty::Watch, "a", minute).await.unwrap(),
            Some(fence),
            "renewing keeps the number"
        );
    }
}

async fn lease_of_any_length_is_given(ledger: &dyn Ledger) {
    let job = fresh(ledger, "length").await;
    let age = Duration::from_hours(24 * 365);
    let first = ledger.lease(&job, Duty::Watch, "a", Duration::ZERO).await.unwrap().expect("it is free");
    let second = ledger.lease(&job, Duty::Watch, "b", age).await.unwrap().expect("no time is over at once");
    assert!(second > first);
    assert_eq!(ledger.lease(&job, Duty::Watch, "a", age).await.unwrap(), None);
}

async fn lease_changes_hands_after_it_ran_out(ledger: &dyn Ledger) {
    let (short, long) = (Duration::from_millis(300), Duration::from_mins(1));
    let job = fresh(ledger, "hands").await;
    let start = std::time::Instant::now();
    let first = ledger.lease(&job, Duty::Watch, "a", short).await.unwrap().expect("the lease is free");
    let second = eventually("the end of the lease", || async {
        ledger.lease(&job, Duty::Watch, "b", short).await.unwrap()
    })
    .await;
    assert!(start.elapsed() >= short, "it was taken {:?} after it was given", start.elapsed());
    assert!(second > first, "{second} after {first}");
    let third = eventually("the end of the second lease", || async {
        ledger.lease(&job, Duty::Watch, "a", long).await.unwrap()
    })
    .await;
    assert!(third > second, "{third} after {second}");
    assert_eq!(ledger.lease(&job, Duty::Watch, "b", long).await.unwrap(), None);
    // Renewing counts from the renewal, not from the first lease.
    let job = fresh(ledger, "renew").await;
    ledger.lease(&job, Duty::Watch, "a", short).await.unwrap();
    ledger.lease(&job, Duty::Watch, "a", long).await.unwrap();
    tokio::time::timeout(2 * short, async {
        loop {
            assert_eq!(ledger.lease(&job, Duty::Watch, "b", long).await.unwrap(), None, "it was renewed");
            tokio::time::sleep(short / 10).await;
        }
    })
    .await
    .expect_err("the loop ends with the time");
}

async fn racing_lease_has_one_winner(ledger: &dyn Ledger) {
    let job = fresh(ledger, "winner").await;
    let owners: Vec<String> = (0..8).map(|owner| format!("owner-{owner}")).collect();
    let mut fences = Vec::new();
    for _ in 0..3 {
        let taken = eventually("a free lease", || async {
            let asked =
                owners.iter().map(|owner| ledger.lease(&job, Duty::Watch, owner, Duration::from_millis(400)));
            let won: Vec<u64> = join_all(asked).await.into_iter().filter_map(Result::unwrap).collect();
            (!won.is_empty()).then_some(won)
        })
        .await;
        assert_eq!(taken.len(), 1, "one owner at a time");
        fences.extend(taken);
        // Somebody else has it in between, so it changes hands.
        let between = eventually("another owner", || async {
            ledger.lease(&job, Duty::Watch, "else", Duration::from_millis(20)).await.unwrap()
        });
        fences.push(between.await);
    }
    assert!(fences.is_sorted_by(|before, after| before < after), "{fences:?}");
}

async fn released_lease_is_free_at_once(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "release").await;
    let first = ledger.lease(&job, Duty::Watch, "a", minute).await.unwrap().expect("the lease is free");
    ledger.release(&job, Duty::Watch, "b").await.unwrap();
    assert_eq!(ledger.lease(&job, Duty::Watch, "b", minute).await.unwrap(), None, "it is not b's to give up");
    for _ in 0..2 {
        ledger.release(&job, Duty::Watch, "a").await.unwrap();
    }
    let second = ledger.lease(&job, Duty::Watch, "b", minute).await.unwrap().expect("the lease is free");
    assert!(second > first, "{second} after {first}");
    ledger.release(&job, Duty::Watch, "a").await.unwrap();
    assert_eq!(ledger.lease(&job, Duty::Watch, "a", minute).await.unwrap(), None, "it is b's now");
}

async fn duties_have_leases_of_their_own(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "duties").await;
    assert!(ledger.lease(&job, Duty::Watch, "a", minute).await.unwrap().is_some());
    assert!(ledger.lease(&job, Duty::Schedule, "b", minute).await.unwrap().is_some());
    ledger.release(&job, Duty::Schedule, "b").await.unwrap();
    assert_eq!(ledger.lease(&job, Duty::Watch, "b", minute).await.unwrap(), None);
}
