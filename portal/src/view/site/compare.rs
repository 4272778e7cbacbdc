//! Two jobs beside each other: why was yesterday faster?

use askama::Template;

use super::Chrome;
use super::simple::rendered;
use crate::text::cut;
use crate::text::times::duration;
use crate::view::header::Chip;

/// Letters of a value of a setting.
const LETTERS: usize = 400;
/// What the quantiles are called, in their order.
const QUANTILES: [&str; 7] = ["Least", "25 %", "Median", "75 %", "95 %", "99 %", "Most"];
/// What the parts of the time of slots are called, in their order.
const SHARES: [&str; 6] =
    ["run(), with the CPU", "run(), waiting", "Loading data", "Other work of tries", "init()", "Idle"];

/// One of the two.
#[derive(Debug, Clone, Default)]
pub struct ComparedJob {
    /// Its id.
    pub job_id: String,
    /// What people call it.
    pub title: String,
    /// Its state, and whether it completed with every item.
    pub state: Option<(prs_common::ledger::JobState, bool)>,
    /// When it was submitted: UTC, for people and for programs.
    pub submitted: (String, String),
    /// How long it took, seconds.
    pub seconds: f64,
    /// Items: all, failed.
    pub items: (u64, u64),
    /// How long `run()` took, and making its argument: quantiles, seconds.
    pub run: Option<[f64; 7]>,
    /// The same of its argument.
    pub load: Option<[f64; 7]>,
    /// Where the time of slots went, 0 to 1.
    pub shares: Option<[f64; 6]>,
}

impl ComparedJob {
    fn chip(&self) -> Chip {
        let (state, complete) = self.state.unwrap_or((prs_common::ledger::JobState::Queued, true));
        Chip::of(state, complete)
    }

    fn took(&self) -> String {
        duration(self.seconds)
    }
}

/// A file of the code that differs.
#[derive(Debug, Clone, Default)]
pub struct ComparedFile {
    /// Its path.
    pub path: String,
    /// Where the first job has it, and the second; empty where one does not.
    pub links: (String, String),
    /// Lines that only one has; nothing where they were not compared.
    pub lines: Option<(u64, u64)>,
}

impl ComparedFile {
    fn says(&self) -> String {
        match (self.links.0.is_empty(), self.links.1.is_empty(), self.lines) {
            (true, _, Some((_, more))) => format!("only in the second, {more} lines"),
            (_, true, Some((less, _))) => format!("only in the first, {less} lines"),
            (true, _, None) => "only in the second".to_owned(),
            (_, true, None) => "only in the first".to_owned(),
            (_, _, Some((less, more))) => {
                format!("{less} lines only in the first, {more} only in the second")
            }
            (_, _, None) => "it differs, and its lines are not compared".to_owned(),
        }
    }
}

/// The page.
#[derive(Debug, Template)]
#[template(path = "site/compare.html")]
pub struct ComparePage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// What stands in the two fields.
    pub asked: (&'a str, &'a str),
    /// What is wrong with them; empty where nothing is.
    pub wrong: String,
    /// Other jobs of the name of the first: id, and what there is to say.
    pub others: Vec<(String, String)>,
    /// The two, once both are named.
    pub jobs: Vec<ComparedJob>,
    /// The settings that differ: key and both values; empty where a job does not have it.
    pub settings: Vec<(String, String, String)>,
    /// The files of their code that differ.
    pub files: Vec<ComparedFile>,
    /// Files that are not named.
    pub files_left_out: usize,
}

impl ComparePage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn cut(value: &str) -> String {
        if value.is_empty() { "\u{2013}".to_owned() } else { cut(value, LETTERS) }
    }

    /// Rows of a table of quantiles: name, both values, how many times as long the second is.
    fn quantiles(
        &self,
        of: fn(&ComparedJob) -> Option<[f64; 7]>,
    ) -> Vec<(&'static str, String, String, String)> {
        let [Some(one), Some(other)] = [0, 1].map(|at| self.jobs.get(at).and_then(of)) else {
            return Vec::new();
        };
        let row = |at: usize| {
            let factor =
                if one[at] > 0.0 { format!("{:.2} times", other[at] / one[at]) } else { String::new() };
            (QUANTILES[at], duration(one[at]), duration(other[at]), factor)
        };
        (0..QUANTILES.len()).map(row).collect()
    }

    fn runs(&self) -> Vec<(&'static str, String, String, String)> {
        self.quantiles(|job| job.run)
    }

    fn loads(&self) -> Vec<(&'static str, String, String, String)> {
        self.quantiles(|job| job.load)
    }

    fn shares(&self) -> Vec<(&'static str, String, String)> {
        let [Some(one), Some(other)] = [0, 1].map(|at| self.jobs.get(at).and_then(|job| job.shares)) else {
            return Vec::new();
        };
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        (0..SHARES.len()).map(|at| (SHARES[at], percent(one[at]), percent(other[at]))).collect()
    }
}
