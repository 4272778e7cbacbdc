//! What is registered.

use std::collections::BTreeMap;

use prs_common::dataset::http_url::shown;
use prs_common::registry::{About, AssetVersion};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Versioned;

/// A version of registered data.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Data {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// What the data is.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["uri_file", "uri_folder", "mltable"])))]
    pub kind: &'static str,
    /// Where it is: a local path, or a URL.
    pub path: String,
    /// The path that it was created from, as it was written.
    pub given: String,
    /// Checksum of the content, where that is the registry's own; null where the data stayed where it was.
    pub content: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// What people tell data apart by.
    pub tags: BTreeMap<String, String>,
    /// When it was created: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub created: String,
    /// Whether lists and @latest pass it over.
    pub archived: bool,
}

impl From<AssetVersion> for Data {
    fn from(one: AssetVersion) -> Self {
        let AssetVersion { name, version, kind, path, given, content, about, created, archived, .. } = one;
        let About { description, tags, .. } = about;
        let (kind, path) = (kind.as_str(), shown(&path).into_owned());
        Self { name, version, kind, path, given, content, description, tags, created, archived }
    }
}

/// Versions of registered data.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataList {
    /// The versions; without a name the latest of each.
    pub data: Vec<Versioned<Data>>,
}

/// A registered version of a model, of an environment or of a component.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asset {
    /// What it is a version of.
    #[serde(rename = "asset")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["model", "environment", "component"])))]
    pub of: &'static str,
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// What it is.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["custom_model", "mlflow_model", "triton_model", "environment", "parallel", "command", "pipeline"])))]
    pub kind: &'static str,
    /// Where it is: a local path, or a URL.
    pub path: String,
    /// The path that it was created from, as it was written.
    pub given: String,
    /// Checksum of the content.
    pub content: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// What people tell versions apart by.
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    pub properties: BTreeMap<String, String>,
    /// How far a model is on its way into use; null where nobody said it.
    pub stage: Option<String>,
    /// The forms in which `MLflow` can load a model, as its file `MLmodel` has them; empty for others.
    pub flavors: Map<String, Value>,
    /// When it was created: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub created: String,
    /// Whether lists and @latest pass it over.
    pub archived: bool,
}

impl From<AssetVersion> for Asset {
    fn from(one: AssetVersion) -> Self {
        let AssetVersion { name, version, kind, path, given, content, about, created, archived, .. } = one;
        let About { description, tags, properties, stage, flavors } = about;
        let (of, kind, path) = (kind.kind().noun(), kind.as_str(), shown(&path).into_owned());
        Self {
            of,
            name,
            version,
            kind,
            path,
            given,
            content,
            description,
            tags,
            properties,
            stage,
            flavors,
            created,
            archived,
        }
    }
}

/// Registered versions of models, environments or components.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssetList {
    /// The versions; without a name the latest of each.
    pub assets: Vec<Versioned<Asset>>,
}

/// A version of what is registered, as a server gives it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Registered {
    /// What it is a version of: `data`, `model`, `environment` or `component`.
    #[serde(rename = "asset")]
    pub of: &'static str,
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What names it in a job file.
    pub reference: String,
    /// Where it is.
    pub path: String,
    /// The path that it was created from, as it was written; empty where its file was sent.
    pub given: String,
    /// Checksum of the content, where that is the registry's own; null where the data stayed where it was.
    pub content: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// What people tell versions apart by.
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    pub properties: BTreeMap<String, String>,
    /// How far a model is on its way into use; null where nobody said it.
    pub stage: Option<String>,
    /// The forms in which `MLflow` can load a model; empty for others.
    pub flavors: Map<String, Value>,
    /// What it is called beside its version.
    pub labels: Vec<String>,
    /// Whether `@latest` means it; null in a list that does not tell.
    pub is_latest: Option<bool>,
    /// Whether lists and `@latest` pass it over.
    pub archived: bool,
    /// When it was created: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub created_at: String,
    /// Who created it at a server; null where nobody said.
    pub created_by: Option<String>,
}

impl Registered {
    /// A version; `is_latest` where that is known.
    pub fn new(one: AssetVersion, is_latest: Option<bool>) -> Self {
        let AssetVersion { name, version, kind, path, given, content, about, .. } = one;
        let About { description, tags, properties, stage, flavors } = about;
        Self {
            of: kind.kind().noun(),
            reference: format!("azureml:{name}:{version}"),
            name,
            version,
            kind: kind.as_str(),
            path: shown(&path).into_owned(),
            given,
            content,
            description,
            tags,
            properties,
            stage,
            flavors,
            labels: one.labels.into_iter().collect(),
            is_latest,
            archived: one.archived,
            created_at: one.created,
            created_by: one.created_by,
        }
    }
}

/// A registered name.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisteredName {
    /// The name.
    pub name: String,
    /// The version that `@latest` means; null where all are archived.
    pub latest: Option<String>,
    /// What that, or else the newest, is.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What people say of it.
    pub description: Option<String>,
    /// What people tell it apart by.
    pub tags: BTreeMap<String, String>,
    /// How many versions there are.
    pub versions: u64,
    /// When it was created: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub created_at: String,
    /// Whether all versions are archived.
    pub archived: bool,
}

impl RegisteredName {
    /// What is said of a name with these versions, in the order of their creation; nothing of none.
    pub fn of(versions: &[AssetVersion]) -> Option<Self> {
        let latest = versions.iter().rev().find(|one| !one.archived);
        let shown = latest.or(versions.last())?;
        Some(Self {
            name: shown.name.clone(),
            latest: latest.map(|one| one.version.clone()),
            kind: shown.kind.as_str(),
            description: shown.about.description.clone(),
            tags: shown.about.tags.clone(),
            versions: versions.len() as u64,
            created_at: shown.created.clone(),
            archived: latest.is_none(),
        })
    }
}
