//! The output of a former job of a fleet for a job that is about to be handed in (spec P3).
//!
//! The store copies; what came of it is read once and checked. No node, queue or ledger takes part: the record is stored
//! with the result, and before it is there is no job.

use anyhow::Context;
use prs_common::failpoint;
use prs_common::layout;
use prs_orchestrator::job::fleet::job_prefix;
use prs_orchestrator::job::reuse;
use prs_orchestrator::publish::former::{FormerError, FormerOutput};
use prs_orchestrator::{Fleet, JobRecord, JobResult};

use crate::caller::Caller;
use crate::failure::Failure;
use crate::submit::output_place::deliver_given;
use crate::submit::reuse::{keep_those_with_files_of, note_refused, result_name, write_logs};

/// Ends the job of `record`, which is not stored yet, with the output of a former one; nothing where none has what it
/// needs.
pub(crate) async fn give(
    fleet: &Fleet,
    record: &mut JobRecord,
    caller: &dyn Caller,
) -> Result<Option<JobResult>, Failure> {
    let Some(recipe) = record.recipe.clone() else { return Ok(None) };
    let store = &*fleet.storage;
    let found = reuse::index::find(store, &recipe).await;
    let mut formers = match found {
        Ok(found) => found,
        Err(error) => {
            caller.note(&format_args!("cannot look for jobs with the same output ({error}): the job runs"));
            return Ok(None);
        }
    };
    let listed = keep_those_with_files_of(&record.spec, &mut formers, |former| former).await;
    let storage = fleet.job_storage(&record.job_id);
    for former in &formers {
        let place = |job_id: &str| format!("{}/{}", job_prefix(job_id), layout::OUTPUT);
        let copied = async {
            let main = former.main_step().unwrap_or_else(|| former.job_id.clone());
            let files = FormerOutput::of(former, &*fleet.job_storage(&main)).await?;
            let output = fleet.job_storage(&main).below(layout::OUTPUT.trim_end_matches('/'));
            let delivered =
                deliver_given(record, &*storage, (&files, &*output), former.result.as_ref()).await?;
            files.copy_within(store, &place(&main), &place(&record.job_id)).await?;
            let brought = files.note(&*storage, record.incarnation).await?;
            Ok::<_, FormerError>((delivered, brought))
        };
        let (delivered, brought) = match copied.await {
            Ok(copied) => copied,
            Err(error) => {
                note_refused(former, &error, caller);
                continue;
            }
        };
        failpoint::pass("output_given");
        let own = || storage.uri(&format!("{}{}", layout::OUTPUT, result_name(&record.spec)));
        let uri = delivered.unwrap_or_else(own);
        let given = reuse::end_with(record, former, listed.as_ref(), uri, storage.uri(layout::LOGS));
        let Some(result) = given else { continue };
        record.brought = brought;
        let logs = write_logs(&*storage, &result, &record.spec, &record.job_id).await;
        logs.context("cannot store the logs of the job").map_err(Failure::server)?;
        return Ok(Some(result));
    }
    Ok(None)
}
