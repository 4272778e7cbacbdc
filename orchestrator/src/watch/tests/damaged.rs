//! What an orchestrator makes of segments that storage changed, and of outcomes that nobody planned.

use prs_common::layout;
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::storage::{PutMode, StorageExt};

use super::*;
use crate::segments::recover::recover;

/// A job of three mini-batches in two segments, all of them run.
async fn done_in_two() -> (Fixture, [String; 2]) {
    let mut fixture = Fixture::new(3).await;
    fixture.succeed([0, 2]).await;
    fixture.succeed([1]).await;
    fixture.planned(3).await;
    (fixture, [0, 1].map(|number| layout::segment(1, 0, "0", number)))
}

/// Flips the bits of one byte of an object, counted from its end where `at` is negative.
async fn damage(fixture: &Fixture, key: &str, at: isize) {
    let mut bytes = fixture.storage.get(key).await.unwrap().to_vec();
    let at = if at < 0 { bytes.len() - at.unsigned_abs() } else { at as usize };
    bytes[at] ^= 4;
    fixture.storage.put(key, bytes.into(), PutMode::Overwrite).await.unwrap();
}

async fn runs_again(fixture: &Fixture) -> String {
    match watched(fixture).await {
        Err(WatchError::RunAgain { reason }) => reason,
        ended => panic!("{ended:?}"),
    }
}

/// The mini-batches without an outcome, once the ledger is filled anew.
async fn open_again(fixture: &Fixture) -> Vec<MiniBatchIndex> {
    let (ledger, run) = (&fixture.ledger, &fixture.job.run);
    ledger.remove(run).await.unwrap();
    ledger.create(run, fixture.job.try_limits()).await.unwrap();
    recover(&fixture.job).await.unwrap();
    let ended = ledger.ended(run, &[0, 1, 2]).await.unwrap();
    (0..3).filter(|index| !ended[*index as usize]).collect()
}

#[tokio::test]
async fn damaged_rows_run_again_and_the_result_is_right() {
    let (mut fixture, [first, second]) = done_in_two().await;
    damage(&fixture, &first, 0).await;
    let reason = runs_again(&fixture).await;
    assert!(reason.contains(&first) && !reason.contains(&second), "{reason}");
    assert!(fixture.storage.get("output/parallel_run_step.txt").await.is_err());
    assert_eq!(open_again(&fixture).await, [0, 2]);

    fixture.succeed([0, 2]).await;
    fixture.planned(3).await;
    let result = watched(&fixture).await.unwrap();
    has_its_rows(&fixture, &result).await;
}

#[tokio::test]
async fn every_damaged_segment_is_found_at_once() {
    let (fixture, [first, second]) = done_in_two().await;
    damage(&fixture, &first, 1).await;
    damage(&fixture, &second, 1).await;
    let reason = runs_again(&fixture).await;
    assert!(reason.contains(&first) && reason.contains(&second), "{reason}");
    assert_eq!(open_again(&fixture).await, [0, 1, 2]);
}

#[tokio::test]
async fn a_damaged_index_or_a_segment_that_is_gone_runs_again() {
    let (fixture, [first, second]) = done_in_two().await;
    damage(&fixture, &first, -30).await;
    fixture.storage.delete(&second).await.unwrap();
    runs_again(&fixture).await;
    assert_eq!(open_again(&fixture).await, [0, 1, 2]);
}

#[tokio::test]
async fn an_outcome_of_another_descriptor_does_not_count() {
    let mut fixture = Fixture::new(3).await;
    fixture.succeed([0, 2]).await;
    fixture.succeed_as(1, 2).await;
    fixture.planned(3).await;
    let reason = runs_again(&fixture).await;
    assert!(reason.contains("mb-0000000001"), "{reason}");
    assert_eq!(open_again(&fixture).await, [1]);
}

#[tokio::test]
async fn an_outcome_beyond_the_plan_does_not_count() {
    let mut fixture = Fixture::new(3).await;
    fixture.succeed(0..3).await;
    fixture.succeed([70_000]).await;
    fixture.planned(3).await;
    let reason = runs_again(&fixture).await;
    assert!(reason.contains("mb-0000070000"), "{reason}");
    assert!(open_again(&fixture).await.is_empty());
}

#[tokio::test]
async fn a_hole_runs_again() {
    let mut fixture = Fixture::new(3).await;
    let (key, size, mut entries) = fixture.store([0, 2]).await;
    // The ledger counts an outcome that the segment does not have.
    entries.push(Entry { index: 1, ..entries[0] });
    fixture.ledger.commit("job-1", &key, size, &entries).await.unwrap();
    fixture.planned(3).await;
    let reason = runs_again(&fixture).await;
    assert!(reason.contains("1 mini-batches have no outcome, mb-0000000001"), "{reason}");
    assert_eq!(open_again(&fixture).await, [1]);
}

#[tokio::test]
async fn a_store_that_damages_everything_fails_the_job_and_is_named() {
    let (mut fixture, [first, _]) = done_in_two().await;
    for round in 0.. {
        for object in fixture.storage.list_all(layout::SEGMENTS).await.unwrap() {
            if layout::is_segment(&object.key) {
                damage(&fixture, &object.key, 0).await;
            }
        }
        match watched(&fixture).await {
            Err(WatchError::RunAgain { .. }) => assert!(round < 20),
            Ok(result) => {
                let reason = result.reason.clone().unwrap();
                assert_eq!(result.state, JobState::Failed);
                assert!(reason.contains("segments/0001-") && reason.contains("checksum"), "{reason}");
                assert_eq!(fixture.record().await.result, Some(result));
                assert!(round > 1);
                return;
            }
            other => panic!("{other:?}"),
        }
        open_again(&fixture).await;
        fixture.succeed(0..3).await;
        fixture.planned(3).await;
        assert!(fixture.storage.get(&first).await.is_err());
    }
}
