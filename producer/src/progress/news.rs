//! What is printed once, the moment it is known: the first of each distinct error, a node that was lost, and what a fleet does
//! not do for the job.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use prs_common::ledger::{MOST_SEEN_ERRORS, SeenError};
use prs_jobs::paths::shown as shown_path;
use prs_jobs::standing::Shown;
use prs_orchestrator::job::record::LostNode;

use crate::terminal::visible::one_line;

/// That no worker is there is told once it has lasted so long.
const LASTS: Duration = Duration::from_secs(1);
/// Between two remarks that say something else.
const REMARK_INTERVAL: Duration = Duration::from_secs(10);

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// An error of the user's code.
    Error(String),
    /// Anything else.
    Note(String),
}

/// What was told.
#[derive(Debug, Default)]
pub(super) struct News {
    errors: Vec<SeenError>,
    lost: BTreeSet<u32>,
    /// What there is to remark, since when, and when a remark was made.
    remark: Option<(String, Instant)>,
    remarked: Option<(String, Instant)>,
}

impl News {
    /// What is new.
    pub(super) fn hear(&mut self, shown: &Shown, now: Instant) -> Vec<Told> {
        let mut told = Vec::new();
        for error in &shown.status.errors {
            if self.errors.len() < MOST_SEEN_ERRORS && !self.errors.iter().any(|known| known.is_as(error)) {
                self.errors.push(error.clone());
                told.push(Told::Error(describe(error)));
            }
        }
        let lost = shown.status.lost.iter().filter(|node| self.lost.insert(node.node_id));
        told.extend(lost.map(|node| Told::Note(one_line(&describe_lost(node)).into_owned())));
        told.extend(self.remark(shown.served(), now).map(Told::Note));
        told
    }

    fn remark(&mut self, remark: Option<String>, now: Instant) -> Option<String> {
        let Some(remark) = remark else {
            self.remark = None;
            return None;
        };
        if self.remark.as_ref().is_none_or(|(known, _)| *known != remark) {
            self.remark = Some((remark.clone(), now));
        }
        let lasts = self.remark.as_ref().is_some_and(|(_, since)| now - *since >= LASTS);
        let is_new =
            self.remarked.as_ref().is_none_or(|(told, at)| *told != remark && now - *at >= REMARK_INTERVAL);
        if !lasts || !is_new {
            return None;
        }
        self.remarked = Some((remark.clone(), now));
        Some(remark)
    }
}

/// One line about a node that was lost.
pub(crate) fn describe_lost(LostNode { node_id, text }: &LostNode) -> String {
    format!("node {node_id} was lost: {text}")
}

/// One line about an error.
pub(crate) fn describe(error: &SeenError) -> String {
    let SeenError { what, category, message, line, .. } = error;
    let place = line.as_ref().map(|line| {
        let mut line = line.clone();
        line.file = shown_path(Path::new(&line.file));
        format!("  {line}")
    });
    let category = if category.is_empty() { String::new() } else { format!("{category}: ") };
    one_line(&format!("{what}: {category}{message}{}", place.unwrap_or_default())).into_owned()
}

#[cfg(test)]
mod tests {
    use prs_common::source_line::SourceLine;

    use super::super::facts::tests::{running, waiting};
    use super::*;

    fn error(at_us: u64, category: &str) -> SeenError {
        SeenError {
            at_us,
            what: format!("mini-batch {at_us} (a.txt), try 1 of 3"),
            category: category.to_owned(),
            message: "cannot parse a.txt".to_owned(),
            line: Some(SourceLine {
                file: "/code/llm.py".to_owned(),
                line: 9,
                function: "run".to_owned(),
                text: String::new(),
            }),
        }
    }

    #[test]
    fn the_first_of_each_distinct_error_is_told_once() {
        let (mut news, mut shown, now) = (News::default(), running(), Instant::now());
        assert_eq!(news.hear(&shown, now), []);
        shown.status.errors = vec![error(7, "ValueError")];
        let told = "mini-batch 7 (a.txt), try 1 of 3: ValueError: cannot parse a.txt  /code/llm.py:9 in run";
        assert_eq!(news.hear(&shown, now), [Told::Error(told.to_owned())]);
        assert_eq!(news.hear(&shown, now), []);
        // Another node saw the same earlier.
        shown.status.errors = vec![error(6, "ValueError"), error(8, "OSError"), error(9, "KeyError")];
        assert_eq!(news.hear(&shown, now).len(), 2);
        shown.status.errors = vec![error(1, "TypeError")];
        assert_eq!(news.hear(&shown, now), [], "three are enough");
    }

    #[test]
    fn a_node_that_was_lost_is_told_once() {
        let (mut news, mut shown, now) = (News::default(), running(), Instant::now());
        shown.status.lost =
            [LostNode { node_id: 3, text: "worker w on h was not heard of".to_owned() }].into();
        let told = "node 3 was lost: worker w on h was not heard of".to_owned();
        assert_eq!(news.hear(&shown, now), [Told::Note(told)]);
        assert_eq!(news.hear(&shown, now), []);
    }

    #[test]
    fn that_no_worker_is_there_is_told_when_it_lasts_and_when_it_changes() {
        let (mut news, mut shown, start) = (News::default(), waiting(), Instant::now());
        let mut hear =
            |shown: &Shown, millis| !news.hear(shown, start + Duration::from_millis(millis)).is_empty();
        assert!(!hear(&shown, 0));
        assert!(hear(&shown, 1_000));
        assert!(!hear(&shown, 90_000));
        shown.standing.workers.as_mut().unwrap().busy = 2;
        assert!(!hear(&shown, 90_100));
        assert!(hear(&shown, 91_100));
        shown.standing.workers.as_mut().unwrap().busy = 3;
        assert!(!hear(&shown, 95_000));
        assert!(!hear(&shown, 96_000), "not all the time");
        assert!(hear(&shown, 102_000));
        shown.status.nodes = 1;
        assert!(!hear(&shown, 110_000));
    }
}
