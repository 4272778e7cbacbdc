//! What becomes of a panic while a job is watched over: a failure of the job, as every other error is, and not of the
//! program.
//!
//! On a fleet the panic may be of this program alone (its memory, its build), so it is noted in storage, the lease is
//! given up, and whoever comes next takes over. When [`MAX_PANICS`] were noted in one start of the job, the next
//! orchestrator records it as failed without a look at what panics. An embedded run has nobody who could take over.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use prs_common::layout;
use prs_common::ledger::{Conclusion, JobState};
use prs_common::storage::{PutMode, StorageError, StorageExt};

use crate::report::job_result;
use crate::watch::{WatchError, fail_at_once, restore_job_result};
use crate::{JobContext, JobRecord, JobResult};

/// Panics that end a start of a job: as many as a mini-batch survives losses of its node.
pub const MAX_PANICS: usize = crate::job::context::MAX_NODE_LOSSES as usize;
/// The same once it is decided that the job ends early: nothing of its result is lost then.
const MAX_PANICS_OF_AN_END: usize = 2;
/// Characters of a panic's text that are told.
const TOLD: usize = 500;

/// A panic, in its words.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Panicked {
    /// The words, one line.
    pub text: String,
}

impl From<Panicked> for WatchError {
    fn from(Panicked { text }: Panicked) -> Self {
        Self::Panicked { text }
    }
}

/// Does `work`; a panic in it is an error. What `work` alone used is gone then; what it shared is locked by poison-proof
/// locks or lies in servers and files, which are left as a killed program leaves them.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| Panicked { text: words(&*panic) })
}

/// The words of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| "a panic without words".to_owned());
    text.chars().take(TOLD).collect()
}

/// Keys of the panics that this start of the job has had.
async fn noted(job: &JobContext) -> Result<Vec<String>, StorageError> {
    let listed = job.storage.list_all(layout::PANICS).await?;
    let keys = listed.into_iter().map(|object| object.key);
    Ok(keys.filter(|key| layout::panic_start(key) == Some(job.incarnation)).collect())
}

/// Notes a panic of the orchestrator. False when enough were noted before: also what ends the job without a look panics,
/// and this program is of no use to it.
pub(crate) async fn note(job: &JobContext, text: &str) -> bool {
    let put = async {
        let number = noted(job).await?.len() + 1;
        if number <= MAX_PANICS {
            let key = layout::panic(job.incarnation, number);
            job.storage.put(&key, text.to_owned().into(), PutMode::Overwrite).await?;
        }
        Ok::<_, StorageError>(number)
    };
    match put.await {
        Ok(number) => {
            tracing::error!(job = job.id, text, number, most = MAX_PANICS, "watching over the job broke");
            number <= MAX_PANICS
        }
        Err(error) => {
            tracing::error!(job = job.id, text, %error, "watching over the job broke, which storage does not note");
            true
        }
    }
}

/// The last panic of the job, when there were so many that it ends.
pub(crate) async fn are_enough(job: &JobContext) -> Result<Option<Panicked>, WatchError> {
    let noted = noted(job).await?;
    let Some(last) = noted.last().filter(|_| noted.len() >= MAX_PANICS_OF_AN_END) else { return Ok(None) };
    let ends_early = |end: Conclusion| end.state != JobState::Completed;
    if noted.len() < MAX_PANICS && !job.ledger.progress(&job.run).await?.conclusion.is_some_and(ends_early) {
        return Ok(None);
    }
    let text = job.storage.get(last).await?;
    Ok(Some(Panicked { text: String::from_utf8_lossy(&text).into_owned() }))
}

/// Records a job as failed by a panic, or as what was decided before, without a look at anything of it but the counts.
/// `place` is what commands call the job.
pub async fn fail(
    job: &JobContext,
    owner: &str,
    record: JobRecord,
    place: &str,
    panicked: Panicked,
) -> Result<JobResult, WatchError> {
    let ended = caught(fail_at_once(job, owner, record, panicked.into())).await;
    let result = ended.map_err(WatchError::from).flatten()?;
    if job.policy.ends_by_record {
        restore_job_result(job, &result).await?;
        return Ok(result);
    }
    let path = job.logs.join("job_result.txt");
    if let Err(error) = std::fs::write(&path, job_result::text(&result, &job.spec, place)) {
        tracing::error!(path = %path.display(), %error, "job_result.txt is not written");
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prs_common::ledger::Ledger;

    use super::*;
    use crate::fixtures::Fixture;
    use crate::job::leases::is_watched;
    use crate::orchestrate::{OrchestratorEnd, Place, orchestrate};

    /// A job with all its outcomes, of which nothing takes long.
    async fn fixture() -> Fixture {
        let mut fixture = Fixture::new(3).await;
        fixture.job.policy.lease = Duration::from_secs(1);
        fixture.succeed(0..3).await;
        fixture.planned(3).await;
        fixture
    }

    async fn orchestrated(fixture: &Fixture) -> Place {
        let end = OrchestratorEnd::default();
        let place = orchestrate(&fixture.job, "worker-1", &end);
        tokio::time::timeout(Duration::from_secs(20), place).await.expect("it ends")
    }

    async fn notes(fixture: &Fixture) -> usize {
        fixture.storage.list_all(layout::PANICS).await.unwrap().len()
    }

    #[tokio::test]
    async fn a_job_whose_orchestrators_always_panic_fails_with_their_words() {
        let fixture = fixture().await;
        fixture.ledger.panic("nodes", usize::MAX);
        let Place::Ended(result) = orchestrated(&fixture).await else { panic!("it did not end the job") };
        let reason = "a fault of prs ended the job: nodes was told to panic";
        assert_eq!((result.state, result.reason.as_deref()), (JobState::Failed, Some(reason)));
        assert_eq!(result.mini_batches.succeeded, 3, "{result:?}");
        assert_eq!(fixture.record().await.result, Some(*result));
        assert_eq!(notes(&fixture).await, MAX_PANICS);
        let told = fixture.storage.get("logs/job_result.txt").await.unwrap();
        assert!(told.starts_with(format!("failed: {reason}").as_bytes()), "{told:?}");
        assert!(!is_watched(&fixture.job).await.unwrap(), "nobody is held");
        // What is left can be resumed.
        assert!(
            fixture
                .storage
                .list_all(layout::SEGMENTS)
                .await
                .unwrap()
                .iter()
                .any(|o| layout::is_segment(&o.key))
        );
    }

    #[tokio::test]
    async fn a_panic_that_passes_costs_nothing() {
        let fixture = fixture().await;
        fixture.ledger.panic("segments", 1);
        let Place::Ended(result) = orchestrated(&fixture).await else { panic!("it did not end the job") };
        assert_eq!((result.state, result.output.rows), (JobState::Completed, 3), "{result:?}");
    }

    #[tokio::test]
    async fn a_job_that_panics_can_be_canceled() {
        let fixture = fixture().await;
        fixture.ledger.panic("nodes", usize::MAX);
        let end = Conclusion { state: JobState::Canceled, reason: "canceled by ana".to_owned() };
        fixture.ledger.conclude(&fixture.job.run, &end).await.unwrap();
        let Place::Ended(result) = orchestrated(&fixture).await else { panic!("it did not end the job") };
        assert_eq!((result.state, result.reason.as_deref()), (JobState::Canceled, Some("canceled by ana")));
        assert_eq!(notes(&fixture).await, MAX_PANICS_OF_AN_END);
    }

    #[tokio::test]
    async fn a_result_that_was_decided_and_cannot_be_told_is_none() {
        let fixture = fixture().await;
        // The output is there, and what would record it panics.
        fixture.storage.panic("put job.json", MAX_PANICS);
        let Place::Ended(result) = orchestrated(&fixture).await else { panic!("it did not end the job") };
        assert_eq!(result.state, JobState::Failed, "{result:?}");
        assert!(
            fixture.storage.list_all("output/").await.unwrap().is_empty(),
            "a job that failed has no result"
        );
    }

    #[tokio::test]
    async fn reports_that_panic_do_not_keep_a_job_that_has_ended() {
        let fixture = fixture().await;
        fixture.storage.panic("put logs/", MAX_PANICS);
        assert!(matches!(orchestrated(&fixture).await, Place::Over));
        let result = fixture.record().await.result.unwrap();
        assert_eq!(result.state, JobState::Completed, "it stands");
        assert!(fixture.storage.get("logs/job_result.txt").await.unwrap().starts_with(b"completed"));
        assert!(fixture.ledger.state(&fixture.job.run).await.is_err(), "it is tidied up");
    }

    #[tokio::test]
    async fn a_program_whose_every_step_panics_is_of_no_use_to_the_job() {
        let fixture = fixture().await;
        fixture.ledger.panic("nodes", usize::MAX);
        fixture.ledger.panic("conclude", usize::MAX);
        assert!(matches!(orchestrated(&fixture).await, Place::Stopped));
        assert!(!is_watched(&fixture.job).await.unwrap());
        assert!(fixture.record().await.result.is_none());
    }

    #[test]
    fn a_panic_is_told_in_one_line() {
        let said = |panic: Box<dyn Any + Send>| words(&*panic);
        let long = "x".repeat(2 * TOLD);
        assert_eq!(said(Box::new("index out of bounds")), "index out of bounds");
        assert_eq!(said(Box::new("two\n  lines".to_owned())), "two lines");
        assert_eq!(said(Box::new(long)).len(), TOLD);
        for none in [Box::new(7) as Box<dyn Any + Send>, Box::new(" ")] {
            assert_eq!(said(none), "a panic without words");
        }
    }
}
