//! The place of a start of a job among those that the workers of its target are to serve: an object in storage,
//! `active/<target>/<job>/<start>`, and an offer in the ledger. A pipeline has one for each target that its steps name:
//! workers of any of them drive it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use prs_common::ledger::Offer;
use prs_common::storage::{ObjectMeta, Storage, StorageError, StorageExt};

use super::record::{JobRecord, run_name};

/// The place of a start of a job among those that its target's workers are to serve.
#[derive(Debug, Clone)]
pub struct ActiveJob {
    /// The storage of the fleet.
    pub(super) storage: Arc<dyn Storage>,
    /// The targets.
    pub(super) targets: Vec<String>,
    pub(super) offer: Offer,
}

impl ActiveJob {
    /// The entry of the start of a job that `record` is about.
    pub(crate) fn new(storage: &Arc<dyn Storage>, record: &JobRecord) -> Self {
        let JobRecord { job_id, incarnation, prs_version, spec, started_us, .. } = record;
        Self {
            storage: Arc::clone(storage),
            targets: targets(record),
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

    /// The object that says in storage that workers of `target` are to serve it.
    pub(super) fn key(&self, target: &str) -> String {
        format!("{}{}/{}", prefix(target), self.offer.job_id, self.offer.incarnation)
    }
}

/// The targets whose workers are to serve a job: its own, and those of its steps.
fn targets(record: &JobRecord) -> Vec<String> {
    let mut targets = vec![record.spec.compute_target.clone()];
    for step in record.pipeline.iter().flat_map(|plan| &plan.pipeline.steps) {
        if !targets.contains(&step.spec.compute_target) {
            targets.push(step.spec.compute_target.clone());
        }
    }
    targets
}

/// What the keys of all jobs begin with that workers are to serve.
const ACTIVE: &str = "active/";

/// The prefix of the jobs that workers of `target` are to serve.
pub(super) fn prefix(target: &str) -> String {
    format!("{ACTIVE}{target}/")
}

/// The ids of the jobs that workers of any target are to serve.
pub async fn active_ids(storage: &dyn Storage) -> Result<HashSet<String>, StorageError> {
    let listed = storage.list_all(ACTIVE).await?;
    let id = |object: &ObjectMeta| Some(object.key.rsplit('/').nth(1)?.to_owned());
    Ok(listed.iter().filter_map(id).collect())
}

/// The starts of jobs that workers of each target are to serve, as job and number.
pub async fn active_starts(
    storage: &dyn Storage,
) -> Result<BTreeMap<String, Vec<(String, u32)>>, StorageError> {
    let mut found: BTreeMap<String, Vec<(String, u32)>> = BTreeMap::new();
    for object in storage.list_all(ACTIVE).await? {
        let named = object.key.strip_prefix(ACTIVE).and_then(|key| key.split_once('/'));
        let Some((target, (job_id, start))) = named.and_then(|(target, rest)| Some((target, parse(rest)?)))
        else {
            continue;
        };
        found.entry(target.to_owned()).or_default().push((job_id.to_owned(), start));
    }
    Ok(found)
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
