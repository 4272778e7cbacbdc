//! Forms that hand a job in, go on with one, and run one again.

use askama::Template;

use super::Chrome;
use super::simple::rendered;

/// Why a form was refused: in a sentence, then place and words of each problem.
#[derive(Debug, Clone, Default)]
pub struct Refused {
    /// What is wrong as a whole; empty where nothing is.
    pub says: String,
    /// Where, and what.
    pub problems: Vec<(String, String)>,
}

/// What would run of a job.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Mini-batches and items; nothing where they are not known beforehand.
    pub counts: Option<(u64, u64)>,
    /// Bytes of the packed code.
    pub code_bytes: u64,
    /// What the author should know.
    pub notes: Vec<String>,
}

/// The form for a new job.
#[derive(Debug, Template)]
#[template(path = "site/submit.html")]
pub struct SubmitPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The key that makes one job of a form that is sent twice.
    pub key: &'a str,
    /// The job file so far.
    pub text: &'a str,
    /// Settings so far, `KEY=VALUE`, one in a line.
    pub set: &'a str,
    /// The name so far.
    pub name: &'a str,
    /// Why it was refused.
    pub refused: Refused,
    /// What would run, where that was asked.
    pub planned: Option<Planned>,
}

impl SubmitPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// The form that goes on with a job, or runs it again.
#[derive(Debug, Template)]
#[template(path = "site/again.html")]
pub struct AgainPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The job.
    pub job_id: &'a str,
    /// Whether it runs again as a new one.
    pub is_new: bool,
    /// What is done of it, in words.
    pub done: &'a str,
    /// The keys that may be changed.
    pub settable: Vec<&'a str>,
    /// The key that makes one start of a form that is sent twice.
    pub key: &'a str,
    /// Settings so far.
    pub set: &'a str,
    /// The error group whose mini-batches alone run again; empty for all that failed.
    pub only_group: &'a str,
    /// Why it was refused.
    pub refused: Refused,
}

impl AgainPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}
