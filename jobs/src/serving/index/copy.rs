//! A copy of the index in memory: it asks what changed since it asked last, and costs no more than that.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use prs_common::ledger::{IndexChanges, Ledger, LedgerError};
use prs_orchestrator::report::summary::JobSummary;

/// Changes asked for at a time.
const AT_A_TIME: usize = 500;

/// All jobs of a fleet, as the index in the ledger had them last.
#[derive(Debug, Clone, Default)]
pub struct IndexCopy {
    known: HashMap<String, Arc<JobSummary>>,
    /// The same, the newest first.
    sorted: Vec<Arc<JobSummary>>,
    /// The number of the last change that is in it.
    since: u64,
    /// The name of the filling of the index; empty until it is filled.
    filling: String,
    /// Jobs from before the index was lost, which it does not have again yet.
    former: HashSet<String>,
    /// Jobs with a summary that another version of prs wrote.
    unreadable: HashSet<String>,
    /// How far the index is filled, and how many jobs there are, while it is.
    partial: Option<(u64, u64)>,
    /// Whether all of it was asked for just now, because the counts differed.
    is_recounted: bool,
}

impl IndexCopy {
    /// Takes in what changed; says whether anything did.
    ///
    /// # Errors
    /// The ledger does not answer: the copy is as it was.
    pub async fn refresh(&mut self, ledger: &dyn Ledger) -> Result<bool, LedgerError> {
        let mut is_changed = false;
        loop {
            let changes = ledger.changed_jobs(self.since, AT_A_TIME).await?;
            let (took_some, is_last) = self.take(changes);
            is_changed |= took_some;
            if is_last {
                return Ok(is_changed);
            }
        }
    }

    /// All jobs, the newest first.
    pub fn jobs(&self) -> &[Arc<JobSummary>] {
        &self.sorted
    }

    /// Jobs found so far, and jobs there are, while the index is filled.
    pub fn partial(&self) -> Option<(u64, u64)> {
        self.partial
    }

    /// Whether the index has been filled.
    pub fn is_filled(&self) -> bool {
        !self.filling.is_empty()
    }

    /// Whether the index of now has the job.
    pub fn has(&self, job_id: &str) -> bool {
        (self.known.contains_key(job_id) && !self.former.contains(job_id)) || self.unreadable.contains(job_id)
    }

    /// Takes one answer in; says whether the copy changed, and whether there is no more to ask for.
    fn take(&mut self, changes: IndexChanges) -> (bool, bool) {
        let IndexChanges { filling, found, total, jobs, last, changed } = changes;
        if !self.filling.is_empty() && filling != self.filling {
            // The ledger has lost it. What was known stays until that is known again.
            self.filling.clear();
            self.begin_again();
            return (true, false);
        }
        self.filling = filling;
        let partial = (!self.is_filled()).then_some((found, total));
        let mut is_changed = std::mem::replace(&mut self.partial, partial) != partial;
        let is_last = changed.len() < AT_A_TIME;
        self.since = self.since.max(last);
        for (job_id, summary) in changed {
            is_changed = true;
            self.former.remove(&job_id);
            self.unreadable.remove(&job_id);
            match summary.as_deref().map(JobSummary::read) {
                None => self.remove(&job_id),
                Some(Some(summary)) => self.put(Arc::new(summary)),
                Some(None) => {
                    self.remove(&job_id);
                    self.unreadable.insert(job_id);
                }
            }
        }
        if !is_last || !self.is_filled() {
            return (is_changed, is_last);
        }
        for gone in std::mem::take(&mut self.former) {
            is_changed = true;
            self.remove(&gone);
        }
        let is_right = (self.known.len() + self.unreadable.len()) as u64 == jobs;
        if is_right || self.is_recounted {
            self.is_recounted = !is_right;
            return (is_changed, true);
        }
        // It was away for so long that the index does not remember what was removed.
        self.is_recounted = true;
        self.begin_again();
        (is_changed, false)
    }

    fn begin_again(&mut self) {
        self.since = 0;
        self.former = self.known.keys().cloned().collect();
        self.unreadable.clear();
    }

    fn put(&mut self, summary: Arc<JobSummary>) {
        self.remove(&summary.job_id);
        let at = self.sorted.partition_point(|other| order(other, &summary) == Ordering::Less);
        self.sorted.insert(at, Arc::clone(&summary));
        self.known.insert(summary.job_id.clone(), summary);
    }

    fn remove(&mut self, job_id: &str) {
        let Some(former) = self.known.remove(job_id) else { return };
        if let Ok(at) = self.sorted.binary_search_by(|other| order(other, &former)) {
            self.sorted.remove(at);
        }
    }
}

/// The newest first.
fn order(one: &JobSummary, other: &JobSummary) -> Ordering {
    (other.submitted_us, &other.job_id).cmp(&(one.submitted_us, &one.job_id))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prs_common::job::JobSpec;
    use prs_common::ledger::{EmbeddedLedger, Filling, IndexedJob, JobState, Noted};
    use prs_orchestrator::JobRecord;

    use super::*;

    fn summary(job_id: &str, submitted_us: u64, state: JobState) -> JobSummary {
        let spec = JobSpec::new("job", "/code", "main.py", vec![]);
        let record = JobRecord { submitted_us, ..JobRecord::new(job_id.to_owned(), String::new(), spec) };
        JobSummary::of(&record, state, &record.status, None, (None, None))
    }

    fn ids(copy: &IndexCopy) -> Vec<&str> {
        copy.jobs().iter().map(|job| job.job_id.as_str()).collect()
    }

    fn filling(found: u64, total: u64) -> Filling<'static> {
        Filling { owner: "me", name: "a filling", begins: true, found, total, is_filled: false }
    }

    async fn fill(ledger: &EmbeddedLedger, jobs: u64) {
        assert!(ledger.keep_index("me", Duration::from_secs(9)).await.unwrap());
        let filling = filling(jobs, jobs);
        assert!(ledger.fill_index(Filling { is_filled: true, ..filling }).await.unwrap());
    }

    #[tokio::test]
    async fn a_copy_follows_what_changes() {
        let (ledger, mut copy) = (EmbeddedLedger::default(), IndexCopy::default());
        for at in 0..1_200 {
            let job = summary(&format!("job-{at:04}"), at, JobState::Queued);
            assert!(job.note(&ledger, Noted::Now).await.unwrap());
        }
        assert!(ledger.keep_index("me", Duration::from_secs(9)).await.unwrap());
        ledger.fill_index(filling(300, 1_200)).await.unwrap();
        assert!(copy.refresh(&ledger).await.unwrap());
        assert_eq!((copy.jobs().len(), copy.partial(), copy.is_filled()), (1_200, Some((300, 1_200)), false));
        assert!(copy.jobs().is_sorted_by(|one, other| one.submitted_us > other.submitted_us));
        fill(&ledger, 1_200).await;
        assert!(copy.refresh(&ledger).await.unwrap(), "it is filled now");
        assert_eq!((copy.partial(), copy.refresh(&ledger).await.unwrap()), (None, false));
        ledger.forget_job("job-0007").await.unwrap();
        summary("job-0009", 9, JobState::Failed).note(&ledger, Noted::Now).await.unwrap();
        assert!(copy.refresh(&ledger).await.unwrap());
        assert_eq!((copy.jobs().len(), copy.has("job-0007")), (1_199, false));
        let changed = copy.jobs().iter().find(|job| job.job_id == "job-0009").unwrap();
        assert_eq!(changed.state, JobState::Failed);
    }

    #[tokio::test]
    async fn what_was_known_stays_until_a_lost_index_is_filled_again() {
        let (first, mut copy) = (EmbeddedLedger::default(), IndexCopy::default());
        for (at, id) in ["a", "b", "c"].into_iter().enumerate() {
            summary(id, at as u64, JobState::Queued).note(&first, Noted::Now).await.unwrap();
        }
        fill(&first, 3).await;
        copy.refresh(&first).await.unwrap();
        assert_eq!(ids(&copy), ["c", "b", "a"]);
        let second = EmbeddedLedger::default();
        summary("b", 1, JobState::Running).note(&second, Noted::Now).await.unwrap();
        copy.refresh(&second).await.unwrap();
        assert_eq!((ids(&copy), copy.has("a"), copy.has("b")), (vec!["c", "b", "a"], false, true));
        assert_eq!(copy.partial(), Some((0, 0)));
        summary("a", 0, JobState::Queued).note(&second, Noted::Found).await.unwrap();
        fill(&second, 2).await;
        copy.refresh(&second).await.unwrap();
        assert_eq!((ids(&copy), copy.partial()), (vec!["b", "a"], None), "c is gone");
    }

    #[tokio::test]
    async fn a_copy_that_missed_a_removal_counts_again() {
        let (ledger, mut copy) = (EmbeddedLedger::default(), IndexCopy::default());
        summary("a", 0, JobState::Queued).note(&ledger, Noted::Now).await.unwrap();
        let said = "of another version".into();
        let other = IndexedJob { job_id: "z".to_owned(), order: 1, summary: said, ended: None };
        ledger.note_job(&other, Noted::Now).await.unwrap();
        fill(&ledger, 2).await;
        copy.refresh(&ledger).await.unwrap();
        assert_eq!((ids(&copy), copy.has("z")), (vec!["a"], true));
        copy.put(Arc::new(summary("ghost", 5, JobState::Running)));
        assert!(copy.refresh(&ledger).await.unwrap());
        assert_eq!(ids(&copy), ["a"]);
    }
}
