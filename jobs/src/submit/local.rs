//! What a job needs to run on this machine: the interpreter, and one node.

use std::path::PathBuf;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use prs_common::end_reason::EndReason;
use prs_common::job::{Environment, JobSpec};
use prs_worker::metrics::Metrics;
use prs_worker::{
    Host, MadeEnvironment, NodeSettings, Prefetch, find_extension, find_interpreter, make_environment,
};

use crate::caller::Caller;
use crate::failure::Failure;

/// Between two lines about an environment that is made.
const TELL_INTERVAL: Duration = Duration::from_secs(5);

/// The interpreter of a job, and the extension that its processes load.
#[derive(Debug, Clone)]
pub struct Python {
    /// The interpreter; empty where the node makes an environment.
    pub interpreter: PathBuf,
    extension: PathBuf,
}

impl Python {
    /// What this machine has for the job.
    pub fn find(spec: &JobSpec) -> Result<Self, Failure> {
        let interpreter = match &spec.environment {
            // The node makes the environment, and says what it takes.
            Some(Environment::Packages(_)) => Ok(PathBuf::new()),
            Some(Environment::Interpreter(named)) => find_interpreter(Some(named)),
            None => find_interpreter(None),
        };
        Self::with(interpreter.map_err(Failure::usage)?)
    }

    /// The same for what runs without a node: an environment is made first, which is kept with what is given back.
    pub async fn make(
        spec: &JobSpec,
        caller: &dyn Caller,
    ) -> Result<(Self, Option<MadeEnvironment>), Failure> {
        let Some(packages) = spec.environment.as_ref().and_then(Environment::packages) else {
            return Ok((Self::find(spec)?, None));
        };
        let (told, last) = (Once::new(), Mutex::new(Instant::now()));
        let progress = |text: &str| {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            told.call_once(|| caller.note(&"preparing the environment"));
            if last.elapsed() > TELL_INTERVAL {
                *last = Instant::now();
                caller.note(&format_args!("preparing the environment: {text}"));
            }
        };
        let token = format!("{}-try-environment.", spec.name);
        let made = make_environment(packages, &token, &|_| {}, &progress).await;
        let made =
            made.map_err(|error| Failure::usage(EndReason::NoEnvironment { error: error.to_string() }))?;
        Ok((Self::with(made.python.clone())?, Some(made)))
    }

    /// The extension for an interpreter that was found.
    pub fn with(interpreter: PathBuf) -> Result<Self, Failure> {
        Ok(Self { interpreter, extension: find_extension().map_err(Failure::usage)? })
    }

    /// A node of this machine that shares its mini-batches with no other: it takes up to `prefetch` of them.
    pub fn node(self, spec: &JobSpec, prefetch: usize) -> NodeSettings {
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
            side_inputs: None,
            drain: NodeSettings::DRAIN,
            unfit: None,
            metrics: Metrics::default(),
        }
    }
}

/// The processes of a job on this machine.
pub fn slots(spec: &JobSpec, host: &Host) -> u32 {
    spec.process_count_per_node.unwrap_or_else(|| host.default_slots())
}
