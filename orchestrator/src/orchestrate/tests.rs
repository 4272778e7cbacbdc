//! Who watches over a job, and when.

use prs_common::ledger::{Conclusion, NodeReport};
use prs_common::queue::QueueOptions;
use prs_common::storage::{PutMode, StorageErrorKind};

use super::*;
use crate::scene::Scene;

/// Whether `owner` gets the lease, for a moment.
async fn gets_the_lease(scene: &Scene, owner: &str) -> bool {
    let (ledger, run) = (&scene.job.ledger, &scene.job.run);
    let lease = ledger.lease(run, Duty::Watch, owner, Duration::from_mins(1)).await.unwrap();
    ledger.release(run, Duty::Watch, owner).await.unwrap();
    lease.is_some()
}

#[tokio::test]
async fn who_cannot_watch_lets_others_try() {
    let scene = Scene::new(1).await;
    std::fs::create_dir_all(scene.job.logs.parent().unwrap()).unwrap();
    std::fs::write(&scene.job.logs, "a file, where a folder should be").unwrap();
    scene.join("worker-2", &NodeReport::default()).await;
    let end = OrchestratorEnd::default();
    let (job, stop) = (scene.job.clone(), end.stop.clone());
    let trying = tokio::spawn(async move { orchestrate(&job, "worker-1", &end).await });
    let other_gets_it = async {
        while scene.ledger.calls("lease") == 0 || !gets_the_lease(&scene, "worker-2").await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(scene.job.policy.lease / 2, other_gets_it).await.unwrap();
    stop.cancel();
    assert!(matches!(trying.await.unwrap(), Place::Stopped));
    assert!(!is_watched(&scene.job).await.unwrap(), "it stopped, and the lease is free");
}

#[tokio::test]
async fn asking_whether_a_job_is_watched_takes_nothing() {
    let scene = Scene::new(1).await;
    for _ in 0..2 {
        assert!(!is_watched(&scene.job).await.unwrap());
    }
    scene.job.ledger.lease(&scene.job.run, Duty::Watch, "a", Duration::from_mins(1)).await.unwrap();
    assert!(is_watched(&scene.job).await.unwrap());
    scene.job.ledger.release(&scene.job.run, Duty::Watch, "a").await.unwrap();
    assert!(!is_watched(&scene.job).await.unwrap());
    assert!(gets_the_lease(&scene, "b").await);
}

#[tokio::test]
async fn a_job_whose_record_cannot_be_understood_is_neither_watched_nor_cleaned_up() {
    let scene = Scene::new(1).await;
    scene.job.queue.declare(&scene.job.queue_name(), QueueOptions::default()).await.unwrap();
    scene.storage.put(layout::JOB, "{".into(), PutMode::Overwrite).await.unwrap();
    assert!(matches!(try_to_watch(&scene.job, "a").await, Err(WatchError::Record(_))));
    assert!(matches!(clean_up(&scene.job).await, Err(WatchError::Record(_))));
    assert!(scene.job.queue.depth(&scene.job.queue_name()).await.is_ok());
    scene.job.ledger.state(&scene.job.run).await.unwrap();
    scene.job.ledger.remove(&scene.job.run).await.unwrap();
    assert!(matches!(try_to_watch(&scene.job, "a").await, Err(WatchError::Record(_))));
}

#[tokio::test]
async fn who_finds_the_books_closed_watches_no_longer() {
    let scene = Scene::new(1).await;
    let end = OrchestratorEnd::default();
    let (job, ledger) = (scene.job.clone(), scene.job.ledger.clone());
    let trying = tokio::spawn(async move { orchestrate(&job, "worker-1", &end).await });
    while !is_watched(&scene.job).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut resumed = scene.record().await;
    resumed.incarnation = 2;
    resumed.write(&*scene.storage).await.unwrap();
    ledger.remove(&scene.job.run).await.unwrap();
    assert!(matches!(trying.await.unwrap(), Place::Over));
    assert_eq!(scene.record().await, resumed);
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
    let mut scene = Scene::new(1).await;
    scene.job.policy.lease = Duration::from_millis(400);
    let end = OrchestratorEnd::default();
    end.retire.cancel();
    scene.job.ledger.lease(&scene.job.run, Duty::Watch, "worker-2", Duration::from_mins(1)).await.unwrap();
    assert!(matches!(orchestrate(&scene.job, "worker-1", &end).await, Place::Stopped));

    // The other is gone, the job is to fail, and the store takes that some moments later only.
    scene.job.ledger.release(&scene.job.run, Duty::Watch, "worker-2").await.unwrap();
    let failed = Conclusion { state: JobState::Failed, reason: "refused".to_owned() };
    scene.job.ledger.conclude(&scene.job.run, &failed).await.unwrap();
    scene.storage.fail("get job.json", 3, StorageErrorKind::PermissionDenied);
    let Place::Ended(result) = orchestrate(&scene.job, "worker-1", &end).await else {
        panic!("nobody says how the job ended")
    };
    assert_eq!((result.state, result.reason.as_deref()), (JobState::Failed, Some("refused")));
    assert_eq!(scene.record().await.result, Some(*result));
}
