//! The registry that a command uses: that of a fleet, in its storage, or that of this machine, in its folder of runs. And
//! the reading of job files that name what is in it, or the output of a job.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use prs_common::code::archive::is_intact;
use prs_common::dataset::http_url;
use prs_common::dataset::remote::RemotePath;
use prs_common::job::{
    Asked, AssetRef, COMPONENT_FILE, Found, Given, JobFileError, JobSpec, Loaded, MLMODEL, Names, OutputRef,
    RunsOn, files_of_environment, load_given,
};
use prs_common::ledger::JobState;
use prs_common::private_folder::PrivateFolder;
use prs_common::registry::{AssetVersion, Kind, Registry, RegistryError};
use prs_common::servers::ConnectError;
use prs_common::storage::{self, GetOptions, LocalStorage, Storage, StorageErrorKind, StorageExt, Use};
use prs_common::temporary_folder::TemporaryFolder;
use prs_common::tree;

use super::fleet::{FleetHome, Reader};
use super::{Home, Seen, Whereabouts, cache, graph, in_folder, run_folder};
use crate::failure::Failure;

/// The registry in the storage of a fleet.
const OF_FLEET: &str = "registry";
/// That of this machine, in the folder of its runs.
const OF_RUNS: &str = ".registry";
/// A file `MLTable` is read up to this size, bytes.
const LARGEST_TABLE: u64 = 4 << 20;
/// The same for what a model says of itself.
const LARGEST_MLMODEL: u64 = 4 << 20;

/// Opens the registry of the fleet, or that beside the runs of this machine.
pub async fn open(whereabouts: &Whereabouts) -> Result<Registry, Failure> {
    storage_of(whereabouts).await.map(Registry::new)
}

/// Where the registry is.
pub(crate) async fn storage_of(whereabouts: &Whereabouts) -> Result<Arc<dyn Storage>, Failure> {
    if let Some(reader) = Reader::connect(whereabouts).await? {
        return Ok(reader.storage().below(OF_FLEET));
    }
    Ok(Arc::new(LocalStorage::new(folder_of_runs(&whereabouts.runs)?)))
}

/// The folder of that of this machine, beside the runs in `runs`.
pub(crate) fn folder_of_runs(runs: &Path) -> Result<PathBuf, Failure> {
    Ok(std::path::absolute(runs.join(OF_RUNS)).context("there is no current folder")?)
}

/// Makes the folder of the registry beside the runs in `runs`, for this user alone.
pub fn make(runs: &Path) -> Result<(), Failure> {
    let made = PrivateFolder::make(&runs.join(OF_RUNS)).context("cannot use the folder of the registry");
    made.map(drop).map_err(Failure::usage)
}

/// What is wrong with a registry, or with what it was asked.
pub fn failure(error: RegistryError) -> Failure {
    match error {
        error if error.is_of_store() => Failure::server(error),
        error @ RegistryError::NotFound(_) => Failure::not_found(error),
        error => Failure::usage(error),
    }
}

/// Reads a job file, with what its names stand for now: what is registered is looked up in the registry there.
pub async fn load(
    runs_on: RunsOn,
    path: &Path,
    given: Given<'_>,
    whereabouts: &Whereabouts,
) -> Result<Loaded, Failure> {
    let names = given.names.cloned().unwrap_or_default();
    let read = || load_given(runs_on, path, Given { names: Some(&names), ..given });
    known(&names, read, whereabouts).await
}

/// The settings that `read` makes of those of a former job, with what the names among them stand for now.
pub async fn settings(
    whereabouts: &Whereabouts,
    read: impl Fn(&Names) -> Result<JobSpec, JobFileError>,
) -> Result<JobSpec, Failure> {
    let names = whereabouts.names.anew();
    known(&names, || read(&names), whereabouts).await
}

/// What `read` reads once all is known that it asks `names` for.
async fn known<T>(
    names: &Names,
    read: impl Fn() -> Result<T, JobFileError>,
    whereabouts: &Whereabouts,
) -> Result<T, Failure> {
    let mut registry = None;
    loop {
        let read = read();
        if !look_up(names, &mut registry, whereabouts).await? {
            return read.map_err(Failure::usage);
        }
    }
}

/// Looks up what `names` were asked; false where that is nothing. The registry is opened when it is needed.
pub async fn look_up(
    names: &Names,
    registry: &mut Option<Registry>,
    whereabouts: &Whereabouts,
) -> Result<bool, Failure> {
    let asked = names.take_asked();
    let is_any = !asked.is_empty();
    for asked in asked {
        let found = match &asked {
            Asked::Asset(asked) => {
                let registry = match registry {
                    Some(registry) => registry,
                    None => registry.insert(open(whereabouts).await?),
                };
                match registry.find(asked.kind, &asked.name, &asked.which).await {
                    Ok(found) => asset(registry, asked, found).await?,
                    Err(error) if error.is_of_store() => return Err(Failure::server(error)),
                    Err(error) => Err(error.to_string()),
                }
            }
            Asked::Output(asked) => place_of(asked, whereabouts).await?.map(Found::Path),
            Asked::Table(url) => table(url, whereabouts).await?.map(Found::Text),
            Asked::MlModel(url) => mlmodel(url, whereabouts).await?.map(Found::MlModel),
            Asked::Graph(job) => Box::pin(graph::component(job, whereabouts)).await?.map(Found::Graph),
        };
        names.tell(asked, found);
    }
    Ok(is_any)
}

/// What a job needs of a version; of an environment or a component its content.
async fn asset(
    registry: &Registry,
    AssetRef { kind, name, .. }: &AssetRef,
    found: AssetVersion,
) -> Result<Result<Found, String>, Failure> {
    if matches!(kind, Kind::Data | Kind::Model) {
        return Ok(Ok(Found::Asset(Box::new(found))));
    }
    let (file, body) = match registry.file(*kind, name, &found.version).await {
        Ok(read) => read,
        Err(error) if error.is_of_store() => return Err(Failure::server(error)),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let damaged = || format!("{} is damaged: create another version of {} {name}", found.path, kind.noun());
    if *kind == Kind::Environment {
        let document = String::from_utf8(body.to_vec()).map_err(|_| damaged());
        return Ok(document.map(|document| Found::Environment(Box::new(found), document)));
    }
    let checksum = file.split('.').next().unwrap_or_default();
    if !is_intact(&body, checksum) {
        return Ok(Err(damaged()));
    }
    let folder = cache::code(&body, checksum)?;
    Ok(Ok(Found::Component(Box::new(found), folder.join(COMPONENT_FILE))))
}

/// Where an output of a job is, or why there is none.
async fn place_of(asked: &OutputRef, whereabouts: &Whereabouts) -> Result<Result<String, String>, Failure> {
    let OutputRef { job, output, path } = asked;
    let home: Home = match Reader::connect(whereabouts).await? {
        Some(reader) => Box::new(FleetHome::new(reader, &whereabouts.caller, job)?),
        None => in_folder(run_folder::find(job, &whereabouts.runs)?),
    };
    let Seen { record, result, .. } = home.look().await?;
    if result.state != JobState::Completed {
        let why = result.reason.as_deref().unwrap_or("it is not done yet");
        return Ok(Err(format!("job {job} has no output: {} ({why})", result.state.as_str())));
    }
    let mut places: Vec<(&str, &str)> = match &record.pipeline {
        Some(plan) => plan.pipeline.outputs.iter().map(|one| (&*one.name, &*one.name)).collect(),
        None => record.spec.outputs.iter().map(|one| (&*one.name, &*one.path)).collect(),
    };
    // All of it, and what Azure calls that of a deployment.
    places.extend([("default", ""), ("score", "")]);
    let Some((_, place)) = places.iter().find(|(name, _)| name == output) else {
        let names: Vec<&str> = places.iter().map(|(name, _)| *name).filter(|name| *name != "score").collect();
        return Ok(Err(format!("job {job} has no output {output}; there are: {}", names.join(", "))));
    };
    let parts: Vec<&str> = [*place, &**path].into_iter().filter(|part| !part.is_empty()).collect();
    let storage = home.output(&record);
    let whole = storage.uri("");
    let whole = whole.trim_end_matches('/');
    Ok(if parts.iter().any(|part| part.split('/').any(|part| part == "..")) {
        Err(format!("{path} leads out of the output with `..`"))
    } else {
        Ok([&[whole], &parts[..]].concat().join("/"))
    })
}

/// Copies what is at the URL into `folder`, under its own name: a file, or all that is below a folder.
pub async fn fetch(url: &str, folder: &Path, whereabouts: &Whereabouts) -> Result<PathBuf, Failure> {
    let at = RemotePath::parse(url).map_err(Failure::wrong)?;
    let own = at.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let own = if at.is_http() { http_url::file_name(own) } else { own.to_owned() };
    let (store, files) = found_at(url, &at, whereabouts).await?;
    let below = |(key, path): (String, String)| {
        (key, if path.is_empty() { own.clone() } else { format!("{own}/{path}") })
    };
    copy(&*store, files.into_iter().map(below), folder).await?;
    Ok(folder.join(own))
}

/// Copies all that is below the folder at the URL into `folder`.
pub(crate) async fn fetch_into(url: &str, folder: &Path, whereabouts: &Whereabouts) -> Result<(), Failure> {
    let at = RemotePath::parse(url).map_err(Failure::wrong)?;
    let (store, files) = found_at(url, &at, whereabouts).await?;
    if files.iter().any(|(_, path)| path.is_empty()) {
        return Err(Failure::wrong(format!("{at} is a file: give a folder with files")));
    }
    copy(&*store, files, folder).await
}

/// What is at the URL: each key with its path below it, which is empty of a file.
async fn found_at(
    url: &str,
    at: &RemotePath,
    whereabouts: &Whereabouts,
) -> Result<(Arc<dyn Storage>, Vec<(String, String)>), Failure> {
    let store = within_reach(url, at, whereabouts).await?.map_err(Failure::wrong)?;
    let key = at.key.trim_end_matches('/');
    let below = format!("{key}/");
    let mut files = match store.head(key).await {
        Ok(_) if !at.key.ends_with('/') => vec![(key.to_owned(), String::new())],
        Ok(_) => Vec::new(),
        Err(error) if error.kind == StorageErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::server(error)),
    };
    if files.is_empty() && at.lists() {
        let objects = store.list_all(&below).await.map_err(Failure::server)?;
        let names = objects.into_iter().map(|object| object.key).filter(|key| !key.ends_with('/'));
        files.extend(names.map(|key| (key.clone(), key.strip_prefix(&below).unwrap_or(&key).to_owned())));
    }
    if files.is_empty() {
        return Err(Failure::wrong(format!("there is nothing at {at}: give a file, or a folder with files")));
    }
    Ok((store, files))
}

/// Copies files of a store into `folder`: each key with its path there.
pub(crate) async fn copy(
    store: &dyn Storage,
    files: impl IntoIterator<Item = (String, String)>,
    folder: &Path,
) -> Result<(), Failure> {
    for (key, path) in files {
        let path = folder.join(path);
        if !path.starts_with(folder) || path.components().any(|part| part.as_os_str() == "..") {
            return Err(Failure::wrong(format!("{} has a name that no file can have here", store.uri(&key))));
        }
        let parent = path.parent().unwrap_or(folder);
        tree::make_folders(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        store
            .download(&key, &path, None)
            .await
            .with_context(|| format!("cannot copy {}", store.uri(&key)))?;
    }
    Ok(())
}

/// The text of the file `MLTable` at `url`, or why there is none.
async fn table(url: &str, whereabouts: &Whereabouts) -> Result<Result<String, String>, Failure> {
    let at = match RemotePath::parse(url) {
        Ok(at) => at,
        Err(message) => return Ok(Err(message)),
    };
    let store = match within_reach(url, &at, whereabouts).await? {
        Ok(store) => store,
        Err(message) => return Ok(Err(message)),
    };
    Ok(match text(&*store, &at.key, LARGEST_TABLE, whereabouts).await? {
        Text::Whole(text) => Ok(text),
        Text::TooLarge => Err(format!("{at} is too large for a file MLTable")),
        Text::NotUtf8 => Err(format!("{at} is not UTF-8 text: give an MLTable")),
        Text::Missing => Err(format!("there is no file {at}: give the folder of a file MLTable")),
        Text::Refused(message) => Err(format!("{at} cannot be read: {message}")),
    })
}

/// What the model of `MLflow` at `url` says of itself, as files of this machine, or why it says nothing.
async fn mlmodel(
    url: &str,
    whereabouts: &Whereabouts,
) -> Result<Result<Arc<TemporaryFolder>, String>, Failure> {
    let at = match RemotePath::parse(url) {
        Ok(at) => at,
        Err(message) => return Ok(Err(message)),
    };
    let store = match within_reach(url, &at, whereabouts).await? {
        Ok(store) => store,
        Err(message) => return Ok(Err(message)),
    };
    let folder = TemporaryFolder::make("prs-model-").context("cannot make a temporary folder")?;
    let below = at.key.trim_end_matches('/');
    let mut names = vec![MLMODEL.to_owned()];
    while let Some(name) = names.pop() {
        let (key, path) = (format!("{below}/{name}"), folder.path().join(&name));
        let shown = || store.uri(&key);
        let body = match text(&*store, &key, LARGEST_MLMODEL, whereabouts).await? {
            Text::Whole(text) => text,
            Text::Missing if name == MLMODEL => {
                return Ok(Err(format!(
                    "there is no file {}: a model of type mlflow_model is a folder with one",
                    shown()
                )));
            }
            Text::Missing => continue,
            Text::TooLarge => return Ok(Err(format!("{} is larger than {LARGEST_MLMODEL} bytes", shown()))),
            Text::NotUtf8 => return Ok(Err(format!("{} is not UTF-8 text", shown()))),
            Text::Refused(message) => return Ok(Err(format!("{} cannot be read: {message}", shown()))),
        };
        if name == MLMODEL {
            names = files_of_environment(&body);
        }
        let parent = path.parent().unwrap_or(folder.path());
        let written = tree::make_folders(parent).and_then(|()| tree::write(&path, body));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Ok(Arc::new(folder)))
}

/// A short text in a store.
enum Text {
    Whole(String),
    TooLarge,
    NotUtf8,
    Missing,
    /// Who asks may not have it, whatever is there.
    Refused(String),
}

/// The store of `url`, or why who asks may not have it read.
async fn within_reach(
    url: &str,
    at: &RemotePath,
    whereabouts: &Whereabouts,
) -> Result<Result<Arc<dyn Storage>, String>, Failure> {
    let reach = &whereabouts.reach;
    if let Some(Err(message)) = reach.as_ref().map(|reach| reach.check(url, Use::Read)) {
        return Ok(Err(message));
    }
    let opened = storage::open_within(&at.bucket, reach.clone()).await;
    Ok(Ok(opened.map_err(ConnectError::Storage)?))
}

/// The text at `key`, of at most `largest` bytes.
async fn text(
    store: &dyn Storage,
    key: &str,
    largest: u64,
    whereabouts: &Whereabouts,
) -> Result<Text, Failure> {
    let options = GetOptions { range: Some(0..largest), version: None };
    match store.get_opts(key, options).await {
        Ok(read) if read.size > largest => Ok(Text::TooLarge),
        Ok(read) => Ok(String::from_utf8(read.bytes.to_vec()).map_or(Text::NotUtf8, Text::Whole)),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(Text::Missing),
        Err(error) if whereabouts.reach.is_some() && error.kind == StorageErrorKind::PermissionDenied => {
            Ok(Text::Refused(error.message))
        }
        Err(error) => Err(Failure::server(error)),
    }
}
