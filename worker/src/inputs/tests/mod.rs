//! Inputs against stores in folders: what the tests of their whole way need.

mod damage;
mod in_memory;
mod whole_way;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use prs_common::checksum::crc32c;
use prs_common::dataset::left_out::LeftOut;
use prs_common::job::{Input, InputKind, InputSource, JobSpec, MiniBatchSize, TabularOptions};
use prs_common::mini_batch::SliceRef;
use prs_common::storage::fixtures::{Hooked, Hooks};
use prs_common::storage::{LocalStorage, Storage, StorageExt};
use prs_orchestrator::inputs::{Audience, Where, resolve};
use prs_orchestrator::plan::stored_descriptors::store_long;
use prs_orchestrator::plan::{PlanContext, plan};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::*;
use crate::metrics::Metrics;

/// A fleet in a folder: its storage, its buckets, a job's data and a node's cache.
struct Fleet {
    folder: TempDir,
    stores: InputStores,
    shared: Arc<WatchedStorage>,
}

impl Fleet {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shared =
            Arc::new(Hooked::new(LocalStorage::new(folder.path().join("storage")), Watched::default()));
        let job = LocalStorage::new(folder.path().join("storage")).below("jobs/job-1");
        let buckets = folder.path().join("buckets");
        let open = move |url: String, _| -> futures_util::future::BoxFuture<'static, _> {
            let bucket = buckets.join(url.trim_start_matches("s3://"));
            let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(bucket));
            Box::pin(std::future::ready(Ok(store)))
        };
        let stores = InputStores::new(Arc::clone(&shared) as Arc<dyn Storage>, job, Arc::new(open));
        Self { folder, stores, shared }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn localizer(&self, name: &str, limit: u64) -> Localizer {
        let (stores, spec) = (self.stores.clone(), Arc::new(with_a_bucket()));
        Localizer::new(stores, spec, &self.path(name), limit, 0, InputPlace::own, Metrics::default()).unwrap()
    }

    /// The descriptors of `spec`, as any host plans them.
    async fn plan(&self, spec: &JobSpec, host: &str) -> Vec<Bytes> {
        let (spec, stores, work) = (spec.clone(), self.stores.clone(), self.path(host));
        let handle = Handle::current();
        let planned = tokio::task::spawn_blocking(move || {
            let mut bodies = Vec::new();
            let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
            plan(&spec, &context, &|| false, &mut |batch| {
                bodies.extend(batch.bodies);
                ControlFlow::Continue(())
            })
            .unwrap();
            bodies
        });
        planned.await.unwrap()
    }

    async fn resolve(&self, spec: &JobSpec, runs: Where) -> JobSpec {
        resolve(spec.clone(), &self.stores, runs, Audience::NONE).await.unwrap()
    }
}

/// A store whose reads are counted, and may fail or be damaged.
type WatchedStorage = Hooked<Watched>;

#[derive(Debug, Default)]
struct Watched {
    reads: AtomicU64,
    fails: Mutex<Option<StorageErrorKind>>,
    /// So many of the next reads have a bit flipped.
    damages: AtomicU64,
}

impl Watched {
    fn fail(&self, kind: Option<StorageErrorKind>) {
        *self.fails.lock().unwrap() = kind;
    }
}

#[async_trait]
impl Hooks for Watched {
    async fn before(&self, method: &'static str, _: &str) -> Result<(), StorageErrorKind> {
        if method != "get" {
            return Ok(());
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.fails.lock().unwrap().map_or(Ok(()), Err)
    }

    fn read(&self, bytes: Bytes) -> Bytes {
        let left =
            self.damages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_err() { bytes } else { flipped(&bytes, bytes.len() / 2).into() }
    }
}

/// The same bytes, but for one bit of the byte at `place`.
fn flipped(bytes: &[u8], place: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[place] ^= 0x10;
    bytes
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn input(kind: InputKind, source: InputSource) -> Input {
    let tabular = (kind == InputKind::Tabular).then(TabularOptions::default);
    Input { tabular, ..Input::new("data", kind, source) }
}

fn job(inputs: Vec<Input>, size: MiniBatchSize) -> JobSpec {
    JobSpec { mini_batch_size: size, ..JobSpec::new("job-1", "/code", "main.py", inputs) }
}

/// A job whose second input, `pictures`, is in the bucket `named`.
fn with_a_bucket() -> JobSpec {
    let manifest = InputSource::Manifest {
        key: "inputs/data.manifest".to_owned(),
        label: "s3://named".to_owned(),
        files: 0,
        bytes: 0,
        checksum: String::new(),
        stores: vec!["s3://named".to_owned()],
        left_out: LeftOut::default(),
        named: None,
    };
    let inputs = ["data", "pictures"]
        .map(|name| Input { name: name.to_owned(), ..input(InputKind::File, manifest.clone()) });
    job(inputs.into(), MiniBatchSize::Files(1))
}

fn paths(of: &[PathBuf]) -> InputSource {
    InputSource::Paths(of.iter().map(|path| path.display().to_string()).collect())
}

/// What the process of a mini-batch would see: its position, its data, and all that describes the data.
fn seen(body: &[u8], work: &Path) -> (u64, u32, Vec<(String, Vec<u8>)>) {
    let MiniBatch { index, input, work: data, .. } = MiniBatch::decode(body).unwrap();
    let data = match data {
        Work::Files { base, paths, .. } => {
            let read = |path: &&str| (String::new(), fs::read(Path::new(base).join(path)).unwrap());
            paths.iter().map(read).collect()
        }
        Work::Slice(SliceRef {
            store: StoreRef::Local, key, origin, start, end, records, reader, ..
        }) => {
            let mut bytes = vec![0; (end - start) as usize];
            let file = fs::File::open(work.join(key)).unwrap();
            assert!(file.metadata().unwrap().len() >= end);
            file.read_exact_at(&mut bytes, start).unwrap();
            vec![(format!("{origin} {start} {end} {records} {reader:?}"), bytes)]
        }
        Work::Unreadable { origin, offset, reason } => {
            vec![(format!("{origin} {offset} {reason}"), Vec::new())]
        }
        other => panic!("not local: {other:?}"),
    };
    (index, input, data)
}

fn files_below(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, entry.metadata().unwrap().len());
            }
        }
    }
    found
}

fn pictures<'a>(names: &[&'a str], size: Option<u64>) -> Work<'a> {
    pictures_in(StoreRef::Shared, names, size)
}

fn pictures_in<'a>(store: StoreRef<'a>, names: &[&'a str], size: Option<u64>) -> Work<'a> {
    let source = ObjectSource { number: 2, store, prefix: "in/", origin: "/data/", is_listed: false };
    let file = |&relative: &&'a str| ObjectRef { source: 0, relative, key: "", size, version: "" };
    Work::Objects { sources: vec![source], files: names.iter().map(file).collect() }
}

fn body(index: u64, work: Work<'_>) -> Bytes {
    MiniBatch::new(index, 1, work).encode().into()
}

#[test]
fn large_downloads_take_more_places() {
    let mib = 1 << 20;
    let small = [(Some(0), 1), (Some(10_240), 1), (Some(mib / 2), 2)];
    let large = [(Some(mib), 4), (Some(50 * mib), 4), (None, 4)];
    for (bytes, taken) in small.into_iter().chain(large) {
        assert_eq!(places(bytes), taken, "{bytes:?}");
    }
}
