//! A disk that gets full: the job ends with the reason in every place that tells, and goes on once there is room.
//!
//! The disk is a small tmpfs, so these tests need the right to mount.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

use std::fs;

use bytes::Bytes;
use prs_common::storage::{IfExists, LocalStorage, Payload, PutMode, Storage, StorageErrorKind, StorageExt};
use prs_tests::harness::{Job, RunFolder, Tmpfs};

/// Each mini-batch brings 200 KB of rows; 40 of them do not fit into 4 MB.
const LARGE_ROWS: &str = r#"
def run(mini_batch, context):
    return [f"{context.minibatch_index} " + "x" * 100_000 for _ in mini_batch]
"#;

fn speaks_of_room(text: &str) -> bool {
    ["No space left", "no room", "disk is full"].iter().any(|words| text.contains(words))
}

#[test]
fn a_full_run_folder_fails_the_job_and_resume_goes_on_when_there_is_room() {
    let disk = Tmpfs::mount("4m");
    let job = Job::new(LARGE_ROWS).with_files(80).with_run_folder(disk.path().join("run"));
    let ended = job.submit();
    job.has_failed(&ended, &[]);
    let first_line = job.run().first_line();
    assert!(speaks_of_room(&first_line), "{first_line}");

    // Room again: the same folder on a larger disk.
    let roomy = job.path("roomy");
    copy_folder(job.run().path(), &roomy);
    let job = job.with_run_folder(&roomy);
    job.has_completed(&job.resume());
    let rows = job.run().rows();
    let expected =
        (0..40).flat_map(|index| [index, index]).map(|index| format!("{index} {}", "x".repeat(100_000)));
    assert!(rows.into_iter().eq(expected), "every row once, in order");
}

#[test]
fn a_full_output_fails_the_job_and_keeps_the_rows() {
    let disk = Tmpfs::mount("1m");
    let output = disk.path().join("output").display().to_string();
    let job = Job::new(LARGE_ROWS).with_files(40).with("output", output.as_str());
    let ended = job.submit();
    job.has_failed(&ended, &[]);
    let first_line = job.run().first_line();
    assert!(speaks_of_room(&first_line), "{first_line}");
    let left = RunFolder::new(disk.path());
    assert_eq!(left.files("output"), Vec::<String>::new(), "no part of a result is left");
    assert_eq!(job.run().tries().len(), 20, "the work is not lost");
}

#[test]
fn a_disk_that_is_full_from_the_start_is_told_at_once() {
    let disk = Tmpfs::mount("1m");
    disk.fill();
    let job = Job::new(LARGE_ROWS).with_files(2).with_run_folder(disk.path().join("run"));
    let ended = job.submit();
    assert!(matches!(ended.code, Some(2 | 42)), "{ended:?}");
    assert!(speaks_of_room(&ended.stderr), "{}", ended.stderr);
    job.has_left_nothing();
}

#[tokio::test]
async fn local_storage_tells_a_full_disk_and_leaves_no_temporary_file() {
    let disk = Tmpfs::mount("1m");
    let storage = LocalStorage::new(disk.path().join("store"));
    let large = vec![1; 2 << 20];
    storage.put("kept", "content".into(), PutMode::Overwrite).await.unwrap();
    for _ in 0..3 {
        let full = storage.put("large", large.clone().into(), PutMode::Overwrite).await.unwrap_err();
        assert_eq!((full.kind, full.is_retryable()), (StorageErrorKind::Full, false));
        let full = storage
            .put("large", vec![Bytes::from(large.clone())].into(), PutMode::Overwrite)
            .await
            .unwrap_err();
        assert_eq!(full.kind, StorageErrorKind::Full);
        let mut upload = storage.writer("large", IfExists::Overwrite).await.unwrap();
        assert_eq!(upload.write(large.clone().into()).await.unwrap_err().kind, StorageErrorKind::Full);
        assert!(upload.finish().await.is_err(), "what was not written whole is not shown");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, &large).unwrap();
        assert_eq!(
            storage.put("large", Payload::File(file.clone()), PutMode::Overwrite).await.unwrap_err().kind,
            StorageErrorKind::Full
        );
        assert!(file.exists(), "a file that could not be moved is not lost");
    }
    assert_eq!(RunFolder::new(disk.path()).files(""), ["store/kept"]);
    assert_eq!(storage.get("kept").await.unwrap(), "content");
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    let source = RunFolder::new(from);
    for name in source.files("") {
        let target = to.join(&name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from.join(&name), target).unwrap();
    }
}
