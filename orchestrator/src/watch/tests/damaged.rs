//! What an orchestrator makes of segments that storage changed, and of outcomes that nobody planned.

use prs_common::layout;
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::storage::PutMode;

use super::*;
use crate::recover::recover;

/// A job of three mini-batches in two segments, all of them run.
async fn done_in_two() -> (Scene, [String; 2]) {
    let mut scene = Scene::new(3).await;
    scene.succeed([0, 2]).await;
    scene.succeed([1]).await;
    scene.planned(3).await;
    (scene, [0, 1].map(|number| layout::segment(1, 0, "0", number)))
}

/// Flips the bits of one byte of an object, counted from its end where `at` is negative.
async fn damage(scene: &Scene, key: &str, at: isize) {
    let mut bytes = scene.storage.get(key).await.unwrap().to_vec();
    let at = if at < 0 { bytes.len() - at.unsigned_abs() } else { at as usize };
    bytes[at] ^= 4;
    scene.storage.put(key, bytes.into(), PutMode::Overwrite).await.unwrap();
}

async fn runs_again(scene: &Scene) -> String {
    match watched(scene).await {
        Err(WatchError::RunAgain { reason }) => reason,
        ended => panic!("{ended:?}"),
    }
}

/// The mini-batches without an outcome, once the ledger is filled anew.
async fn open_again(scene: &Scene) -> Vec<MiniBatchIndex> {
    let (ledger, run) = (&scene.ledger, &scene.job.run);
    ledger.remove(run).await.unwrap();
    ledger.create(run, crate::orchestrate::try_limits(&scene.job)).await.unwrap();
    recover(&scene.job).await.unwrap();
    let ended = ledger.ended(run, &[0, 1, 2]).await.unwrap();
    (0..3).filter(|index| !ended[*index as usize]).collect()
}

#[tokio::test]
async fn damaged_rows_run_again_and_the_result_is_right() {
    let (mut scene, [first, second]) = done_in_two().await;
    damage(&scene, &first, 0).await;
    let reason = runs_again(&scene).await;
    assert!(reason.contains(&first) && !reason.contains(&second), "{reason}");
    assert!(scene.storage.get("output/parallel_run_step.txt").await.is_err());
    assert_eq!(open_again(&scene).await, [0, 2]);

    scene.succeed([0, 2]).await;
    scene.planned(3).await;
    let result = watched(&scene).await.unwrap();
    has_its_rows(&scene, &result).await;
}

#[tokio::test]
async fn every_damaged_segment_is_found_at_once() {
    let (scene, [first, second]) = done_in_two().await;
    damage(&scene, &first, 1).await;
    damage(&scene, &second, 1).await;
    let reason = runs_again(&scene).await;
    assert!(reason.contains(&first) && reason.contains(&second), "{reason}");
    assert_eq!(open_again(&scene).await, [0, 1, 2]);
}

#[tokio::test]
async fn a_damaged_index_or_a_segment_that_is_gone_runs_again() {
    let (scene, [first, second]) = done_in_two().await;
    damage(&scene, &first, -30).await;
    scene.storage.delete(&second).await.unwrap();
    runs_again(&scene).await;
    assert_eq!(open_again(&scene).await, [0, 1, 2]);
}

#[tokio::test]
async fn an_outcome_of_another_descriptor_does_not_count() {
    let mut scene = Scene::new(3).await;
    scene.succeed([0, 2]).await;
    scene.succeed_as(1, 2).await;
    scene.planned(3).await;
    let reason = runs_again(&scene).await;
    assert!(reason.contains("mb-0000000001"), "{reason}");
    assert_eq!(open_again(&scene).await, [1]);
}

#[tokio::test]
async fn an_outcome_beyond_the_plan_does_not_count() {
    let mut scene = Scene::new(3).await;
    scene.succeed(0..3).await;
    scene.succeed([70_000]).await;
    scene.planned(3).await;
    let reason = runs_again(&scene).await;
    assert!(reason.contains("mb-0000070000"), "{reason}");
    assert!(open_again(&scene).await.is_empty());
}

#[tokio::test]
async fn a_hole_runs_again() {
    let mut scene = Scene::new(3).await;
    let (key, size, mut entries) = scene.store([0, 2]).await;
    // The ledger counts an outcome that the segment does not have.
    entries.push(Entry { index: 1, ..entries[0] });
    scene.ledger.commit("job-1", &key, size, &entries).await.unwrap();
    scene.planned(3).await;
    let reason = runs_again(&scene).await;
    assert!(reason.contains("1 mini-batches have no outcome, mb-0000000001"), "{reason}");
    assert_eq!(open_again(&scene).await, [1]);
}

#[tokio::test]
async fn a_store_that_damages_everything_fails_the_job_and_is_named() {
    let (mut scene, [first, _]) = done_in_two().await;
    for round in 0.. {
        for object in scene.storage.list(layout::SEGMENTS).await.unwrap() {
            if layout::is_segment(&object.key) {
                damage(&scene, &object.key, 0).await;
            }
        }
        match watched(&scene).await {
            Err(WatchError::RunAgain { .. }) => assert!(round < 20),
            Ok(result) => {
                let reason = result.reason.clone().unwrap();
                assert_eq!(result.state, JobState::Failed);
                assert!(reason.contains("segments/0001-") && reason.contains("checksum"), "{reason}");
                assert_eq!(scene.record().await.result, Some(result));
                assert!(round > 1);
                return;
            }
            other => panic!("{other:?}"),
        }
        open_again(&scene).await;
        scene.succeed(0..3).await;
        scene.planned(3).await;
        assert!(scene.storage.get(&first).await.is_err());
    }
}
