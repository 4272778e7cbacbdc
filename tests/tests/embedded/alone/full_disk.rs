//! A disk that gets full: the job ends with the reason in every place that tells, and goes on once there is room. And a container whose
//! memory runs out: one process goes, and its mini-batch is blamed.
//!
//! The disk is a small tmpfs and the container a cgroup, so these tests need the rights to mount and to make one.

use std::fs;

use bytes::Bytes;
use prs_common::storage::{IfExists, LocalStorage, Payload, PutMode, Storage, StorageErrorKind, StorageExt};
use prs_tests::harness::{Cgroup, Job, RunFolder, Tmpfs};

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

/// Takes memory until it is killed, more slowly than a container is looked at.
const TAKES_ALL: &str = "
import time

def take_all():
    held = []
    while True:
        held.append(b'x' * (10 << 20))
        time.sleep(0.03)

def init():
    pass

def run(mini_batch, context):
    if context.minibatch_index == 1:
        take_all()
    return mini_batch
";
/// Room for two processes that hold nothing, and a good part of a third.
const CONTAINER_MIB: u64 = 500;

#[test]
fn the_largest_process_of_a_container_goes_before_the_kernel_takes_one() {
    let container = Cgroup::with_memory(CONTAINER_MIB);
    let job = Job::new(TAKES_ALL).with_files(8).with("mini_batch_size", 1).with("run_max_try", 2);
    let job = job.with("error_threshold", -1);
    job.has_completed(&job.submit_in(&container));
    let tries = job.run().tries();
    let died: Vec<_> = tries.iter().filter(|row| row["Status"] == "PROCESS_DIED").collect();
    assert_eq!(died.len(), 2, "{tries:?}");
    assert_eq!(tries.len(), 9, "no other try was lost: {tries:?}");
    assert_eq!(job.run().rows().len(), 7);
    let errors = job.run().logs("user/error/0", ".txt");
    for part in ["OutOfMemory: the process was killed while it ran this mini-batch", "of the 500 MiB"] {
        assert!(errors.contains(part), "{errors}");
    }
    assert_eq!(container.killed_by_the_kernel(), 0);
}

#[test]
fn an_init_that_takes_all_memory_ends_the_job() {
    let container = Cgroup::with_memory(CONTAINER_MIB + 1);
    // One process: where several grow at once, one that was killed may be slower to give its memory back than the others take it.
    let job = Job::new(&TAKES_ALL.replace("    pass", "    take_all()")).with_files(2);
    let job = job.with("process_count_per_node", 1);
    job.has_failed(&job.submit_in(&container), &["init()", "OutOfMemory", "process_count_per_node"]);
    assert_eq!(container.killed_by_the_kernel(), 0);
}
