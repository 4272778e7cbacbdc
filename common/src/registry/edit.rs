//! A version that is there, changed or deleted, where it is still what its changer has seen. What it holds never changes.

use std::collections::BTreeSet;

use super::entry::{VersionEntry, check_label};
use super::{About, AssetVersion, Kind, Registry, RegistryError, Which};

/// What of a version may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// What people say of it.
    pub about: About,
    /// What it is called beside its version. A label that another version of the name has moves to this one.
    pub labels: BTreeSet<String>,
    /// Whether `@latest` and lists pass it over.
    pub archived: bool,
}

/// What becomes of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// It is that.
    Change(Edited),
    /// It goes. Its content stays where it is, for jobs that began with it, and its name is never used again.
    Delete,
}

impl Registry {
    /// Does one change of a version. `decide` is given what is there, and gives what becomes of it; nothing where it is not what
    /// it expects. It may be called again where another program changes the same name. Gives the version as it is then, or was
    /// before it went; nothing where `decide` gave nothing.
    ///
    /// # Errors
    /// There is no such version, a label is none that a version can have, or the store fails.
    pub async fn edit_version(
        &self,
        kind: Kind,
        name: &str,
        version: &str,
        decide: impl Fn(&AssetVersion) -> Option<Edit>,
    ) -> Result<Option<AssetVersion>, RegistryError> {
        let which = Which::Version(version.to_owned());
        let asset = self.there(kind, name).await?;
        asset.find(&which).map_err(RegistryError::NotFound)?;
        let changed = self.change(kind, name, |asset| {
            let mut asset = asset.ok_or_else(|| format!("there is no {} {name} any more", kind.noun()))?;
            // Another may have deleted it a moment ago.
            let found = match asset.find(&which) {
                Ok(found) => found.clone(),
                Err(why) => return Ok((asset, Err(why))),
            };
            match decide(&self.view(&asset, &found)) {
                None => Ok((asset, Ok(None))),
                Some(Edit::Delete) => {
                    let seen = self.view(&asset, &found);
                    asset.versions.retain(|one| one.version != version);
                    asset.deleted.push(found);
                    Ok((asset, Ok(Some(seen))))
                }
                Some(Edit::Change(edited)) => {
                    edited.labels.iter().try_for_each(|label| check_label(label))?;
                    for one in &mut asset.versions {
                        put(one, version, &edited);
                    }
                    let seen = asset.find(&which)?;
                    let seen = self.view(&asset, seen);
                    Ok((asset, Ok(Some(seen))))
                }
            }
        });
        changed.await?.map_err(RegistryError::NotFound)
    }

    /// Takes back that the version was deleted.
    ///
    /// # Errors
    /// The store fails.
    pub async fn undelete(&self, kind: Kind, name: &str, version: &str) -> Result<(), RegistryError> {
        self.change(kind, name, |asset| {
            let mut asset = asset.ok_or_else(|| format!("there is no {} {name} any more", kind.noun()))?;
            if let Some(at) = asset.deleted.iter().position(|one| one.version == version) {
                let entry = asset.deleted.remove(at);
                asset.versions.push(entry);
                asset.versions.sort_by_key(|one| one.created_us);
            }
            Ok((asset, ()))
        })
        .await
    }
}

/// Puts what is `edited` on the version `one`, where it is the one that is meant.
fn put(one: &mut VersionEntry, version: &str, edited: &Edited) {
    if one.version == version {
        one.about = edited.about.clone();
        one.labels.clone_from(&edited.labels);
        one.archived = edited.archived;
    } else {
        one.labels.retain(|label| !edited.labels.contains(label));
    }
}
