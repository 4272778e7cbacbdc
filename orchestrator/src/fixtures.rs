//! A job of a fleet in memory, for tests: its ledger and its storage fail where they are told to.

use std::fmt;
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
    Begin, Bell, Checkpoint, CommittedSegment, Conclusion, Duty, EmbeddedLedger, Entry, FailedTry,
    IdleWorker, JobState, Ledger, LedgerError, LedgerErrorKind, Membership, NodeInfo, NodeReport, NodeView,
    Offer, Offers, Progress, Seats, Signal, TryLimits, Verdict,
};
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, checksum, fingerprint};
use prs_common::queue::EmbeddedQueue;
use prs_common::segment::{ProcessRef, SegmentBuilder, TryRecord, TryStatus};
use prs_common::storage::fixtures::{Hooked, Hooks};
use prs_common::storage::{LocalStorage, PutMode, Storage, StorageError, StorageErrorKind};
use tempfile::TempDir;

use crate::inputs::InputStores;
use crate::job::log_shipper::LogShipper;
use crate::segments::recover::entry;
use crate::{JobContext, JobRecord, Policy};

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
fn no_bucket(url: String) -> BoxFuture<'static, Result<Arc<dyn Storage>, StorageError>> {
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
            name: "files".to_owned(),
            kind: InputKind::File,
            source: InputSource::Paths(vec![inputs.display().to_string()]),
            mode: InputMode::Direct,
            tabular: None,
        };
        let mut spec = JobSpec::new("job", "/", "x.py", vec![input]);
        spec.mini_batch_size = MiniBatchSize::Files(1);
        let storage = Arc::new(faulty_storage(&folder.path().join("storage")));
        let ledger = Arc::new(FaultyLedger::default());
        let mut record = JobRecord::new("job-1".to_owned(), String::new(), spec);
        record.write(&*storage).await.unwrap();
        let job = Self::context(&record, &folder.path().join("here"), &storage, &ledger);
        ledger.create(&job.run, job.try_limits()).await.unwrap();
        Self { folder, job, ledger, storage, rows: |index| format!("{index}\n").into(), segments: 0 }
    }

    fn context(
        record: &JobRecord,
        here: &Path,
        storage: &Arc<FaultyStorage>,
        ledger: &Arc<FaultyLedger>,
    ) -> JobContext {
        let storage: Arc<dyn Storage> = Arc::clone(storage) as _;
        JobContext {
            id: record.job_id.clone(),
            run: record.job_id.clone(),
            code: String::new(),
            spec: Arc::new(record.spec.clone()),
            incarnation: record.incarnation,
            queue: Arc::new(EmbeddedQueue::default()),
            ledger: Arc::clone(ledger) as _,
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
        MiniBatch { index, input: 0, work }.encode()
    }

    /// Stores and commits a segment with one row of each of `indexes`.
    pub(crate) async fn succeed(&mut self, indexes: impl IntoIterator<Item = MiniBatchIndex>) {
        let (key, size, entries) = self.store(indexes).await;
        self.ledger.commit(&self.job.run, &key, size, &entries).await.unwrap();
    }

    /// The same of `index`, as it would run with the descriptor of `other`.
    pub(crate) async fn succeed_as(&mut self, index: MiniBatchIndex, other: MiniBatchIndex) {
        let (key, size, entries) = self.store_as([(index, self.body(other))]).await;
        self.ledger.commit(&self.job.run, &key, size, &entries).await.unwrap();
    }

    /// Stores such a segment; its writer dies before it commits it.
    pub(crate) async fn store(
        &mut self,
        indexes: impl IntoIterator<Item = MiniBatchIndex>,
    ) -> (String, u64, Vec<Entry>) {
        let bodies: Vec<_> = indexes.into_iter().map(|index| (index, self.body(index))).collect();
        self.store_as(bodies).await
    }

    async fn store_as(
        &mut self,
        bodies: impl IntoIterator<Item = (MiniBatchIndex, Vec<u8>)>,
    ) -> (String, u64, Vec<Entry>) {
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
        let checkpoint = Checkpoint { scheduled, items: scheduled, descriptors, complete: true };
        let (ledger, run) = (&self.ledger, &self.job.run);
        let fence = ledger.lease(run, Duty::Schedule, "planner", Duration::ZERO).await.unwrap().unwrap();
        ledger.checkpoint(run, checkpoint, fence).await.unwrap();
    }

    /// Lets a worker join and say something of itself.
    pub(crate) async fn join(&self, worker: &str, report: &NodeReport) -> u32 {
        let info = NodeInfo { worker: worker.to_owned(), slots: 1, ..NodeInfo::default() };
        let node = self.ledger.join(&self.job.run, &info, None).await.unwrap();
        self.ledger.heartbeat(&self.job.run, node, worker, report).await.unwrap();
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
#[derive(Debug, Default)]
pub(crate) struct FaultyLedger {
    inner: EmbeddedLedger,
    faults: Faults<LedgerErrorKind>,
    calls: Mutex<Vec<String>>,
}

impl FaultyLedger {
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

impl fmt::Display for FaultyLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Ledger for FaultyLedger {
    async fn create(&self, job: &str, limits: TryLimits) -> Result<(), LedgerError> {
        self.pass("create")?;
        self.inner.create(job, limits).await
    }
    async fn state(&self, job: &str) -> Result<JobState, LedgerError> {
        self.pass("state")?;
        self.inner.state(job).await
    }
    async fn set_state(&self, job: &str, state: JobState, fence: u64) -> Result<bool, LedgerError> {
        self.pass(format!("set_state {}", state.as_str()))?;
        self.inner.set_state(job, state, fence).await
    }
    async fn reset(&self, job: &str, owner: &str) -> Result<bool, LedgerError> {
        self.pass("reset")?;
        self.inner.reset(job, owner).await
    }
    async fn remove(&self, job: &str) -> Result<(), LedgerError> {
        self.pass("remove")?;
        self.inner.remove(job).await
    }
    async fn checkpoint(&self, job: &str, checkpoint: Checkpoint, fence: u64) -> Result<(), LedgerError> {
        self.pass("checkpoint")?;
        self.inner.checkpoint(job, checkpoint, fence).await
    }
    async fn progress(&self, job: &str) -> Result<Progress, LedgerError> {
        self.pass("progress")?;
        self.inner.progress(job).await
    }
    async fn ended(&self, job: &str, indexes: &[MiniBatchIndex]) -> Result<Vec<bool>, LedgerError> {
        self.pass("ended")?;
        self.inner.ended(job, indexes).await
    }
    async fn commit(
        &self,
        job: &str,
        key: &str,
        size: u64,
        entries: &[Entry],
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        self.pass("commit")?;
        self.inner.commit(job, key, size, entries).await
    }
    async fn segments(
        &self,
        job: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<CommittedSegment>, LedgerError> {
        self.pass("segments")?;
        self.inner.segments(job, after, limit).await
    }
    async fn record_failure(&self, job: &str, failed: &FailedTry) -> Result<Verdict, LedgerError> {
        self.pass("record_failure")?;
        self.inner.record_failure(job, failed).await
    }
    async fn begin(&self, job: &str, index: MiniBatchIndex, start: &str) -> Result<Begin, LedgerError> {
        self.pass("begin")?;
        self.inner.begin(job, index, start).await
    }
    async fn abandon(&self, job: &str, index: MiniBatchIndex, start: &str) -> Result<(), LedgerError> {
        self.pass("abandon")?;
        self.inner.abandon(job, index, start).await
    }
    async fn join(&self, job: &str, info: &NodeInfo, wish: Option<u32>) -> Result<u32, LedgerError> {
        self.pass("join")?;
        self.inner.join(job, info, wish).await
    }
    async fn heartbeat(
        &self,
        job: &str,
        node_id: u32,
        worker: &str,
        report: &NodeReport,
    ) -> Result<Signal, LedgerError> {
        self.pass("heartbeat")?;
        self.inner.heartbeat(job, node_id, worker, report).await
    }
    async fn leave(&self, job: &str, node_id: u32) -> Result<(), LedgerError> {
        self.pass("leave")?;
        self.inner.leave(job, node_id).await
    }
    async fn nodes(&self, job: &str) -> Result<Vec<NodeView>, LedgerError> {
        self.pass("nodes")?;
        self.inner.nodes(job).await
    }
    async fn conclude(&self, job: &str, conclusion: &Conclusion) -> Result<Conclusion, LedgerError> {
        self.pass("conclude")?;
        self.inner.conclude(job, conclusion).await
    }
    async fn lease(
        &self,
        job: &str,
        duty: Duty,
        owner: &str,
        time: Duration,
    ) -> Result<Option<u64>, LedgerError> {
        self.pass("lease")?;
        self.inner.lease(job, duty, owner, time).await
    }
    async fn release(&self, job: &str, duty: Duty, owner: &str) -> Result<(), LedgerError> {
        self.pass("release")?;
        self.inner.release(job, duty, owner).await
    }
}

#[async_trait]
impl Membership for FaultyLedger {
    async fn offer(&self, target: &str, offer: &Offer) -> Result<(), LedgerError> {
        self.pass("offer")?;
        self.inner.offer(target, offer).await
    }
    async fn withdraw(&self, target: &str, run: &str) -> Result<(), LedgerError> {
        self.pass("withdraw")?;
        self.inner.withdraw(target, run).await
    }
    async fn offers(
        &self,
        target: &str,
        worker: Option<&NodeInfo>,
        quiet: Duration,
    ) -> Result<Offers, LedgerError> {
        self.pass("look")?;
        self.inner.offers(target, worker, quiet).await
    }
    async fn idle(&self, target: &str, within: Duration) -> Result<u64, LedgerError> {
        self.pass("idle")?;
        self.inner.idle(target, within).await
    }
    async fn idle_workers(&self, target: &str, within: Duration) -> Result<Vec<IdleWorker>, LedgerError> {
        self.pass("idle_workers")?;
        self.inner.idle_workers(target, within).await
    }
    async fn targets(&self) -> Result<Vec<String>, LedgerError> {
        self.pass("targets")?;
        self.inner.targets().await
    }
    async fn begin_to_fill(&self, target: &str, time: Duration) -> Result<bool, LedgerError> {
        self.pass("begin_to_fill")?;
        self.inner.begin_to_fill(target, time).await
    }
    async fn filled(&self, target: &str, time: Duration) -> Result<(), LedgerError> {
        self.pass("filled")?;
        self.inner.filled(target, time).await
    }
    async fn belongs_to(&self, storage: &str) -> Result<String, LedgerError> {
        self.pass("belongs_to")?;
        self.inner.belongs_to(storage).await
    }
    async fn ring(&self, target: &str) -> Result<(), LedgerError> {
        self.pass("ring")?;
        self.inner.ring(target).await
    }
    fn bell(&self, targets: &[String]) -> Box<dyn Bell> {
        self.inner.bell(targets)
    }
    async fn take_seat(&self, job: &str, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError> {
        self.pass("take_seat")?;
        self.inner.take_seat(job, info, seats).await
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
