//! What is registered: versions created, changed and deleted; and who uses one.
//!
//! | file | duty |
//! |---|---|
//! | `create` | a version of its file, and of what else is said of it |
//! | `used` | the deployments and other versions that use one |
//!
//! Jobs note the versions that they began with; a list of jobs tells which these are.

mod create;
mod used;

use std::path::Path;

use prs_common::registry::{AssetVersion, Edit, Kind, Which};
use prs_common::storage::StorageExt;

use crate::failure::Failure;
use crate::homes::{Whereabouts, registry};

pub use create::{NewVersion, create};
pub use used::{Used, used_by};

/// The version of `name` that is meant, and whether it is the one that was created last and is not archived.
///
/// # Errors
/// There is none, or the registry fails.
pub async fn find(
    kind: Kind,
    name: &str,
    which: &Which,
    whereabouts: &Whereabouts,
) -> Result<(AssetVersion, bool), Failure> {
    let registry = Box::pin(registry::open(whereabouts)).await?;
    let found = registry.find(kind, name, which).await.map_err(registry::failure)?;
    let latest = registry.find(kind, name, &Which::Label("latest".to_owned())).await;
    let is_latest = latest.is_ok_and(|latest| latest.version == found.version);
    Ok((found, is_latest))
}

/// Changes a version where it is what `decide` expects, as [`prs_common::registry::Registry::edit_version`] does.
///
/// # Errors
/// There is no such version, a label is none, or the registry fails.
pub async fn edit(
    kind: Kind,
    name: &str,
    version: &str,
    decide: impl Fn(&AssetVersion) -> Option<Edit>,
    whereabouts: &Whereabouts,
) -> Result<Option<AssetVersion>, Failure> {
    let registry = Box::pin(registry::open(whereabouts)).await?;
    registry.edit_version(kind, name, version, decide).await.map_err(registry::failure)
}

/// What came of the deletion of a version.
#[derive(Debug)]
pub enum Deletion {
    /// It is deleted.
    Done,
    /// It is not what is expected.
    IsOther,
    /// It is in use.
    InUse(Used),
}

/// Deletes a version that no deployment and no other version uses, where `is_expected`. Its content stays for jobs that began with
/// it, and no other version gets its name.
///
/// # Errors
/// There is no such version, or the registry fails.
pub async fn delete(
    kind: Kind,
    name: &str,
    version: &str,
    is_expected: impl Fn(&AssetVersion) -> bool,
    whereabouts: &Whereabouts,
) -> Result<Deletion, Failure> {
    let used = Box::pin(used_by(kind, name, version, whereabouts)).await?;
    if !used.is_empty() {
        return Ok(Deletion::InUse(used));
    }
    let decide = |there: &AssetVersion| is_expected(there).then_some(Edit::Delete);
    if Box::pin(edit(kind, name, version, decide, whereabouts)).await?.is_none() {
        return Ok(Deletion::IsOther);
    }
    // Who began to use it at the same moment keeps it.
    let used = Box::pin(used_by(kind, name, version, whereabouts)).await?;
    if used.is_empty() {
        return Ok(Deletion::Done);
    }
    let registry = Box::pin(registry::open(whereabouts)).await?;
    registry.undelete(kind, name, version).await.map_err(registry::failure)?;
    Ok(Deletion::InUse(used))
}

/// Copies all files of a version into `folder`, which is there.
///
/// # Errors
/// There is no such version, its files cannot be read, or one has a name that no file can have here.
pub async fn bring(
    (kind, name, which): (Kind, &str, &Which),
    folder: &Path,
    whereabouts: &Whereabouts,
) -> Result<AssetVersion, Failure> {
    let registry = Box::pin(registry::open(whereabouts)).await?;
    let one = registry.find(kind, name, which).await.map_err(registry::failure)?;
    if one.content.is_none() {
        Box::pin(registry::fetch_into(&one.path, folder, whereabouts)).await?;
        return Ok(one);
    }
    let files = registry.files(kind, name, &one.version).await.map_err(registry::failure)?;
    let keys = files.list_all("").await.map_err(Failure::server)?;
    registry::copy(&*files, keys.into_iter().map(|object| (object.key.clone(), object.key)), folder).await?;
    Ok(one)
}

/// The names of a kind, sorted.
///
/// # Errors
/// The registry fails.
pub async fn names(kind: Kind, whereabouts: &Whereabouts) -> Result<Vec<String>, Failure> {
    let registry = Box::pin(registry::open(whereabouts)).await?;
    registry.names(kind).await.map_err(registry::failure)
}

/// Of each of these names its versions, in the order of their creation; nothing of one whose versions are all deleted. What cannot be
/// understood is told and left out.
///
/// # Errors
/// The registry fails.
pub async fn of_names(
    kind: Kind,
    names: &[String],
    whereabouts: &Whereabouts,
) -> Result<Vec<Vec<AssetVersion>>, Failure> {
    let registry = Box::pin(registry::open(whereabouts)).await?;
    let (all, damaged) = registry.of_names(kind, names).await.map_err(registry::failure)?;
    for error in damaged {
        whereabouts.caller.error(&error);
    }
    Ok(all)
}

/// All versions of `name`, in the order of their creation.
///
/// # Errors
/// There is none, or the registry fails.
pub async fn versions(
    kind: Kind,
    name: &str,
    whereabouts: &Whereabouts,
) -> Result<Vec<AssetVersion>, Failure> {
    let registry = Box::pin(registry::open(whereabouts)).await?;
    registry.versions(kind, name).await.map_err(registry::failure)
}
