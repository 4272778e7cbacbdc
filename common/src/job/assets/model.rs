//! Where a model is that is to be registered, and what `MLflow` says of it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::super::mlflow::MLMODEL;
use super::super::names::Names;
use super::super::validate::{absolute, refuse_elsewhere};
use super::super::{near_path, yaml};
use super::{as_json, resolved};
use crate::dataset::remote::{RemotePath, is_glob, is_remote};
use crate::registry::AssetType;

const PATH: &str =
    "a file, a folder, an s3:// URL of either, or azureml://jobs/JOB/outputs/OUTPUT/paths/PATH";

/// Where a new model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// On this machine.
    Local(PathBuf),
    /// In a bucket.
    Url(String),
}

/// Where the model is that `given` names, seen from `folder`; nothing where something has to be looked up first.
///
/// # Errors
/// It can be nowhere.
pub fn model_source(
    given: &str,
    folder: &Path,
    kind: AssetType,
    names: &Names,
) -> Result<Option<ModelSource>, String> {
    let given = given.trim();
    if given.starts_with("runs:/") {
        return Err(format!("{given} is a run of an MLflow server: download it, and give its folder"));
    }
    let Some(path) = resolved(given, kind.as_str(), names)? else { return Ok(None) };
    if is_remote(&path) {
        let url = RemotePath::parse(&path)?;
        if is_glob(&path) {
            return Err(format!("{url} is a glob: give {PATH}"));
        }
        if path.trim_end_matches('/').matches('/').count() == 2 {
            return Err(format!(
                "{url} has no name that scripts could find it under: give a folder below it"
            ));
        }
        return Ok(Some(ModelSource::Url(path)));
    }
    refuse_elsewhere(&path)
        .map_err(|message| message.replace("give a local path", &format!("give {PATH}")))?;
    Ok(Some(ModelSource::Local(absolute(folder, &path))))
}

/// Looks whether what is at `path` is a model of type `kind`, and gives its flavors: those that its file `MLmodel` has.
///
/// # Errors
/// It is not there, or no such model.
pub fn check_model(path: &Path, kind: AssetType) -> Result<Map<String, Json>, String> {
    let shown = path.display();
    let meta =
        path.metadata().map_err(|error| format!("cannot read {shown}: {error}{}", near_path::hint(path)))?;
    if path.to_str().is_none() {
        return Err(format!("{shown} is not UTF-8: rename it"));
    }
    if path.file_name().is_none() {
        return Err(format!("{shown} has no name that scripts could find it under: give a folder below it"));
    }
    if meta.is_dir() && path.read_dir().is_ok_and(|mut entries| entries.next().is_none()) {
        return Err(format!("there is no file in {shown}: a model has at least one"));
    }
    let file = path.join(MLMODEL);
    let is_mlflow = kind == AssetType::MlflowModel;
    if !file.is_file() {
        return if is_mlflow {
            let what = if meta.is_dir() { "has no file MLmodel" } else { "is a file" };
            Err(format!(
                "{shown} {what}, and a model of type mlflow_model is a folder with one: give that, or type: custom_model"
            ))
        } else {
            Ok(Map::new())
        };
    }
    let read = super::super::read_text(&file)
        .and_then(|text| yaml::parse(&text).map_err(|error| error.message))
        .map_err(|message| format!("{}: {message}", file.display()));
    let flavors = read.map(|document| document.get("flavors").map(as_json));
    match flavors {
        Ok(Some(Json::Object(flavors))) => Ok(flavors),
        // What is not said to be MLflow's may have a file of any kind there.
        _ if !is_mlflow => Ok(Map::new()),
        Ok(_) => Err(format!("{} names no flavors: it was not stored by MLflow", file.display())),
        Err(message) => Err(message),
    }
}
