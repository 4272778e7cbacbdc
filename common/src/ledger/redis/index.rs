//! The index of jobs.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::keys::TargetKey;
use super::membership::micros;
use super::{NONE, RedisLedger, TIME_TO_LIVE, scripts};
use crate::ledger::index::ENDED_LATELY;
use crate::ledger::{EndKind, Filling, IndexChanges, IndexedJob, JobState, LedgerError, Noted};

/// How long the index remembers that a job was removed.
const REMOVED_IS_REMEMBERED: Duration = Duration::from_hours(24);
/// The keys of a note: those of the index, and the counts of ends.
const NOTED: [TargetKey; 5] = [
    TargetKey::Jobs,
    TargetKey::JobChanges,
    TargetKey::RemovedJobs,
    TargetKey::JobIndex,
    TargetKey::EndedJobs,
];
const KEYS: [TargetKey; 4] =
    [TargetKey::Jobs, TargetKey::JobChanges, TargetKey::RemovedJobs, TargetKey::JobIndex];

pub(super) async fn note(ledger: &RedisLedger, job: &IndexedJob, noted: Noted) -> Result<bool, LedgerError> {
    let IndexedJob { job_id, order, summary, ended } = job;
    let (name, ended_us) =
        ended.as_ref().map(|ended| (name_of(&ended.kind), ended.ended_us)).unwrap_or_default();
    let is_found = noted == Noted::Found;
    let lately = micros(ENDED_LATELY);
    let arguments = (job_id, order, &**summary, is_found, TIME_TO_LIVE.as_secs(), name, ended_us, lately);
    ledger.run_for("", &scripts::NOTE_JOB, &NOTED, arguments).await
}

pub(super) async fn ended(ledger: &RedisLedger) -> Result<BTreeMap<EndKind, u64>, LedgerError> {
    let counts: HashMap<String, u64> =
        ledger.run_for("", &scripts::ENDED_JOBS, &[TargetKey::EndedJobs], NONE).await?;
    Ok(counts.iter().filter_map(|(name, count)| Some((end_kind(name)?, *count))).collect())
}

/// Returns the name of the count of such ends.
fn name_of(kind: &EndKind) -> String {
    let EndKind { target, state, is_complete } = kind;
    format!("{} {} {target}", state.as_str(), u8::from(*is_complete))
}

/// Returns the ends that the count of this name counts.
fn end_kind(name: &str) -> Option<EndKind> {
    let mut parts = name.splitn(3, ' ');
    let (state, is_complete, target) = (parts.next()?, parts.next()?, parts.next()?);
    let state = JobState::ALL.into_iter().find(|each| each.as_str() == state)?;
    Some(EndKind { target: target.to_owned(), state, is_complete: is_complete == "1" })
}

pub(super) async fn forget(ledger: &RedisLedger, job_id: &str) -> Result<(), LedgerError> {
    let arguments = (job_id, micros(REMOVED_IS_REMEMBERED));
    ledger.run_for("", &scripts::FORGET_JOB, &KEYS, arguments).await
}

pub(super) async fn changes(
    ledger: &RedisLedger,
    since: u64,
    limit: usize,
) -> Result<IndexChanges, LedgerError> {
    type Answer = (String, u64, u64, u64, u64, Vec<(String, Option<Vec<u8>>)>);
    let (filling, found, total, jobs, last, changed): Answer =
        ledger.run_for("", &scripts::CHANGED_JOBS, &KEYS, (since, limit)).await?;
    let changed = changed.into_iter().map(|(job, summary)| (job, summary.map(Into::into))).collect();
    Ok(IndexChanges { filling, found, total, jobs, last, changed })
}

pub(super) async fn keep(ledger: &RedisLedger, owner: &str, time: Duration) -> Result<bool, LedgerError> {
    ledger.run_for("", &scripts::KEEP_INDEX, &[TargetKey::JobIndex], (owner, micros(time))).await
}

pub(super) async fn fill(ledger: &RedisLedger, filling: Filling<'_>) -> Result<bool, LedgerError> {
    let Filling { owner, name, begins, found, total, is_filled } = filling;
    let arguments = (owner, name, u8::from(begins), found, total, u8::from(is_filled));
    ledger.run_for("", &scripts::FILL_INDEX, &[TargetKey::JobIndex], arguments).await
}
