//! `model download`: a version of a model on this machine.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::registry::Kind;
use prs_common::storage::StorageExt;
use prs_common::tree;
use prs_jobs::homes::registry::failure;

use super::printed::print;
use super::{open, which};
use crate::cli::{DownloadModel, Format, OneVersion};
use crate::failure::Failure;

/// Copies a model. All of it is here before any of it has its name.
pub(super) async fn model(arguments: DownloadModel, format: Format) -> Result<(), Failure> {
    let DownloadModel { meant: OneVersion { name, version, label }, download_path, whereabouts } = arguments;
    let registry = open(&whereabouts).await?;
    let mut found = registry.find(Kind::Model, &name, &which(version, label)).await.map_err(failure)?;
    let (storage, key, objects) =
        registry.objects(Kind::Model, &name, &found.version).await.map_err(failure)?;
    let folder = download_path.unwrap_or_else(|| PathBuf::from(".")).join(&name);
    let base = key.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let target = folder.join(base);
    if target.symlink_metadata().is_ok() {
        return Err(Failure::wrong(format!(
            "{} exists already and is not overwritten; give another folder (--download-path)",
            target.display()
        )));
    }
    let failed = |path: &Path| format!("cannot write {}", path.display());
    tree::make_folders(&folder).with_context(|| failed(&folder)).map_err(Failure::usage)?;
    let staged = tempfile::Builder::new().prefix(".fetch-").tempdir_in(&folder);
    let staged = staged.with_context(|| failed(&folder)).map_err(Failure::usage)?;
    for below in &objects {
        let path = staged.path().join(base).join(below);
        let path = if below.is_empty() { staged.path().join(base) } else { path };
        let parent = path.parent().unwrap_or(staged.path());
        tree::make_folders(parent).with_context(|| failed(parent))?;
        let key = format!("{key}{below}");
        storage
            .download(&key, &path, None)
            .await
            .with_context(|| format!("cannot copy {}", storage.uri(&key)))?;
    }
    tree::rename(staged.path().join(base), &target).with_context(|| failed(&target))?;
    let target = std::path::absolute(&target).unwrap_or(target);
    found.path = target.display().to_string();
    print(found, format)
}
