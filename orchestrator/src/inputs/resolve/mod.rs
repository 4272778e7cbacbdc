//! Resolving: from what the user named to what every host can plan and fetch (spec P5).
//!
//! It happens once, when a job is submitted. Files that only this host has are uploaded; buckets are listed. What
//! it makes of an input is its manifest, so a resolved job depends on no folder and no later listing; resolving it
//! again changes nothing.

mod delta;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use prs_common::absent::absent;
use prs_common::dataset::http_url::shown;
use prs_common::dataset::left_out::{LeftOut, may_hold};
use prs_common::dataset::listing::{Entry, EntryRef, Listing, ListingError, ListingOptions};
use prs_common::dataset::mltable::{Sample, Window};
use prs_common::dataset::names;
use prs_common::dataset::remote::{self, RemotePath};
use prs_common::failpoint;
use prs_common::job::shuffle::{self, ShuffleStage};
use prs_common::job::{Input, InputKind, InputMode, InputSource, JobSpec, OutputFormat, SideInput};
use prs_common::layout;
use prs_common::mini_batch::StoreRef;
use prs_common::storage::StorageError;
use prs_tabular::parquet::write;

use super::delta::Table;
use super::manifest::{File, ManifestWriter, Source, Store, Summary};
use super::path_names::{NoneMatches, search_listing};
use super::remote::RemoteListing;
use super::side;
use super::stores::InputStores;
use super::unread_types::{self, UnreadFiles};
use super::upload::upload;

/// Files uploaded side by side.
const UPLOADS: usize = 16;
/// Files listed at a time.
const LISTED_AT_ONCE: usize = 256;

const SAME_NAME: &str =
    "another file of the input has this name, but for what follows the `?`: make it an input of its own";

/// Where the job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// On this host: local files stay where they are.
    Embedded,
    /// On other hosts.
    Fleet,
}

/// How far the resolving of an input is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputProgress {
    /// Files done with.
    pub files: u64,
    /// Bytes done with.
    pub bytes: u64,
    /// Files there are, where that is known.
    pub files_total: Option<u64>,
    /// Bytes there are, where that is known.
    pub bytes_total: Option<u64>,
}

/// Who hears how far the resolving is.
#[derive(Clone, Copy)]
pub struct Audience<'a> {
    /// Hears of each input, by its name.
    pub tell: &'a (dyn Fn(&str, InputProgress) + Sync),
    /// Whether files to be uploaded are counted before, which takes another walk over them.
    pub wants_totals: bool,
}

impl Audience<'_> {
    /// Nobody.
    pub const NONE: Self = Self { tell: &|_, _| {}, wants_totals: false };
}

/// Why an input of a job cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[error("{input}: {cause}")]
pub struct ResolveError {
    /// The input, or side input, with its name; or the setting.
    pub input: String,
    /// The reason.
    #[source]
    pub cause: ResolveCause,
}

/// What is wrong with an input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveCause {
    /// It cannot be listed.
    #[error(transparent)]
    Listing(#[from] ListingError),
    /// A store fails.
    #[error(transparent)]
    Store(#[from] StorageError),
    /// A local file cannot be uploaded.
    #[error("cannot upload {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// No path is made as `partition_format` says.
    #[error(transparent)]
    NoneMatches(#[from] NoneMatches),
    /// Files cannot be given to the model of the job.
    #[error(transparent)]
    UnreadFiles(#[from] UnreadFiles),
    /// A Delta table cannot be read.
    #[error("the Delta table {table}: {reason}")]
    Delta {
        /// Its folder.
        table: String,
        /// The reason.
        reason: String,
    },
    /// The program was built without what it takes.
    #[error("{0}")]
    Absent(String),
    /// A name that cannot be a file of a node.
    #[error("{name}: {reason}")]
    Name {
        /// The object or file, as the user knows it.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl ResolveCause {
    /// What is wrong with a name, which may have characters that nobody sees.
    pub(super) fn name(name: &str, reason: &str) -> Self {
        Self::Name { name: name.escape_debug().to_string(), reason: reason.to_owned() }
    }
}

impl ResolveError {
    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        match &self.cause {
            ResolveCause::Listing(error) => error.is_retryable(),
            ResolveCause::Store(error) => error.is_retryable(),
            ResolveCause::File { .. }
            | ResolveCause::NoneMatches(_)
            | ResolveCause::UnreadFiles(_)
            | ResolveCause::Delta { .. }
            | ResolveCause::Absent(_)
            | ResolveCause::Name { .. } => false,
        }
    }
}

/// Makes the inputs of `spec` reachable from where the job runs.
pub async fn resolve(
    mut spec: JobSpec,
    stores: &InputStores,
    runs: Where,
    audience: Audience<'_>,
) -> Result<JobSpec, ResolveError> {
    if spec.output_format.is_some_and(OutputFormat::is_parquet) && !write::IS_HERE {
        let cause = ResolveCause::Absent(absent("Parquet", "parquet"));
        return Err(ResolveError { input: "output_format".to_owned(), cause });
    }
    let scores_mlflow = spec.scores_mlflow();
    exclude_outputs(&mut spec);
    for input in &mut spec.inputs {
        let named = |cause| ResolveError { input: format!("input {}", input.name), cause };
        let table = match super::delta::unread(input) {
            Some(asked) => Some(super::delta::read(input, asked, stores).await.map_err(named)?),
            None => None,
        };
        // What is uploaded is looked at before.
        if scores_mlflow && runs == Where::Fleet && input.mode == InputMode::Upload {
            refuse_unread_types(input).await.map_err(named)?;
        }
        let what = (&*input, &*input.name, table.as_ref());
        let resolved = resolve_one(what, stores, runs, audience).await.map_err(named)?;
        input.source = resolved.unwrap_or_else(|| input.source.clone());
        if let (Some(table), Some(mltable)) = (table, &mut input.mltable) {
            mltable.delta = Some(table.described);
        }
    }
    let is_resolved = |side_input: &&mut SideInput| {
        side_input.mode == InputMode::Upload && !matches!(side_input.source, InputSource::Output(_))
    };
    for side_input in spec.with_model_mut().filter(is_resolved) {
        let label = side_input.label();
        let named = |cause| ResolveError { input: label.clone(), cause };
        let input = side::as_input(side_input);
        if let Some(resolved) =
            resolve_one((&input, &label, None), stores, runs, audience).await.map_err(named)?
        {
            side_input.source = resolved;
        } else if !side_input.is_fetched() {
            let seen = tokio::task::spawn_blocking(move || side::seen(&input.source)).await;
            let seen = seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            let seen = seen.map_err(|error| named(error.into()))?;
            side_input.changed_lately = !seen.is_certain;
            side_input.seen = Some(seen.checksum);
        }
    }
    if spec.shuffle == Some(ShuffleStage::Split) {
        let bytes = input_bytes(&spec.inputs).await?;
        shuffle::size(&mut spec, bytes);
    }
    Ok(spec)
}

/// Has no input list what the job itself writes.
fn exclude_outputs(spec: &mut JobSpec) {
    let local = spec.output.as_ref().and_then(|output| output.to_str());
    let outputs: Vec<&str> = local.into_iter().chain(spec.deliver_to.as_deref()).collect();
    for input in &mut spec.inputs {
        let (InputSource::Paths(named) | InputSource::Remote(named)) = &input.source else { continue };
        let is_below = |output: &&str| named.iter().any(|named| may_hold(named, output));
        input.exclusions.outputs = outputs.iter().copied().filter(is_below).map(str::to_owned).collect();
    }
}

/// Fails where local files of an input cannot be given to a model of `MLflow`.
async fn refuse_unread_types(input: &Input) -> Result<(), ResolveCause> {
    if !matches!(input.source, InputSource::Paths(_) | InputSource::List(_)) {
        return Ok(());
    }
    let input = input.clone();
    let looked = tokio::task::spawn_blocking(move || unread_types::in_listing(&input, &|| false)).await;
    Ok(looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))??)
}

/// Bytes of the inputs, as far as they are known.
pub async fn input_bytes(inputs: &[Input]) -> Result<u64, ResolveError> {
    let mut sum = 0;
    for input in inputs {
        sum += match &input.source {
            InputSource::Manifest { bytes, .. } => *bytes,
            InputSource::Paths(paths) if paths.is_empty() => 0,
            InputSource::Paths(_) | InputSource::List(_) => {
                let walked = input.clone();
                let walked = tokio::task::spawn_blocking(move || listed_bytes(&walked)).await;
                let walked = walked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                let named = |cause: ListingError| ResolveError {
                    input: format!("input {}", input.name),
                    cause: cause.into(),
                };
                walked.map_err(named)?
            }
            InputSource::Remote(_) | InputSource::Output(_) | InputSource::OneItem => 0,
        };
    }
    Ok(sum)
}

/// Bytes of the files of a local input.
fn listed_bytes(input: &Input) -> Result<u64, ListingError> {
    let mut listing = Listing::of_input(input, ListingOptions { versions: true })?;
    let mut sum = 0;
    loop {
        let add = |entry: EntryRef<'_>| sum += entry.version().map_or(0, |version| version.size);
        if listing.visit(LISTED_AT_ONCE, add)? == 0 {
            return Ok(sum);
        }
    }
}

/// What `input`, which listeners know by `label` and which may be a Delta table, becomes; nothing where it stays as it is.
async fn resolve_one(
    (input, label, table): (&Input, &str, Option<&Table>),
    stores: &InputStores,
    runs: Where,
    audience: Audience<'_>,
) -> Result<Option<InputSource>, ResolveCause> {
    let uploads = runs == Where::Fleet && input.mode == InputMode::Upload;
    let heard = |seen: InputProgress| (audience.tell)(label, seen);
    let resolver = Resolver { input, table, stores, progress: &heard, wants_totals: audience.wants_totals };
    let Some((summary, left_out)) = resolver.resolve(uploads).await? else { return Ok(None) };
    Ok(Some(InputSource::Manifest {
        key: layout::manifest(&input.name),
        label: input.source.label(),
        files: summary.files,
        bytes: summary.bytes,
        checksum: summary.checksum,
        stores: summary.stores,
        left_out,
        named: Some(Box::new(input.source.clone())),
    }))
}

/// Resolves one input.
struct Resolver<'a> {
    input: &'a Input,
    /// The Delta table that it is, whose log was read.
    table: Option<&'a Table>,
    stores: &'a InputStores,
    progress: &'a (dyn Fn(InputProgress) + Sync),
    wants_totals: bool,
}

/// A file of the input, on its way to the manifest, and what it has in common with others.
type Located = (Source, File);

/// Finds or brings a file to where nodes can fetch it.
type Locate<'a> = dyn Fn(Entry) -> BoxFuture<'a, Result<Located, ResolveCause>> + Sync + 'a;

impl Resolver<'_> {
    /// The manifest of the input, and what is left out of it; nothing where it stays as it is.
    async fn resolve(&self, uploads: bool) -> Result<Option<(Summary, LeftOut)>, ResolveCause> {
        if let Some(table) = self.table {
            return Ok(Some((self.delta(table, uploads).await?, LeftOut::default())));
        }
        let summary = match &self.input.source {
            InputSource::Remote(urls) => self.remote(urls).await?,
            // An input of a shuffle of which no row is left.
            InputSource::Paths(paths) if paths.is_empty() => return Ok(None),
            InputSource::Paths(_) | InputSource::List(_) if uploads => self.upload().await?,
            InputSource::List(_) if self.names_remote_files().await? => self.upload_nothing().await?,
            // Where an output of a step is shows when the step that needs it starts.
            InputSource::Paths(_)
            | InputSource::List(_)
            | InputSource::Manifest { .. }
            | InputSource::Output(_)
            | InputSource::OneItem => return Ok(None),
        };
        Ok(Some(summary))
    }

    async fn manifest(&self) -> Result<ManifestWriter, ResolveCause> {
        let key = layout::manifest(&self.input.name);
        Ok(ManifestWriter::create(&**self.stores.job(), &key).await?)
    }

    /// Buckets: listed, and left where they are.
    async fn remote(&self, urls: &[String]) -> Result<(Summary, LeftOut), ResolveCause> {
        let mut left_out = LeftOut::default();
        let mut manifest = self.manifest().await?;
        let mut seen = InputProgress::default();
        let mut window = self.input.mltable.as_ref().map(|table| table.window).unwrap_or_default();
        let mut sample = self.input.mltable.as_ref().and_then(|table| table.sample.as_ref());
        let mut sample_window =
            self.input.mltable.as_ref().map(|table| table.sample_window).unwrap_or_default();
        if self.input.kind == InputKind::Tabular {
            (window, sample, sample_window) = (Window::default(), None, Window::default());
        }
        let mut listed = 0;
        // Of files of HTTP servers whose names do not tell all of their URLs.
        let mut named: HashMap<String, String> = HashMap::new();
        for url in urls {
            let url = RemotePath::parse(url).map_err(|reason| ResolveCause::name(&shown(url), &reason))?;
            let store = self.stores.get(StoreRef::Url(&url.bucket)).await?;
            let mut listing = RemoteListing::open(store, &url, self.input).await?;
            let source = Source {
                store: Store::Url(url.bucket.clone()),
                prefix: listing.prefix.clone(),
                origin: listing.origin.clone(),
                mixes: false,
            };
            let before = listed;
            while window.take != Some(0) && sample_window.take != Some(0) {
                let page = listing.next().await?;
                if page.is_empty() {
                    break;
                }
                for object in page {
                    let is_table =
                        |table: &str| table.strip_prefix(&*url.bucket) == Some(&format!("/{}", object.key));
                    // The file that says what is data is none.
                    if self.input.mltable.as_ref().is_some_and(|table| is_table(&table.path)) {
                        continue;
                    }
                    listed += 1;
                    if !window.takes_next() {
                        continue;
                    }
                    let relative = url.relative(&source.prefix, &object.key);
                    let is_drawn = |sample: &Sample| sample.has_file(&format!("{}{relative}", source.origin));
                    if !sample.is_none_or(is_drawn) || !sample_window.takes_next() {
                        continue;
                    }
                    seen.files += 1;
                    seen.bytes += object.size;
                    let rest = &object.key[source.prefix.len()..];
                    let key = if rest == relative { String::new() } else { rest.to_owned() };
                    if !key.is_empty() {
                        let twin = named.insert(format!("{}{relative}", source.origin), object.key.clone());
                        if twin.is_some_and(|twin| twin != object.key) {
                            return Err(ResolveCause::name(&url.to_string(), SAME_NAME));
                        }
                    }
                    let (size, version, relative) =
                        (Some(object.size), object.version, relative.into_owned());
                    let file = File { relative, key, size, version, ..File::default() };
                    manifest.push(&source, file).await?;
                }
                (self.progress)(seen);
            }
            left_out.extend(&listing.left_out);
            let must_match = listing.is_glob() || self.input.mltable.is_some();
            let is_over = window.take == Some(0) || sample_window.take == Some(0);
            if listed == before && !is_over && must_match {
                return Err(ListingError::empty(&url.to_string(), &listing.left_out).into());
            }
        }
        if listed == 0 {
            return Err(ListingError::empty(&self.input.source.label(), &left_out).into());
        }
        Ok((manifest.finish().await?, left_out))
    }

    /// Local files: uploaded. What a list names in buckets stays there.
    async fn upload(&self) -> Result<(Summary, LeftOut), ResolveCause> {
        if let Some(format) = self.input.partition_format.clone() {
            let input = self.input.clone();
            let searched = tokio::task::spawn_blocking(move || search_listing(&format, &input)).await;
            searched.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))??;
        }
        let total = if self.wants_totals { self.count().await? } else { InputProgress::default() };
        (self.progress)(total);
        let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let report = || {
            let (files, bytes) = (files.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
            (self.progress)(InputProgress { files, bytes, ..total });
        };
        let sent = |count: u64| {
            bytes.fetch_add(count, Ordering::Relaxed);
            report();
        };
        let (files, report, sent) = (&files, &report, &sent);
        let locate = move |entry: Entry| -> BoxFuture<'_, _> {
            Box::pin(async move {
                let located = self.locate(&entry, sent).await?;
                files.fetch_add(1, Ordering::Relaxed);
                report();
                Ok(located)
            })
        };
        self.write(&locate).await
    }

    /// How much there is to upload.
    async fn count(&self) -> Result<InputProgress, ResolveCause> {
        let count = |(files, bytes): &mut (u64, Option<u64>), entry: EntryRef<'_>| {
            *files += 1;
            *bytes = bytes.zip(entry.version()).map(|(bytes, version)| bytes + version.size);
        };
        let (files, bytes_total) = self.walk((0, Some(0)), count).await?;
        Ok(InputProgress { files_total: Some(files), bytes_total, ..InputProgress::default() })
    }

    /// A list that also names files in buckets, where local files need no upload.
    async fn upload_nothing(&self) -> Result<(Summary, LeftOut), ResolveCause> {
        let local =
            || Source { store: Store::Local, prefix: String::new(), origin: String::new(), mixes: true };
        let locate = |entry: Entry| -> BoxFuture<'_, _> {
            let remote = locate_remote(&entry.relative);
            let located = remote.unwrap_or_else(|| Ok(located(local(), entry.relative, String::new(), None)));
            Box::pin(std::future::ready(located))
        };
        self.write(&locate).await
    }

    /// Writes the manifest: what `locate` makes of each file, in listing order, several side by side.
    async fn write(&self, locate: &Locate<'_>) -> Result<(Summary, LeftOut), ResolveCause> {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<Vec<Entry>>(2);
        let listed = self.on_disk(move |listing| {
            loop {
                let mut entries = Vec::new();
                let count = listing.next_batch(LISTED_AT_ONCE, &mut entries)?;
                if count == 0 || sender.blocking_send(entries).is_err() {
                    return Ok(listing.left_out());
                }
            }
        });
        let written = async {
            let mut manifest = self.manifest().await?;
            let entries = stream::poll_fn(|context| receiver.poll_recv(context)).flat_map(stream::iter);
            let mut ready = std::pin::pin!(entries.map(locate).buffered(UPLOADS));
            while let Some(located) = ready.next().await {
                let (source, file) = located?;
                manifest.push(&source, file).await?;
            }
            Ok(manifest)
        };
        // What is listed goes on being written while the listing goes on; whichever fails ends both.
        let (manifest, left_out) = futures_util::try_join!(written, listed)?;
        failpoint::pass("inputs_located");
        Ok((manifest.finish().await?, left_out))
    }

    /// Lists the input on a thread that may block.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Listing) -> Result<T, ListingError> + Send + 'static,
    ) -> Result<T, ResolveCause> {
        let input = self.input.clone();
        let done = tokio::task::spawn_blocking(move || {
            work(&mut Listing::of_input(&input, ListingOptions { versions: true })?)
        });
        let done = done.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        Ok(done?)
    }

    /// Shows each file of the input to `each`, which gathers what it saw.
    async fn walk<T: Send + 'static>(
        &self,
        mut seen: T,
        mut each: impl FnMut(&mut T, EntryRef<'_>) + Send + 'static,
    ) -> Result<T, ResolveCause> {
        self.on_disk(move |listing| {
            while listing.visit(LISTED_AT_ONCE, |entry| each(&mut seen, entry))? > 0 {}
            Ok(seen)
        })
        .await
    }

    async fn names_remote_files(&self) -> Result<bool, ResolveCause> {
        self.walk(false, |found, entry| *found |= remote::is_remote(entry.relative)).await
    }

    /// Brings a file to where nodes can fetch it.
    async fn locate(&self, entry: &Entry, sent: &(dyn Fn(u64) + Sync)) -> Result<Located, ResolveCause> {
        let is_listed = entry.base.is_empty();
        if is_listed && let Some(located) = locate_remote(&entry.relative) {
            return located;
        }
        if is_listed && entry.relative.contains("://") {
            // What follows a scheme may hold a password.
            let scheme = entry.relative.split("://").next().unwrap_or_default();
            return Err(ResolveCause::name(
                &format!("{scheme}://"),
                "not supported yet: name local files, s3:// and https:// ones",
            ));
        }
        let path = entry.path();
        let named = names::without_detours(&entry.relative);
        let relative = if is_listed { named.trim_start_matches('/') } else { &entry.relative }.to_owned();
        if let Some(reason) = names::unusable(&relative) {
            return Err(ResolveCause::name(&path.to_string_lossy(), reason));
        }
        let slash = if entry.base.ends_with('/') { "" } else { "/" };
        let source = Source {
            store: Store::Shared,
            prefix: layout::BLOBS.to_owned(),
            origin: format!("{}{slash}", entry.base),
            mixes: is_listed,
        };
        let uploaded = upload(&**self.stores.shared(), &path, sent).await?;
        Ok(located(source, relative, uploaded.key, Some(uploaded.size)))
    }
}

/// What a line of a list says, if it is the URL of an object.
fn locate_remote(line: &str) -> Option<Result<Located, ResolveCause>> {
    if !remote::is_remote(line) {
        return None;
    }
    let url = match RemotePath::parse(line) {
        Ok(url) => url,
        Err(reason) => {
            return Some(Err(ResolveCause::name(remote::scheme(line).unwrap_or_default(), &reason)));
        }
    };
    let relative = url.relative("", &url.key).into_owned();
    if let Some(reason) = names::unusable(&relative) {
        return Some(Err(ResolveCause::name(&shown(line), reason)));
    }
    let origin = format!("{}/", url.place());
    let key = if relative == url.key { String::new() } else { url.key };
    let source = Source { store: Store::Url(url.bucket), prefix: String::new(), origin, mixes: true };
    Some(Ok(located(source, relative, key, None)))
}

fn located(source: Source, relative: String, key: String, size: Option<u64>) -> Located {
    (source, File { relative, key, size, ..File::default() })
}

#[cfg(test)]
mod tests;
