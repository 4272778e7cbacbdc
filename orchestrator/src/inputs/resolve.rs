//! Resolving: from what the user named to what every host can plan and fetch (spec P5).
//!
//! It happens once, when a job is submitted. Files that only this host has are uploaded; buckets are listed. What
//! it makes of an input is its manifest, so a resolved job depends on no folder and no later listing; resolving it
//! again changes nothing.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use prs_common::dataset::listing::{Entry, Listing, ListingError, ListingOptions};
use prs_common::dataset::names;
use prs_common::dataset::remote::{self, RemotePath};
use prs_common::failpoint;
use prs_common::job::{Input, InputMode, InputSource, JobSpec};
use prs_common::layout;
use prs_common::mini_batch::StoreRef;
use prs_common::storage::StorageError;

use super::manifest::{File, ManifestWriter, Source, Store, Summary};
use super::remote::RemoteListing;
use super::stores::InputStores;
use super::upload::{UploadError, upload};

/// Files uploaded side by side.
const UPLOADS: usize = 16;
/// Files listed at a time.
const LISTED_AT_ONCE: usize = 256;

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
pub struct Progress {
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
    pub tell: &'a (dyn Fn(&str, Progress) + Sync),
    /// Whether files to be uploaded are counted before, which takes another walk over them.
    pub wants_totals: bool,
}

impl Audience<'_> {
    /// Nobody.
    pub const NONE: Self = Self { tell: &|_, _| {}, wants_totals: false };
}

/// Why the inputs of a job cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// An input cannot be listed.
    #[error("input {input}: {source}")]
    Listing {
        /// Name of the input.
        input: String,
        /// The reason.
        source: ListingError,
    },
    /// A store fails.
    #[error("input {input}: {source}")]
    Store {
        /// Name of the input.
        input: String,
        /// The reason.
        source: StorageError,
    },
    /// A local file cannot be uploaded.
    #[error("input {input}: cannot upload {}: {reason}", path.display())]
    File {
        /// Name of the input.
        input: String,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A name that cannot be a file of a node.
    #[error("input {input}: {name}: {reason}")]
    Name {
        /// Name of the input.
        input: String,
        /// The object or file, as the user knows it.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl ResolveError {
    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Listing { source, .. } => source.is_retryable(),
            Self::Store { source, .. } => source.is_retryable(),
            Self::File { .. } | Self::Name { .. } => false,
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
    for input in &mut spec.inputs {
        let uploads = runs == Where::Fleet && input.mode == InputMode::Upload;
        let label = input.source.label();
        let summary = {
            let heard = |seen: Progress| (audience.tell)(&input.name, seen);
            let resolver = Resolver { input, stores, progress: &heard, wants_totals: audience.wants_totals };
            match &input.source {
                InputSource::Remote(urls) => resolver.remote(urls).await?,
                InputSource::Paths(_) if !uploads => continue,
                InputSource::Paths(_) => resolver.upload().await?,
                InputSource::List(_) if uploads => resolver.upload().await?,
                InputSource::List(_) if resolver.names_remote_files().await? => {
                    resolver.upload_nothing().await?
                }
                InputSource::List(_) | InputSource::Manifest { .. } => continue,
            }
        };
        let named = Some(Box::new(input.source.clone()));
        input.source = InputSource::Manifest {
            key: layout::manifest(&input.name),
            label,
            files: summary.files,
            bytes: summary.bytes,
            checksum: summary.checksum,
            stores: summary.stores,
            named,
        };
    }
    Ok(spec)
}

/// Resolves one input.
struct Resolver<'a> {
    input: &'a Input,
    stores: &'a InputStores,
    progress: &'a (dyn Fn(Progress) + Sync),
    wants_totals: bool,
}

/// A file of the input, on its way to the manifest.
struct Located {
    source: Source,
    file: File,
}

/// Finds or brings a file to where nodes can fetch it.
type Locate<'a> = dyn Fn(Entry) -> BoxFuture<'a, Result<Located, ResolveError>> + Sync + 'a;

impl Resolver<'_> {
    fn listing(&self, source: ListingError) -> ResolveError {
        ResolveError::Listing { input: self.input.name.clone(), source }
    }

    fn store(&self, source: StorageError) -> ResolveError {
        ResolveError::Store { input: self.input.name.clone(), source }
    }

    fn name(&self, name: &str, reason: &str) -> ResolveError {
        let name = name.escape_debug().to_string();
        ResolveError::Name { input: self.input.name.clone(), name, reason: reason.to_owned() }
    }

    async fn manifest(&self) -> Result<ManifestWriter, ResolveError> {
        let key = layout::manifest(&self.input.name);
        ManifestWriter::create(&**self.stores.job(), &key).await.map_err(|error| self.store(error))
    }

    /// Buckets: listed, and left where they are.
    async fn remote(&self, urls: &[String]) -> Result<Summary, ResolveError> {
        let empty = |pattern: String| self.listing(ListingError::Empty { pattern });
        let mut manifest = self.manifest().await?;
        let mut seen = Progress::default();
        for url in urls {
            let url = RemotePath::parse(url).map_err(|reason| self.name(url, &reason))?;
            let store =
                self.stores.get(StoreRef::Url(&url.bucket)).await.map_err(|error| self.store(error))?;
            let mut listing = RemoteListing::open(store, &self.input.name, &url).await?;
            let source = Source {
                store: Store::Url(url.bucket.clone()),
                prefix: listing.prefix.clone(),
                origin: listing.origin.clone(),
                mixes: false,
            };
            let before = seen.files;
            loop {
                let page = listing.next().await?;
                if page.is_empty() {
                    break;
                }
                for object in page {
                    seen.files += 1;
                    seen.bytes += object.size;
                    let relative = object.key[source.prefix.len()..].to_owned();
                    let number = manifest.source(&source).await.map_err(|error| self.store(error))?;
                    let (size, version) = (Some(object.size), object.version);
                    let file = File { source: number, relative, key: String::new(), size, version };
                    manifest.push(file).await.map_err(|error| self.store(error))?;
                }
                (self.progress)(seen);
            }
            if seen.files == before && listing.is_glob() {
                return Err(empty(url.to_string()));
            }
        }
        if seen.files == 0 {
            return Err(empty(self.input.source.label()));
        }
        manifest.finish().await.map_err(|error| self.store(error))
    }

    /// Local files: uploaded. What a list names in buckets stays there.
    async fn upload(&self) -> Result<Summary, ResolveError> {
        let total = if self.wants_totals { self.count().await? } else { Progress::default() };
        (self.progress)(total);
        let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let report = || {
            let (files, bytes) = (files.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
            (self.progress)(Progress { files, bytes, ..total });
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
    async fn count(&self) -> Result<Progress, ResolveError> {
        self.on_disk(|listing| {
            let (mut files, mut bytes) = (0, Some(0));
            let mut count = |listing: &mut Listing| {
                listing.visit(LISTED_AT_ONCE, |entry| {
                    files += 1;
                    bytes = bytes.zip(entry.version).map(|(bytes, version)| bytes + version.size);
                })
            };
            while count(listing)? > 0 {}
            Ok(Progress { files_total: Some(files), bytes_total: bytes, ..Progress::default() })
        })
        .await
    }

    /// A list that also names files in buckets, where local files need no upload.
    async fn upload_nothing(&self) -> Result<Summary, ResolveError> {
        let local =
            || Source { store: Store::Local, prefix: String::new(), origin: String::new(), mixes: true };
        let locate = |entry: Entry| -> BoxFuture<'_, _> {
            let remote = self.locate_remote(&entry.relative);
            let located = remote.unwrap_or_else(|| Ok(located(local(), entry.relative, String::new(), None)));
            Box::pin(std::future::ready(located))
        };
        self.write(&locate).await
    }

    /// Writes the manifest: what `locate` makes of each file, in listing order, several side by side.
    async fn write(&self, locate: &Locate<'_>) -> Result<Summary, ResolveError> {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<Vec<Entry>>(2);
        let listed = self.on_disk(move |listing| {
            loop {
                let mut entries = Vec::new();
                let count = listing.next_batch(LISTED_AT_ONCE, &mut entries)?;
                if count == 0 || sender.blocking_send(entries).is_err() {
                    return Ok(());
                }
            }
        });
        let written = async {
            let mut manifest = self.manifest().await?;
            let entries = stream::poll_fn(|context| receiver.poll_recv(context)).flat_map(stream::iter);
            let mut ready = std::pin::pin!(entries.map(locate).buffered(UPLOADS));
            while let Some(located) = ready.next().await {
                let Located { source, file } = located?;
                let number = manifest.source(&source).await.map_err(|error| self.store(error))?;
                let file = File { source: number, ..file };
                manifest.push(file).await.map_err(|error| self.store(error))?;
            }
            Ok(manifest)
        };
        // What is listed goes on being written while the listing goes on; whichever fails ends both.
        let (manifest, ()) = futures_util::try_join!(written, listed)?;
        failpoint::pass("inputs_located");
        manifest.finish().await.map_err(|error| self.store(error))
    }

    /// Lists the input on a thread that may block.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Listing) -> Result<T, ListingError> + Send + 'static,
    ) -> Result<T, ResolveError> {
        let source = self.input.source.clone();
        let done = tokio::task::spawn_blocking(move || {
            work(&mut Listing::open(&source, ListingOptions { versions: true })?)
        });
        let done = done.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        done.map_err(|error| self.listing(error))
    }

    async fn names_remote_files(&self) -> Result<bool, ResolveError> {
        self.on_disk(|listing| {
            let mut found = false;
            let mut look = |listing: &mut Listing| {
                listing.visit(LISTED_AT_ONCE, |entry| found |= remote::is_remote(entry.relative))
            };
            while look(listing)? > 0 {}
            Ok(found)
        })
        .await
    }

    /// Brings a file to where nodes can fetch it.
    async fn locate(&self, entry: &Entry, sent: &(dyn Fn(u64) + Sync)) -> Result<Located, ResolveError> {
        let is_listed = entry.base.is_empty();
        if is_listed && let Some(located) = self.locate_remote(&entry.relative) {
            return located;
        }
        if is_listed && entry.relative.contains("://") {
            // What follows a scheme may hold a password.
            let scheme = entry.relative.split("://").next().unwrap_or_default();
            return Err(
                self.name(&format!("{scheme}://"), "not supported yet: name local files and s3:// ones")
            );
        }
        let path = entry.path();
        let named = names::without_detours(&entry.relative);
        let relative = if is_listed { named.trim_start_matches('/') } else { &entry.relative }.to_owned();
        if let Some(reason) = names::unusable(&relative) {
            return Err(self.name(&path.to_string_lossy(), reason));
        }
        let slash = if entry.base.ends_with('/') { "" } else { "/" };
        let source = Source {
            store: Store::Shared,
            prefix: layout::BLOBS.to_owned(),
            origin: format!("{}{slash}", entry.base),
            mixes: is_listed,
        };
        match upload(&**self.stores.shared(), &path, sent).await {
            Ok(uploaded) => Ok(located(source, relative, uploaded.key, Some(uploaded.size))),
            Err(UploadError::Store(error)) => Err(self.store(error)),
            Err(UploadError::File(reason)) => {
                Err(ResolveError::File { input: self.input.name.clone(), path, reason })
            }
        }
    }

    /// What a line of a list says, if it is the URL of an object.
    fn locate_remote(&self, line: &str) -> Option<Result<Located, ResolveError>> {
        if !remote::is_remote(line) {
            return None;
        }
        let url = match RemotePath::parse(line) {
            Ok(url) => url,
            Err(reason) => return Some(Err(self.name("s3://", &reason))),
        };
        if let Some(reason) = names::unusable(&url.key) {
            return Some(Err(self.name(line, reason)));
        }
        let origin = format!("{}/", url.bucket);
        let source = Source { store: Store::Url(url.bucket), prefix: String::new(), origin, mixes: true };
        Some(Ok(located(source, url.key, String::new(), None)))
    }
}

fn located(source: Source, relative: String, key: String, size: Option<u64>) -> Located {
    Located { source, file: File { source: 0, relative, key, size, version: String::new() } }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::{Arc, Mutex};

    use prs_common::job::InputKind;
    use prs_common::storage::{LocalStorage, Storage};

    use prs_common::storage::StorageExt;

    use super::*;

    /// Stores in a folder, and a listener to the progress.
    struct Place {
        folder: tempfile::TempDir,
        stores: InputStores,
        heard: Mutex<Vec<Progress>>,
        wants_totals: bool,
    }

    impl Place {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (name, content) in files {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            let shared: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path().join("storage")));
            let job = shared.below("jobs/job-1");
            let buckets = folder.path().join("buckets");
            let open = move |url: String| -> BoxFuture<'static, _> {
                let bucket = buckets.join(url.trim_start_matches("s3://"));
                let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(bucket));
                Box::pin(std::future::ready(Ok(store)))
            };
            let stores = InputStores::new(shared, job, Arc::new(open));
            Self { folder, stores, heard: Mutex::default(), wants_totals: true }
        }

        fn path(&self, relative: &str) -> String {
            self.folder.path().join(relative).display().to_string()
        }

        async fn resolve(
            &self,
            source: InputSource,
            mode: InputMode,
            runs: Where,
        ) -> Result<InputSource, ResolveError> {
            let input = Input { name: "data".to_owned(), kind: InputKind::File, source, mode, tabular: None };
            let spec = JobSpec::new("job-1", "/code", "main.py", vec![input]);
            let hear = |name: &str, progress| {
                assert_eq!(name, "data");
                self.heard.lock().unwrap().push(progress);
            };
            let audience = Audience { tell: &hear, wants_totals: self.wants_totals };
            resolve(spec, &self.stores, runs, audience).await.map(|spec| spec.inputs[0].source.clone())
        }

        async fn upload(&self, source: InputSource) -> Result<InputSource, ResolveError> {
            self.resolve(source, InputMode::Upload, Where::Fleet).await
        }
    }

    #[tokio::test]
    async fn what_every_node_has_stays_as_it_is() {
        let place = Place::new(&[("in/a", "x"), ("in/list", "a\n")]);
        let paths = InputSource::Paths(vec![place.path("in")]);
        let list = InputSource::List(place.path("in/list").into());
        for source in [paths, list] {
            for (mode, runs) in [
                (InputMode::Direct, Where::Fleet),
                (InputMode::Upload, Where::Embedded),
                (InputMode::Direct, Where::Embedded),
            ] {
                assert_eq!(place.resolve(source.clone(), mode, runs).await.unwrap(), source);
            }
        }
        assert!(!place.folder.path().join("storage").exists());
    }

    #[tokio::test]
    async fn an_upload_tells_how_far_it_is_and_sends_nothing_twice() {
        let mut place = Place::new(&[("in/a", "one"), ("in/b/c", "three"), ("in/d", "one"), ("in/.e", "")]);
        let source = InputSource::Paths(vec![place.path("in")]);
        let resolved = place.upload(source.clone()).await.unwrap();
        let InputSource::Manifest { key, label, files, bytes, .. } = &resolved else {
            panic!("{resolved:?}")
        };
        assert_eq!((key.as_str(), *files, *bytes), ("inputs/data.manifest", 4, 11));
        assert_eq!(*label, place.path("in"));
        let heard = std::mem::take(&mut *place.heard.lock().unwrap());
        let total = Progress { files_total: Some(4), bytes_total: Some(11), ..Progress::default() };
        assert_eq!(heard.first(), Some(&total));
        assert_eq!(heard.last(), Some(&Progress { files: 4, bytes: 11, ..total }));
        let blobs = place.stores.shared().list_all("inputs/").await.unwrap();
        assert_eq!(blobs.len(), 3);
        place.wants_totals = false;
        assert_eq!(place.upload(source).await.unwrap(), resolved);
        assert_eq!(place.stores.shared().list_all("inputs/").await.unwrap(), blobs);
        let heard = place.heard.lock().unwrap();
        assert_eq!(heard.last(), Some(&Progress { files: 4, bytes: 11, ..Progress::default() }));
    }

    #[tokio::test]
    async fn what_cannot_be_uploaded_is_told_by_its_name() {
        let place = Place::new(&[
            ("in/a", "x"),
            ("tab/a\tb", "x"),
            ("list", "in/a\nin/absent\n"),
            ("web", "in/a\nhttps://user:secret@host/x\n"),
            ("prefix", "s3://bucket/in/\n"),
            ("empty/list", "\n"),
        ]);
        symlink("nowhere", place.path("in/link")).unwrap();
        let list = |name: &str| InputSource::List(place.path(name).into());
        for (source, says) in [
            (InputSource::Paths(vec![place.path("in")]), "link: No such file"),
            (InputSource::Paths(vec![place.path("tab")]), r"tab/a\tb: the name has a control character"),
            (list("list"), "in/absent: No such file"),
            (list("web"), "https://: not supported yet"),
            (list("prefix"), "s3://bucket/in/: the name has an empty part"),
            (list("empty/list"), "no file found in"),
            (
                InputSource::Remote(vec!["s3://bucket/absent".to_owned()]),
                "no file found in s3://bucket/absent",
            ),
            (InputSource::Remote(vec!["s3://bucket/*.csv".to_owned()]), "no file found in s3://bucket/*.csv"),
        ] {
            let error = place.upload(source).await.unwrap_err();
            let told = error.to_string();
            assert!(told.starts_with("input data: ") && told.contains(says), "{told}");
            assert!(!told.contains("secret") && !error.is_retryable());
        }
        assert!(place.stores.job().list_all("").await.unwrap().is_empty());
    }
}
