//! What is to be registered: what its file says (dialects C.3 to C.5), and what of it is brought into the registry.
//!
//! | file | duty |
//! |---|---|
//! | `data` | where data is, and whether it is of its type |
//! | `model` | the same for models; what `MLflow` says of them |
//! | `environment` | an environment as one document that needs no other file |
//! | `component` | a component with its code and all else that it needs, as one archive |
//! | `deployment` | the same of a batch deployment |
//! | `call_inputs` | what a call of the deployment of a pipeline may give |
//! | `endpoint` | a batch endpoint |
//! | `written` | a tree of YAML as text |

mod call_inputs;
mod component;
mod data;
mod deployment;
mod endpoint;
mod environment;
mod model;
mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::error::{JobFileError, Problem};
use super::fence;
use super::form::apply_settings;
use super::names::Names;
use super::read_text;
use super::reader::Reader;
use super::yaml::{self, Key, Node, Value};
use crate::registry::{About, AssetType, Kind};

pub use call_inputs::{CallInput, call_inputs, component_named};
pub use component::{COMPONENT_FILE, StagedComponent, stage_component};
pub use data::data_source;
pub use deployment::{DEPLOYMENT_FILE, DeployedModel, DeploymentFile, StagedDeployment};
pub use endpoint::EndpointFile;
pub use environment::environment_document;
pub use model::{ModelSource, check_model, model_source};
pub(super) use written::written;

/// Keys that all files have.
const COMMON: [&str; 6] = ["$schema", "name", "version", "description", "tags", "properties"];
const OF_DATA: [&str; 3] = ["type", "path", "auto_delete_setting"];
const OF_MODELS: [&str; 4] = ["type", "path", "stage", "flavors"];

/// What a file says of what is to be registered; what it leaves out may be said elsewhere.
#[derive(Debug, Clone)]
pub struct AssetFile {
    /// The name.
    pub name: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// What it is.
    pub kind: Option<AssetType>,
    /// Where it is, seen from the folder of the file.
    pub path: Option<String>,
    /// What people say of it.
    pub about: About,
    /// What its author should know of.
    pub notes: Vec<String>,
    /// All that the file has.
    document: Node,
}

impl AssetFile {
    /// Reads the file at `path`, or nothing but `set`, which counts before it: keys with their places, and values.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(kind: Kind, path: Option<&Path>, set: &[(String, String)]) -> Result<Self, JobFileError> {
        Self::of(kind, path.map(|path| (path, read_text(path))), set)
    }

    /// Reads `text`, as if it stood in the file at `path`.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn of_text(kind: Kind, text: &str, path: &Path) -> Result<Self, JobFileError> {
        Self::of(kind, Some((path, Ok(text.to_owned()))), &[])
    }

    fn of(
        kind: Kind,
        file: Option<(&Path, Result<String, String>)>,
        set: &[(String, String)],
    ) -> Result<Self, JobFileError> {
        let path = file.as_ref().map(|(path, _)| *path);
        let mut problems = Vec::new();
        let mut document = Node { line: Some(1), value: Value::Mapping(Vec::new()) };
        if let Some((_, text)) = file {
            let mut of_whole = |line, message: String| {
                let what = format!("a file of {}", kind.one());
                let message = message.replace("the job file", "the file").replace("a job file", &what);
                problems.push(Problem { key: String::new(), line, message });
            };
            match text.map(|text| yaml::parse(&text)) {
                Err(message) => of_whole(None, message),
                Ok(Err(error)) => of_whole(error.line, error.message),
                Ok(Ok(read)) => document = read,
            }
        }
        let path = path.unwrap_or(Path::new("the command line"));
        let mut read = None;
        if problems.is_empty() {
            apply_settings(&mut document, set, &mut problems);
            read = Some(Self::understand(kind, &document, path, &mut problems));
        }
        match read {
            Some(read) if problems.is_empty() => Ok(read),
            _ => {
                problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
                Err(JobFileError::new(path, problems))
            }
        }
    }

    fn understand(kind: Kind, document: &Node, file: &Path, problems: &mut Vec<Problem>) -> Self {
        let mut fields = Reader::of_mapping("", document, problems);
        let own: Option<&[&'static str]> = match kind {
            Kind::Data => Some(&OF_DATA),
            Kind::Model => Some(&OF_MODELS),
            // All its keys are judged where it is made a document of.
            Kind::Environment | Kind::Component => None,
        };
        if let Some(own) = own {
            fields.refuse_unknown(&[&COMMON[..], own].concat(), &format!("a file of {}", kind.one()));
        }
        let noun = kind.noun();
        let mut read = Self {
            name: fields.filled_text("name", &format!("the name of the {noun}")),
            version: fields.filled_text("version", "a version, or leave it out for the next number"),
            kind: None,
            path: own.and_then(|_| fields.filled_text("path", "a file, a folder, or an s3:// URL of either")),
            about: About { description: fields.text("description"), ..About::default() },
            notes: Vec::new(),
            document: document.clone(),
        };
        read.about.tags = texts(&mut fields, "tags");
        if let Some(given) = fields.get("type").filter(|_| own.is_some()) {
            let word = given.value.as_text().unwrap_or_default();
            read.kind = AssetType::parse(kind, word).map_err(|message| fields.refuse(&given, message)).ok();
        }
        if kind == Kind::Data {
            // They change nothing here.
            for key in ["properties", "auto_delete_setting"] {
                if let Some(setting) = fields.get(key) {
                    let message = "has no meaning here; ignored".to_owned();
                    let note = Problem { key: setting.shown, line: setting.line, message };
                    read.notes.push(note.in_file(file));
                }
            }
        } else {
            read.about.properties = texts(&mut fields, "properties");
        }
        if kind == Kind::Model {
            read.about.stage = fields.filled_text("stage", "a word");
            match fields.get("flavors").map(|flavors| (as_json(&flavors.value), flavors)) {
                Some((Json::Object(flavors), _)) => read.about.flavors = flavors,
                Some((_, setting)) => fields.refuse(
                    &setting,
                    "it is no mapping: give the flavors by name, or leave them to the model's MLmodel",
                ),
                None => {}
            }
        }
        read
    }
}

/// Does `read`, which reads what a request brought, where no local path of it may lead out of `folders`.
///
/// # Errors
/// Those of `read`; or the paths that lead elsewhere, and these alone.
pub fn fenced<T>(
    folders: &[PathBuf],
    read: impl FnOnce() -> Result<T, JobFileError>,
) -> Result<T, JobFileError> {
    let (read, outside) = fence::around(folders, read);
    if outside.is_empty() {
        return read;
    }
    let problem = |given: String| Problem {
        key: String::new(),
        line: None,
        message: format!(
            "{given} is not among what came along: send it, or give an s3:// URL or what is registered"
        ),
    };
    let problems = outside.into_iter().map(|one| problem(one.given)).collect();
    Err(JobFileError { leads_outside: true, ..JobFileError::new("the file", problems) })
}

/// What `--set` may change of a version, as `key=value` with its place.
///
/// # Errors
/// Another key, or a value that none takes.
pub fn change_about(about: &mut About, key: &str, value: &str) -> Result<(), String> {
    let none = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
    match key.split_once('.') {
        None if key == "description" => about.description = none(value),
        None if key == "stage" => about.stage = none(value),
        Some(("tags", tag)) if !tag.is_empty() => drop(about.tags.insert(tag.to_owned(), value.to_owned())),
        Some(("properties", name)) if !name.is_empty() => {
            about.properties.insert(name.to_owned(), value.to_owned());
        }
        _ => {
            return Err(format!(
                "{key}: a version does not change but for description, stage, tags.NAME and properties.NAME: create another one"
            ));
        }
    }
    Ok(())
}

/// The texts of a mapping by their names.
fn texts(fields: &mut Reader<'_>, key: &str) -> BTreeMap<String, String> {
    let given = fields.text_mapping(key).unwrap_or_default().into_iter();
    given.filter_map(|text| Some((text.key, text.value.as_text()?.to_owned()))).collect()
}

/// The path or URL that `given` stands for; nothing where something has to be looked up first.
fn resolved(given: &str, kind: &str, names: &Names) -> Result<Option<String>, String> {
    let key = |name: &str| Key { name: name.to_owned(), line: 1 };
    let entries = vec![(key("type"), Node::text(kind, Some(1))), (key("path"), Node::text(given, Some(1)))];
    let mut node = Node { line: Some(1), value: Value::Mapping(entries) };
    names.begin();
    names.resolve(&mut node);
    let mut problems = Vec::new();
    names.replace_problems(&mut problems);
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem.message);
    }
    if names.is_asked() {
        return Ok(None);
    }
    Ok(Some(node.get("path").and_then(Node::as_text).unwrap_or_default().to_owned()))
}

/// What `node` says, as JSON.
pub(super) fn as_json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Scalar { text, kind } => match kind {
            yaml::ScalarKind::Text => Json::String(text.clone()),
            yaml::ScalarKind::Boolean => Json::Bool(text.eq_ignore_ascii_case("true")),
            yaml::ScalarKind::Integer | yaml::ScalarKind::Number => {
                text.parse().map_or_else(|_| Json::String(text.clone()), Json::Number)
            }
        },
        Value::Sequence(items) => Json::Array(items.iter().map(as_json).collect()),
        Value::Mapping(entries) => Json::Object(
            entries.iter().map(|(key, value)| (key.name.clone(), as_json(value))).collect::<Map<_, _>>(),
        ),
    }
}

#[cfg(test)]
mod tests;
