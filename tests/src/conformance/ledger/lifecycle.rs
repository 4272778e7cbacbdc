//! A job from its creation to its removal: state, plan, conclusion.

use std::time::Duration;

use futures_util::future::join_all;
use prs_common::ledger::{
    Begin, Checkpoint, Conclusion, Duty, JobState, Ledger, LedgerError, LedgerErrorKind, NodeReport,
    Progress, Signal, Verdict,
};

use super::{LIMITS, ended, fresh, publishing, spoiled, succeeded, watching, worker};
use crate::conformance::unique;

fn aborted(state: JobState, reason: &str) -> Conclusion {
    Conclusion { state, reason: reason.to_owned() }
}

fn kind<T>(outcome: Result<T, LedgerError>) -> LedgerErrorKind {
    outcome.err().expect("the call must fail").kind
}

pub(super) async fn new_job_is_empty(ledger: &dyn Ledger) {
    let job = fresh(ledger, "new").await;
    assert_eq!(ledger.state(&job).await.unwrap(), JobState::Queued);
    assert_eq!(ledger.progress(&job).await.unwrap(), Progress::default());
    assert_eq!(ended(ledger, &job, 0..3).await.unwrap(), [false; 3]);
    assert!(ledger.segments(&job, 0, usize::MAX).await.unwrap().is_empty());
    assert!(ledger.nodes(&job).await.unwrap().is_empty());
}

pub(super) async fn job_of_the_same_id_is_refused(ledger: &dyn Ledger) {
    let job = fresh(ledger, "same").await;
    ledger.commit(&job, "a", 1, &[succeeded(0)]).await.unwrap();
    assert_eq!(kind(ledger.create(&job, LIMITS).await), LedgerErrorKind::AlreadyExists);
    assert_eq!(ledger.progress(&job).await.unwrap().succeeded, 1, "the job there is untouched");
    let name = unique("racing");
    let created = join_all((0..8).map(|_| ledger.create(&name, LIMITS))).await;
    assert_eq!(created.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

pub(super) async fn unknown_job_is_not_found(ledger: &dyn Ledger) {
    let job = &unique("unknown");
    let second = Duration::from_secs(1);
    let not_found = |error: LedgerError| {
        assert_eq!(error.kind, LedgerErrorKind::NotFound, "{error}");
        assert_eq!(error.job, *job);
        assert!(!error.is_retryable());
    };
    not_found(ledger.state(job).await.unwrap_err());
    not_found(ledger.set_state(job, JobState::Running, 1).await.unwrap_err());
    not_found(ledger.checkpoint(job, Checkpoint::default(), 1).await.unwrap_err());
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

pub(super) async fn jobs_are_apart(ledger: &dyn Ledger) {
    let (one, other) = (fresh(ledger, "one").await, fresh(ledger, "other").await);
    ledger.commit(&one, "a", 1, &[succeeded(0)]).await.unwrap();
    ledger.record_failure(&one, &spoiled(1, "try")).await.unwrap();
    ledger.join(&one, &worker("w"), None).await.unwrap();
    ledger.conclude(&one, &aborted(JobState::Failed, "why")).await.unwrap();
    ledger.lease(&one, Duty::Watch, "me", Duration::from_mins(1)).await.unwrap();
    ledger.set_state(&one, JobState::Failed, watching(ledger, &one).await).await.unwrap();
    assert_eq!(ledger.progress(&other).await.unwrap(), Progress::default());
    assert_eq!(ledger.state(&other).await.unwrap(), JobState::Queued);
    assert_eq!(ledger.begin(&other, 1, "s").await.unwrap(), Begin::Run { spoiled: 0, lost: 0 });
    assert!(ledger.nodes(&other).await.unwrap().is_empty());
    assert!(ledger.lease(&other, Duty::Watch, "you", Duration::from_mins(1)).await.unwrap().is_some());
}

pub(super) async fn job_is_reset_by_the_holder_of_its_watch_alone(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "reset").await;
    assert!(!ledger.reset(&job, "a").await.unwrap(), "nobody watches");
    ledger.lease(&job, Duty::Watch, "a", minute).await.unwrap();
    assert!(!ledger.reset(&job, "b").await.unwrap(), "somebody else watches");
    assert!(ledger.reset(&job, "a").await.unwrap());
    assert_eq!(ledger.state(&job).await.unwrap_err().kind, LedgerErrorKind::NotFound);
    assert!(ledger.reset(&job, "a").await.unwrap(), "it is forgotten already");
    for (state, resets) in
        [(JobState::Completed, true), (JobState::Canceled, false), (JobState::Failed, false)]
    {
        let job = fresh(ledger, "concluded").await;
        ledger.lease(&job, Duty::Watch, "a", minute).await.unwrap();
        ledger.conclude(&job, &Conclusion { state, reason: "so".to_owned() }).await.unwrap();
        assert_eq!(ledger.reset(&job, "a").await.unwrap(), resets, "{state:?}");
    }
    let job = fresh(ledger, "released").await;
    ledger.lease(&job, Duty::Watch, "a", minute).await.unwrap();
    ledger.release(&job, Duty::Watch, "a").await.unwrap();
    assert!(!ledger.reset(&job, "a").await.unwrap(), "it was given up");
}

pub(super) async fn removed_job_is_forgotten(ledger: &dyn Ledger) {
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

pub(super) async fn states_follow_each_other(ledger: &dyn Ledger) {
    let job = fresh(ledger, "states").await;
    for state in [JobState::Scheduling, JobState::Running, JobState::Finalizing, JobState::Completed] {
        for _ in 0..2 {
            assert!(
                ledger.set_state(&job, state, watching(ledger, &job).await).await.unwrap(),
                "to {state:?}"
            );
            assert_eq!(ledger.state(&job).await.unwrap(), state);
        }
    }
}

pub(super) async fn ended_job_never_changes(ledger: &dyn Ledger) {
    for last in [JobState::Completed, JobState::Failed, JobState::Canceled] {
        let job = fresh(ledger, "final").await;
        assert!(ledger.set_state(&job, last, watching(ledger, &job).await).await.unwrap());
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
            assert!(
                !ledger.set_state(&job, other, watching(ledger, &job).await).await.unwrap(),
                "{last:?} to {other:?}"
            );
            assert_eq!(ledger.state(&job).await.unwrap(), last);
        }
    }
}

pub(super) async fn one_of_many_final_states_wins(ledger: &dyn Ledger) {
    for _ in 0..20 {
        let job = fresh(ledger, "race").await;
        let fence = watching(ledger, &job).await;
        let states = [JobState::Completed, JobState::Failed, JobState::Canceled, JobState::Running];
        let done = join_all(states.map(|state| ledger.set_state(&job, state, fence))).await;
        let state = ledger.state(&job).await.unwrap();
        assert!(state.is_final());
        for (asked, took) in states.into_iter().zip(done) {
            let took = took.unwrap();
            assert!(took == (asked == state) || asked == JobState::Running, "{asked:?} of {states:?}");
        }
    }
}

pub(super) async fn checkpoint_only_grows(ledger: &dyn Ledger) {
    let job = fresh(ledger, "checkpoint").await;
    let fence = publishing(ledger, &job).await;
    let at = |scheduled, complete| Checkpoint {
        scheduled,
        items: scheduled * 10,
        descriptors: u64::MAX - scheduled,
        complete,
    };
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
        ledger.checkpoint(&job, note, fence).await.unwrap();
        assert_eq!(ledger.progress(&job).await.unwrap().checkpoint, expected, "after {note:?}");
    }
    let job = fresh(ledger, "racing").await;
    let fence = publishing(ledger, &job).await;
    let notes = (0..40).map(|step| ledger.checkpoint(&job, at((step * 7) % 40, false), fence));
    assert!(join_all(notes).await.into_iter().all(|outcome| outcome.is_ok()));
    assert_eq!(ledger.progress(&job).await.unwrap().checkpoint, at(39, false));
    // A job of nothing is complete as well.
    let job = fresh(ledger, "nothing").await;
    let fence = publishing(ledger, &job).await;
    ledger.checkpoint(&job, at(0, true), fence).await.unwrap();
    assert!(ledger.progress(&job).await.unwrap().is_complete());
}

pub(super) async fn names_may_hold_anything(ledger: &dyn Ledger) {
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

pub(super) async fn conclusion_reaches_every_node(ledger: &dyn Ledger) {
    let job = fresh(ledger, "conclusion").await;
    let report = NodeReport::default();
    let first = ledger.join(&job, &worker("a"), None).await.unwrap();
    ledger.set_state(&job, JobState::Running, watching(ledger, &job).await).await.unwrap();
    assert_eq!(ledger.heartbeat(&job, first, "a", &report).await.unwrap(), Signal::Run);
    ledger.conclude(&job, &aborted(JobState::Failed, "why")).await.unwrap();
    assert_eq!(ledger.heartbeat(&job, first, "a", &report).await.unwrap(), Signal::Stop);
    let late = ledger.join(&job, &worker("late"), None).await.unwrap();
    assert_eq!(ledger.heartbeat(&job, late, "late", &report).await.unwrap(), Signal::Stop);
    // What is finished can still be committed, and the way to the end changes nothing for the nodes.
    ledger.commit(&job, "s", 1, &[succeeded(0)]).await.unwrap();
    assert_eq!(ledger.progress(&job).await.unwrap().succeeded, 1);
    for state in [JobState::Finalizing, JobState::Failed] {
        ledger.set_state(&job, state, watching(ledger, &job).await).await.unwrap();
        assert_eq!(ledger.heartbeat(&job, first, "a", &report).await.unwrap(), Signal::Stop);
    }
}

pub(super) async fn first_conclusion_is_remembered(ledger: &dyn Ledger) {
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

pub(super) async fn conclusion_of_a_completed_job_stops_nobody(ledger: &dyn Ledger) {
    let job = fresh(ledger, "completed").await;
    let node = ledger.join(&job, &worker("a"), None).await.unwrap();
    ledger.set_state(&job, JobState::Finalizing, watching(ledger, &job).await).await.unwrap();
    let done = Conclusion { state: JobState::Completed, reason: String::new() };
    assert_eq!(ledger.conclude(&job, &done).await.unwrap(), done);
    assert_eq!(ledger.heartbeat(&job, node, "a", &NodeReport::default()).await.unwrap(), Signal::Finish);
    let late = aborted(JobState::Canceled, "too late");
    assert_eq!(ledger.conclude(&job, &late).await.unwrap(), done);
}

pub(super) async fn state_tells_the_nodes_what_to_do(ledger: &dyn Ledger) {
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
        ledger.set_state(&job, state, watching(ledger, &job).await).await.unwrap();
        let told = ledger.heartbeat(&job, node, "a", &NodeReport::default()).await.unwrap();
        assert_eq!(told, signal, "{state:?}");
    }
}
