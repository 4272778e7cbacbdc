//! What every storage must do (the contract is on [`Storage`]).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use prs_common::storage::{PutOptions, Storage, StorageError, StorageErrorKind};

use super::unique;
use crate::deadline::within;

/// Hands the list of cases to `$crate::$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __storage_cases {
    ($expand:ident, $($context:tt)+) => {
        $crate::$expand! { $($context)+;
            object_comes_back_as_it_was_put
            put_replaces_an_object
            absent_object_is_not_found
            folder_of_objects_is_not_an_object
            if_absent_keeps_the_first
            racing_writers_of_a_new_object_have_one_winner
            racing_writers_of_one_object_never_mix
            reader_never_meets_a_part
            ranges_are_cut_at_the_end
            parts_are_one_object
            large_object_by_parts
            file_is_moved_into_the_store
            file_that_is_absent_moves_nothing
            upload_is_seen_when_finished
            upload_that_is_dropped_leaves_nothing
            upload_of_nothing_is_an_empty_object
            racing_uploads_of_one_object_never_mix
            copy_is_an_object_of_its_own
            copy_of_an_absent_object_is_not_found
            copy_replaces_its_target
            listing_is_sorted_bytewise
            listing_is_of_one_folder
            listing_shows_what_was_written_before
            listing_of_many_objects_is_whole
            listing_goes_on_where_it_stopped
            head_is_what_a_listing_says
            deleting_twice_succeeds
            names_of_any_letters
            malformed_keys_are_refused
            uri_names_the_object
            part_of_a_store_is_a_store
            download_is_the_object
            version_changes_with_the_object
        }
    };
}

/// One test for each case: `storage_conformance!((storage, kept))`.
#[macro_export]
macro_rules! storage_conformance {
    ($factory:expr) => {
        $crate::__storage_cases!(__expand_cases, tests storage, $factory);
    };
}

__storage_cases!(__expand_cases, run dyn Storage);

const REPLACE: PutOptions = PutOptions { if_absent: false };
const NEW: PutOptions = PutOptions { if_absent: true };

async fn put(storage: &dyn Storage, key: &str, body: impl Into<Bytes>) {
    storage.put(key, body.into(), REPLACE).await.unwrap();
}

async fn get(storage: &dyn Storage, key: &str) -> Bytes {
    storage.get(key).await.unwrap()
}

async fn keys(storage: &dyn Storage, prefix: &str) -> Vec<String> {
    storage.list(prefix).await.unwrap().into_iter().map(|object| object.key).collect()
}

fn kind<T>(outcome: Result<T, StorageError>) -> StorageErrorKind {
    outcome.err().expect("the call must fail").kind
}

/// The content of writer `number`: its length and its bytes tell it from all others.
fn written_by(number: usize) -> Bytes {
    vec![b'a' + number as u8; 300_000 + number].into()
}

async fn object_comes_back_as_it_was_put(storage: &dyn Storage) {
    let folder = unique("back");
    let every_byte: Bytes = (0..=u8::MAX).collect();
    for (name, body) in [("empty", Bytes::new()), ("bytes", every_byte), ("deep/er/still", written_by(0))] {
        let key = format!("{folder}/{name}");
        put(storage, &key, body.clone()).await;
        assert_eq!(get(storage, &key).await, body, "{name}");
        let listed = storage.list(&format!("{folder}/")).await.unwrap();
        let size = body.len() as u64;
        assert!(listed.iter().any(|found| found.key == key && found.size == size), "{listed:?}");
    }
}

async fn put_replaces_an_object(storage: &dyn Storage) {
    let key = unique("replace");
    put(storage, &key, "a long first content").await;
    put(storage, &key, "second").await;
    put(storage, &key, "second").await;
    assert_eq!(get(storage, &key).await, "second");
    storage.put_parts(&key, vec![Bytes::from("th"), Bytes::from("ird")]).await.unwrap();
    assert_eq!(get(storage, &key).await, "third");
}

async fn absent_object_is_not_found(storage: &dyn Storage) {
    let folder = unique("absent");
    for key in [folder.clone(), format!("{folder}/deep/er")] {
        let error = storage.get(&key).await.unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::NotFound);
        assert!(!error.is_retryable());
        assert_eq!(error.key, key);
        assert!(error.to_string().contains(&key), "{error}");
        assert_eq!(kind(storage.get_range(&key, 0..1).await), StorageErrorKind::NotFound);
    }
    assert!(storage.list(&format!("{folder}/")).await.unwrap().is_empty());
    // Nothing is below an object.
    put(storage, &folder, "object").await;
    assert_eq!(kind(storage.get(&format!("{folder}/below")).await), StorageErrorKind::NotFound);
    storage.delete(&format!("{folder}/below")).await.unwrap();
    assert!(storage.list(&format!("{folder}/")).await.unwrap().is_empty());
}

async fn folder_of_objects_is_not_an_object(storage: &dyn Storage) {
    let folder = unique("folder");
    put(storage, &format!("{folder}/object"), "content").await;
    assert_eq!(kind(storage.get(&folder).await), StorageErrorKind::NotFound);
    assert_eq!(kind(storage.get_range(&folder, 0..1).await), StorageErrorKind::NotFound);
    assert_eq!(kind(storage.copy(&folder, &unique("copy")).await), StorageErrorKind::NotFound);
    storage.delete(&folder).await.unwrap();
    assert_eq!(get(storage, &format!("{folder}/object")).await, "content");
}

async fn if_absent_keeps_the_first(storage: &dyn Storage) {
    let key = unique("new");
    storage.put(&key, "first".into(), NEW).await.unwrap();
    let refused = storage.put(&key, "second".into(), NEW).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::AlreadyExists);
    assert!(!refused.is_retryable());
    assert_eq!(get(storage, &key).await, "first");
    storage.delete(&key).await.unwrap();
    storage.put(&key, "third".into(), NEW).await.unwrap();
    assert_eq!(get(storage, &key).await, "third");
}

async fn racing_writers_of_a_new_object_have_one_winner(storage: &dyn Storage) {
    for _ in 0..5 {
        let key = format!("{}/object", unique("winner"));
        let outcomes = join_all((0..16).map(|number| storage.put(&key, written_by(number), NEW))).await;
        let winners: Vec<_> = (0..16).filter(|number| outcomes[*number].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let others = outcomes.into_iter().filter_map(Result::err);
        assert!(others.into_iter().all(|error| error.kind == StorageErrorKind::AlreadyExists));
        assert!(get(storage, &key).await == written_by(winners[0]), "the object is the winner's");
    }
}

async fn racing_writers_of_one_object_never_mix(storage: &dyn Storage) {
    let key = format!("{}/object", unique("mix"));
    let writers = (0..8).map(|number| {
        let key = &key;
        async move {
            for _ in 0..5 {
                put(storage, key, written_by(number)).await;
                let seen = get(storage, key).await;
                assert!((0..8).any(|writer| seen == written_by(writer)), "{} mixed bytes", seen.len());
            }
        }
    });
    join_all(writers).await;
}

async fn reader_never_meets_a_part(storage: &dyn Storage) {
    let folder = unique("whole");
    let key = format!("{folder}/object");
    let done = AtomicBool::new(false);
    let write = async {
        for number in 0..20 {
            match number % 3 {
                0 => put(storage, &key, written_by(number)).await,
                1 => {
                    let whole = written_by(number);
                    let parts = vec![whole.slice(..1), whole.slice(1..200_000), whole.slice(200_000..)];
                    storage.put_parts(&key, parts).await.unwrap();
                }
                _ => {
                    let mut upload = storage.upload(&key).await.unwrap();
                    for part in written_by(number).chunks(50_000) {
                        upload.write(Bytes::copy_from_slice(part)).await.unwrap();
                    }
                    upload.finish().await.unwrap();
                }
            }
        }
        done.store(true, Ordering::SeqCst);
    };
    let read = async {
        let mut reads = 0;
        while !done.load(Ordering::SeqCst) {
            match storage.get(&key).await {
                Ok(seen) => {
                    assert!(
                        (0..20).any(|number| seen == written_by(number)),
                        "{} bytes of a part",
                        seen.len()
                    );
                    reads += 1;
                }
                Err(error) => assert_eq!((error.kind, reads), (StorageErrorKind::NotFound, 0), "{error}"),
            }
            for object in storage.list(&format!("{folder}/")).await.unwrap() {
                assert_eq!(object.key, key, "nothing but the object is seen");
                assert!((300_000..300_020).contains(&object.size), "{} bytes of a part", object.size);
            }
        }
        reads
    };
    let ((), reads) = within("all writes", async { tokio::join!(write, read) }).await;
    assert!(reads > 0, "the reader never met the object");
}

async fn ranges_are_cut_at_the_end(storage: &dyn Storage) {
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

async fn parts_are_one_object(storage: &dyn Storage) {
    let folder = unique("parts");
    let texts = |parts: &[&'static str]| parts.iter().map(|part| Bytes::from(*part)).collect::<Vec<_>>();
    for (name, parts) in [("none", vec![]), ("one", vec!["whole"]), ("more", vec!["a", "", "bc", "def"])] {
        let key = format!("{folder}/{name}");
        storage.put_parts(&key, texts(&parts)).await.unwrap();
        assert_eq!(get(storage, &key).await, parts.concat());
    }
}

async fn large_object_by_parts(storage: &dyn Storage) {
    const PART: usize = 3 << 20;
    const PARTS: usize = 8;
    let part = |number: usize| Bytes::from(vec![number as u8; PART]);
    let (by_upload, by_parts) = (unique("large"), unique("large"));
    let mut upload = storage.upload(&by_upload).await.unwrap();
    for number in 0..PARTS {
        upload.write(part(number)).await.unwrap();
    }
    upload.write(Bytes::from("end")).await.unwrap();
    upload.finish().await.unwrap();
    let parts = (0..PARTS).map(part).chain([Bytes::from("end")]).collect();
    storage.put_parts(&by_parts, parts).await.unwrap();
    for key in [&by_upload, &by_parts] {
        let whole = get(storage, key).await;
        assert_eq!(whole.len(), PART * PARTS + 3);
        assert!(whole.chunks(PART).take(PARTS).enumerate().all(|(at, seen)| seen == part(at)), "{key}");
        let border = (PART * 5 - 1) as u64;
        assert_eq!(storage.get_range(key, border..border + 2).await.unwrap()[..], [4, 5]);
        let end = (PART * PARTS) as u64;
        assert_eq!(storage.get_range(key, end..end + 100).await.unwrap(), "end");
        storage.delete(key).await.unwrap();
    }
}

async fn file_is_moved_into_the_store(storage: &dyn Storage) {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("{}/deep/object", unique("file"));
    for content in [written_by(1), written_by(2), Bytes::new()] {
        let file = folder.path().join("file");
        std::fs::write(&file, &content).unwrap();
        storage.put_file(&key, &file).await.unwrap();
        assert!(!file.exists(), "the file is consumed");
        assert!(get(storage, &key).await == content);
    }
}

async fn file_that_is_absent_moves_nothing(storage: &dyn Storage) {
    let folder = tempfile::tempdir().unwrap();
    let (kept, never) = (unique("kept"), unique("never"));
    put(storage, &kept, "before").await;
    let absent = folder.path().join("absent");
    for key in [&kept, &never] {
        assert_eq!(kind(storage.put_file(key, &absent).await), StorageErrorKind::NotFound);
    }
    assert_eq!(get(storage, &kept).await, "before");
    assert_eq!(kind(storage.get(&never).await), StorageErrorKind::NotFound);
    // A key that is refused costs nobody the file.
    let file = folder.path().join("file");
    std::fs::write(&file, "content").unwrap();
    assert_eq!(kind(storage.put_file("../out", &file).await), StorageErrorKind::InvalidKey);
    assert_eq!(std::fs::read(&file).unwrap(), b"content");
}

async fn upload_is_seen_when_finished(storage: &dyn Storage) {
    let folder = unique("upload");
    let key = format!("{folder}/object");
    let mut upload = storage.upload(&key).await.unwrap();
    for part in ["one,", "", "two,", "three"] {
        upload.write(part.into()).await.unwrap();
        assert_eq!(kind(storage.get(&key).await), StorageErrorKind::NotFound);
        assert!(storage.list(&format!("{folder}/")).await.unwrap().is_empty());
    }
    upload.finish().await.unwrap();
    assert_eq!(get(storage, &key).await, "one,two,three");
    // The former content stays until a new one is finished.
    let mut upload = storage.upload(&key).await.unwrap();
    upload.write("later".into()).await.unwrap();
    assert_eq!(get(storage, &key).await, "one,two,three");
    upload.finish().await.unwrap();
    assert_eq!(get(storage, &key).await, "later");
}

async fn upload_that_is_dropped_leaves_nothing(storage: &dyn Storage) {
    let folder = unique("dropped");
    let key = format!("{folder}/object");
    for parts in [0, 1, 3] {
        let mut upload = storage.upload(&key).await.unwrap();
        for part in 0..parts {
            upload.write(written_by(part)).await.unwrap();
        }
        drop(upload);
        assert_eq!(kind(storage.get(&key).await), StorageErrorKind::NotFound);
        assert!(storage.list(&format!("{folder}/")).await.unwrap().is_empty());
    }
    put(storage, &key, "kept").await;
    let mut upload = storage.upload(&key).await.unwrap();
    upload.write("lost".into()).await.unwrap();
    drop(upload);
    assert_eq!(get(storage, &key).await, "kept");
}

async fn upload_of_nothing_is_an_empty_object(storage: &dyn Storage) {
    let key = unique("nothing");
    storage.upload(&key).await.unwrap().finish().await.unwrap();
    assert_eq!(get(storage, &key).await, "");
}

async fn racing_uploads_of_one_object_never_mix(storage: &dyn Storage) {
    let key = format!("{}/object", unique("uploads"));
    let uploads = (0..6).map(|number| {
        let key = &key;
        async move {
            let mut upload = storage.upload(key).await.unwrap();
            for part in written_by(number).chunks(40_000) {
                upload.write(Bytes::copy_from_slice(part)).await.unwrap();
                tokio::task::yield_now().await;
            }
            upload.finish().await.unwrap();
        }
    });
    join_all(uploads).await;
    let seen = get(storage, &key).await;
    assert!((0..6).any(|number| seen == written_by(number)), "{} mixed bytes", seen.len());
}

async fn copy_is_an_object_of_its_own(storage: &dyn Storage) {
    let (from, to) = (unique("from"), format!("{}/deep/copy", unique("to")));
    put(storage, &from, written_by(3)).await;
    for _ in 0..2 {
        storage.copy(&from, &to).await.unwrap();
        assert!(get(storage, &to).await == written_by(3));
    }
    put(storage, &from, "changed").await;
    assert!(get(storage, &to).await == written_by(3), "the copy does not follow");
    storage.delete(&from).await.unwrap();
    assert!(get(storage, &to).await == written_by(3));
}

async fn copy_of_an_absent_object_is_not_found(storage: &dyn Storage) {
    let (from, to) = (unique("from"), unique("to"));
    let error = storage.copy(&from, &to).await.unwrap_err();
    assert_eq!((error.kind, &error.key), (StorageErrorKind::NotFound, &from));
    assert_eq!(kind(storage.get(&to).await), StorageErrorKind::NotFound);
}

async fn copy_replaces_its_target(storage: &dyn Storage) {
    let (from, to) = (unique("from"), unique("to"));
    put(storage, &from, "new").await;
    put(storage, &to, "a longer old content").await;
    storage.copy(&from, &to).await.unwrap();
    assert_eq!(get(storage, &to).await, "new");
    assert_eq!(get(storage, &from).await, "new");
}

async fn listing_is_sorted_bytewise(storage: &dyn Storage) {
    let folder = unique("sorted");
    // A folder's walk gives `a/` before `a-b` or after `a0`; bytes say `a-b`, `a/b/c`, `a0`.
    let names = ["a-b", "a.b", "a/b-c", "a/b/c", "a/b0", "a0", "B", "a b", "b/a", "é/x", "z", "10", "9", "~"];
    let mut expected = names.map(|name| format!("{folder}/{name}"));
    for name in names {
        put(storage, &format!("{folder}/{name}"), name).await;
    }
    expected.sort_unstable();
    assert_eq!(keys(storage, &format!("{folder}/")).await, expected);
    let sizes = storage.list(&format!("{folder}/")).await.unwrap();
    assert!(sizes.iter().all(|object| object.size as usize == object.key.len() - folder.len() - 1));
}

async fn listing_is_of_one_folder(storage: &dyn Storage) {
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

async fn listing_shows_what_was_written_before(storage: &dyn Storage) {
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

async fn listing_of_many_objects_is_whole(storage: &dyn Storage) {
    // More than a server returns at a time.
    const OBJECTS: usize = 2_300;
    let folder = unique("many");
    let expected: Vec<String> = (0..OBJECTS).map(|number| format!("{folder}/{number:05}")).collect();
    for chunk in expected.chunks(100) {
        join_all(chunk.iter().map(|key| put(storage, key, "x"))).await;
    }
    assert_eq!(keys(storage, &format!("{folder}/")).await, expected);
    for chunk in expected.chunks(100) {
        join_all(chunk.iter().map(|key| async { storage.delete(key).await.unwrap() })).await;
    }
}

async fn listing_goes_on_where_it_stopped(storage: &dyn Storage) {
    let folder = unique("pages");
    let expected = ["a", "a-b", "a/b", "b"].map(|name| format!("{folder}/{name}"));
    let expected = &expected[1..];
    for key in expected {
        put(storage, key, "x").await;
    }
    let prefix = format!("{folder}/");
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().cloned().unwrap_or_default();
        let page = storage.list_after(&prefix, &after).await.unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|object| object.key));
    }
    assert_eq!(seen, expected);
    assert_eq!(storage.list_after(&prefix, &expected[1]).await.unwrap().len(), 1);
}

async fn head_is_what_a_listing_says(storage: &dyn Storage) {
    let folder = unique("head");
    let (key, beside) = (format!("{folder}/a/b"), format!("{folder}/a/bc"));
    put(storage, &key, "four").await;
    put(storage, &beside, "").await;
    let listed = storage.list(&format!("{folder}/a/")).await.unwrap();
    assert_eq!(storage.head(&key).await.unwrap(), listed[0]);
    assert_eq!(storage.head(&beside).await.unwrap().size, 0);
    for absent in [format!("{folder}/a"), format!("{folder}/absent"), format!("{folder}/a/b/c")] {
        assert_eq!(kind(storage.head(&absent).await), StorageErrorKind::NotFound, "{absent}");
    }
    assert_eq!(kind(storage.head("a/../b").await), StorageErrorKind::InvalidKey);
}

async fn deleting_twice_succeeds(storage: &dyn Storage) {
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

async fn names_of_any_letters(storage: &dyn Storage) {
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

async fn malformed_keys_are_refused(storage: &dyn Storage) {
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
        refused(storage.put(key, "x".into(), REPLACE).await);
        refused(storage.put(key, "x".into(), NEW).await);
        refused(storage.put_parts(key, vec!["x".into()]).await);
        refused(storage.put_file(key, Path::new(&file)).await);
        refused(storage.upload(key).await.map(drop));
        refused(storage.get(key).await.map(drop));
        refused(storage.get_range(key, 0..1).await.map(drop));
        refused(storage.copy(&source, key).await);
        refused(storage.copy(key, &unique("target")).await);
        refused(storage.delete(key).await);
        if !key.is_empty() && key != "a/" {
            refused(storage.list(key).await.map(drop));
        }
    }
    assert!(file.exists());
}

async fn uri_names_the_object(storage: &dyn Storage) {
    let key = unique("uri");
    let place = storage.uri("");
    let uri = storage.uri(&key);
    assert!(uri.starts_with(&place) && uri.ends_with(&key), "{uri} in {place}");
    assert!(!storage.to_string().is_empty());
}

async fn part_of_a_store_is_a_store(storage: &dyn Storage) {
    let folder = unique("below");
    let below = storage.below(&folder).below("inner");
    put(&*below, "a/b", "x").await;
    assert_eq!(get(storage, &format!("{folder}/inner/a/b")).await, "x");
    assert_eq!(keys(&*below, "").await, ["a/b"]);
    assert_eq!(below.uri("a/b"), storage.uri(&format!("{folder}/inner/a/b")));
    below.delete("a/b").await.unwrap();
    assert!(keys(storage, &format!("{folder}/")).await.is_empty());
}

async fn download_is_the_object(storage: &dyn Storage) {
    let folder = tempfile::tempdir().unwrap();
    for size in [0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1] {
        let key = unique("download");
        let body: Vec<u8> = (0..size).map(|at: usize| (at % 251) as u8).collect();
        put(storage, &key, body.clone()).await;
        let file = folder.path().join("file");
        assert_eq!(storage.download(&key, &file).await.unwrap(), size as u64);
        assert!(std::fs::read(&file).unwrap() == body, "{size} bytes");
        storage.delete(&key).await.unwrap();
    }
    let absent = storage.download(&unique("absent"), &folder.path().join("none")).await.unwrap_err();
    assert_eq!(absent.kind, StorageErrorKind::NotFound);
}

async fn version_changes_with_the_object(storage: &dyn Storage) {
    let folder = unique("version");
    let key = format!("{folder}/a");
    put(storage, &key, "one").await;
    let version = || async { storage.list(&format!("{folder}/")).await.unwrap().remove(0).version };
    let first = version().await;
    assert_eq!(version().await, first);
    put(storage, &key, "two").await;
    assert_ne!(version().await, first);
    storage.delete(&key).await.unwrap();
}
