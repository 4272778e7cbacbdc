//! A job of a fleet as this program sees it, and its entry in the ledger.

use anyhow::Context;
use prs_common::ledger::{LedgerError, LedgerErrorKind};
use prs_common::temporary_folder::TemporaryFolder;
use prs_common::tree;
use prs_orchestrator::{Fleet, JobContext, JobRecord, LocalFolders};

use super::patience::repeated;
use crate::caller::Caller;
use crate::failure::Failure;

/// The job, with a local folder.
pub(crate) fn context(fleet: &Fleet, record: &JobRecord) -> Result<(JobContext, TemporaryFolder), Failure> {
    let folder = TemporaryFolder::make("prs-producer-").context("cannot make a temporary folder")?;
    let folders = LocalFolders { logs: folder.path().join("logs"), work: folder.path().join("work") };
    let made = [&folders.logs, &folders.work].into_iter().try_for_each(tree::make_folders);
    made.with_context(|| format!("cannot make folders in {}", folder.path().display()))?;
    Ok((JobContext::on(fleet, record, folders), folder))
}

/// Makes sure that the ledger knows the job.
pub(crate) async fn enter_in_ledger(job: &JobContext, caller: &dyn Caller) -> Result<(), Failure> {
    let open = async || match job.ledger.create(job.try_limits()).await {
        Err(error) if error.kind != LedgerErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    repeated("enter the job in the ledger", caller, LedgerError::is_retryable, open).await
}
