//! What a job found out about its data and its script, beside the counts: whether all of it is in the result, and why
//! not. Part of the result of a job, and of what every command prints of it.

use prs_common::ledger::JobState;
use serde::{Deserialize, Serialize};

use super::errors::ErrorGroup;

/// What was found out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Whether the job completed with every item.
    #[serde(default)]
    pub complete: bool,
    /// Whether the job file says how many failures the job may have.
    #[serde(default)]
    pub failures_allowed: bool,
    /// Mini-batches whose items are missing, all or some: those in the list of failed mini-batches.
    #[serde(default)]
    pub mini_batches_missing: u64,
    /// So many of them are not in that list, which would be too long.
    #[serde(default)]
    pub mini_batches_unlisted: u64,
    /// Tries that failed.
    #[serde(default)]
    pub tries: TryCounts,
    /// Processes that were replaced, because mini-batches failed in them.
    #[serde(default)]
    pub replaced_processes: u64,
    /// More elements were returned than there were items; nothing where that did not happen.
    #[serde(default)]
    pub surplus: Option<Surplus>,
    /// What was left out of the inputs by the rules of their listings, in sentences.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Which columns of the inputs have other types in one file than in another, or in a sample than in all of a file, in sentences.
    #[serde(default)]
    pub types_differ: Vec<String>,
    /// How many processes of a node saw no GPU, where it has some; in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_shortage: Option<String>,
    /// How many distinct errors there are.
    #[serde(default)]
    pub distinct_errors: u64,
    /// The first of them, without their tracebacks: those that cost most items.
    #[serde(default)]
    pub errors: Vec<ErrorGroup>,
    /// How the last start of the job ended, where it brought no result and what a start before it brought stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_start: Option<Box<LastStart>>,
}

/// A start of a job that brought no result, after one that did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastStart {
    /// Which one, from 1.
    pub start: u32,
    /// The start that the result is of.
    pub result_of: u32,
    /// `failed` or `canceled`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: JobState,
    /// Why.
    pub reason: String,
}

/// Counts of tries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TryCounts {
    /// That failed.
    pub failed: u64,
    /// That failed, of mini-batches of which a later try succeeded with all items.
    pub made_good: u64,
}

/// Mini-batches of which more elements were returned than they have items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Surplus {
    /// How many mini-batches.
    pub mini_batches: u64,
    /// Their items.
    pub items: u64,
    /// The elements that were returned for them.
    pub elements: u64,
}

impl Findings {
    /// Whether the job completed without items that nobody said may be missing.
    pub fn lacks_unexpectedly(&self) -> bool {
        !self.complete && !self.failures_allowed
    }
}
