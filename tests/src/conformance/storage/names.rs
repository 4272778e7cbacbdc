//! Names of objects, and stores that are parts of stores.

use bytes::Bytes;
use prs_common::storage::{IfExists, Payload, PutMode, Storage, StorageError, StorageErrorKind, StorageExt};

use super::{get, keys, kind, put};
use crate::conformance::unique;

pub(super) async fn names_of_any_letters(storage: &dyn Storage) {
    let folder = unique("names");
    let names = [
        "with space",
        "ünï/çödé",
        "日本",
        "a+b",
        "a%20b",
        "a?b#c&d=e",
        "...",
        ".hidden",
        "quote'\"",
        "a:b*c",
    ];
    for name in names {
        put(storage, &format!("{folder}/{name}"), name).await;
    }
    for name in names {
        assert_eq!(get(storage, &format!("{folder}/{name}")).await, name);
    }
    let mut expected = names.map(|name| format!("{folder}/{name}"));
    expected.sort_unstable();
    assert_eq!(keys(storage, &format!("{folder}/")).await, expected);
}

pub(super) async fn malformed_keys_are_refused(storage: &dyn Storage) {
    let long = "a/".repeat(600) + "a";
    let malformed = [
        "", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/../b", "a/./b", "a/..", "a\0b", "a\\b",
        &long,
    ];
    let source = unique("source");
    put(storage, &source, "x").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for key in malformed {
        let refused = |outcome: Result<(), StorageError>| {
            let error = outcome.expect_err(key);
            assert_eq!(error.kind, StorageErrorKind::InvalidKey, "{key:?}: {error}");
            assert!(!error.is_retryable());
        };
        refused(storage.put(key, "x".into(), PutMode::Overwrite).await.map(drop));
        refused(storage.put(key, "x".into(), PutMode::Create).await.map(drop));
        refused(storage.put(key, vec![Bytes::from("x")].into(), PutMode::Create).await.map(drop));
        refused(storage.put(key, Payload::File(file.clone()), PutMode::Overwrite).await.map(drop));
        refused(storage.writer(key, IfExists::Overwrite).await.map(drop));
        refused(storage.get(key).await.map(drop));
        refused(storage.get_range(key, 0..1).await.map(drop));
        refused(storage.copy(&source, key, IfExists::Overwrite).await);
        refused(storage.copy(key, &unique("target"), IfExists::Overwrite).await);
        refused(storage.delete(key).await);
        if !key.is_empty() && key != "a/" {
            refused(storage.list_all(key).await.map(drop));
        }
    }
    assert!(file.exists());
}

pub(super) async fn uri_names_the_object(storage: &dyn Storage) {
    let key = unique("uri");
    let place = storage.uri("");
    let uri = storage.uri(&key);
    assert!(uri.starts_with(&place) && uri.ends_with(&key), "{uri} in {place}");
    assert!(!storage.to_string().is_empty());
}

pub(super) async fn part_of_a_store_is_a_store(storage: &dyn Storage) {
    let folder = unique("below");
    let below = storage.below(&folder).below("inner");
    put(&*below, "a/b", "x").await;
    assert_eq!(get(storage, &format!("{folder}/inner/a/b")).await, "x");
    assert_eq!(keys(&*below, "").await, ["a/b"]);
    assert_eq!(below.uri("a/b"), storage.uri(&format!("{folder}/inner/a/b")));
    below.delete("a/b").await.unwrap();
    assert!(keys(storage, &format!("{folder}/")).await.is_empty());
}

pub(super) async fn longest_key_is_the_longest(storage: &dyn Storage) {
    let folder = format!("{}/", unique("longest"));
    let rest = storage.longest_key() - folder.len();
    let parts = "x".repeat(200) + "/";
    let key = format!("{folder}{}", &parts.repeat(6)[..rest].trim_end_matches('/'));
    let key = format!("{key}{}", "y".repeat(storage.longest_key() - key.len()));
    put(storage, &key, "x").await;
    assert_eq!(keys(storage, &folder).await, std::slice::from_ref(&key));
    let longer = storage.put(&format!("{key}y"), "x".into(), PutMode::Create).await;
    assert_eq!(kind(longer), StorageErrorKind::InvalidKey);
    storage.delete(&key).await.unwrap();
    let below = storage.below("some/prefix");
    assert!(below.longest_key() <= storage.longest_key());
}
