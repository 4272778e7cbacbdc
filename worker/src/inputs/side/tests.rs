//! Side inputs brought to this host: as an upload and from a bucket, twice on a host, damaged, and gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use prs_common::job::{InputMode, InputSource};
use prs_common::storage::fixtures::{Hooked, Hooks};
use prs_common::storage::{LocalStorage, Storage, StorageErrorKind, StorageExt};
use prs_orchestrator::inputs::{Audience, Where, resolve};

use super::*;
use crate::inputs::InputPlace;
use crate::metrics::Metrics;

/// A fleet in a folder.
struct Fleet {
    folder: tempfile::TempDir,
    stores: InputStores,
}

impl Fleet {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let shared: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path().join("storage")));
        let job = LocalStorage::new(folder.path().join("storage")).below("jobs/job-1");
        let buckets = folder.path().join("buckets");
        let open = move |url: String, _| -> futures_util::future::BoxFuture<'static, _> {
            let bucket = buckets.join(url.trim_start_matches("s3://"));
            let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(bucket));
            Box::pin(std::future::ready(Ok(store)))
        };
        Self { stores: InputStores::new(shared, job, Arc::new(open)), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A job with these side inputs, submitted.
    async fn submitted(&self, side_inputs: &[(&str, &str)], runs: Where) -> JobSpec {
        let mut spec = JobSpec::new("job-1", "/code", "main.py", Vec::new());
        spec.side_inputs = side_inputs
            .iter()
            .map(|(name, path)| {
                let source = if path.starts_with("s3://") {
                    InputSource::Remote(vec![(*path).to_owned()])
                } else {
                    InputSource::Paths(vec![self.path(path).display().to_string()])
                };
                SideInput::new(*name, source, InputMode::Upload)
            })
            .collect();
        resolve(spec, &self.stores, runs, Audience::NONE).await.unwrap()
    }

    async fn bring(&self, spec: &JobSpec, store: &Arc<SideInputStore>) -> Result<SideInputs, String> {
        let brought = SideInputs::bring(spec, "job-1", &self.stores, store, &|_| {}).await;
        brought.map_err(|reason| reason.to_string())
    }

    fn store(&self, name: &str) -> Arc<SideInputStore> {
        Arc::new(SideInputStore::of_job(self.path(name), 1_000))
    }

    /// Where the scripts of a node see them.
    fn shown(&self, spec: &JobSpec, side_inputs: &SideInputs, node: &str) -> SidePaths {
        let (stores, spec) = (self.stores.clone(), Arc::new(spec.clone()));
        let localizer =
            Localizer::new(stores, spec, &self.path(node), 1_000, 0, InputPlace::own, Metrics::default())
                .unwrap();
        side_inputs.show(&localizer).unwrap()
    }

    /// The key of the only upload with this content.
    async fn blob(&self, content: &str) -> String {
        for object in self.stores.shared().list_all("inputs/").await.unwrap() {
            if self.stores.shared().get(&object.key).await.unwrap() == content {
                return object.key;
            }
        }
        panic!("there is no upload of {content}")
    }
}

fn read(paths: &SidePaths, name: &str, below: &str) -> String {
    fs::read_to_string(Path::new(&paths[name]).join(below)).unwrap()
}

const FILES: [(&str, &str); 6] = [
    ("model/a.txt", "one"),
    ("model/deep/b.txt", "two"),
    ("one.bin", "single"),
    ("buckets/far/p/x.csv", "x"),
    ("buckets/far/p/q/y.csv", "y"),
    ("buckets/far/z.csv", "z"),
];

#[tokio::test]
async fn files_and_folders_come_whole_once_for_all_jobs() {
    let fleet = Fleet::new(&FILES);
    let named = [("model", "model"), ("one", "one.bin"), ("far", "s3://far/p"), ("z", "s3://far/z.csv")];
    let spec = fleet.submitted(&named, Where::Fleet).await;
    let store = fleet.store("store");
    let told = Mutex::new(Vec::new());
    let tell = |progress| told.lock().unwrap().push(progress);
    let first = SideInputs::bring(&spec, "job-1", &fleet.stores, &store, &tell).await.unwrap();
    let last = SideProgress {
        label: "side input z".to_owned(),
        done: 1,
        total: 1,
        of_all: 6 + 6 + 2 + 1,
        work: SideWork::Comes,
    };
    assert_eq!(told.into_inner().unwrap().last(), Some(&last));
    let seen = fleet.shown(&spec, &first, "node-0");
    assert_eq!(read(&seen, "model", "deep/b.txt") + &read(&seen, "model", "a.txt"), "twoone");
    assert!(seen["model"].ends_with("/model.side") && seen["one"].ends_with("/one.side/one.bin"), "{seen:?}");
    assert_eq!(fs::read_to_string(&seen["one"]).unwrap() + &read(&seen, "far", "q/y.csv"), "singley");
    assert_eq!(fs::read_to_string(&seen["z"]).unwrap(), "z");
    assert_eq!(first.copies().count(), 4);
    // They stay as long as they are used.
    drop(store);
    assert_eq!(read(&seen, "model", "a.txt"), "one");

    // Another job with the same content under other names, when the uploads are gone.
    let other = fleet.submitted(&[("weights", "model"), ("a", "s3://far/p")], Where::Fleet).await;
    let blob = fleet.blob("one").await;
    fleet.stores.shared().delete(&blob).await.unwrap();
    fs::remove_dir_all(fleet.path("buckets")).unwrap();
    let second = fleet.bring(&other, &fleet.store("store")).await.unwrap();
    let seen = fleet.shown(&other, &second, "node-1");
    assert_eq!(read(&seen, "weights", "a.txt") + &read(&seen, "a", "x.csv"), "onex");
    // On another host they cannot be had.
    let error = fleet.bring(&other, &fleet.store("elsewhere")).await.unwrap_err();
    assert!(error.starts_with("side input weights cannot be read: "), "{error}");
    assert!(error.contains("model/a.txt: it is not there any more"), "{error}");
}

#[tokio::test]
async fn what_is_damaged_or_replaced_is_told_by_its_name() {
    let fleet = Fleet::new(&FILES);
    let spec = fleet.submitted(&[("model", "model")], Where::Fleet).await;
    let blob = fleet.path("storage").join(fleet.blob("two").await);
    fs::write(&blob, "tow").unwrap();
    let error = fleet.bring(&spec, &fleet.store("store")).await.unwrap_err();
    assert!(error.starts_with("side input model cannot be read: "), "{error}");
    assert!(error.contains("model/deep/b.txt: ") && error.contains("is damaged"), "{error}");
    // Once it is whole again, what came before is no hindrance.
    fs::write(&blob, "two").unwrap();
    fleet.bring(&spec, &fleet.store("store")).await.unwrap();

    let spec = fleet.submitted(&[("z", "s3://far/z.csv")], Where::Fleet).await;
    fs::write(fleet.path("buckets/far/z.csv"), "another").unwrap();
    let error = fleet.bring(&spec, &fleet.store("store")).await.unwrap_err();
    assert!(error.contains("side input z cannot be read: ") && error.contains("it changed since"), "{error}");
}

#[tokio::test]
async fn what_stays_where_it_is_is_looked_at() {
    let fleet = Fleet::new(&FILES);
    let spec = fleet.submitted(&[("model", "model"), ("one", "one.bin")], Where::Embedded).await;
    let store = fleet.store("store");
    let brought = fleet.bring(&spec, &store).await.unwrap();
    let seen = fleet.shown(&spec, &brought, "node-0");
    assert_eq!((Path::new(&seen["model"]), brought.copies().count()), (&*fleet.path("model"), 0));
    assert!(!fleet.path("store").exists(), "nothing is copied");
    fs::write(fleet.path("model/deep/b.txt"), "three").unwrap();
    let error = fleet.bring(&spec, &store).await.unwrap_err();
    assert!(error.starts_with("side input model changed since the job was first started: "), "{error}");
    fs::remove_dir_all(fleet.path("model")).unwrap();
    let error = fleet.bring(&spec, &store).await.unwrap_err();
    assert!(
        error.starts_with("side input model cannot be read: ") && error.contains("No such file"),
        "{error}"
    );
}

/// A store that is away for so many reads.
#[derive(Debug)]
struct Away(std::sync::atomic::AtomicU32);

#[async_trait::async_trait]
impl Hooks for Away {
    async fn before(&self, method: &'static str, _: &str) -> Result<(), StorageErrorKind> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if method == "get" && left.is_ok() { Err(StorageErrorKind::Unavailable) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_waited_for() {
    let mut fleet = Fleet::new(&FILES);
    let spec = fleet.submitted(&[("model", "model")], Where::Fleet).await;
    let shared = Hooked::new(LocalStorage::new(fleet.path("storage")), Away(90.into()));
    let bucket =
        |_: String, _| -> futures_util::future::BoxFuture<'static, _> { unreachable!("there is no bucket") };
    fleet.stores = InputStores::new(Arc::new(shared), Arc::clone(fleet.stores.job()), Arc::new(bucket));
    fleet.bring(&spec, &fleet.store("store")).await.unwrap();
}

#[tokio::test]
async fn modules_may_be_imported_from_what_stays_where_it_is() {
    let fleet = Fleet::new(&FILES);
    let spec = fleet.submitted(&[("model", "model")], Where::Embedded).await;
    fs::create_dir(fleet.path("model/deep/__pycache__")).unwrap();
    fs::write(fleet.path("model/deep/__pycache__/a.pyc"), "x").unwrap();
    fleet.bring(&spec, &fleet.store("store")).await.unwrap();
}
