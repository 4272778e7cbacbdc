//! The index of jobs, in memory.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::ledger::index::ENDED_LATELY;
use crate::ledger::{EndKind, EndedJob, Filling, IndexChanges, IndexedJob, Noted};
use crate::timestamp::now_us;

/// The index, as the ledger keeps it.
#[derive(Debug, Default)]
pub(super) struct Index {
    jobs: HashMap<String, Entry>,
    /// The number of the last change.
    last: u64,
    /// Whether all jobs were found.
    is_filled: bool,
    found: u64,
    total: u64,
    keeper: Option<(String, Instant)>,
    /// The filling that began last.
    filler: Option<String>,
    /// How many jobs ended, by how.
    pub(super) ended: BTreeMap<EndKind, u64>,
}

#[derive(Debug)]
struct Entry {
    order: u64,
    /// Nothing once the job was removed.
    summary: Option<Bytes>,
    changed: u64,
    /// Whether the end of this start was counted.
    is_counted: bool,
}

impl Index {
    pub(super) fn note(&mut self, job: &IndexedJob, noted: Noted) -> bool {
        let known = self.jobs.get(&job.job_id);
        if let Some(known) = known {
            let is_newer = known.summary.is_some() && known.order > job.order;
            if noted == Noted::Found || is_newer {
                return false;
            }
        }
        let was_removed = known.is_some_and(|known| known.summary.is_none());
        let was_active = known.is_some_and(|known| known.order < job.order);
        let mut is_counted = known.is_some_and(|known| known.order == job.order && known.is_counted);
        if let Some(EndedJob { kind, ended_us }) = job.ended.as_ref().filter(|_| !is_counted) {
            is_counted = true;
            let is_late = now_us().saturating_sub(*ended_us) > ENDED_LATELY.as_micros() as u64;
            if noted == Noted::Now && !was_removed && (was_active || !is_late) {
                *self.ended.entry(kind.clone()).or_default() += 1;
            }
        }
        if let Some(known) = self.jobs.get_mut(&job.job_id) {
            known.is_counted = is_counted;
            if known.order == job.order && known.summary.as_ref() == Some(&job.summary) {
                return true;
            }
        }
        self.last += 1;
        let summary = Some(job.summary.clone());
        let entry = Entry { order: job.order, summary, changed: self.last, is_counted };
        self.jobs.insert(job.job_id.clone(), entry);
        true
    }

    pub(super) fn forget(&mut self, job_id: &str) {
        if self.jobs.get(job_id).is_some_and(|known| known.summary.is_none()) {
            return;
        }
        self.last += 1;
        let removed = Entry { order: 0, summary: None, changed: self.last, is_counted: false };
        self.jobs.insert(job_id.to_owned(), removed);
    }

    pub(super) fn changes(&self, since: u64, limit: usize) -> IndexChanges {
        let mut changed: Vec<_> = self.jobs.iter().filter(|(_, entry)| entry.changed > since).collect();
        changed.sort_by_key(|(_, entry)| entry.changed);
        changed.truncate(limit);
        IndexChanges {
            filling: if self.is_filled { "1".to_owned() } else { String::new() },
            found: self.found,
            total: self.total,
            jobs: self.jobs.values().filter(|entry| entry.summary.is_some()).count() as u64,
            last: changed.last().map_or(since, |(_, entry)| entry.changed),
            changed: changed.into_iter().map(|(job, entry)| (job.clone(), entry.summary.clone())).collect(),
        }
    }

    pub(super) fn keep(&mut self, owner: &str, time: Duration) -> bool {
        let now = Instant::now();
        let is_free = self.keeper.as_ref().is_none_or(|(other, until)| other == owner || *until <= now);
        if is_free {
            self.keeper = Some((owner.to_owned(), now + time));
        }
        is_free
    }

    pub(super) fn fill(&mut self, filling: Filling<'_>) -> bool {
        let Filling { owner, name, begins, found, total, is_filled } = filling;
        let keeps = self.keeper.as_ref().is_some_and(|(keeper, _)| keeper == owner);
        let goes_on = begins || self.filler.as_deref() == Some(name);
        if keeps && goes_on {
            self.filler = Some(name.to_owned());
            (self.found, self.total) = (found, total);
            self.is_filled |= is_filled;
        }
        keeps && goes_on
    }
}
