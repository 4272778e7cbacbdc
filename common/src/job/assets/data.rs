//! Where data is that is to be registered.
//!
//! What is looked at on disk is whether it is there; whether data in a bucket is shows when a job lists it.

use std::path::Path;

use super::super::form::names_outside;
use super::super::names::Names;
use super::super::validate::{absolute, refuse_elsewhere};
use super::super::{mltable, near_path};
use super::resolved;
use crate::dataset::http_url::FOLDER;
use crate::dataset::remote::{RemotePath, is_glob, is_remote};
use crate::registry::{AssetType, Local, NewSource};

const PATH: &str = "a file, a folder, or an s3:// URL of either";

/// Where the data is that `given` names, seen from `folder`. What is on this machine is brought into the registry; what a
/// reference or a URL names stays there. Nothing where something has to be looked up first.
///
/// # Errors
/// It is not there, or not of this type.
pub fn data_source(
    given: &str,
    folder: &Path,
    kind: AssetType,
    names: &Names,
) -> Result<Option<NewSource>, String> {
    let given = given.trim();
    let Some(path) = resolved(given, kind.as_str(), names)? else { return Ok(None) };
    if is_remote(&path) {
        let url = RemotePath::parse(&if kind == AssetType::Mltable {
            mltable::url_of(&path)
        } else {
            path.clone()
        })?;
        if kind == AssetType::UriFolder && !url.lists() {
            return Err(FOLDER.to_owned());
        }
        if is_glob(&path) {
            return Err(format!("{url} is a glob: give {PATH}"));
        }
        return Ok(Some(NewSource::Url(path)));
    }
    refuse_elsewhere(&path)
        .map_err(|message| message.replace("give a local path", &format!("give {PATH}")))?;
    let is_named = path != given;
    let mut path = absolute(folder, &path);
    if kind == AssetType::Mltable && path.is_file() && path.ends_with(mltable::NAME) {
        path.pop();
    }
    check(&path, kind)?;
    let text = path.to_str().ok_or_else(|| format!("{} is not UTF-8: rename it", path.display()))?;
    Ok(Some(if is_named {
        NewSource::Url(text.to_owned())
    } else {
        NewSource::Local(Local { path, keeps_name: false })
    }))
}

/// Whether what is at `path` is of this type.
fn check(path: &Path, kind: AssetType) -> Result<(), String> {
    let shown = path.display();
    let meta =
        path.metadata().map_err(|error| format!("cannot read {shown}: {error}{}", near_path::hint(path)))?;
    match kind {
        AssetType::UriFile if !meta.is_file() => Err(format!("{shown} is a folder: give type: uri_folder")),
        AssetType::UriFolder | AssetType::Mltable if !meta.is_dir() => {
            Err(format!("{shown} is a file: give type: uri_file"))
        }
        AssetType::UriFolder if path.read_dir().is_ok_and(|mut entries| entries.next().is_none()) => {
            Err(format!("there is no file in {shown}: data has at least one"))
        }
        AssetType::Mltable => {
            let table = path.join(mltable::NAME);
            let text = std::fs::read_to_string(&table)
                .map_err(|error| format!("cannot read {}: {error}", table.display()))?;
            match names_outside(&text) {
                Some(outside) => Err(format!(
                    "{} names {outside}, which is not in its folder, so the version would not have it: put it there, or \
                     give its s3:// URL",
                    table.display()
                )),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
