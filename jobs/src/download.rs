//! What a job brought, copied to this machine as `az ml job download` lays it out: `named-outputs/NAME/` and `artifacts/`.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::storage::{Storage, StorageExt};
use prs_common::tree;
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
            let named: Vec<(&str, &str)> =
                places(&record).into_iter().filter(|(name, _)| !WHOLE.contains(name)).collect();
            named.iter().try_for_each(|(name, _)| check_absent(&below.join(name)))?;
            let target = below.join(whole);
            result(home, Some(&target)).await?;
            let mut made = part(&target, &named)
                .with_context(|| format!("cannot make folders in {}", below.display()))?;
            let artifacts = folder.join(ARTIFACTS);
            copy(&**home.storage(), layout::LOGS, &artifacts).await?;
            made.push(artifacts);
            Ok(made)
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

/// The outputs with names, and where each is below that of the job.
fn places(record: &JobRecord) -> Vec<(&str, &str)> {
    match &record.pipeline {
        Some(plan) => plan.pipeline.outputs.iter().map(|one| (&*one.name, &*one.name)).collect(),
        None => record.spec.outputs.iter().map(|one| (&*one.name, &*one.path)).collect(),
    }
}

/// Gives each of the outputs that are `named`, at places below `whole`, a folder of its name beside that; the rest stays. Gives back
/// all folders that there are then.
fn part(whole: &Path, named: &[(&str, &str)]) -> io::Result<Vec<PathBuf>> {
    let beside = whole.parent().unwrap_or(whole);
    let mut made = Vec::new();
    for (name, place) in named {
        let there = whole.join(place.trim_matches('/'));
        let target = beside.join(name);
        if there == whole || !there.exists() || target.exists() {
            continue;
        }
        if there.is_dir() {
            tree::rename(&there, &target)?;
        } else {
            tree::make_folder(&target)?;
            tree::rename(&there, target.join(there.file_name().unwrap_or_default()))?;
        }
        made.push(target);
        // Folders that only led there.
        for above in there.ancestors().skip(1).take_while(|above| above.starts_with(whole)) {
            if tree::remove_folder(above).is_err() {
                break;
            }
        }
    }
    if whole.exists() {
        made.push(whole.to_owned());
    }
    made.sort();
    Ok(made)
}

fn check_absent(target: &Path) -> Result<(), Failure> {
    if target.exists() {
        return Err(Failure::wrong(format!(
            "{} is there already, and is not overwritten: give another --download-path",
            target.display()
        )));
    }
    Ok(())
}

/// Where the output called `name` is below that of the job, without a `/` at its end; empty for all of it.
///
/// # Errors
/// The job has no such output; the error names those that it has.
pub fn place_of(record: &JobRecord, name: &str) -> Result<String, String> {
    if WHOLE.contains(&name) {
        return Ok(String::new());
    }
    let places = places(record);
    if let Some((_, place)) = places.iter().find(|(known, _)| *known == name) {
        return Ok(place.trim_end_matches('/').to_owned());
    }
    let known: Vec<&str> = places.iter().map(|(name, _)| *name).chain(["default"]).collect();
    Err(format!("job {} has no output {name}; there are: {}", record.job_id, known.join(", ")))
}

/// Copies what is at `key`, a file or all that is below it, into the new folder `target`.
async fn copy(store: &dyn Storage, key: &str, target: &Path) -> Result<(), Failure> {
    let key = key.trim_end_matches('/');
    check_absent(target)?;
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
        tree::make_folders(parent)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_output_gets_a_folder_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("default");
        for name in ["rows.csv", "parts/a/1", "parts/a/deep/2", "parts/b/3", "one/file"] {
            let path = whole.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let named =
            [("first", "parts/a/"), ("second", "parts/b"), ("third", "one/file"), ("none", "x"), ("all", "")];
        let made = part(&whole, &named).unwrap();
        let expected = ["default", "first", "second", "third"].map(|name| folder.path().join(name));
        assert_eq!(made, expected);
        for (name, content) in [
            ("default/rows.csv", "rows.csv"),
            ("first/1", "parts/a/1"),
            ("first/deep/2", "parts/a/deep/2"),
            ("second/3", "parts/b/3"),
            ("third/file", "one/file"),
        ] {
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), content);
        }
        assert_eq!(whole.read_dir().unwrap().count(), 1, "nothing empty is left");

        // A pipeline has nothing but these.
        fs::remove_dir_all(folder.path().join("first")).unwrap();
        fs::remove_file(whole.join("rows.csv")).unwrap();
        fs::create_dir(whole.join("first")).unwrap();
        assert_eq!(part(&whole, &[("first", "first")]).unwrap(), [folder.path().join("first")]);
    }
}
