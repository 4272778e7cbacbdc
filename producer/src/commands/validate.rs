//! `validate`: checks a job file, its script and its inputs, and plans the job; runs nothing.

use std::ops::ControlFlow;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Context;
use prs_common::job::{JobSpec, load};
use prs_common::storage::{LocalStorage, Storage};
use prs_common::temporary_folder::TemporaryFolder;
use prs_orchestrator::inputs::{Audience, InputStores, Where, resolve};
use prs_orchestrator::plan::{PlanContext, plan};
use prs_worker::{Host, find_interpreter, opener};
use serde::Serialize;
use tokio::runtime::Handle;

use crate::cli::{Format, Validate};
use crate::failure::{Code, Failure};
use crate::output;

/// Compiles the script without running it.
const COMPILE: &str = "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')";

#[derive(Debug, Serialize)]
struct Planned {
    name: String,
    mini_batches: u64,
    items: u64,
    processes: u32,
    interpreter: String,
}

/// Checks a job file.
pub(super) async fn validate(arguments: &Validate, format: Format) -> Result<ExitCode, Failure> {
    let spec = load(&arguments.job_file, &arguments.set).map_err(Failure::usage)?;
    let python = find_interpreter(spec.environment.as_deref()).map_err(Failure::usage)?;
    check_script(&spec, &python)?;
    let scratch = TemporaryFolder::make("prs-validate-").context("cannot make a temporary folder")?;
    let mut planned = Planned {
        name: spec.name.clone(),
        mini_batches: 0,
        items: 0,
        processes: spec.process_count_per_node.unwrap_or_else(|| Host::detect().default_slots()),
        interpreter: python.display().to_string(),
    };
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(scratch.path()));
    let stores = InputStores::new(Arc::clone(&storage), storage, opener());
    let resolved = resolve(spec, &stores, Where::Embedded, Audience::NONE).await.map_err(Failure::usage)?;
    let (work, handle) = (scratch.path().to_owned(), Handle::current());
    let counting = tokio::task::spawn_blocking(move || {
        let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
        let outcome = plan(&resolved, &context, &|| false, &mut |batch| {
            planned.mini_batches += batch.bodies.len() as u64;
            planned.items += batch.items;
            ControlFlow::Continue(())
        });
        outcome.map(|()| planned)
    });
    let outcome = counting.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    let planned = outcome.map_err(Failure::usage)?;
    if format == Format::Json {
        output::json(&planned)?;
    } else {
        output::pairs(&[
            ("job", planned.name),
            ("mini-batches", planned.mini_batches.to_string()),
            ("items", planned.items.to_string()),
            ("processes", planned.processes.to_string()),
            ("interpreter", planned.interpreter),
        ])?;
    }
    Ok(Code::Completed.into())
}

fn check_script(spec: &JobSpec, python: &std::path::Path) -> Result<(), Failure> {
    let script = spec.source_directory.join(&spec.entry_script);
    if !script.is_file() {
        // A dotted name: found by the loader of the job file.
        return Ok(());
    }
    let compiled = Command::new(python).args(["-c", COMPILE]).arg(&script).output();
    let compiled =
        compiled.with_context(|| format!("cannot run {}", python.display())).map_err(Failure::usage)?;
    if compiled.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&compiled.stderr);
    let error: Vec<&str> = said.lines().rev().take(4).collect();
    let error: Vec<&str> = error.into_iter().rev().collect();
    Err(Failure::wrong(format!("{} cannot be compiled:\n{}", script.display(), error.join("\n"))))
}
