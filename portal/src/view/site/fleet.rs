//! The fleet: are there enough workers, what waits and since when, who is busy with what.

use askama::Template;

use super::Chrome;
use super::simple::rendered;
use crate::text::times::{day_and_clock, duration};
use crate::text::{count, counted};

/// A compute target.
#[derive(Debug, Clone, Default)]
pub struct TargetRow {
    /// Its name.
    pub target: String,
    /// Nodes that its jobs can use now.
    pub wanted: u64,
    /// Nodes that serve its jobs.
    pub live: u64,
    /// Workers without a job.
    pub idle: u64,
    /// Workers that are missing.
    pub needed: u64,
    /// Mini-batches that wait.
    pub waiting: u64,
    /// Jobs that have not ended.
    pub jobs: u64,
    /// Of these, jobs that nobody watches over.
    pub unwatched: u64,
    /// How long the job that waits longest for a node has been waiting, seconds; 0 where none does.
    pub oldest_wait_seconds: f64,
}

impl TargetRow {
    fn waits(&self) -> String {
        if self.oldest_wait_seconds > 0.0 { duration(self.oldest_wait_seconds) } else { String::new() }
    }

    /// What needs a person; empty where nothing does.
    fn says(&self) -> String {
        if self.wanted > 0 && self.live + self.idle == 0 {
            return format!("No worker. Start one: prs worker --target {}", self.target);
        }
        if self.unwatched > 0 && self.live > 0 {
            let jobs = counted(self.unwatched, "job");
            return format!("Nobody watches over {jobs}: see the logs of the workers");
        }
        if self.needed > 0 {
            return format!("{} more could work", counted(self.needed, "worker"));
        }
        String::new()
    }
}

/// A worker.
#[derive(Debug, Clone, Default)]
pub struct WorkerRow {
    /// Its name.
    pub worker: String,
    /// Its host.
    pub host: String,
    /// Its targets, or that of its job.
    pub targets: String,
    /// Processes it runs, or may run.
    pub slots: u32,
    /// The job that it serves; empty where it is idle.
    pub job: String,
    /// Version of prs.
    pub version: String,
    /// How long ago it was heard of, seconds.
    pub seen_seconds: f64,
}

impl WorkerRow {
    fn seen(&self) -> String {
        format!("{} ago", duration(self.seen_seconds))
    }
}

/// The fleet as a page.
#[derive(Debug, Template)]
#[template(path = "site/fleet.html")]
pub struct FleetPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The targets, by name.
    pub targets: Vec<TargetRow>,
    /// The workers of this page.
    pub workers: Vec<WorkerRow>,
    /// How many there are.
    pub total: u64,
    /// When they were seen, microseconds since the Unix epoch.
    pub at_us: u64,
}

impl FleetPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn as_of(&self) -> (String, String) {
        (format!("{} UTC", day_and_clock(self.at_us)), prs_common::timestamp::format_us(self.at_us))
    }

    fn is_cut(&self) -> bool {
        (self.workers.len() as u64) < self.total
    }

    fn shown(&self) -> String {
        let all = counted(self.total, "worker");
        if self.is_cut() { format!("{} of {all}", count(self.workers.len() as u64)) } else { all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_says_what_it_lacks() {
        let target = TargetRow { target: "gpu".to_owned(), wanted: 4, needed: 4, ..TargetRow::default() };
        assert_eq!(target.says(), "No worker. Start one: prs worker --target gpu");
        let some = TargetRow { live: 3, needed: 1, ..target.clone() };
        assert_eq!(some.says(), "1 worker more could work");
        assert!(TargetRow { live: 3, unwatched: 2, ..target.clone() }.says().contains("over 2 jobs"));
        assert_eq!(TargetRow { live: 4, needed: 0, ..target }.says(), "");
    }

    #[test]
    fn names_are_no_markup() {
        let chrome = Chrome::default();
        let worker =
            WorkerRow { worker: "<b>w</b>".to_owned(), job: "a\"b".to_owned(), ..WorkerRow::default() };
        let page =
            FleetPage { chrome: &chrome, targets: Vec::new(), workers: vec![worker], total: 7, at_us: 0 };
        let html = page.html();
        assert!(
            !html.contains("<b>w") && !html.contains("a\"b") && html.contains("1 of 7 workers"),
            "{html}"
        );
    }
}
