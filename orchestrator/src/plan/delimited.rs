//! Mini-batches of a tabular dataset of delimited text (spec D2): slices of a file at record boundaries, of
//! about the wanted size, never across files. Types are found once a file, so that its slices agree.

use std::path::Path;

use prs_common::dataset::listing::{Listing, ListingOptions};
use prs_common::job::{Infer, Input, TabularOptions};
use prs_common::layout;
use prs_common::mini_batch::{SliceRef, StoreRef, Work};
use prs_common::storage::DiskError;
use prs_tabular::{ColumnType, Dialect, InferMode, Schema, SchemaError, Slice, split_file};

use super::fetch::{Fetched, Fetcher};
use super::plain_text::{self, PlainText, PlainTextError, Scratch};
use super::{PlanContext, PlanError, Sink, plain_copy};
use crate::inputs::manifest::{File, ManifestReader, ObjectReader, Source};

/// How the slices of an input are made.
struct Planner<'a, 'b> {
    input: &'a Input,
    options: TabularOptions,
    position: u32,
    size: u64,
    context: &'a PlanContext<'a>,
    sink: &'a mut Sink<'b>,
}

/// Plans one input with about `size` bytes a mini-batch. A file that cannot be split becomes one mini-batch
/// that fails with the reason (D5); the others are not touched by it.
pub(super) fn plan(
    input: &Input,
    position: u32,
    size: u64,
    context: &PlanContext<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let options = input.tabular.clone().unwrap_or_default();
    let mut planner = Planner { input, options, position, size, context, sink };
    match super::manifest(input, context)? {
        None => planner.files(),
        Some(manifest) => planner.objects(manifest),
    }
}

impl Planner<'_, '_> {
    /// The files of the listing.
    fn files(&mut self) -> Result<(), PlanError> {
        let failed = |source| PlanError::Listing { input: self.input.name.clone(), source };
        let mut listing = Listing::open(&self.input.source, ListingOptions::default()).map_err(failed)?;
        let mut number = 0;
        let mut files = Vec::new();
        loop {
            let failed = |source| PlanError::Listing { input: self.input.name.clone(), source };
            let visited = listing.next_batch(256, &mut files).map_err(failed)?;
            for file in files.drain(..) {
                let path = file.path();
                let above = path.as_os_str().len() - file.relative.len();
                self.file(&path, if file.base.is_empty() { 0 } else { above }, number)?;
                number += 1;
                if self.sink.is_stopped() {
                    return Ok(());
                }
            }
            if visited == 0 {
                return Ok(());
            }
        }
    }

    /// A local file, whose name below the dataset begins at byte `name_at` of its path.
    fn file(&mut self, path: &Path, name_at: usize, number: u64) -> Result<(), PlanError> {
        let origin = path.to_string_lossy();
        let name = Name { origin: &origin, at: name_at as u32 };
        let Some(text) = self.open(path, &origin, number)? else { return Ok(()) };
        let version = text.version.clone();
        if self.context.is_shared && text.path != path {
            // A file of the user may change from one plan to the next.
            let key = format!("{}-{version}", layout::plain_copy(self.position, number));
            return self.copy(name, text, &key, &version);
        }
        let path = text.name.to_string_lossy().into_owned();
        self.text(name, text, Home { store: StoreRef::Local, key: &path, version: &version });
        Ok(())
    }

    /// A plain copy that was made here and goes to the job's storage: nodes read slices of it by range.
    fn copy(&mut self, name: Name<'_>, text: PlainText, key: &str, version: &str) -> Result<(), PlanError> {
        if self.sink.is_stopped() {
            return Ok(());
        }
        let PlanContext { stores, handle, .. } = self.context;
        let stored = handle.block_on(plain_copy::store(&**stores.job(), key, &text.path));
        stored.map_err(|error| PlanError::of_transfer(&self.input.name, error))?;
        let plain = text.path.clone();
        self.text(name, text, Home { store: StoreRef::Job, key, version });
        let _ = std::fs::remove_file(plain);
        Ok(())
    }

    /// The files of the manifest.
    fn objects(&mut self, mut manifest: ManifestReader<ObjectReader>) -> Result<(), PlanError> {
        let PlanContext { work, stores, handle, .. } = *self.context;
        let name = &self.input.name;
        let folder = work.join(format!("objects/{}", self.position));
        std::fs::create_dir_all(&folder)
            .map_err(|source| PlanError::Scratch(DiskError { path: folder.clone(), source }))?;
        let mut ahead = Fetcher::new(stores, handle, &folder);
        let mut listed = Vec::new().into_iter();
        let mut listing_is_over = false;
        let mut number = 0;
        loop {
            while ahead.has_room() && !listing_is_over {
                if let Some(file) = listed.next() {
                    let file: File = file;
                    ahead.want(manifest.sources()[file.source as usize].clone(), file);
                    continue;
                }
                let block = manifest.next_block();
                match block.map_err(|source| PlanError::Manifest { input: name.clone(), source })? {
                    Some(block) => listed = block.into_iter(),
                    None => listing_is_over = true,
                }
            }
            let Some((source, file, fetched)) = ahead.next() else { break };
            let fetched = fetched.map_err(|error| PlanError::of_transfer(name, error))?;
            self.object(&source, &file, fetched, number)?;
            number += 1;
            if self.sink.is_stopped() {
                break;
            }
        }
        drop(ahead);
        let _ = std::fs::remove_dir_all(&folder);
        Ok(())
    }

    /// An object that was fetched.
    fn object(
        &mut self,
        source: &Source,
        file: &File,
        fetched: Fetched,
        number: u64,
    ) -> Result<(), PlanError> {
        let origin = format!("{}{}", source.origin, file.relative);
        let name_at = if source.mixes { 0 } else { source.origin.len() };
        let name = Name { origin: &origin, at: name_at as u32 };
        let (copy, version) = match fetched {
            Fetched::Own(path) => return self.file(&path, 0, number),
            Fetched::Unreadable(reason) => {
                self.unreadable(&origin, 0, &reason);
                return Ok(());
            }
            Fetched::Copy(copy, version) => (copy, version),
        };
        let Some(text) = self.open(&copy, &origin, number)? else { return Ok(()) };
        let described = source.describe(file.source);
        if text.path == copy {
            let rest = if file.key.is_empty() { &file.relative } else { &file.key };
            let key = format!("{}{rest}", source.prefix);
            self.text(name, text, Home { store: described.store, key: &key, version: &version });
        } else {
            self.copy(name, text, &layout::plain_copy(self.position, number), &version)?;
        }
        let _ = std::fs::remove_file(copy);
        Ok(())
    }

    /// The plain text of `path`; a file that cannot be read becomes a mini-batch that fails.
    fn open(&mut self, path: &Path, origin: &str, number: u64) -> Result<Option<PlainText>, PlanError> {
        let scratch = Scratch { work: self.context.work, name: layout::plain_copy(self.position, number) };
        match plain_text::open(path, &scratch, self.sink.stop) {
            Ok(text) => Ok(Some(text)),
            Err(PlainTextError::Input(error)) => {
                self.unreadable(origin, 0, &error.to_string());
                Ok(None)
            }
            Err(PlainTextError::Scratch(error)) => Err(error),
        }
    }

    fn unreadable(&mut self, origin: &str, offset: u64, reason: &str) {
        // The sink remembers that it was stopped.
        let _ = self.sink.push(self.position, Work::Unreadable { origin, offset, reason });
    }

    /// The slices of one file, which nodes find at its home.
    fn text(&mut self, name: Name<'_>, text: PlainText, home: Home<'_>) {
        let Name { origin, at: name_at } = name;
        let Home { store, key, version } = home;
        let (dialect, schema) = match read_schema(&self.options, &text) {
            Ok(found) => found,
            Err(SchemaError::Empty) if text.broken.is_none() => return,
            Err(error) => {
                let (offset, reason) = text.broken.unwrap_or_else(|| (0, error.to_string()));
                self.unreadable(origin, offset, &reason);
                return;
            }
        };
        let schema = rmp_serde::to_vec(&(&dialect, &schema)).expect("a schema holds only names and types");
        let mut planned_to = 0;
        let split = split_file(&text.path, &dialect, self.size, |slice| {
            let Slice { start, end, records, checksum } = slice;
            planned_to = end;
            let slice = SliceRef {
                store,
                key,
                origin,
                name_at,
                version,
                start,
                end,
                records,
                checksum,
                schema: &schema,
            };
            self.sink.push(self.position, Work::Slice(slice))
        });
        if self.sink.is_stopped() {
            return;
        }
        match (split, text.broken) {
            (_, Some((offset, reason))) => self.unreadable(origin, offset, &reason),
            (Err(error), None) => self.unreadable(origin, planned_to, &error.to_string()),
            (Ok(_), None) => {}
        }
    }
}

/// A file as the user named it.
#[derive(Clone, Copy)]
struct Name<'a> {
    origin: &'a str,
    /// Where its name below the dataset begins, bytes.
    at: u32,
}

/// Where nodes find the plain text of a file: see [`SliceRef`].
#[derive(Clone, Copy)]
struct Home<'a> {
    store: StoreRef<'a>,
    key: &'a str,
    version: &'a str,
}

fn read_schema(options: &TabularOptions, text: &PlainText) -> Result<(Dialect, Schema), SchemaError> {
    let dialect =
        Dialect::new(options.delimiter, options.has_header).expect("the job file's delimiter was checked");
    let mode = match options.infer {
        Infer::Sampled => InferMode::Sampled,
        Infer::Full => InferMode::Full,
    };
    let mut schema = Schema::infer_file(&text.path, &dialect, mode)?;
    let declared: Result<Vec<(&str, ColumnType)>, SchemaError> =
        options.dtype.iter().map(|(name, dtype)| dtype.parse().map(|dtype| (name.as_str(), dtype))).collect();
    schema.declare(declared?)?;
    Ok((dialect, schema))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use prs_common::job::{InputKind, InputSource, MiniBatchSize};
    use prs_common::mini_batch::MiniBatch;
    use prs_common::queue::QueueOptions;
    use prs_common::storage::StorageExt;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::fixtures::Fixture;
    use crate::plan::schedule::{Assignment, Scheduled, schedule};

    const TEXT: &str = "a,b\n1,2\n3,4\n";

    /// A job over a compressed table that every host has.
    async fn compressed() -> (Fixture, PathBuf) {
        let mut fixture = Fixture::new(0).await;
        let file = fixture.inputs().join("t.csv.gz");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(TEXT.as_bytes()).unwrap();
        std::fs::write(&file, gzip.finish().unwrap()).unwrap();
        let spec = fixture.spec();
        spec.mini_batch_size = MiniBatchSize::Bytes(4);
        let input = &mut spec.inputs[0];
        (input.kind, input.source) =
            (InputKind::Tabular, InputSource::Paths(vec![file.display().to_string()]));
        input.tabular = Some(TabularOptions::default());
        fixture.job.queue.declare(&fixture.job.queue_name(), QueueOptions::default()).await.unwrap();
        (fixture, file)
    }

    #[tokio::test]
    async fn other_hosts_find_the_plain_copy_of_a_file_in_storage() {
        let (fixture, file) = compressed().await;
        let assignment = || Assignment { again: true, ..Assignment::default() };
        let stop = CancellationToken::new();
        let mut plans = Vec::new();
        for owner in ["a", "b"] {
            assert_eq!(schedule(&fixture.job, owner, assignment(), &stop).await, Scheduled::Complete);
            let mut waiting = fixture.job.queue.consume(&fixture.job.queue_name(), 10).await.unwrap();
            let mut bodies: Vec<_> = waiting.next(10).await.iter().map(|one| one.body.clone()).collect();
            bodies.sort();
            plans.push(bodies);
            fixture.job.queue.delete(&fixture.job.queue_name()).await.unwrap();
            fixture.job.queue.declare(&fixture.job.queue_name(), QueueOptions::default()).await.unwrap();
        }
        assert_eq!(plans[0].len(), 2);
        assert_eq!(plans[0], plans[1]);
        for body in &plans[0] {
            let MiniBatch { work, .. } = MiniBatch::decode(body).unwrap();
            let Work::Slice(SliceRef { store: StoreRef::Job, key, origin, .. }) = work else {
                panic!("{work:?}")
            };
            assert_eq!(origin, file.display().to_string());
            assert_eq!(fixture.storage.get(key).await.unwrap(), TEXT);
        }
    }

    #[tokio::test]
    async fn a_host_without_scratch_leaves_the_plan_to_another() {
        let (fixture, _file) = compressed().await;
        std::fs::create_dir_all(fixture.job.work.parent().unwrap()).unwrap();
        std::fs::write(&fixture.job.work, "a file").unwrap();
        let ended = schedule(&fixture.job, "a", Assignment::default(), &CancellationToken::new()).await;
        assert!(matches!(ended, Scheduled::Unable { .. }), "{ended:?}");
        assert_eq!(fixture.job.ledger.progress(&fixture.job.run).await.unwrap().conclusion, None);
    }
}
