//! An object is put, read, copied, downloaded and deleted.

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use futures_util::future::join_all;
use prs_common::storage::{
    GetOptions, IfExists, ObjectMeta, PutMode, Storage, StorageError, StorageErrorKind, StorageExt,
    TransferError,
};

use super::{get, keys, kind, put, written_by};
use crate::conformance::unique;

pub(super) async fn object_comes_back_as_it_was_put(storage: &dyn Storage) {
    let folder = unique("back");
    let every_byte: Bytes = (0..=u8::MAX).collect();
    for (name, body) in [("empty", Bytes::new()), ("bytes", every_byte), ("deep/er/still", written_by(0))] {
        let key = format!("{folder}/{name}");
        put(storage, &key, body.clone()).await;
        assert_eq!(get(storage, &key).await, body, "{name}");
        let listed = storage.list_all(&format!("{folder}/")).await.unwrap();
        let size = body.len() as u64;
        assert!(listed.iter().any(|found| found.key == key && found.size == size), "{listed:?}");
    }
}

pub(super) async fn put_replaces_an_object(storage: &dyn Storage) {
    let key = unique("replace");
    put(storage, &key, "a long first content").await;
    put(storage, &key, "second").await;
    put(storage, &key, "second").await;
    assert_eq!(get(storage, &key).await, "second");
    storage.put(&key, vec![Bytes::from("th"), Bytes::from("ird")].into(), PutMode::Overwrite).await.unwrap();
    assert_eq!(get(storage, &key).await, "third");
}

pub(super) async fn absent_object_is_not_found(storage: &dyn Storage) {
    let folder = unique("absent");
    for key in [folder.clone(), format!("{folder}/deep/er")] {
        let error = storage.get(&key).await.unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::NotFound);
        assert!(!error.is_retryable());
        assert_eq!(error.key, key);
        assert!(error.to_string().contains(&key), "{error}");
        assert_eq!(kind(storage.get_range(&key, 0..1).await), StorageErrorKind::NotFound);
    }
    assert!(storage.list_all(&format!("{folder}/")).await.unwrap().is_empty());
    // Nothing is below an object.
    put(storage, &folder, "object").await;
    assert_eq!(kind(storage.get(&format!("{folder}/below")).await), StorageErrorKind::NotFound);
    storage.delete(&format!("{folder}/below")).await.unwrap();
    assert!(storage.list_all(&format!("{folder}/")).await.unwrap().is_empty());
}

pub(super) async fn folder_of_objects_is_not_an_object(storage: &dyn Storage) {
    let folder = unique("folder");
    put(storage, &format!("{folder}/object"), "content").await;
    assert_eq!(kind(storage.get(&folder).await), StorageErrorKind::NotFound);
    assert_eq!(kind(storage.get_range(&folder, 0..1).await), StorageErrorKind::NotFound);
    assert_eq!(
        kind(storage.copy(&folder, &unique("copy"), IfExists::Overwrite).await),
        StorageErrorKind::NotFound
    );
    storage.delete(&folder).await.unwrap();
    assert_eq!(get(storage, &format!("{folder}/object")).await, "content");
}

pub(super) async fn if_absent_keeps_the_first(storage: &dyn Storage) {
    let key = unique("new");
    storage.put(&key, "first".into(), PutMode::Create).await.unwrap();
    let refused = storage.put(&key, "second".into(), PutMode::Create).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::AlreadyExists);
    assert!(!refused.is_retryable());
    assert_eq!(get(storage, &key).await, "first");
    storage.delete(&key).await.unwrap();
    storage.put(&key, "third".into(), PutMode::Create).await.unwrap();
    assert_eq!(get(storage, &key).await, "third");
}

pub(super) async fn update_replaces_its_version_and_no_other(storage: &dyn Storage) {
    let key = format!("{}/object", unique("update"));
    let update = |version: &str, body: &str| {
        storage.put(&key, body.to_owned().into(), PutMode::Update(version.to_owned()))
    };
    let first = storage.put(&key, "first".into(), PutMode::Create).await.unwrap();
    let second = update(&first, "second").await.unwrap();
    assert_eq!(storage.get_versioned(&key).await.unwrap(), ("second".into(), second.clone()));
    // One that is past, one that never was, one that is none.
    for stale in [&*first, "1-2-3.4", "\"0123456789abcdef\"-6", ""] {
        let refused = update(stale, "stale").await.unwrap_err();
        assert_eq!((refused.kind, &refused.key), (StorageErrorKind::Changed, &key), "{refused}");
        assert!(!refused.is_retryable());
        assert_eq!(storage.get_versioned(&key).await.unwrap(), ("second".into(), second.clone()));
    }
    // As large as what is written in parts.
    let large = Bytes::from(vec![7; 17 << 20]);
    let third = storage.put(&key, large.clone().into(), PutMode::Update(second.clone())).await.unwrap();
    let refused = storage.put(&key, large.clone().into(), PutMode::Update(second)).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::Changed);
    let (found, version) = storage.get_versioned(&key).await.unwrap();
    assert!(found == large && version == third);
    storage.delete(&key).await.unwrap();
    assert_eq!(kind(update(&third, "fourth").await), StorageErrorKind::NotFound);
    assert_eq!(kind(storage.get(&key).await), StorageErrorKind::NotFound);
    assert_eq!(kind(storage.get_versioned(&key).await), StorageErrorKind::NotFound);
}

pub(super) async fn put_tells_the_version(storage: &dyn Storage) {
    let key = unique("told");
    let mut versions = Vec::new();
    for body in [Bytes::from("a"), "b".into(), "a longer one".into(), vec![1; 17 << 20].into()] {
        for mode in [PutMode::Overwrite, PutMode::Create] {
            if mode == PutMode::Create {
                storage.delete(&key).await.unwrap();
            }
            let told = storage.put(&key, body.clone().into(), mode).await.unwrap();
            assert_eq!(storage.head(&key).await.unwrap().version, told);
            assert_eq!(storage.get_versioned(&key).await.unwrap().1, told);
            versions.push(told);
        }
    }
    // What was written twice may have one version, for it is the same.
    let differ = versions.chunks(2).map(|pair| &pair[0]).collect::<std::collections::HashSet<_>>();
    assert_eq!(differ.len(), 4, "{versions:?}");
}

pub(super) async fn probe_leaves_nothing(storage: &dyn Storage) {
    let folder = unique("probe");
    for _ in 0..2 {
        assert!(storage.probe(&format!("{folder}/probe")).await.unwrap());
        assert!(keys(storage, &format!("{folder}/")).await.is_empty());
    }
}

pub(super) async fn a_look_whether_writes_are_taken_leaves_nothing(storage: &dyn Storage) {
    let folder = unique("may-write");
    let key = format!("{folder}/object");
    storage.may_write(&key).await.unwrap();
    assert!(keys(storage, &format!("{folder}/")).await.is_empty());
    put(storage, &key, "there").await;
    storage.may_write(&key).await.unwrap();
    assert_eq!(storage.get(&key).await.unwrap(), "there");
}

pub(super) async fn ranges_are_cut_at_the_end(storage: &dyn Storage) {
    let key = unique("range");
    put(storage, &key, "0123456789").await;
    for (range, expected) in [
        (0..10, "0123456789"),
        (0..1, "0"),
        (3..7, "3456"),
        (9..10, "9"),
        (7..11, "789"),
        (0..u64::MAX, "0123456789"),
        (9..1_000_000, "9"),
        (10..20, ""),
        (11..20, ""),
        (4..4, ""),
        (0..0, ""),
    ] {
        let part = storage.get_range(&key, range.clone()).await;
        assert_eq!(part.unwrap(), expected, "{range:?}");
    }
    let empty = unique("empty");
    put(storage, &empty, "").await;
    assert_eq!(storage.get_range(&empty, 0..5).await.unwrap(), "");
}

pub(super) async fn copy_is_an_object_of_its_own(storage: &dyn Storage) {
    let (from, to) = (unique("from"), format!("{}/deep/copy", unique("to")));
    put(storage, &from, written_by(3)).await;
    for _ in 0..2 {
        storage.copy(&from, &to, IfExists::Overwrite).await.unwrap();
        assert!(get(storage, &to).await == written_by(3));
    }
    put(storage, &from, "changed").await;
    assert!(get(storage, &to).await == written_by(3), "the copy does not follow");
    storage.delete(&from).await.unwrap();
    assert!(get(storage, &to).await == written_by(3));
}

pub(super) async fn copy_of_an_absent_object_is_not_found(storage: &dyn Storage) {
    let (from, to) = (unique("from"), unique("to"));
    let error = storage.copy(&from, &to, IfExists::Overwrite).await.unwrap_err();
    assert_eq!((error.kind, &error.key), (StorageErrorKind::NotFound, &from));
    assert_eq!(kind(storage.get(&to).await), StorageErrorKind::NotFound);
}

pub(super) async fn copy_replaces_its_target(storage: &dyn Storage) {
    let (from, to) = (unique("from"), unique("to"));
    put(storage, &from, "new").await;
    put(storage, &to, "a longer old content").await;
    storage.copy(&from, &to, IfExists::Overwrite).await.unwrap();
    assert_eq!(get(storage, &to).await, "new");
    assert_eq!(get(storage, &from).await, "new");
}

pub(super) async fn new_copy_keeps_what_came_first(storage: &dyn Storage) {
    let (from, to) = (unique("from"), unique("to"));
    put(storage, &from, "new").await;
    storage.copy(&from, &to, IfExists::Fail).await.unwrap();
    // Also where it is the same.
    for there in ["new", "a longer old content"] {
        put(storage, &to, there).await;
        let error = storage.copy(&from, &to, IfExists::Fail).await.unwrap_err();
        assert_eq!((error.kind, &error.key), (StorageErrorKind::AlreadyExists, &to));
        assert_eq!(get(storage, &to).await, there);
    }
    assert_eq!(get(storage, &from).await, "new");
    let absent = storage.copy(&unique("absent"), &unique("never"), IfExists::Fail).await.unwrap_err();
    assert_eq!(absent.kind, StorageErrorKind::NotFound);
}

pub(super) async fn head_is_what_a_listing_says(storage: &dyn Storage) {
    let folder = unique("head");
    let (key, beside) = (format!("{folder}/a/b"), format!("{folder}/a/bc"));
    put(storage, &key, "four").await;
    put(storage, &beside, "").await;
    let listed = storage.list_all(&format!("{folder}/a/")).await.unwrap();
    // No listing has a checksum.
    let seen = ObjectMeta { checksum: None, ..storage.head(&key).await.unwrap() };
    assert_eq!(seen, listed[0]);
    assert_eq!(storage.head(&beside).await.unwrap().size, 0);
    for absent in [format!("{folder}/a"), format!("{folder}/absent"), format!("{folder}/a/b/c")] {
        assert_eq!(kind(storage.head(&absent).await), StorageErrorKind::NotFound, "{absent}");
    }
    assert_eq!(kind(storage.head("a/../b").await), StorageErrorKind::InvalidKey);
}

pub(super) async fn deleting_twice_succeeds(storage: &dyn Storage) {
    let folder = unique("delete");
    let (key, other) = (format!("{folder}/a"), format!("{folder}/b"));
    storage.delete(&key).await.unwrap();
    put(storage, &key, "x").await;
    put(storage, &other, "x").await;
    for _ in 0..2 {
        storage.delete(&key).await.unwrap();
        assert_eq!(kind(storage.get(&key).await), StorageErrorKind::NotFound);
    }
    assert_eq!(keys(storage, &format!("{folder}/")).await, [other]);
    put(storage, &key, "again").await;
    assert_eq!(get(storage, &key).await, "again");
}

/// Puts so many objects below `folder`, some of them deep.
async fn put_many(storage: &dyn Storage, folder: &str, count: usize) -> Vec<String> {
    let keys: Vec<String> =
        (0..count).map(|number| format!("{folder}/{}/a b&<é>{number:05}", number % 3)).collect();
    for chunk in keys.chunks(100) {
        join_all(chunk.iter().map(|key| put(storage, key, "x"))).await;
    }
    keys
}

pub(super) async fn many_objects_are_deleted_together(storage: &dyn Storage) {
    let folder = unique("delete-many");
    let prefix = format!("{folder}/");
    storage.delete_all(&[]).await.unwrap();
    // More than a server takes in one request, absent ones and one twice among them.
    let mut doomed = put_many(storage, &folder, 1_100).await;
    let kept = doomed.split_off(1_050);
    doomed.extend((0..20).map(|number| format!("{folder}/absent/{number}")));
    doomed.push(doomed[7].clone());
    for _ in 0..2 {
        storage.delete_all(&doomed).await.unwrap();
        let mut left = kept.clone();
        left.sort_unstable();
        assert_eq!(keys(storage, &prefix).await, left);
    }
    let malformed = [kept[0].clone(), "a/../b".to_owned()];
    assert_eq!(kind(storage.delete_all(&malformed).await), StorageErrorKind::InvalidKey);
    assert_eq!(get(storage, &kept[0]).await, "x", "nothing is deleted when a key is malformed");
    storage.delete_all(&kept[..1]).await.unwrap();
    assert_eq!(kind(storage.get(&kept[0]).await), StorageErrorKind::NotFound);
    storage.delete_all(&kept).await.unwrap();
    assert!(keys(storage, &prefix).await.is_empty());
}

pub(super) async fn everything_below_a_folder_is_deleted(storage: &dyn Storage) {
    let folder = unique("delete-below");
    let beside = format!("{folder}-beside");
    put(storage, &beside, "x").await;
    for count in [0, 1, 2_100] {
        put_many(storage, &folder, count).await;
        storage.delete_below(&format!("{folder}/"), None).await.unwrap();
        assert!(keys(storage, &format!("{folder}/")).await.is_empty());
    }
    assert_eq!(get(storage, &beside).await, "x");
}

pub(super) async fn download_is_the_object(storage: &dyn Storage) {
    let folder = tempfile::tempdir().unwrap();
    for size in [0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1] {
        let key = unique("download");
        let body: Vec<u8> = (0..size).map(|at: usize| (at % 251) as u8).collect();
        put(storage, &key, body.clone()).await;
        let file = folder.path().join("file");
        assert_eq!(storage.download(&key, &file, None).await.unwrap(), size as u64);
        assert!(std::fs::read(&file).unwrap() == body, "{size} bytes");
        storage.delete(&key).await.unwrap();
    }
    let absent = storage.download(&unique("absent"), &folder.path().join("none"), None).await.unwrap_err();
    assert!(
        matches!(&absent, TransferError::Store(error) if error.kind == StorageErrorKind::NotFound),
        "{absent}"
    );
    // A folder that is missing is no missing object.
    let key = unique("download");
    put(storage, &key, "x").await;
    let missing = storage.download(&key, &folder.path().join("no/folder"), None).await.unwrap_err();
    assert!(matches!(missing, TransferError::Disk(_)), "{missing}");
}

pub(super) async fn version_changes_with_the_object(storage: &dyn Storage) {
    let folder = unique("version");
    let key = format!("{folder}/a");
    put(storage, &key, "one").await;
    let version = || async { storage.list_all(&format!("{folder}/")).await.unwrap().remove(0).version };
    let first = version().await;
    assert_eq!(version().await, first);
    put(storage, &key, "two").await;
    assert_ne!(version().await, first);
    storage.delete(&key).await.unwrap();
}

/// Reads `range` of one version of an object.
async fn part_of(
    storage: &dyn Storage,
    key: &str,
    range: Range<u64>,
    version: &str,
) -> Result<Bytes, StorageError> {
    let options = GetOptions { range: Some(range), version: Some(version.to_owned()) };
    storage.get_opts(key, options).await.map(|read| read.bytes)
}

/// Downloads one version of an object.
async fn download_of(
    storage: &dyn Storage,
    key: &str,
    file: &Path,
    version: &str,
) -> Result<u64, StorageError> {
    storage.download(key, file, Some(version)).await.map_err(|error| match error {
        TransferError::Store(error) => error,
        TransferError::Disk(error) => panic!("{error}"),
    })
}

pub(super) async fn one_version_is_read_and_no_other(storage: &dyn Storage) {
    let local = tempfile::tempdir().unwrap();
    let file = local.path().join("file");
    let key = unique("one-version");
    let (first, second) = (vec![1; (8 << 20) + 5], vec![2; (8 << 20) + 5]);
    put(storage, &key, first.clone()).await;
    let version = storage.head(&key).await.unwrap().version;
    let ranges = [0..5, (8 << 20)..(8 << 20) + 100, 7..7];
    for range in ranges.clone() {
        let expected = storage.get_range(&key, range.clone()).await.unwrap();
        assert_eq!(part_of(storage, &key, range, &version).await.unwrap(), expected);
    }
    assert_eq!(download_of(storage, &key, &file, &version).await.unwrap(), first.len() as u64);
    assert!(std::fs::read(&file).unwrap() == first);

    put(storage, &key, second).await;
    for range in ranges.clone() {
        assert_eq!(kind(part_of(storage, &key, range, &version).await), StorageErrorKind::Changed);
    }
    assert_eq!(kind(download_of(storage, &key, &file, &version).await), StorageErrorKind::Changed);
    storage.delete(&key).await.unwrap();
    for range in ranges {
        assert_eq!(kind(part_of(storage, &key, range, &version).await), StorageErrorKind::NotFound);
    }
    assert_eq!(kind(download_of(storage, &key, &file, &version).await), StorageErrorKind::NotFound);
}
