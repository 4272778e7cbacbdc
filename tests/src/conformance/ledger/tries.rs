//! Tries that fail, starts without an end, and whom they are blamed on.

use futures_util::future::join_all;
use prs_common::ledger::{Begin, Blame, FailedTry, Ledger, Progress, TryLimits, Verdict};

use super::{failed, fresh, limited, spoiled, succeeded};

fn node_lost(index: u64, id: &str) -> FailedTry {
    FailedTry { index, id: id.to_owned(), blame: Blame::Node }
}

pub(super) async fn failures_count_by_their_names(ledger: &dyn Ledger) {
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

pub(super) async fn limits_of_code_and_node_are_apart(ledger: &dyn Ledger) {
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

pub(super) async fn failure_after_the_outcome_changes_nothing(ledger: &dyn Ledger) {
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

pub(super) async fn racing_failures_give_up_once_the_limit_is_reached(ledger: &dyn Ledger) {
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

pub(super) async fn begin_blames_the_start_before(ledger: &dyn Ledger) {
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

pub(super) async fn begin_twice_blames_nobody(ledger: &dyn Ledger) {
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

pub(super) async fn begin_after_a_recorded_failure_blames_nobody(ledger: &dyn Ledger) {
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

pub(super) async fn begin_gives_up_at_the_limit(ledger: &dyn Ledger) {
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

pub(super) async fn begin_knows_the_outcome(ledger: &dyn Ledger) {
    let job = fresh(ledger, "outcome").await;
    ledger.begin(&job, 0, "a").await.unwrap();
    ledger.commit(&job, "s", 1, &[succeeded(0), failed(1)]).await.unwrap();
    for index in 0..2 {
        assert_eq!(ledger.begin(&job, index, "b").await.unwrap(), Begin::Done);
    }
    assert_eq!(ledger.begin(&job, 2, "b").await.unwrap(), Begin::Run { spoiled: 0, lost: 0 });
}

pub(super) async fn abandoned_start_blames_nobody(ledger: &dyn Ledger) {
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
