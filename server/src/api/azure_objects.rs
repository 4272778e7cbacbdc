//! Objects of Azure's management REST (dialects C.8) as the files that prs takes, and what prs keeps in the shapes of Azure. Words alone:
//! nothing is looked up here.

use prs_common::registry::Kind as AssetKind;
use prs_jobs::records::{Deployment, Endpoint, Registered};
use serde_json::{Map, Value, json};

use super::azure::{field, object, seconds, text};
use super::endpoints::text_of;

/// What Azure calls the family.
pub(super) const FAMILY: &str = "Microsoft.MachineLearningServices/workspaces";
/// What code is registered as: data, with this before its name.
const CODE: &str = "codes.";
/// Settings of a deployment: in Azure's words, and in those of a file.
const SETTINGS: [(&str, &str); 6] = [
    ("maxConcurrencyPerInstance", "max_concurrency_per_instance"),
    ("miniBatchSize", "mini_batch_size"),
    ("errorThreshold", "error_threshold"),
    ("outputAction", "output_action"),
    ("outputFileName", "output_file_name"),
    ("loggingLevel", "logging_level"),
];
/// Those whose values are words.
const WORDS: [&str; 2] = ["outputAction", "loggingLevel"];
/// What else a deployment may say.
const OF_DEPLOYMENT: [&str; 12] = [
    "description",
    "properties",
    "model",
    "codeConfiguration",
    "environmentId",
    "compute",
    "resources",
    "retrySettings",
    "partitionKeys",
    "environmentVariables",
    "deploymentConfiguration",
    "provisioningState",
];

/// What is registered under an address of Azure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OfAzure {
    /// The word in addresses.
    pub(super) word: &'static str,
    /// What it is here.
    pub(super) kind: AssetKind,
}

impl OfAzure {
    pub(super) const ALL: [Self; 6] = [
        Self { word: "models", kind: AssetKind::Model },
        Self { word: "data", kind: AssetKind::Data },
        Self { word: "datasets", kind: AssetKind::Data },
        Self { word: "environments", kind: AssetKind::Environment },
        Self { word: "components", kind: AssetKind::Component },
        Self { word: "codes", kind: AssetKind::Data },
    ];

    /// What an address with this word is of.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word == word)
    }

    /// What `name` is called here.
    pub(super) fn own_name(self, name: &str) -> String {
        if self.word == "codes" { code_name(name) } else { name.to_owned() }
    }
}

/// What code called `name` is registered as.
pub(super) fn code_name(name: &str) -> String {
    format!("{CODE}{name}")
}

/// The properties of an object, and its tags.
type Described<'a> = (&'a Map<String, Value>, Map<String, Value>);

/// The properties of an object, and its tags.
fn properties(body: &Value) -> Result<Described<'_>, String> {
    let body = body.as_object().ok_or("The body is no JSON object.")?;
    let properties = object(body, "properties")?.ok_or("The body has no properties.")?;
    let tags = object(body, "tags")?.or(object(properties, "tags")?).cloned().unwrap_or_default();
    Ok((properties, tags))
}

/// Refuses a key that nothing is made of.
fn check(of: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    let is_known = |key: &String| {
        known.iter().any(|known| {
            let (one, other) = (key.chars(), known.chars());
            key.len() == known.len() && one.zip(other).all(|(one, other)| one.eq_ignore_ascii_case(&other))
        })
    };
    match of.keys().find(|key| !is_known(key)) {
        None => Ok(()),
        Some(key) => Err(format!("properties.{key} is not known. Known: {}.", known.join(", "))),
    }
}

/// Words of Azure in those of a file: `AppendRow` as `append_row`.
fn snake(word: &str) -> String {
    let mut snake = String::with_capacity(word.len() + 4);
    for letter in word.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Words of a file in those of Azure: `append_row` as `AppendRow`.
fn pascal(word: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    word.split('_').map(capital).collect()
}

/// The name and the version that an id ends in; nothing of an id of another form, and of what is in a registry of Azure.
fn name_and_version<'a>(id: &'a str, kind: &str) -> Option<(&'a str, String)> {
    if id.contains("registries/") {
        return None;
    }
    let rest = id.rsplit_once(&format!("{kind}/")).map(|(_, rest)| rest)?;
    let (name, version) = rest.split_once("/versions/")?;
    let version = match version.strip_prefix("labels/") {
        Some(label) => format!("@{label}"),
        None => version.to_owned(),
    };
    Some((name, version))
}

/// An id as a file names what it is of.
fn reference(id: &str, kind: &str) -> String {
    match name_and_version(id, kind) {
        Some((name, version)) if version.starts_with('@') => format!("azureml:{name}{version}"),
        Some((name, version)) => format!("azureml:{name}:{version}"),
        None => id.to_owned(),
    }
}

/// What a body says of an endpoint, in the words of its file.
pub(super) fn endpoint(body: &Value) -> Result<Value, String> {
    let (properties, tags) = properties(body)?;
    let known =
        ["authMode", "description", "defaults", "properties", "tags", "keys", "scoringUri", "swaggerUri"];
    check(properties, &[&known[..], &["provisioningState"]].concat())?;
    let mode = text(properties, "authMode")?.unwrap_or_else(|| "aadToken".to_owned());
    if snake(&mode) != "aad_token" && !mode.eq_ignore_ascii_case("aadtoken") {
        return Err(format!(
            "authMode {mode:?} is not known here: give aadToken; callers show a token of prs."
        ));
    }
    let defaults =
        object(properties, "defaults")?.map(|of| text(of, "deploymentName")).transpose()?.flatten();
    Ok(json!({
        "description": text(properties, "description")?,
        "tags": tags,
        "properties": object(properties, "properties")?.cloned().unwrap_or_default(),
        "defaults": { "deployment_name": defaults },
    }))
}

/// A deployment in the words of its file.
#[derive(Debug, PartialEq)]
pub(super) struct DeploymentFile {
    /// The file.
    pub(super) document: Value,
    /// The code that it names: the name, and the version.
    pub(super) code: Option<(String, String)>,
}

/// What a body says of a deployment, in the words of its file.
pub(super) fn deployment(body: &Value) -> Result<DeploymentFile, String> {
    let (properties, tags) = properties(body)?;
    let settings_of_azure = SETTINGS.map(|(word, _)| word);
    check(properties, &[&OF_DEPLOYMENT[..], &settings_of_azure[..], &["tags"]].concat())?;
    let mut file = json!({ "type": "model", "tags": tags });
    let mut say = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            file[key] = value;
        }
    };
    say("description", text(properties, "description")?.map(Value::from));
    let own: Map<String, Value> = object(properties, "properties")?.cloned().unwrap_or_default();
    say("properties", Some(own.into()));
    let compute = text(properties, "compute")?;
    let compute = compute.map(|id| format!("azureml:{}", id.rsplit('/').next().unwrap_or_default()));
    let mut settings = Map::new();
    if let Some(of) = object(properties, "deploymentConfiguration")? {
        let component = object(of, "componentId")?.map(|id| text(id, "assetId")).transpose()?.flatten();
        let component = component.ok_or("deploymentConfiguration has no componentId.assetId.")?;
        say("type", Some("pipeline".into()));
        say("component", Some(reference(&component, "components").into()));
        settings = object(of, "settings")?.cloned().unwrap_or_default();
        settings.extend(compute.map(|compute| ("default_compute".to_owned(), compute.into())));
        say("settings", Some(settings.into()));
        return Ok(DeploymentFile { document: file, code: None });
    }
    say("compute", compute.map(Value::from));
    say("model", object(properties, "model")?.map(model_of).transpose()?.map(Value::from));
    say("environment", text(properties, "environmentId")?.map(|id| reference(&id, "environments").into()));
    let mut code = None;
    if let Some(of) = object(properties, "codeConfiguration")? {
        let script = text(of, "scoringScript")?.ok_or("codeConfiguration has no scoringScript.")?;
        let id = text(of, "codeId")?.ok_or("codeConfiguration has no codeId.")?;
        let (name, version) = name_and_version(&id, "codes")
            .ok_or_else(|| format!("codeId {id:?} does not end in codes/NAME/versions/VERSION."))?;
        code = Some((name.to_owned(), version));
        say("code_configuration", Some(json!({ "code": ".", "scoring_script": script })));
    }
    if let Some(of) = object(properties, "resources")? {
        let count = field(of, "instanceCount").cloned();
        say("resources", count.map(|count| json!({ "instance_count": count })));
    }
    for (word, own) in SETTINGS {
        let is_word = WORDS.contains(&word);
        let value = text(properties, word)?.map(|value| if is_word { snake(&value) } else { value });
        settings.extend(value.map(|value| (own.to_owned(), value.into())));
    }
    if let Some(retries) = object(properties, "retrySettings")? {
        let timeout = text(retries, "timeout")?.map(|timeout| seconds(&timeout)).transpose()?;
        let given = [("max_retries", text(retries, "maxRetries")?), ("timeout", timeout)];
        let given = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
        settings.insert("retry_settings".to_owned(), Value::Object(given.collect()));
    }
    if let Some(keys) = field(properties, "partitionKeys") {
        // A text may be such a list, as Azure's files have it; whether it is, the file says.
        if !keys.is_array() && !keys.is_string() {
            return Err("partitionKeys is no list of columns.".to_owned());
        }
        settings.insert("partition_keys".to_owned(), keys.clone());
    }
    if let Some(variables) = object(properties, "environmentVariables")? {
        settings.insert("environment_variables".to_owned(), variables.clone().into());
    }
    say("settings", Some(settings.into()));
    Ok(DeploymentFile { document: file, code })
}

/// How a file names the model that a body does.
fn model_of(model: &Map<String, Value>) -> Result<String, String> {
    let kind = text(model, "referenceType")?.unwrap_or_else(|| "Id".to_owned());
    let required = |key: &str| text(model, key)?.ok_or_else(|| format!("model has no {key}."));
    match kind.to_ascii_lowercase().as_str() {
        "id" => Ok(reference(&required("assetId")?, "models")),
        "datapath" => {
            let store = required("datastoreId")?;
            let store = store.rsplit('/').next().unwrap_or_default();
            Ok(format!("azureml://datastores/{store}/paths/{}", required("path")?))
        }
        _ => Err(format!("referenceType {kind:?} is not known: give Id or DataPath.")),
    }
}

/// A file, and a text that belongs beside it, with its name.
type AssetFile = (Value, Option<(&'static str, String)>);

/// What a body says of a version, in the words of its file.
pub(super) fn asset(of: OfAzure, body: &Value) -> Result<AssetFile, String> {
    let (properties, tags) = properties(body)?;
    let common = ["description", "properties", "tags", "isAnonymous", "isArchived", "provisioningState"];
    let known = |own: &[&str]| check(properties, &[&common[..], own].concat());
    if field(properties, "isArchived") == Some(&Value::Bool(true)) {
        return Err("properties.isArchived: a version is archived once it is there, by PATCH /api/v1/registry/KIND/NAME/versions/VERSION with {\"archived\": true}.".to_owned());
    }
    let mut beside = None;
    let mut file = match of.word {
        "models" => {
            known(&["modelType", "modelFormat", "modelUri", "path", "stage", "flavors", "jobName"])?;
            let kind = text(properties, "modelType")?.or(text(properties, "modelFormat")?);
            let kind = kind.map_or_else(|| "custom_model".to_owned(), |kind| model_type(&kind));
            let path = field(properties, "modelUri").or_else(|| field(properties, "path"));
            json!({ "type": kind, "path": path, "stage": text(properties, "stage")? })
        }
        "data" | "datasets" => {
            known(&["dataType", "dataUri", "path", "paths", "datasetType", "referencedUris"])?;
            let (kind, path) = data_of(properties)?;
            json!({ "type": kind, "path": path })
        }
        "codes" => {
            known(&["codeUri", "path"])?;
            let path = field(properties, "codeUri").or_else(|| field(properties, "path"));
            json!({ "type": "uri_folder", "path": path })
        }
        "environments" => {
            known(&["condaFile", "image", "osType", "build", "inferenceConfig", "environmentType"])?;
            if field(properties, "build").is_some() {
                return Err("properties.build: images are not built; give condaFile.".to_owned());
            }
            beside = text(properties, "condaFile")?.map(|conda| ("conda.yml", conda));
            let conda = beside.as_ref().map(|(name, _)| *name);
            json!({ "image": text(properties, "image")?, "conda_file": conda })
        }
        _ => {
            known(&["componentSpec"])?;
            let spec = object(properties, "componentSpec")?.ok_or("properties has no componentSpec.")?;
            // Its own words stay: the address has the name and the version.
            let mut spec = spec.clone();
            spec.retain(|key, _| !["name", "version", "$schema", "_source"].contains(&&**key));
            spec.into()
        }
    };
    if let Value::Object(keys) = &mut file {
        keys.retain(|_, value| !value.is_null());
        if of.kind != AssetKind::Component {
            if keys.get("path").is_none() && of.kind != AssetKind::Environment {
                return Err("properties does not say where it is: give a Uri.".to_owned());
            }
            let properties = object(properties, "properties")?.cloned().unwrap_or_default();
            if of.kind != AssetKind::Data {
                keys.insert("properties".to_owned(), properties.into());
            }
            keys.insert("tags".to_owned(), tags.into());
        }
        let description = text(properties, "description")?;
        keys.extend(description.map(|text| ("description".to_owned(), text.into())));
    }
    Ok((file, beside))
}

fn model_type(kind: &str) -> String {
    match kind.to_ascii_lowercase().replace(['_', ' '], "").as_str() {
        "custommodel" | "custom" => "custom_model".to_owned(),
        "mlflowmodel" | "mlflow" => "mlflow_model".to_owned(),
        "tritonmodel" | "triton" => "triton_model".to_owned(),
        _ => kind.to_owned(),
    }
}

/// Type and place of data: as today's bodies have them, or as older ones do.
fn data_of(properties: &Map<String, Value>) -> Result<(String, Option<Value>), String> {
    if let Some(Value::Array(paths)) = field(properties, "paths") {
        let [Value::Object(path)] = paths.as_slice() else {
            return Err("properties.paths: give one path.".to_owned());
        };
        return match (text(path, "folder")?, text(path, "file")?) {
            (Some(folder), None) => Ok(("uri_folder".to_owned(), Some(folder.into()))),
            (None, Some(file)) => Ok(("uri_file".to_owned(), Some(file.into()))),
            _ => Err("properties.paths: give folder or file.".to_owned()),
        };
    }
    let kind = text(properties, "dataType")?.unwrap_or_else(|| "uri_folder".to_owned());
    let kind = if kind.eq_ignore_ascii_case("mltable") { "mltable".to_owned() } else { snake(&kind) };
    let path = field(properties, "dataUri").or_else(|| field(properties, "path"));
    Ok((kind, path.cloned()))
}

/// The properties of an endpoint; `at` is the address of the server.
pub(super) fn of_endpoint(one: &Endpoint, at: &str) -> Value {
    json!({
        "authMode": "aadToken",
        "description": one.description,
        "defaults": { "deploymentName": one.defaults.deployment_name },
        "scoringUri": one.scoring_uri,
        "swaggerUri": format!("{at}/openapi.json"),
        "provisioningState": one.provisioning_state,
        "properties": one.properties,
    })
}

/// The properties of a deployment.
pub(super) fn of_deployment(one: &Deployment) -> Value {
    let definition = &one.definition;
    let settings = definition.get("settings").and_then(Value::as_object).unwrap_or(definition);
    let mut properties = json!({
        "description": one.description,
        "provisioningState": one.provisioning_state,
        "properties": one.properties,
        "model": definition.get("model").and_then(Value::as_str).map(|model| json!({
            "referenceType": "Id", "assetId": model,
        })),
        "environmentId": definition.get("environment").and_then(Value::as_str),
        "compute": definition.get("compute"),
        "codeConfiguration": definition.get("code_configuration").map(|code| json!({
            "codeId": code.get("code"), "scoringScript": code.get("scoring_script"),
        })),
        "resources": definition.get("resources").map(|of| json!({ "instanceCount": of.get("instance_count") })),
    });
    for (word, own) in SETTINGS {
        let value = settings.get(own).cloned().unwrap_or_default();
        let shown = value.as_str().filter(|_| WORDS.contains(&word)).map(pascal);
        properties[word] = shown.map_or(value, Value::from);
    }
    properties["partitionKeys"] = settings.get("partition_keys").cloned().unwrap_or_default();
    if let Some(Value::Object(retries)) = settings.get("retry_settings") {
        let timeout = retries.get("timeout").and_then(text_of).map(|timeout| format!("PT{timeout}S"));
        properties["retrySettings"] = json!({ "maxRetries": retries.get("max_retries"), "timeout": timeout });
    }
    if let Some(component) = definition.get("component") {
        properties["deploymentConfiguration"] = json!({
            "deploymentConfigurationType": "PipelineComponent",
            "componentId": { "referenceType": "Id", "assetId": component },
            "settings": definition.get("settings"),
        });
    }
    if let Value::Object(keys) = &mut properties {
        keys.retain(|_, value| !value.is_null());
    }
    properties
}

/// The properties of a version.
pub(super) fn of_asset(of: OfAzure, one: &Registered) -> Value {
    let mut properties = json!({
        "description": one.description,
        "tags": one.tags,
        "properties": one.properties,
        "isArchived": one.archived,
        "isAnonymous": false,
        "provisioningState": "Succeeded",
    });
    match of.word {
        "models" => {
            let kind = match one.kind {
                "mlflow_model" => "MLFlowModel",
                "triton_model" => "TritonModel",
                _ => "CustomModel",
            };
            (properties["modelType"], properties["modelUri"]) = (kind.into(), one.path.clone().into());
            properties["stage"] = one.stage.clone().into();
        }
        "data" | "datasets" => {
            (properties["dataType"], properties["dataUri"]) = (one.kind.into(), one.path.clone().into());
        }
        "codes" => properties["codeUri"] = one.path.clone().into(),
        _ => {}
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: &str =
        "/subscriptions/0/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w";

    #[test]
    fn endpoints_and_deployments_are_files_in_other_words() {
        let body = json!({
            "location": "eastus", "tags": { "team": "vision" },
            "properties": { "authMode": "aadToken", "description": "digits", "defaults": { "deploymentName": "d1" } },
        });
        let file = json!({
            "description": "digits", "tags": { "team": "vision" }, "properties": {}, "defaults": { "deployment_name": "d1" },
        });
        assert_eq!(endpoint(&body), Ok(file));

        let body = json!({ "location": "eastus", "properties": {
            "model": { "referenceType": "Id", "assetId": format!("{W}/models/mnist/versions/1") },
            "codeConfiguration": { "codeId": format!("{W}/codes/score/versions/7"), "scoringScript": "digits.py" },
            "environmentId": format!("{W}/environments/env/versions/2"),
            "compute": format!("{W}/computes/batch-cluster"),
            "resources": { "instanceCount": 1 },
            "maxConcurrencyPerInstance": "4", "miniBatchSize": 5, "errorThreshold": "10", "loggingLevel": "Info",
            "outputAction": "AppendRow", "outputFileName": "rows.csv",
            "retrySettings": { "maxRetries": 3, "timeout": "PT1M30S" },
            "environmentVariables": { "A": "1" }, "partitionKeys": ["store", "day"],
        } });
        let made = deployment(&body).unwrap();
        assert_eq!(made.code, Some(("score".to_owned(), "7".to_owned())));
        let file = json!({
            "type": "model", "tags": {}, "properties": {}, "model": "azureml:mnist:1", "environment": "azureml:env:2",
            "compute": "azureml:batch-cluster", "resources": { "instance_count": 1 },
            "code_configuration": { "code": ".", "scoring_script": "digits.py" },
            "settings": {
                "max_concurrency_per_instance": "4", "mini_batch_size": "5", "error_threshold": "10", "output_action": "append_row",
                "output_file_name": "rows.csv", "logging_level": "info", "environment_variables": { "A": "1" },
                "partition_keys": ["store", "day"],
                "retry_settings": { "max_retries": "3", "timeout": "90" },
            },
        });
        assert_eq!(made.document, file);

        let body = json!({ "properties": {
            "compute": "batch-cluster",
            "deploymentConfiguration": {
                "deploymentConfigurationType": "PipelineComponent",
                "componentId": { "referenceType": "Id", "assetId": format!("{W}/components/hello/versions/labels/latest") },
                "settings": { "continue_on_step_failure": false },
            },
        } });
        let file = json!({
            "type": "pipeline", "tags": {}, "properties": {}, "component": "azureml:hello@latest",
            "settings": { "continue_on_step_failure": false, "default_compute": "azureml:batch-cluster" },
        });
        assert_eq!(deployment(&body), Ok(DeploymentFile { document: file, code: None }));
    }

    #[test]
    fn versions_are_files_in_other_words() {
        let table = [
            (
                "models",
                json!({ "modelType": "CustomModel", "modelUri": "s3://b/m", "description": "d" }),
                json!({ "type": "custom_model", "path": "s3://b/m", "properties": {}, "tags": {}, "description": "d" }),
            ),
            (
                "models",
                json!({ "modelFormat": "MLFlow", "modelUri": "azureml://datastores/a/paths/m", "properties": { "a": "1" } }),
                json!({
                    "type": "mlflow_model", "path": "azureml://datastores/a/paths/m", "properties": { "a": "1" }, "tags": {},
                }),
            ),
            (
                "data",
                json!({ "dataType": "uri_file", "dataUri": "s3://b/d.csv", "tags": { "a": "1" } }),
                json!({ "type": "uri_file", "path": "s3://b/d.csv", "tags": { "a": "1" } }),
            ),
            (
                "datasets",
                json!({ "paths": [{ "folder": "s3://b/d/" }] }),
                json!({ "type": "uri_folder", "path": "s3://b/d/", "tags": {} }),
            ),
            (
                "codes",
                json!({ "codeUri": { "archive_sha256": "9f" } }),
                json!({ "type": "uri_folder", "path": { "archive_sha256": "9f" }, "tags": {} }),
            ),
            (
                "components",
                json!({ "componentSpec": { "name": "hello", "version": "1", "type": "pipeline", "jobs": {} } }),
                json!({ "type": "pipeline", "jobs": {} }),
            ),
        ];
        for (word, body, file) in table {
            let of = OfAzure::of(word).unwrap();
            assert_eq!(asset(of, &json!({ "properties": body })), Ok((file, None)), "{word}");
        }
        let of = OfAzure::of("environments").unwrap();
        let body = json!({ "properties": { "condaFile": "dependencies: [python=3.10]\n", "image": "i" } });
        let (file, beside) = asset(of, &body).unwrap();
        assert_eq!(file, json!({ "image": "i", "conda_file": "conda.yml", "properties": {}, "tags": {} }));
        assert_eq!(beside, Some(("conda.yml", "dependencies: [python=3.10]\n".to_owned())));
        assert_eq!(OfAzure::of("codes").unwrap().own_name("score"), "codes.score");
        assert_eq!(OfAzure::of("jobs"), None);
    }

    #[test]
    fn what_cannot_be_done_is_refused_in_words() {
        for (made, part) in [
            (endpoint(&json!({})).map(drop), "has no properties"),
            (endpoint(&json!({ "properties": { "authMode": "key" } })).map(drop), "is not known here"),
            (endpoint(&json!({ "properties": { "trafic": 1 } })).map(drop), "properties.trafic is not known"),
            (deployment(&json!({ "properties": { "codeConfiguration": {} } })).map(drop), "no scoringScript"),
            (
                deployment(&json!({ "properties": { "model": { "referenceType": "OutputPath" } } })).map(drop),
                "give Id or DataPath",
            ),
            (
                deployment(&json!({ "properties": { "codeConfiguration": { "scoringScript": "a", "codeId": "b" } } }))
                    .map(drop),
                "does not end in codes/NAME",
            ),
            (asset(OfAzure::of("models").unwrap(), &json!({ "properties": {} })).map(drop), "where it is"),
            (
                asset(OfAzure::of("models").unwrap(), &json!({ "properties": { "isArchived": true } })).map(drop),
                "is archived once it is there",
            ),
            (asset(OfAzure::of("data").unwrap(), &json!({ "properties": { "paths": [] } })).map(drop), "one path"),
            (
                asset(OfAzure::of("environments").unwrap(), &json!({ "properties": { "build": {} } })).map(drop),
                "images are not built",
            ),
        ] {
            let why = made.unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn ids_end_in_a_name_and_a_version() {
        for (id, kind, expected) in [
            (format!("{W}/models/m/versions/3"), "models", "azureml:m:3"),
            (format!("azureml:{W}/models/m/versions/3"), "models", "azureml:m:3"),
            ("/models/m/versions/labels/latest".to_owned(), "models", "azureml:m@latest"),
            ("azureml:m:3".to_owned(), "models", "azureml:m:3"),
            (
                "azureml://registries/azureml/environments/e/versions/1".to_owned(),
                "environments",
                "azureml://registries/azureml/environments/e/versions/1",
            ),
        ] {
            assert_eq!(reference(&id, kind), expected, "{id}");
        }
        assert_eq!((snake("AppendRow"), pascal("append_row")), ("append_row".into(), "AppendRow".into()));
        assert_eq!(
            (snake("Info"), snake("info"), snake("summary_only")),
            ("info".into(), "info".into(), "summary_only".into())
        );
    }
}
