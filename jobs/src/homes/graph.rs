//! The graph of a former pipeline job, which a deployment runs with other inputs (`job_definition`): the job keeps it when it is
//! submitted, and it is made a component on this machine, with the code that the job ran.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::code::archive::{is_intact, pack, unpack};
use prs_common::job::pipeline::step_id;
use prs_common::job::{COMPONENT_FILE, Given, Graph, Loaded};
use prs_common::layout;
use prs_common::storage::{StorageErrorKind, StorageExt};
use prs_orchestrator::JobRecord;

use super::fleet::{FleetHome, Reader};
use super::{Home, JobHome, Whereabouts, cache, in_folder, registry, run_folder};
use crate::failure::Failure;

/// What may be given where a job has no graph.
const REMEDY: &str =
    "give the file of its pipeline component as component, or submit the pipeline again and name that job";

/// Has `loaded`, which came of the job file at `path`, keep its graph, where it is a pipeline.
pub(crate) async fn keep(
    loaded: &mut Loaded,
    path: &Path,
    given: Given<'_>,
    whereabouts: &Whereabouts,
) -> Result<(), Failure> {
    let Some(names) = given.names else { return Ok(()) };
    let mut registry = None;
    loop {
        let graph = Graph::of(path, given, loaded);
        if !Box::pin(registry::look_up(names, &mut registry, whereabouts)).await? {
            if let Some(graph) = graph {
                loaded.keep(graph);
            }
            return Ok(());
        }
    }
}

/// The file of the component that the graph of `job` is, or why there is none.
pub(crate) async fn component(
    job: &str,
    whereabouts: &Whereabouts,
) -> Result<Result<PathBuf, String>, Failure> {
    let reader = Reader::connect(whereabouts).await?;
    let found = async {
        let home: Home = match reader {
            Some(reader) => Box::new(FleetHome::new(reader, &whereabouts.caller, job)?),
            None => in_folder(run_folder::find_to_run(job, &whereabouts.runs)?),
        };
        let record = home.record().await?;
        Ok::<_, Failure>((home, record))
    };
    let (home, record) = match found.await {
        Ok(found) => found,
        Err(failure) if failure.is_usage() => return Ok(Err(format!("{failure}; {REMEDY}"))),
        Err(failure) => return Err(failure),
    };
    if let Some(graph) = &record.spec.graph {
        return match made(&*home, &record, graph).await {
            Ok(file) => Ok(Ok(file)),
            Err(failure) if failure.is_usage() => Ok(Err(failure.to_string())),
            Err(failure) => Err(failure),
        };
    }
    let is_step = record.parent.is_some();
    Ok(Err(match record.pipeline.as_ref().filter(|_| record.main_step().is_none()) {
        Some(_) => format!(
            "the pipeline {job} keeps no graph: a version of prs before this one submitted it, or it needs what it could not \
             keep; {REMEDY}"
        ),
        None if is_step => format!("job {job} is a step: name its pipeline, {}", parent_of(&record)),
        None => format!(
            "job {job} was not submitted as a pipeline, or was resubmitted with --set, so it has no graph: {REMEDY}"
        ),
    }))
}

fn parent_of(record: &JobRecord) -> &str {
    record.parent.as_ref().map_or("", |parent| &parent.job_id)
}

/// Puts documents and code together.
async fn made(home: &dyn JobHome, record: &JobRecord, graph: &Graph) -> Result<PathBuf, Failure> {
    let scratch = tempfile::tempdir().context("cannot make a temporary folder").map_err(Failure::usage)?;
    let cannot = "cannot unpack the graph of the job";
    graph.write(scratch.path()).context(cannot).map_err(Failure::usage)?;
    for (name, step) in &graph.code {
        let folder = Graph::code_folder(scratch.path(), name).context(cannot).map_err(Failure::usage)?;
        let archive = match &record.pipeline {
            None => home.code(record, REMEDY).await?,
            Some(plan) => {
                let key = plan.codes.get(step).cloned().unwrap_or_default();
                let storage = home.step_storage(&step_id(&record.job_id, step));
                let archive = match storage.get(&key).await {
                    Ok(archive) => archive,
                    Err(error) if error.kind == StorageErrorKind::NotFound => {
                        let gone =
                            format!("the code of step {step} is gone: {}; {REMEDY}", storage.uri(&key));
                        return Err(Failure::wrong(gone));
                    }
                    Err(error) => return Err(home.cannot("read the code of a step")(error)),
                };
                if !is_intact(&archive, layout::checksum_of_code(&key)) {
                    return Err(Failure::wrong(format!(
                        "the code of step {step} is damaged in storage: {} is not what its name says; {REMEDY}",
                        storage.uri(&key)
                    )));
                }
                archive
            }
        };
        unpack(&archive, &folder).map_err(Failure::usage)?;
    }
    let packed = pack(scratch.path()).map_err(Failure::usage)?;
    Ok(cache::code(&packed.body, &packed.checksum)?.join(COMPONENT_FILE))
}
