//! Keeps the index of jobs: fills it from storage, and has it say what is true where nobody else does.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::ledger::{Filling, Ledger, Noted};
use prs_common::timestamp::now_us;
use prs_orchestrator::JobRecord;
use prs_orchestrator::job::record::JobRecordError;

use super::{IndexCopy, JobSummary, summary};
use crate::failure::Failure;
use crate::homes::fleet::{FleetHome, Reader};
use crate::homes::{Home, Whereabouts, look_at_each};

/// How long the duty to keep the index is taken for; longer than a round of it takes.
const DUTY: Duration = Duration::from_secs(30);
/// Jobs looked at between two notes of how far the index is filled.
const AT_A_TIME: usize = 64;
/// A job that has not ended is looked at where nobody has noted it for so long.
const UNNOTED: Duration = Duration::from_secs(10);
/// Between two comparisons with storage.
const COMPARE_INTERVAL: Duration = Duration::from_mins(1);

/// Keeps the index of jobs, while no other program does.
#[derive(Debug)]
pub struct Keeper {
    owner: String,
    looked: Option<Instant>,
    compared: Option<Instant>,
}

impl Keeper {
    /// A program that may keep the index; `owner` is a name that no other has.
    pub fn new(owner: String) -> Self {
        Self { owner, looked: None, compared: None }
    }

    /// Whether something may be to do for the index of which this is a copy.
    pub fn is_due(&self, copy: &IndexCopy) -> bool {
        !copy.is_filled() || is_due(self.looked, UNNOTED) || is_due(self.compared, COMPARE_INTERVAL)
    }

    /// Does what is due, where this program keeps the index; `copy` is the index of now.
    ///
    /// # Errors
    /// A server does not answer; what was not done is due again.
    pub async fn tend(&mut self, whereabouts: &Whereabouts, copy: &IndexCopy) -> Result<(), Failure> {
        let Some(reader) = Reader::connect(whereabouts).await? else { return Ok(()) };
        let Some(ledger) = reader.ledger(&*whereabouts.caller).await? else { return Ok(()) };
        if !self.keeps(&*ledger).await? {
            // Another program does: it is asked for again when something may be due.
            (self.looked, self.compared) = (Some(Instant::now()), Some(Instant::now()));
            return Ok(());
        }
        let index = Kept { reader, ledger, whereabouts };
        if !copy.is_filled() {
            return self.fill(&index, copy).await;
        }
        if is_due(self.looked, UNNOTED) {
            let begun = Instant::now();
            self.look_at_unnoted(&index, copy).await?;
            self.looked = Some(begun);
        }
        if is_due(self.compared, COMPARE_INTERVAL) {
            let begun = Instant::now();
            self.compare(&index, copy).await?;
            self.compared = Some(begun);
        }
        Ok(())
    }

    /// Whether this program keeps the index now; where no program does, it does from here on.
    ///
    /// # Errors
    /// The ledger does not answer.
    pub async fn is_keeper(owner: &str, whereabouts: &Whereabouts) -> Result<bool, Failure> {
        let Some(reader) = Reader::connect(whereabouts).await? else { return Ok(false) };
        let Some(ledger) = reader.ledger(&*whereabouts.caller).await? else { return Ok(false) };
        ledger.keep_index(owner, DUTY).await.map_err(Failure::server)
    }

    async fn keeps(&self, ledger: &dyn Ledger) -> Result<bool, Failure> {
        ledger.keep_index(&self.owner, DUTY).await.map_err(Failure::server)
    }

    /// Finds all jobs in storage; `copy` is what was known of the index.
    async fn fill(&mut self, index: &Kept<'_>, copy: &IndexCopy) -> Result<(), Failure> {
        let ids = index.reader.job_ids().await?;
        if ids.is_empty() && !copy.jobs().is_empty() {
            index.reader.check_identity().await?;
        }
        let total = ids.len() as u64;
        let name = format!("{}-{:x}", self.owner, now_us());
        let filling =
            Filling { owner: &self.owner, name: &name, begins: false, found: 0, total, is_filled: false };
        if !self.fills(index, Filling { begins: true, ..filling }).await? {
            return Ok(());
        }
        // What the index has from here on is lost with the name of this filling, and with nothing else.
        let mut present = IndexCopy::default();
        present.refresh(&*index.ledger).await.map_err(Failure::server)?;
        let left: Vec<String> = ids.into_iter().filter(|id| !present.has(id)).collect();
        let mut found = total - left.len() as u64;
        for some in left.chunks(AT_A_TIME) {
            if !self.fills(index, Filling { found, ..filling }).await? {
                return Ok(());
            }
            index.look_at(some, Noted::Found).await?;
            found += some.len() as u64;
        }
        if self.fills(index, Filling { found: total, is_filled: true, ..filling }).await? {
            tracing::info!(jobs = total, "the index of jobs is filled from storage");
            self.compared = Some(Instant::now());
        }
        Ok(())
    }

    /// Notes how far the index is filled; false where another program keeps it by now, or the ledger has lost it.
    async fn fills(&self, index: &Kept<'_>, filling: Filling<'_>) -> Result<bool, Failure> {
        if !self.keeps(&*index.ledger).await? {
            return Ok(false);
        }
        index.ledger.fill_index(filling).await.map_err(Failure::server)
    }

    /// Looks at the jobs that have not ended and that nobody notes: nobody watches over them.
    async fn look_at_unnoted(&self, index: &Kept<'_>, copy: &IndexCopy) -> Result<(), Failure> {
        let since = now_us().saturating_sub(UNNOTED.as_micros() as u64);
        let unnoted = copy.jobs().iter().filter(|job| !job.state.is_final() && job.as_of_us < since);
        let ids: Vec<String> = unnoted.map(|job| job.job_id.clone()).collect();
        self.look_at_all(index, &ids).await
    }

    async fn look_at_all(&self, index: &Kept<'_>, ids: &[String]) -> Result<(), Failure> {
        for some in ids.chunks(AT_A_TIME) {
            if !self.keeps(&*index.ledger).await? {
                return Ok(());
            }
            index.look_at(some, Noted::Now).await?;
        }
        Ok(())
    }

    /// Compares the index with the jobs in storage.
    async fn compare(&self, index: &Kept<'_>, copy: &IndexCopy) -> Result<(), Failure> {
        // In this order: a job that is submitted meanwhile is in storage first.
        let stored: HashSet<String> = index.reader.job_ids().await?.into_iter().collect();
        let unknown: Vec<String> = stored.iter().filter(|id| !copy.has(id)).cloned().collect();
        self.look_at_all(index, &unknown).await?;
        let since = now_us().saturating_sub(UNNOTED.as_micros() as u64);
        let is_gone = |job: &&Arc<JobSummary>| !stored.contains(&job.job_id) && job.as_of_us < since;
        let gone: Vec<_> = copy.jobs().iter().filter(is_gone).collect();
        // Storage that is not there looks as if all jobs were removed.
        if gone.is_empty() {
            index.reader.check_identity_again().await?;
        } else {
            index.reader.check_identity().await?;
        }
        for job in gone {
            let record = JobRecord::read(&*index.reader.job_storage(&job.job_id)).await;
            match record {
                Err(JobRecordError::Absent { .. }) => {
                    index.ledger.forget_job(&job.job_id).await.map_err(Failure::server)?;
                }
                Err(JobRecordError::Storage(error)) => return Err(Failure::server(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_due(last: Option<Instant>, interval: Duration) -> bool {
    last.is_none_or(|at| at.elapsed() >= interval)
}

/// The index that is kept.
struct Kept<'a> {
    reader: Arc<Reader>,
    ledger: Arc<dyn Ledger>,
    whereabouts: &'a Whereabouts,
}

impl Kept<'_> {
    /// Looks at these jobs side by side, and notes what is seen.
    async fn look_at(&self, ids: &[String], noted: Noted) -> Result<(), Failure> {
        let caller = &self.whereabouts.caller;
        let homes = ids.iter().map(|id| {
            let home = FleetHome::new(Arc::clone(&self.reader), caller, id)?;
            Ok(Box::new(home) as Home)
        });
        let homes = homes.collect::<Result<Vec<_>, Failure>>()?;
        for seen in look_at_each(homes, &**caller).await?.into_iter().flatten() {
            summary(&seen).note(&*self.ledger, noted).await.map_err(Failure::server)?;
        }
        Ok(())
    }
}
