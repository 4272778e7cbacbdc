//! Each call that an orchestrator makes fails, for a moment and for ever: the job completes, fails by name, or says what it
//! waits for.

use futures_util::future::join_all;

use super::*;

/// What fails.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Ledger(&'static str, LedgerErrorKind),
    Storage(&'static str, StorageErrorKind),
    /// The folder of the logs, on this host.
    Logs,
}

/// What becomes of the job.
#[derive(Debug, PartialEq)]
enum Outcome {
    Completed,
    Failed(String),
    /// It has not ended, and this is what `status` tells that it waits for.
    Waits(Option<ObstacleKind>),
}

/// A job all of whose mini-batches have ended; a call of it fails so many times.
async fn with(fault: Fault, times: usize) -> Outcome {
    let mut fixture = Fixture::new(3).await;
    fixture.succeed(0..3).await;
    fixture.planned(3).await;
    fixture.job.policy.gives_up = Duration::from_secs(1);
    match fault {
        Fault::Ledger(call, kind) => fixture.ledger.fail(call, times, kind),
        Fault::Storage(call, kind) => fixture.storage.fail(call, times, kind),
        Fault::Logs => {
            std::fs::create_dir_all(fixture.job.logs.parent().unwrap()).unwrap();
            std::fs::write(&fixture.job.logs, "a file, where a folder should be").unwrap();
        }
    }
    let end = OrchestratorEnd::default();
    let ended = tokio::time::timeout(Duration::from_secs(6), orchestrate(&fixture.job, "worker-1", &end));
    match ended.await {
        Ok(WatchEnd::Ended(result)) if result.state == JobState::Completed => Outcome::Completed,
        Ok(WatchEnd::Ended(result)) => Outcome::Failed(result.reason.unwrap_or_default()),
        // It had ended before this attempt.
        Ok(WatchEnd::Over) if fixture.record().await.state == JobState::Completed => Outcome::Completed,
        Ok(other) => panic!("{fault:?}: {other:?}"),
        Err(_) => {
            let progress = fixture.job.membership.job("job-1").progress().await.unwrap();
            Outcome::Waits(progress.obstacle.map(|obstacle| obstacle.kind))
        }
    }
}

#[tokio::test]
async fn every_call_that_fails_for_a_moment_is_made_again() {
    let ledger = [
        "lease",
        "state",
        "nodes",
        "progress",
        "segments",
        "set_state",
        "conclude",
        "publish",
        "note_obstacle",
        "remove",
    ];
    let storage = ["get job.json", "get segments", "writer", "put job.json", "list", "put logs", "put"];
    let faults = ledger.map(|call| Fault::Ledger(call, LedgerErrorKind::Unavailable)).into_iter();
    let faults = faults.chain(storage.map(|call| Fault::Storage(call, StorageErrorKind::Unavailable)));
    let ended = join_all(faults.map(async |fault| (fault, with(fault, 2).await))).await;
    for (fault, outcome) in ended {
        assert_eq!(outcome, Outcome::Completed, "{fault:?}");
    }
}

#[tokio::test]
async fn a_call_that_fails_for_ever_ends_the_job_by_name_or_is_told() {
    use Fault::{Ledger, Logs, Storage};
    use ObstacleKind::Watch;
    use StorageErrorKind::{Full, PermissionDenied, Unavailable};
    let failed = |reason: &str| Outcome::Failed(reason.to_owned());
    let waits = |kind| Outcome::Waits(Some(kind));
    let not_watched = || failed("the job cannot be watched over: ");
    let not_written = || failed("the result cannot be written: ");
    let table = [
        (Storage("get segments", Unavailable), waits(ObstacleKind::Storage)),
        (Storage("get segments", PermissionDenied), not_watched()),
        (Storage("writer", Unavailable), waits(ObstacleKind::Storage)),
        (Storage("writer", PermissionDenied), not_written()),
        (Storage("writer", Full), not_written()),
        (Storage("get job.json", Unavailable), waits(ObstacleKind::Storage)),
        // Where the end cannot be written down, there is none.
        (Storage("get job.json", PermissionDenied), waits(Watch)),
        (Storage("put job.json", Unavailable), waits(ObstacleKind::Storage)),
        (Storage("put job.json", PermissionDenied), waits(Watch)),
        (Storage("list", Unavailable), waits(ObstacleKind::Storage)),
        // Nobody waits for logs.
        (Storage("put logs", PermissionDenied), Outcome::Completed),
        (Logs, not_watched()),
        (Ledger("segments", LedgerErrorKind::Refused), not_watched()),
        (Ledger("nodes", LedgerErrorKind::Refused), not_watched()),
        (Ledger("set_state", LedgerErrorKind::Refused), not_watched()),
        (Ledger("conclude", LedgerErrorKind::Refused), waits(Watch)),
        (Ledger("lease", LedgerErrorKind::Refused), waits(Watch)),
        (Ledger("publish", LedgerErrorKind::Refused), Outcome::Completed),
        (Ledger("note_obstacle", LedgerErrorKind::Refused), Outcome::Completed),
    ];
    let ended =
        join_all(table.map(async |(fault, expected)| (fault, with(fault, usize::MAX).await, expected))).await;
    let other = ended.iter().filter(|(_, outcome, expected)| match (outcome, expected) {
        (Outcome::Failed(reason), Outcome::Failed(begins)) => !reason.starts_with(begins),
        (outcome, expected) => outcome != expected,
    });
    let other: Vec<_> = other.collect();
    assert!(other.is_empty(), "{other:#?}");
}

/// While a job ends its nodes have left, and who served it goes on, unless the server did not answer there either.
#[tokio::test]
async fn the_end_of_a_job_is_left_to_those_who_reach_its_storage() {
    for (unavailable, is_left) in [(vec![], true), (vec!["storage".to_owned()], false)] {
        let mut fixture = Fixture::new(2).await;
        fixture.job.policy.gives_way = Duration::from_millis(100);
        fixture.succeed(0..2).await;
        fixture.planned(2).await;
        let node = fixture.join("worker-2", &NodeReport { unavailable, ..NodeReport::default() }).await;
        fixture.job.ledger.leave(node).await.unwrap();
        fixture.storage.fail("writer", usize::MAX, StorageErrorKind::Unavailable);
        let end = OrchestratorEnd::default();
        let (job, stop) = (fixture.job.clone(), end.stop.clone());
        let trying = tokio::spawn(async move { orchestrate(&job, "worker-1", &end).await });
        let other_gets_it = async {
            while fixture.storage.calls("writer") == 0 || !gets_the_lease(&fixture, "worker-2").await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let time = Duration::from_secs(if is_left { 20 } else { 2 });
        assert_eq!(tokio::time::timeout(time, other_gets_it).await.is_ok(), is_left);
        stop.cancel();
        trying.await.unwrap();
    }
}
