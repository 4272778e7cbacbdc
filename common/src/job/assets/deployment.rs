//! A batch deployment that is to be created at an endpoint (dialects C.2): what its file says, the model that has to be registered
//! first, and all that it needs as one archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::super::error::{JobFileError, Problem};
use super::super::form::{
    KEYS_OF_PIPELINE_DEPLOYMENTS, SETTINGS_OF_DEPLOYMENTS, apply_settings, is_of_pipeline,
    portable_deployment,
};
use super::super::names::Names;
use super::super::read_text;
use super::super::reader::Reader;
use super::super::yaml::{self, Key, Node, Value};
use super::component::write;
use super::{as_json, texts};
use crate::registry::{AssetType, Use};

/// The file of the deployment in its archive.
pub const DEPLOYMENT_FILE: &str = "deployment.yml";
/// Keys that say what the deployment is called, and not what it does.
const OF_CALLED: [&str; 7] =
    ["$schema", "type", "name", "endpoint_name", "description", "tags", "properties"];

/// What the file of a deployment says, with what the command line sets.
#[derive(Debug, Clone)]
pub struct DeploymentFile {
    /// The name.
    pub name: Option<String>,
    /// The endpoint that it is for.
    pub endpoint: Option<String>,
    /// A text for people.
    pub description: Option<String>,
    /// What people tell deployments apart by.
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    pub properties: BTreeMap<String, String>,
    /// Whether it runs a pipeline, and not a model.
    pub is_pipeline: bool,
    path: PathBuf,
    document: Node,
}

/// A model that stands in the file of a deployment, and is no name of one that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeployedModel {
    /// The name, where the file gives one.
    pub name: Option<String>,
    /// The version, where the file gives one.
    pub version: Option<String>,
    /// What it is.
    pub kind: AssetType,
    /// Where it is, seen from the folder of the file.
    pub path: String,
    /// A text for people.
    pub description: Option<String>,
    /// What people tell versions apart by.
    pub tags: BTreeMap<String, String>,
}

/// A deployment in an archive.
#[derive(Debug)]
pub struct StagedDeployment {
    /// The archive; its name begins with the checksum that [`unpack`](crate::code::archive::unpack) needs.
    pub archive: PathBuf,
    /// What its author should know of.
    pub notes: Vec<String>,
    /// What is registered and it uses.
    pub uses: Vec<Use>,
}

impl DeploymentFile {
    /// Reads the file at `path`; keys with their places and values of `set` count before it.
    ///
    /// # Errors
    /// It cannot be read, or what it is called cannot be. What it does is judged where a job file is.
    pub fn read(path: &Path, set: &[(String, String)]) -> Result<Self, JobFileError> {
        Self::of(read_text(path), path, set)
    }

    /// Reads `text`, as if it stood in the file at `path`.
    ///
    /// # Errors
    /// As those of [`read`](Self::read).
    pub fn of_text(text: &str, path: &Path, set: &[(String, String)]) -> Result<Self, JobFileError> {
        Self::of(Ok(text.to_owned()), path, set)
    }

    fn of(text: Result<String, String>, path: &Path, set: &[(String, String)]) -> Result<Self, JobFileError> {
        let failed = |problems| JobFileError::new(path, problems);
        let of_whole = |line, message: String| {
            let message = message.replace("a job file", "a file of a deployment");
            failed(vec![Problem { key: String::new(), line, message }])
        };
        let text = text.map_err(|message| of_whole(None, message))?;
        let mut document = yaml::parse(&text).map_err(|error| of_whole(error.line, error.message))?;
        let mut problems = Vec::new();
        let set: Vec<(String, String)> =
            set.iter().map(|(key, value)| (placed(key, &document), value.clone())).collect();
        apply_settings(&mut document, &set, &mut problems);
        let mut fields = Reader::of_mapping("", &document, &mut problems);
        let name = fields.filled_text("name", "the name of the deployment");
        let endpoint = fields.filled_text("endpoint_name", "the name of the endpoint");
        let description = fields.text("description");
        let (tags, properties) = (texts(&mut fields, "tags"), texts(&mut fields, "properties"));
        let is_pipeline = is_of_pipeline(&document);
        if is_pipeline {
            // Of a model the file is judged as that of a job; of a pipeline this needs its data.
            fields.refuse_unknown(&KEYS_OF_PIPELINE_DEPLOYMENTS, "the batch deployment of a pipeline");
            match ["component", "job_definition"].map(|key| fields.has(key)) {
                [true, true] => fields.refuse_at("job_definition", None, "component says what runs already: keep one"),
                [false, false] => fields.refuse_at("component", None, "the key is missing: give a pipeline component, or a former pipeline job as job_definition: azureml:JOB"),
                _ => {}
            }
        }
        if !problems.is_empty() {
            return Err(failed(problems));
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { name, endpoint, description, tags, properties, is_pipeline, path, document })
    }

    /// Its model, where that has to be registered first.
    pub fn model(&self, names: &Names) -> Option<DeployedModel> {
        let model = self.document.get("model")?;
        let given = match &model.value {
            Value::Mapping(_) => model.get("path")?.as_text()?,
            _ => model.as_text()?,
        };
        if given.trim().is_empty() || names.names_version(given) {
            return None;
        }
        let text = |key: &str| model.get(key).and_then(Node::as_text).map(str::to_owned);
        let kind = text("type").unwrap_or_default();
        let tags = match model.get("tags").map(|tags| &tags.value) {
            Some(Value::Mapping(entries)) => entries
                .iter()
                .filter_map(|(key, value)| Some((key.name.clone(), value.as_text()?.to_owned())))
                .collect(),
            _ => BTreeMap::new(),
        };
        Some(DeployedModel {
            name: text("name"),
            version: text("version"),
            // Another word is refused where the file is judged.
            kind: AssetType::parse(crate::registry::Kind::Model, &kind).unwrap_or(AssetType::CustomModel),
            path: given.trim().to_owned(),
            description: text("description"),
            tags,
        })
    }

    /// Puts `value` in the place of what it says of `key`.
    pub fn put(&mut self, key: &str, value: &str) {
        let Value::Mapping(entries) = &mut self.document.value else { return };
        entries.retain(|(present, _)| present.name != key);
        entries.push((Key { name: key.to_owned(), line: 1 }, Node::text(value, None)));
    }

    /// What it says of what it does, as its author wrote it.
    pub fn settings(&self) -> Map<String, Json> {
        let Json::Object(mut settings) = as_json(&self.document) else { return Map::new() };
        settings.retain(|key, _| !OF_CALLED.contains(&&**key));
        settings
    }

    /// The folder that its paths start from.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Packs it in the empty folder `into`, with its code and all else that it needs. Nothing where names have to be looked up
    /// first.
    ///
    /// # Errors
    /// All that keeps it from running elsewhere.
    pub fn stage(&self, names: &Names, into: &Path) -> Result<Option<StagedDeployment>, JobFileError> {
        let (mut problems, mut notes) = (Vec::new(), Vec::new());
        names.begin();
        let document = self.document.clone();
        let made =
            portable_deployment(document, &self.path, DEPLOYMENT_FILE, names, &mut problems, &mut notes);
        if names.is_asked() {
            return Ok(None);
        }
        if problems.is_empty() {
            match write(&made, into) {
                Ok(archive) => {
                    let notes = notes.into_iter().map(|note| note.in_file(&self.path)).collect();
                    return Ok(Some(StagedDeployment { archive, notes, uses: names.uses() }));
                }
                Err(message) => problems.push(Problem { key: String::new(), line: None, message }),
            }
        }
        problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        problems.dedup();
        Err(JobFileError::new(self.path.clone(), problems))
    }
}

/// The key `key` of `--set`, where the file has it below `settings`.
fn placed(key: &str, document: &Node) -> String {
    let key = match key {
        "compute.instance_count" => "resources.instance_count",
        key => key,
    };
    let first = key.split(['.', '[']).next().unwrap_or_default();
    let has = |node: Option<&Node>| node.is_some_and(|node| node.get(first).is_some());
    let settings = document.get("settings").filter(|settings| matches!(settings.value, Value::Mapping(_)));
    let is_below = SETTINGS_OF_DEPLOYMENTS.contains(&first) && settings.is_some() && !has(Some(document));
    if is_below { format!("settings.{key}") } else { key.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::code::archive::unpack;

    fn read(text: &str, set: &[(&str, &str)]) -> (tempfile::TempDir, DeploymentFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deployment.yml");
        fs::write(&file, text).unwrap();
        let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let read = DeploymentFile::read(&file, &set).unwrap();
        (folder, read)
    }

    #[test]
    fn what_is_set_goes_where_the_file_has_it() {
        let text = "type: model\nname: xgb\nsettings: {mini_batch_size: 5}\n";
        let set = [("mini_batch_size", "7"), ("error_threshold", "3"), ("compute.instance_count", "2")];
        let (_folder, file) = read(text, &set);
        let settings = Json::Object(file.settings());
        assert_eq!(settings["settings"]["mini_batch_size"], 7);
        assert_eq!(settings["settings"]["error_threshold"], 3);
        assert_eq!(settings["resources"]["instance_count"], 2);
        assert_eq!(settings.get("name"), None);
    }

    #[test]
    fn a_model_that_is_registered_is_named() {
        let table = [
            ("model: azureml:heart:2", None),
            ("model: azureml:heart@latest", None),
            ("model: {path: azureml:heart:2}", None),
            ("model: ./model", Some((None, "./model", AssetType::CustomModel))),
            (
                "model: {name: heart, path: model, type: mlflow_model}",
                Some((Some("heart"), "model", AssetType::MlflowModel)),
            ),
            ("model: {path: s3://bucket/model}", Some((None, "s3://bucket/model", AssetType::CustomModel))),
            ("type: pipeline\ncomponent: pipeline.yml", None),
        ];
        for (text, expected) in table {
            let (_folder, file) = read(&format!("{text}\nendpoint_name: heart\n"), &[]);
            let model = file.model(&Names::default());
            let seen = model.as_ref().map(|model| (model.name.as_deref(), &*model.path, model.kind));
            assert_eq!(seen, expected, "{text}");
        }
    }

    #[test]
    fn all_that_it_needs_is_in_the_archive() {
        let text = "type: model\nname: xgb\nendpoint_name: heart\nmodel: azureml://nowhere\n\
                    code_configuration: {code: src, scoring_script: score.py}\nenvironment: {conda_file: conda.yml}\n";
        let (folder, mut file) = read(text, &[]);
        fs::create_dir_all(folder.path().join("src/sub")).unwrap();
        fs::write(folder.path().join("src/score.py"), "def run(batch): return batch\n").unwrap();
        fs::write(folder.path().join("src/sub/other.py"), "").unwrap();
        fs::write(folder.path().join("conda.yml"), "dependencies: [python=3.11, pip: [six]]\n").unwrap();
        file.put("model", "azureml:heart:1");
        let into = tempfile::tempdir().unwrap();
        // The model is looked up first.
        let names = Names::default();
        assert!(file.stage(&names, into.path()).unwrap().is_none());
        for asked in names.take_asked() {
            names.tell(asked, Err("the registry is empty".to_owned()));
        }
        let refused = file.stage(&names, into.path()).unwrap_err();
        assert!(refused.to_string().contains("the registry is empty"), "{refused}");
        let Value::Mapping(entries) = &mut file.document.value else { unreachable!() };
        entries.retain(|(key, _)| key.name != "model");
        let staged = file.stage(&names, into.path()).unwrap().unwrap();
        let unpacked = tempfile::tempdir().unwrap();
        unpack(&fs::read(&staged.archive).unwrap(), unpacked.path()).unwrap();
        let document = fs::read_to_string(unpacked.path().join(DEPLOYMENT_FILE)).unwrap();
        assert!(document.contains("\"code\": \"code-1\"") && document.contains("six"), "{document}");
        assert!(unpacked.path().join("code-1/sub/other.py").is_file());
    }
}
