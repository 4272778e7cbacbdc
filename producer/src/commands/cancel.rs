//! `cancel`: ends a job, on a fleet or in another program of this machine; what is done is kept.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use prs_common::host_name;
use prs_common::storage::LocalStorage;
use prs_orchestrator::{JobRecord, JobResult};

use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};
use crate::{fleet, output, run_folder};

/// Between two looks whether the run has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long a run may take to end before the command stops waiting for it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Ends a job.
pub(super) async fn cancel(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let (result, name) = if let Some(fleet) = fleet::connect(job.whereabouts.urls()?).await? {
        (fleet::cancel(&fleet, &job.name, &who()).await?, job.name.clone())
    } else {
        let folder = run_folder::find(job)?;
        (cancel_here(&folder, &who()).await?, run_folder::called(&folder))
    };
    output::result(format, &result, &name)?;
    Ok(Code::Completed.into())
}

/// Asks the program that runs the job to cancel it, and waits until it has.
async fn cancel_here(folder: &Path, who: &str) -> Result<JobResult, Failure> {
    let storage = LocalStorage::new(folder);
    if !run_folder::is_locked(folder) {
        let record = JobRecord::read(&storage).await.map_err(Failure::usage)?;
        return Err(match &record.result {
            Some(result) => fleet::ended_already(result),
            None => Failure::wrong(format!(
                "job {} is not running: {}",
                record.job_id,
                run_folder::interrupted(folder)
            )),
        });
    }
    let asked = Instant::now();
    while run_folder::is_locked(folder) {
        // Again, for the program forgets what was asked before it began.
        run_folder::ask_to_cancel(folder, who).map_err(Failure::usage)?;
        if asked.elapsed() > PATIENCE {
            return Err(anyhow::anyhow!(
                "the run in {} was asked to end and has not ended after {} s",
                folder.display(),
                PATIENCE.as_secs()
            )
            .into());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    run_folder::forget_cancel(folder);
    let record = JobRecord::read(&storage).await.map_err(Failure::usage)?;
    record.result.ok_or_else(|| {
        anyhow::anyhow!("the run ended without a result: {}", run_folder::interrupted(folder)).into()
    })
}

/// Who asks, for the result of a canceled job (spec S13).
fn who() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let id = rustix::process::getuid().as_raw();
    let user = user.or_else(|| name_of(id, &std::fs::read_to_string("/etc/passwd").ok()?));
    let user = user.unwrap_or_else(|| format!("user {id}"));
    format!("{user}@{}", host_name())
}

/// The name of a user in the system's list of users.
fn name_of(id: u32, users: &str) -> Option<String> {
    let user = users.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    })?;
    Some(user.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\nana:x:1000:1000::/home/ana:/bin/sh\n";
        for (id, expected) in [(0, Some("root")), (1000, Some("ana")), (1, None)] {
            assert_eq!(name_of(id, users).as_deref(), expected, "{id}");
        }
    }
}
