//! What a job brought: where it is, or a copy of it.

use std::path::Path;

use prs_orchestrator::JobResult;

use crate::failure::Failure;
use crate::homes::{JobHome, Seen};
use crate::submit::output_copy::{check_there, fetch_output};
use crate::submit::output_folder::claim;

/// How a job completed, with its output where the job put it; or, where there is a `target`, in that folder, to which it is
/// copied whole. A job that has not completed has no result, which is an error of usage; but for one that failed because it could not
/// deliver it, and for one whose former start has one.
pub async fn result(home: &dyn JobHome, target: Option<&Path>) -> Result<JobResult, Failure> {
    let Seen { record, mut result, .. } = home.look().await?;
    if let Some(former) = record.former_end.as_ref().filter(|_| !result.has_result()) {
        result = former.result.clone();
    }
    if !result.has_result() {
        let why = result.reason.as_deref().unwrap_or("it is not done yet");
        return Err(Failure::wrong(format!(
            "job {} has no result: {} ({why})",
            result.job_id,
            result.state.as_str()
        )));
    }
    match target {
        Some(target) => {
            let _claim = claim(target, &result.job_id)?;
            fetch_output(&*home.output(&record), target, &mut result.output, None).await?;
        }
        None => check_there(home, &record, &result).await?,
    }
    Ok(result)
}
