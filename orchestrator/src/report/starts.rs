//! The lines of `job_result.txt` that say which start of a job, and which code, brought which mini-batches.

use std::fmt::Write;

use crate::job::count;
use crate::job::record::StartResult;

/// Groups of mini-batches that stand in a line.
const MOST_RANGES: usize = 8;
/// Digits of a checksum that tell the codes of a job apart.
const DIGITS: usize = 12;

/// The lines; none for a job that was started once.
pub fn lines(starts: &[StartResult]) -> String {
    let mut out = String::new();
    if starts.len() < 2 {
        return out;
    }
    for (position, start) in starts.iter().enumerate() {
        let heading = if position == 0 { "starts" } else { "" };
        let _ = write!(out, "{heading:<14}{}: code {}, {}", start.start, short(&start.code), counts(start));
        if !start.ranges.is_empty() {
            let _ = write!(out, " (mini-batches {})", ranges(start));
        }
        out.push('\n');
    }
    out
}

/// The beginning of a checksum of code.
pub fn short(code: &str) -> &str {
    code.get(..DIGITS).unwrap_or(code)
}

fn counts(start: &StartResult) -> String {
    format!("{} done, {}", count(start.mini_batches, "mini-batch"), count(start.rows, "row"))
}

fn ranges(start: &StartResult) -> String {
    let shown = start.ranges.iter().take(MOST_RANGES);
    let shown = shown.map(|&(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    let more = start.ranges.len().saturating_sub(MOST_RANGES) as u64 + start.ranges_left_out;
    if more > 0 {
        let _ = write!(text, " and {more} more groups");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(start: u32, ranges: &[(u64, u64)], left_out: u64) -> StartResult {
        StartResult {
            start,
            code: format!("{start}").repeat(64),
            mini_batches: ranges.iter().map(|(first, last)| last - first + 1).sum(),
            rows: 7,
            ranges: ranges.to_vec(),
            ranges_left_out: left_out,
        }
    }

    #[test]
    fn each_start_has_a_line_where_there_are_several() {
        assert_eq!(lines(&[start(1, &[(0, 9)], 0)]), "");
        let many: Vec<_> = (0..10).map(|at| (2 * at, 2 * at)).collect();
        let text = lines(&[start(1, &[(0, 0), (2, 5)], 0), start(2, &[(1, 1)], 0), start(3, &many, 2)]);
        let expected = "\
starts        1: code 111111111111, 5 mini-batches done, 7 rows (mini-batches 0, 2-5)
              2: code 222222222222, 1 mini-batch done, 7 rows (mini-batches 1)
              3: code 333333333333, 10 mini-batches done, 7 rows (mini-batches 0, 2, 4, 6, 8, 10, 12, 14 and 4 more groups)
";
        assert_eq!(text, expected);
        assert!(
            lines(&[start(1, &[(0, 0)], 0), start(2, &[], 0)]).ends_with("0 mini-batches done, 7 rows\n")
        );
    }
}
