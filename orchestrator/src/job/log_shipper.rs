//! Brings the logs of a job from a node to storage, while they grow and at the end (spec section 5).
//!
//! Stores have no append: a file that grew is written anew. Small ones go each time; a large one waits until a
//! share of its size is new, so that a log of gigabytes costs no more than a few times its size. At the end
//! everything is delivered whole.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures_util::stream::{self, StreamExt};
use prs_common::layout;
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt, TransferError};
use prs_common::tree;
use tokio::sync::Mutex;
use walkdir::WalkDir;

use super::record::{JobRecord, JobRecordError};

/// Files up to this size are delivered whenever they changed, bytes.
const SMALL: u64 = 4 << 20;
/// A larger one is delivered when it has grown by this share of what was delivered.
const GROWTH: u64 = 4;
/// Files delivered side by side.
const SIDE_BY_SIDE: usize = 8;
/// So many deliveries in one turn that fail and may succeed later tell that the store is away.
const MOST_FAILURES: usize = 3;

/// How often a record is looked for before it counts as gone, and how long that takes.
const LOOKS: usize = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// What a node writes of itself; everything else is the orchestrator's.
const OF_A_NODE: [&str; 7] = [
    "sys/node/",
    "user/entry_script_log/",
    "user/stdout/",
    "user/stderr/",
    "user/error/",
    "user/mlruns/",
    "perf/",
];

/// Delivers one node's folder of logs.
#[derive(Debug)]
pub struct LogShipper {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    known: Mutex<Known>,
    /// Until when this node surely is the orchestrator. One that was cut off must not put its old reports over those
    /// of its successor.
    watches_until: std::sync::Mutex<Option<Instant>>,
}

/// What is known of the files, by their paths below the folder.
#[derive(Debug, Default)]
struct Known {
    /// What was delivered.
    delivered: HashMap<String, Version>,
    /// What has a name that the store does not take.
    refused: HashSet<String>,
    /// Whether the job was removed: no log of it is wanted any more.
    is_removed: bool,
}

/// What tells whether a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    size: u64,
    changed: Option<SystemTime>,
}

impl LogShipper {
    /// Delivers what is in `folder` to the logs of the job in `storage`.
    pub fn new(storage: Arc<dyn Storage>, folder: PathBuf) -> Self {
        Self { storage, folder, known: Mutex::default(), watches_until: std::sync::Mutex::default() }
    }

    /// Notes until when this node surely is the orchestrator; without it the orchestrator's logs stay here.
    pub fn watches_until(&self, until: Instant) {
        *self.watches_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    fn may_deliver(&self, name: &str) -> bool {
        let until = *self.watches_until.lock().unwrap_or_else(PoisonError::into_inner);
        OF_A_NODE.iter().any(|folder| name.starts_with(folder))
            || until.is_some_and(|until| Instant::now() < until)
    }

    /// Delivers what has changed; at the end of the node or the job (`last`) all of it. A file that cannot be delivered
    /// does not keep the others; a name that the store does not take is no error. At the end it
    /// removes all it has delivered of a job that was removed meanwhile.
    ///
    /// # Errors
    /// That of the last file that failed; where some may pass, one of these.
    pub async fn ship(&self, last: bool) -> Result<(), StorageError> {
        let mut known = self.known.lock().await;
        if known.is_removed {
            return Ok(());
        }
        let folder = self.folder.clone();
        let listed = tokio::task::spawn_blocking(move || list(&folder)).await;
        let mut failure: Option<StorageError> = None;
        let mut failures = 0;
        let mut due = listed.unwrap_or_default();
        due.retain(|(name, version)| {
            is_due(known.delivered.get(name), *version, last) && !known.refused.contains(name)
        });
        let mut delivering = stream::iter(due)
            .filter(|(name, _)| std::future::ready(self.may_deliver(name)))
            .map(async |(name, version)| {
                let key = format!("{}{name}", layout::LOGS);
                let delivered = self.deliver(&key, &self.folder.join(&name), version.size).await;
                (name, version, delivered)
            })
            .buffer_unordered(SIDE_BY_SIDE);
        while let Some((name, version, delivered)) = delivering.next().await {
            match delivered {
                Ok(true) => {
                    known.delivered.insert(name, version);
                }
                Ok(false) => {}
                Err(error) if error.kind == StorageErrorKind::InvalidKey => {
                    tracing::warn!(%error, "a log stays on its node: the store does not take its name");
                    known.refused.insert(name);
                }
                Err(error) => {
                    failures += usize::from(error.is_retryable());
                    if error.is_retryable() || failures == 0 {
                        failure = Some(error);
                    }
                    if failures == MOST_FAILURES {
                        break;
                    }
                }
            }
        }
        drop(delivering);
        if last && is_removed(&*self.storage).await {
            // The removal may have been over before the last of them came.
            let keys: Vec<_> = known.delivered.keys().map(|name| format!("{}{name}", layout::LOGS)).collect();
            self.storage.delete_all(&keys).await?;
            known.is_removed = true;
            return Ok(());
        }
        failure.map_or(Ok(()), Err)
    }

    /// Fetches logs that another node wrote, to go on with them. What cannot be fetched begins anew; what is here and
    /// no shorter than what is there stays.
    ///
    /// # Errors
    /// When the store cannot say what it has.
    pub async fn fetch(&self, wanted: impl Fn(&str) -> bool) -> Result<(), StorageError> {
        for object in self.storage.list_all(layout::LOGS).await? {
            let Some(name) = object.key.strip_prefix(layout::LOGS).filter(|name| wanted(name)) else {
                continue;
            };
            let path = self.folder.join(name);
            if tokio::fs::metadata(&path).await.is_ok_and(|here| here.len() >= object.size) {
                continue;
            }
            let folder = path.parent().unwrap_or(&self.folder).to_owned();
            let _ = tokio::task::spawn_blocking(move || tree::make_folders(folder)).await;
            if let Err(error) = self.storage.download(&object.key, &path, None).await {
                tracing::warn!(%error, "a log that another node wrote is not gone on with");
                // Half of it would be taken for all of it.
                let _ = tokio::task::spawn_blocking(move || tree::remove_file(path)).await;
            }
        }
        Ok(())
    }

    /// Delivers one file; false when it is not there any more, or cannot be read. It may grow meanwhile: the rest goes next time.
    async fn deliver(&self, key: &str, path: &Path, size: u64) -> Result<bool, StorageError> {
        if size > SMALL {
            return match self.storage.upload(key, path).await {
                Ok(()) => Ok(true),
                Err(TransferError::Store(error)) => Err(error),
                Err(TransferError::Disk(error)) => {
                    tracing::warn!(%error, "a log cannot be read");
                    Ok(false)
                }
            };
        }
        let path = path.to_owned();
        let read = tokio::task::spawn_blocking(move || tree::read(path)).await;
        let Ok(Ok(body)) = read else { return Ok(false) };
        self.storage.put(key, body.into(), PutMode::Overwrite).await?;
        Ok(true)
    }
}

/// Whether the record of the job is gone, or goes, for certain.
async fn is_removed(job: &dyn Storage) -> bool {
    for look in 1..=LOOKS {
        match JobRecord::read(job).await {
            Err(JobRecordError::Absent { removed: true, .. }) => return true,
            // A gateway may lack it for a moment.
            Err(JobRecordError::Absent { .. }) if look < LOOKS => tokio::time::sleep(BETWEEN_LOOKS).await,
            Err(JobRecordError::Absent { .. }) => return true,
            _ => return false,
        }
    }
    false
}

fn is_due(delivered: Option<&Version>, present: Version, last: bool) -> bool {
    match delivered {
        None => true,
        Some(before) if *before == present => false,
        Some(before) => last || present.size <= SMALL || present.size >= before.size + before.size / GROWTH,
    }
}

fn list(folder: &Path) -> Vec<(String, Version)> {
    let files = WalkDir::new(folder).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    files
        .filter_map(|entry| {
            let name = entry.path().strip_prefix(folder).ok()?.to_str()?.to_owned();
            let meta = entry.metadata().ok()?;
            Some((name, Version { size: meta.len(), changed: meta.modified().ok() }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use prs_common::storage::LocalStorage;

    use super::*;
    use crate::fixtures::faulty_storage;
    use crate::job::record::tests::record;

    #[tokio::test]
    async fn what_changed_is_delivered_and_comes_back() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(there.path()));
        let shipper = LogShipper::new(Arc::clone(&storage), here.path().to_owned());
        std::fs::create_dir_all(here.path().join("sys")).unwrap();
        std::fs::write(here.path().join("sys/a.txt"), "one\n").unwrap();
        shipper.ship(false).await.unwrap();
        assert!(storage.get("logs/sys/a.txt").await.is_err(), "it is not the orchestrator");
        shipper.watches_until(Instant::now() + Duration::from_mins(1));
        shipper.ship(false).await.unwrap();
        assert_eq!(storage.get("logs/sys/a.txt").await.unwrap(), "one\n");
        std::fs::write(here.path().join("sys/a.txt"), "one\ntwo\n").unwrap();
        shipper.ship(false).await.unwrap();
        assert_eq!(storage.get("logs/sys/a.txt").await.unwrap(), "one\ntwo\n");

        let other = tempfile::tempdir().unwrap();
        let next = LogShipper::new(storage, other.path().to_owned());
        next.fetch(|name| name.starts_with("sys/")).await.unwrap();
        let fetched = || std::fs::read_to_string(other.path().join("sys/a.txt")).unwrap();
        assert_eq!(fetched(), "one\ntwo\n");
        std::fs::write(other.path().join("sys/a.txt"), "one\ntwo\nthree\n").unwrap();
        next.fetch(|name| name.starts_with("sys/")).await.unwrap();
        assert_eq!(fetched(), "one\ntwo\nthree\n", "what is newer here stays");
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_fetched_begins_anew() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let faulty = Arc::new(faulty_storage(there.path()));
        for name in ["a", "b"] {
            faulty.put(&format!("logs/sys/{name}"), "text".into(), PutMode::Overwrite).await.unwrap();
        }
        faulty.fail("get logs/sys/a", 1, StorageErrorKind::PermissionDenied);
        let shipper = LogShipper::new(faulty, here.path().to_owned());
        shipper.fetch(|_| true).await.unwrap();
        assert!(!here.path().join("sys/a").exists());
        assert_eq!(std::fs::read_to_string(here.path().join("sys/b")).unwrap(), "text");
    }

    #[tokio::test]
    async fn a_name_that_the_store_does_not_take_keeps_nothing_else() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(there.path()));
        record().write(&*storage).await.unwrap();
        let shipper = LogShipper::new(Arc::clone(&storage), here.path().to_owned());
        std::fs::create_dir_all(here.path().join("sys/node")).unwrap();
        let names = ["a\\b.txt", "a\u{7}.txt", "b.txt", "c.txt"];
        for name in names {
            std::fs::write(here.path().join("sys/node").join(name), name).unwrap();
        }
        for _ in 0..2 {
            shipper.ship(true).await.unwrap();
            assert_eq!(shipper.known.lock().await.refused.len(), 2);
        }
        let stored = storage.list_all("logs/").await.unwrap();
        assert!(stored.iter().map(|object| &*object.key).eq(["logs/sys/node/b.txt", "logs/sys/node/c.txt"]));
    }

    #[tokio::test]
    async fn one_file_that_fails_keeps_no_other() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let faulty = Arc::new(faulty_storage(there.path()));
        let shipper = LogShipper::new(Arc::clone(&faulty) as _, here.path().to_owned());
        std::fs::create_dir_all(here.path().join("perf")).unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(here.path().join("perf").join(name), name).unwrap();
        }
        faulty.fail("put logs/perf/b", 1, StorageErrorKind::Unavailable);
        faulty.fail("put logs/perf/c", 1, StorageErrorKind::PermissionDenied);
        assert_eq!(shipper.ship(false).await.unwrap_err().kind, StorageErrorKind::Unavailable);
        assert!(faulty.get("logs/perf/a").await.is_ok());
        shipper.ship(false).await.unwrap();
        assert_eq!(faulty.list_all("logs/").await.unwrap().len(), 3);
    }

    #[test]
    fn large_files_wait_until_a_share_of_them_is_new() {
        let version = |size| Version { size, changed: None };
        assert!(is_due(None, version(1), false));
        assert!(!is_due(Some(&version(9)), version(9), true));
        assert!(is_due(Some(&version(9)), version(10), false));
        let large = SMALL * 4;
        assert!(!is_due(Some(&version(large)), version(large + SMALL / 2), false));
        assert!(is_due(Some(&version(large)), version(large + SMALL / 2), true));
        assert!(is_due(Some(&version(large)), version(large + SMALL), false));
    }
}
