//! Leases: one holder at a time, for each duty.

use std::time::Duration;

use futures_util::future::join_all;
use prs_common::ledger::{Checkpoint, Duty, JobState, Ledger, LedgerError, LedgerErrorKind};

use super::{LIMITS, fresh};
use crate::deadline::eventually;

pub(super) async fn lease_has_one_holder(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "lease").await;
    let fence = job.lease(Duty::Watch, "a", minute).await.unwrap().expect("the lease is free");
    for _ in 0..3 {
        assert_eq!(job.lease(Duty::Watch, "b", minute).await.unwrap(), None);
        assert_eq!(
            job.lease(Duty::Watch, "a", minute).await.unwrap(),
            Some(fence),
            "renewing keeps the number"
        );
    }
}

pub(super) async fn lease_of_any_length_is_given(ledger: &dyn Ledger) {
    let job = fresh(ledger, "length").await;
    let age = Duration::from_hours(24 * 365);
    let first = job.lease(Duty::Watch, "a", Duration::ZERO).await.unwrap().expect("it is free");
    let second = job.lease(Duty::Watch, "b", age).await.unwrap().expect("no time is over at once");
    assert!(second > first);
    assert_eq!(job.lease(Duty::Watch, "a", age).await.unwrap(), None);
}

pub(super) async fn lease_changes_hands_after_it_ran_out(ledger: &dyn Ledger) {
    let (short, long) = (Duration::from_millis(300), Duration::from_mins(1));
    let job = fresh(ledger, "hands").await;
    let start = std::time::Instant::now();
    let first = job.lease(Duty::Watch, "a", short).await.unwrap().expect("the lease is free");
    let second =
        eventually("the end of the lease", || async { job.lease(Duty::Watch, "b", short).await.unwrap() })
            .await;
    assert!(start.elapsed() >= short, "it was taken {:?} after it was given", start.elapsed());
    assert!(second > first, "{second} after {first}");
    let third = eventually("the end of the second lease", || async {
        job.lease(Duty::Watch, "a", long).await.unwrap()
    })
    .await;
    assert!(third > second, "{third} after {second}");
    assert_eq!(job.lease(Duty::Watch, "b", long).await.unwrap(), None);
    // Renewing counts from the renewal, not from the first lease.
    let job = fresh(ledger, "renew").await;
    job.lease(Duty::Watch, "a", short).await.unwrap();
    job.lease(Duty::Watch, "a", long).await.unwrap();
    tokio::time::timeout(2 * short, async {
        loop {
            assert_eq!(job.lease(Duty::Watch, "b", long).await.unwrap(), None, "it was renewed");
            tokio::time::sleep(short / 10).await;
        }
    })
    .await
    .expect_err("the loop ends with the time");
}

pub(super) async fn racing_lease_has_one_winner(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "winner").await;
    let owners: Vec<String> = (0..8).map(|owner| format!("owner-{owner}")).collect();
    let mut fences = Vec::new();
    for _ in 0..3 {
        let asked = owners.iter().map(|owner| job.lease(Duty::Watch, owner, minute));
        let told = join_all(asked).await.into_iter().map(Result::unwrap);
        let taken: Vec<_> =
            owners.iter().zip(told).filter_map(|(owner, fence)| Some((owner, fence?))).collect();
        let [(owner, fence)] = taken[..] else { panic!("one owner at a time: {taken:?}") };
        job.release(Duty::Watch, owner).await.unwrap();
        // Another owner has it in between, so it changes hands.
        let between = job.lease(Duty::Watch, "else", minute).await.unwrap().expect("the lease is free");
        job.release(Duty::Watch, "else").await.unwrap();
        fences.extend([fence, between]);
    }
    assert!(fences.is_sorted_by(|before, after| before < after), "{fences:?}");
}

pub(super) async fn released_lease_is_free_at_once(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "release").await;
    let first = job.lease(Duty::Watch, "a", minute).await.unwrap().expect("the lease is free");
    job.release(Duty::Watch, "b").await.unwrap();
    assert_eq!(job.lease(Duty::Watch, "b", minute).await.unwrap(), None, "it is not b's to give up");
    for _ in 0..2 {
        job.release(Duty::Watch, "a").await.unwrap();
    }
    let second = job.lease(Duty::Watch, "b", minute).await.unwrap().expect("the lease is free");
    assert!(second > first, "{second} after {first}");
    job.release(Duty::Watch, "a").await.unwrap();
    assert_eq!(job.lease(Duty::Watch, "a", minute).await.unwrap(), None, "it is b's now");
}

pub(super) async fn superseded_holder_changes_nothing(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let superseded = |error: LedgerError| assert_eq!(error.kind, LedgerErrorKind::Superseded, "{error}");
    let done = Checkpoint { scheduled: 7, items: 7, complete: true, ..Checkpoint::default() };
    let job = fresh(ledger, "superseded").await;
    superseded(job.set_state(JobState::Running, 1).await.unwrap_err());
    superseded(job.checkpoint(done, 1).await.unwrap_err());
    let mut fences = Vec::new();
    for owner in ["a", "b"] {
        let take = async |duty| job.lease(duty, owner, minute).await.unwrap().expect("it is free");
        fences.push((take(Duty::Watch).await, take(Duty::Schedule).await));
        for duty in [Duty::Watch, Duty::Schedule] {
            job.release(duty, owner).await.unwrap();
        }
    }
    let [(old_watch, old_schedule), (watch, schedule)] = fences[..] else { unreachable!() };
    superseded(job.set_state(JobState::Running, old_watch).await.unwrap_err());
    superseded(job.checkpoint(done, old_schedule).await.unwrap_err());
    assert_eq!(job.state().await.unwrap(), JobState::Queued);
    assert_eq!(job.progress().await.unwrap().checkpoint, Checkpoint::default());
    // One who gave it up may still finish what he began.
    assert!(job.set_state(JobState::Running, watch).await.unwrap());
    job.checkpoint(done, schedule).await.unwrap();

    // A ledger that was lost and filled again gives no number twice.
    job.remove().await.unwrap();
    job.create(LIMITS).await.unwrap();
    let later = job.lease(Duty::Watch, "c", minute).await.unwrap().expect("it is free");
    assert!(later > watch, "{later} after {watch}");
    superseded(job.set_state(JobState::Running, watch).await.unwrap_err());
}

pub(super) async fn who_comes_again_keeps_the_number(ledger: &dyn Ledger) {
    let job = fresh(ledger, "again").await;
    let lease = async |owner| job.lease(Duty::Watch, owner, Duration::ZERO).await.unwrap();
    let first = lease("a").await;
    assert_eq!(lease("a").await, first, "nobody had it in between");
    assert!(lease("b").await > first);
    assert!(lease("a").await > first, "another owner had it");
}

pub(super) async fn duties_have_leases_of_their_own(ledger: &dyn Ledger) {
    let minute = Duration::from_mins(1);
    let job = fresh(ledger, "duties").await;
    assert!(job.lease(Duty::Watch, "a", minute).await.unwrap().is_some());
    assert!(job.lease(Duty::Schedule, "b", minute).await.unwrap().is_some());
    job.release(Duty::Schedule, "b").await.unwrap();
    assert_eq!(job.lease(Duty::Watch, "b", minute).await.unwrap(), None);
}
