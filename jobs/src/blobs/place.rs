//! Blobs as files of this machine, for what is made of them here: links to them where they are on this machine and nothing
//! else links to them, else copies.

use std::io;
use std::path::Path;

use anyhow::Context;
use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::storage::StorageExt;
use prs_common::tree;

use super::{BlobError, Blobs, Listed, key_of};
use crate::failure::Failure;
use crate::homes::registry;

/// Files that are placed side by side.
const SIDE_BY_SIDE: usize = 8;

impl Blobs {
    /// Makes the file `path` with what the blob `digest` has, in a folder that is there.
    ///
    /// # Errors
    /// It cannot be made, or the store fails.
    pub async fn place(&self, digest: &str, path: &Path) -> Result<(), BlobError> {
        if self.whereabouts.urls.is_none() {
            let blob = registry::folder_of_runs(&self.whereabouts.runs)?.join(key_of(digest));
            let link = || {
                let ((blobs, blob), (folder, name)) = (tree::above(&blob)?, tree::above(path)?);
                if blobs.look_at(blob)?.is_none_or(|seen| seen.is_shared()) {
                    return Err(io::Error::other("there is none, or others have it, too"));
                }
                // A write to one of the files would change them both.
                blobs.set_mode(blob, 0o444)?;
                blobs.second_name(blob, &folder, name)
            };
            if link().is_ok() {
                return Ok(());
            }
        }
        let placed = self.storage().download(&key_of(digest), path, None).await;
        placed.with_context(|| format!("cannot copy the blob {digest}")).map_err(Failure::from)?;
        Ok(())
    }

    /// Makes all of these files below `folder`, which is there.
    ///
    /// # Errors
    /// As of [`place`](Self::place).
    pub async fn place_all(&self, files: &[Listed], folder: &Path) -> Result<(), BlobError> {
        for file in files {
            let path = folder.join(&file.path);
            let parent = path.parent().unwrap_or(folder);
            tree::make_folders(parent)
                .with_context(|| format!("cannot make {}", parent.display()))
                .map_err(Failure::from)?;
        }
        let places = files.iter().map(|file| {
            let path = folder.join(&file.path);
            async move { self.place(&file.sha256, &path).await }
        });
        let places: Vec<_> = places.collect();
        stream::iter(places).buffer_unordered(SIDE_BY_SIDE).try_collect::<Vec<()>>().await?;
        Ok(())
    }
}
