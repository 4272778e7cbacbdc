//! What a job found out, put together at its end from what its segments tell.

use prs_common::job::JobSpec;
use prs_common::job::shuffle::ShuffleStage;
use prs_common::ledger::{JobProgress, JobState};

use crate::job::errors::ErrorGroup;
use crate::job::findings::Findings;
use crate::report::error_list::ErrorList;
use crate::segments::catalog::Catalog;

/// Distinct errors that the result of a job has; `errors` shows all.
const SHOWN: usize = 5;

/// What is known at the end of a job.
pub(super) fn findings(
    spec: &JobSpec,
    state: JobState,
    progress: &JobProgress,
    catalog: Option<&Catalog>,
    init_errors: Vec<ErrorGroup>,
) -> Findings {
    let nothing_failed = progress.failed == 0 && progress.items_failed() == 0;
    let ended = Findings {
        complete: state == JobState::Completed && nothing_failed,
        failures_allowed: spec.failures_allowed,
        ..Findings::default()
    };
    let Some(catalog) = catalog else { return ended };
    // A group is one item, and may well have many rows in the result.
    let of_groups = spec.shuffle == Some(ShuffleStage::Run);
    // Only `errors` shows tracebacks.
    let brief = |group| ErrorGroup { traceback: String::new(), ..group };
    let groups = ErrorList::new(&catalog.errors, init_errors).errors;
    Findings {
        mini_batches_missing: catalog.missing(),
        mini_batches_unlisted: catalog.unlisted(),
        tries: catalog.try_counts(),
        replaced_processes: catalog.summaries.replaced_processes(),
        surplus: Some(catalog.surplus).filter(|surplus| surplus.mini_batches > 0 && !of_groups),
        distinct_errors: groups.len() as u64,
        errors: groups.into_iter().take(SHOWN).map(brief).collect(),
        ..ended
    }
}
