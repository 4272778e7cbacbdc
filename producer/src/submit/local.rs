//! What a job needs to run on this machine: the interpreter, one node, and the job as that node sees it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prs_common::job::JobSpec;
use prs_common::ledger::EmbeddedLedger;
use prs_common::queue::EmbeddedQueue;
use prs_common::storage::{LocalStorage, Storage};
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::{JobContext, Policy, run_name};
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

/// A start of a job whose queue and ledger are in memory, with its logs and its scratch data in `folder`.
pub(crate) fn context(
    (id, incarnation): (&str, u32),
    spec: Arc<JobSpec>,
    storage: Arc<dyn Storage>,
    inputs: InputStores,
    output: &Path,
    folder: &Path,
) -> JobContext {
    JobContext {
        id: id.to_owned(),
        run: run_name(id, incarnation),
        code: String::new(),
        incarnation,
        queue: Arc::new(EmbeddedQueue::default()),
        ledger: Arc::new(EmbeddedLedger::default()),
        inputs,
        storage,
        output: Arc::new(LocalStorage::new(output)),
        output_prefix: None,
        logs: folder.join("logs"),
        logs_uri: folder.join("logs").display().to_string(),
        log_shipper: None,
        work: folder.join("work"),
        policy: Policy::embedded(),
        active: None,
        spec,
    }
}
