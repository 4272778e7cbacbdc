//! Manifests come back as they were written, or not at all.

use std::sync::Arc;

use prs_common::storage::{LocalStorage, PutMode, Storage, StorageErrorKind, StorageExt};
use tokio::runtime::Handle;

use super::*;

fn source(origin: &str) -> Source {
    Source { store: Store::Shared, prefix: "inputs/".to_owned(), origin: origin.to_owned(), mixes: false }
}

fn file(number: u64, source: u32) -> File {
    let (key, version) = (format!("ab/{number}"), String::new());
    let partition = if number.is_multiple_of(7) { vec![Some(number.to_string()), None] } else { Vec::new() };
    File { source, relative: format!("folder/{number:07}.png"), key, size: Some(number), version, partition }
}

async fn write(store: &dyn Storage, key: &str, files: u64) -> Summary {
    let mut writer = ManifestWriter::create(store, key).await.unwrap();
    for number in 0..files {
        let origin = if number < 1_500 { "/a/" } else { "/b/" };
        writer.push(&source(origin), file(number, 0)).await.unwrap();
    }
    writer.finish().await.unwrap()
}

#[tokio::test]
async fn files_come_back_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
    for files in [0, 1, 1_000, 40_000] {
        let summary = write(&*store, "x.manifest", files).await;
        assert_eq!((summary.files, summary.bytes), (files, (0..files).sum()));
        assert_eq!(write(&*store, "y.manifest", files).await, summary);
        assert_eq!(summary.stores, [""; 0]);
        assert_eq!(store.get("x.manifest").await.unwrap(), store.get("y.manifest").await.unwrap());
        let (store, handle) = (Arc::clone(&store), Handle::current());
        let read = tokio::task::spawn_blocking(move || {
            let mut reader =
                ManifestReader::open(store, "x.manifest", Some(&summary.checksum), &handle).unwrap();
            let mut read = Vec::new();
            while let Some(block) = reader.next_block().unwrap() {
                read.extend(block);
            }
            (read, reader.sources().to_vec())
        });
        let (read, sources) = read.await.unwrap();
        assert_eq!(sources, [source("/a/"), source("/b/")][..read.len().div_ceil(1_500).min(2)]);
        let expected = (0..files).map(|number| file(number, u32::from(number >= 1_500)));
        assert!(read.into_iter().eq(expected));
    }
}

#[tokio::test]
async fn damage_is_told_from_a_store_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
    let checksum = write(&*store, "whole", 3_000).await.checksum;
    write(&*store, "another", 2_999).await;
    let whole = store.get("whole").await.unwrap();
    store.put("cut", whole.slice(..whole.len() / 2).into(), PutMode::Overwrite).await.unwrap();
    store.put("other", "not gzip at all".into(), PutMode::Overwrite).await.unwrap();
    let longer = [&whole[..], b"x"].concat();
    store.put("longer", longer.into(), PutMode::Overwrite).await.unwrap();
    let handle = Handle::current();
    tokio::task::spawn_blocking(move || {
        let read = |key| {
            let mut reader = ManifestReader::open(Arc::clone(&store), key, Some(&checksum), &handle)?;
            while reader.next_block()?.is_some() {}
            Ok::<(), ManifestError>(())
        };
        assert!(read("whole").is_ok());
        // What follows the end of the stream is no part of it.
        assert!(read("longer").is_ok());
        for key in ["cut", "other", "another"] {
            let error = read(key).unwrap_err();
            assert!(matches!(&error, ManifestError::Damaged { key: named, .. } if named == key), "{error}");
            assert!(!error.is_retryable());
        }
        let absent = read("absent").unwrap_err();
        assert!(
            matches!(&absent, ManifestError::Storage(error) if error.kind == StorageErrorKind::NotFound),
            "{absent:?}"
        );
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_flipped_bit_is_found_before_a_file_of_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
    let checksum = write(&*store, "whole", 2_500).await.checksum;
    let whole = store.get("whole").await.unwrap();
    let handle = Handle::current();
    let read = move |bytes: Vec<u8>| -> Result<Vec<File>, ManifestError> {
        handle.block_on(store.put("damaged", bytes.into(), PutMode::Overwrite)).unwrap();
        let mut reader = ManifestReader::open(Arc::clone(&store), "damaged", Some(&checksum), &handle)?;
        let mut seen = Vec::new();
        while let Some(block) = reader.next_block()? {
            let known = (seen.len() as u64..).zip(&block);
            assert!(known.into_iter().all(|(number, one)| *one == file(number, u32::from(number >= 1_500))));
            seen.extend(block);
        }
        Ok(seen)
    };
    tokio::task::spawn_blocking(move || {
        let (mut tried, mut found) = (0, 0);
        for bit in (0..whole.len() * 8).step_by(whole.len() * 8 / 97) {
            let mut bytes = whole.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            tried += 1;
            match read(bytes) {
                // Now and then a bit means nothing, or the same.
                Ok(files) => assert!(files.len() == 2_500, "bit {bit}"),
                Err(ManifestError::Damaged { key, .. }) => {
                    assert_eq!(key, "damaged");
                    found += 1;
                }
                Err(other) => panic!("bit {bit}: {other}"),
            }
        }
        assert!(found > tried * 9 / 10, "{found} of {tried}");
    })
    .await
    .unwrap();
}
