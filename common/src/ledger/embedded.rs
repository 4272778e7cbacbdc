//! The ledger in the memory of one process, for embedded jobs and tests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use tokio::sync::watch;

use super::{
    Begin, Bell, Blame, Books, Checkpoint, CommittedSegment, Conclusion, Duty, Entry, FailedTry, IdleWorker,
    JobState, Ledger, LedgerError, LedgerErrorKind, Membership, NodeInfo, NodeReport, NodeView, Offer,
    Offered, Offers, Progress, Seats, Signal, TryLimits, Verdict, superseded,
};
use crate::mini_batch::MiniBatchIndex;

/// A ledger in memory. Clones share their jobs.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedLedger {
    jobs: Arc<Mutex<HashMap<String, Job>>>,
    /// The last number of a lease, of whatever job: also a job that is forgotten and made again gets none twice.
    last_fence: Arc<AtomicU64>,
    targets: Arc<Mutex<HashMap<String, Target>>>,
    /// Identity of the storage it belongs to.
    storage: Arc<Mutex<Option<String>>>,
    /// Counts the rings, for whatever target.
    rung: watch::Sender<u64>,
}

/// What is known of a compute target.
#[derive(Debug, Default)]
struct Target {
    offers: BTreeMap<String, Offer>,
    /// When each idle worker looked last.
    idle: HashMap<String, (NodeInfo, Instant)>,
    filled_until: Option<Instant>,
}

#[derive(Debug)]
struct Job {
    limits: TryLimits,
    state: JobState,
    progress: Progress,
    /// One flag a mini-batch: its outcome is known.
    ended: Vec<bool>,
    segments: Vec<CommittedSegment>,
    /// Positions in `segments`, by key.
    segment_keys: HashMap<String, usize>,
    tries: BTreeMap<MiniBatchIndex, Tries>,
    nodes: BTreeMap<u32, Node>,
    leases: HashMap<Duty, Lease>,
}

/// What was recorded of a mini-batch that did not go through at once.
#[derive(Debug, Default)]
struct Tries {
    /// Failed tries, by their ids.
    code: HashSet<String>,
    node: HashSet<String>,
    /// The start that is under way.
    start: Option<String>,
}

#[derive(Debug)]
struct Node {
    info: NodeInfo,
    report: NodeReport,
    heard: Instant,
    left: bool,
}

#[derive(Debug)]
struct Lease {
    /// Nobody, once it was given up.
    owner: Option<String>,
    until: Instant,
    fence: u64,
}

impl Job {
    fn new(limits: TryLimits) -> Self {
        Self {
            limits,
            state: JobState::Queued,
            progress: Progress::default(),
            ended: Vec::new(),
            segments: Vec::new(),
            segment_keys: HashMap::new(),
            tries: BTreeMap::new(),
            nodes: BTreeMap::new(),
            leases: HashMap::new(),
        }
    }

    fn has_ended(&self, index: MiniBatchIndex) -> bool {
        self.ended.get(index as usize).copied().unwrap_or(false)
    }

    fn end(&mut self, entry: &Entry) -> bool {
        let plan = self.progress.checkpoint;
        if plan.complete && entry.index >= plan.scheduled {
            return false;
        }
        let at = entry.index as usize;
        if at >= self.ended.len() {
            self.ended.resize(at + 1, false);
        }
        if std::mem::replace(&mut self.ended[at], true) {
            return false;
        }
        self.tries.remove(&entry.index);
        let progress = &mut self.progress;
        *if entry.succeeded { &mut progress.succeeded } else { &mut progress.failed } += 1;
        progress.items += entry.items;
        progress.items_succeeded += entry.items_succeeded;
        true
    }
}

impl Job {
    /// Enters a node.
    fn join(&mut self, info: &NodeInfo, wish: Option<u32>) -> u32 {
        let node =
            Node { info: info.clone(), report: NodeReport::default(), heard: Instant::now(), left: false };
        let free = |id: &u32| !self.nodes.contains_key(id);
        let known = self.id_of(&info.worker);
        let node_id = known.or(wish.filter(free)).or_else(|| (0..=u32::MAX).find(free)).unwrap_or_default();
        self.nodes.insert(node_id, node);
        node_id
    }

    fn id_of(&self, worker: &str) -> Option<u32> {
        self.nodes.iter().find_map(|(&id, known)| (known.info.worker == worker).then_some(id))
    }

    /// Nodes that were heard of within `quiet`.
    fn seats_taken(&self, quiet: Duration) -> u32 {
        self.nodes.values().filter(|node| !node.left && node.heard.elapsed() < quiet).count() as u32
    }

    fn is_watched(&self) -> bool {
        let lease = self.leases.get(&Duty::Watch);
        lease.is_some_and(|lease| lease.owner.is_some() && lease.until > Instant::now())
    }
}

impl EmbeddedLedger {
    fn of_target<T>(&self, target: &str, work: impl FnOnce(&mut Target) -> T) -> T {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        work(targets.entry(target.to_owned()).or_default())
    }

    fn with<T>(&self, job: &str, work: impl FnOnce(&mut Job) -> T) -> Result<T, LedgerError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        match jobs.get_mut(job) {
            Some(found) => Ok(work(found)),
            None => Err(LedgerError {
                kind: LedgerErrorKind::NotFound,
                job: job.to_owned(),
                message: "no such job".to_owned(),
            }),
        }
    }
}

impl EmbeddedLedger {
    /// The same for who has the number of the present lease of a duty.
    fn with_duty<T>(
        &self,
        job: &str,
        duty: Duty,
        fence: u64,
        work: impl FnOnce(&mut Job) -> T,
    ) -> Result<T, LedgerError> {
        let done = self.with(job, |job| {
            let is_present = job.leases.get(&duty).is_some_and(|lease| lease.fence == fence);
            is_present.then(|| work(job))
        })?;
        done.ok_or_else(|| superseded(job, duty))
    }
}

impl fmt::Display for EmbeddedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ledger in memory")
    }
}

#[async_trait]
impl Ledger for EmbeddedLedger {
    async fn create(&self, job: &str, limits: TryLimits) -> Result<(), LedgerError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.contains_key(job) {
            return Err(LedgerError {
                kind: LedgerErrorKind::AlreadyExists,
                job: job.to_owned(),
                message: "a job of this id exists".to_owned(),
            });
        }
        jobs.insert(job.to_owned(), Job::new(limits));
        Ok(())
    }

    async fn state(&self, job: &str) -> Result<JobState, LedgerError> {
        self.with(job, |job| job.state)
    }

    async fn set_state(&self, job: &str, state: JobState, fence: u64) -> Result<bool, LedgerError> {
        self.with_duty(job, Duty::Watch, fence, |job| {
            let changes = !job.state.is_final() || job.state == state;
            if changes {
                job.state = state;
            }
            changes
        })
    }

    async fn reset(&self, job: &str, owner: &str) -> Result<bool, LedgerError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = jobs.get(job) else { return Ok(true) };
        let ends_early = |end: &Conclusion| end.state != JobState::Completed;
        let watches = found
            .leases
            .get(&Duty::Watch)
            .is_some_and(|lease| lease.owner.as_deref() == Some(owner) && lease.until > Instant::now());
        let resets = watches && !found.progress.conclusion.as_ref().is_some_and(ends_early);
        if resets {
            jobs.remove(job);
        }
        Ok(resets)
    }

    async fn remove(&self, job: &str) -> Result<(), LedgerError> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(job);
        Ok(())
    }

    async fn checkpoint(&self, job: &str, checkpoint: Checkpoint, fence: u64) -> Result<(), LedgerError> {
        self.with_duty(job, Duty::Schedule, fence, |job| {
            let present = &mut job.progress.checkpoint;
            if (checkpoint.scheduled, checkpoint.complete) > (present.scheduled, present.complete) {
                *present = checkpoint;
            }
        })
    }

    async fn progress(&self, job: &str) -> Result<Progress, LedgerError> {
        self.with(job, |job| job.progress.clone())
    }

    async fn ended(&self, job: &str, indexes: &[MiniBatchIndex]) -> Result<Vec<bool>, LedgerError> {
        self.with(job, |job| indexes.iter().map(|&index| job.has_ended(index)).collect())
    }

    async fn commit(
        &self,
        job: &str,
        key: &str,
        size: u64,
        entries: &[Entry],
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        self.with(job, |job| {
            if let Some(&known) = job.segment_keys.get(key) {
                return job.segments[known].lost.clone();
            }
            let lost: Vec<_> =
                entries.iter().filter(|entry| !job.end(entry)).map(|entry| entry.index).collect();
            job.segment_keys.insert(key.to_owned(), job.segments.len());
            job.segments.push(CommittedSegment { key: key.to_owned(), size, lost: lost.clone() });
            job.progress.segments += 1;
            lost
        })
    }

    async fn segments(
        &self,
        job: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<CommittedSegment>, LedgerError> {
        self.with(job, |job| job.segments.iter().skip(after as usize).take(limit).cloned().collect())
    }

    async fn record_failure(&self, job: &str, failed: &FailedTry) -> Result<Verdict, LedgerError> {
        self.with(job, |job| {
            if job.has_ended(failed.index) {
                return Verdict::Done;
            }
            let tries = job.tries.entry(failed.index).or_default();
            let known = if failed.blame == Blame::Code { &mut tries.code } else { &mut tries.node };
            if known.insert(failed.id.clone()) {
                // The start has brought its end: it does not count as a lost node later.
                tries.start = None;
            }
            let spoiled = tries.code.len() as u32;
            let lost = tries.node.len() as u32;
            if job.limits.are_reached(spoiled, lost) {
                Verdict::GiveUp { spoiled }
            } else {
                Verdict::Retry { spoiled }
            }
        })
    }

    async fn begin(&self, job: &str, index: MiniBatchIndex, start: &str) -> Result<Begin, LedgerError> {
        self.with(job, |job| {
            if job.has_ended(index) {
                return Begin::Done;
            }
            let limits = job.limits;
            let tries = job.tries.entry(index).or_default();
            // A start that is known to be lost is an old call come again: it must not replace a newer one.
            if !tries.node.contains(start) {
                let before = tries.start.replace(start.to_owned());
                tries.node.extend(before.filter(|before| before != start));
            }
            if tries.node.len() as u32 >= limits.max_node_losses {
                return Begin::GiveUp;
            }
            Begin::Run { spoiled: tries.code.len() as u32, lost: tries.node.len() as u32 }
        })
    }

    async fn abandon(&self, job: &str, index: MiniBatchIndex, start: &str) -> Result<(), LedgerError> {
        self.with(job, |job| {
            if let Some(tries) = job.tries.get_mut(&index) {
                tries.start = tries.start.take().filter(|noted| noted != start);
            }
        })
    }

    async fn join(&self, job: &str, info: &NodeInfo, wish: Option<u32>) -> Result<u32, LedgerError> {
        self.with(job, |job| job.join(info, wish))
    }

    async fn heartbeat(
        &self,
        job: &str,
        node_id: u32,
        worker: &str,
        report: &NodeReport,
    ) -> Result<Signal, LedgerError> {
        self.with(job, |job| {
            let Some(node) = job.nodes.get_mut(&node_id).filter(|node| node.info.worker == worker) else {
                return Signal::Rejoin;
            };
            node.report = report.clone();
            node.heard = Instant::now();
            Signal::of(job.state, job.progress.conclusion.as_ref().map(|conclusion| conclusion.state))
        })
    }

    async fn leave(&self, job: &str, node_id: u32) -> Result<(), LedgerError> {
        self.with(job, |job| {
            if let Some(node) = job.nodes.get_mut(&node_id) {
                node.left = true;
            }
        })
    }

    async fn nodes(&self, job: &str) -> Result<Vec<NodeView>, LedgerError> {
        self.with(job, |job| {
            let view = |(&node_id, node): (&u32, &Node)| NodeView {
                node_id,
                info: node.info.clone(),
                report: node.report.clone(),
                silent: node.heard.elapsed(),
                left: node.left,
            };
            job.nodes.iter().map(view).collect()
        })
    }

    async fn conclude(&self, job: &str, conclusion: &Conclusion) -> Result<Conclusion, LedgerError> {
        self.with(job, |job| job.progress.conclusion.get_or_insert_with(|| conclusion.clone()).clone())
    }

    async fn lease(
        &self,
        job: &str,
        duty: Duty,
        owner: &str,
        time: Duration,
    ) -> Result<Option<u64>, LedgerError> {
        self.with(job, |job| {
            let now = Instant::now();
            let lease = job.leases.entry(duty).or_insert(Lease { owner: None, until: now, fence: 0 });
            let holder = lease.owner.as_deref().filter(|_| lease.until > now);
            if holder.is_some_and(|holder| holder != owner) {
                return None;
            }
            // One who had it last and comes again keeps his number.
            if lease.owner.as_deref() != Some(owner) {
                lease.fence = self.last_fence.fetch_add(1, Ordering::Relaxed) + 1;
                lease.owner = Some(owner.to_owned());
            }
            lease.until = now + time;
            Some(lease.fence)
        })
    }

    async fn release(&self, job: &str, duty: Duty, owner: &str) -> Result<(), LedgerError> {
        self.with(job, |job| {
            if let Some(lease) = job.leases.get_mut(&duty) {
                lease.owner = lease.owner.take().filter(|holder| holder != owner);
            }
        })
    }
}

#[async_trait]
impl Membership for EmbeddedLedger {
    async fn offer(&self, target: &str, offer: &Offer) -> Result<(), LedgerError> {
        let former = self.of_target(target, |known| known.offers.insert(offer.run.clone(), offer.clone()));
        if former.as_ref() != Some(offer) {
            self.ring(target).await?;
        }
        Ok(())
    }

    async fn withdraw(&self, target: &str, run: &str) -> Result<(), LedgerError> {
        self.of_target(target, |target| target.offers.remove(run));
        Ok(())
    }

    async fn offers(
        &self,
        target: &str,
        worker: Option<&NodeInfo>,
        quiet: Duration,
    ) -> Result<Offers, LedgerError> {
        let now = Instant::now();
        let (offers, are_filled) = self.of_target(target, |target| {
            target.idle.extend(worker.map(|info| (info.worker.clone(), (info.clone(), now))));
            let offers: Vec<_> = target.offers.values().cloned().collect();
            (offers, target.filled_until.is_some_and(|until| until > now))
        });
        let look = |offer: Offer| {
            let known = self.with(&offer.run, |job| {
                let books = Books {
                    state: job.state,
                    is_concluded: job.progress.conclusion.is_some(),
                    is_watched: job.is_watched(),
                };
                (job.seats_taken(quiet), books)
            });
            let (nodes, books) = known.ok().unzip();
            Offered { offer, nodes: nodes.unwrap_or_default(), books }
        };
        Ok(Offers { offered: offers.into_iter().map(look).collect(), are_filled })
    }

    async fn idle(&self, target: &str, within: Duration) -> Result<u64, LedgerError> {
        Ok(self.idle_workers(target, within).await?.len() as u64)
    }

    async fn idle_workers(&self, target: &str, within: Duration) -> Result<Vec<IdleWorker>, LedgerError> {
        let known: Vec<_> = self.of_target(target, |target| target.idle.values().cloned().collect());
        let known = known.into_iter().map(|(info, looked)| IdleWorker { info, silent: looked.elapsed() });
        let mut idle: Vec<_> = known.filter(|worker| worker.silent < within).collect();
        idle.sort_by_key(|worker| std::cmp::Reverse(worker.silent));
        Ok(idle)
    }

    async fn targets(&self) -> Result<Vec<String>, LedgerError> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let looked_for = targets.iter().filter(|(_, target)| !target.idle.is_empty());
        Ok(looked_for.map(|(name, _)| name.clone()).collect())
    }

    async fn begin_to_fill(&self, target: &str, time: Duration) -> Result<bool, LedgerError> {
        let now = Instant::now();
        Ok(self.of_target(target, |target| {
            let begins = target.filled_until.is_none_or(|until| until <= now);
            if begins {
                target.filled_until = Some(now + time);
            }
            begins
        }))
    }

    async fn filled(&self, target: &str, time: Duration) -> Result<(), LedgerError> {
        self.of_target(target, |target| target.filled_until = Some(Instant::now() + time));
        Ok(())
    }

    async fn belongs_to(&self, storage: &str) -> Result<String, LedgerError> {
        let mut known = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known.get_or_insert_with(|| storage.to_owned()).clone())
    }

    async fn ring(&self, _target: &str) -> Result<(), LedgerError> {
        self.rung.send_modify(|rung| *rung += 1);
        Ok(())
    }

    fn bell(&self, _targets: &[String]) -> Box<dyn Bell> {
        Box::new(EmbeddedBell { rung: self.rung.subscribe() })
    }

    async fn take_seat(&self, job: &str, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError> {
        self.with(job, |job| {
            let has_seat = job.id_of(&info.worker).is_some();
            (has_seat || job.seats_taken(seats.quiet) < seats.count).then(|| job.join(info, None))
        })
    }
}

/// Rings for every target: a worker of another one looks, and finds nothing of its own.
#[derive(Debug)]
struct EmbeddedBell {
    rung: watch::Receiver<u64>,
}

#[async_trait]
impl Bell for EmbeddedBell {
    async fn rings(&mut self) {
        if self.rung.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
