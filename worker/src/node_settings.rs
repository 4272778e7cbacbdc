//! What a node is run with.

use std::path::PathBuf;

use crate::host::Host;

/// What a node is run with.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// The interpreter.
    pub python: PathBuf,
    /// The extension that processes load.
    pub extension: PathBuf,
    /// Unique name of the worker.
    pub worker: String,
    /// The host.
    pub host: Host,
    /// Processes to run.
    pub slots: u32,
    /// Unacknowledged mini-batches at a time, at most.
    pub prefetch: usize,
}
