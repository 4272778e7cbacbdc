//! The whole way of inputs, from what the user names to files of a node, against stores in folders.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use prs_common::job::{Input, InputKind, InputMode, InputSource, JobSpec, MiniBatchSize, TabularOptions};
use prs_common::storage::{LocalStorage, ObjectMeta, PutOptions, Storage, Upload};
use prs_orchestrator::inputs::{Audience, Where, resolve};
use prs_orchestrator::plan::{PlanContext, plan};
use prs_orchestrator::stored_descriptors::store_long;
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::*;

/// A fleet in a folder: its storage, its buckets, a job's data and a node's cache.
struct Fleet {
    folder: TempDir,
    stores: InputStores,
    shared: Arc<Watched>,
}

impl Fleet {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shared = Arc::new(Watched::new(&folder.path().join("storage")));
        let job = shared.below("jobs/job-1");
        let buckets = folder.path().join("buckets");
        let open = move |url: String| -> futures_util::future::BoxFuture<'static, _> {
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
        Localizer::new(self.stores.clone(), &self.path(name), limit).unwrap()
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

/// A store that counts what is read of it, and fails when it is told to.
#[derive(Debug)]
struct Watched {
    inner: LocalStorage,
    reads: AtomicU64,
    fails: Mutex<Option<StorageErrorKind>>,
}

impl Watched {
    fn new(folder: &Path) -> Self {
        Self { inner: LocalStorage::new(folder), reads: AtomicU64::new(0), fails: Mutex::default() }
    }

    fn fail(&self, kind: Option<StorageErrorKind>) {
        *self.fails.lock().unwrap() = kind;
    }

    fn look(&self, key: &str) -> Result<(), StorageError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let Some(kind) = *self.fails.lock().unwrap() else { return Ok(()) };
        let (place, message) = (self.to_string(), "told to fail".to_owned());
        Err(StorageError { kind, place, key: key.to_owned(), message })
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Storage for Watched {
    async fn put(&self, key: &str, body: Bytes, options: PutOptions) -> Result<(), StorageError> {
        self.inner.put(key, body, options).await
    }
    async fn put_parts(&self, key: &str, parts: Vec<Bytes>) -> Result<(), StorageError> {
        self.inner.put_parts(key, parts).await
    }
    async fn put_file(&self, key: &str, file: &Path) -> Result<(), StorageError> {
        self.inner.put_file(key, file).await
    }
    async fn upload(&self, key: &str, options: PutOptions) -> Result<Box<dyn Upload>, StorageError> {
        self.inner.upload(key, options).await
    }
    async fn get(&self, key: &str) -> Result<Bytes, StorageError> {
        self.look(key)?;
        self.inner.get(key).await
    }
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.look(key)?;
        tokio::task::yield_now().await;
        self.inner.get_range(key, range).await
    }
    async fn copy(&self, from: &str, to: &str, options: PutOptions) -> Result<(), StorageError> {
        self.inner.copy(from, to, options).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.inner.list(prefix).await
    }
    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        self.inner.head(key).await
    }
    async fn delete(&self, key: &str) -> Result<(), StorageError> {
        self.inner.delete(key).await
    }
    async fn flush(&self) -> Result<(), StorageError> {
        self.inner.flush().await
    }
    async fn sweep(&self) -> Result<(), StorageError> {
        self.inner.sweep().await
    }

    fn uri(&self, key: &str) -> String {
        self.inner.uri(key)
    }
    fn below(&self, prefix: &str) -> Arc<dyn Storage> {
        self.inner.below(prefix)
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn input(kind: InputKind, source: InputSource) -> Input {
    let tabular = (kind == InputKind::Tabular).then(TabularOptions::default);
    Input { name: "data".to_owned(), kind, source, mode: InputMode::Upload, tabular }
}

fn job(inputs: Vec<Input>, size: MiniBatchSize) -> JobSpec {
    JobSpec { mini_batch_size: size, ..JobSpec::new("job-1", "/code", "main.py", inputs) }
}

fn paths(of: &[PathBuf]) -> InputSource {
    InputSource::Paths(of.iter().map(|path| path.display().to_string()).collect())
}

/// What the process of a mini-batch would see: its position, its data, and all that describes the data.
fn seen(body: &[u8], work: &Path) -> (u64, u32, Vec<(String, Vec<u8>)>) {
    let MiniBatch { index, input, work: data } = MiniBatch::decode(body).unwrap();
    let data = match data {
        Work::Files { base, paths } => {
            let read = |path: &&str| (String::new(), fs::read(Path::new(base).join(path)).unwrap());
            paths.iter().map(read).collect()
        }
        Work::Delimited { path, origin, start, end, records, schema, .. } => {
            let mut bytes = vec![0; (end - start) as usize];
            let file = fs::File::open(work.join(path)).unwrap();
            assert!(file.metadata().unwrap().len() >= end);
            file.read_exact_at(&mut bytes, start).unwrap();
            vec![(format!("{origin} {start} {end} {records} {schema:?}"), bytes)]
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

#[tokio::test(flavor = "multi_thread")]
async fn local_descriptors_pass_untouched() {
    let fleet = Fleet::new();
    let localizer = fleet.localizer("cache", 10);
    let files = Work::Files { base: "/absent", paths: vec!["a", "b"] };
    let body: Bytes = MiniBatch { index: 3, input: 0, work: files }.encode().into();
    let ready = localizer.localize(&body).await.unwrap();
    assert_eq!(ready.local.as_ptr(), body.as_ptr());
    assert_eq!(ready.planned.as_ptr(), body.as_ptr());
    let nonsense = Bytes::from_static(b"nonsense");
    assert_eq!(localizer.localize(&nonsense).await.unwrap().local, nonsense);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_sees_what_the_host_of_the_files_sees() {
    let fleet = Fleet::new();
    for number in 0..25 {
        fleet.write(&format!("in/tree/{}/ü {number:02}.png", number % 3), format!("picture {}", number % 7));
    }
    fleet.write("in/tree/.hidden", "");
    fleet.write("in/single.png", vec![1; 9 << 20]);
    let rows = (0..2_000).map(|id| format!("{id},\"some name, {id}\"\n"));
    let text: String = std::iter::once("id,name\n".to_owned()).chain(rows).collect();
    fleet.write("in/tables/a.csv", &text);
    fleet.write("in/tables/b.csv.gz", gzip(text.replace("some", "any other").as_bytes()));
    let broken = gzip(text.as_bytes());
    fleet.write("in/tables/c.csv.gz", &broken[..broken.len() - 9]);
    fleet.write("in/tables/d.csv", "id,name\n1,\"open\n");
    fleet.write("in/tables/e.csv", "\n");
    let files = job(
        vec![input(InputKind::File, paths(&[fleet.path("in/tree"), fleet.path("in/single.png")]))],
        MiniBatchSize::Files(4),
    );
    let tables =
        job(vec![input(InputKind::Tabular, paths(&[fleet.path("in/tables")]))], MiniBatchSize::Bytes(5_000));
    for (spec, least) in [(files, 8), (tables, 20)] {
        let here = fleet.plan(&spec, "here").await;
        assert!(here.len() >= least, "{}", here.len());
        let resolved = fleet.resolve(&spec, Where::Fleet).await;
        assert_eq!(fleet.resolve(&resolved, Where::Fleet).await, resolved);
        assert_eq!(fleet.resolve(&spec, Where::Fleet).await, resolved);
        let there = fleet.plan(&resolved, "there").await;
        assert_eq!(fleet.plan(&resolved, "elsewhere").await, there);
        assert_eq!(there.len(), here.len());

        let localizer = fleet.localizer("cache", 1 << 20);
        for (here, there) in here.iter().zip(&there) {
            let (as_planned, theirs) = (MiniBatch::decode(here).unwrap(), MiniBatch::decode(there).unwrap());
            assert_eq!(theirs.items(), as_planned.items());
            assert_eq!(theirs.detail(), as_planned.detail());
            assert_eq!(theirs.file_names(), as_planned.file_names());
            let ready = localizer.localize(there).await.unwrap();
            assert_eq!(ready.planned, there);
            assert!(MiniBatch::is_local(&ready.local));
            assert_eq!(seen(&ready.local, Path::new("/")), seen(here, &fleet.path("here")));
        }
        fs::remove_dir_all(fleet.path("cache")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_are_read_where_they_are() {
    let fleet = Fleet::new();
    for number in 0..7 {
        fleet.write(&format!("buckets/pictures/in/{number}/a.png"), format!("picture {number}"));
    }
    fleet.write("buckets/tables/x.csv", "a,b\n1,2\n3,4\n");
    fleet.write("buckets/tables/y.csv.gz", gzip(b"a,b\n5,6\n"));
    let remote = |url: &str| InputSource::Remote(vec![url.to_owned()]);
    let localizer = fleet.localizer("cache", 1 << 20);
    for runs in [Where::Embedded, Where::Fleet] {
        let spec = job(vec![input(InputKind::File, remote("s3://pictures/in"))], MiniBatchSize::Files(5));
        let bodies = fleet.plan(&fleet.resolve(&spec, runs).await, "work").await;
        assert_eq!(bodies.len(), 2);
        let names = MiniBatch::decode(&bodies[1]).unwrap().file_names();
        assert_eq!(names, ["s3://pictures/in/5/a.png", "s3://pictures/in/6/a.png"]);
        let ready = localizer.localize(&bodies[1]).await.unwrap();
        let expected = [5, 6].map(|number| (String::new(), format!("picture {number}").into_bytes()));
        assert_eq!(seen(&ready.local, Path::new("/")).2, expected);

        let spec = job(vec![input(InputKind::Tabular, remote("s3://tables"))], MiniBatchSize::Bytes(4));
        let bodies = fleet.plan(&fleet.resolve(&spec, runs).await, "work").await;
        let mut rows = Vec::new();
        for body in &bodies {
            let ready = localizer.localize(body).await.unwrap();
            rows.extend(seen(&ready.local, Path::new("/")).2.into_iter().map(|(_, bytes)| bytes));
        }
        assert_eq!(rows, [&b"1,2\n"[..], b"3,4\n", b"5,6\n"]);
    }
    let spec = job(vec![input(InputKind::Tabular, remote("s3://tables/*.csv"))], MiniBatchSize::Bytes(4));
    let resolved = fleet.resolve(&spec, Where::Fleet).await;
    fleet.write("buckets/tables/x.csv", "a,b\n1,2\n3,5\n");
    let bodies = fleet.plan(&resolved, "work").await;
    assert_eq!(
        seen(&bodies[0], Path::new("/")).2[0].0,
        "s3://tables/x.csv 0 the object changed since the job was submitted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_names_files_here_and_in_buckets() {
    let fleet = Fleet::new();
    fleet.write("in/a.txt", "a");
    fleet.write("in/sub/b.txt", "b");
    fleet.write("buckets/letters/in/c.txt", "c");
    fleet.write("buckets/others/d.txt", "d");
    fleet.write(
        "in/list.txt",
        "s3://letters/in/c.txt\nsub/../a.txt\ns3://others/d.txt\nsub/b.txt\ns3://others/absent\n",
    );
    let source = InputSource::List(fleet.path("in/list.txt"));
    let spec = job(vec![input(InputKind::File, source)], MiniBatchSize::Files(4));
    let localizer = fleet.localizer("cache", 1 << 20);
    for runs in [Where::Embedded, Where::Fleet] {
        let bodies = fleet.plan(&fleet.resolve(&spec, runs).await, "work").await;
        assert_eq!(bodies.len(), 2);
        let ready = localizer.localize(&bodies[0]).await.unwrap();
        let contents: Vec<Vec<u8>> =
            seen(&ready.local, Path::new("/")).2.into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(contents, [b"c", b"a", b"d", b"b"]);
        let gone = localizer.localize(&bodies[1]).await.unwrap();
        let told = &seen(&gone.local, Path::new("/")).2[0].0;
        assert!(told.starts_with("s3://others/absent 0 it is not there any more: "), "{told}");
        assert_eq!(gone.planned, bodies[1]);
    }
}

fn pictures<'a>(names: &[&'a str], size: Option<u64>) -> Work<'a> {
    let source = ObjectSource { number: 2, store: StoreRef::Shared, prefix: "in/", origin: "/data/" };
    let file = |&relative: &&'a str| ObjectRef { source: 0, relative, key: "", size };
    Work::Objects { sources: vec![source], files: names.iter().map(file).collect() }
}

fn body(index: u64, work: Work<'_>) -> Bytes {
    MiniBatch { index, input: 1, work }.encode().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_download_serves_all_who_need_the_file() {
    let fleet = Fleet::new();
    fleet.write("storage/in/a", "x");
    let localizer = fleet.localizer("cache", 100);
    let body = body(0, pictures(&["a"], None));
    let all: Vec<_> = (0..50).map(|_| localizer.localize(&body)).collect();
    let all = try_join_all(all).await.unwrap();
    assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), 1);
    let file = fleet.path("cache/1/2/a");
    assert_eq!(fs::read(&file).unwrap(), b"x");
    drop(all);
    assert!(file.exists());
    localizer.localize(&body).await.unwrap();
    assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_had_fails_the_mini_batch_and_what_may_come_later_does_not() {
    let fleet = Fleet::new();
    fleet.write("storage/in/a", "four");
    fleet.write("storage/in/b/c", "x");
    let localizer = fleet.localizer("cache", 100);
    let reason = async |work: Work<'_>| {
        let ready = localizer.localize(&body(7, work)).await?;
        let (index, input, seen) = seen(&ready.local, Path::new("/"));
        assert_eq!((index, input), (7, 1));
        Ok::<String, StorageError>(seen[0].0.clone())
    };
    let long = "x".repeat(256);
    for (names, size, says) in [
        (&["a"][..], Some(5), "/data/a 0 the object has 4 bytes now and had 5 when the job was submitted"),
        (&["a", "absent"], None, "/data/absent 0 it is not there any more: "),
        (&["../../escaped"], None, "/data/../../escaped 0 the name has a part `.` or `..`"),
        (&["a", "/etc/passwd"], None, "/data//etc/passwd 0 the name has an empty part"),
        (&["a\0b"], None, "the name has a control character"),
        (&[&*long], None, "longer than 255 bytes"),
    ] {
        let told = reason(pictures(names, size)).await.unwrap();
        assert!(told.contains(says), "{told}");
    }
    fleet.shared.fail(Some(StorageErrorKind::PermissionDenied));
    let told = reason(pictures(&["b/c"], None)).await.unwrap();
    assert_eq!(told, "/data/b/c 0 the store refuses access: told to fail");
    fleet.shared.fail(Some(StorageErrorKind::Unavailable));
    assert!(reason(pictures(&["b/c"], None)).await.unwrap_err().is_retryable());
    fleet.shared.fail(None);
    let ready = localizer.localize(&body(7, pictures(&["a", "b/c"], None))).await.unwrap();
    assert_eq!(seen(&ready.local, Path::new("/")).2[1].1, b"x");
    let there: Vec<String> = files_below(&fleet.path("cache")).into_keys().collect();
    assert_eq!(there, ["1/2/a", "1/2/b/c"]);
    assert!(!fleet.path("escaped").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_lies_at_its_own_place() {
    let fleet = Fleet::new();
    let text: Vec<u8> = (0..20_000_000u32).map(|at| (at / 7) as u8).collect();
    fleet.write("storage/table", &text);
    let slice = |start, end| {
        let (store, key, origin, version) = (StoreRef::Shared, "table", "/in/t.csv.gz", "5");
        let work =
            Work::DelimitedObject { store, key, origin, version, start, end, records: 1, schema: &[1] };
        body(start, work)
    };
    let localizer = fleet.localizer("cache", 1 << 20);
    for (start, end) in [(0, 10), (10_000_000, 20_000_000), (10, 10)] {
        let ready = localizer.localize(&slice(start, end)).await.unwrap();
        let seen = seen(&ready.local, Path::new("/")).2;
        assert!(seen[0].0.starts_with("/in/t.csv.gz "));
        assert!(seen[0].1 == text[start as usize..end as usize]);
    }
    let cut = localizer.localize(&slice(19_999_990, 20_000_010)).await.unwrap();
    let told = &seen(&cut.local, Path::new("/")).2[0].0;
    assert!(told.contains("the object has 20000000 bytes now and had at least 20000010"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_descriptors_are_read_first() {
    let fleet = Fleet::new();
    fleet.write("storage/in/a", "x");
    let many: Vec<&str> = vec!["a"; 40_000];
    let planned = body(5, pictures(&many, Some(1)));
    let mut sent = vec![planned.clone()];
    store_long(&**fleet.stores.job(), &mut sent).await.unwrap();
    assert!(sent[0].len() < 100 && planned.len() > 64 << 10);
    let localizer = fleet.localizer("cache", 100);
    let ready = localizer.localize(&sent[0]).await.unwrap();
    assert!(ready.planned == planned);
    assert_eq!(MiniBatch::decode(&ready.local).unwrap().items(), 40_000);
    assert!(localizer.planned(&sent[0]).await.unwrap() == planned);
    fleet.stores.job().delete("plan/0000000005").await.unwrap();
    let lost = localizer.localize(&sent[0]).await.unwrap();
    assert!(seen(&lost.local, Path::new("/")).2[0].0.contains("its descriptor: it is not there any more: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_stays_within_its_bound() {
    let fleet = Fleet::new();
    for number in 0..200 {
        fleet.write(&format!("storage/in/{}/{number}", number % 9), vec![7; 100]);
    }
    let localizer = fleet.localizer("cache", 2_000);
    let tasks = (0..40u64).map(|task| {
        let localizer = localizer.clone();
        let folder = fleet.path("cache");
        tokio::spawn(async move {
            for step in 0..10 {
                let names: Vec<String> = (0..5)
                    .map(|file| (task * 37 + step * 11 + file) % 200)
                    .map(|number| format!("{}/{number}", number % 9))
                    .collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let ready = localizer.localize(&body(task, pictures(&names, Some(100)))).await.unwrap();
                let seen = seen(&ready.local, Path::new("/")).2;
                assert!(seen.len() == 5 && seen.iter().all(|(_, bytes)| bytes.len() == 100), "{seen:?}");
                assert!(folder.exists());
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        tokio::time::timeout(std::time::Duration::from_mins(1), task).await.unwrap().unwrap();
    }
    let left = files_below(&fleet.path("cache"));
    assert!(left.values().sum::<u64>() <= 2_000, "{left:?}");
    let large: Vec<String> = (0..200).map(|number| format!("{}/{number}", number % 9)).collect();
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    let ready = localizer.localize(&body(0, pictures(&large, Some(100)))).await.unwrap();
    assert_eq!(seen(&ready.local, Path::new("/")).2.len(), 200);
    drop(ready);
    assert!(files_below(&fleet.path("cache")).values().sum::<u64>() <= 2_000);
}
