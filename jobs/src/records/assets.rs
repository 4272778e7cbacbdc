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
        let AssetVersion { name, version, kind, path, given, content, about, created, archived } = one;
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
        let AssetVersion { name, version, kind, path, given, content, about, created, archived } = one;
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
