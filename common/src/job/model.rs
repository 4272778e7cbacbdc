//! `model`: a file or folder that scripts find below `AZUREML_MODEL_DIR`, under its own name (dialects D.2).
//!
//! It is a side input whose name no file can give: it is brought to nodes, kept and compared as they are.

use std::path::Path;

use super::RunsOn;
use super::form::RawSetting;
use super::reader::Reader;
use super::side_inputs::{self, SideInput};
use super::takes::Takes;
use super::validate::{absolute, refuse_elsewhere};
use super::yaml::Value;
use crate::dataset::input::{InputMode, InputSource};
use crate::dataset::{http_url, remote};

/// What the key takes.
pub(super) const MODEL: &str = "a file or folder, or a mapping of its path and mode";
/// The keys of the mapping; what Azure says of the kind of a model changes nothing.
const KEYS: [&str; 3] = ["path", "mode", "type"];

/// Reads the key.
pub(super) fn read(reader: &mut Reader<'_>, folder: &Path, runs_on: RunsOn) -> Option<SideInput> {
    let setting = reader.get("model")?;
    let (path, mode) = match &setting.value.value {
        Value::Scalar { .. } => (setting, InputMode::Upload),
        Value::Mapping(_) => {
            let mut fields = Reader::of_mapping(&setting.shown, &setting.value, reader.problems());
            fields.refuse_unknown(&KEYS, "a model");
            let mode = fields.judge("mode", |given| Takes::Words(&["upload", "direct"]).read(given));
            let mode =
                if mode.is_some_and(|mode| mode == "direct") { InputMode::Direct } else { InputMode::Upload };
            let Some(path) = fields.get("path") else {
                fields.refuse_at(
                    &format!("{}.path", setting.shown),
                    setting.line,
                    "the key is missing: give the path",
                );
                return None;
            };
            (path, mode)
        }
        Value::Null | Value::Sequence(_) => {
            reader.refuse(&setting, format!("{} is not a model: give {MODEL}", setting.value.describe()));
            return None;
        }
    };
    let found = find(&path, folder, mode, runs_on);
    found.map_err(|message| reader.refuse(&path, message)).ok()
}

fn find(setting: &RawSetting, folder: &Path, mode: InputMode, runs_on: RunsOn) -> Result<SideInput, String> {
    let given = setting.value.as_text().unwrap_or_default().trim();
    if given.is_empty() {
        return Err(format!("it is empty: give {MODEL}"));
    }
    if given.starts_with("azureml:") {
        return Err(
            "a model of a registry (azureml:) is not supported yet: give the path of a file or folder"
                .to_owned(),
        );
    }
    if remote::is_remote(given) {
        return elsewhere(given, mode, folder);
    }
    refuse_elsewhere(given)?;
    let path = absolute(folder, given);
    if path.file_name().is_none() {
        return Err(format!(
            "{} has no name that scripts could find it under: give a folder below it",
            path.display()
        ));
    }
    let source = match (mode, runs_on, path.to_str()) {
        // The workers have it, and this machine need not.
        (InputMode::Direct, RunsOn::Workers, Some(path)) => InputSource::Paths(vec![path.to_owned()]),
        _ => side_inputs::source(given, folder)?,
    };
    Ok(SideInput::new(SideInput::MODEL, source, mode))
}

/// The model at `url`, in a bucket or on an HTTP server.
fn elsewhere(url: &str, mode: InputMode, folder: &Path) -> Result<SideInput, String> {
    let shown = http_url::shown(url);
    if mode == InputMode::Direct {
        return Err(format!(
            "{shown} is no path on a worker: leave `mode: direct` out, and each worker fetches it"
        ));
    }
    if remote::is_glob(url) || (remote::is_in_bucket(url) && url.contains('[')) {
        return Err(format!(
            "{shown} is a glob, which gives scripts no name to find it under: give a file or folder"
        ));
    }
    let source = side_inputs::source(url, folder)?;
    let model = SideInput::new(SideInput::MODEL, source, mode);
    let is_bucket = url.trim_end_matches('/').matches('/').count() == 2;
    if is_bucket || [".", ".."].contains(&&*model.base_name()) {
        return Err(format!("{shown} has no name that scripts could find it under: give a folder below it"));
    }
    Ok(model)
}
