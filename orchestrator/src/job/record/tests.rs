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
        waited_seconds: 0.0,
        starts: Vec::new(),
        findings: Findings { complete: true, ..Findings::default() },
        steps: Vec::new(),
    });
}

#[test]
fn a_start_without_a_result_leaves_that_of_a_former_one_however_often_it_is_written() {
    let mut record = record();
    end(&mut record);
    (record.brought, record.statistics) = (Some("5f".to_owned()), Some("logs".to_owned()));
    let completed = record.clone();
    let mut failed = record.result.clone().unwrap();
    (failed.state, failed.reason) = (JobState::Failed, Some("broken".to_owned()));
    for start in [2, 3] {
        record.start_again();
        assert_eq!((record.result.is_none(), &record.brought, &record.statistics), (true, &None, &None));
        for _ in 0..2 {
            record.end_with(failed.clone());
            let mut result = record.result.clone().unwrap();
            let last = result.findings.last_start.take().unwrap();
            assert_eq!((last.start, last.result_of, last.state), (start, 1, JobState::Failed));
            assert_eq!((Some(result), record.result_start()), (completed.result.clone(), 1));
            assert_eq!((&record.brought, &record.statistics), (&completed.brought, &completed.statistics));
        }
    }
    // One with a result is the last.
    record.start_again();
    let whole = completed.result.clone().unwrap();
    record.end_with(whole.clone());
    assert_eq!((record.result.as_ref(), record.result_start(), &record.former_end), (Some(&whole), 4, &None));
    // Where its output is damaged it is made anew.
    record.start_anew();
    record.end_with(failed.clone());
    assert_eq!((record.state, record.result), (JobState::Failed, Some(failed)));
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
