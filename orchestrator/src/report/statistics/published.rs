//! Statistics in the ledger of a fleet: the orchestrator publishes the parts that are due, as long as they have a reader there.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::ledger::JobLedger;
use prs_common::statistics::{Live, Part};

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

/// The parts with these names, [`Live`] among them, that the orchestrator publishes in the ledger for this reader. Nothing where the
/// ledger does not know the job, or does not answer, or no orchestrator watches over the job now: what storage has is some seconds older.
pub async fn read(ledger: &dyn JobLedger, names: &[&'static str]) -> Option<HashMap<&'static str, Bytes>> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let parts = tokio::time::timeout(PATIENCE, ledger.statistics(names)).await.ok()?.ok()?;
        let parts = names.iter().zip(parts);
        let found: HashMap<_, _> = parts.filter_map(|(name, part)| Some((*name, part?))).collect();
        if found.contains_key(Live::NAME) {
            return Some(found);
        }
        tokio::time::sleep(WAIT).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use prs_common::statistics::NAMES;

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
