//! Listings: their order, what is in them, where they go on.

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use prs_common::storage::{FolderEntry, Storage, StorageExt};

use super::{keys, put};
use crate::conformance::unique;

pub(super) async fn listing_is_sorted_bytewise(storage: &dyn Storage) {
    let folder = unique("sorted");
    // A folder's walk gives `a/` before `a-b` or after `a0`; bytes say `a-b`, `a/b/c`, `a0`.
    let names = ["a-b", "a.b", "a/b-c", "a/b/c", "a/b0", "a0", "B", "a b", "b/a", "é/x", "z", "10", "9", "~"];
    let mut expected = names.map(|name| format!("{folder}/{name}"));
    for name in names {
        put(storage, &format!("{folder}/{name}"), name).await;
    }
    expected.sort_unstable();
    assert_eq!(keys(storage, &format!("{folder}/")).await, expected);
    let sizes = storage.list_all(&format!("{folder}/")).await.unwrap();
    assert!(sizes.iter().all(|object| object.size as usize == object.key.len() - folder.len() - 1));
}

pub(super) async fn listing_is_of_one_folder(storage: &dyn Storage) {
    let folder = unique("one");
    for name in ["in/a", "in/deep/b", "in-side", "in0", "inner/c", "out"] {
        put(storage, &format!("{folder}/{name}"), "x").await;
    }
    let below = |names: &[&str]| names.iter().map(|name| format!("{folder}/{name}")).collect::<Vec<_>>();
    assert_eq!(keys(storage, &format!("{folder}/in/")).await, below(&["in/a", "in/deep/b"]));
    assert_eq!(keys(storage, &format!("{folder}/in/deep/")).await, below(&["in/deep/b"]));
    assert!(keys(storage, &format!("{folder}/none/")).await.is_empty());
    let all = keys(storage, "").await;
    assert!(below(&["in/a", "out"]).iter().all(|key| all.contains(key)));
    assert!(all.is_sorted());
}

pub(super) async fn listing_shows_what_was_written_before(storage: &dyn Storage) {
    let folder = unique("before");
    let prefix = format!("{folder}/");
    for number in 0..20 {
        put(storage, &format!("{prefix}{number:02}"), "x").await;
        assert_eq!(keys(storage, &prefix).await.len(), number + 1);
    }
    for number in 0..20 {
        storage.delete(&format!("{prefix}{number:02}")).await.unwrap();
        assert_eq!(keys(storage, &prefix).await.len(), 19 - number);
    }
}

pub(super) async fn listing_of_many_objects_is_whole(storage: &dyn Storage) {
    // More than a server returns at a time.
    const OBJECTS: usize = 2_300;
    let folder = unique("many");
    let expected: Vec<String> = (0..OBJECTS).map(|number| format!("{folder}/{number:05}")).collect();
    for chunk in expected.chunks(100) {
        join_all(chunk.iter().map(|key| put(storage, key, "x"))).await;
    }
    assert_eq!(keys(storage, &format!("{folder}/")).await, expected);
    storage.delete_all(&expected).await.unwrap();
}

pub(super) async fn listing_goes_on_where_it_stopped(storage: &dyn Storage) {
    let folder = unique("pages");
    let expected = ["a", "a-b", "a/b", "b"].map(|name| format!("{folder}/{name}"));
    let expected = &expected[1..];
    for key in expected {
        put(storage, key, "x").await;
    }
    let prefix = format!("{folder}/");
    let listed = async |after: &str| {
        let objects = storage.list(&prefix, after).map_ok(|object| object.key);
        objects.try_collect::<Vec<String>>().await.unwrap()
    };
    assert_eq!(listed("").await, expected);
    for (after, left) in
        [(&*expected[0], 2), (&expected[1], 1), (&expected[2], 0), (&format!("{folder}/a"), 3)]
    {
        assert_eq!(listed(after).await, expected[3 - left..], "{after}");
    }
}

pub(super) async fn listing_of_a_folder_has_its_folders(storage: &dyn Storage) {
    let folder = unique("folders");
    let below = |names: &[&str]| names.iter().map(|name| format!("{folder}/{name}")).collect::<Vec<_>>();
    for key in below(&["a-b", "a/1", "a/deep/2", "b/1", "b0", "c/1"]) {
        put(storage, &key, "x").await;
    }
    let listed = async |prefix: &str, after: &str| {
        let after = if after.is_empty() { String::new() } else { format!("{folder}/{after}") };
        let entries = storage.list_folder(&format!("{folder}/{prefix}"), &after);
        let entries: Vec<FolderEntry> = entries.try_collect().await.unwrap();
        assert!(entries.iter().all(|entry| match entry {
            FolderEntry::Folder(key) => key.ends_with('/'),
            FolderEntry::Object(object) => object.size == 1 && !object.key.ends_with('/'),
        }));
        entries.iter().map(|entry| entry.key().to_owned()).collect::<Vec<_>>()
    };
    let all = ["a-b", "a/", "b/", "b0", "c/"];
    for (at, after) in ["", "a-b", "a/", "b/", "b0", "c/"].into_iter().enumerate() {
        assert_eq!(listed("", after).await, below(&all[at..]), "behind {after:?}");
    }
    assert_eq!(listed("a/", "").await, below(&["a/1", "a/deep/"]));
    assert!(listed("none/", "").await.is_empty());
}
