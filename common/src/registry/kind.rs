//! The kinds of what is registered, and the types that each has (dialects C.3 to C.5).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of what is registered. Each has names of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Data.
    #[default]
    Data,
    /// Models.
    Model,
    /// Environments: the packages of a Python.
    Environment,
    /// Components: jobs and pipelines that pipelines have as steps.
    Component,
}

impl Kind {
    /// What one of it is called.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Model => "model",
            Self::Environment => "environment",
            Self::Component => "component",
        }
    }

    /// The same with its article.
    pub fn one(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Model => "a model",
            Self::Environment => "an environment",
            Self::Component => "a component",
        }
    }

    /// The command that registers it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Data => "prs dataset",
            Self::Model => "prs model",
            Self::Environment => "prs environment",
            Self::Component => "prs component",
        }
    }

    /// What the keys of its names begin with.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Data => "data/",
            Self::Model => "models/",
            Self::Environment => "environments/",
            Self::Component => "components/",
        }
    }

    /// What it may be.
    pub fn types(self) -> &'static [AssetType] {
        match self {
            Self::Data => &[AssetType::UriFile, AssetType::UriFolder, AssetType::Mltable],
            Self::Model => &[AssetType::CustomModel, AssetType::MlflowModel, AssetType::TritonModel],
            Self::Environment => &[AssetType::Environment],
            Self::Component => &[AssetType::Parallel, AssetType::Command, AssetType::Pipeline],
        }
    }
}

/// What one that is registered is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssetType {
    /// Data: one file.
    UriFile,
    /// Data: a folder.
    UriFolder,
    /// Data: a folder with a file `MLTable`.
    Mltable,
    /// A model of any form.
    CustomModel,
    /// A model that `MLflow` stored: a folder with a file `MLmodel`.
    MlflowModel,
    /// A model for Triton.
    TritonModel,
    /// An environment.
    Environment,
    /// A component with an entry script.
    Parallel,
    /// A component with a command.
    Command,
    /// A component of steps.
    Pipeline,
}

impl AssetType {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UriFile => "uri_file",
            Self::UriFolder => "uri_folder",
            Self::Mltable => "mltable",
            Self::CustomModel => "custom_model",
            Self::MlflowModel => "mlflow_model",
            Self::TritonModel => "triton_model",
            Self::Environment => "environment",
            Self::Parallel => "parallel",
            Self::Command => "command",
            Self::Pipeline => "pipeline",
        }
    }

    /// The one of `kind` that `word` is, whatever its case.
    ///
    /// # Errors
    /// It is none, with those there are.
    pub fn parse(kind: Kind, word: &str) -> Result<Self, String> {
        let found = kind.types().iter().find(|one| one.as_str().eq_ignore_ascii_case(word.trim()));
        found.copied().ok_or_else(|| {
            let words: Vec<&str> = kind.types().iter().map(|one| one.as_str()).collect();
            format!("{word:?} is no type of {}: give {}", kind.one(), words.join(", "))
        })
    }

    /// What it is a type of.
    pub fn kind(self) -> Kind {
        match self {
            Self::UriFile | Self::UriFolder | Self::Mltable => Kind::Data,
            Self::CustomModel | Self::MlflowModel | Self::TritonModel => Kind::Model,
            Self::Environment => Kind::Environment,
            Self::Parallel | Self::Command | Self::Pipeline => Kind::Component,
        }
    }
}

impl fmt::Display for AssetType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
