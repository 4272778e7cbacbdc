//! Tries that fail, starts without an end, and whom they are blamed on.

use futures_util::future::join_all;
use prs_common::ledger::{Begin, Blame, FailedTry, JobProgress, Ledger, NotedTries, TryLimits, Verdict};

use super::{failed, failed_by_code, fresh, limited, succeeded};

fn node_lost(index: u64, id: &str) -> FailedTry {
    FailedTry { index, id: id.to_owned(), blame: Blame::Node }
}

pub(super) async fn failures_count_by_their_names(ledger: &dyn Ledger) {
    let job = fresh(ledger, "failures").await;
    for _ in 0..3 {
        let verdict = job.record_failure(&failed_by_code(4, "a")).await.unwrap();
        assert_eq!(verdict, Verdict::Retry { failed_tries: 1 }, "the same try counts once");
    }
    assert_eq!(
        job.record_failure(&failed_by_code(5, "a")).await.unwrap(),
        Verdict::Retry { failed_tries: 1 }
    );
    assert_eq!(
        job.record_failure(&failed_by_code(4, "b")).await.unwrap(),
        Verdict::Retry { failed_tries: 2 }
    );
    for _ in 0..2 {
        let verdict = job.record_failure(&failed_by_code(4, "c")).await.unwrap();
        assert_eq!(verdict, Verdict::GiveUp { failed_tries: 3 });
    }
    // A failure is no outcome: that comes with a commit.
    assert_eq!(job.progress().await.unwrap(), JobProgress::default());
}

pub(super) async fn limits_of_code_and_node_are_apart(ledger: &dyn Ledger) {
    let job = limited(ledger, "apart", TryLimits { run_max_try: 2, max_node_losses: 3 }).await;
    assert_eq!(job.record_failure(&node_lost(0, "n1")).await.unwrap(), Verdict::Retry { failed_tries: 0 });
    assert_eq!(job.record_failure(&node_lost(0, "n2")).await.unwrap(), Verdict::Retry { failed_tries: 0 });
    assert_eq!(
        job.record_failure(&failed_by_code(0, "c1")).await.unwrap(),
        Verdict::Retry { failed_tries: 1 }
    );
    assert_eq!(job.record_failure(&node_lost(0, "n2")).await.unwrap(), Verdict::Retry { failed_tries: 1 });
    assert_eq!(job.record_failure(&node_lost(0, "n3")).await.unwrap(), Verdict::GiveUp { failed_tries: 1 });
    assert_eq!(
        job.record_failure(&failed_by_code(1, "c1")).await.unwrap(),
        Verdict::Retry { failed_tries: 1 }
    );
    assert_eq!(
        job.record_failure(&failed_by_code(1, "c2")).await.unwrap(),
        Verdict::GiveUp { failed_tries: 2 }
    );
    let job = limited(ledger, "once", TryLimits { run_max_try: 1, max_node_losses: 10 }).await;
    assert_eq!(
        job.record_failure(&failed_by_code(0, "c1")).await.unwrap(),
        Verdict::GiveUp { failed_tries: 1 }
    );
}

pub(super) async fn failure_after_the_outcome_changes_nothing(ledger: &dyn Ledger) {
    let job = fresh(ledger, "late").await;
    job.record_failure(&failed_by_code(0, "a")).await.unwrap();
    job.commit("s", 1, &[succeeded(0)]).await.unwrap();
    let before = job.progress().await.unwrap();
    for id in ["a", "b", "c", "d"] {
        assert_eq!(job.record_failure(&failed_by_code(0, id)).await.unwrap(), Verdict::Done);
        assert_eq!(job.record_failure(&node_lost(0, id)).await.unwrap(), Verdict::Done);
    }
    assert_eq!(job.progress().await.unwrap(), before);
}

pub(super) async fn racing_failures_give_up_once_the_limit_is_reached(ledger: &dyn Ledger) {
    let job = limited(ledger, "tries", TryLimits { run_max_try: 6, max_node_losses: 10 }).await;
    let ids: Vec<String> = (0..6).map(|number| format!("try-{number}")).collect();
    let calls = ids.iter().map(|id| async {
        let failed = failed_by_code(0, id);
        let first = job.record_failure(&failed).await.unwrap();
        job.record_failure(&failed).await.unwrap();
        first
    });
    let verdicts = join_all(calls).await;
    let gave_up = verdicts.iter().filter(|verdict| **verdict == Verdict::GiveUp { failed_tries: 6 }).count();
    assert_eq!(gave_up, 1, "{verdicts:?}");
    for failed_tries in 1..6 {
        assert!(verdicts.contains(&Verdict::Retry { failed_tries }), "{verdicts:?}");
    }
}

pub(super) async fn begin_blames_the_start_before(ledger: &dyn Ledger) {
    let job = limited(ledger, "begin", TryLimits { run_max_try: 3, max_node_losses: 3 }).await;
    job.record_failure(&failed_by_code(0, "t")).await.unwrap();
    for (start, lost) in [("a", 0), ("b", 1), ("c", 2)] {
        let begun = job.begin(0, start).await.unwrap();
        assert_eq!(begun, Begin::Run { failed_tries: 1, node_losses: lost }, "start {start}");
    }
    // Two of three nodes are lost so far; this start is the third loss.
    assert_eq!(job.begin(0, "d").await.unwrap(), Begin::GiveUp);
    assert_eq!(job.begin(1, "d").await.unwrap(), Begin::Run { failed_tries: 0, node_losses: 0 });
}

pub(super) async fn begin_twice_blames_nobody(ledger: &dyn Ledger) {
    let job = limited(ledger, "again", TryLimits { run_max_try: 3, max_node_losses: 2 }).await;
    for (start, lost) in [("a", 0), ("a", 0), ("a", 0), ("b", 1), ("b", 1)] {
        assert_eq!(job.begin(0, start).await.unwrap(), Begin::Run { failed_tries: 0, node_losses: lost });
    }
    // The repetition of a start that is known to be lost arrives late: the one under way is not to blame.
    job.begin(0, "a").await.unwrap();
    let verdict = job.record_failure(&failed_by_code(0, "b")).await.unwrap();
    assert_eq!(verdict, Verdict::Retry { failed_tries: 1 });
    assert_eq!(job.begin(0, "c").await.unwrap(), Begin::Run { failed_tries: 1, node_losses: 1 });
}

pub(super) async fn begin_after_a_recorded_failure_blames_nobody(ledger: &dyn Ledger) {
    let job = limited(ledger, "ended", TryLimits { run_max_try: 9, max_node_losses: 1 }).await;
    for number in 1..=4 {
        let name = format!("try-{number}");
        let before = Begin::Run { failed_tries: number - 1, node_losses: 0 };
        assert_eq!(job.begin(0, &name).await.unwrap(), before, "no node was lost");
        let verdict = job.record_failure(&failed_by_code(0, &name)).await.unwrap();
        assert_eq!(verdict, Verdict::Retry { failed_tries: number });
    }
    // A failure that is told again ends no start that came after it: that node is lost all the same.
    job.begin(0, "lost").await.unwrap();
    job.record_failure(&failed_by_code(0, "try-4")).await.unwrap();
    assert_eq!(job.begin(0, "next").await.unwrap(), Begin::GiveUp);
}

pub(super) async fn begin_gives_up_at_the_limit(ledger: &dyn Ledger) {
    let job = limited(ledger, "limit", TryLimits { run_max_try: 1, max_node_losses: 10 }).await;
    for number in 0..10 {
        let begun = job.begin(0, &format!("start-{number}")).await.unwrap();
        assert_eq!(
            begun,
            Begin::Run { failed_tries: 0, node_losses: number },
            "start {number}; losses do not eat the tries"
        );
    }
    for _ in 0..2 {
        assert_eq!(job.begin(0, "start-10").await.unwrap(), Begin::GiveUp);
    }
}

pub(super) async fn begin_knows_the_outcome(ledger: &dyn Ledger) {
    let job = fresh(ledger, "outcome").await;
    job.begin(0, "a").await.unwrap();
    job.commit("s", 1, &[succeeded(0), failed(1)]).await.unwrap();
    for index in 0..2 {
        assert_eq!(job.begin(index, "b").await.unwrap(), Begin::Done);
    }
    assert_eq!(job.begin(2, "b").await.unwrap(), Begin::Run { failed_tries: 0, node_losses: 0 });
}

pub(super) async fn last_try_that_is_passed_on_is_noted(ledger: &dyn Ledger) {
    let job = limited(ledger, "passed", TryLimits { run_max_try: 3, max_node_losses: 1 }).await;
    for id in ["a", "b"] {
        job.record_failure(&failed_by_code(0, id)).await.unwrap();
    }
    let noted = async || {
        let NotedTries { mut failed, mut passed_on_by } = job.noted_tries(0).await.unwrap();
        failed.sort();
        passed_on_by.sort();
        (failed, passed_on_by)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(noted().await, (names(&["a", "b"]), names(&[])));
    for (start, service) in [("s", "node-0"), ("t", "node-1")] {
        // The node before gave its start back in order: it is not lost.
        assert_eq!(job.begin(0, start).await.unwrap(), Begin::Run { failed_tries: 2, node_losses: 0 });
        for _ in 0..2 {
            job.pass_on(0, start, service).await.unwrap();
        }
    }
    assert_eq!(noted().await, (names(&["a", "b"]), names(&["node-0", "node-1"])));
    // One that is told again takes no other start back.
    job.begin(0, "lost").await.unwrap();
    job.pass_on(0, "t", "node-1").await.unwrap();
    assert_eq!(job.begin(0, "next").await.unwrap(), Begin::GiveUp);
    job.commit("s", 1, &[succeeded(0)]).await.unwrap();
    job.pass_on(0, "next", "node-2").await.unwrap();
    assert_eq!(noted().await, (names(&[]), names(&[])), "its outcome is known");
    assert_eq!(job.noted_tries(5).await.unwrap(), NotedTries::default(), "nothing happened to it");
}

pub(super) async fn abandoned_start_blames_nobody(ledger: &dyn Ledger) {
    let job = limited(ledger, "abandon", TryLimits { run_max_try: 3, max_node_losses: 1 }).await;
    for start in ["a", "b", "c"] {
        assert_eq!(job.begin(0, start).await.unwrap(), Begin::Run { failed_tries: 0, node_losses: 0 });
        for _ in 0..2 {
            job.abandon(0, start).await.unwrap();
        }
    }
    // One that is told again, or of a mini-batch nobody began, takes nothing back.
    job.begin(0, "lost").await.unwrap();
    job.abandon(0, "c").await.unwrap();
    job.abandon(5, "c").await.unwrap();
    assert_eq!(job.begin(0, "next").await.unwrap(), Begin::GiveUp);
}
