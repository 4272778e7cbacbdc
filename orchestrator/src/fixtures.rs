//! A job of a fleet in memory, for tests: its ledger and its storage fail where they are told to.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use prs_common::file_version::{FileVersion, PackedVersions, SeenFile};
use prs_common::job::{Input, InputKind, InputMode, InputSource, JobSpec, MiniBatchSize};
use prs_common::layout;
use prs_common::ledger::{
    Begin, Checkpoint, CommittedSegment, Conclusion, Duty, EmbeddedLedger, FailedTry, Heard, JobLedger,
    JobProgress, JobState, Ledger, LedgerError, LedgerErrorKind, MiniBatchOutcome, NodeInfo, NodeReport,
    NodeView, NotedTries, ObstacleKind, OfferedCopy, OpenCopy, Seats, TryLimits, Verdict,
};
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, checksum, fingerprint};
use prs_common::queue::EmbeddedQueue;
use prs_common::segment::{ProcessRef, SegmentBuilder, TryRecord, TryStatus};
use prs_common::storage::fixtures::{Hooked, Hooks};
use prs_common::storage::{LocalStorage, PutMode, Reach, Storage, StorageError, StorageErrorKind};
use tempfile::TempDir;

use crate::inputs::InputStores;
use crate::job::log_shipper::LogShipper;
use crate::segments::recover::entry;
use crate::{JobContext, JobRecord, OrchestratorMetrics, Policy};

/// A job, and the servers it stands on.
pub(crate) struct Fixture {
    folder: TempDir,
    pub(crate) job: JobContext,
    pub(crate) ledger: Arc<FaultyLedger>,
    pub(crate) storage: Arc<FaultyStorage>,
    /// The rows that a mini-batch returns.
    pub(crate) rows: fn(MiniBatchIndex) -> Bytes,
    segments: u64,
}

/// These jobs have no data in buckets.
fn no_bucket(
    url: String,
    _: Option<Arc<Reach>>,
) -> BoxFuture<'static, Result<Arc<dyn Storage>, StorageError>> {
    let (kind, message) = (StorageErrorKind::NotFound, "there are no buckets here".to_owned());
    Box::pin(std::future::ready(Err(StorageError { kind, place: url, key: String::new(), message })))
}

impl Fixture {
    /// A job over so many files, one in a mini-batch, as it was submitted.
    pub(crate) async fn new(files: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let inputs = folder.path().join("in");
        std::fs::create_dir(&inputs).unwrap();
        for number in 0..files {
            std::fs::write(inputs.join(format!("{number:03}")), "x").unwrap();
        }
        let input = Input {
            mode: InputMode::Direct,
            ..Input::new("files", InputKind::File, InputSource::Paths(vec![inputs.display().to_string()]))
        };
        let mut spec = JobSpec::new("job", "/", "x.py", vec![input]);
        spec.mini_batch_size = MiniBatchSize::Files(1);
        let storage = Arc::new(faulty_storage(&folder.path().join("storage")));
        let membership = EmbeddedLedger::default();
        let ledger = Arc::new(FaultyLedger::new(membership.job("job-1")));
        let mut record = JobRecord::new("job-1".to_owned(), String::new(), spec);
        record.write(&*storage).await.unwrap();
        let job = Self::context(&record, &folder.path().join("here"), &storage, &ledger, membership);
        ledger.create(job.try_limits()).await.unwrap();
        Self { folder, job, ledger, storage, rows: |index| format!("{index}\n").into(), segments: 0 }
    }

    fn context(
        record: &JobRecord,
        here: &Path,
        storage: &Arc<FaultyStorage>,
        ledger: &Arc<FaultyLedger>,
        membership: EmbeddedLedger,
    ) -> JobContext {
        let storage: Arc<dyn Storage> = Arc::clone(storage) as _;
        JobContext {
            id: record.job_id.clone(),
            run: record.job_id.clone(),
            code: String::new(),
            spec: Arc::new(record.spec.clone()),
            incarnation: record.incarnation,
            corrected: record.corrected,
            known_order: Arc::default(),
            queue: Arc::new(EmbeddedQueue::default()),
            ledger: Arc::clone(ledger) as _,
            membership: Arc::new(membership),
            inputs: InputStores::new(Arc::clone(&storage), Arc::clone(&storage), Arc::new(no_bucket)),
            output: storage.below("output"),
            output_prefix: Some(layout::OUTPUT),
            logs: here.join("logs"),
            logs_uri: String::new(),
            log_shipper: Some(Arc::new(LogShipper::new(Arc::clone(&storage), here.join("logs")))),
            work: here.join("work"),
            policy: Policy {
                watch: Duration::from_millis(5),
                lease: Duration::from_secs(2),
                leave_before_end: Duration::ZERO,
                leave: Duration::from_millis(100),
                not_served: Duration::from_millis(60),
                upkeep: Some(Duration::from_millis(5)),
                ..Policy::fleet()
            },
            active: None,
            metrics: OrchestratorMetrics::default(),
            nodes_end: Arc::default(),
            storage,
        }
    }

    /// The folder of the inputs.
    pub(crate) fn inputs(&self) -> PathBuf {
        self.folder.path().join("in")
    }

    /// The settings, to be changed.
    pub(crate) fn spec(&mut self) -> &mut JobSpec {
        Arc::make_mut(&mut self.job.spec)
    }

    /// The descriptor of a mini-batch, as it is planned.
    pub(crate) fn body(&self, index: MiniBatchIndex) -> Vec<u8> {
        let (base, name) = (self.inputs().display().to_string(), format!("{index:03}"));
        let seen = SeenFile::at(&self.inputs().join(&name)).map(|seen| seen.version);
        let versions: PackedVersions = [seen.unwrap_or(FileVersion::UNSEEN)].into_iter().collect();
        let versions = versions.as_bytes();
        let work = prs_common::mini_batch::Work::Files {
            base: &base,
            paths: vec![&name],
            versions,
            names: Vec::new(),
        };
        MiniBatch::new(index, 0, work).encode()
    }

    /// Stores and commits a segment with one row of each of `indexes`.
    pub(crate) async fn succeed(&mut self, indexes: impl IntoIterator<Item = MiniBatchIndex>) {
        let (key, size, entries) = self.store(indexes).await;
        self.ledger.commit(&key, size, &entries).await.unwrap();
    }

    /// The same of `index`, as it would run with the descriptor of `other`.
    pub(crate) async fn succeed_as(&mut self, index: MiniBatchIndex, other: MiniBatchIndex) {
        let (key, size, entries) = self.store_as([(index, self.body(other))]).await;
        self.ledger.commit(&key, size, &entries).await.unwrap();
    }

    /// Stores such a segment; its writer dies before it commits it.
    pub(crate) async fn store(
        &mut self,
        indexes: impl IntoIterator<Item = MiniBatchIndex>,
    ) -> (String, u64, Vec<MiniBatchOutcome>) {
        let bodies: Vec<_> = indexes.into_iter().map(|index| (index, self.body(index))).collect();
        self.store_as(bodies).await
    }

    async fn store_as(
        &mut self,
        bodies: impl IntoIterator<Item = (MiniBatchIndex, Vec<u8>)>,
    ) -> (String, u64, Vec<MiniBatchOutcome>) {
        let mut segment = SegmentBuilder::default();
        for (index, body) in bodies {
            let record = TryRecord {
                number: 1,
                last: true,
                items: 1,
                succeeded: 1,
                returned: 1,
                ..TryRecord::new(index, &body, TryStatus::RunDone)
            };
            segment.add(record, &ProcessRef { name: "process000".into(), pid: 1 }, (self.rows)(index));
        }
        let key = layout::segment(self.job.incarnation, 0, "0", self.segments);
        let (parts, index) = segment.seal(&key, self.job.incarnation, 0, "127.0.0.1");
        self.segments += 1;
        let size = parts.iter().map(Bytes::len).sum::<usize>() as u64;
        self.storage.put(&key, parts.into(), PutMode::Overwrite).await.unwrap();
        (key, size, index.tries.iter().map(entry).collect())
    }

    /// Notes that the whole plan, of so many mini-batches, is published.
    pub(crate) async fn planned(&self, scheduled: u64) {
        let fingerprints = (0..scheduled).map(|index| fingerprint(index, checksum(&self.body(index))));
        let descriptors = fingerprints.fold(0, u64::wrapping_add);
        let checkpoint = Checkpoint { scheduled, items: scheduled, descriptors, complete: true, end: 0 };
        let ledger = &self.ledger;
        let fence = ledger.lease(Duty::Schedule, "planner", Duration::ZERO).await.unwrap().unwrap();
        ledger.checkpoint(checkpoint, fence).await.unwrap();
    }

    /// Lets a worker join and say something of itself.
    pub(crate) async fn join(&self, worker: &str, report: &NodeReport) -> u32 {
        let info = NodeInfo { worker: worker.to_owned(), slots: 1, ..NodeInfo::default() };
        let node = self.ledger.join(&info, None).await.unwrap();
        self.ledger.heartbeat(node, worker, report).await.unwrap();
        node
    }

    /// The record of the job.
    pub(crate) async fn record(&self) -> JobRecord {
        JobRecord::read(&*self.storage).await.unwrap()
    }

    /// What waits in the job's queue.
    pub(crate) async fn waiting(&self) -> u64 {
        self.job.queue.depth(&self.job.queue_name()).await.map_or(0, |depth| depth.ready)
    }
}

/// Which calls fail, how often yet, and how: with an error, or a panic.
type Faults<K> = Mutex<Vec<(String, usize, Option<K>)>>;

/// The fault of `call`, where it has one left.
fn fault<K: Copy>(faults: &Faults<K>, call: &str) -> Option<K> {
    let kind = {
        let mut faults = faults.lock().unwrap();
        let (_, left, kind) =
            faults.iter_mut().find(|(of, left, _)| call.starts_with(of.as_str()) && *left > 0)?;
        *left -= 1;
        *kind
    };
    Some(kind.unwrap_or_else(|| panic!("{call} was told to panic")))
}

/// A ledger whose verbs fail.
#[derive(Debug)]
pub(crate) struct FaultyLedger {
    inner: Arc<dyn JobLedger>,
    faults: Faults<LedgerErrorKind>,
    calls: Mutex<Vec<String>>,
}

impl FaultyLedger {
    fn new(inner: Arc<dyn JobLedger>) -> Self {
        Self { inner, faults: Mutex::default(), calls: Mutex::default() }
    }

    /// Lets the next so many calls that begin like `call` (a verb, and its arguments where [`Self::pass`] is given
    /// some) fail.
    pub(crate) fn fail(&self, call: &str, times: usize, kind: LedgerErrorKind) {
        self.faults.lock().unwrap().push((call.to_owned(), times, Some(kind)));
    }

    /// Lets the next so many calls that begin like `call` panic.
    pub(crate) fn panic(&self, call: &str, times: usize) {
        self.faults.lock().unwrap().push((call.to_owned(), times, None));
    }

    /// How often a call that begins like `call` was made.
    pub(crate) fn calls(&self, call: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|made| made.starts_with(call)).count()
    }

    fn pass(&self, call: impl Into<String>) -> Result<(), LedgerError> {
        let call = call.into();
        let fault = fault(&self.faults, &call);
        self.calls.lock().unwrap().push(call);
        let told = |kind| LedgerError { kind, job: String::new(), message: "told to fail".to_owned() };
        fault.map_or(Ok(()), |kind| Err(told(kind)))
    }
}

#[async_trait]
impl JobLedger for FaultyLedger {
    async fn create(&self, limits: TryLimits) -> Result<(), LedgerError> {
        self.pass("create")?;
        self.inner.create(limits).await
    }
    async fn state(&self) -> Result<JobState, LedgerError> {
        self.pass("state")?;
        self.inner.state().await
    }
    async fn set_state(&self, state: JobState, fence: u64) -> Result<bool, LedgerError> {
        self.pass(format!("set_state {}", state.as_str()))?;
        self.inner.set_state(state, fence).await
    }
    async fn reset(&self, owner: &str) -> Result<bool, LedgerError> {
        self.pass("reset")?;
        self.inner.reset(owner).await
    }
    async fn remove(&self) -> Result<(), LedgerError> {
        self.pass("remove")?;
        self.inner.remove().await
    }
    async fn checkpoint(&self, checkpoint: Checkpoint, fence: u64) -> Result<(), LedgerError> {
        self.pass("checkpoint")?;
        self.inner.checkpoint(checkpoint, fence).await
    }
    async fn progress(&self) -> Result<JobProgress, LedgerError> {
        self.pass("progress")?;
        self.inner.progress().await
    }
    async fn ended(&self, indexes: &[MiniBatchIndex]) -> Result<Vec<bool>, LedgerError> {
        self.pass("ended")?;
        self.inner.ended(indexes).await
    }
    async fn commit(
        &self,
        key: &str,
        size: u64,
        entries: &[MiniBatchOutcome],
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        self.pass("commit")?;
        self.inner.commit(key, size, entries).await
    }
    async fn segments(&self, after: u64, limit: usize) -> Result<Vec<CommittedSegment>, LedgerError> {
        self.pass("segments")?;
        self.inner.segments(after, limit).await
    }
    async fn record_failure(&self, failed: &FailedTry) -> Result<Verdict, LedgerError> {
        self.pass("record_failure")?;
        self.inner.record_failure(failed).await
    }
    async fn begin(&self, index: MiniBatchIndex, start: &str) -> Result<Begin, LedgerError> {
        self.pass("begin")?;
        self.inner.begin(index, start).await
    }
    async fn abandon(&self, index: MiniBatchIndex, start: &str) -> Result<(), LedgerError> {
        self.pass("abandon")?;
        self.inner.abandon(index, start).await
    }
    async fn noted_tries(&self, index: MiniBatchIndex) -> Result<NotedTries, LedgerError> {
        self.pass("noted_tries")?;
        self.inner.noted_tries(index).await
    }
    async fn pass_on(&self, index: MiniBatchIndex, start: &str, service: &str) -> Result<(), LedgerError> {
        self.pass("pass_on")?;
        self.inner.pass_on(index, start, service).await
    }
    async fn want_copies(
        &self,
        indexes: &[MiniBatchIndex],
        fence: u64,
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        self.pass("want_copies")?;
        self.inner.want_copies(indexes, fence).await
    }
    async fn publish_statistics(&self, parts: &[(&str, Bytes)], fence: u64) -> Result<(), LedgerError> {
        self.pass("publish_statistics")?;
        self.inner.publish_statistics(parts, fence).await
    }
    async fn statistics(&self, names: &[&str]) -> Result<Vec<Option<Bytes>>, LedgerError> {
        self.pass("statistics")?;
        self.inner.statistics(names).await
    }
    async fn open_copies(&self) -> Result<Vec<OpenCopy>, LedgerError> {
        self.pass("open_copies")?;
        self.inner.open_copies().await
    }
    async fn offer_copy(
        &self,
        index: MiniBatchIndex,
        worker: &str,
        copy: &OfferedCopy,
    ) -> Result<(), LedgerError> {
        self.pass("offer_copy")?;
        self.inner.offer_copy(index, worker, copy).await
    }
    async fn take_copy(
        &self,
        index: MiniBatchIndex,
        worker: &str,
    ) -> Result<Option<OfferedCopy>, LedgerError> {
        self.pass("take_copy")?;
        self.inner.take_copy(index, worker).await
    }
    async fn join(&self, info: &NodeInfo, wish: Option<u32>) -> Result<u32, LedgerError> {
        self.pass("join")?;
        self.inner.join(info, wish).await
    }
    async fn heartbeat(&self, node_id: u32, worker: &str, report: &NodeReport) -> Result<Heard, LedgerError> {
        self.pass("heartbeat")?;
        self.inner.heartbeat(node_id, worker, report).await
    }
    async fn leave(&self, node_id: u32) -> Result<(), LedgerError> {
        self.pass("leave")?;
        self.inner.leave(node_id).await
    }
    async fn nodes(&self) -> Result<Vec<NodeView>, LedgerError> {
        self.pass("nodes")?;
        self.inner.nodes().await
    }
    async fn conclude(&self, conclusion: &Conclusion) -> Result<Conclusion, LedgerError> {
        self.pass("conclude")?;
        self.inner.conclude(conclusion).await
    }
    async fn note_obstacle(&self, obstacle: Option<(ObstacleKind, &str)>) -> Result<(), LedgerError> {
        self.pass("note_obstacle")?;
        self.inner.note_obstacle(obstacle).await
    }
    async fn lease(&self, duty: Duty, owner: &str, time: Duration) -> Result<Option<u64>, LedgerError> {
        self.pass("lease")?;
        self.inner.lease(duty, owner, time).await
    }
    async fn release(&self, duty: Duty, owner: &str) -> Result<(), LedgerError> {
        self.pass("release")?;
        self.inner.release(duty, owner).await
    }
    async fn take_seat(&self, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError> {
        self.pass("take_seat")?;
        self.inner.take_seat(info, seats).await
    }
}

/// A store whose calls fail when they are told to.
pub(crate) type FaultyStorage = Hooked<StorageFaults>;

/// How a [`FaultyStorage`] fails.
#[derive(Debug, Default)]
pub(crate) struct StorageFaults {
    faults: Faults<StorageErrorKind>,
    calls: Mutex<Vec<String>>,
    pause: Mutex<Duration>,
}

/// A store in `folder` that does not fail yet.
pub(crate) fn faulty_storage(folder: &Path) -> FaultyStorage {
    Hooked::new(LocalStorage::new(folder), StorageFaults::default())
}

impl StorageFaults {
    /// Lets every put of an object take so long from now on.
    pub(crate) fn slow_down(&self, pause: Duration) {
        *self.pause.lock().unwrap() = pause;
    }

    /// Lets the next so many calls that begin like `call` (a verb and a key) fail.
    pub(crate) fn fail(&self, call: &str, times: usize, kind: StorageErrorKind) {
        self.faults.lock().unwrap().push((call.to_owned(), times, Some(kind)));
    }

    /// The same with a panic.
    pub(crate) fn panic(&self, call: &str, times: usize) {
        self.faults.lock().unwrap().push((call.to_owned(), times, None));
    }

    /// How often a call that begins like `call` was made.
    pub(crate) fn calls(&self, call: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|made| made.starts_with(call)).count()
    }
}

#[async_trait]
impl Hooks for StorageFaults {
    async fn before(&self, method: &'static str, key: &str) -> Result<(), StorageErrorKind> {
        let call = format!("{method} {key}");
        let fault = fault(&self.faults, &call);
        self.calls.lock().unwrap().push(call);
        let pause = *self.pause.lock().unwrap();
        if method == "put" && !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        fault.map_or(Ok(()), Err)
    }
}
