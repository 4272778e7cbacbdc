//! Intake: takes deliveries from the job's queue and makes them ready to run.
//!
//! A first delivery costs no look-up. Those that were delivered before are looked up in the ledger, many at a time:
//! they may be done already. The rest of them are suspects. Data that is elsewhere is fetched ahead of need: while the
//! processes run what is here, the next mini-batches become ready, each by itself.

pub(crate) mod copies;
pub(crate) mod plan_end;
mod stalled_consumer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prs_common::backoff::Backoff;
use prs_common::end_reason::EndReason;
use prs_common::job::JobSpec;
use prs_common::ledger::LedgerError;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex};
use prs_common::queue::{Deliveries, Delivery, QueueErrorKind, ack_all};
use prs_common::storage::{StorageError, StorageErrorKind};
use prs_orchestrator::JobContext;
use prs_orchestrator::inputs::unnamed_store;
use prs_orchestrator::job::queue;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::commit::outcome::{InHand, Ready};
use crate::inputs::{Localized, Localizer, Pin};
use crate::intake::plan_end::PlanEnd;
use crate::intake::stalled_consumer::StalledConsumerCheck;
use crate::metrics::Metrics;

/// Deliveries taken at a time.
const AT_ONCE: usize = 512;
/// Pauses before a queue that cannot be consumed is tried again: a node that comes right behind the submission is there
/// before the queue is.
const RECONSUME_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(300));
/// The same for a queue that the broker does not serve. An attempt may cost the connection and all that is consumed
/// over it.
const NOT_SERVED_PAUSE: Duration = Duration::from_secs(5);
/// Between two looks whether the job has left its queue, while nothing comes.
const QUEUE_INTERVAL: Duration = Duration::from_secs(10);
/// Pause before the ledger is asked again.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(300);
/// Pause before data is fetched again from a store that did not answer.
const FETCH_PAUSE: Duration = Duration::from_secs(1);
/// So often in a row the disk may be full.
const FULL_AT_MOST: u32 = 60;
/// Between two looks at how much may be taken.
const PREFETCH_INTERVAL: Duration = Duration::from_millis(50);

/// When the intake ends: first it takes nothing more, then it lets go of what it took.
#[derive(Debug, Clone, Default)]
pub(crate) struct IntakeEnd {
    /// Take nothing more.
    pub(crate) stop: CancellationToken,
    /// Everything is settled; what is not goes back with the consumer.
    pub(crate) release: CancellationToken,
}

/// The index of a mini-batch of the job; an error for a message that is none. A ledger counts 32 bits, and one index
/// beyond that would be an error in whatever call it is a part of.
fn index_of(spec: &JobSpec, body: &[u8]) -> Result<MiniBatchIndex, String> {
    let mini_batch = MiniBatch::decode(body).map_err(|error| error.to_string())?;
    if let Some(unnamed) = unnamed_store(spec, &mini_batch) {
        return Err(format!("mini-batch {} names {unnamed}", mini_batch.index));
    }
    match mini_batch.index {
        index if u32::try_from(index).is_ok() => Ok(index),
        index => Err(not_planned(index)),
    }
}

fn not_planned(index: MiniBatchIndex) -> String {
    format!("the plan of the job has no mini-batch {index}")
}

/// Takes mini-batches in.
pub(crate) struct Intake {
    pub(crate) job: JobContext,
    /// Bounds the indices that are taken.
    pub(crate) plan_end: PlanEnd,
    /// How many may be unsettled at a time; it changes with what they take.
    pub(crate) prefetch: Arc<AtomicUsize>,
    pub(crate) in_hand: InHand,
    /// Mini-batches that may run: the intake writes, the dispatcher reads.
    pub(crate) ready_tx: mpsc::Sender<Vec<Ready>>,
    pub(crate) end: IntakeEnd,
    pub(crate) localizer: Localizer,
    /// Why nothing can be fetched any more: the intake writes, the dispatcher reads.
    pub(crate) fatal_tx: watch::Sender<Option<String>>,
    /// Fetches under way.
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: Metrics,
}

impl Intake {
    /// Consumes the queue of the job until it is told to end. The consumer is kept until then: without it, nothing
    /// could be acknowledged any more.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut number = 0;
        let pauses = || Backoff::new(RECONSUME_PAUSES.0, RECONSUME_PAUSES.1);
        let mut backoff = pauses();
        while !self.end.stop.is_cancelled() {
            let prefetch = self.prefetch.load(Ordering::Relaxed);
            number = self.present_queue(number).await;
            let queue = queue::name(&self.job, number);
            let consuming = tokio::select! {
                consuming = self.job.queue.consume(&queue, prefetch) => consuming,
                () = self.end.stop.cancelled() => return,
            };
            self.metrics.heard(&consuming);
            match consuming {
                Ok(deliveries) => {
                    backoff = pauses();
                    if !self.consume(deliveries, prefetch, number).await {
                        return;
                    }
                    tracing::info!(job = self.job.id, "the job's queue is gone, or left; consuming it again");
                }
                Err(error) => {
                    tracing::warn!(%error, "the job's queue cannot be consumed; trying again");
                    let not_served = error.kind == QueueErrorKind::NotServed;
                    let pause = if not_served { NOT_SERVED_PAUSE } else { backoff.pause() };
                    if !self.pause(pause).await {
                        return;
                    }
                }
            }
        }
    }

    /// Number of the queue that the job is at, or else of that it was at before.
    async fn present_queue(&self, before: u32) -> u32 {
        let present = self.end.stop.run_until_cancelled(queue::present(&self.job)).await;
        present.and_then(Result::ok).unwrap_or(before)
    }

    /// Takes from a consumer of the queue `number`; false when nothing more is wanted, true when the consumer is gone,
    /// or the job has left the queue.
    async fn consume(
        self: &Arc<Self>,
        mut deliveries: Box<dyn Deliveries>,
        mut prefetch: usize,
        number: u32,
    ) -> bool {
        let queue = queue::name(&self.job, number);
        let mut stalled = StalledConsumerCheck::default();
        let mut looked = Instant::now();
        loop {
            let wanted = self.prefetch.load(Ordering::Relaxed);
            if wanted != prefetch {
                prefetch = wanted;
                if let Err(error) = deliveries.set_prefetch(wanted).await {
                    tracing::warn!(%error, "the job's queue is consumed anew");
                    return true;
                }
            }
            let taken = tokio::select! {
                taken = deliveries.next(AT_ONCE) => taken,
                () = tokio::time::sleep(PREFETCH_INTERVAL) => {
                    if self.in_hand.count() > 0 {
                        stalled = StalledConsumerCheck::default();
                    } else if looked.elapsed() > QUEUE_INTERVAL {
                        if self.present_queue(number).await != number {
                            return true;
                        }
                        looked = Instant::now();
                    } else if stalled.is_stalled(&*self.job.queue, &queue).await {
                        return true;
                    }
                    continue;
                }
                () = self.end.stop.cancelled() => break,
            };
            if taken.is_empty() {
                return true;
            }
            stalled = StalledConsumerCheck::default();
            let Some(taken) = self.look_at(taken).await else { break };
            let ready = self.fetch(taken);
            if !ready.is_empty() && self.ready_tx.send(ready).await.is_err() {
                break;
            }
        }
        self.end.release.cancelled().await;
        false
    }

    /// The index of a mini-batch; an error for a message that is none of the job. What is in the memory of this program
    /// nobody else has written. Nothing when the node ends before the ledger has told how far the plan goes.
    async fn index_of(&self, body: &[u8]) -> Option<Result<MiniBatchIndex, String>> {
        if !self.job.policy.is_queue_remote {
            return Some(MiniBatch::peek_index(body).map_err(|error| error.to_string()));
        }
        let index = match index_of(&self.job.spec, body) {
            Ok(index) => index,
            Err(error) => return Some(Err(error)),
        };
        let asked = self.asked("a mini-batch", || self.plan_end.covers(&self.job, index));
        Some(if asked.await? { Ok(index) } else { Err(not_planned(index)) })
    }

    /// Asks the ledger until it answers; nothing when the node ends meanwhile. A ledger that does not know the job is
    /// about to be filled anew, or the job is over.
    async fn asked<T, F: Future<Output = Result<T, LedgerError>>>(
        &self,
        what: &str,
        ask: impl Fn() -> F,
    ) -> Option<T> {
        loop {
            match ask().await {
                Ok(answer) => return Some(answer),
                Err(error) => tracing::warn!(%error, "{what} waits: the ledger does not answer"),
            }
            if !self.pause(LOOK_UP_PAUSE).await {
                return None;
            }
        }
    }

    /// Waits; false when the node ends meanwhile.
    async fn pause(&self, pause: Duration) -> bool {
        self.end.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some()
    }

    /// What to run of some deliveries; everything else about them is settled here. Nothing when the node ends
    /// meanwhile: what was taken goes back.
    async fn look_at(&self, deliveries: Vec<Delivery>) -> Option<Vec<Ready>> {
        let mut taken = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let index = match self.index_of(&delivery.body).await? {
                Ok(index) => index,
                Err(error) => {
                    tracing::error!(%error, "a message that is no mini-batch of the job goes to the dead letters");
                    let _ = delivery.reject();
                    continue;
                }
            };
            taken.push(self.ready(delivery, index));
        }
        self.without_ended(taken).await
    }

    /// A mini-batch whose data is where its descriptor says.
    fn ready(&self, delivery: Delivery, index: MiniBatchIndex) -> Ready {
        let (planned, local) = (delivery.body.clone(), delivery.body.clone());
        Ready {
            delivery,
            index,
            failed_tries: 0,
            planned,
            local,
            start: None,
            failed_in: Vec::new(),
            pin: Pin::none(),
            node_losses: 0,
            splitting: None,
            is_copy: false,
            _held: self.in_hand.hold(),
        }
    }

    /// What of `taken` is here already. The rest is handed over as it becomes ready.
    fn fetch(self: &Arc<Self>, mut taken: Vec<Ready>) -> Vec<Ready> {
        for ready in taken.extract_if(.., |ready| !MiniBatch::is_local(&ready.local)) {
            self.tasks.spawn(Arc::clone(self).bring(ready));
        }
        taken
    }

    /// Acknowledges those that were delivered before and have their outcome, and returns the others.
    async fn without_ended(&self, mut taken: Vec<Ready>) -> Option<Vec<Ready>> {
        let suspects: Vec<Ready> = taken.extract_if(.., |ready| ready.is_suspect()).collect();
        if suspects.is_empty() {
            return Some(taken);
        }
        let indexes: Vec<_> = suspects.iter().map(|ready| ready.index).collect();
        let ended = self.asked("what was delivered before", || self.job.ledger.ended(&indexes));
        let mut ended = ended.await?.into_iter();
        let (done, open): (Vec<_>, Vec<_>) =
            suspects.into_iter().partition(|_| ended.next().unwrap_or(false));
        if let Err(error) = ack_all(done.into_iter().map(|ready| ready.delivery)) {
            tracing::debug!(%error, "mini-batches that are done will be delivered once more");
        }
        taken.extend(open);
        Some(taken)
    }

    /// Brings the data of one mini-batch here, as often as it takes; when the node ends meanwhile, or cannot read
    /// anything, the mini-batch goes back.
    async fn bring(self: Arc<Self>, mut ready: Ready) {
        let (mut failures, mut is_away) = (0, false);
        loop {
            let localizing = self.localizer.localize(&ready.delivery.body);
            let Some(localized) = self.end.stop.run_until_cancelled(localizing).await else { return };
            // Data of another store, or of the cache, says nothing of the storage.
            let is_of_storage = |error: &StorageError| self.job.storage.to_string().starts_with(&error.place);
            if localized.as_ref().map_or_else(is_of_storage, |_| is_away) {
                self.metrics.heard(&localized);
                is_away = localized.is_err();
            }
            match localized {
                Ok(Localized { planned, local, pin }) => {
                    (ready.planned, ready.local, ready.pin) = (planned, local, pin);
                    break;
                }
                Err(error) => {
                    failures += 1;
                    if is_of_this_node(error.kind, failures) {
                        let reason = EndReason::InputsNotRead { error: error.to_string() }.to_string();
                        self.fatal_tx
                            .send_if_modified(|fatal| fatal.is_none() && fatal.replace(reason).is_none());
                        return;
                    }
                    tracing::warn!(%error, "the data of a mini-batch is not here yet; trying again");
                }
            }
            if !self.pause(FETCH_PAUSE).await {
                return;
            }
        }
        // A node that has ended takes nothing more: then it goes back.
        let _ = self.ready_tx.send(vec![ready]).await;
    }
}

/// Whether a mini-batch whose data did not come so many times in a row had better run on another node.
fn is_of_this_node(kind: StorageErrorKind, failures: u32) -> bool {
    match kind {
        StorageErrorKind::PermissionDenied | StorageErrorKind::NotFound | StorageErrorKind::InvalidKey => {
            true
        }
        // What others need meanwhile goes away as they end.
        StorageErrorKind::Full => failures >= FULL_AT_MOST,
        _ => false,
    }
}
