//! What an orchestrator makes of what it finds, with servers that fail.

mod damaged;

use std::time::Duration;

use prs_common::layout;
use prs_common::ledger::{Conclusion, JobLedger, JobState, LedgerErrorKind, MiniBatchOutcome, NodeReport};
use prs_common::storage::{Storage, StorageErrorKind, StorageExt};

use super::{View, Watch, WatchError, ending, lease, watch};
use crate::fixtures::Fixture;
use crate::orchestrate::clean_up;
use crate::{JobResult, Policy};

const OWNER: &str = "worker-1";

async fn watched(fixture: &Fixture) -> Result<JobResult, WatchError> {
    let (view, _seen) = tokio::sync::watch::channel(View::default());
    Box::pin(watch(&fixture.job, OWNER, fixture.record().await, "job-1", &view)).await
}

/// Watches until `is_so`.
async fn watched_until(fixture: &Fixture, is_so: impl AsyncFn(&Fixture) -> bool) {
    let waiting = async {
        while !is_so(fixture).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        ended = Box::pin(watched(fixture)) => panic!("{ended:?}"),
        () = waiting => {}
        () = tokio::time::sleep(Duration::from_secs(20)) => panic!("it never is"),
    }
}

/// A job all of whose mini-batches succeeded.
async fn done() -> Fixture {
    let mut fixture = Fixture::new(3).await;
    fixture.succeed(0..3).await;
    fixture.planned(3).await;
    fixture
}

async fn has_its_rows(fixture: &Fixture, result: &JobResult) {
    assert_eq!((result.state, result.output.rows), (JobState::Completed, 3), "{result:?}");
    assert_eq!(fixture.storage.get("output/parallel_run_step.txt").await.unwrap(), "0\n1\n2\n");
    assert_eq!(fixture.record().await.result.as_ref(), Some(result));
}

#[tokio::test]
async fn a_result_stands_though_the_ledger_goes_away_right_after_it() {
    let fixture = done().await;
    fixture.ledger.fail("set_state completed", 1, LedgerErrorKind::Unavailable);
    let result = watched(&fixture).await.unwrap();
    has_its_rows(&fixture, &result).await;
    assert!(
        !fixture.storage.list_all("segments/").await.unwrap().is_empty(),
        "they go with the entry in the ledger"
    );
    clean_up(&fixture.job).await.unwrap();
    assert!(fixture.storage.list_all("segments/").await.unwrap().is_empty());
    assert_eq!(fixture.ledger.state().await.unwrap_err().kind, LedgerErrorKind::NotFound);
}

#[tokio::test]
async fn a_job_that_was_concluded_as_completed_gets_its_rows_from_the_next() {
    let fixture = done().await;
    let completed = Conclusion { state: JobState::Completed, reason: String::new() };
    fixture.ledger.conclude(&completed).await.unwrap();
    let result = watched(&fixture).await.unwrap();
    has_its_rows(&fixture, &result).await;
}

#[tokio::test]
async fn a_record_that_cannot_be_written_for_a_while_gets_the_rows_all_the_same() {
    let fixture = done().await;
    fixture.storage.fail("put job.json", 2, StorageErrorKind::Unavailable);
    let result = watched(&fixture).await.unwrap();
    has_its_rows(&fixture, &result).await;
}

#[tokio::test]
async fn an_end_that_cannot_be_written_is_no_other_end() {
    let fixture = done().await;
    fixture.storage.fail("put job.json", usize::MAX, StorageErrorKind::PermissionDenied);
    watched(&fixture).await.unwrap_err();
    assert_eq!(fixture.record().await.result, None);
}

#[tokio::test]
async fn segments_stay_until_the_record_says_that_the_result_is_there() {
    for is_written in [false, true] {
        let mut fixture = done().await;
        (fixture.job.policy, fixture.job.log_shipper) = (Policy::embedded(), None);
        if !is_written {
            fixture.storage.fail("put job.json", 1_000, StorageErrorKind::Full);
        }
        let result = watched(&fixture).await.unwrap();
        assert_eq!((result.state, result.output.rows), (JobState::Completed, 3), "{result:?}");
        assert_eq!(fixture.record().await.result.is_some(), is_written);
        assert_eq!(fixture.storage.list_all("segments/").await.unwrap().is_empty(), is_written);
    }
}

#[tokio::test]
async fn what_the_record_says_is_not_written_over() {
    let fixture = done().await;
    let first = watched(&fixture).await.unwrap();
    fixture.storage.delete("output/parallel_run_step.txt").await.unwrap();
    assert_eq!(watched(&fixture).await.unwrap(), first);

    let mut resumed = fixture.record().await;
    resumed.start_again();
    resumed.write(&*fixture.storage).await.unwrap();
    assert!(matches!(watched(&fixture).await, Err(WatchError::Superseded)));
    assert_eq!(fixture.record().await, resumed);
}

/// An orchestrator looks at the record and sleeps; its successor writes meanwhile, and then it wakes and goes on.
#[tokio::test]
async fn who_slept_writes_nothing_over_the_record_of_the_successor() {
    let fixture = done().await;
    let (view, _seen) = tokio::sync::watch::channel(View::default());
    let me = (OWNER, lease(&fixture.job, OWNER).await.unwrap());
    let mut sleeper = Watch::start(&fixture.job, me, (fixture.record().await, None), "job-1", &view).unwrap();
    let by_successor = watched(&fixture).await.unwrap();
    has_its_rows(&fixture, &by_successor).await;
    let before = fixture.record().await;
    let failed = Conclusion { state: JobState::Failed, reason: "nothing is left of the segments".to_owned() };
    let stands = sleeper.close(&failed, ending::nothing(&fixture.job)).await.unwrap();
    assert_eq!(stands, by_successor);
    assert_eq!(fixture.record().await, before);

    let mut sleeper = Watch::start(&fixture.job, me, (fixture.record().await, None), "job-1", &view).unwrap();
    let mut resumed = before;
    resumed.start_again();
    resumed.write(&*fixture.storage).await.unwrap();
    let woken = sleeper.close(&failed, ending::nothing(&fixture.job)).await;
    assert!(matches!(woken, Err(WatchError::Superseded)), "{woken:?}");
    assert_eq!(fixture.record().await, resumed);

    fixture.storage.delete(layout::JOB).await.unwrap();
    let woken = sleeper.close(&failed, ending::nothing(&fixture.job)).await;
    assert!(matches!(woken, Err(WatchError::Superseded)), "{woken:?}");
    assert!(fixture.storage.get(layout::JOB).await.is_err(), "a job that was removed stays so");
}

#[tokio::test]
async fn logs_that_the_store_never_takes_do_not_keep_a_job_from_ending() {
    let fixture = done().await;
    let log = fixture.job.logs.join("user/entry_script_log/a\\b");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(log, "x").unwrap();
    fixture.storage.fail("put logs/job_result.txt", 1, StorageErrorKind::Unavailable);
    fixture.storage.fail("put logs/readme.txt", usize::MAX, StorageErrorKind::PermissionDenied);
    let result = watched(&fixture).await.unwrap();
    has_its_rows(&fixture, &result).await;
    assert!(fixture.storage.get("logs/job_result.txt").await.is_ok());
}

#[tokio::test]
async fn a_plan_that_nobody_has_begun_to_publish_leaves_out_what_is_done() {
    let mut fixture = Fixture::new(5).await;
    fixture.succeed([0, 3]).await;
    watched_until(&fixture, async |fixture| fixture.waiting().await == 3).await;
    watched_until(&fixture, async |fixture| fixture.ledger.progress().await.unwrap().checkpoint.complete)
        .await;
    assert_eq!(fixture.waiting().await, 3);
}

#[tokio::test]
async fn inputs_that_changed_since_a_part_was_done_are_refused() {
    let mut fixture = Fixture::new(5).await;
    fixture.succeed([0, 3]).await;
    std::fs::remove_file(fixture.inputs().join("001")).unwrap();
    let result = watched(&fixture).await.unwrap();
    assert_eq!(result.state, JobState::Failed);
    let reason = result.reason.unwrap();
    assert!(reason.starts_with("the inputs changed") && reason.contains("mb-0000000003"), "{reason}");
}

#[tokio::test]
async fn a_ledger_that_is_away_when_the_watch_begins_fails_no_job() {
    let fixture = done().await;
    for call in ["state", "set_state scheduling", "nodes", "conclude"] {
        fixture.ledger.fail(call, 2, LedgerErrorKind::Unavailable);
    }
    let result = watched(&fixture).await.unwrap();
    has_its_rows(&fixture, &result).await;
}

/// Makes this host unable to write logs.
fn break_the_host(fixture: &Fixture) {
    std::fs::create_dir_all(fixture.job.logs.parent().unwrap()).unwrap();
    std::fs::write(&fixture.job.logs, "a file").unwrap();
}

#[tokio::test]
async fn a_fault_of_one_host_fails_the_job_only_where_nobody_else_is_there() {
    let fixture = done().await;
    break_the_host(&fixture);
    fixture.join("worker-1", &NodeReport::default()).await;
    let other = fixture.join("worker-2", &NodeReport::default()).await;
    assert!(matches!(watched(&fixture).await, Err(WatchError::Logs { .. })));
    assert_eq!(fixture.ledger.progress().await.unwrap().conclusion, None);
    fixture.ledger.leave(other).await.unwrap();
    fixture.storage.fail("put job.json", 1, StorageErrorKind::Unavailable);
    watched(&fixture).await.unwrap_err();
    let result = watched(&fixture).await.unwrap();
    assert_eq!(result.state, JobState::Failed);
    assert_eq!(fixture.record().await.result, Some(result));
}

#[tokio::test]
async fn many_segments_are_followed_in_few_calls_and_a_conclusion_comes_first() {
    let mut fixture = Fixture::new(1_000).await;
    for index in 0..1_000 {
        fixture.succeed([index]).await;
    }
    fixture.planned(1_000).await;
    let result = watched(&fixture).await.unwrap();
    assert_eq!((result.state, result.output.rows), (JobState::Completed, 1_000));
    assert!(fixture.ledger.calls("segments") < 20, "{}", fixture.ledger.calls("segments"));

    let mut fixture = Fixture::new(3).await;
    fixture.succeed(0..3).await;
    let canceled = Conclusion { state: JobState::Canceled, reason: "canceled by a test".to_owned() };
    fixture.ledger.conclude(&canceled).await.unwrap();
    // The first reader of segments meets this, and says so.
    fixture.storage.fail("get segments/", 1, StorageErrorKind::Unavailable);
    let result = watched(&fixture).await.unwrap();
    assert_eq!((result.state, result.reason.as_deref()), (JobState::Canceled, Some("canceled by a test")));
    let errors = std::fs::read_to_string(fixture.job.logs.join("sys/error/orchestrator.txt")).unwrap();
    assert!(errors.contains("the job cannot be ended yet"), "{errors}");
}

#[tokio::test]
async fn a_job_fails_when_as_many_nodes_were_of_no_use_as_it_wants() {
    let mut fixture = Fixture::new(1).await;
    fixture.spec().node_count = 2;
    fixture.planned(1).await;
    let broken = NodeReport { fatal: Some("the disk is full".to_owned()), ..NodeReport::default() };
    let useless = fixture.join("worker-2", &broken).await;
    fixture.ledger.leave(useless).await.unwrap();
    let looks = |fixture: &Fixture| fixture.ledger.calls("nodes");
    watched_until(&fixture, async |fixture| looks(fixture) > 20).await;

    let useless = fixture.join("worker-3", &broken).await;
    fixture.ledger.leave(useless).await.unwrap();
    let result = watched(&fixture).await.unwrap();
    assert_eq!((result.state, result.reason.as_deref()), (JobState::Failed, Some("the disk is full")));
}
