//! The committer: group commit of outcomes.
//!
//! Rows of many mini-batches go into one segment. When it is big or old enough, or the node idles, it is put to
//! storage, then one ledger call makes its outcomes final, and only then are the deliveries acknowledged. What
//! dies between two of these steps is delivered again and loses against what was committed. Several segments
//! may be on their way at a time, within a bound of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prs_common::layout;
use prs_common::ledger::{Blame, Entry, FailedTry, LedgerError, Verdict};
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::queue::{Answer, Delivery, settle_all};
use prs_common::segment::{OutputFile, ProcessRef, SegmentBuilder, TryRecord, TryStatus};
use prs_common::storage::StorageError;
use prs_orchestrator::JobContext;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::settlement::{Ready, Settle, Settlement, Tried, nodes_lost};

/// Rows that make a segment worth writing, bytes.
const BIG: usize = 8 << 20;
/// Age at which a segment is written whatever its size.
const OLD: Duration = Duration::from_millis(200);
/// Segments on their way at a time.
const ON_THEIR_WAY: usize = 4;
/// First pause after a store or ledger failed; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Uncommitted rows in memory, for whoever must slow down.
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
}

/// The committer of one node.
pub(crate) struct Committer {
    pub(crate) job: JobContext,
    pub(crate) node_id: u32,
    pub(crate) ip: String,
    /// Unacknowledged mini-batches at which a segment is written whatever its size: half the prefetch.
    pub(crate) many: usize,
    pub(crate) backlog: Backlog,
    /// Tells why nothing can be committed any more.
    pub(crate) fatal: watch::Sender<Option<String>>,
}

/// The segment being filled.
#[derive(Default)]
struct Open {
    builder: SegmentBuilder,
    entries: Vec<Entry>,
    deliveries: Vec<Delivery>,
    since: Option<Instant>,
}

impl Committer {
    /// Commits what comes, until the other end is closed and all is committed. `idle` is notified when nothing
    /// more is running on the node.
    pub(crate) async fn run(
        self,
        mut settlements: mpsc::UnboundedReceiver<Settlement>,
        mut idle: watch::Receiver<bool>,
    ) {
        let this = Arc::new(self);
        let way = Arc::new(Semaphore::new(ON_THEIR_WAY));
        let mut under_way = JoinSet::new();
        let mut open = Open::default();
        let mut numbers = 0..;
        // The end of the commit before; the first has none before it.
        let mut before = oneshot::channel().1;
        let mut came = Vec::new();
        loop {
            let old = open.since.map(|since| since + OLD);
            let seal = tokio::select! {
                biased;
                count = settlements.recv_many(&mut came, 1024) => {
                    let ended = count == 0;
                    for settlement in came.drain(..) {
                        this.take(settlement, &mut open).await;
                    }
                    if ended {
                        break;
                    }
                    open.builder.bytes() >= BIG || open.deliveries.len() >= this.many
                }
                () = tokio::time::sleep_until(old.unwrap_or_else(Instant::now)), if old.is_some() => true,
                changed = idle.changed() => {
                    let is_idle = changed.is_ok() && *idle.borrow_and_update();
                    if changed.is_err() {
                        // The node is leaving; what is left comes through the channel.
                        idle = watch::channel(false).1;
                    }
                    is_idle
                }
            };
            if seal && !open.builder.is_empty() {
                // Waits while enough segments are on their way.
                let Ok(permit) = Arc::clone(&way).acquire_owned().await else { break };
                let number = numbers.next().unwrap_or_default();
                let sealed = std::mem::take(&mut open);
                let this = Arc::clone(&this);
                let (end, ended) = oneshot::channel();
                let turn = std::mem::replace(&mut before, ended);
                under_way.spawn(async move {
                    this.commit(sealed, number, turn).await;
                    drop((end, permit));
                });
            }
            while under_way.try_join_next().is_some() {}
        }
        if !open.builder.is_empty() {
            this.commit(open, numbers.next().unwrap_or_default(), before).await;
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Puts a settlement into the open segment, or back into the queue.
    async fn take(&self, settlement: Settlement, open: &mut Open) {
        let Settlement { ready, settle } = settlement;
        open.since.get_or_insert_with(Instant::now);
        match settle {
            Settle::Tried(tried) if tried.record.status == TryStatus::RunDone => {
                self.succeeded(*tried, ready, open).await;
            }
            Settle::Tried(tried) => self.failed(*tried, ready, open).await,
            Settle::NodesLost => {
                let record = nodes_lost(&ready);
                let process = ProcessRef { name: String::new(), pid: 0 };
                Self::give_up(record, &process, ready, open);
            }
        }
    }

    async fn succeeded(&self, tried: Tried, ready: Ready, open: &mut Open) {
        let id = if tried.files.is_empty() { String::new() } else { self.try_id(&tried) };
        let Tried { mut record, process, seq, rows, files, staging } = tried;
        let staged_in = staging.join(seq.to_string());
        for path in files {
            let key = layout::staged_file(&id, &path);
            let staged = staged_in.join(&path);
            self.until_done("a file of a mini-batch", || self.job.storage.put_file(&key, &staged)).await;
            record.files.push(OutputFile { path, key });
        }
        if !record.files.is_empty() {
            let _ = std::fs::remove_dir_all(&staged_in);
        }
        record.number = ready.spoiled + 1;
        record.last = true;
        open.entries.push(entry(&record));
        open.builder.add(record, &process, rows);
        open.deliveries.push(ready.delivery);
    }

    async fn failed(&self, tried: Tried, ready: Ready, open: &mut Open) {
        let id = self.try_id(&tried);
        let Tried { mut record, process, .. } = tried;
        let failed = FailedTry { index: ready.index, id, blame: Blame::Code };
        let verdict = self
            .until_done("a failed try", || self.job.ledger.record_failure(&self.job.id, &failed))
            .await
            .unwrap_or(Verdict::Retry { spoiled: ready.spoiled + 1 });
        match verdict {
            Verdict::Done => {
                let _ = ready.delivery.settle(Answer::Ack).await;
            }
            Verdict::Retry { spoiled } => {
                record.number = spoiled;
                open.builder.add(record, &process, Bytes::new());
                if let Err(error) = ready.delivery.settle(Answer::Requeue).await {
                    tracing::warn!(%error, "a mini-batch was not given back; the broker will deliver it again");
                }
            }
            Verdict::GiveUp { spoiled } => {
                record.number = spoiled;
                Self::give_up(record, &process, ready, open);
            }
        }
    }

    /// Unique name of a try in the job.
    fn try_id(&self, tried: &Tried) -> String {
        format!("{:04}-{:05}-{}-{}", self.job.incarnation, self.node_id, tried.process.name, tried.seq)
    }

    fn give_up(mut record: TryRecord, process: &ProcessRef, ready: Ready, open: &mut Open) {
        record.last = true;
        record.failed = Some(ready.delivery.body.to_vec());
        open.entries.push(entry(&record));
        open.builder.add(record, process, Bytes::new());
        open.deliveries.push(ready.delivery);
    }

    /// Put, commit, acknowledge. Segments are put side by side and committed one after the other, when `turn` has
    /// ended, so that the reports show the tries of a mini-batch in their order.
    async fn commit(&self, open: Open, number: u64, turn: oneshot::Receiver<()>) {
        let Open { builder, entries, deliveries, .. } = open;
        let bytes = builder.bytes();
        let key = layout::segment(self.job.incarnation, self.node_id, number);
        let (parts, index) = builder.seal(self.job.incarnation, self.node_id, &self.ip);
        let with_files = index.tries.iter().any(|record| !record.files.is_empty());
        drop(index);
        let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if with_files {
            self.until_done("the files of mini-batches", || self.job.storage.flush()).await;
        }
        let put = self.until_done("a segment", || self.job.storage.put_parts(&key, parts.clone())).await;
        self.backlog.0.fetch_sub(bytes, Ordering::Relaxed);
        if put.is_none() {
            return;
        }
        // Nobody sends: the other end is dropped when the commit before has ended.
        let _ = turn.await;
        let lost: Option<Vec<MiniBatchIndex>> =
            self.until_done("a commit", || self.job.ledger.commit(&self.job.id, &key, size, &entries)).await;
        let Some(lost) = lost else { return };
        if !lost.is_empty() {
            tracing::info!(
                segment = key,
                lost = lost.len(),
                "outcomes were known already; the first ones count"
            );
        }
        if let Err(error) = settle_all(deliveries, Answer::Ack).await {
            tracing::warn!(%error, "committed mini-batches may be delivered again; they will be found done");
        }
    }

    /// Repeats a call until it is done; gives up, and says so once, when repeating cannot help.
    async fn until_done<T, E, F, C>(&self, what: &str, mut call: C) -> Option<T>
    where
        E: Retryable + std::fmt::Display,
        F: Future<Output = Result<T, E>>,
        C: FnMut() -> F,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            if self.fatal.borrow().is_some() {
                return None;
            }
            match call().await {
                Ok(done) => return Some(done),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "{what} is not stored yet; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => {
                    tracing::error!(%error, "{what} cannot be stored; the node leaves the job");
                    self.fatal.send_if_modified(|fatal| {
                        let first = fatal.is_none();
                        fatal.get_or_insert_with(|| format!("{what} cannot be stored: {error}"));
                        first
                    });
                    return None;
                }
            }
        }
    }
}

trait Retryable {
    fn is_retryable(&self) -> bool;
}

impl Retryable for StorageError {
    fn is_retryable(&self) -> bool {
        self.is_retryable()
    }
}

impl Retryable for LedgerError {
    fn is_retryable(&self) -> bool {
        self.is_retryable()
    }
}

fn entry(record: &TryRecord) -> Entry {
    Entry {
        index: record.index,
        succeeded: record.status == TryStatus::RunDone,
        items: record.items,
        items_succeeded: record.succeeded,
    }
}
