//! `side_inputs`: what each node has whole before `init()`, a file or a folder under a name (spec P4).
//!
//! What is looked at on disk is the first file of each; whether one in a bucket is there shows when it is listed.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::form::RawSetting;
use super::keys::JOB;
use super::near_path;
use super::outputs::is_side_input_name;
use super::reader::Reader;
use super::takes::Takes;
use super::validate::{absolute, refuse_elsewhere};
use super::yaml::{Key, Node, Value};
use crate::dataset::http_url;
use crate::dataset::input::{InputMode, InputSource};
use crate::dataset::listing::{self, ListingError};
use crate::dataset::remote::{self, RemotePath};
use crate::dataset::step_output::StepOutput;

/// A file or a folder that each node has whole before `init()`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideInput {
    /// Its name, an identifier.
    pub name: String,
    /// Where it is: one path, one `s3://` URL, or the listing that either became.
    pub source: InputSource,
    /// Whether the script gets the path, or the URL, as it is.
    #[serde(default)]
    pub mode: InputMode,
    /// What the files of this machine were when the job was submitted, where they stay where they are: a checksum of their
    /// names, sizes and times of change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// Whether one of them was changed so shortly before that another change need not show in `seen`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub changed_lately: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl SideInput {
    /// The name of the model of a job: no identifier, so that no file can name it.
    pub const MODEL: &str = "azureml-model";

    /// One that is not looked at yet.
    pub fn new(name: impl Into<String>, source: InputSource, mode: InputMode) -> Self {
        Self { name: name.into(), source, mode, seen: None, changed_lately: false }
    }

    /// Whether it is the model of its job.
    pub fn is_model(&self) -> bool {
        self.name == Self::MODEL
    }

    /// What people know it by.
    pub fn label(&self) -> String {
        if self.is_model() { "the model".to_owned() } else { format!("side input {}", self.name) }
    }

    /// The last part of the path or URL that the job file names.
    pub fn base_name(&self) -> String {
        let given = self.given();
        let named = if http_url::is_http(&given) {
            RemotePath::parse(&given).map(|url| url.name()).unwrap_or_default()
        } else {
            given
        };
        named.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The path or URL that the job file names, for people.
    pub fn named(&self) -> String {
        self.named_source().label()
    }

    /// The path or URL that the job file names. A URL may hold a password, and is for the script and for prs alone.
    pub fn given(&self) -> String {
        match self.named_source() {
            InputSource::Remote(urls) => urls.join(", "),
            source => source.label(),
        }
    }

    fn named_source(&self) -> &InputSource {
        match &self.source {
            InputSource::Manifest { named: Some(named), .. } => named,
            source => source,
        }
    }

    /// Whether nodes fetch it.
    pub fn is_fetched(&self) -> bool {
        matches!(self.source, InputSource::Manifest { .. })
    }
}

/// Reads `side_inputs`.
pub(super) fn read(reader: &mut Reader<'_>, folder: &Path) -> Vec<SideInput> {
    let Some(setting) = reader.get("side_inputs") else { return Vec::new() };
    let expected = &JOB.key("side_inputs").takes;
    if matches!(&setting.value.value, Value::Sequence(items) if items.is_empty()) {
        // As azureml writes none.
        return Vec::new();
    }
    let Value::Mapping(entries) = &setting.value.value else {
        let given = setting.value.describe();
        reader.refuse(&setting, format!("{given} where a mapping is expected: give {expected}"));
        return Vec::new();
    };
    entries.iter().filter_map(|(key, value)| one(reader, &setting, key, value, folder)).collect()
}

fn one(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    key: &Key,
    value: &Node,
    folder: &Path,
) -> Option<SideInput> {
    let shown = format!("{}.{}", setting.shown, key.name);
    if !is_side_input_name(&key.name) {
        let message = format!(
            "{:?} is not the name of a side input: give letters, digits and `_` that begin with a letter or `_`",
            key.name
        );
        reader.refuse_at(&shown, Some(key.line), message);
        return None;
    }
    let (mut path, mut mode) = (None, InputMode::Upload);
    match &value.value {
        Value::Scalar { .. } => {
            path =
                Some(RawSetting { key: key.name.clone(), shown, line: Some(key.line), value: value.clone() });
        }
        Value::Mapping(_) => {
            let mut fields = Reader::of_mapping(&shown, value, reader.problems());
            fields.refuse_unknown(&["path", "mode"], "a side input");
            fields.text("path");
            path = fields.get("path").filter(|path| path.value.as_text().is_some());
            if let Some(given) = fields.judge("mode", |given| Takes::Words(&["upload", "direct"]).read(given))
            {
                mode = if given == "direct" { InputMode::Direct } else { InputMode::Upload };
            }
            if !fields.has("path") {
                fields.refuse_at(
                    &format!("{shown}.path"),
                    Some(key.line),
                    "the key is missing: give the path",
                );
            }
        }
        Value::Null | Value::Sequence(_) => {
            let message = format!("{} is not a side input: give its path", value.describe());
            reader.refuse_at(&shown, Some(key.line), message);
        }
    }
    let path = path?;
    let source = source(path.value.as_text().unwrap_or_default().trim(), folder);
    let source = source.map_err(|message| reader.refuse(&path, message)).ok()?;
    Some(SideInput::new(&*key.name, source, mode))
}

/// What `given` names.
pub(super) fn source(given: &str, folder: &Path) -> Result<InputSource, String> {
    if given.is_empty() {
        return Err(
            "it is empty: give a file, a folder, or an s3:// URL of either, or an https:// URL of a file"
                .to_owned(),
        );
    }
    if let Some(output) = StepOutput::parse(given) {
        return Ok(InputSource::Output(output));
    }
    if remote::is_remote(given) {
        RemotePath::parse(given)?;
        return Ok(InputSource::Remote(vec![given.to_owned()]));
    }
    refuse_elsewhere(given)?;
    let path = absolute(folder, given);
    let Some(text) = path.to_str().map(str::to_owned) else {
        return Err(format!("{} is not UTF-8: rename it", path.display()));
    };
    let cannot =
        |path: &Path, error| format!("cannot read {}: {error}{}", path.display(), near_path::hint(path));
    // A listing would take it for a glob.
    path.metadata().map_err(|error| cannot(&path, error))?;
    let source = InputSource::Paths(vec![text]);
    match listing::probe(&source) {
        Ok(()) => Ok(source),
        Err(ListingError::Io { path, source }) => Err(cannot(&path, source)),
        Err(ListingError::Empty { .. }) => {
            Err(format!("there is no file in {}: a side input has at least one", path.display()))
        }
        Err(error) => Err(error.to_string()),
    }
}
