//! A pipeline of a fleet, as commands see it that wait for it, or end it. They drive it beside the workers, for there may be
//! none.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::host_name;
use prs_common::job::pipeline::StepState;
use prs_common::ledger::{Conclusion, LedgerError};
use prs_orchestrator::job::record::JobRecordError;
use prs_orchestrator::pipeline::{Driven, context, drive, look};
use prs_orchestrator::{Fleet, JobRecord, JobResult};
use tokio_util::sync::CancellationToken;

use super::cancel::cancel as cancel_job;
use super::entry::enter_in_ledger;
use super::patience::repeated;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::{CANCEL_PATIENCE, TIDY_PATIENCE};

/// Between two looks at a pipeline that another program drives.
const STEPS_INTERVAL: Duration = Duration::from_millis(500);

/// The result of a pipeline; drives it beside others meanwhile, and tells how its steps stand.
pub(crate) async fn until_ended(
    fleet: &Fleet,
    record: &JobRecord,
    stop: &CancellationToken,
    caller: &dyn Caller,
) -> Result<JobResult, Failure> {
    let owner = format!("producer-{}-{}", host_name(), std::process::id());
    let driving = async {
        loop {
            match drive(fleet, &record.job_id, None, &owner, stop).await {
                Driven::Ended(result) => return Ok(*result),
                Driven::Elsewhere => tokio::time::sleep(STEPS_INTERVAL).await,
                Driven::Gone | Driven::Superseded => return Err(resumed(record)),
                Driven::Stopped => std::future::pending().await,
            }
        }
    };
    let mut driving = pin!(driving);
    let followed = tokio::select! {
        result = &mut driving => return result,
        result = followed(fleet, record, caller) => result,
    };
    if followed.is_ok() {
        // The record says the end before what is left of the pipeline is removed, which may be this program's to do.
        let _ = tokio::time::timeout(TIDY_PATIENCE, driving).await;
    }
    followed
}

/// The result of a pipeline, once its record has it; tells how its steps stand until then.
async fn followed(fleet: &Fleet, record: &JobRecord, caller: &dyn Caller) -> Result<JobResult, Failure> {
    let mut known: HashMap<String, StepState> = HashMap::new();
    loop {
        if let Ok(views) = look(record, &|id| fleet.job_storage(id)).await {
            for view in views {
                let said = match view.state {
                    StepState::Waiting => continue,
                    StepState::Running => format!("job {} runs", view.id),
                    StepState::Completed => "completed".to_owned(),
                    StepState::Failed => "failed".to_owned(),
                    StepState::Canceled => "was canceled".to_owned(),
                };
                if known.insert(view.name.clone(), view.state) != Some(view.state) {
                    caller.note(&format_args!("step {}: {said}", view.name));
                }
            }
        }
        match JobRecord::read(&*fleet.job_storage(&record.job_id)).await {
            Ok(present) if present.incarnation != record.incarnation => return Err(resumed(record)),
            Ok(JobRecord { result: Some(result), .. }) => return Ok(result),
            Err(error @ JobRecordError::Absent { .. }) => return Err(Failure::usage(error)),
            Ok(_) | Err(_) => {}
        }
        tokio::time::sleep(STEPS_INTERVAL).await;
    }
}

fn resumed(record: &JobRecord) -> Failure {
    Failure::wrong(format!("job {} was resumed or removed elsewhere", record.job_id))
}

/// Cancels a pipeline and waits until it has ended.
pub(crate) async fn cancel(
    fleet: &Fleet,
    record: &JobRecord,
    who: &str,
    caller: &dyn Caller,
) -> Result<JobResult, Failure> {
    let job = context(fleet, record);
    enter_in_ledger(&job, caller).await?;
    let wanted = Conclusion::canceled(&EndReason::Canceled { who: who.to_owned() });
    repeated("cancel it", caller, LedgerError::is_retryable, || job.ledger.conclude(&wanted)).await?;
    let stop = CancellationToken::new();
    let ending = async {
        // What runs is ended here, for there may be no worker that does.
        let views = look(record, &|id| fleet.job_storage(id)).await.map_err(Failure::server)?;
        let running = views.into_iter().filter(|view| view.state == StepState::Running);
        for step in running.filter_map(|view| view.record) {
            if let Err(failure) = cancel_job(fleet, &step, who, caller).await {
                // It may have ended by itself at this moment.
                tracing::info!(job = step.job_id, %failure, "the step is not canceled by this command");
            }
        }
        until_ended(fleet, record, &stop, caller).await
    };
    tokio::time::timeout(CANCEL_PATIENCE, ending).await.unwrap_or_else(|_| {
        Err(Failure::from(anyhow::anyhow!(
            "{2} {0} was asked to end and has not ended after {1} s; prs status {0} shows it",
            record.job_id,
            CANCEL_PATIENCE.as_secs(),
            record.noun()
        )))
    })
}
