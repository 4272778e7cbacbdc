//! The place of a start of a job among those that the workers of its target are to serve: an object in storage,
//! `active/<target>/<job>/<start>`, and an offer in the ledger.

use std::fmt;
use std::sync::Arc;

use prs_common::ledger::Offer;
use prs_common::storage::Storage;

use super::record::{JobRecord, run_name};

/// The place of a start of a job among those that its target's workers are to serve.
#[derive(Clone)]
pub struct ActiveJob {
    /// The storage of the fleet.
    pub(super) storage: Arc<dyn Storage>,
    /// The object that says so there.
    pub(super) key: String,
    pub(super) offer: Offer,
}

impl fmt::Debug for ActiveJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActiveJob").field(&self.key).finish()
    }
}

impl ActiveJob {
    /// The entry of the start of a job that `record` is about.
    pub(crate) fn new(storage: &Arc<dyn Storage>, record: &JobRecord) -> Self {
        let JobRecord { job_id, incarnation, prs_version, spec, started_us, .. } = record;
        Self {
            storage: Arc::clone(storage),
            key: format!("{}{job_id}/{incarnation}", prefix(&spec.compute_target)),
            offer: Offer {
                job_id: job_id.clone(),
                incarnation: *incarnation,
                run: run_name(job_id, *incarnation),
                prs_version: prs_version.clone(),
                nodes: spec.node_count,
                started_us: *started_us,
            },
        }
    }
}

/// The prefix of the jobs that workers of `target` are to serve.
pub(super) fn prefix(target: &str) -> String {
    format!("active/{target}/")
}

/// The job and the start of it that a key below the prefix of its target names.
pub(super) fn parse(key: &str) -> Option<(&str, u32)> {
    let (job_id, incarnation) = key.split_once('/')?;
    Some((job_id, incarnation.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_a_job_and_a_start_of_it() {
        let table = [
            ("job-1/1", Some(("job-1", 1))),
            ("job-1.2/12", Some(("job-1.2", 12))),
            ("job-1", None),
            ("job-1/", None),
            ("job-1/x", None),
            ("job-1/2/3", None),
        ];
        for (key, expected) in table {
            assert_eq!(parse(key), expected, "{key}");
        }
    }
}
