//! Objects that come in parts, from files and as uploads.

use bytes::Bytes;
use prs_common::storage::{IfExists, Payload, PutMode, Storage, StorageErrorKind, StorageExt};

use super::{get, kind, put, written_by};
use crate::conformance::unique;

pub(super) async fn parts_are_one_object(storage: &dyn Storage) {
    let folder = unique("parts");
    let texts = |parts: &[&'static str]| parts.iter().map(|part| Bytes::from(*part)).collect::<Vec<_>>();
    for (name, parts) in [("none", vec![]), ("one", vec!["whole"]), ("more", vec!["a", "", "bc", "def"])] {
        let key = format!("{folder}/{name}");
        storage.put(&key, texts(&parts).into(), PutMode::Overwrite).await.unwrap();
        assert_eq!(get(storage, &key).await, parts.concat());
    }
}

pub(super) async fn large_object_by_parts(storage: &dyn Storage) {
    const PART: usize = 3 << 20;
    const PARTS: usize = 8;
    let part = |number: usize| Bytes::from(vec![number as u8; PART]);
    let (by_upload, by_parts) = (unique("large"), unique("large"));
    let mut upload = storage.writer(&by_upload, IfExists::Overwrite).await.unwrap();
    for number in 0..PARTS {
        upload.write(part(number)).await.unwrap();
    }
    upload.write(Bytes::from("end")).await.unwrap();
    upload.finish().await.unwrap();
    let parts: Vec<_> = (0..PARTS).map(part).chain([Bytes::from("end")]).collect();
    storage.put(&by_parts, parts.into(), PutMode::Overwrite).await.unwrap();
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

pub(super) async fn file_is_moved_into_the_store(storage: &dyn Storage) {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("{}/deep/object", unique("file"));
    for content in [written_by(1), written_by(2), Bytes::new()] {
        let file = folder.path().join("file");
        std::fs::write(&file, &content).unwrap();
        storage.put(&key, Payload::File(file.clone()), PutMode::Overwrite).await.unwrap();
        assert!(!file.exists(), "the file is consumed");
        assert!(get(storage, &key).await == content);
    }
}

pub(super) async fn file_that_is_absent_moves_nothing(storage: &dyn Storage) {
    let folder = tempfile::tempdir().unwrap();
    let (kept, never) = (unique("kept"), unique("never"));
    put(storage, &kept, "before").await;
    let absent = folder.path().join("absent");
    for key in [&kept, &never] {
        assert_eq!(
            kind(storage.put(key, Payload::File(absent.clone()), PutMode::Overwrite).await),
            StorageErrorKind::NotFound
        );
    }
    assert_eq!(get(storage, &kept).await, "before");
    assert_eq!(kind(storage.get(&never).await), StorageErrorKind::NotFound);
    // A key that is refused costs nobody the file.
    let file = folder.path().join("file");
    std::fs::write(&file, "content").unwrap();
    assert_eq!(
        kind(storage.put("../out", Payload::File(file.clone()), PutMode::Overwrite).await),
        StorageErrorKind::InvalidKey
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"content");
}

pub(super) async fn upload_is_seen_when_finished(storage: &dyn Storage) {
    let folder = unique("upload");
    let key = format!("{folder}/object");
    let mut upload = storage.writer(&key, IfExists::Overwrite).await.unwrap();
    for part in ["one,", "", "two,", "three"] {
        upload.write(part.into()).await.unwrap();
        assert_eq!(kind(storage.get(&key).await), StorageErrorKind::NotFound);
        assert!(storage.list_all(&format!("{folder}/")).await.unwrap().is_empty());
    }
    upload.finish().await.unwrap();
    assert_eq!(get(storage, &key).await, "one,two,three");
    // The former content stays until a new one is finished.
    let mut upload = storage.writer(&key, IfExists::Overwrite).await.unwrap();
    upload.write("later".into()).await.unwrap();
    assert_eq!(get(storage, &key).await, "one,two,three");
    upload.finish().await.unwrap();
    assert_eq!(get(storage, &key).await, "later");
}

pub(super) async fn upload_that_is_dropped_leaves_nothing(storage: &dyn Storage) {
    let folder = unique("dropped");
    let key = format!("{folder}/object");
    for parts in [0, 1, 3] {
        let mut upload = storage.writer(&key, IfExists::Overwrite).await.unwrap();
        for part in 0..parts {
            upload.write(written_by(part)).await.unwrap();
        }
        drop(upload);
        assert_eq!(kind(storage.get(&key).await), StorageErrorKind::NotFound);
        assert!(storage.list_all(&format!("{folder}/")).await.unwrap().is_empty());
    }
    put(storage, &key, "kept").await;
    let mut upload = storage.writer(&key, IfExists::Overwrite).await.unwrap();
    upload.write("lost".into()).await.unwrap();
    drop(upload);
    assert_eq!(get(storage, &key).await, "kept");
}

pub(super) async fn new_upload_keeps_what_came_first(storage: &dyn Storage) {
    let folder = unique("new");
    // One that fits into a request, and one that does not.
    for (name, part) in [("small", written_by(1)), ("large", Bytes::from(vec![b'x'; 9 << 20]))] {
        let key = format!("{folder}/{name}");
        let uploaded = async || {
            let mut upload = storage.writer(&key, IfExists::Fail).await.unwrap();
            for _ in 0..2 {
                upload.write(part.clone()).await.unwrap();
            }
            upload.finish().await
        };
        put(storage, &key, "first").await;
        let refused = uploaded().await.unwrap_err();
        assert_eq!((refused.kind, &refused.key), (StorageErrorKind::AlreadyExists, &key));
        assert!(!refused.is_retryable());
        assert_eq!(get(storage, &key).await, "first");
        storage.delete(&key).await.unwrap();
        uploaded().await.unwrap();
        assert_eq!(get(storage, &key).await.len(), 2 * part.len());
        assert_eq!(kind(uploaded().await), StorageErrorKind::AlreadyExists);
    }
}

pub(super) async fn upload_of_nothing_is_an_empty_object(storage: &dyn Storage) {
    let key = unique("nothing");
    storage.writer(&key, IfExists::Overwrite).await.unwrap().finish().await.unwrap();
    assert_eq!(get(storage, &key).await, "");
}
