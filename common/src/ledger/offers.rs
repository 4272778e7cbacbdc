//! Membership: which jobs of a compute target want nodes, and which workers have nothing to do.
//!
//! A job that was handed in is offered to the workers of its target until it is tidied up. Storage has the truth
//! (`active/<target>/...`); the ledger has what changes from second to second, and is filled from storage when it has
//! lost it.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::JobState;

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
    /// What the ledger knows of the job; nothing where the ledger lost it.
    pub known: Option<KnownJob>,
    /// How long ago an outcome of it came last, or a node where there was none, whichever is later; nothing before that.
    pub unmoved: Option<Duration>,
}

/// What the ledger knows of an offered job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownJob {
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
    /// Whether the worker that looks was asked to leave.
    pub leaves: bool,
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
