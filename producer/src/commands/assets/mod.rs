//! `dataset`, `model`, `environment` and `component`: the registry (dialects C.3 to C.5, F.1). What a command made or found
//! is printed, and nothing else (V1).
//!
//! | file | duty |
//! |---|---|
//! | `create` | a version of each kind |
//! | `download` | a model on this machine |
//! | `printed` | versions for people and programs |

mod create;
mod download;
mod printed;

use std::process::ExitCode;

use prs_common::job::change_about;
use prs_common::registry::{About, AssetVersion, Kind, Registry, Which};

use super::endpoints::heed_azure;
use crate::cli::{
    AssetCommand, ChooseAssets, Component, Dataset, DatasetCommand, Environment, FileCommand, Format,
    ListAssets, Model, ModelCommand, OneVersion, ShowAsset, UpdateAsset, WhereaboutsArguments,
};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use printed::{print, print_list};
use prs_jobs::homes::registry::{self, failure};

/// Does what is said of registered data.
pub(super) async fn dataset(arguments: Dataset, format: Format) -> Result<ExitCode, Failure> {
    heed_azure(&arguments.azure)?;
    match arguments.command {
        DatasetCommand::Create(arguments) => Box::pin(create::data(arguments, format)).await?,
        DatasetCommand::Other(command) => other(Kind::Data, command, format).await?,
    }
    Ok(Code::Completed.into())
}

/// Does what is said of registered models.
pub(super) async fn model(arguments: Model, format: Format) -> Result<ExitCode, Failure> {
    heed_azure(&arguments.azure)?;
    match arguments.command {
        ModelCommand::Create(arguments) => Box::pin(create::model(arguments, format)).await?,
        ModelCommand::Download(arguments) => download::model(arguments, format).await?,
        ModelCommand::Other(command) => other(Kind::Model, command, format).await?,
    }
    Ok(Code::Completed.into())
}

/// Does what is said of registered environments.
pub(super) async fn environment(arguments: Environment, format: Format) -> Result<ExitCode, Failure> {
    heed_azure(&arguments.azure)?;
    match arguments.command {
        FileCommand::Create(arguments) => {
            Box::pin(create::from_file(Kind::Environment, arguments, format)).await?;
        }
        FileCommand::Other(command) => other(Kind::Environment, command, format).await?,
    }
    Ok(Code::Completed.into())
}

/// Does what is said of registered components.
pub(super) async fn component(arguments: Component, format: Format) -> Result<ExitCode, Failure> {
    heed_azure(&arguments.azure)?;
    match arguments.command {
        FileCommand::Create(arguments) => {
            Box::pin(create::from_file(Kind::Component, arguments, format)).await?;
        }
        FileCommand::Other(command) => other(Kind::Component, command, format).await?,
    }
    Ok(Code::Completed.into())
}

async fn other(kind: Kind, command: AssetCommand, format: Format) -> Result<(), Failure> {
    match command {
        AssetCommand::List(arguments) => list(kind, &arguments, format).await,
        AssetCommand::Show(arguments) => show(kind, arguments, format).await,
        AssetCommand::Update(arguments) => update(kind, arguments, format).await,
        AssetCommand::Archive(arguments) => set_archived(kind, &arguments, true, format).await,
        AssetCommand::Restore(arguments) => set_archived(kind, &arguments, false, format).await,
    }
}

async fn open(whereabouts: &WhereaboutsArguments) -> Result<Registry, Failure> {
    registry::open(&whereabouts.settled()?).await
}

fn which(version: Option<String>, label: Option<String>) -> Which {
    match (version, label) {
        (Some(version), _) => Which::Version(version),
        (None, label) => Which::Label(label.unwrap_or_else(|| "latest".to_owned())),
    }
}

async fn list(kind: Kind, arguments: &ListAssets, format: Format) -> Result<(), Failure> {
    let registry = open(&arguments.whereabouts).await?;
    let is_shown = |one: &AssetVersion| arguments.include_archived || !one.archived;
    let mut shown: Vec<AssetVersion> = Vec::new();
    if let Some(name) = &arguments.name {
        let versions = registry.versions(kind, name).await.map_err(failure)?;
        shown.extend(versions.into_iter().rev().filter(is_shown));
    } else {
        let (all, damaged) = registry.list(kind).await.map_err(failure)?;
        for error in damaged {
            output::print_error(error);
        }
        shown.extend(all.into_iter().filter_map(|versions| versions.into_iter().rev().find(is_shown)));
    }
    print_list(kind, shown, format)
}

async fn show(kind: Kind, arguments: ShowAsset, format: Format) -> Result<(), Failure> {
    let ShowAsset { meant: OneVersion { name, version, label }, whereabouts } = arguments;
    let found = open(&whereabouts).await?.find(kind, &name, &which(version, label)).await;
    print(found.map_err(failure)?, format)
}

async fn update(kind: Kind, arguments: UpdateAsset, format: Format) -> Result<(), Failure> {
    let UpdateAsset { meant, description, tags, set, whereabouts } = arguments;
    let OneVersion { name, version, label } = meant;
    let options = description.map(|text| ("description".to_owned(), text)).into_iter();
    let tags = tags.into_iter().map(|(key, value)| (format!("tags.{key}"), value));
    let changes: Vec<(String, String)> = set.into_iter().chain(options).chain(tags).collect();
    if changes.is_empty() {
        return Err(Failure::wrong("there is nothing to change: give --description, --tag or --set"));
    }
    let mut tried = About::default();
    for (key, value) in &changes {
        change_about(&mut tried, key, value).map_err(|message| Failure::wrong(format!("--set {message}")))?;
    }
    let registry = open(&whereabouts).await?;
    let meant = registry.find(kind, &name, &which(version, label)).await.map_err(failure)?;
    let change = |about: &mut About| {
        for (key, value) in &changes {
            // It was judged above.
            let _ = change_about(about, key, value);
        }
    };
    print(registry.update(kind, &name, &meant.version, change).await.map_err(failure)?, format)
}

async fn set_archived(
    kind: Kind,
    arguments: &ChooseAssets,
    archived: bool,
    format: Format,
) -> Result<(), Failure> {
    let registry = open(&arguments.whereabouts).await?;
    let (name, version) = (&arguments.name, arguments.version.as_deref());
    print_list(kind, registry.set_archived(kind, name, version, archived).await.map_err(failure)?, format)
}
