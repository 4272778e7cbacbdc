//! Jobs on a fleet whose servers are in memory and whose storage is a folder.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use prs_common::job::JobSpec;
use prs_common::job::pipeline::{Pipeline, Step};
use prs_common::ledger::{Duty, EmbeddedLedger, JobState, LedgerErrorKind, NodeInfo};
use prs_common::queue::{Deliveries, Depth, EmbeddedQueue, Queue, QueueError, QueueErrorKind, QueueOptions};
use prs_common::storage::fixtures::{Hooked, Hooks};
use prs_common::storage::{LocalStorage, PutMode, StorageErrorKind, StorageExt};
use prs_orchestrator::job::membership;
use prs_orchestrator::job::record::PipelinePlan;
use prs_orchestrator::pipeline::{self, Driven, hand_in_pipeline};
use prs_orchestrator::plan::schedule::KnownChecksums;
use prs_orchestrator::{Fleet, JobRecord, run_name};
use prs_worker::opener;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::caller::Unattended;
use crate::failure::FailureKind;
use crate::homes::fleet::cancel;
use crate::homes::fleet::entry::{context, enter_in_ledger};
use crate::submit::code_choice::NextStart;
use crate::submit::resume_hint::ResumeHint;

/// Takes its time to list, and to sweep.
#[derive(Debug)]
struct Slow(Duration);

#[async_trait]
impl Hooks for Slow {
    async fn before(&self, method: &'static str, _: &str) -> Result<(), StorageErrorKind> {
        if matches!(method, "list" | "sweep") {
            tokio::time::sleep(self.0).await;
        }
        Ok(())
    }
}

/// A broker that fails over the next declares.
#[derive(Debug, Default)]
struct Failing {
    inner: EmbeddedQueue,
    failures: AtomicU32,
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Queue for Failing {
    async fn declare(&self, name: &str, options: QueueOptions) -> Result<(), QueueError> {
        let one_less = |left: u32| left.checked_sub(1);
        if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            let (name, message) = (name.to_owned(), "INTERNAL_ERROR".to_owned());
            return Err(QueueError { kind: QueueErrorKind::Unavailable, name, message });
        }
        self.inner.declare(name, options).await
    }
    async fn publish(&self, name: &str, bodies: Vec<Bytes>) -> Result<(), QueueError> {
        self.inner.publish(name, bodies).await
    }
    async fn consume(&self, name: &str, prefetch: usize) -> Result<Box<dyn Deliveries>, QueueError> {
        self.inner.consume(name, prefetch).await
    }
    async fn depth(&self, name: &str) -> Result<Depth, QueueError> {
        self.inner.depth(name).await
    }
    async fn delete(&self, name: &str) -> Result<(), QueueError> {
        self.inner.delete(name).await
    }
}

fn fleet(folder: &Path, pause: Duration) -> Fleet {
    Fleet {
        queue: Arc::new(EmbeddedQueue::default()),
        ledger: Arc::new(EmbeddedLedger::default()),
        storage: Arc::new(Hooked::new(LocalStorage::new(folder), Slow(pause))),
        open: opener(),
    }
}

/// Stores a job without inputs.
async fn stored(fleet: &Fleet, job_id: &str) -> JobRecord {
    let spec = JobSpec::new("job", "/code", "main.py", vec![]);
    let mut record = JobRecord::new(job_id.to_owned(), "code/x.tar.gz".to_owned(), spec);
    assert!(record.create(&*fleet.job_storage(job_id)).await.unwrap());
    record
}

/// The record of `job-1`.
async fn read(fleet: &Fleet) -> JobRecord {
    JobRecord::read(&*fleet.job_storage("job-1")).await.unwrap()
}

#[tokio::test]
async fn a_job_that_nobody_serves_is_canceled_however_slow_the_storage_is() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = fleet(folder.path(), Duration::from_millis(300));
    let record = stored(&fleet, "job-1").await;
    let result = cancel(&fleet, &record, "ana", &Unattended).await.unwrap();
    assert_eq!((result.state, result.reason.as_deref()), (JobState::Canceled, Some("canceled by ana")));
    let gone = fleet.ledger.job(&run_name("job-1", 1)).state().await.unwrap_err();
    assert_eq!(gone.kind, LedgerErrorKind::NotFound, "nothing of it is left in the ledger");
    let gone = fleet.queue.depth("prs.job.job-1").await.unwrap_err();
    assert_eq!(gone.kind, QueueErrorKind::NotFound);
}

#[tokio::test]
async fn a_job_that_is_brought_to_its_end_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = fleet(folder.path(), Duration::ZERO);
    let record = stored(&fleet, "job-1").await;
    let run = run_name("job-1", 1);
    let (job, _folder) = context(&fleet, &record).unwrap();
    enter_in_ledger(&job, &Unattended).await.unwrap();
    let lease = fleet.ledger.job(&run).lease(Duty::Watch, "worker", Duration::from_mins(1)).await.unwrap();
    fleet.ledger.job(&run).set_state(JobState::Finalizing, lease.unwrap()).await.unwrap();
    let hint = ResumeHint::default();
    let refused = resume(&fleet, record.clone(), (NextStart::same(&record), None), &hint, &Unattended)
        .await
        .err()
        .unwrap();
    assert!(refused.is_usage() && refused.to_string().contains("job-1 is about to end"), "{refused}");
    assert_eq!(read(&fleet).await, record);

    fleet.ledger.job(&run).release(Duty::Watch, "worker").await.unwrap();
    // Another one writes it between this one's look and its write.
    read(&fleet).await.write(&*fleet.job_storage("job-1")).await.unwrap();
    let refused = resume(&fleet, record.clone(), (NextStart::same(&record), None), &hint, &Unattended)
        .await
        .err()
        .unwrap();
    assert!(refused.is_usage() && refused.to_string().contains("at this moment"), "{refused}");
    let record = read(&fleet).await;
    assert_eq!(record.incarnation, 1);
    // The worker that brought it to its end is gone.
    let same = NextStart::same(&record);
    let handed = resume(&fleet, record, (same, None), &hint, &Unattended).await.unwrap();
    assert_eq!(handed.record.incarnation, 2);
    let offers = fleet.ledger.offers("default", None, Duration::ZERO).await.unwrap().offered;
    let runs: Vec<_> = offers.iter().map(|offered| &*offered.offer.run).collect();
    assert_eq!(runs, [run_name("job-1", 2)], "the new start alone is offered");
    let active = fleet.storage.list_all("active/").await.unwrap();
    assert_eq!(active.iter().map(|object| &*object.key).collect::<Vec<_>>(), ["active/default/job-1/2"]);
    let listed = prs_orchestrator::job::fleet::job_ids(&*fleet.storage).await.unwrap();
    assert_eq!(listed, ["job-1"]);
}

#[tokio::test]
async fn a_ledger_that_knows_no_jobs_is_filled_from_storage() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = fleet(folder.path(), Duration::ZERO);
    let record = stored(&fleet, "job-1").await;
    let (job, _folder) = context(&fleet, &record).unwrap();
    membership::activate(&job).await.unwrap();
    // A job whose record is gone, and what is no entry at all.
    for key in ["active/default/gone/1", "active/default/stray", "active/other/job-1/1"] {
        fleet.storage.put(key, "".into(), PutMode::Overwrite).await.unwrap();
    }
    let worker = NodeInfo { worker: "worker".to_owned(), ..NodeInfo::default() };
    let offers = membership::offers(&fleet, "default", Some(&worker)).await.unwrap();
    let runs: Vec<_> = offers.offered.iter().map(|offered| &*offered.offer.run).collect();
    assert_eq!((runs, offers.are_filled), (vec!["job-1"], true));
    let active = fleet.storage.list_all("active/default/").await.unwrap();
    let keys: Vec<_> = active.iter().map(|object| &*object.key).collect();
    assert_eq!(keys, ["active/default/job-1/1", "active/default/stray"]);
}

#[tokio::test]
async fn a_pipeline_is_offered_to_the_workers_of_all_its_steps_and_a_former_start_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = fleet(folder.path(), Duration::ZERO);
    let step = |(name, target): (&str, &str)| {
        let mut spec = JobSpec::new("step", "/code", "x.py", vec![]);
        target.clone_into(&mut spec.compute_target);
        Step { name: name.to_owned(), spec, needs: Vec::new(), outputs: BTreeMap::new() }
    };
    let steps = [("a", "default"), ("b", "gpu"), ("c", "default")].map(step).to_vec();
    let pipeline = Pipeline {
        steps,
        continue_on_step_failure: true,
        outputs: Vec::new(),
        main: None,
        places: Vec::new(),
    };
    let plan = PipelinePlan::new(pipeline, BTreeMap::new());
    let mut spec = JobSpec::new("flow", "/", "", vec![]);
    spec.node_count = 0;
    let mut record = JobRecord::of_pipeline("flow-1".to_owned(), spec, plan);
    record.create(&*fleet.job_storage("flow-1")).await.unwrap();
    let hand_in =
        async |record: &JobRecord| hand_in_pipeline(&pipeline::context(&fleet, record)).await.unwrap();
    let active = async || {
        let active = fleet.storage.list_all("active/").await.unwrap();
        active.into_iter().map(|object| object.key).collect::<Vec<_>>()
    };
    hand_in(&record).await;
    assert_eq!(active().await, ["active/default/flow-1/1", "active/gpu/flow-1/1"]);
    // It was started again, and the program that did so died before it removed what was left of the former start.
    record.incarnation = 2;
    record.write(&*fleet.job_storage("flow-1")).await.unwrap();
    hand_in(&record).await;
    assert_eq!(active().await.len(), 4);
    let end = CancellationToken::new();
    let driven = pipeline::drive(&fleet, "flow-1", Some(1), "worker", &end).await;
    assert!(matches!(driven, Driven::Superseded), "{driven:?}");
    assert_eq!(active().await, ["active/default/flow-1/2", "active/gpu/flow-1/2"]);
    let gone = fleet.ledger.job(&run_name("flow-1", 1)).state().await.unwrap_err();
    assert_eq!(gone.kind, LedgerErrorKind::NotFound);
    assert!(fleet.ledger.job(&run_name("flow-1", 2)).state().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_fails_for_a_moment_ends_no_submission() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Arc::new(Failing::default());
    let fleet = Fleet { queue: Arc::clone(&broker) as _, ..fleet(folder.path(), Duration::ZERO) };
    let handed_in = async |job_id: &str, failures: u32| {
        broker.failures.store(failures, Ordering::SeqCst);
        let record = stored(&fleet, job_id).await;
        let local = context(&fleet, &record).unwrap();
        enter_in_ledger(&local.0, &Unattended).await.unwrap();
        start::hand_in(record, local, KnownChecksums::default(), &Unattended).await
    };
    assert!(handed_in("job-1", 3).await.is_ok());
    let offers = fleet.ledger.offers("default", None, Duration::ZERO).await.unwrap().offered;
    assert_eq!(offers.len(), 1, "workers know of it");
    let failure = handed_in("job-2", u32::MAX).await.err().unwrap();
    assert_eq!(
        (failure.kind, &*failure.to_string()),
        (FailureKind::CannotConnect, "cannot offer the job to workers: queue prs.job.job-2: INTERNAL_ERROR")
    );
}
