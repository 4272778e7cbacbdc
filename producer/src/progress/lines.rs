//! When a plain line about a job is due, where nobody watches a terminal: when something has happened, and else once a
//! minute, so that a log shows that the program lives.

use std::time::{Duration, Instant};

use prs_jobs::standing::Shown;

use super::facts::{Facts, Phase};

/// A phase is told once it has lasted so long: quick jobs need no lines.
const LASTS: Duration = Duration::from_secs(2);
/// Between two lines about what happens all the time.
const NEWS_INTERVAL: Duration = Duration::from_secs(10);
/// Between two lines while nothing happens.
const QUIET_INTERVAL: Duration = Duration::from_mins(1);

/// What was said, and when.
#[derive(Debug)]
pub(super) struct Lines {
    /// When the job began, as far as it is known.
    began: Instant,
    is_known: bool,
    last: Instant,
    mark: Option<(u64, u64, u64, u64, u32)>,
    phase: (Option<Phase>, Instant),
    told: Option<Phase>,
}

impl Lines {
    pub(super) fn new(now: Instant) -> Self {
        Self { began: now, is_known: false, last: now, mark: None, phase: (None, now), told: None }
    }

    /// How long the job has been going on.
    pub(super) fn elapsed(&mut self, shown: &Shown, now: Instant) -> Duration {
        if !self.is_known && shown.state.is_some() {
            let age = shown.status.seconds + shown.status.waited_seconds;
            let age = Duration::try_from_secs_f64(age).unwrap_or_default();
            self.began = now.checked_sub(age).unwrap_or(now);
            self.is_known = true;
        }
        now - self.began
    }

    /// The line that is due, if one is.
    pub(super) fn due(&mut self, facts: &Facts, now: Instant) -> Option<String> {
        if facts.phase != self.phase.0 {
            self.phase = (facts.phase, now);
        }
        let is_new = facts.phase != self.told && now - self.phase.1 >= LASTS;
        let since = now - self.last;
        let has_news = self.mark.is_some_and(|mark| mark != facts.mark) && since >= NEWS_INTERVAL;
        self.mark.get_or_insert(facts.mark);
        if !is_new && !has_news && since < QUIET_INTERVAL {
            return None;
        }
        if is_new {
            self.told = facts.phase;
            if facts.phase == Some(Phase::Waiting) {
                // Why it waits is told by itself.
                return None;
            }
        }
        (self.last, self.mark) = (now, Some(facts.mark));
        facts.phase.map(|_| facts.line())
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::tests::{running, waiting};
    use super::*;

    #[test]
    fn a_line_comes_when_something_has_happened_and_else_once_a_minute() {
        let start = Instant::now();
        let mut lines = Lines::new(start);
        let mut hear = |shown: &Shown, millis: u64| {
            let now = start + Duration::from_millis(millis);
            let facts = Facts::of(shown, lines.elapsed(shown, now));
            lines.due(&facts, now).map(|line| line.split("  ").next().unwrap_or_default().to_owned())
        };
        let mut shown = running();
        assert_eq!(hear(&Shown::default(), 0), None);
        assert_eq!(hear(&shown, 100), None, "it may be over in a moment");
        assert_eq!(hear(&shown, 2_100).as_deref(), Some("running 0:02"));
        shown.status.progress.succeeded += 1;
        assert_eq!(hear(&shown, 5_000), None);
        assert_eq!(hear(&shown, 12_100).as_deref(), Some("running 0:12"));
        assert_eq!(hear(&shown, 40_000), None, "nothing has happened");
        assert_eq!(hear(&shown, 72_100).as_deref(), Some("running 1:12"));
        shown.status.progress.succeeded = 30;
        assert_eq!(hear(&shown, 72_200), None);
        assert_eq!(hear(&shown, 74_200).as_deref(), Some("ending 1:14"));
    }

    #[test]
    fn a_job_that_waits_says_so_once_a_minute() {
        let start = Instant::now();
        let mut lines = Lines::new(start);
        let told: Vec<u64> = (0..200)
            .filter(|second| {
                let now = start + Duration::from_secs(*second);
                let facts = Facts::of(&waiting(), lines.elapsed(&waiting(), now));
                lines.due(&facts, now).is_some()
            })
            .collect();
        assert_eq!(told, [60, 120, 180]);
    }
}
