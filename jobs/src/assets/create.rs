//! A version of data, of a model, of an environment or of a component, made of its file and of what else is said of it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::job::{
    AssetFile, JobFileError, ModelSource, Names, Problem, check_model, data_source, environment_document,
    fenced, model_source, stage_component,
};
use prs_common::registry::{AssetType, AssetVersion, Kind, Local, NewAsset, NewSource, Use};
use prs_common::temporary_folder::TemporaryFolder;
use prs_common::tree;

use crate::failure::Failure;
use crate::homes::Whereabouts;
use crate::homes::registry::{self, failure, fetch};

/// The document of an environment in the registry.
const ENVIRONMENT: &str = "environment.yml";

/// What is to become a version.
#[derive(Debug, Clone, Copy)]
pub struct NewVersion<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its file.
    pub file: Option<&'a Path>,
    /// What stands in the file, where that is not on this machine.
    pub text: Option<&'a str>,
    /// What replaces keys of the file: with their places, and values.
    pub set: &'a [(String, String)],
    /// The name, in the place of that of the file.
    pub name: Option<&'a str>,
    /// The version, in the place of that of the file.
    pub version: Option<&'a str>,
    /// The type, in the place of that of the file.
    pub type_of: Option<AssetType>,
    /// The path, in the place of that of the file, seen from the current folder.
    pub path: Option<&'a str>,
    /// The description, in the place of that of the file.
    pub description: Option<&'a str>,
    /// Tags beside those of the file.
    pub tags: &'a [(String, String)],
    /// Who creates it, where the caller says so.
    pub created_by: Option<&'a str>,
    /// The folders that local paths may lead into; anywhere without them.
    pub fence: Option<&'a [PathBuf]>,
    /// A folder with what was sent, whose name says nothing.
    pub hidden: Option<&'a Path>,
    /// Whether a version with the same content is given back in the place of another one.
    pub if_same: bool,
}

impl NewVersion<'_> {
    /// One of `kind` of which nothing is said.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            file: None,
            text: None,
            set: &[],
            name: None,
            version: None,
            type_of: None,
            path: None,
            description: None,
            tags: &[],
            created_by: None,
            fence: None,
            hidden: None,
            if_same: false,
        }
    }

    fn lacks(&self, what: &str) -> Failure {
        let noun = self.kind.noun();
        let remedy = if self.text.is_some() {
            "give it".to_owned()
        } else if self.file.is_some() || self.kind == Kind::Data || self.kind == Kind::Model {
            format!("give --{what}, or {what}: in a file (--file)")
        } else {
            format!("give --{what}, or {what}: in the file")
        };
        Failure::wrong(format!("the {what} of the {noun} is missing: {remedy}"))
    }

    /// The path that is given, and the folder that it starts from.
    fn place(&self, read: &AssetFile) -> Result<(String, PathBuf), Failure> {
        let here = std::env::current_dir().context("there is no current folder").map_err(Failure::usage)?;
        // What --set says is said on the command line.
        let is_set = self.set.iter().any(|(key, _)| key == "path");
        let Some(given) = self.path.map(str::to_owned).or(read.path.clone()) else {
            return Err(self.lacks("path"));
        };
        Ok(match self.file {
            Some(file) if self.path.is_none() && !is_set => {
                (given, here.join(file.parent().unwrap_or(Path::new(""))))
            }
            _ => (given, here),
        })
    }

    /// Does `read` where no local path may lead elsewhere than it may.
    fn within<T>(&self, names: &Names, read: impl FnOnce() -> Result<T, JobFileError>) -> Result<T, Failure> {
        let Some(folders) = self.fence else { return read().map_err(Failure::usage) };
        let folders = [folders, &names.folders()].concat();
        fenced(&folders, read).map_err(Failure::usage)
    }

    /// The same, of what says in words what is wrong with the path.
    fn of_path<T>(&self, names: &Names, read: impl FnOnce() -> Result<T, String>) -> Result<T, Failure> {
        if self.fence.is_none() {
            return read().map_err(Failure::wrong);
        }
        self.within(names, || {
            read().map_err(|message| {
                JobFileError::new("the file", vec![Problem { key: "path".to_owned(), line: None, message }])
            })
        })
    }
}

/// Where what is new is, and what was found out of it.
struct Found {
    kind: AssetType,
    source: NewSource,
    given: String,
    uses: Vec<Use>,
}

/// Creates a version, and tells whether it is new; `sent` hears of the bytes of each file that is in the registry.
///
/// # Errors
/// What is said of it is wrong, the version is there already, or the registry fails.
pub async fn create(
    new: &NewVersion<'_>,
    sent: &(dyn Fn(u64) + Sync),
    whereabouts: &Whereabouts,
) -> Result<(AssetVersion, bool), Failure> {
    let kind = new.kind;
    let mut read = match new.text {
        Some(text) => AssetFile::of_text(kind, text, new.file.unwrap_or(Path::new("the file"))),
        None => AssetFile::read(kind, new.file, new.set),
    }
    .map_err(Failure::usage)?;
    note_all(&read.notes, whereabouts);
    // What has no name is refused before anything is made of it.
    let name = new.name.map(str::to_owned).or(read.name.clone()).ok_or_else(|| new.lacks("name"))?;
    let scratch = TemporaryFolder::make("prs-register-").context("cannot make a temporary folder");
    let scratch = scratch.map_err(Failure::usage)?;
    let said = [("name", new.name, &read.name), ("version", new.version, &read.version)];
    for (key, wanted, own) in said.into_iter().filter(|_| new.text.is_some()) {
        if let (Some(wanted), Some(own)) = (wanted, own)
            && wanted != own
        {
            return Err(Failure::wrong(format!(
                "the {key} of the file is {own}, and {wanted} is asked for: leave it out of the file, or make them the same"
            )));
        }
    }
    let names = whereabouts.names.anew();
    let Found { kind, source, given, uses } = match kind {
        Kind::Data => Box::pin(data(new, &read, &names, whereabouts)).await?,
        Kind::Model => Box::pin(model(new, &mut read, &names, scratch.path(), whereabouts)).await?,
        Kind::Environment => environment(new, &read, scratch.path(), whereabouts)?,
        Kind::Component => Box::pin(component(new, &read, &names, scratch.path(), whereabouts)).await?,
    };
    let mut about = read.about;
    about.description = new.description.map(str::to_owned).or(about.description);
    about.tags.extend(new.tags.iter().cloned());
    let hidden =
        new.hidden.map(|folder| folder.display().to_string()).filter(|hidden| given.starts_with(hidden));
    let given = match hidden {
        Some(_) => given.rsplit('/').next().unwrap_or_default().to_owned(),
        None => given,
    };
    let version = new.version.map(str::to_owned).or(read.version);
    let created_by = new.created_by.map(str::to_owned);
    let asset = NewAsset { name, version, kind, source, given, about, created_by, uses };
    let registry = Box::pin(registry::open(whereabouts)).await?;
    if whereabouts.urls.is_none() {
        registry::make(&whereabouts.runs)?;
    }
    let made = if new.if_same {
        Box::pin(registry.create_once(&asset, sent)).await
    } else {
        Box::pin(registry.create(&asset, sent)).await.map(|made| (made, true))
    };
    made.map_err(failure)
}

fn note_all(notes: &[String], whereabouts: &Whereabouts) {
    for note in notes {
        whereabouts.caller.note(&format_args!("note: {note}"));
    }
}

/// Asks `find` until it needs no name to be looked up any more.
async fn found<T>(
    given: &str,
    names: &Names,
    find: impl Fn() -> Result<Option<T>, Failure>,
    whereabouts: &Whereabouts,
) -> Result<T, Failure> {
    let mut opened = None;
    loop {
        let found = find();
        // What is said before a name is known does not count.
        if Box::pin(registry::look_up(names, &mut opened, whereabouts)).await? {
            continue;
        }
        return found?.ok_or_else(|| Failure::wrong(format!("{given} names nothing that prs can look up")));
    }
}

async fn data(
    new: &NewVersion<'_>,
    read: &AssetFile,
    names: &Names,
    whereabouts: &Whereabouts,
) -> Result<Found, Failure> {
    let kind = new.type_of.or(read.kind).unwrap_or(AssetType::UriFolder);
    let (given, folder) = new.place(read)?;
    let find = || new.of_path(names, || data_source(&given, &folder, kind, names));
    let source = found(&given, names, find, whereabouts).await?;
    Ok(Found { kind, source, given, uses: Vec::new() })
}

async fn model(
    new: &NewVersion<'_>,
    read: &mut AssetFile,
    names: &Names,
    scratch: &Path,
    whereabouts: &Whereabouts,
) -> Result<Found, Failure> {
    let kind = new.type_of.or(read.kind).unwrap_or(AssetType::CustomModel);
    let (given, folder) = new.place(read)?;
    let find = || new.of_path(names, || model_source(&given, &folder, kind, names));
    let path = match found(&given, names, find, whereabouts).await? {
        ModelSource::Local(path) => path,
        ModelSource::Url(url) => Box::pin(fetch(&url, scratch, whereabouts)).await?,
    };
    let flavors = check_model(&path, kind).map_err(Failure::wrong)?;
    if !flavors.is_empty() {
        read.about.flavors = flavors;
    }
    let source = NewSource::Local(Local { keeps_name: path.is_dir(), path });
    Ok(Found { kind, source, given, uses: Vec::new() })
}

fn environment(
    new: &NewVersion<'_>,
    read: &AssetFile,
    scratch: &Path,
    whereabouts: &Whereabouts,
) -> Result<Found, Failure> {
    let file = new.file.unwrap_or(Path::new("environment"));
    let make = || environment_document(read, file);
    let (document, notes) = new.within(&whereabouts.names, make)?;
    note_all(&notes, whereabouts);
    let path = scratch.join(ENVIRONMENT);
    tree::write(&path, document).with_context(|| format!("cannot write {}", path.display()))?;
    let source = NewSource::Local(Local { path, keeps_name: false });
    Ok(Found { kind: AssetType::Environment, source, given: given(new, file), uses: Vec::new() })
}

async fn component(
    new: &NewVersion<'_>,
    read: &AssetFile,
    names: &Names,
    scratch: &Path,
    whereabouts: &Whereabouts,
) -> Result<Found, Failure> {
    let file = new.file.unwrap_or(Path::new("component"));
    let stage = || new.within(names, || stage_component(read, file, names, scratch));
    let staged = found("the component", names, stage, whereabouts).await?;
    note_all(&staged.notes, whereabouts);
    let source = NewSource::Local(Local { path: staged.archive, keeps_name: false });
    Ok(Found { kind: staged.kind, source, given: given(new, file), uses: staged.uses })
}

/// Where its author had it.
fn given(new: &NewVersion<'_>, file: &Path) -> String {
    match new.text {
        // What was sent has no place.
        Some(_) => String::new(),
        None => file.display().to_string(),
    }
}
