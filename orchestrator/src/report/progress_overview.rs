//! `job_progress_overview.<yyyyMMdd>.txt`: the counts over time, rotated daily.

use std::fmt::Write;
use std::path::PathBuf;

use prs_common::ledger::{JobProgress, JobState};
use prs_common::log_file::LogFile;
use prs_common::timestamp::{format_day, now_us};

use crate::job::record::{JobResult, Status};

/// A wait for a worker is told that took so long, seconds.
const A_WAIT: f64 = 1.0;

/// The overview of one job.
#[derive(Debug)]
pub struct ProgressOverview {
    logs: PathBuf,
    day: String,
    file: LogFile,
}

impl ProgressOverview {
    /// The overview below `logs`.
    pub fn new(logs: PathBuf) -> Self {
        let day = format_day(now_us());
        let file = Self::file(&logs, &day);
        Self { logs, day, file }
    }

    fn file(logs: &std::path::Path, day: &str) -> LogFile {
        LogFile::new(logs.join(format!("job_progress_overview.{day}.txt")))
    }

    /// Appends a line.
    pub fn line(&mut self, text: &str) {
        let today = format_day(now_us());
        if today != self.day {
            self.file = Self::file(&self.logs, &today);
            self.day = today;
        }
        self.file.line(text);
    }
}

/// One line about where a job stands; also what a terminal without a progress bar shows.
pub fn describe(state: JobState, status: &Status) -> String {
    let JobProgress { checkpoint, succeeded, failed, items, .. } = status.progress;
    let more = if checkpoint.complete { "" } else { " so far" };
    let mut text = format!(
        "{}: {} of {}{more} mini-batches processed, {failed} failed, {items} items, {}",
        state.as_str(),
        succeeded + failed,
        checkpoint.scheduled,
        rate(status.per_second, "mini-batches"),
    );
    if let Some(seconds) = status.eta_seconds {
        let _ = write!(text, ", about {} left", duration(seconds));
    } else if let Some((index, seconds)) = status.waits_for_last() {
        let _ = write!(text, ", waiting for mini-batch {index}, {}", duration(seconds));
    }
    text
}

/// `12 items/s`, `0.4 items/s` or `1.5 items/min`.
pub fn rate(per_second: f64, what: &str) -> String {
    match per_second {
        10.0.. => format!("{per_second:.0} {what}/s"),
        0.095.. => format!("{per_second:.1} {what}/s"),
        rate if rate > 0.0 => format!("{:.1} {what}/min", rate * 60.0),
        _ => format!("0 {what}/s"),
    }
}

/// `1 h 02 min`, `3 min 05 s` or `4.2 s`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        3600.. => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        60.. => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{:.1} s", seconds.max(0.0)),
    }
}

/// How long a job ran, and how long it waited for a worker before that.
pub fn time_of(result: &JobResult) -> String {
    let waited = Some(result.waited_seconds).filter(|waited| *waited >= A_WAIT);
    let beside = waited.map(|waited| format!(", after {} without a worker", duration(waited)));
    format!("{}{}", duration(result.seconds), beside.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::Checkpoint;

    use super::*;
    use crate::job::record::ProcessAtWork;

    #[test]
    fn the_end_is_estimated_or_waits_for_a_mini_batch() {
        let checkpoint = Checkpoint { scheduled: 8, complete: true, ..Checkpoint::default() };
        let progress = JobProgress { checkpoint, succeeded: 7, items: 7, ..JobProgress::default() };
        let at_work = [ProcessAtWork { index: 7, of: 1, ..ProcessAtWork::default() }].into();
        let mut status = Status { progress, at_work, updated_us: 11_000_000, ..Status::default() };
        let counts = "running: 7 of 8 mini-batches processed, 0 failed, 7 items, 0 mini-batches/s";
        assert_eq!(
            describe(JobState::Running, &status),
            format!("{counts}, waiting for mini-batch 7, 11.0 s")
        );
        status.eta_seconds = Some(2.0);
        assert_eq!(describe(JobState::Running, &status), format!("{counts}, about 2.0 s left"));
    }

    #[test]
    fn rates_are_told_however_small() {
        let told = [12.4, 1.26, 0.4, 0.1, 0.025, 0.0].map(|per_second| rate(per_second, "items"));
        let expected =
            ["12 items/s", "1.3 items/s", "0.4 items/s", "0.1 items/s", "1.5 items/min", "0 items/s"];
        assert_eq!(told, expected);
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(duration(4.23), "4.2 s");
        assert_eq!(duration(185.0), "3 min 05 s");
        assert_eq!(duration(3725.0), "1 h 02 min");
    }
}
