//! The ledger in the memory of one process, for embedded jobs and tests.

mod index;
mod job;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;

use self::index::Index;
use self::job::{EmbeddedJob, Job};
use super::history::of_last_day;
use super::{
    ASK_IS_TOLD, Bell, EndKind, Filling, HISTORY_STEP, HISTORY_STEPS, IdleWorker, IndexChanges, IndexedJob,
    JobLedger, KnownJob, Ledger, LedgerError, MOST_ASKED, Memory, NodeInfo, Noted, Offer, Offered, Offers,
    TargetCounts,
};
use crate::timestamp::now_us;

/// A ledger in memory. Clones share their jobs.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedLedger {
    jobs: Arc<Mutex<HashMap<String, Job>>>,
    /// The last number of a lease, of whatever job: also a job that is forgotten and made again gets none twice.
    last_fence: Arc<AtomicU64>,
    targets: Arc<Mutex<HashMap<String, Target>>>,
    /// Identity of the storage it belongs to.
    storage: Arc<Mutex<Option<String>>>,
    /// When autoscalers asked for targets last.
    asked: Arc<Mutex<HashMap<String, Instant>>>,
    /// The workers that were asked to leave, why, and until when that is remembered.
    draining: Arc<Mutex<HashMap<String, (String, Instant)>>>,
    /// The index of jobs.
    index: Arc<Mutex<Index>>,
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
    history: BTreeMap<u64, TargetCounts>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EmbeddedLedger {
    /// Whether a worker was asked to leave.
    fn leaves(&self, instance: &str) -> bool {
        let now = Instant::now();
        lock(&self.draining).get(instance).is_some_and(|(_, until)| *until > now)
    }

    fn of_target<T>(&self, target: &str, work: impl FnOnce(&mut Target) -> T) -> T {
        work(lock(&self.targets).entry(target.to_owned()).or_default())
    }
}

impl fmt::Display for EmbeddedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ledger in memory")
    }
}

#[async_trait]
impl Ledger for EmbeddedLedger {
    fn job(&self, run: &str) -> Arc<dyn JobLedger> {
        Arc::new(EmbeddedJob { ledger: self.clone(), job: run.to_owned() })
    }

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
            let known = lock(&self.jobs).get(&offer.run).map(|job| {
                let known = KnownJob {
                    state: job.state,
                    is_concluded: job.progress.conclusion.is_some(),
                    is_watched: job.is_watched(),
                };
                (job.seats_taken(quiet), known, job.unmoved())
            });
            let (nodes, known, unmoved) =
                known.map_or((0, None, None), |(nodes, known, unmoved)| (nodes, Some(known), unmoved));
            Offered { offer, nodes, known, unmoved }
        };
        let leaves = worker.is_some_and(|worker| self.leaves(&worker.instance));
        Ok(Offers { offered: offers.into_iter().map(look).collect(), are_filled, leaves })
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
        let targets = lock(&self.targets);
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

    async fn clock(&self) -> Result<(u64, String), LedgerError> {
        Ok((now_us(), String::new()))
    }

    async fn memory(&self) -> Result<(Option<Memory>, String), LedgerError> {
        Ok((None, String::new()))
    }

    async fn belongs_to(&self, storage: &str) -> Result<String, LedgerError> {
        let mut known = lock(&self.storage);
        Ok(known.get_or_insert_with(|| storage.to_owned()).clone())
    }

    async fn ring(&self, _target: &str) -> Result<(), LedgerError> {
        self.rung.send_modify(|rung| *rung += 1);
        Ok(())
    }

    fn bell(&self, _targets: &[String]) -> Box<dyn Bell> {
        Box::new(EmbeddedBell { rung: self.rung.subscribe() })
    }

    async fn note_history(&self, target: &str, counts: TargetCounts) -> Result<bool, LedgerError> {
        let step = now_us() / HISTORY_STEP.as_micros() as u64;
        Ok(self.of_target(target, |target| {
            target.history.retain(|known, _| known + HISTORY_STEPS > step);
            let is_new = !target.history.contains_key(&step);
            target.history.entry(step).or_insert(counts);
            is_new
        }))
    }

    async fn history(&self, target: &str) -> Result<Vec<(u64, TargetCounts)>, LedgerError> {
        let now = now_us() / HISTORY_STEP.as_micros() as u64;
        let kept = self.of_target(target, |target| target.history.clone());
        Ok(of_last_day(now, kept.into_iter().collect()))
    }

    async fn note_ask(&self, target: &str) -> Result<(), LedgerError> {
        let mut asked = lock(&self.asked);
        asked.retain(|_, at| at.elapsed() < ASK_IS_TOLD);
        if asked.len() < MOST_ASKED || asked.contains_key(target) {
            asked.insert(target.to_owned(), Instant::now());
        }
        Ok(())
    }

    async fn asks(&self) -> Result<HashMap<String, Duration>, LedgerError> {
        let asked = lock(&self.asked);
        let asked = asked.iter().map(|(target, at)| (target.clone(), at.elapsed()));
        Ok(asked.filter(|(_, ago)| *ago < ASK_IS_TOLD).collect())
    }

    async fn drain(&self, worker: &str, reason: &str, time: Duration) -> Result<(), LedgerError> {
        let wish = (reason.to_owned(), Instant::now() + time);
        lock(&self.draining).insert(worker.to_owned(), wish);
        Ok(())
    }

    async fn draining(&self) -> Result<HashMap<String, String>, LedgerError> {
        let mut draining = lock(&self.draining);
        let now = Instant::now();
        draining.retain(|_, (_, until)| *until > now);
        Ok(draining.iter().map(|(worker, (reason, _))| (worker.clone(), reason.clone())).collect())
    }

    async fn retire(&self, target: &str, worker: &NodeInfo) -> Result<(), LedgerError> {
        self.of_target(target, |target| target.idle.remove(&worker.worker));
        lock(&self.draining).remove(&worker.instance);
        Ok(())
    }

    async fn note_job(&self, job: &IndexedJob, noted: Noted) -> Result<bool, LedgerError> {
        Ok(lock(&self.index).note(job, noted))
    }

    async fn forget_job(&self, job_id: &str) -> Result<(), LedgerError> {
        lock(&self.index).forget(job_id);
        Ok(())
    }

    async fn changed_jobs(&self, since: u64, limit: usize) -> Result<IndexChanges, LedgerError> {
        Ok(lock(&self.index).changes(since, limit))
    }

    async fn ended_jobs(&self) -> Result<BTreeMap<EndKind, u64>, LedgerError> {
        Ok(lock(&self.index).ended.clone())
    }

    async fn keep_index(&self, owner: &str, time: Duration) -> Result<bool, LedgerError> {
        Ok(lock(&self.index).keep(owner, time))
    }

    async fn fill_index(&self, filling: Filling<'_>) -> Result<bool, LedgerError> {
        Ok(lock(&self.index).fill(filling))
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
