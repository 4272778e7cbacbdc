//! What was read of jobs that have ended, in memory: it does not change any more, and pages show it again and again.
//!
//! An object is known by the record of its job, too: one that was resumed, or removed and made again, has another. For a while after
//! the end of a job its last reports and logs are on their way; until then nothing is kept.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lru::LruCache;
use prs_orchestrator::JobRecord;

/// How long after its end a job is settled, microseconds: the program that ends it, or one that takes this over, is done by then.
const SETTLED: u64 = 120_000_000;
/// Bytes that are kept of all objects together.
const MOST: usize = 256 << 20;
/// What an object costs beside its bytes.
const BESIDE: usize = 256;

/// An object of one start of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct EndedObject {
    job_id: String,
    /// Of the record.
    version: String,
    key: String,
}

impl EndedObject {
    /// The object `key` of the job with this record; nothing where it may change still.
    pub(super) fn of(record: &JobRecord, key: &str, now_us: u64) -> Option<Self> {
        let ended_us = record.result.as_ref()?.ended_us?;
        let version = record.version.clone().filter(|_| is_settled(ended_us, now_us))?;
        Some(Self { job_id: record.job_id.clone(), version, key: key.to_owned() })
    }
}

fn is_settled(ended_us: u64, now_us: u64) -> bool {
    ended_us.saturating_add(SETTLED) < now_us
}

/// The objects.
#[derive(Debug)]
pub(super) struct EndedObjects {
    kept: Mutex<Kept>,
    most: usize,
}

impl Default for EndedObjects {
    fn default() -> Self {
        Self::with(MOST)
    }
}

#[derive(Debug)]
struct Kept {
    /// By their last use; nothing where there is no such object.
    objects: LruCache<EndedObject, Option<Bytes>>,
    bytes: usize,
}

fn cost(object: Option<&Bytes>) -> usize {
    BESIDE + object.map_or(0, Bytes::len)
}

impl EndedObjects {
    fn with(most: usize) -> Self {
        Self { kept: Mutex::new(Kept { objects: LruCache::unbounded(), bytes: 0 }), most }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object that is kept: what it holds, or that there is none.
    #[expect(clippy::option_option, reason = "that there is no such object is known, too")]
    pub(super) fn get(&self, name: &EndedObject) -> Option<Option<Bytes>> {
        self.kept().objects.get(name).cloned()
    }

    /// Keeps an object, in place of those that were not used for longest.
    pub(super) fn put(&self, name: EndedObject, object: Option<Bytes>) {
        let cost_of_new = cost(object.as_ref());
        if cost_of_new > self.most / 8 {
            return;
        }
        let mut kept = self.kept();
        if let Some(former) = kept.objects.put(name, object) {
            kept.bytes -= cost(former.as_ref());
        }
        kept.bytes += cost_of_new;
        while kept.bytes > self.most {
            let Some((_, oldest)) = kept.objects.pop_lru() else { return };
            kept.bytes -= cost(oldest.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(job_id: &str, version: &str) -> EndedObject {
        EndedObject { job_id: job_id.to_owned(), version: version.to_owned(), key: "logs/x".to_owned() }
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let kept = EndedObjects::with(16 * 1_000);
        let object = || Some(Bytes::from(vec![0; 1_000]));
        for number in 0..20 {
            kept.put(named(&number.to_string(), "1"), object());
            assert_eq!(kept.get(&named("0", "1")), Some(object()), "it is used all the time");
        }
        let known = (0..20).filter(|number| kept.get(&named(&number.to_string(), "1")).is_some()).count();
        assert_eq!(known, 16_000 / (1_000 + BESIDE));
        assert!(kept.get(&named("1", "1")).is_none() && kept.get(&named("19", "1")).is_some());
        assert!(kept.get(&named("19", "2")).is_none(), "the job was resumed");
        kept.put(named("none", "1"), None);
        assert_eq!(kept.get(&named("none", "1")), Some(None));
        kept.put(named("large", "1"), Some(Bytes::from(vec![0; 9_000])));
        assert!(kept.get(&named("large", "1")).is_none());
    }

    #[test]
    fn a_job_is_kept_once_it_is_settled() {
        assert!(!is_settled(5, 5 + SETTLED) && is_settled(5, 6 + SETTLED));
        let spec = prs_common::job::JobSpec::new("job", "/code", "main.py", vec![]);
        let record = JobRecord::new("job-1".to_owned(), String::new(), spec);
        assert_eq!(EndedObject::of(&record, "logs/x", u64::MAX), None, "it runs");
    }
}
