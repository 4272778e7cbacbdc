//! Membership: which jobs of a compute target want nodes, and which workers have nothing to do.
//!
//! A job that was handed in is offered to the workers of its target until it is tidied up. Storage has the truth
//! (`active/<target>/...`); the ledger has what changes from second to second, and is filled from storage when it has
//! lost it.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{IdleWorker, JobState, LedgerError, NodeInfo};

/// A job that the workers of its target are to serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The job.
    pub job_id: String,
    /// Which start of it, from 1.
    pub incarnation: u32,
    /// What this start of it is called in the ledger.
    pub run: String,
    /// Version of prs that it was submitted with; workers of another one leave it alone.
    pub prs_version: String,
    /// How many nodes it wants.
    pub nodes: u32,
    /// When this start was asked for, microseconds since the Unix epoch.
    pub started_us: u64,
}

/// An offer, and who works on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// The job.
    pub offer: Offer,
    /// Nodes that were heard of lately.
    pub nodes: u32,
    /// What the ledger knows of the job; nothing where its books are lost.
    pub books: Option<Books>,
}

/// What the ledger knows of an offered job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Books {
    /// The state.
    pub state: JobState,
    /// Whether it is decided how the job ends.
    pub is_concluded: bool,
    /// Whether a program holds the lease to watch over it.
    pub is_watched: bool,
}

/// What a look at the offers of a target shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offers {
    /// The offers, in no order.
    pub offered: Vec<Offered>,
    /// Whether they were compared with storage not long ago. Otherwise some may be missing.
    pub are_filled: bool,
}

/// How many nodes may serve a job at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seats {
    /// How many.
    pub count: u32,
    /// A node that was not heard of for so long has lost its seat.
    pub quiet: Duration,
}

/// Rings when a target's workers have something to look at.
#[async_trait]
pub trait Bell: Debug + Send {
    /// Waits until it rings. A ring may be missed, and while the ledger is away none is heard: a worker that waits looks by
    /// itself too, now and then.
    async fn rings(&mut self);
}

/// The part of the ledger that brings jobs and workers together.
///
/// # Contract
/// * Every call may be repeated with the same arguments and has its effect once.
/// * An `offer` rings the bells of its target where it is new or has changed; so does `ring`.
#[async_trait]
pub trait Membership: Debug + Send + Sync {
    /// Offers a job to the workers of `target`.
    async fn offer(&self, target: &str, offer: &Offer) -> Result<(), LedgerError>;
    /// Takes the offer of a run back.
    async fn withdraw(&self, target: &str, run: &str) -> Result<(), LedgerError>;
    /// The offers of `target`, with the nodes that were heard of within `quiet`. A `worker` that says who it is counts
    /// as idle.
    async fn offers(
        &self,
        target: &str,
        worker: Option<&NodeInfo>,
        quiet: Duration,
    ) -> Result<Offers, LedgerError>;
    /// How many workers of `target` looked for something to do within this time.
    async fn idle(&self, target: &str, within: Duration) -> Result<u64, LedgerError>;
    /// The same, one by one; those that looked longest ago first.
    async fn idle_workers(&self, target: &str, within: Duration) -> Result<Vec<IdleWorker>, LedgerError>;
    /// The targets that workers looked for something to do for, in the last days.
    async fn targets(&self) -> Result<Vec<String>, LedgerError>;
    /// Takes the duty to fill the offers of `target` from storage, for `time`; false while another worker has it, or
    /// they are filled.
    async fn begin_to_fill(&self, target: &str, time: Duration) -> Result<bool, LedgerError>;
    /// Notes that the offers of `target` are filled; after `time` they are compared with storage again.
    async fn filled(&self, target: &str, time: Duration) -> Result<(), LedgerError>;
    /// Notes which storage the ledger belongs to, unless that is noted already; returns the identity of that storage.
    async fn belongs_to(&self, storage: &str) -> Result<String, LedgerError>;
    /// Rings the bells of `target`.
    async fn ring(&self, target: &str) -> Result<(), LedgerError>;
    /// A bell that rings for all of `targets`.
    fn bell(&self, targets: &[String]) -> Box<dyn Bell>;

    /// Enters a node where a seat is free, and gives it its id; nothing where the job has enough. A worker that has a
    /// seat keeps it.
    async fn take_seat(&self, job: &str, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError>;
}
