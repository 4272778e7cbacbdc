//! Of many who write the record of a job at once, one does.

use prs_common::storage::LocalStorage;

use super::*;

pub(crate) fn record() -> JobRecord {
    JobRecord::new("job-1".to_owned(), String::new(), JobSpec::new("job", "/", "x.py", vec![]))
}

pub(crate) fn end(record: &mut JobRecord) {
    record.result = Some(JobResult {
        job_id: record.job_id.clone(),
        name: String::new(),
        submitted_us: record.submitted_us,
        ended_us: None,
        kept_until_us: None,
        state: JobState::Completed,
        reason: None,
        reused: None,
        output: Output::default(),
        logs: String::new(),
        mini_batches: MiniBatchCounts::default(),
        items: ItemCounts::default(),
        seconds: 1.0,
        starts: Vec::new(),
        findings: Findings { complete: true, ..Findings::default() },
        steps: Vec::new(),
    });
}

#[tokio::test]
async fn a_record_replaces_the_one_that_was_read_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new(folder.path());
    let mut first = record();
    assert!(first.create(&storage).await.unwrap());
    assert!(!record().create(&storage).await.unwrap());
    let mut second = JobRecord::read(&storage).await.unwrap();
    assert_eq!(second, first);
    first.start_again();
    first.write(&storage).await.unwrap();
    second.state = JobState::Failed;
    assert_eq!(second.write(&storage).await.unwrap_err().kind, StorageErrorKind::Changed);
    assert_eq!(JobRecord::read(&storage).await.unwrap(), first);
    // Its own it may replace as often as it likes.
    first.write(&storage).await.unwrap();
    first.write(&storage).await.unwrap();
}

/// What another program did to the record since it was read, and whether the own is written then.
#[tokio::test]
async fn a_record_that_stands_is_not_written_over() {
    type Change = fn(&mut JobRecord);
    let table: [(&str, Change, bool); 4] = [
        ("nothing", |_| {}, true),
        ("another state", |record| record.state = JobState::Running, true),
        ("another start", JobRecord::start_again, false),
        ("a result", end, false),
    ];
    for (what, change, is_written) in table {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let mut own = record();
        own.write(&storage).await.unwrap();
        let mut other = own.clone();
        change(&mut other);
        other.write(&storage).await.unwrap();
        own.status.seconds = 7.0;
        let standing = own.write_unless_ended(&storage).await.unwrap();
        let stored = JobRecord::read(&storage).await.unwrap();
        assert_eq!(standing.is_none(), is_written, "{what}");
        assert_eq!(stored, standing.unwrap_or(own), "{what}");
    }
}

#[tokio::test]
async fn of_many_who_resume_a_job_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new(folder.path());
    record().write(&storage).await.unwrap();
    let read = JobRecord::read(&storage).await.unwrap();
    let resume = |mut record: JobRecord| {
        let storage = &storage;
        async move {
            record.start_again();
            record.write(storage).await.is_ok()
        }
    };
    let resumed = futures_util::future::join_all((0..8).map(|_| resume(read.clone()))).await;
    assert_eq!(resumed.iter().filter(|resumed| **resumed).count(), 1);
    assert_eq!(JobRecord::read(&storage).await.unwrap().incarnation, 2);
}
