//! The registry: names for data, models, environments and components, each with immutable versions (dialects C.3 to C.5, V2);
//! and batch endpoints with their deployments (C.1, C.2).
//!
//! | module | duty |
//! |---|---|
//! | `kind` | the kinds of what is registered, and their types |
//! | `entry` | what is noted of a name and its versions, and which version a label means |
//! | `content` | local files brought into the store, named by what it holds |
//! | `endpoint` | an endpoint with its deployments, and which of these answers |
//! | `change` | one object, replaced by conditional writes |
//! | `edit` | a version that is there, changed or deleted |
//!
//! All versions of a name are in one object, which every change replaces by one conditional write: so two programs cannot
//! create the same version, all versions of data have one type, and which was created last needs no clock. The content of
//! local files lies beside it, in folders named by checksum, and belongs to the registry: no job and no `gc` removes it.
//! Where the registry is, is for the caller to say: a folder of this machine, or a part of the storage of a fleet.

mod change;
mod content;
mod edit;
mod endpoint;
mod entry;
mod kind;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::near_name::nearest;
use crate::storage::{Storage, StorageError, StorageExt};
use crate::timestamp::{format_us, now_us};

pub use content::{Content, Local};
pub use edit::{Edit, Edited};
pub use endpoint::{
    Deployment, DeploymentKind, Endpoint, EndpointError, NewDeployment, check_deployment_name,
};
pub use entry::{About, AssetVersion, Use, Which, check_label, check_name, check_version};
use entry::{Asset, VersionSource};
pub use kind::{AssetType, Kind};

/// What follows a name in the key of its object.
const SUFFIX: &str = ".json";
/// Names that are read side by side.
const READ_AT_ONCE: usize = 16;

/// Why the registry cannot do what it is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The store fails.
    #[error("the registry: {0}")]
    Store(#[from] StorageError),
    /// What is asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// What is asked for may not be.
    #[error("{0}")]
    Refused(String),
    /// What is noted of a name cannot be understood.
    #[error(
        "the registry's entry of {noun} {name} is damaged ({reason}): its content is still there; restore {place} from a backup, or remove it and create the versions again"
    )]
    Damaged {
        /// What it is.
        noun: &'static str,
        /// The name.
        name: String,
        /// The object.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A local file cannot be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        reason: String,
    },
}

impl RegistryError {
    /// Whether a server is at fault, and not the command.
    pub fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// What is to become a version of a name.
#[derive(Debug, Clone)]
pub struct NewAsset {
    /// The name.
    pub name: String,
    /// The version; the next number without it.
    pub version: Option<String>,
    /// What it is.
    pub kind: AssetType,
    /// Where it is.
    pub source: NewSource,
    /// The path as its author wrote it.
    pub given: String,
    /// What people say of it.
    pub about: About,
    /// Who creates it, where the caller says so.
    pub created_by: Option<String>,
    /// What else is registered that it needs.
    pub uses: Vec<Use>,
}

/// Where what is new is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewSource {
    /// On this machine: it is brought into the registry.
    Local(Local),
    /// In a store, where it stays.
    Url(String),
}

/// A registry.
#[derive(Debug, Clone)]
pub struct Registry {
    storage: Arc<dyn Storage>,
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.storage)
    }
}

impl Registry {
    /// The registry that is in `storage`, which holds nothing else.
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage }
    }

    /// Creates a version, after its content is in the registry; `sent` hears of the bytes of each file that is there.
    ///
    /// # Errors
    /// The version is there already, the type is not that of the other versions, or the content cannot be read or stored.
    pub async fn create(
        &self,
        new: &NewAsset,
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<AssetVersion, RegistryError> {
        self.create_unless(false, new, sent).await.map(|(made, _)| made)
    }

    /// The same, unless the version that is asked for, or without one that which was created last, has the same content: that one
    /// is given back then. Tells whether it is new.
    ///
    /// # Errors
    /// As those of [`create`](Self::create).
    pub async fn create_once(
        &self,
        new: &NewAsset,
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<(AssetVersion, bool), RegistryError> {
        self.create_unless(true, new, sent).await
    }

    async fn create_unless(
        &self,
        is_there: bool,
        new: &NewAsset,
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<(AssetVersion, bool), RegistryError> {
        let kind = new.kind.kind();
        check_name(kind, &new.name).map_err(RegistryError::Refused)?;
        new.version.as_deref().map_or(Ok(()), check_version).map_err(RegistryError::Refused)?;
        // What is refused is refused before anything is sent.
        let mut former = None;
        if let Some((asset, _)) = self.read(kind, &new.name).await? {
            former = asset.last_content().cloned();
            asset.check_type(new).map_err(RegistryError::Refused)?;
            // Whether it has the same content shows when that is looked at.
            if kind == Kind::Data && !is_there {
                asset.with(new, VersionSource::Url(String::new()), 0).map_err(RegistryError::Refused)?;
            }
        }
        let place = match &new.source {
            NewSource::Url(url) => VersionSource::Url(url.clone()),
            NewSource::Local(local) => {
                VersionSource::Content(content::bring(&*self.storage, local, former.as_ref(), sent).await?)
            }
        };
        let created_us = now_us();
        let (number, is_new) = self
            .change(kind, &new.name, |asset| {
                let asset = asset.unwrap_or_else(|| Asset::new(&new.name, new.kind));
                if let Some(version) = asset.version_at(new, &place).filter(|_| is_there) {
                    return Ok((asset, (version, false)));
                }
                let count = asset.versions.len();
                let (asset, version) = asset.with(new, place.clone(), created_us)?;
                let is_new = asset.versions.len() > count;
                Ok((asset, (version, is_new)))
            })
            .await?;
        let (asset, _) = self.read(kind, &new.name).await?.ok_or_else(|| self.vanished(kind, &new.name))?;
        let made = asset.versions.iter().rev().find(|one| one.version == number);
        made.map(|made| (self.view(&asset, made), is_new)).ok_or_else(|| self.vanished(kind, &new.name))
    }

    /// The version of `name` that `which` means.
    ///
    /// # Errors
    /// There is none, with what there is.
    pub async fn find(&self, kind: Kind, name: &str, which: &Which) -> Result<AssetVersion, RegistryError> {
        let asset = self.there(kind, name).await?;
        let found = asset.find(which).map_err(RegistryError::NotFound)?;
        Ok(self.view(&asset, found))
    }

    /// All versions of `name`, in the order of their creation.
    ///
    /// # Errors
    /// There is no such name, or it cannot be read.
    pub async fn versions(&self, kind: Kind, name: &str) -> Result<Vec<AssetVersion>, RegistryError> {
        let asset = self.there(kind, name).await?;
        Ok(asset.versions.iter().map(|one| self.view(&asset, one)).collect())
    }

    /// Of each name the versions, in the order of their creation; and what is wrong with names that cannot be read.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list(
        &self,
        kind: Kind,
    ) -> Result<(Vec<Vec<AssetVersion>>, Vec<RegistryError>), RegistryError> {
        let names = self.names(kind).await?;
        self.of_names(kind, &names).await
    }

    /// The same of these names.
    ///
    /// # Errors
    /// The store fails.
    pub async fn of_names(
        &self,
        kind: Kind,
        names: &[String],
    ) -> Result<(Vec<Vec<AssetVersion>>, Vec<RegistryError>), RegistryError> {
        let reads = names.iter().map(|name| self.versions_there(kind, name));
        let reads: Vec<_> = stream::iter(reads.collect::<Vec<_>>()).buffered(READ_AT_ONCE).collect().await;
        let (mut all, mut damaged) = (Vec::new(), Vec::new());
        for read in reads {
            match read {
                // Nothing is left of what was deleted.
                Ok(versions) if versions.is_empty() => {}
                Ok(versions) => all.push(versions),
                Err(error @ RegistryError::Damaged { .. }) => damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok((all, damaged))
    }

    /// Archives a version, or restores it; all versions of the name without `version`. Gives back those that are meant.
    ///
    /// # Errors
    /// There is no such version.
    pub async fn set_archived(
        &self,
        kind: Kind,
        name: &str,
        version: Option<&str>,
        archived: bool,
    ) -> Result<Vec<AssetVersion>, RegistryError> {
        self.edit(kind, name, version, |one| one.archived = archived).await
    }

    /// Replaces what people say of a version; `change` may be called again where another program changes it, too.
    ///
    /// # Errors
    /// There is no such version.
    pub async fn update(
        &self,
        kind: Kind,
        name: &str,
        version: &str,
        change: impl Fn(&mut About),
    ) -> Result<AssetVersion, RegistryError> {
        let mut changed = self.edit(kind, name, Some(version), |one| change(&mut one.about)).await?;
        changed.pop().ok_or_else(|| self.vanished(kind, name))
    }

    /// Edits a version, or all of a name, and gives back those that are meant.
    async fn edit(
        &self,
        kind: Kind,
        name: &str,
        version: Option<&str>,
        edit: impl Fn(&mut entry::VersionEntry),
    ) -> Result<Vec<AssetVersion>, RegistryError> {
        let asset = self.there(kind, name).await?;
        if let Some(version) = version {
            asset.find(&Which::Version(version.to_owned())).map_err(RegistryError::NotFound)?;
        }
        self.change(kind, name, |asset| {
            let noun = kind.noun();
            let mut asset = asset.ok_or_else(|| format!("there is no {noun} {name} any more"))?;
            for one in &mut asset.versions {
                if version.is_none_or(|version| one.version == version) {
                    edit(one);
                }
            }
            Ok((asset, ()))
        })
        .await?;
        let all = self.versions(kind, name).await?;
        Ok(all.into_iter().filter(|one| version.is_none_or(|version| one.version == version)).collect())
    }

    /// The bytes of a version that is one file of the registry's own.
    ///
    /// # Errors
    /// It is no such file, or it cannot be read.
    pub async fn file(
        &self,
        kind: Kind,
        name: &str,
        version: &str,
    ) -> Result<(String, Bytes), RegistryError> {
        let content = self.content(kind, name, version).await?;
        let file = content.only_file.clone().ok_or_else(|| self.vanished(kind, name))?;
        Ok((file, self.storage.get(&content.key()).await?))
    }

    /// The objects of a version in the registry's own store: the key that they begin with, and what follows it. One without a
    /// `/` at the end of the key is a file.
    ///
    /// # Errors
    /// The content is not the registry's own, or it cannot be listed.
    pub async fn objects(
        &self,
        kind: Kind,
        name: &str,
        version: &str,
    ) -> Result<(Arc<dyn Storage>, String, Vec<String>), RegistryError> {
        let content = self.content(kind, name, version).await?;
        let key = content.key() + content.end();
        let names = if content.only_file.is_some() {
            vec![String::new()]
        } else {
            let objects: Vec<_> = self.storage.list(&key, "").try_collect().await?;
            objects
                .into_iter()
                .filter_map(|object| object.key.strip_prefix(&*key).map(str::to_owned))
                .collect()
        };
        Ok((Arc::clone(&self.storage), key, names))
    }

    /// The registry's own files of a version, in a store of their own: below the name of a folder where that counts.
    ///
    /// # Errors
    /// The content is not the registry's own.
    pub async fn files(
        &self,
        kind: Kind,
        name: &str,
        version: &str,
    ) -> Result<Arc<dyn Storage>, RegistryError> {
        Ok(self.storage.below(&self.content(kind, name, version).await?.folder()))
    }

    async fn content(&self, kind: Kind, name: &str, version: &str) -> Result<Content, RegistryError> {
        let asset = self.there(kind, name).await?;
        let found = asset.find(&Which::Version(version.to_owned())).map_err(RegistryError::NotFound)?;
        match &found.place {
            VersionSource::Content(content) => Ok(content.clone()),
            VersionSource::Url(url) => Err(RegistryError::Refused(format!(
                "version {version} of {} {name} is not in the registry, but at {url}",
                kind.noun()
            ))),
        }
    }

    /// Does one change of what is noted of `name`. What `decide` gives beside the new state is given back once that is stored.
    async fn change<R>(
        &self,
        kind: Kind,
        name: &str,
        decide: impl Fn(Option<Asset>) -> Result<(Asset, R), String>,
    ) -> Result<R, RegistryError> {
        check_name(kind, name).map_err(RegistryError::Refused)?;
        let called = || format!("{} {name}", kind.noun());
        let decide = |there: Option<(Asset, &String)>| {
            let decided = decide(there.map(|(asset, _)| asset)).map_err(RegistryError::Refused);
            decided.map(|(asset, told)| (Some(asset), told))
        };
        let read = |body: &[u8]| self.understand(kind, name, body);
        let changed = change::change(&*self.storage, &key(kind, name), called, read, decide).await?;
        Ok(changed.told)
    }

    /// What is noted of a name that is there.
    async fn there(&self, kind: Kind, name: &str) -> Result<Asset, RegistryError> {
        match self.read(kind, name).await? {
            Some((asset, _)) if !asset.versions.is_empty() => Ok(asset),
            _ => Err(self.no_such_name(kind, name).await?),
        }
    }

    async fn read(&self, kind: Kind, name: &str) -> Result<Option<(Asset, String)>, RegistryError> {
        check_name(kind, name).map_err(RegistryError::Refused)?;
        change::find(&*self.storage, &key(kind, name), |body| self.understand(kind, name, body)).await
    }

    fn understand(&self, kind: Kind, name: &str, body: &[u8]) -> Result<Asset, RegistryError> {
        Asset::read(kind, name, body).map_err(|reason| RegistryError::Damaged {
            noun: kind.noun(),
            name: name.to_owned(),
            place: self.storage.uri(&key(kind, name)),
            reason,
        })
    }

    async fn versions_there(&self, kind: Kind, name: &str) -> Result<Vec<AssetVersion>, RegistryError> {
        let Some((asset, _)) = self.read(kind, name).await? else { return Ok(Vec::new()) };
        Ok(asset.versions.iter().map(|one| self.view(&asset, one)).collect())
    }

    /// The names of a kind, sorted.
    ///
    /// # Errors
    /// The store fails.
    pub async fn names(&self, kind: Kind) -> Result<Vec<String>, RegistryError> {
        let objects: Vec<_> = self.storage.list(kind.folder(), "").try_collect().await?;
        let name = |key: &str| {
            let name = key.strip_prefix(kind.folder())?.strip_suffix(SUFFIX)?;
            check_name(kind, name).is_ok().then(|| name.to_owned())
        };
        let mut names: Vec<String> = objects.iter().filter_map(|object| name(&object.key)).collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn no_such_name(&self, kind: Kind, name: &str) -> Result<RegistryError, RegistryError> {
        let names = self.names(kind).await?;
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let (noun, command) = (kind.noun(), kind.command());
        let remedy = match nearest(name, &known) {
            Some(near) => format!("did you mean {near}?"),
            None if known.is_empty() && kind == Kind::Data => {
                format!("the registry is empty; {command} create makes an entry")
            }
            None if known.is_empty() => format!("it has no {noun}; {command} create makes an entry"),
            None => format!("{command} list shows the names there are"),
        };
        Ok(RegistryError::NotFound(format!("there is no {noun} {name} in the registry {self}: {remedy}")))
    }

    fn vanished(&self, kind: Kind, name: &str) -> RegistryError {
        let noun = kind.noun();
        let message = format!("{noun} {name} was removed from {self} behind prs's back: create it again");
        RegistryError::Refused(message)
    }

    fn view(&self, asset: &Asset, one: &entry::VersionEntry) -> AssetVersion {
        let path = match &one.place {
            VersionSource::Url(url) => url.clone(),
            VersionSource::Content(content) => self.storage.uri(&content.key()) + content.end(),
        };
        AssetVersion {
            name: asset.name.clone(),
            version: one.version.clone(),
            kind: asset.type_of(one),
            path,
            given: one.given.clone(),
            content: one.place.checksum().map(str::to_owned),
            about: one.about.clone(),
            labels: one.labels.clone(),
            created_by: one.created_by.clone(),
            created: format_us(one.created_us),
            archived: one.archived,
            uses: one.uses.clone(),
        }
    }
}

fn key(kind: Kind, name: &str) -> String {
    format!("{}{name}{SUFFIX}", kind.folder())
}

#[cfg(test)]
mod tests;
