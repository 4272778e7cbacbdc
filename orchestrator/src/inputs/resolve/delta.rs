//! The files of a version of a Delta table, as a manifest: with what its log says of each, in the order of their paths.

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::dataset::listing::Entry;
use prs_tabular::delta::ActiveFile;

use super::{InputProgress, Located, ResolveCause, Resolver, UPLOADS};
use crate::inputs::delta::Table;
use crate::inputs::manifest::{File, Store, Summary};

impl Resolver<'_> {
    /// Writes the manifest; where `uploads`, what is on this machine is brought to where nodes can fetch it.
    pub(super) async fn delta(&self, table: &Table, uploads: bool) -> Result<Summary, ResolveCause> {
        let files = &table.snapshot.files;
        let mut seen = InputProgress {
            files_total: Some(files.len() as u64),
            bytes_total: Some(files.iter().map(|file| file.size).sum()),
            ..InputProgress::default()
        };
        let mut manifest = self.manifest().await?;
        let uploads = uploads && table.source.store == Store::Local;
        let place = |file: ActiveFile| -> BoxFuture<'_, _> { Box::pin(self.place(table, file, uploads)) };
        let mut located = stream::iter(files.clone()).map(place).buffered(UPLOADS);
        while let Some((source, file)) = located.try_next().await? {
            seen.files += 1;
            seen.bytes += file.size.unwrap_or_default();
            manifest.push(&source, file).await?;
            (self.progress)(seen);
        }
        Ok(manifest.finish().await?)
    }

    /// Where nodes find a file.
    async fn place(&self, table: &Table, file: ActiveFile, uploads: bool) -> Result<Located, ResolveCause> {
        let ActiveFile { path, size, partition } = file;
        if uploads {
            let base = table.source.origin.trim_end_matches('/').into();
            let entry = Entry { base, relative: path, state: None };
            let (source, located) = self.locate(&entry, &|_| ()).await?;
            return Ok((source, File { partition, ..located }));
        }
        let file = File { relative: path, size: Some(size), partition, ..File::default() };
        Ok((table.source.clone(), file))
    }
}
