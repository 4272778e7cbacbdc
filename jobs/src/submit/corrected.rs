//! Inputs that were corrected since a job was last started: looked at before the next start touches anything.

use anyhow::Context;
use prs_common::ledger::{EmbeddedLedger, Ledger};
use prs_common::private_folder::PrivateFolder;
use prs_common::tree::remove_tree;
use prs_orchestrator::JobContext;
use prs_orchestrator::plan::correction::{Corrected, CorrectionError, Inputs, WithRows, look, look_at_split};
use prs_orchestrator::segments::carry::Carried;
use prs_orchestrator::segments::recover::{Recovered, recover};

use crate::caller::Caller;
use crate::failure::Failure;

/// How a job is run anew, which begins a sentence about what else to do.
pub(crate) fn anew(id: &str) -> String {
    format!("run all of the job anew: prs resubmit {id}")
}

/// Compares the inputs of `job`, a start that is to be made, with what former starts left; `carried` are outcomes that it takes
/// over. Where inputs were corrected, its plan comes back. With `may_be_elsewhere` inputs that this host cannot read are left to
/// the workers, who plan then. `anew` says how all of it is run anew.
pub(crate) async fn check(
    job: JobContext,
    carried: Option<&Carried>,
    may_be_elsewhere: bool,
    anew: &str,
    caller: &dyn Caller,
) -> Result<Option<Box<Corrected>>, Failure> {
    let looked = with_what_is_done(job, carried, caller, async |job, known| look(job, known).await);
    judged(looked.await?, may_be_elsewhere, anew, caller)
}

/// The same of a step whose rows are put together for others; `is_complete` says that it need not run again. No correction is
/// taken.
pub(crate) async fn check_split(
    job: JobContext,
    is_complete: bool,
    may_be_elsewhere: bool,
    anew: &str,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let looked = with_what_is_done(job, None, caller, async |job, known| {
        look_at_split(job, known, is_complete).await.map(|()| Inputs::AsTheyWere)
    });
    judged(looked.await?, may_be_elsewhere, anew, caller).map(drop)
}

/// Has `look` look at a job and at what former starts of it left, with what is `carried` over.
async fn with_what_is_done(
    job: JobContext,
    carried: Option<&Carried>,
    caller: &dyn Caller,
    look: impl AsyncFnOnce(&JobContext, WithRows) -> Result<Inputs, CorrectionError>,
) -> Result<Result<Inputs, CorrectionError>, Failure> {
    // A ledger of its own: the real one knows nothing of this start yet.
    let job = JobContext { ledger: EmbeddedLedger::default().job(&job.run), ..job };
    PrivateFolder::make(&job.work).context("cannot make a folder for plain copies of inputs")?;
    let looked = async {
        job.ledger.create(job.try_limits()).await?;
        let mut recovered = recover(&job).await?;
        if let Some(carried) = carried {
            carried.enter(&mut recovered);
        }
        let Recovered { known: checksums, contents, end, .. } = recovered;
        anyhow::Ok(look(&job, WithRows { checksums, contents, end }).await)
    };
    let looked = looked.await.context("cannot read what is done already");
    if let Err(error) = remove_tree(&job.work) {
        caller.error(&error);
    }
    looked.map_err(Failure::server)
}

/// The corrected plan that was found, or why there is none.
fn judged(
    looked: Result<Inputs, CorrectionError>,
    may_be_elsewhere: bool,
    anew: &str,
    caller: &dyn Caller,
) -> Result<Option<Box<Corrected>>, Failure> {
    match looked {
        Ok(Inputs::AsTheyWere) => Ok(None),
        Ok(Inputs::Corrected(corrected)) => {
            caller.note(&corrected.words());
            Ok(Some(corrected))
        }
        Err(CorrectionError::Plan(error)) if may_be_elsewhere => {
            caller.note(&format_args!("note: whether inputs changed shows where they are: {error}"));
            Ok(None)
        }
        Err(CorrectionError::Storage(error)) => Err(Failure::server(error)),
        Err(error @ CorrectionError::Plan(_)) => Err(Failure::wrong(error.to_string())),
        Err(error @ CorrectionError::Changed(_)) => {
            Err(Failure::wrong(format!("{error}; put these back as they were, and resume, or {anew}")))
        }
    }
}
