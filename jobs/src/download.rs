//! What a job brought, copied to this machine as `az ml job download` lays it out: `named-outputs/NAME/` and `artifacts/`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::storage::{Storage, StorageExt};
use prs_orchestrator::JobRecord;

use crate::failure::Failure;
use crate::homes::{JobHome, Seen};
use crate::result::result;

/// The folder of outputs.
const OUTPUTS: &str = "named-outputs";
/// The folder of logs.
const ARTIFACTS: &str = "artifacts";
/// What all of the output is called, the first where nobody says it: that of a deployment, and that of another job.
const WHOLE: [&str; 2] = ["score", "default"];

/// Copies the output called `name` of a job that completed into `folder`; without one all of them, and the logs. Gives back what
/// was made there.
///
/// # Errors
/// The job has not completed, has no such output, or what is to be made is there already.
pub async fn outputs(home: &dyn JobHome, name: Option<&str>, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let record = home.record().await?;
    let whole = if record.spec.deployed.is_some() { WHOLE[0] } else { WHOLE[1] };
    let below = folder.join(OUTPUTS);
    match name {
        None => {
            let target = below.join(whole);
            result(home, Some(&target)).await?;
            let artifacts = folder.join(ARTIFACTS);
            copy(&**home.storage(), layout::LOGS, &artifacts).await?;
            Ok(vec![target, artifacts])
        }
        Some(name) if WHOLE.contains(&name) => {
            let target = below.join(name);
            result(home, Some(&target)).await?;
            Ok(vec![target])
        }
        Some(name) => {
            let place = place_of(&record, name).map_err(Failure::not_found)?;
            let Seen { result, .. } = home.look().await?;
            if result.state != JobState::Completed {
                let state = result.state.as_str();
                return Err(Failure::wrong(format!("job {} has no outputs: {state}", result.job_id)));
            }
            let target = below.join(name);
            copy(&*home.output(&record), &place, &target).await?;
            Ok(vec![target])
        }
    }
}

/// Where the output called `name` is below that of the job.
fn place_of(record: &JobRecord, name: &str) -> Result<String, String> {
    let places: Vec<(&str, &str)> = match &record.pipeline {
        Some(plan) => plan.pipeline.outputs.iter().map(|one| (&*one.name, &*one.name)).collect(),
        None => record.spec.outputs.iter().map(|one| (&*one.name, &*one.path)).collect(),
    };
    if let Some((_, place)) = places.iter().find(|(known, _)| *known == name) {
        return Ok((*place).to_owned());
    }
    let known: Vec<&str> = places.iter().map(|(name, _)| *name).chain(["default"]).collect();
    Err(format!("job {} has no output {name}; there are: {}", record.job_id, known.join(", ")))
}

/// Copies what is at `key`, a file or all that is below it, into the new folder `target`.
async fn copy(store: &dyn Storage, key: &str, target: &Path) -> Result<(), Failure> {
    let key = key.trim_end_matches('/');
    if target.exists() {
        return Err(Failure::wrong(format!(
            "{} is there already, and is not overwritten: give another --download-path",
            target.display()
        )));
    }
    let below = format!("{key}/");
    let mut objects = store.list_all(&below).await.map_err(Failure::server)?;
    if objects.is_empty() {
        objects.extend(store.head(key).await.ok());
    }
    let mut copied = 0;
    for object in objects {
        let name = match object.key.strip_prefix(&below) {
            Some(name) => name,
            None if object.key == key => key.rsplit('/').next().unwrap_or(key),
            None => continue,
        };
        if Path::new(name).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(Failure::wrong(format!("{} has a name that no file can have here", object.key)));
        }
        let path = target.join(name);
        let parent = path.parent().unwrap_or(target);
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))
            .map_err(Failure::usage)?;
        store
            .download(&object.key, &path, None)
            .await
            .with_context(|| format!("cannot copy {}", store.uri(&object.key)))?;
        copied += 1;
    }
    if copied == 0 {
        return Err(Failure::wrong(format!("there is nothing at {}", store.uri(key))));
    }
    Ok(())
}
