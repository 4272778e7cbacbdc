//! A job from its creation to its removal: state, plan, conclusion.

use std::time::Duration;

use futures_util::future::join_all;
use prs_common::ledger::{
    Begin, Checkpoint, Conclusion, Duty, JobProgress, JobState, Ledger, LedgerError, LedgerErrorKind,
    NodeReport, ObstacleKind, Signal, Verdict,
};
use prs_common::timestamp::now_us;

use super::{LIMITS, ended, failed_by_code, fresh, publishing, succeeded, watching, worker};
use crate::conformance::unique;

fn aborted(state: JobState, reason: &str) -> Conclusion {
    Conclusion { state, reason: reason.to_owned() }
}

fn kind<T>(outcome: Result<T, LedgerError>) -> LedgerErrorKind {
    outcome.err().expect("the call must fail").kind
}

pub(super) async fn new_job_is_empty(ledger: &dyn Ledger) {
    let job = fresh(ledger, "new").await;
    assert_eq!(job.state().await.unwrap(), JobState::Queued);
    assert_eq!(job.progress().await.unwrap(), JobProgress::default());
    assert_eq!(ended(&*job, 0..3).await.unwrap(), [false; 3]);
    assert!(job.segments(0, usize::MAX).await.unwrap().is_empty());
    assert!(job.nodes().await.unwrap().is_empty());
}

pub(super) async fn job_of_the_same_id_is_refused(ledger: &dyn Ledger) {
    let job = fresh(ledger, "same").await;
    job.commit("a", 1, &[succeeded(0)]).await.unwrap();
    assert_eq!(kind(job.create(LIMITS).await), LedgerErrorKind::AlreadyExists);
    assert_eq!(job.progress().await.unwrap().succeeded, 1, "the job there is untouched");
    let name = ledger.job(&unique("racing"));
    let created = join_all((0..8).map(|_| name.create(LIMITS))).await;
    assert_eq!(created.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

pub(super) async fn unknown_job_is_not_found(ledger: &dyn Ledger) {
    let name = unique("unknown");
    let job = ledger.job(&name);
    let second = Duration::from_secs(1);
    let not_found = |error: LedgerError| {
        assert_eq!(error.kind, LedgerErrorKind::NotFound, "{error}");
        assert_eq!(error.job, name);
        assert!(!error.is_retryable());
    };
    not_found(job.state().await.unwrap_err());
    not_found(job.set_state(JobState::Running, 1).await.unwrap_err());
    not_found(job.checkpoint(Checkpoint::default(), 1).await.unwrap_err());
    not_found(job.progress().await.unwrap_err());
    not_found(job.ended(&[0]).await.unwrap_err());
    not_found(job.commit("a", 1, &[succeeded(0)]).await.unwrap_err());
    not_found(job.segments(0, usize::MAX).await.unwrap_err());
    not_found(job.record_failure(&failed_by_code(0, "a")).await.unwrap_err());
    not_found(job.begin(0, "a").await.unwrap_err());
    not_found(job.abandon(0, "a").await.unwrap_err());
    not_found(job.noted_tries(0).await.unwrap_err());
    not_found(job.pass_on(0, "a", "s").await.unwrap_err());
    not_found(job.join(&worker("w"), None).await.unwrap_err());
    not_found(job.heartbeat(0, "w", &NodeReport::default()).await.unwrap_err());
    not_found(job.leave(0).await.unwrap_err());
    not_found(job.nodes().await.unwrap_err());
    not_found(job.conclude(&aborted(JobState::Failed, "why")).await.unwrap_err());
    not_found(job.lease(Duty::Watch, "me", second).await.unwrap_err());
    not_found(job.release(Duty::Watch, "me").await.unwrap_err());
    not_found(job.ended(&[]).await.unwrap_err());
    // None of these has made a job.
    job.create(LIMITS).await.unwrap();
}

pub(super) async fn jobs_are_apart(ledger: &dyn Ledger) {
    let (one, other) = (fresh(ledger, "one").await, fresh(ledger, "other").await);
    one.commit("a", 1, &[succeeded(0)]).await.unwrap();
    one.record_failure(&failed_by_code(1, "try")).await.unwrap();
    one.join(&worker("w"), None).await.unwrap();
    one.conclude(&aborted(JobState::Failed, "why")).await.unwrap();
    one.lease(Duty::Watch, "me", Duration::from_mins(1)).await.unwrap();
    one.set_state(JobState::Failed, watching(&*one).await).await.unwrap();
    assert_eq!(other.progress().await.unwrap(), JobProgress::default());
    assert_eq!(other.state().await.unwrap(), JobState::Queued);
    assert_eq!(other.begin(1, "s").await.unwrap(), Begin::Run { failed_tries: 0, node_losses: 0 });
    assert!(other.nodes().await.unwrap().is_empty());
    assert!(other.lease(Duty::Watch, "you", Duration::from_mins(1)).await.unwrap().is_some());
}

pub(super) async fn job_is_reset_by_the_holder_of_its_watch_alone(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "reset").await;
    assert!(!job.reset("a").await.unwrap(), "nobody watches");
    job.lease(Duty::Watch, "a", minute).await.unwrap();
    assert!(!job.reset("b").await.unwrap(), "another owner watches");
    assert!(job.reset("a").await.unwrap());
    assert_eq!(job.state().await.unwrap_err().kind, LedgerErrorKind::NotFound);
    assert!(job.reset("a").await.unwrap(), "it is forgotten already");
    for (state, resets) in
        [(JobState::Completed, true), (JobState::Canceled, false), (JobState::Failed, false)]
    {
        let job = fresh(ledger, "concluded").await;
        job.lease(Duty::Watch, "a", minute).await.unwrap();
        job.conclude(&Conclusion { state, reason: "so".to_owned() }).await.unwrap();
        assert_eq!(job.reset("a").await.unwrap(), resets, "{state:?}");
    }
    let job = fresh(ledger, "released").await;
    job.lease(Duty::Watch, "a", minute).await.unwrap();
    job.release(Duty::Watch, "a").await.unwrap();
    assert!(!job.reset("a").await.unwrap(), "it was given up");
}

pub(super) async fn removed_job_is_forgotten(ledger: &dyn Ledger) {
    let job = fresh(ledger, "remove").await;
    job.commit("a", 1, &[succeeded(0)]).await.unwrap();
    job.record_failure(&failed_by_code(1, "try")).await.unwrap();
    job.join(&worker("w"), None).await.unwrap();
    job.conclude(&aborted(JobState::Failed, "why")).await.unwrap();
    let fence = job.lease(Duty::Watch, "me", Duration::from_mins(1)).await.unwrap();
    assert!(fence.is_some());
    job.remove().await.unwrap();
    job.remove().await.unwrap();
    assert_eq!(kind(job.state().await), LedgerErrorKind::NotFound);
    job.create(LIMITS).await.unwrap();
    assert_eq!(job.progress().await.unwrap(), JobProgress::default());
    assert_eq!(ended(&*job, 0..1).await.unwrap(), [false]);
    assert_eq!(job.begin(1, "s").await.unwrap(), Begin::Run { failed_tries: 0, node_losses: 0 });
    assert_eq!(job.join(&worker("v"), None).await.unwrap(), 0);
    assert_eq!(job.heartbeat(0, "v", &NodeReport::default()).await.unwrap().signal, Signal::Run);
    assert!(job.lease(Duty::Watch, "you", Duration::from_mins(1)).await.unwrap().is_some());
}

pub(super) async fn states_follow_each_other(ledger: &dyn Ledger) {
    let job = fresh(ledger, "states").await;
    for state in [JobState::Scheduling, JobState::Running, JobState::Finalizing, JobState::Completed] {
        for _ in 0..2 {
            assert!(job.set_state(state, watching(&*job).await).await.unwrap(), "to {state:?}");
            assert_eq!(job.state().await.unwrap(), state);
        }
    }
}

pub(super) async fn ended_job_never_changes(ledger: &dyn Ledger) {
    for last in [JobState::Completed, JobState::Failed, JobState::Canceled] {
        let job = fresh(ledger, "final").await;
        assert!(job.set_state(last, watching(&*job).await).await.unwrap());
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
            assert!(!job.set_state(other, watching(&*job).await).await.unwrap(), "{last:?} to {other:?}");
            assert_eq!(job.state().await.unwrap(), last);
        }
    }
}

pub(super) async fn one_of_many_final_states_wins(ledger: &dyn Ledger) {
    for _ in 0..20 {
        let job = fresh(ledger, "race").await;
        let fence = watching(&*job).await;
        let states = [JobState::Completed, JobState::Failed, JobState::Canceled, JobState::Running];
        let done = join_all(states.map(|state| job.set_state(state, fence))).await;
        let state = job.state().await.unwrap();
        assert!(state.is_final());
        for (asked, took) in states.into_iter().zip(done) {
            let took = took.unwrap();
            assert!(took == (asked == state) || asked == JobState::Running, "{asked:?} of {states:?}");
        }
    }
}

pub(super) async fn checkpoint_only_grows(ledger: &dyn Ledger) {
    let job = fresh(ledger, "checkpoint").await;
    let fence = publishing(&*job).await;
    let at = |scheduled, complete| Checkpoint {
        scheduled,
        items: scheduled * 10,
        descriptors: u64::MAX - scheduled,
        complete,
        end: scheduled + 3,
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
        job.checkpoint(note, fence).await.unwrap();
        assert_eq!(job.progress().await.unwrap().checkpoint, expected, "after {note:?}");
    }
    let job = fresh(ledger, "racing").await;
    let fence = publishing(&*job).await;
    let notes = (0..40).map(|step| job.checkpoint(at((step * 7) % 40, false), fence));
    assert!(join_all(notes).await.into_iter().all(|outcome| outcome.is_ok()));
    assert_eq!(job.progress().await.unwrap().checkpoint, at(39, false));
    // A job of nothing is complete as well.
    let job = fresh(ledger, "nothing").await;
    let fence = publishing(&*job).await;
    job.checkpoint(at(0, true), fence).await.unwrap();
    assert!(job.progress().await.unwrap().is_complete());
}

pub(super) async fn names_may_hold_anything(ledger: &dyn Ledger) {
    for odd in ["", " ", "0", "null", "a:b{c}*", "zwölf\n\0'\"\\"] {
        let job = fresh(ledger, &format!("odd-{odd}")).await;
        job.commit(odd, 1, &[succeeded(0)]).await.unwrap();
        job.commit(odd, 1, &[succeeded(1)]).await.unwrap();
        let segments = job.segments(0, usize::MAX).await.unwrap();
        assert!(segments.iter().map(|segment| segment.key.as_str()).eq([odd]), "{segments:?}");
        for _ in 0..2 {
            let verdict = job.record_failure(&failed_by_code(1, odd)).await.unwrap();
            assert_eq!(verdict, Verdict::Retry { failed_tries: 1 });
            assert_eq!(job.begin(2, odd).await.unwrap(), Begin::Run { failed_tries: 0, node_losses: 0 });
        }
        assert_eq!(job.join(&worker("other"), None).await.unwrap(), 0);
        for _ in 0..2 {
            assert_eq!(job.join(&worker(odd), None).await.unwrap(), 1);
        }
        let report = NodeReport { fatal: Some(odd.to_owned()), ..NodeReport::default() };
        assert_eq!(job.heartbeat(1, odd, &report).await.unwrap().signal, Signal::Run);
        let node = job.nodes().await.unwrap().remove(1);
        assert_eq!((node.info, node.report), (worker(odd), report));
        let minute = Duration::from_mins(1);
        let fence = job.lease(Duty::Watch, odd, minute).await.unwrap();
        assert!(fence.is_some());
        assert_eq!(job.lease(Duty::Watch, "other", minute).await.unwrap(), None);
        assert_eq!(job.lease(Duty::Watch, odd, minute).await.unwrap(), fence);
        let end = aborted(JobState::Canceled, odd);
        assert_eq!(job.conclude(&end).await.unwrap(), end);
        assert_eq!(job.progress().await.unwrap().conclusion, Some(end));
        job.remove().await.unwrap();
    }
}

pub(super) async fn conclusion_reaches_every_node(ledger: &dyn Ledger) {
    let job = fresh(ledger, "conclusion").await;
    let report = NodeReport::default();
    let first = job.join(&worker("a"), None).await.unwrap();
    job.set_state(JobState::Running, watching(&*job).await).await.unwrap();
    assert_eq!(job.heartbeat(first, "a", &report).await.unwrap().signal, Signal::Run);
    job.conclude(&aborted(JobState::Failed, "why")).await.unwrap();
    assert_eq!(job.heartbeat(first, "a", &report).await.unwrap().signal, Signal::Stop);
    let late = job.join(&worker("late"), None).await.unwrap();
    assert_eq!(job.heartbeat(late, "late", &report).await.unwrap().signal, Signal::Stop);
    // What is finished can still be committed, and the way to the end changes nothing for the nodes.
    job.commit("s", 1, &[succeeded(0)]).await.unwrap();
    assert_eq!(job.progress().await.unwrap().succeeded, 1);
    for state in [JobState::Finalizing, JobState::Failed] {
        job.set_state(state, watching(&*job).await).await.unwrap();
        assert_eq!(job.heartbeat(first, "a", &report).await.unwrap().signal, Signal::Stop);
    }
}

pub(super) async fn first_conclusion_is_remembered(ledger: &dyn Ledger) {
    let job = fresh(ledger, "reason").await;
    assert_eq!(job.progress().await.unwrap().conclusion, None);
    let first = aborted(JobState::Canceled, "canceled by ana@one");
    let later = aborted(JobState::Failed, "too many failed");
    for conclusion in [&first, &later, &first, &later] {
        assert_eq!(job.conclude(conclusion).await.unwrap(), first);
        assert_eq!(job.progress().await.unwrap().conclusion.as_ref(), Some(&first));
    }
    // Asking is not yet ending.
    assert_eq!(job.state().await.unwrap(), JobState::Queued);
    let job = fresh(ledger, "racing").await;
    let reasons: Vec<_> = (0..8).map(|who| aborted(JobState::Canceled, &format!("by {who}"))).collect();
    let answers = join_all(reasons.iter().map(|conclusion| job.conclude(conclusion))).await;
    let remembered = job.progress().await.unwrap().conclusion.expect("a conclusion was asked for");
    assert!(reasons.contains(&remembered));
    assert!(answers.into_iter().all(|answer| answer.unwrap() == remembered), "all hear the same");
}

pub(super) async fn first_conclusion_has_its_date(ledger: &dyn Ledger) {
    // The clock of the ledger is that of this machine.
    const SLACK_US: u64 = 1_000_000;
    let job = fresh(ledger, "dated").await;
    assert_eq!(job.progress().await.unwrap().concluded_us, None);
    let before = now_us();
    job.conclude(&aborted(JobState::Canceled, "first")).await.unwrap();
    let decided = job.progress().await.unwrap().concluded_us.expect("it is decided");
    assert!((before - SLACK_US..=now_us() + SLACK_US).contains(&decided), "{before} {decided}");
    // Neither a later conclusion nor the end itself is another date.
    job.conclude(&aborted(JobState::Failed, "later")).await.unwrap();
    for state in [JobState::Finalizing, JobState::Canceled] {
        job.set_state(state, watching(&*job).await).await.unwrap();
        assert_eq!(job.progress().await.unwrap().concluded_us, Some(decided));
    }
    // A job that is made anew has none.
    job.remove().await.unwrap();
    job.create(LIMITS).await.unwrap();
    assert_eq!(job.progress().await.unwrap().concluded_us, None);
    let job = fresh(ledger, "dated-racing").await;
    let end = aborted(JobState::Canceled, "together");
    let answers = join_all((0..8).map(|_| async {
        job.conclude(&end).await.unwrap();
        job.progress().await.unwrap().concluded_us
    }))
    .await;
    assert!(answers[0].is_some() && answers.iter().all(|date| *date == answers[0]), "{answers:?}");
}

pub(super) async fn obstacle_lasts_from_its_first_note(ledger: &dyn Ledger) {
    let job = fresh(ledger, "obstacle").await;
    let noted = async || job.progress().await.unwrap().obstacle;
    assert_eq!(noted().await, None);
    job.note_obstacle(Some((ObstacleKind::Broker, "refused"))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    job.note_obstacle(Some((ObstacleKind::Broker, "no answer"))).await.unwrap();
    let obstacle = noted().await.expect("it is noted");
    assert_eq!((obstacle.kind, &*obstacle.reason), (ObstacleKind::Broker, "no answer"));
    assert!(obstacle.lasts >= Duration::from_millis(20), "{obstacle:?}");
    // One of another kind begins anew.
    job.note_obstacle(Some((ObstacleKind::Watch, "no room"))).await.unwrap();
    let other = noted().await.expect("it is noted");
    assert_eq!((other.kind, &*other.reason), (ObstacleKind::Watch, "no room"));
    assert_eq!(
        job.look(&[]).await.unwrap().progress.obstacle.map(|seen| seen.kind),
        Some(ObstacleKind::Watch)
    );
    job.note_obstacle(None).await.unwrap();
    assert_eq!(noted().await, None);
}

pub(super) async fn conclusion_of_a_completed_job_stops_nobody(ledger: &dyn Ledger) {
    let job = fresh(ledger, "completed").await;
    let node = job.join(&worker("a"), None).await.unwrap();
    job.set_state(JobState::Finalizing, watching(&*job).await).await.unwrap();
    let done = Conclusion { state: JobState::Completed, reason: String::new() };
    assert_eq!(job.conclude(&done).await.unwrap(), done);
    assert_eq!(job.heartbeat(node, "a", &NodeReport::default()).await.unwrap().signal, Signal::Finish);
    let late = aborted(JobState::Canceled, "too late");
    assert_eq!(job.conclude(&late).await.unwrap(), done);
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
        let node = job.join(&worker("a"), None).await.unwrap();
        job.set_state(state, watching(&*job).await).await.unwrap();
        let told = job.heartbeat(node, "a", &NodeReport::default()).await.unwrap();
        assert_eq!(told.signal, signal, "{state:?}");
    }
}
