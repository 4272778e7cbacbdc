//! Who watches over a job, and when.

mod failing;

use futures_util::FutureExt;
use prs_common::ledger::{Conclusion, NodeReport};
use prs_common::queue::QueueOptions;
use prs_common::storage::{PutMode, StorageErrorKind};

use prs_common::layout;
use prs_common::storage::{Storage, StorageExt};

use super::*;
use crate::fixtures::Fixture;
use crate::job::leases::is_watched;
use crate::job::record::tests::{end as end_record, record};

/// Whether `owner` gets the lease, for a moment.
async fn gets_the_lease(fixture: &Fixture, owner: &str) -> bool {
    let ledger = &fixture.job.ledger;
    let lease = ledger.lease(Duty::Watch, owner, Duration::from_mins(1)).await.unwrap();
    ledger.release(Duty::Watch, owner).await.unwrap();
    lease.is_some()
}

#[tokio::test]
async fn who_cannot_watch_lets_others_try() {
    let fixture = Fixture::new(1).await;
    std::fs::create_dir_all(fixture.job.logs.parent().unwrap()).unwrap();
    std::fs::write(&fixture.job.logs, "a file, where a folder should be").unwrap();
    fixture.join("worker-2", &NodeReport::default()).await;
    let end = OrchestratorEnd::default();
    let (job, stop) = (fixture.job.clone(), end.stop.clone());
    let trying = tokio::spawn(async move { orchestrate(&job, "worker-1", &end).await });
    let other_gets_it = async {
        while fixture.ledger.calls("lease") == 0 || !gets_the_lease(&fixture, "worker-2").await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(fixture.job.policy.lease / 2, other_gets_it).await.unwrap();
    stop.cancel();
    assert!(matches!(trying.await.unwrap(), WatchEnd::Stopped));
    assert!(!is_watched(&fixture.job).await.unwrap(), "it stopped, and the lease is free");
}

/// How the storage that does not answer one orchestrator looks to the other node of the job, and whether that gets the lease.
#[tokio::test]
async fn a_server_that_others_reach_is_left_to_them() {
    for (unavailable, is_left) in [(vec![], true), (vec!["storage".to_owned()], false)] {
        let mut fixture = Fixture::new(2).await;
        fixture.job.policy.gives_way = Duration::from_millis(100);
        fixture.job.policy.has_others = true;
        fixture.join("worker-2", &NodeReport { unavailable, ..NodeReport::default() }).await;
        let end = OrchestratorEnd::default();
        let (job, stop) = (fixture.job.clone(), end.stop.clone());
        let trying = tokio::spawn(async move { orchestrate(&job, "worker-1", &end).await });
        while fixture.ledger.calls("nodes") < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // From now on the orchestrator cannot read what was committed.
        fixture.storage.fail("get", usize::MAX, StorageErrorKind::Unavailable);
        fixture.succeed(0..1).await;
        let other_gets_it = async {
            while !gets_the_lease(&fixture, "worker-2").await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let time = if is_left { Duration::from_secs(20) } else { Duration::from_secs(1) };
        let left = tokio::time::timeout(time, other_gets_it).await;
        assert_eq!(left.is_ok(), is_left);
        stop.cancel();
        trying.await.unwrap();
    }
}

/// A job that no orchestrator can follow, for a reason that no server that comes back mends.
async fn that_nobody_can_watch(gives_up: Duration) -> Fixture {
    let mut fixture = Fixture::new(2).await;
    fixture.job.policy.gives_up = gives_up;
    // Another node may always do what this one cannot.
    fixture.job.policy.lost = Duration::from_hours(1);
    fixture.join("worker-2", &NodeReport::default()).await;
    fixture.ledger.fail("segments", usize::MAX, LedgerErrorKind::Refused);
    fixture
}

#[tokio::test]
async fn a_job_that_nobody_can_watch_fails_by_name_after_a_while() {
    let fixture = that_nobody_can_watch(Duration::from_millis(500)).await;
    let end = OrchestratorEnd::default();
    let ended = orchestrate(&fixture.job, "worker-1", &end);
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it ends");
    let WatchEnd::Ended(result) = ended else { panic!("{ended:?}") };
    let reason = result.reason.clone().unwrap_or_default();
    assert_eq!(result.state, JobState::Failed);
    assert!(reason.starts_with("the job cannot be watched over: no worker could for"), "{reason}");
    assert_eq!(fixture.record().await.result, Some(*result));
}

#[tokio::test]
async fn a_job_that_nobody_can_watch_is_canceled_at_once() {
    let fixture = that_nobody_can_watch(Duration::from_hours(1)).await;
    let end = OrchestratorEnd::default();
    let (job, ledger) = (fixture.job.clone(), fixture.job.ledger.clone());
    let trying = tokio::spawn(async move { orchestrate(&job, "worker-1", &end).await });
    let obstacle = async {
        loop {
            if let Some(obstacle) = ledger.progress().await.unwrap().obstacle {
                return obstacle;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let obstacle = tokio::time::timeout(Duration::from_secs(20), obstacle).await.unwrap();
    assert_eq!(obstacle.kind, ObstacleKind::Watch);
    let canceled = Conclusion { state: JobState::Canceled, reason: "canceled by ana".to_owned() };
    ledger.conclude(&canceled).await.unwrap();
    let WatchEnd::Ended(result) = trying.await.unwrap() else { panic!("it did not end the job") };
    assert_eq!((result.state, result.reason.as_deref()), (JobState::Canceled, Some("canceled by ana")));
}

#[tokio::test]
async fn who_only_ends_a_job_and_cannot_is_free_for_others() {
    let fixture = that_nobody_can_watch(Duration::from_hours(1)).await;
    let end = OrchestratorEnd::default();
    end.alone.cancel();
    let fence = fixture.job.ledger.lease(Duty::Watch, "worker-1", Duration::from_secs(1)).await.unwrap();
    fixture.job.ledger.set_state(JobState::Finalizing, fence.unwrap()).await.unwrap();
    let ended = orchestrate(&fixture.job, "worker-1", &end);
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it does not stay");
    assert!(matches!(ended, WatchEnd::GaveUp), "{ended:?}");
    assert!(!is_watched(&fixture.job).await.unwrap());
}

#[tokio::test]
async fn asking_whether_a_job_is_watched_takes_nothing() {
    let fixture = Fixture::new(1).await;
    for _ in 0..2 {
        assert!(!is_watched(&fixture.job).await.unwrap());
    }
    fixture.job.ledger.lease(Duty::Watch, "a", Duration::from_mins(1)).await.unwrap();
    assert!(is_watched(&fixture.job).await.unwrap());
    fixture.job.ledger.release(Duty::Watch, "a").await.unwrap();
    assert!(!is_watched(&fixture.job).await.unwrap());
    assert!(gets_the_lease(&fixture, "b").await);
}

#[tokio::test]
async fn a_job_that_nobody_can_watch_holds_no_node() {
    let mut fixture = that_nobody_can_watch(Duration::from_hours(1)).await;
    fixture.job.policy.gives_way = Duration::from_millis(300);
    let end = OrchestratorEnd::default();
    let ended = orchestrate(&fixture.job, "worker-1", &end);
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it does not stay");
    assert!(matches!(ended, WatchEnd::GaveUp), "{ended:?}");
    assert!(!is_watched(&fixture.job).await.unwrap());
}

/// What stands in place of a record, how long every worker has to fail, and whether the job ends with that.
#[tokio::test]
async fn a_job_whose_record_cannot_be_read_ends_after_a_while_and_keeps_what_it_has() {
    let (soon, never) = (Duration::from_millis(500), Duration::MAX);
    let other = "{\"prs_version\": \"99.0.0\"}";
    for (body, gives_up, ends) in
        [("{", soon, true), ("", soon, true), ("{}", soon, true), ("{", never, false), (other, soon, false)]
    {
        let mut fixture = Fixture::new(1).await;
        let queue = fixture.job.queue_name();
        fixture.job.policy.gives_up = gives_up;
        fixture.job.policy.gives_way = Duration::from_secs(if ends { 3600 } else { 1 });
        fixture.job.queue.declare(&queue, QueueOptions::default()).await.unwrap();
        fixture.storage.put(layout::JOB, body.into(), PutMode::Overwrite).await.unwrap();
        let watched = Box::pin(try_to_watch(&fixture.job, "a")).await;
        assert!(matches!(watched, Err(WatchError::Record(_))), "{body} {watched:?}");
        let ended = orchestrate(&fixture.job, "a", &OrchestratorEnd::default()).await;
        let known = fixture.job.ledger.progress().await;
        if ends {
            assert!(matches!(ended, WatchEnd::Over), "{body} {ended:?}");
            assert_eq!(known.unwrap_err().kind, LedgerErrorKind::NotFound, "{body}");
        } else {
            assert!(matches!(ended, WatchEnd::GaveUp), "{body} {ended:?}");
            let obstacle = known.unwrap().obstacle.expect("status tells why");
            assert!(obstacle.reason.contains("job"), "{obstacle:?}");
        }
        assert_eq!(fixture.job.queue.depth(&queue).await.is_err(), ends, "{body}");
        assert_eq!(fixture.storage.get(layout::JOB).await.unwrap(), body);

        // Where the ledger does not know it either, it is not entered there again.
        fixture.job.ledger.remove().await.unwrap();
        let ended = orchestrate(&fixture.job, "a", &OrchestratorEnd::default()).await;
        assert!(matches!(ended, WatchEnd::GaveUp), "{body} {ended:?}");
        assert_eq!(fixture.job.ledger.state().await.unwrap_err().kind, LedgerErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_record_that_its_storage_calls_damaged_cannot_be_read() {
    let fixture = Fixture::new(1).await;
    fixture.storage.fail("get job.json", usize::MAX, StorageErrorKind::Damaged);
    let watched = Box::pin(try_to_watch(&fixture.job, "a")).await;
    assert!(matches!(&watched, Err(WatchError::Record(error)) if error.is_for_good()), "{watched:?}");
}

#[tokio::test]
async fn an_orchestrator_that_finds_no_entry_watches_no_longer() {
    let fixture = Fixture::new(1).await;
    let end = OrchestratorEnd::default();
    let (job, ledger) = (fixture.job.clone(), fixture.job.ledger.clone());
    let trying = tokio::spawn(async move { orchestrate(&job, "worker-1", &end).await });
    while !is_watched(&fixture.job).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut resumed = fixture.record().await;
    resumed.incarnation = 2;
    resumed.write(&*fixture.storage).await.unwrap();
    ledger.remove().await.unwrap();
    assert!(matches!(trying.await.unwrap(), WatchEnd::Over));
    assert_eq!(fixture.record().await, resumed);
}

#[test]
fn only_the_orchestrators_logs_are_fetched() {
    let table = [
        ("job_progress_overview.20260101.txt", true),
        ("sys/master_role.txt", true),
        ("sys/error/orchestrator.txt", true),
        ("sys/node/0/_main.txt", false),
        ("user/stdout/0/process000.stdout.txt", false),
    ];
    for (name, expected) in table {
        assert_eq!(is_orchestrators_log(name), expected, "{name}");
    }
}

#[tokio::test]
async fn who_is_to_retire_leaves_the_job_to_another_and_to_nobody_else() {
    let mut fixture = Fixture::new(1).await;
    fixture.job.policy.lease = Duration::from_millis(400);
    let end = OrchestratorEnd::default();
    end.retire.cancel();
    fixture.job.ledger.lease(Duty::Watch, "worker-2", Duration::from_mins(1)).await.unwrap();
    assert!(matches!(orchestrate(&fixture.job, "worker-1", &end).await, WatchEnd::Stopped));

    // The other is gone, the job is to fail, and the store takes that some moments later only.
    fixture.job.ledger.release(Duty::Watch, "worker-2").await.unwrap();
    let failed = Conclusion { state: JobState::Failed, reason: "refused".to_owned() };
    fixture.job.ledger.conclude(&failed).await.unwrap();
    fixture.storage.fail("get job.json", 3, StorageErrorKind::PermissionDenied);
    let WatchEnd::Ended(result) = orchestrate(&fixture.job, "worker-1", &end).await else {
        panic!("nobody says how the job ended")
    };
    assert_eq!((result.state, result.reason.as_deref()), (JobState::Failed, Some("refused")));
    let told = fixture.job.nodes_end.notified().now_or_never();
    assert!(told.is_some(), "the node of this program asks the ledger at once");
    assert_eq!(fixture.record().await.result, Some(*result));
}

#[test]
fn a_ledger_that_was_entered_again_after_the_end_has_no_reports() {
    let mut record = record();
    end_record(&mut record);
    let mut result = record.result.unwrap();
    (result.mini_batches.succeeded, result.mini_batches.failed) = (7, 2);
    for (succeeded, failed, knows) in [(7, 2, true), (8, 2, true), (0, 0, false), (7, 1, false)] {
        let progress = JobProgress { succeeded, failed, ..JobProgress::default() };
        assert_eq!(knows_all(&progress, &result), knows, "{succeeded} {failed}");
    }
}
