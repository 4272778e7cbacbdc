//! What a job needs to run on this machine: the interpreter, and one node.

use std::path::PathBuf;

use prs_common::job::JobSpec;
use prs_worker::{Host, NodeSettings, Prefetch, find_extension, find_interpreter};

use crate::failure::Failure;

/// The interpreter of a job, and the extension that its processes load.
#[derive(Debug, Clone)]
pub(crate) struct Python {
    pub(crate) interpreter: PathBuf,
    extension: PathBuf,
}

impl Python {
    /// What this machine has for the job.
    pub(crate) fn find(spec: &JobSpec) -> Result<Self, Failure> {
        let interpreter = find_interpreter(spec.environment.as_deref()).map_err(Failure::usage)?;
        Self::with(interpreter)
    }

    /// The extension for an interpreter that was found.
    pub(crate) fn with(interpreter: PathBuf) -> Result<Self, Failure> {
        Ok(Self { interpreter, extension: find_extension().map_err(Failure::usage)? })
    }

    /// A node of this machine that shares its mini-batches with no other: it takes up to `prefetch` of them.
    pub(crate) fn node(self, spec: &JobSpec, prefetch: usize) -> NodeSettings {
        let host = Host::detect();
        NodeSettings {
            python: self.interpreter,
            extension: self.extension,
            worker: host.name.clone(),
            instance: host.name.clone(),
            slots: slots(spec, &host),
            host,
            prefetch: Prefetch::Fixed(prefetch),
            cache_bytes: NodeSettings::CACHE_BYTES,
            memory_bytes: NodeSettings::MEMORY_BYTES,
            unfit: None,
        }
    }
}

/// The processes of a job on this machine.
pub(crate) fn slots(spec: &JobSpec, host: &Host) -> u32 {
    spec.process_count_per_node.unwrap_or_else(|| host.default_slots())
}
