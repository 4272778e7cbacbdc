//! What the ledger keeps of one job, in memory.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

use super::{EmbeddedLedger, lock};
use crate::ledger::{
    Begin, Blame, Checkpoint, CommittedSegment, Conclusion, Duty, FailedTry, Heard, JobLedger, JobProgress,
    JobState, LIVE, LedgerError, LedgerErrorKind, MiniBatchOutcome, NodeInfo, NodeReport, NodeView,
    NotedTries, Obstacle, ObstacleKind, OfferedCopy, OpenCopy, READS_FOR, Seats, Signal, TryLimits, Verdict,
};
use crate::mini_batch::MiniBatchIndex;
use crate::timestamp::now_us;

/// A node that was not heard of for so long may be gone.
const QUIET: Duration = Duration::from_mins(1);

/// What the ledger keeps of one job.
#[derive(Debug)]
pub(super) struct Job {
    limits: TryLimits,
    pub(super) state: JobState,
    pub(super) progress: JobProgress,
    /// One flag a mini-batch: its outcome is known.
    ended: Vec<bool>,
    segments: Vec<CommittedSegment>,
    /// Positions in `segments`, by key.
    segment_keys: HashMap<String, usize>,
    tries: BTreeMap<MiniBatchIndex, TryNotes>,
    nodes: BTreeMap<u32, Node>,
    leases: HashMap<Duty, Lease>,
    copies: BTreeMap<MiniBatchIndex, WantedCopy>,
    statistics: HashMap<String, Bytes>,
    statistics_read: Option<Instant>,
    /// When an outcome came last, or a node where there was none.
    moved: Option<Instant>,
    /// The obstacle that keeps it from going on, its reason and beginning.
    obstacle: Option<(ObstacleKind, String, Instant)>,
}

/// A second run of a mini-batch.
#[derive(Debug, Default)]
struct WantedCopy {
    /// Who offers it, and what a node needs to run it.
    offered: Option<(String, OfferedCopy)>,
    taken_by: Option<String>,
}

/// What was recorded of a mini-batch that did not go through at once.
#[derive(Debug, Default)]
struct TryNotes {
    /// Tries that the user's code failed, by their ids.
    failed_tries: HashSet<String>,
    /// Tries that were lost with their node.
    node_losses: HashSet<String>,
    /// The start that is under way.
    start: Option<String>,
    /// Services of nodes that gave its last try back.
    passed_on_by: HashSet<String>,
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
            progress: JobProgress::default(),
            ended: Vec::new(),
            segments: Vec::new(),
            segment_keys: HashMap::new(),
            tries: BTreeMap::new(),
            nodes: BTreeMap::new(),
            leases: HashMap::new(),
            copies: BTreeMap::new(),
            statistics: HashMap::new(),
            statistics_read: None,
            moved: None,
            obstacle: None,
        }
    }

    fn has_ended(&self, index: MiniBatchIndex) -> bool {
        self.ended.get(index as usize).copied().unwrap_or(false)
    }

    fn end(&mut self, outcome: &MiniBatchOutcome) -> bool {
        let plan = self.progress.checkpoint;
        if (plan.complete || plan.end > 0) && outcome.index >= plan.end_of_plan() {
            return false;
        }
        let at = outcome.index as usize;
        if at >= self.ended.len() {
            self.ended.resize(at + 1, false);
        }
        if std::mem::replace(&mut self.ended[at], true) {
            return false;
        }
        self.tries.remove(&outcome.index);
        self.copies.remove(&outcome.index);
        let progress = &mut self.progress;
        *if outcome.succeeded { &mut progress.succeeded } else { &mut progress.failed } += 1;
        progress.items += outcome.items;
        progress.items_succeeded += outcome.items_succeeded;
        self.moved = Some(Instant::now());
        true
    }

    /// Enters a node.
    fn join(&mut self, info: &NodeInfo, wish: Option<u32>) -> u32 {
        let node =
            Node { info: info.clone(), report: NodeReport::default(), heard: Instant::now(), left: false };
        if self.seats_taken(QUIET) == 0 {
            self.moved = Some(Instant::now());
        }
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
    pub(super) fn seats_taken(&self, quiet: Duration) -> u32 {
        self.nodes.values().filter(|node| !node.left && node.heard.elapsed() < quiet).count() as u32
    }

    /// How long ago an outcome came last, or a node where there was none.
    pub(super) fn unmoved(&self) -> Option<Duration> {
        self.moved.map(|at| at.elapsed())
    }

    /// Who holds the lease to watch over it.
    fn watched_by(&self) -> Option<&str> {
        let lease = self.leases.get(&Duty::Watch)?;
        lease.owner.as_deref().filter(|_| lease.until > Instant::now())
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watched_by().is_some()
    }

    /// Whether a reader asked for its statistics within [`READS_FOR`].
    fn has_reader(&self) -> bool {
        self.statistics_read.is_some_and(|at| at.elapsed() < READS_FOR)
    }
}

impl TryNotes {
    /// Tries that the user's code failed, and losses of nodes.
    fn counts(&self) -> (u32, u32) {
        (self.failed_tries.len() as u32, self.node_losses.len() as u32)
    }
}

/// The handle of one job, whether or not it is known.
#[derive(Debug)]
pub(super) struct EmbeddedJob {
    pub(super) ledger: EmbeddedLedger,
    pub(super) job: String,
}

impl EmbeddedJob {
    fn with<T>(&self, work: impl FnOnce(&mut Job) -> T) -> Result<T, LedgerError> {
        let not_found = || LedgerError::new(LedgerErrorKind::NotFound, &self.job, "no such job");
        lock(&self.ledger.jobs).get_mut(&self.job).map(work).ok_or_else(not_found)
    }

    /// The same for who has the number of the present lease of a duty.
    fn with_duty<T>(
        &self,
        duty: Duty,
        fence: u64,
        work: impl FnOnce(&mut Job) -> T,
    ) -> Result<T, LedgerError> {
        let done = self.with(|job| {
            let is_present = job.leases.get(&duty).is_some_and(|lease| lease.fence == fence);
            is_present.then(|| work(job))
        })?;
        done.ok_or_else(|| LedgerError::superseded(&self.job, duty))
    }
}

#[async_trait]
impl JobLedger for EmbeddedJob {
    async fn create(&self, limits: TryLimits) -> Result<(), LedgerError> {
        match lock(&self.ledger.jobs).entry(self.job.clone()) {
            Entry::Occupied(_) => {
                Err(LedgerError::new(LedgerErrorKind::AlreadyExists, &self.job, "a job of this id exists"))
            }
            Entry::Vacant(free) => {
                free.insert(Job::new(limits));
                Ok(())
            }
        }
    }

    async fn state(&self) -> Result<JobState, LedgerError> {
        self.with(|job| job.state)
    }

    async fn set_state(&self, state: JobState, fence: u64) -> Result<bool, LedgerError> {
        self.with_duty(Duty::Watch, fence, |job| {
            let changes = !job.state.is_final() || job.state == state;
            if changes {
                job.state = state;
            }
            changes
        })
    }

    async fn reset(&self, owner: &str) -> Result<bool, LedgerError> {
        let mut jobs = lock(&self.ledger.jobs);
        let Some(found) = jobs.get(&self.job) else { return Ok(true) };
        let ends_early = |end: &Conclusion| end.state != JobState::Completed;
        let resets =
            found.watched_by() == Some(owner) && !found.progress.conclusion.as_ref().is_some_and(ends_early);
        if resets {
            jobs.remove(&self.job);
        }
        Ok(resets)
    }

    async fn remove(&self) -> Result<(), LedgerError> {
        lock(&self.ledger.jobs).remove(&self.job);
        Ok(())
    }

    async fn checkpoint(&self, checkpoint: Checkpoint, fence: u64) -> Result<(), LedgerError> {
        self.with_duty(Duty::Schedule, fence, |job| {
            let present = &mut job.progress.checkpoint;
            if (checkpoint.scheduled, checkpoint.complete) > (present.scheduled, present.complete) {
                *present = checkpoint;
            }
        })
    }

    async fn progress(&self) -> Result<JobProgress, LedgerError> {
        self.with(|job| {
            let obstacle = job.obstacle.as_ref().map(|(kind, reason, since)| Obstacle {
                kind: *kind,
                reason: reason.clone(),
                lasts: since.elapsed(),
            });
            JobProgress { is_read: job.has_reader(), obstacle, ..job.progress.clone() }
        })
    }

    async fn ended(&self, indexes: &[MiniBatchIndex]) -> Result<Vec<bool>, LedgerError> {
        self.with(|job| indexes.iter().map(|&index| job.has_ended(index)).collect())
    }

    async fn commit(
        &self,
        key: &str,
        size: u64,
        outcomes: &[MiniBatchOutcome],
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        self.with(|job| {
            if let Some(&known) = job.segment_keys.get(key) {
                return job.segments[known].duplicates.clone();
            }
            let known = outcomes.iter().filter(|outcome| !job.end(outcome));
            let duplicates: Vec<_> = known.map(|outcome| outcome.index).collect();
            job.segment_keys.insert(key.to_owned(), job.segments.len());
            let segment = CommittedSegment { key: key.to_owned(), size, duplicates: duplicates.clone() };
            job.segments.push(segment);
            job.progress.segments += 1;
            duplicates
        })
    }

    async fn segments(&self, after: u64, limit: usize) -> Result<Vec<CommittedSegment>, LedgerError> {
        self.with(|job| job.segments.iter().skip(after as usize).take(limit).cloned().collect())
    }

    async fn record_failure(&self, failed: &FailedTry) -> Result<Verdict, LedgerError> {
        self.with(|job| {
            if job.has_ended(failed.index) {
                return Verdict::Done;
            }
            let tries = job.tries.entry(failed.index).or_default();
            let known =
                if failed.blame == Blame::Code { &mut tries.failed_tries } else { &mut tries.node_losses };
            if known.insert(failed.id.clone()) {
                // The start has brought its end: it does not count as a lost node later.
                tries.start = None;
            }
            let (failed_tries, node_losses) = tries.counts();
            if job.limits.are_reached(failed_tries, node_losses) {
                Verdict::GiveUp { failed_tries }
            } else {
                Verdict::Retry { failed_tries }
            }
        })
    }

    async fn begin(&self, index: MiniBatchIndex, start: &str) -> Result<Begin, LedgerError> {
        self.with(|job| {
            if job.has_ended(index) {
                return Begin::Done;
            }
            let limits = job.limits;
            let tries = job.tries.entry(index).or_default();
            // A start that is known to be lost is an old call come again: it must not replace a newer one.
            if !tries.node_losses.contains(start) {
                let before = tries.start.replace(start.to_owned());
                tries.node_losses.extend(before.filter(|before| before != start));
            }
            let (failed_tries, node_losses) = tries.counts();
            if node_losses >= limits.max_node_losses {
                return Begin::GiveUp;
            }
            Begin::Run { failed_tries, node_losses }
        })
    }

    async fn abandon(&self, index: MiniBatchIndex, start: &str) -> Result<(), LedgerError> {
        self.with(|job| {
            if let Some(tries) = job.tries.get_mut(&index) {
                tries.start = tries.start.take().filter(|noted| noted != start);
            }
        })
    }

    async fn noted_tries(&self, index: MiniBatchIndex) -> Result<NotedTries, LedgerError> {
        self.with(|job| {
            let noted = job.tries.get(&index).filter(|_| !job.has_ended(index));
            noted.map_or_else(NotedTries::default, |tries| NotedTries {
                failed: tries.failed_tries.iter().cloned().collect(),
                passed_on_by: tries.passed_on_by.iter().cloned().collect(),
            })
        })
    }

    async fn pass_on(&self, index: MiniBatchIndex, start: &str, service: &str) -> Result<(), LedgerError> {
        self.with(|job| {
            if !job.has_ended(index) {
                let tries = job.tries.entry(index).or_default();
                tries.start = tries.start.take().filter(|noted| noted != start);
                tries.passed_on_by.insert(service.to_owned());
            }
        })
    }

    async fn want_copies(
        &self,
        indexes: &[MiniBatchIndex],
        fence: u64,
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        self.with_duty(Duty::Watch, fence, |job| {
            let mut new = indexes.to_vec();
            new.retain(|&index| !job.has_ended(index) && !job.copies.contains_key(&index));
            job.copies.extend(new.iter().map(|&index| (index, WantedCopy::default())));
            new
        })
    }

    async fn open_copies(&self) -> Result<Vec<OpenCopy>, LedgerError> {
        self.with(|job| {
            let open = job.copies.iter().filter(|(_, copy)| copy.taken_by.is_none());
            let offered_by = |copy: &WantedCopy| copy.offered.as_ref().map(|(worker, _)| worker.clone());
            open.map(|(&index, copy)| OpenCopy { index, offered_by: offered_by(copy) }).collect()
        })
    }

    async fn offer_copy(
        &self,
        index: MiniBatchIndex,
        worker: &str,
        copy: &OfferedCopy,
    ) -> Result<(), LedgerError> {
        self.with(|job| {
            if let Some(wanted) = job.copies.get_mut(&index) {
                wanted.offered.get_or_insert_with(|| (worker.to_owned(), copy.clone()));
            }
        })
    }

    async fn take_copy(
        &self,
        index: MiniBatchIndex,
        worker: &str,
    ) -> Result<Option<OfferedCopy>, LedgerError> {
        self.with(|job| {
            let wanted = job.copies.get_mut(&index)?;
            let (_, copy) = wanted.offered.as_ref()?;
            let taken_by = wanted.taken_by.get_or_insert_with(|| worker.to_owned());
            (taken_by == worker).then(|| copy.clone())
        })
    }

    async fn publish_statistics(&self, parts: &[(&str, Bytes)], fence: u64) -> Result<(), LedgerError> {
        let parts = parts.iter().map(|(name, part)| ((*name).to_owned(), part.clone()));
        self.with_duty(Duty::Watch, fence, |job| job.statistics.extend(parts))
    }

    async fn statistics(&self, names: &[&str]) -> Result<Vec<Option<Bytes>>, LedgerError> {
        self.with(|job| {
            if !job.has_reader() {
                job.statistics.clear();
            }
            job.statistics_read = Some(Instant::now());
            names.iter().map(|&name| job.statistics.get(name).cloned()).collect()
        })
    }

    async fn join(&self, info: &NodeInfo, wish: Option<u32>) -> Result<u32, LedgerError> {
        self.with(|job| job.join(info, wish))
    }

    async fn take_seat(&self, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError> {
        self.with(|job| {
            let has_seat = job.id_of(&info.worker).is_some();
            (has_seat || job.seats_taken(seats.quiet) < seats.count).then(|| job.join(info, None))
        })
    }

    async fn heartbeat(&self, node_id: u32, worker: &str, report: &NodeReport) -> Result<Heard, LedgerError> {
        self.with(|job| {
            let node = job.nodes.get_mut(&node_id).filter(|node| node.info.worker == worker);
            let signal = node.map_or(Signal::Rejoin, |node| {
                node.report = report.clone();
                node.heard = Instant::now();
                let leaves = self.ledger.leaves(&node.info.instance);
                let conclusion = job.progress.conclusion.as_ref().map(|conclusion| conclusion.state);
                Signal::of(job.state, conclusion).unless_asked_to_leave(leaves)
            });
            let (live_nodes, has_succeeded) = (job.seats_taken(LIVE), job.progress.succeeded > 0);
            Heard { signal, live_nodes, has_succeeded }
        })
    }

    async fn leave(&self, node_id: u32) -> Result<(), LedgerError> {
        self.with(|job| {
            if let Some(node) = job.nodes.get_mut(&node_id) {
                node.left = true;
            }
        })
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, LedgerError> {
        self.with(|job| {
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

    async fn conclude(&self, conclusion: &Conclusion) -> Result<Conclusion, LedgerError> {
        self.with(|job| {
            let progress = &mut job.progress;
            if progress.conclusion.is_none() {
                progress.concluded_us = Some(now_us());
            }
            progress.conclusion.get_or_insert_with(|| conclusion.clone()).clone()
        })
    }

    async fn note_obstacle(&self, obstacle: Option<(ObstacleKind, &str)>) -> Result<(), LedgerError> {
        self.with(|job| {
            let known = job.obstacle.take();
            job.obstacle = obstacle.map(|(kind, reason)| {
                let since = known.filter(|known| known.0 == kind).map_or_else(Instant::now, |known| known.2);
                (kind, reason.to_owned(), since)
            });
        })
    }

    async fn lease(&self, duty: Duty, owner: &str, time: Duration) -> Result<Option<u64>, LedgerError> {
        self.with(|job| {
            let now = Instant::now();
            let lease = job.leases.entry(duty).or_insert(Lease { owner: None, until: now, fence: 0 });
            let holder = lease.owner.as_deref().filter(|_| lease.until > now);
            if holder.is_some_and(|holder| holder != owner) {
                return None;
            }
            // One who had it last and comes again keeps his number.
            if lease.owner.as_deref() != Some(owner) {
                lease.fence = self.ledger.last_fence.fetch_add(1, Ordering::Relaxed) + 1;
                lease.owner = Some(owner.to_owned());
            }
            lease.until = now + time;
            Some(lease.fence)
        })
    }

    async fn release(&self, duty: Duty, owner: &str) -> Result<(), LedgerError> {
        self.with(|job| {
            if let Some(lease) = job.leases.get_mut(&duty) {
                lease.owner = lease.owner.take().filter(|holder| holder != owner);
            }
        })
    }
}
