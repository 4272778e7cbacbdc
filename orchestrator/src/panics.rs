//! What becomes of a panic while a job is watched over: a failure of the job, as every other error is, and not of the
//! program.
//!
//! On a fleet the panic may be of this program alone (its memory, its build), so it is noted in storage, the lease is
//! given up, and the next program that looks takes over. When [`MAX_PANICS`] were noted in one start of the job, the next
//! orchestrator records it as failed without a look at what panics. An embedded run has nobody who could take over.

use prs_common::layout;
use prs_common::ledger::{Conclusion, JobState};
use prs_common::storage::{PutMode, StorageError, StorageExt};
use prs_common::tree;

use crate::caught::{Panicked, caught};
use crate::report::job_result;
use crate::watch::{WatchError, fail_at_once, restore_job_result};
use crate::{JobContext, JobRecord, JobResult};

/// Panics that end a start of a job: as many as a mini-batch survives losses of its node.
pub const MAX_PANICS: usize = crate::job::context::MAX_NODE_LOSSES as usize;
/// The same once it is decided that the job ends early: nothing of its result is lost then.
const MAX_PANICS_OF_AN_END: usize = 2;
impl From<Panicked> for WatchError {
    fn from(Panicked { text }: Panicked) -> Self {
        Self::Panicked { text }
    }
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
    if noted.len() < MAX_PANICS && !job.ledger.progress().await?.conclusion.is_some_and(ends_early) {
        return Ok(None);
    }
    let text = job.storage.get(last).await?;
    Ok(Some(Panicked { text: String::from_utf8_lossy(&text).into_owned() }))
}

/// Records a job as failed by a panic, or by what lets nobody watch over it, or as what was decided before, without a look at
/// anything of it but the counts. `place` is what commands call the job.
pub async fn fail(
    job: &JobContext,
    owner: &str,
    record: JobRecord,
    place: &str,
    error: impl Into<WatchError>,
) -> Result<JobResult, WatchError> {
    let ended = caught(fail_at_once(job, owner, record, error.into())).await;
    let result = ended.map_err(WatchError::from).flatten()?;
    if job.policy.ends_by_record {
        restore_job_result(job, &result).await?;
        return Ok(result);
    }
    let path = job.logs.join("job_result.txt");
    if let Err(error) = tree::write(&path, job_result::text(&result, &job.spec, place)) {
        tracing::error!(path = %path.display(), %error, "job_result.txt is not written");
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prs_common::ledger::JobLedger;

    use super::*;
    use crate::fixtures::Fixture;
    use crate::job::leases::is_watched;
    use crate::orchestrate::{OrchestratorEnd, WatchEnd, orchestrate};

    /// A job with all its outcomes, of which nothing takes long.
    async fn fixture() -> Fixture {
        let mut fixture = Fixture::new(3).await;
        fixture.job.policy.lease = Duration::from_secs(1);
        fixture.succeed(0..3).await;
        fixture.planned(3).await;
        fixture
    }

    async fn orchestrated(fixture: &Fixture) -> WatchEnd {
        let end = OrchestratorEnd::default();
        let ended = orchestrate(&fixture.job, "worker-1", &end);
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it ends")
    }

    async fn notes(fixture: &Fixture) -> usize {
        fixture.storage.list_all(layout::PANICS).await.unwrap().len()
    }

    #[tokio::test]
    async fn a_job_whose_orchestrators_always_panic_fails_with_their_words() {
        let fixture = fixture().await;
        fixture.ledger.panic("nodes", usize::MAX);
        let WatchEnd::Ended(result) = orchestrated(&fixture).await else { panic!("it did not end the job") };
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
        let mut fixture = fixture().await;
        // Longer than a panic takes to print where it came from, on a busy machine.
        fixture.job.policy.lease = Duration::from_secs(4);
        fixture.ledger.panic("segments", 1);
        let WatchEnd::Ended(result) = orchestrated(&fixture).await else { panic!("it did not end the job") };
        assert_eq!((result.state, result.output.rows), (JobState::Completed, 3), "{result:?}");
    }

    #[tokio::test]
    async fn a_job_that_panics_can_be_canceled() {
        let fixture = fixture().await;
        fixture.ledger.panic("nodes", usize::MAX);
        let end = Conclusion { state: JobState::Canceled, reason: "canceled by ana".to_owned() };
        fixture.ledger.conclude(&end).await.unwrap();
        let WatchEnd::Ended(result) = orchestrated(&fixture).await else { panic!("it did not end the job") };
        assert_eq!((result.state, result.reason.as_deref()), (JobState::Canceled, Some("canceled by ana")));
        assert_eq!(notes(&fixture).await, MAX_PANICS_OF_AN_END);
    }

    #[tokio::test]
    async fn a_result_that_was_decided_and_cannot_be_told_is_none() {
        let fixture = fixture().await;
        // The output is there, and what would record it panics.
        fixture.storage.panic("put job.json", MAX_PANICS);
        let WatchEnd::Ended(result) = orchestrated(&fixture).await else { panic!("it did not end the job") };
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
        assert!(matches!(orchestrated(&fixture).await, WatchEnd::Over));
        let result = fixture.record().await.result.unwrap();
        assert_eq!(result.state, JobState::Completed, "it stands");
        assert!(fixture.storage.get("logs/job_result.txt").await.unwrap().starts_with(b"completed"));
        assert!(fixture.ledger.state().await.is_err(), "it is tidied up");
    }

    #[tokio::test]
    async fn a_program_whose_every_step_panics_is_of_no_use_to_the_job() {
        let fixture = fixture().await;
        fixture.ledger.panic("nodes", usize::MAX);
        fixture.ledger.panic("conclude", usize::MAX);
        assert!(matches!(orchestrated(&fixture).await, WatchEnd::Stopped));
        assert!(!is_watched(&fixture.job).await.unwrap());
        assert!(fixture.record().await.result.is_none());
    }
}
