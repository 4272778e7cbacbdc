//! Where the parts are written: files below the logs of the job, each written aside and renamed, so that a reader has a whole
//! one. On a fleet the log shipper brings them to storage. The log tells once what cannot be written, and the job continues.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use prs_common::statistics::{Activity, Errors, FOLDER, Live, NAMES, Nodes, Part, Summary, WATCHED};

use super::{Standing, Statistics};
use crate::metrics::OrchestratorMetrics;
use crate::report::write_whole;

/// Nobody reads any more when [`WATCHED`] was not touched for so long.
const WATCHED_FOR: Duration = Duration::from_secs(10);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(500);

/// Between two writes of each part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Of `live`.
    pub(crate) live: Duration,
    /// Of `activity` and `summary`.
    pub(crate) pictures: Duration,
    /// Of `errors` and `nodes`.
    pub(crate) lists: Duration,
}

impl Pace {
    /// While the job is watched.
    pub(crate) const WATCHED: Self = Self {
        live: Duration::from_secs(1),
        pictures: Duration::from_secs(2),
        lists: Duration::from_secs(5),
    };

    /// While nobody watches it: so much between two writes of `live`, and of the others.
    pub(crate) fn unwatched(live: Duration, others: Duration) -> Self {
        Self { live, pictures: others, lists: others }
    }

    fn of(&self, part: &str) -> Duration {
        match part {
            Live::NAME => self.live,
            Activity::NAME | Summary::NAME => self.pictures,
            Errors::NAME | Nodes::NAME => self.lists,
            _ => Duration::MAX,
        }
    }

    /// The parts that are due, of which each was written so long ago or never.
    pub(super) fn due(&self, age: impl Fn(&str) -> Option<Duration>) -> Vec<&'static str> {
        NAMES.into_iter().filter(|name| age(name).is_none_or(|age| age >= self.of(name))).collect()
    }
}

/// The files of one job.
#[derive(Debug, Default)]
pub(crate) struct StatisticsFiles {
    folder: PathBuf,
    /// Where they are written at first: no reader, and nobody who delivers logs, looks there.
    aside: PathBuf,
    /// While nobody looks.
    unwatched: Pace,
    written: BTreeMap<&'static str, Instant>,
    looked: Option<(Instant, bool)>,
    has_failed: bool,
    /// Counts their sizes.
    metrics: OrchestratorMetrics,
}

impl StatisticsFiles {
    /// The files below the folder of the logs; `work` is a folder on the same file system.
    pub(crate) fn new(logs: &Path, work: &Path, unwatched: Pace, metrics: OrchestratorMetrics) -> Self {
        let (folder, aside) = (logs.join(FOLDER), work.to_owned());
        Self { folder, aside, unwatched, metrics, ..Self::default() }
    }

    /// Writes the parts that are due at this time, and tells which.
    pub(crate) fn write_due(
        &mut self,
        statistics: &Statistics,
        standing: &Standing,
        now: Instant,
    ) -> Vec<&'static str> {
        let pace = if self.is_watched(now) { Pace::WATCHED } else { self.unwatched };
        let age = |name: &str| self.written.get(name).map(|at| now.saturating_duration_since(*at));
        let due = pace.due(age);
        for name in &due {
            self.write(name, statistics, standing);
            self.written.insert(name, now);
        }
        due
    }

    /// Writes all parts.
    pub(crate) fn write_all(&mut self, statistics: &Statistics, standing: &Standing) {
        for name in NAMES {
            self.write(name, statistics, standing);
        }
    }

    fn write(&mut self, name: &'static str, statistics: &Statistics, standing: &Standing) {
        let Some(part) = statistics.part(name, standing) else { return };
        self.metrics.part_written(name, part.len());
        let place = self.folder.join(name);
        if let Err(error) = write_whole(&self.aside, &place, part)
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::warn!(path = %place.display(), %error, "the statistics are not up to date; the job goes on");
        }
    }

    fn is_watched(&mut self, now: Instant) -> bool {
        if let Some((at, is_watched)) = self.looked
            && now.saturating_duration_since(at) < LOOK
        {
            return is_watched;
        }
        let touched = std::fs::metadata(self.folder.join(WATCHED)).and_then(|file| file.modified());
        let is_watched =
            touched.is_ok_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() < WATCHED_FOR);
        self.looked = Some((now, is_watched));
        is_watched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_due_by_their_pace() {
        let second = Duration::from_secs;
        let pace = Pace { live: second(1), pictures: second(2), lists: second(5) };
        assert_eq!(pace.due(|_| None), NAMES);
        let all = |age| pace.due(|_| Some(second(age)));
        assert_eq!(all(0), [""; 0]);
        assert_eq!(all(1), ["live"]);
        assert_eq!(all(4), ["live", "activity", "summary"]);
        assert_eq!(all(5), NAMES);
    }
}
