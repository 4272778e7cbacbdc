//! What a node is run with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::ledger::NodeInfo;
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::inputs::side::SideInputStore;
use crate::metrics::Metrics;

/// What a node is run with.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// The interpreter; that of an environment which is made for the job comes in its place.
    pub python: PathBuf,
    /// The extension that processes load.
    pub extension: PathBuf,
    /// Unique name of the worker.
    pub worker: String,
    /// The host.
    pub host: Host,
    /// Processes to run.
    pub slots: u32,
    /// Unacknowledged mini-batches at a time.
    pub prefetch: Prefetch,
    /// Most bytes of inputs that are kept on this host at a time.
    pub cache_bytes: u64,
    /// Of these, most bytes that lie in memory: those of small files.
    pub memory_bytes: u64,
    /// Where side inputs are kept; without, in the folder of the job.
    pub side_inputs: Option<Arc<SideInputStore>>,
    /// Name of the program, the same for all jobs that it serves.
    pub instance: String,
    /// Why this host cannot run the job; it is told to the job.
    pub unfit: Option<Unfit>,
    /// How long what runs has to end when the node leaves before its job ends.
    pub drain: Duration,
    /// What is counted.
    pub metrics: Metrics,
}

/// Why a host cannot run a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfit {
    /// The reason.
    pub reason: EndReason,
    /// Whether it is this host that lacks something, which another may have.
    pub is_of_host: bool,
}

impl From<EndReason> for Unfit {
    /// A reason that is not known to be of this host.
    fn from(reason: EndReason) -> Self {
        Self { reason, is_of_host: false }
    }
}

impl NodeSettings {
    /// Bytes of inputs that are kept where nobody says how many.
    pub const CACHE_BYTES: u64 = 20 << 30;
    /// Bytes of small inputs that are kept in memory where nobody says how many.
    pub const MEMORY_BYTES: u64 = 256 << 20;

    /// How long what runs has to end where nobody says it.
    pub const DRAIN: Duration = Duration::from_secs(30);

    /// What a node says of itself when it joins.
    pub(crate) fn info(&self) -> NodeInfo {
        let python = self.python.display().to_string();
        NodeInfo { python, ..self.host.node_info(&self.worker, &self.instance, self.slots) }
    }
}

/// How many mini-batches a node takes from the queue before it has settled them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// Always so many.
    Fixed(usize),
    /// About a second of work for each slot, at least one more than there are slots, and at most so many: others
    /// want some too.
    UpTo(usize),
}

/// How a node is asked to leave before its job ends.
#[derive(Debug, Clone, Default)]
pub struct NodeEnd {
    /// Take nothing more, let what runs end within the time for it, give the rest back.
    pub drain: CancellationToken,
    /// The same, at once: what runs is stopped.
    pub stop: CancellationToken,
    /// The ledger says that the worker was asked to leave: the node tells who runs it.
    pub asked: CancellationToken,
}
