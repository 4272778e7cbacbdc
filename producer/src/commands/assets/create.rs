//! `create`: a version of data, of a model, of an environment or of a component.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use prs_common::job::{
    AssetFile, ModelSource, Names, check_model, data_source, environment_document, model_source,
    stage_component,
};
use prs_common::registry::{AssetType, Kind, Local, NewAsset, NewSource, Registry};
use prs_common::temporary_folder::TemporaryFolder;
use prs_jobs::homes::registry::{self, failure, fetch};
use prs_orchestrator::inputs::InputProgress;

use super::printed::print;
use crate::cli::{CreateAsset, CreateData, CreateFromFile, CreateModel, Format};
use crate::failure::Failure;
use crate::progress;
use crate::terminal::output;

/// The document of an environment in the registry.
const ENVIRONMENT: &str = "environment.yml";

/// What is to be created, as far as file and options say it.
struct Wanted {
    kind: Kind,
    file: Option<PathBuf>,
    read: AssetFile,
    asset: CreateAsset,
    names: Names,
}

impl Wanted {
    fn read(kind: Kind, file: Option<PathBuf>, asset: CreateAsset) -> Result<Self, Failure> {
        let read = AssetFile::read(kind, file.as_deref(), &asset.set).map_err(Failure::usage)?;
        note_all(&read.notes);
        let names = asset.whereabouts.servers.names();
        Ok(Self { kind, file, read, asset, names })
    }

    fn lacks(&self, what: &str) -> Failure {
        let noun = self.kind.noun();
        let option = if self.file.is_some() || self.kind == Kind::Data || self.kind == Kind::Model {
            format!("give --{what}, or {what}: in a file (--file)")
        } else {
            format!("give --{what}, or {what}: in the file")
        };
        Failure::wrong(format!("the {what} of the {noun} is missing: {option}"))
    }

    /// The path that is given, and the folder that it starts from.
    fn place(&self, path: Option<&str>) -> Result<(String, PathBuf), Failure> {
        let here = std::env::current_dir().context("there is no current folder").map_err(Failure::usage)?;
        // What --set says is said on the command line.
        let is_set = self.asset.set.iter().any(|(key, _)| key == "path");
        let Some(given) = path.map(str::to_owned).or(self.read.path.clone()) else {
            return Err(self.lacks("path"));
        };
        Ok(match &self.file {
            Some(file) if path.is_none() && !is_set => {
                (given, here.join(file.parent().unwrap_or(Path::new(""))))
            }
            _ => (given, here),
        })
    }

    /// Asks `find` until it needs no name to be looked up any more.
    async fn found<T>(
        &self,
        given: &str,
        find: impl Fn() -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let whereabouts = self.asset.whereabouts.settled()?;
        let mut opened = None;
        loop {
            let found = find();
            let looked_up = registry::look_up(&self.names, &mut opened, &whereabouts).await?;
            match found {
                // What is said before a name is known does not count.
                _ if looked_up => {}
                Ok(None) => {
                    return Err(Failure::wrong(format!("{given} names nothing that prs can look up")));
                }
                Ok(Some(found)) => return Ok(found),
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates the version, and prints it.
    async fn create(
        self,
        kind: AssetType,
        source: NewSource,
        given: String,
        format: Format,
    ) -> Result<(), Failure> {
        let name = self.asset.name.clone().or(self.read.name.clone());
        let name = name.ok_or_else(|| self.lacks("name"))?;
        let CreateAsset { version, description, tags, whereabouts, .. } = self.asset;
        let mut about = self.read.about;
        about.description = description.or(about.description);
        about.tags.extend(tags);
        let version = version.or(self.read.version);
        let new = NewAsset { name, version, kind, source, given, about };
        let whereabouts = whereabouts.settled()?;
        let registry: Registry = registry::open(&whereabouts).await?;
        if whereabouts.urls.is_none() {
            registry::make(&whereabouts.runs)?;
        }
        let (uploading, seen) = (progress::uploads(), Mutex::new(InputProgress::default()));
        let sent = |bytes| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            (seen.files, seen.bytes) = (seen.files + 1, seen.bytes + bytes);
            uploading.show(&new.name, *seen);
        };
        let made = registry.create(&new, &sent).await;
        uploading.end();
        print(made.map_err(failure)?, format)
    }

    /// Refuses what has no name before anything is made of it.
    fn check_name(&self) -> Result<(), Failure> {
        if self.asset.name.is_none() && self.read.name.is_none() { Err(self.lacks("name")) } else { Ok(()) }
    }
}

fn note_all(notes: &[String]) {
    for note in notes {
        output::note(format_args!("note: {note}"));
    }
}

/// A folder for what is brought into the registry.
fn scratch() -> Result<TemporaryFolder, Failure> {
    let made = TemporaryFolder::make("prs-register-").context("cannot make a temporary folder");
    made.map_err(Failure::usage)
}

/// Creates data.
pub(super) async fn data(arguments: CreateData, format: Format) -> Result<(), Failure> {
    let CreateData { file, kind, path, asset } = arguments;
    let wanted = Wanted::read(Kind::Data, file, asset)?;
    wanted.check_name()?;
    let kind = kind.or(wanted.read.kind).unwrap_or(AssetType::UriFolder);
    let (given, folder) = wanted.place(path.as_deref())?;
    let find = || data_source(&given, &folder, kind, &wanted.names).map_err(Failure::wrong);
    let source = wanted.found(&given, find).await?;
    wanted.create(kind, source, given, format).await
}

/// Creates a model.
pub(super) async fn model(arguments: CreateModel, format: Format) -> Result<(), Failure> {
    let CreateModel { file, kind, path, asset } = arguments;
    let mut wanted = Wanted::read(Kind::Model, file, asset)?;
    wanted.check_name()?;
    let kind = kind.or(wanted.read.kind).unwrap_or(AssetType::CustomModel);
    let (given, folder) = wanted.place(path.as_deref())?;
    let find = || model_source(&given, &folder, kind, &wanted.names).map_err(Failure::wrong);
    let scratch = scratch()?;
    let path = match wanted.found(&given, find).await? {
        ModelSource::Local(path) => path,
        ModelSource::Url(url) => fetch(&url, scratch.path()).await?,
    };
    let flavors = check_model(&path, kind).map_err(Failure::wrong)?;
    if !flavors.is_empty() {
        wanted.read.about.flavors = flavors;
    }
    let source = NewSource::Local(Local { keeps_name: path.is_dir(), path });
    wanted.create(kind, source, given, format).await
}

/// Creates an environment.
pub(super) async fn environment(arguments: CreateFromFile, format: Format) -> Result<(), Failure> {
    let CreateFromFile { file, asset } = arguments;
    let wanted = Wanted::read(Kind::Environment, Some(file.clone()), asset)?;
    wanted.check_name()?;
    let (document, notes) = environment_document(&wanted.read, &file).map_err(Failure::usage)?;
    note_all(&notes);
    let scratch = scratch()?;
    let path = scratch.path().join(ENVIRONMENT);
    std::fs::write(&path, document).with_context(|| format!("cannot write {}", path.display()))?;
    let source = NewSource::Local(Local { path, keeps_name: false });
    wanted.create(AssetType::Environment, source, file.display().to_string(), format).await
}

/// Creates a component.
pub(super) async fn component(arguments: CreateFromFile, format: Format) -> Result<(), Failure> {
    let CreateFromFile { file, asset } = arguments;
    let wanted = Wanted::read(Kind::Component, Some(file.clone()), asset)?;
    wanted.check_name()?;
    let scratch = scratch()?;
    let given = file.display().to_string();
    let stage =
        || stage_component(&wanted.read, &file, &wanted.names, scratch.path()).map_err(Failure::usage);
    let staged = wanted.found(&given, stage).await?;
    note_all(&staged.notes);
    let source = NewSource::Local(Local { path: staged.archive, keeps_name: false });
    wanted.create(staged.kind, source, given, format).await
}
