//! The committer: group commit of outcomes.
//!
//! Rows of many mini-batches go into one segment. When it is big or old enough, or the node idles, it is put to
//! storage, then one ledger call makes its outcomes final, and only then are the deliveries acknowledged. What
//! dies between two of these steps is delivered again and loses against what was committed. Several segments
//! may be on their way at a time, within a bound of memory. Files that mini-batches wrote are stored before, and
//! failures are counted before, several at a time: nobody else waits for them.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prs_common::backoff::Backoff;
use prs_common::checksum::crc32c_of;
use prs_common::end_reason::EndReason;
use prs_common::ledger::{
    Blame, FailedTry, Heard, LedgerError, LedgerErrorKind, MiniBatchOutcome, NodeReport, Verdict,
};
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex};
use prs_common::queue::ack_all;
use prs_common::segment::{OutputFile, ProcessRef, SegmentBuilder, TryRecord, TryStatus};
use prs_common::storage::{Payload, PutMode, StorageError, StorageErrorKind};
use prs_common::timestamp::now_us;
use prs_common::tree::OpenFolder;
use prs_common::{failpoint, layout};
use prs_orchestrator::JobContext;
use prs_orchestrator::segments::recover::entry;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::next_try::{Failed, NextTry};
use super::outcome::{Ended, Outcome, Ready, Tried, nodes_lost};
use super::splitting::{EndedTry, Split, Splitting};
use super::traces::{self, Choice};
use crate::commit::late_objects::remove_late_objects;
use crate::metrics::{Metrics, OfServer, TargetMetrics};

/// Rows that make a segment worth writing, bytes.
const BIG: usize = 8 << 20;
/// Age at which a segment is written whatever its size.
const OLD: Duration = Duration::from_millis(200);
/// Segments that are stored and committed at a time.
const IN_FLIGHT: usize = 4;
/// Tries whose files are stored or whose failure is counted at a time.
const PREPARED_AT_ONCE: usize = 16;
/// What is being stored when there is no more time has this long to end.
const LAST_CALL: Duration = Duration::from_secs(2);
/// A segment whose storage takes so long, and a second more for each [`LEAST_RATE`] bytes, is not being stored.
const SILENT: Duration = Duration::from_secs(10);
/// Bytes a second.
const LEAST_RATE: u64 = 256 << 10;
/// First pause after a store or ledger failed; they grow.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Uncommitted rows in memory: the dispatcher slows down when they are many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backlog(Arc<AtomicUsize>);

impl Backlog {
    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes rows that came from a process.
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that they are stored, or not needed.
    fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The committer of one node.
pub(crate) struct Committer {
    pub(crate) job: JobContext,
    pub(crate) node_id: u32,
    /// Tells this service of the node from all others.
    pub(crate) service: String,
    pub(crate) ip: String,
    /// At half of these unacknowledged mini-batches a segment is written whatever its size.
    pub(crate) prefetch: Arc<AtomicUsize>,
    pub(crate) backlog: Backlog,
    /// What the heartbeat says: the committer counts the outcomes there.
    pub(crate) report_tx: watch::Sender<NodeReport>,
    /// Why nothing can be committed any more: the committer writes, the dispatcher reads.
    pub(crate) fatal_tx: watch::Sender<Option<String>>,
    /// Mini-batches whose next try runs here: the committer writes, the dispatcher reads.
    pub(crate) retries_tx: mpsc::UnboundedSender<Ready>,
    /// How the job stands: the heartbeat writes, the committer reads.
    pub(crate) heard_rx: watch::Receiver<Heard>,
    /// There is no more time: what cannot be committed at once need not be.
    pub(crate) over: CancellationToken,
    pub(crate) metrics: Metrics,
    pub(crate) of_target: TargetMetrics,
    /// Which tries are told as spans.
    pub(crate) traced: Choice,
}

/// The segment being filled.
#[derive(Default)]
struct Open {
    builder: SegmentBuilder,
    entries: Vec<MiniBatchOutcome>,
    settled: Vec<Ready>,
    /// Mini-batches whose outcome is in it. One may come twice, when it was published twice or the broker was lost while
    /// it ran: with both outcomes in one segment nobody could say later which of them counts.
    ended: HashSet<MiniBatchIndex>,
    /// Mini-batches that can go on nowhere here.
    back: Vec<Ready>,
    since: Option<Instant>,
}

/// A try whose files are stored, or whose failure is counted.
struct Prepared {
    ready: Ready,
    tried: Tried,
    /// What the ledger says of a failure.
    verdict: Option<Verdict>,
}

impl Open {
    /// Adds the outcome of a mini-batch; false when it has one already, which counts.
    fn add(&mut self, mut record: TryRecord, process: &ProcessRef, rows: Bytes, ready: Ready) -> bool {
        let is_first = self.ended.insert(ready.index);
        if is_first {
            record.last = true;
            if !record.is_whole() {
                record.failed = Some(ready.planned.to_vec());
            }
            self.entries.push(entry(&record));
            self.builder.add(record, process, rows);
        }
        self.settled.push(ready);
        is_first
    }
}

impl Committer {
    /// Commits what comes, until the other end is closed and all is committed. `idle` is notified when nothing
    /// more is running on the node.
    pub(crate) async fn run(
        self,
        mut outcomes_rx: mpsc::UnboundedReceiver<Outcome>,
        mut idle: watch::Receiver<bool>,
    ) {
        let this = Arc::new(self);
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
        let mut committing = JoinSet::new();
        let mut open = Open::default();
        let mut numbers = 0..;
        // The end of the commit before; the first has none before it.
        let mut before = oneshot::channel().1;
        let mut came = Vec::new();
        let mut preparing = JoinSet::new();
        let calls = Arc::new(Semaphore::new(PREPARED_AT_ONCE));
        let (mut is_idle, mut is_leaving) = (false, false);
        let old_when_idle = this.job.policy.old_when_idle;
        loop {
            let old = open.since.map(|since| since + if is_idle { old_when_idle } else { OLD });
            let seal = tokio::select! {
                biased;
                Some(prepared) = preparing.join_next() => {
                    if let Some(prepared) = Self::heard(prepared) {
                        this.add(prepared, &mut open);
                    }
                    this.is_full(&open)
                }
                count = outcomes_rx.recv_many(&mut came, 1024) => {
                    if count == 0 {
                        break;
                    }
                    for Outcome { ready, ended } in came.drain(..) {
                        match ended {
                            Ended::Tried(tried) if tried.is_prepared() => {
                                this.add(Prepared { ready, tried: *tried, verdict: None }, &mut open);
                            }
                            Ended::Tried(tried) => {
                                let (this, calls) = (Arc::clone(&this), Arc::clone(&calls));
                                preparing.spawn(async move {
                                    let _turn = calls.acquire_owned().await;
                                    this.prepare(*tried, ready).await
                                });
                            }
                            Ended::NodesLost => {
                                let (record, process) = (nodes_lost(&ready), ProcessRef::default());
                                open.add(record, &process, Bytes::new(), ready);
                            }
                        }
                    }
                    this.is_full(&open)
                }
                () = tokio::time::sleep_until(old.unwrap_or_else(Instant::now)), if old.is_some() => true,
                changed = idle.changed(), if !is_leaving => {
                    // Once the node leaves, what is left comes through the channel.
                    is_leaving = changed.is_err();
                    is_idle = !is_leaving && *idle.borrow_and_update();
                    false
                }
            };
            this.give_back(&mut open).await;
            if !open.builder.is_empty() {
                open.since.get_or_insert_with(Instant::now);
            }
            if seal && !open.builder.is_empty() {
                // Waits while enough segments are on their way.
                let Ok(permit) = Arc::clone(&in_flight).acquire_owned().await else { break };
                let number = numbers.next().unwrap_or_default();
                let sealed = std::mem::take(&mut open);
                let this = Arc::clone(&this);
                let (end, ended) = oneshot::channel();
                let turn = std::mem::replace(&mut before, ended);
                committing.spawn(async move {
                    this.commit(sealed, number, turn).await;
                    drop((end, permit));
                });
            }
            while committing.try_join_next().is_some() {}
        }
        while let Some(prepared) = preparing.join_next().await {
            if let Some(prepared) = Self::heard(prepared) {
                this.add(prepared, &mut open);
            }
        }
        this.give_back(&mut open).await;
        if !open.builder.is_empty() {
            this.commit(open, numbers.next().unwrap_or_default(), before).await;
        }
        while committing.join_next().await.is_some() {}
        if this.over.is_cancelled() {
            remove_late_objects(&*this.job.storage, &this.writer()).await;
        }
    }

    /// What a try came to with the servers; nothing when the mini-batch goes back.
    fn heard(prepared: Result<Option<Prepared>, JoinError>) -> Option<Prepared> {
        prepared.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    fn is_full(&self, open: &Open) -> bool {
        open.builder.bytes() >= BIG || open.settled.len() >= self.many()
    }

    /// Stores the files of a try, or counts its failure. Nothing when that cannot be done any more: then the
    /// mini-batch goes back.
    async fn prepare(&self, mut tried: Tried, ready: Ready) -> Option<Prepared> {
        let id = self.try_id(&tried);
        if tried.record.status != TryStatus::RunDone {
            tried.record.id.clone_from(&id);
            if ready.splitting.is_some() {
                // It has no other try, whatever the count.
                return Some(Prepared { ready, tried, verdict: None });
            }
            let failed = FailedTry { index: ready.index, id, blame: Blame::Code };
            let counted =
                self.until_done("a failed try", may_pass, || self.job.ledger.record_failure(&failed));
            // A try that was not counted is one that never was.
            let verdict = counted.await.unwrap_or(Verdict::Retry { failed_tries: ready.failed_tries + 1 });
            return Some(Prepared { ready, tried, verdict: Some(verdict) });
        }
        let staged_in = PathBuf::from(tried.seq.to_string());
        for path in std::mem::take(&mut tried.files) {
            let staged = Staged { folder: Arc::clone(&tried.staging), path: staged_in.join(&path) };
            let Some(file) = self.store_file(layout::staged_file(&id, &path), path, staged).await else {
                self.backlog.remove(tried.rows.len());
                return None;
            };
            tried.record.files.push(file);
        }
        if !tried.record.files.is_empty() {
            let _ = tried.staging.remove_all(staged_in.as_os_str(), &staged_in);
        }
        Some(Prepared { ready, tried, verdict: None })
    }

    /// Brings a file that a mini-batch wrote to storage. Nothing when that cannot be done any more.
    async fn store_file(&self, key: String, path: String, staged: Staged) -> Option<OutputFile> {
        let what = "a file of a mini-batch";
        let summed = self.until_done(what, StorageError::is_retryable, || {
            let (staged, key) = (staged.clone(), key.clone());
            async move {
                let sum = tokio::task::spawn_blocking({
                    let staged = staged.clone();
                    move || staged.look()
                });
                let sum = sum.await.unwrap_or_else(|error| Err(io::Error::other(error)));
                sum.map_err(|error| unreadable(&staged.path, key, &error))
            }
        });
        // The folder of the file stays open until it is stored.
        let (folder, size, crc) = summed.await?;
        let file = Payload::File(folder.path_to(staged.path.file_name().unwrap_or_default()));
        self.until_done(what, StorageError::is_retryable, || {
            self.job.storage.put(&key, file.clone(), PutMode::Overwrite)
        })
        .await?;
        Some(OutputFile { path, key, size, crc })
    }

    /// Puts a try into the open segment; its mini-batch goes back if it is to be tried again.
    fn add(&self, prepared: Prepared, open: &mut Open) {
        let Prepared { mut ready, tried: Tried { mut record, process, rows, error, .. }, verdict } = prepared;
        if let Some(mut splitting) = ready.splitting.take() {
            // Others need not wait for rows that wait for other parts.
            self.backlog.remove(rows.len());
            if let Ok(mini_batch) = MiniBatch::decode(&ready.planned) {
                record.detail = mini_batch.detail_of(&splitting.present());
            }
            splitting.end_part(EndedTry { record, process, error }, rows, ready.last_process());
            return self.go_on(splitting, ready, open);
        }
        if let Some(Verdict::GiveUp { failed_tries }) = verdict
            && self.job.spec.split_failed
            && !ready.is_copy
            && Splitting::is_of_use(&record)
        {
            record.number = failed_tries;
            let splitting = Splitting::of(EndedTry { record, process, error }, ready.last_process());
            return self.go_on(Box::new(splitting), Ready { failed_tries, start: None, ..ready }, open);
        }
        if verdict != Some(Verdict::Done) {
            record.error = error.and_then(|error| open.builder.explain(&error));
        }
        match verdict {
            None => {
                record.number = ready.failed_tries + 1;
                let bytes = rows.len();
                if !open.add(record, &process, rows, ready) {
                    self.backlog.remove(bytes);
                }
            }
            Some(Verdict::Done) => {
                let _ = ready.delivery.ack();
            }
            Some(Verdict::Retry { failed_tries }) => {
                record.number = failed_tries;
                let of_data = matches!(record.status, TryStatus::LoadException | TryStatus::LoadTimeout);
                open.builder.add(record, &process, Bytes::new());
                self.try_again(Ready { failed_tries, start: None, ..ready }, of_data);
            }
            Some(Verdict::GiveUp { failed_tries }) => {
                record.number = failed_tries;
                if ready.is_copy && self.job.spec.split_failed {
                    // The other run is split once it has failed.
                    open.builder.add(record, &process, Bytes::new());
                } else {
                    open.add(record, &process, Bytes::new(), ready);
                }
            }
        }
    }

    /// Has the next part of a mini-batch run, or puts its outcome into the open segment.
    fn go_on(&self, mut splitting: Box<Splitting>, mut ready: Ready, open: &mut Open) {
        if let Some(failed_in) = splitting.next() {
            ready.failed_in = vec![failed_in];
            ready.splitting = Some(splitting);
            // The dispatcher is gone when the node has ended meanwhile.
            if let Err(SendError(ready)) = self.retries_tx.send(ready) {
                open.back.push(ready);
            }
            return;
        }
        let Split { tries, outcome: (mut outcome, rows) } = splitting.end();
        for EndedTry { mut record, process, error } in tries {
            record.error = error.and_then(|error| open.builder.explain(&error));
            open.builder.add(record, &process, Bytes::new());
        }
        outcome.record.error = outcome.error.and_then(|error| open.builder.explain(&error));
        let bytes = rows.len();
        if open.add(outcome.record, &outcome.process, rows, ready) {
            self.backlog.add(bytes);
        }
    }

    async fn give_back(&self, open: &mut Open) {
        for ready in open.back.drain(..) {
            ready.give_back(&self.job).await;
        }
    }

    /// Has a mini-batch run again, here or where the queue brings it. A copy has no message, and the other run goes on.
    fn try_again(&self, ready: Ready, of_data: bool) {
        let (tries, run_max_try) = (ready.failed_tries, self.job.spec.run_max_try);
        let failed = Failed { tries, run_max_try, live_nodes: self.heard_rx.borrow().live_nodes };
        let back = match failed.next(of_data) {
            // The dispatcher is gone when the node has ended meanwhile.
            NextTry::Here if !ready.is_copy => match self.retries_tx.send(ready) {
                Ok(()) => return,
                Err(SendError(ready)) => ready,
            },
            _ => ready,
        };
        if let Err(error) = back.delivery.requeue() {
            tracing::warn!(%error, "a mini-batch was not given back; the broker will deliver it again");
        }
    }

    /// Unique name of a try in the job.
    fn try_id(&self, tried: &Tried) -> String {
        format!("{}{}-{}", self.writer(), tried.process.name, tried.seq)
    }

    /// What the names of everything begin with that it stores.
    fn writer(&self) -> String {
        layout::writer(self.job.incarnation, self.node_id, &self.service)
    }

    fn many(&self) -> usize {
        (self.prefetch.load(Ordering::Relaxed) / 2).max(1)
    }

    /// Put, commit, acknowledge. Segments are put side by side and committed one after the other, when `turn` has
    /// ended, so that the reports show the tries of a mini-batch in their order.
    async fn commit(&self, open: Open, number: u64, turn: oneshot::Receiver<()>) {
        let Open { builder, entries, settled, .. } = open;
        let bytes = builder.bytes();
        let key = layout::segment(self.job.incarnation, self.node_id, &self.service, number);
        let (parts, index) = builder.seal(&key, self.job.incarnation, self.node_id, &self.ip);
        let with_files = index.tries.iter().any(|record| !record.files.is_empty());
        let tries = self.of_target.tries(&index);
        let told = self.traced.of(&self.job, &index);
        let stored_us = if told.is_empty() { 0 } else { now_us() };
        drop(index);
        let began = std::time::Instant::now();
        let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
        failpoint::pass("segment_sealed");
        let silent = SILENT + Duration::from_secs(size / LEAST_RATE);
        let put = async {
            if with_files {
                self.until_done("the files of mini-batches", StorageError::is_retryable, || {
                    self.job.storage.flush()
                })
                .await?;
            }
            self.until_done("a segment", StorageError::is_retryable, || {
                self.heard_of(silent, self.job.storage.put(&key, parts.clone().into(), PutMode::Overwrite))
            })
            .await
        };
        let put = put.await;
        self.backlog.remove(bytes);
        failpoint::pass("segment_put");
        if put.is_none() {
            return;
        }
        // Nothing is sent: the other end is dropped when the commit before has ended.
        let _ = turn.await;
        let duplicates: Option<Vec<MiniBatchIndex>> =
            self.until_done("a commit", may_pass, || self.job.ledger.commit(&key, size, &entries)).await;
        let Some(duplicates) = duplicates else { return };
        let news = entries.iter().filter(|entry| !duplicates.contains(&entry.index));
        let (ended, items) = news.fold((0, 0), |(ended, items), entry| (ended + 1, items + entry.items));
        self.report_tx.send_modify(|report| {
            report.ended += ended;
            report.ended_items += items;
        });
        if !told.is_empty() {
            traces::tell(&self.job, told, stored_us);
        }
        if let Some(tries) = tries {
            tries.count(&duplicates);
            self.metrics.committed(began);
        }
        if !duplicates.is_empty() {
            tracing::info!(
                segment = key,
                duplicates = duplicates.len(),
                "outcomes were known already; the first ones count"
            );
        }
        failpoint::pass("committed");
        let deliveries = settled.into_iter().map(|ready| ready.delivery);
        if let Err(error) = ack_all(deliveries) {
            tracing::warn!(%error, "committed mini-batches may be delivered again; they will be found done");
        }
        failpoint::pass("acknowledged");
    }

    /// Makes a call, and notes that its server is silent once it takes longer than `silent`.
    async fn heard_of<T, E: OfServer>(
        &self,
        silent: Duration,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut call = std::pin::pin!(call);
        if let Ok(outcome) = tokio::time::timeout(silent, &mut call).await {
            return outcome;
        }
        self.metrics.hears_nothing(E::SERVER);
        call.await
    }

    /// Ends some moments after there is no more time.
    async fn last_call(&self) {
        self.over.cancelled().await;
        tokio::time::sleep(LAST_CALL).await;
    }

    /// Repeats a call until it is done, or there is no more time; gives up, and says so once, when repeating cannot
    /// help.
    async fn until_done<T, E: std::fmt::Display + OfServer, F: Future<Output = Result<T, E>>>(
        &self,
        what: &str,
        may_pass: impl Fn(&E) -> bool,
        mut call: impl FnMut() -> F,
    ) -> Option<T> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            if self.fatal_tx.borrow().is_some() {
                return None;
            }
            let outcome = tokio::select! {
                biased;
                outcome = call() => outcome,
                () = self.last_call() => return None,
            };
            self.metrics.heard(&outcome);
            match outcome {
                Ok(done) => return Some(done),
                Err(error) if may_pass(&error) => {
                    tracing::warn!(%error, "{what} is not stored yet; trying again");
                    self.over.run_until_cancelled(backoff.wait()).await?;
                }
                Err(error) => {
                    tracing::error!(%error, "{what} cannot be stored; the node leaves the job");
                    self.fatal_tx.send_if_modified(|fatal| {
                        let first = fatal.is_none();
                        fatal.get_or_insert_with(|| {
                            let (what, error) = (what.to_owned(), error.to_string());
                            EndReason::NotStored { what, error }.to_string()
                        });
                        first
                    });
                    return None;
                }
            }
        }
    }
}

/// A file that a mini-batch wrote, where its process staged it.
#[derive(Clone)]
struct Staged {
    folder: Arc<OpenFolder>,
    /// Below that.
    path: PathBuf,
}

impl Staged {
    /// The folder that it is in, its size and its checksum.
    fn look(&self) -> io::Result<(Arc<OpenFolder>, u64, u32)> {
        let folder = self.folder.below(self.path.parent().unwrap_or(Path::new("")))?;
        let (size, crc) = crc32c_of(folder.open_file(self.path.file_name().unwrap_or_default())?)?;
        Ok((Arc::new(folder), size, crc))
    }
}

/// A file that a mini-batch has written, and that this node cannot read.
fn unreadable(staged: &Path, key: String, error: &io::Error) -> StorageError {
    StorageError {
        kind: StorageErrorKind::PermissionDenied,
        place: staged.display().to_string(),
        key,
        message: error.to_string(),
    }
}

/// Whether a call to the ledger that failed may be done later. A ledger that lost the job is given it again, or the job is
/// over and the node is told.
fn may_pass(error: &LedgerError) -> bool {
    error.is_retryable() || error.kind == LedgerErrorKind::NotFound
}
