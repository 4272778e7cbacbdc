//! What brings jobs and workers together: offers, idle workers, targets, bells.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::bell::RedisBell;
use super::job::RedisJob;
use super::keys::TargetKey;
use super::packed::{Packed, state_called};
use super::{NONE, RedisLedger, TIME_TO_LIVE, call_name, index, memory_in, scripts};
use crate::ledger::history::of_last_day;
use crate::ledger::{
    ASK_IS_TOLD, Bell, EndKind, Filling, HISTORY_STEP, HISTORY_STEPS, IdleWorker, IndexChanges, IndexedJob,
    JobLedger, KnownJob, Ledger, LedgerError, MOST_ASKED, Memory, NodeInfo, Noted, Offer, Offered, Offers,
    TargetCounts,
};
use crate::message_pack;

/// How long the ledger remembers that a worker had nothing to do.
const IDLE_IS_REMEMBERED: Duration = Duration::from_mins(1);

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Ledger for RedisLedger {
    fn job(&self, run: &str) -> Arc<dyn JobLedger> {
        Arc::new(RedisJob { ledger: self.clone(), job: run.to_owned() })
    }

    async fn offer(&self, target: &str, offer: &Offer) -> Result<(), LedgerError> {
        let arguments = (&offer.run, Packed(offer), TargetKey::Bell.of(target), TIME_TO_LIVE.as_secs());
        self.run_for(target, &scripts::OFFER, &[TargetKey::Offers], arguments).await
    }

    async fn withdraw(&self, target: &str, run: &str) -> Result<(), LedgerError> {
        self.run_for(target, &scripts::WITHDRAW, &[TargetKey::Offers], run).await
    }

    async fn offers(
        &self,
        target: &str,
        worker: Option<&NodeInfo>,
        quiet: Duration,
    ) -> Result<Offers, LedgerError> {
        type Answer = (bool, bool, Vec<(Vec<u8>, u32, Option<Vec<u8>>, bool, bool, Option<u64>)>);
        let (quiet, remembered) = (micros(quiet), micros(IDLE_IS_REMEMBERED));
        let name = worker.map_or("", |worker| &worker.instance);
        let arguments =
            (worker.is_some(), Packed(worker), quiet, remembered, TIME_TO_LIVE.as_secs(), target, name);
        let keys =
            [TargetKey::Offers, TargetKey::Idle, TargetKey::Filled, TargetKey::All, TargetKey::Draining];
        let (are_filled, leaves, found): Answer =
            self.run_for(target, &scripts::OFFERS, &keys, arguments).await?;
        let mut offered = Vec::with_capacity(found.len());
        for (offer, nodes, state, is_concluded, is_watched, unmoved) in found {
            let unmoved = unmoved.map(Duration::from_micros);
            // A state of no such name is what is left of a job that the ledger lost in part.
            let state = state.and_then(|state| state_called(&state));
            let known = state.map(|state| KnownJob { state, is_concluded, is_watched });
            match message_pack::decode(&offer) {
                Ok(offer) => offered.push(Offered { offer, nodes, known, unmoved }),
                // The others do not wait for one that another program has put there.
                Err(error) => tracing::warn!(%error, target, "an offer in the ledger is left alone"),
            }
        }
        Ok(Offers { offered, are_filled, leaves })
    }

    async fn idle(&self, target: &str, within: Duration) -> Result<u64, LedgerError> {
        self.run_for(target, &scripts::IDLE, &[TargetKey::Idle], micros(within)).await
    }

    async fn idle_workers(&self, target: &str, within: Duration) -> Result<Vec<IdleWorker>, LedgerError> {
        let found: Vec<(Packed<NodeInfo>, u64)> =
            self.run_for(target, &scripts::IDLE_WORKERS, &[TargetKey::Idle], micros(within)).await?;
        let idle = |(Packed(info), silent)| IdleWorker { info, silent: Duration::from_micros(silent) };
        Ok(found.into_iter().map(idle).collect())
    }

    async fn targets(&self) -> Result<Vec<String>, LedgerError> {
        self.run_for("", &scripts::TARGETS, &[TargetKey::All], micros(TIME_TO_LIVE)).await
    }

    async fn begin_to_fill(&self, target: &str, time: Duration) -> Result<bool, LedgerError> {
        let arguments = (call_name(), millis(time));
        self.run_for(target, &scripts::BEGIN_TO_FILL, &[TargetKey::Filled], arguments).await
    }

    async fn filled(&self, target: &str, time: Duration) -> Result<(), LedgerError> {
        self.run_for(target, &scripts::FILLED, &[TargetKey::Filled], millis(time)).await
    }

    async fn clock(&self) -> Result<(u64, String), LedgerError> {
        self.run_for("", &scripts::CLOCK, &[], NONE).await
    }

    async fn memory(&self) -> Result<(Option<Memory>, String), LedgerError> {
        let (said, version): (String, String) = self.run_for("", &scripts::ROOM, &[], NONE).await?;
        Ok((memory_in(&said), version))
    }

    async fn belongs_to(&self, storage: &str) -> Result<String, LedgerError> {
        self.run_for("", &scripts::BELONGS_TO, &[TargetKey::Storage], storage).await
    }

    async fn ring(&self, target: &str) -> Result<(), LedgerError> {
        self.run_for(target, &scripts::RING, &[], TargetKey::Bell.of(target)).await
    }

    fn bell(&self, targets: &[String]) -> Box<dyn Bell> {
        let channels = targets.iter().map(|target| TargetKey::Bell.of(target)).collect();
        Box::new(RedisBell { connection: self.connection.clone(), channels, listening: None })
    }

    async fn note_history(&self, target: &str, counts: TargetCounts) -> Result<bool, LedgerError> {
        let TargetCounts { wanted, live, idle, waiting } = counts;
        let (step, kept) = (micros(HISTORY_STEP), HISTORY_STEPS);
        let arguments = (step, kept, wanted, live, idle, waiting, TIME_TO_LIVE.as_secs());
        self.run_for(target, &scripts::NOTE_HISTORY, &[TargetKey::History], arguments).await
    }

    async fn history(&self, target: &str) -> Result<Vec<(u64, TargetCounts)>, LedgerError> {
        let (now, kept): (u64, HashMap<String, String>) =
            self.run_for(target, &scripts::HISTORY, &[TargetKey::History], micros(HISTORY_STEP)).await?;
        let read = |text: &String| {
            let numbers: Vec<u64> = text.split(' ').map_while(|number| number.parse().ok()).collect();
            let [step, wanted, live, idle, waiting] = numbers[..] else { return None };
            Some((step, TargetCounts { wanted, live, idle, waiting }))
        };
        Ok(of_last_day(now, kept.values().filter_map(read).collect()))
    }

    async fn note_ask(&self, target: &str) -> Result<(), LedgerError> {
        let arguments = (target, ASK_IS_TOLD.as_secs(), MOST_ASKED);
        self.run_for("", &scripts::NOTE_ASK, &[TargetKey::Asked], arguments).await
    }

    async fn asks(&self) -> Result<HashMap<String, Duration>, LedgerError> {
        let found: Vec<(String, u64)> =
            self.run_for("", &scripts::ASKS, &[TargetKey::Asked], ASK_IS_TOLD.as_secs()).await?;
        Ok(found.into_iter().map(|(target, ago)| (target, Duration::from_micros(ago))).collect())
    }

    async fn drain(&self, worker: &str, reason: &str, time: Duration) -> Result<(), LedgerError> {
        let arguments = (worker, reason, time.as_secs().max(1));
        self.run_for("", &scripts::DRAIN, &[TargetKey::Draining], arguments).await
    }

    async fn draining(&self) -> Result<HashMap<String, String>, LedgerError> {
        self.run_for("", &scripts::DRAINING, &[TargetKey::Draining], NONE).await
    }

    async fn retire(&self, target: &str, worker: &NodeInfo) -> Result<(), LedgerError> {
        let keys = [TargetKey::Idle, TargetKey::Draining];
        self.run_for(target, &scripts::RETIRE, &keys, (Packed(worker), &worker.instance)).await
    }

    async fn note_job(&self, job: &IndexedJob, noted: Noted) -> Result<bool, LedgerError> {
        index::note(self, job, noted).await
    }

    async fn forget_job(&self, job_id: &str) -> Result<(), LedgerError> {
        index::forget(self, job_id).await
    }

    async fn changed_jobs(&self, since: u64, limit: usize) -> Result<IndexChanges, LedgerError> {
        index::changes(self, since, limit).await
    }

    async fn ended_jobs(&self) -> Result<BTreeMap<EndKind, u64>, LedgerError> {
        index::ended(self).await
    }

    async fn keep_index(&self, owner: &str, time: Duration) -> Result<bool, LedgerError> {
        index::keep(self, owner, time).await
    }

    async fn fill_index(&self, filling: Filling<'_>) -> Result<bool, LedgerError> {
        index::fill(self, filling).await
    }
}
