//! The first distinct errors of a node, which people see while the job runs: they travel with its heartbeat.

use std::ops::Range;

use prs_common::ledger::{MOST_SEEN_ERRORS, NodeReport, SeenError};
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex};
use prs_common::source_line::SourceLine;
use prs_common::timestamp::now_us;
use prs_common::wire::ErrorInfo;

/// Longest message and longest name of what failed, bytes.
const LONGEST: usize = 160;

/// What a try of a mini-batch with the descriptor `planned` is called; `number` says which of its `most` tries it is, from 1.
pub(crate) fn try_name(index: MiniBatchIndex, planned: &[u8], number: u32, most: u32) -> String {
    format!("{}, try {number} of {most}", name(index, planned))
}

/// Names the try of a part of the mini-batch with the descriptor `planned`: its `items`, counted from 0.
pub(crate) fn part_name(index: MiniBatchIndex, planned: &[u8], items: &Range<u64>) -> String {
    format!("{}, items {} to {}", name(index, planned), items.start, items.end - 1)
}

fn name(index: MiniBatchIndex, planned: &[u8]) -> String {
    let detail = MiniBatch::decode(planned).map(|mini_batch| mini_batch.detail());
    let of = detail.map(|detail| format!(" ({})", cut(&detail))).unwrap_or_default();
    format!("mini-batch {index}{of}")
}

/// Notes that a try failed by the user's code; `what` says which.
pub(crate) fn note_try(report: &mut NodeReport, error: &ErrorInfo, what: impl FnOnce() -> String) {
    report.failed_tries += 1;
    note(report, error, what);
}

/// Notes an error, where it is one of the first that are distinct; `what` says what failed.
pub(crate) fn note(report: &mut NodeReport, error: &ErrorInfo, what: impl FnOnce() -> String) {
    if report.errors.len() >= MOST_SEEN_ERRORS {
        return;
    }
    let first_line = error.message.lines().next().unwrap_or_default();
    let mut seen = SeenError {
        at_us: now_us(),
        what: String::new(),
        category: cut(&error.category),
        message: cut(first_line),
        // What stands in the line is not needed to find it.
        line: error.frame.as_deref().map(|line| SourceLine { text: String::new(), ..line.clone() }),
    };
    if report.errors.iter().any(|known| known.is_as(&seen)) {
        return;
    }
    seen.what = what();
    report.errors.push(seen);
}

/// The beginning of `text`.
pub(crate) fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST);
    if end == text.len() { text.to_owned() } else { format!("{}…", &text[..end]) }
}

#[cfg(test)]
mod tests {
    use prs_common::mini_batch::Work;
    use prs_common::wire::Stage;

    use super::*;

    fn error(category: &str, message: &str, line: u32) -> ErrorInfo {
        let file = "/home/ana/code/main.py".to_owned();
        let frame = SourceLine { file, line, function: "run".to_owned(), text: "x()".to_owned() };
        ErrorInfo {
            stage: Stage::Run,
            category: category.into(),
            message: message.into(),
            traceback: String::new(),
            frame: Some(Box::new(frame)),
        }
    }

    #[test]
    fn the_first_of_each_distinct_error_is_noted_and_all_are_counted() {
        let paths = vec!["a.txt", "b.txt"];
        let work = Work::Files { base: "/data", paths, versions: &[], names: Vec::new() };
        let planned = MiniBatch::new(7, 0, work).encode();
        let mut report = NodeReport::default();
        let errors = [
            error("ValueError", "cannot parse a.txt\nat all", 9),
            error("ValueError", "cannot parse b.txt", 9),
            error("OSError", &"x".repeat(1_000), 9),
            error("ValueError", "other", 12),
            error("KeyError", "one more", 13),
        ];
        for error in &errors {
            note_try(&mut report, error, || try_name(7, &planned, 2, 3));
        }
        assert_eq!(report.failed_tries, 5);
        let told: Vec<_> = report
            .errors
            .iter()
            .map(|seen| (&*seen.category, seen.line.as_ref().map(ToString::to_string).unwrap_or_default()))
            .collect();
        let place = |line: u32| format!("/home/ana/code/main.py:{line} in run");
        assert_eq!(told, [("ValueError", place(9)), ("OSError", place(9)), ("ValueError", place(12))]);
        assert_eq!(report.errors[0].what, "mini-batch 7 (a.txt and 1 more), try 2 of 3");
        assert_eq!(report.errors[0].message, "cannot parse a.txt");
        assert!(report.errors[1].message.len() < 170 && report.errors[1].message.ends_with('…'));
    }
}
