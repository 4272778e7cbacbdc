//! Statistics in the ledger of a fleet: the orchestrator publishes the parts that are due, as long as they have a reader there.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use prs_common::layout::LOGS;
use prs_common::ledger::JobLedger;
use prs_common::statistics::{FOLDER, Live, NAMES, Part};
use prs_common::storage::{Storage, StorageError, StorageErrorKind, StorageExt};

use super::files::Pace;

/// How long a reader waits until the orchestrator has seen it and published.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks of one that waits.
const WAIT: Duration = Duration::from_millis(100);

/// When each part was published last, for those who read now.
#[derive(Debug, Default)]
pub(crate) struct PublishedParts(BTreeMap<&'static str, Instant>);

impl PublishedParts {
    /// The parts to publish now: all of them for the first reader, none for nobody.
    pub(crate) fn due(&mut self, is_read: bool, now: Instant) -> Vec<&'static str> {
        if !is_read {
            self.0.clear();
            return Vec::new();
        }
        let age = |name: &str| self.0.get(name).map(|at| now.saturating_duration_since(*at));
        let due = Pace::WATCHED.due(age);
        self.0.extend(due.iter().map(|name| (*name, now)));
        due
    }
}

/// The parts of the statistics of a job, by their names: while it runs on a fleet those in its `ledger`, and otherwise those
/// in its `storage`, which are some seconds older.
pub async fn read(
    storage: &dyn Storage,
    ledger: Option<&dyn JobLedger>,
) -> Result<HashMap<&'static str, Vec<u8>>, StorageError> {
    if let Some(ledger) = ledger
        && let Some(published) = wait_for_published(ledger).await
    {
        return Ok(published);
    }
    let mut found = HashMap::new();
    for name in NAMES {
        match storage.get(&format!("{LOGS}{FOLDER}{name}")).await {
            Ok(bytes) => drop(found.insert(name, bytes.to_vec())),
            Err(error) if error.kind == StorageErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// What the orchestrator publishes for this reader; nothing where the ledger does not know the job, or does not answer, or
/// no orchestrator watches over the job now.
async fn wait_for_published(ledger: &dyn JobLedger) -> Option<HashMap<&'static str, Vec<u8>>> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let parts = tokio::time::timeout(PATIENCE, ledger.statistics(&NAMES)).await.ok()?.ok()?;
        let parts = NAMES.into_iter().zip(parts);
        let found: HashMap<_, _> = parts.filter_map(|(name, part)| Some((name, part?.to_vec()))).collect();
        if found.contains_key(Live::NAME) {
            return Some(found);
        }
        tokio::time::sleep(WAIT).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_published_while_somebody_reads() {
        let (mut parts, now) = (PublishedParts::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(parts.due(false, at(0)), [""; 0]);
        assert_eq!(parts.due(true, at(0)), NAMES);
        assert_eq!(parts.due(true, at(1)), [Live::NAME]);
        assert_eq!(parts.due(false, at(2)), [""; 0]);
        assert_eq!(parts.due(true, at(2)), NAMES, "a new reader gets all of it");
    }
}
