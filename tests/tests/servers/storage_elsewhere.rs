//! The cases of a storage on a server that is not the harness's: MinIO, Ceph, AWS itself.
//!
//! ```text
//! export PRS_TEST_STORAGE_URL=s3://bucket/prefix AWS_ENDPOINT_URL_S3=http://localhost:9000
//! export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...
//! cargo test -p prs-tests --test servers storage_elsewhere -- --ignored
//! ```

use std::sync::Arc;

use bytes::Bytes;
use prs_common::storage::{IfExists, PutMode, Storage, StorageErrorKind, StorageExt, open, probe_writable};
use prs_tests::conformance::storage::{CASES, run};

async fn elsewhere() -> Arc<dyn Storage> {
    let url = std::env::var("PRS_TEST_STORAGE_URL").expect("PRS_TEST_STORAGE_URL names the storage");
    open(&url).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server of one's own, named by PRS_TEST_STORAGE_URL"]
async fn every_case_holds() {
    let storage = elsewhere().await;
    probe_writable(&*storage).await.unwrap();
    let mut failed = Vec::new();
    for &case in CASES {
        let storage = Arc::clone(&storage);
        // A case that fails panics, and says why on standard error.
        if tokio::spawn(async move { run(case, &*storage).await }).await.is_err() {
            failed.push(case);
        }
    }
    assert!(failed.is_empty(), "{} of {} cases fail: {failed:?}", failed.len(), CASES.len());
}

/// Large enough for parts, by each writer; and a second writer that wants a new object is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server of one's own, named by PRS_TEST_STORAGE_URL"]
async fn large_objects_come_back() {
    let storage = elsewhere().await.below(&format!("large-{}", std::process::id()));
    let whole: Bytes = (0..5_000_000_u64).flat_map(u64::to_le_bytes).collect();
    storage.put("new", whole.clone().into(), PutMode::Create).await.unwrap();
    let exists = storage.put("new", whole.slice(8..).into(), PutMode::Create).await.unwrap_err();
    assert_eq!(exists.kind, StorageErrorKind::AlreadyExists, "{exists}");
    let mut upload = storage.writer("upload", IfExists::Overwrite).await.unwrap();
    for part in whole.chunks(3_333_333) {
        upload.write(Bytes::copy_from_slice(part)).await.unwrap();
    }
    upload.finish().await.unwrap();
    storage.copy("upload", "copy", IfExists::Overwrite).await.unwrap();
    for key in ["new", "upload", "copy"] {
        assert!(storage.get(key).await.unwrap() == whole, "{key}");
        storage.delete(key).await.unwrap();
    }
    storage.flush().await.unwrap();
    assert_eq!(storage.list_all("").await.unwrap(), []);
}

/// What a killed writer left is found, and nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server of one's own, named by PRS_TEST_STORAGE_URL"]
async fn unfinished_uploads_are_swept_away() {
    let storage = elsewhere().await.below(&format!("sweep-{}", std::process::id()));
    let part = Bytes::from(vec![b'x'; 9 << 20]);
    let mut uploads = Vec::new();
    for place in ["swept", "other"] {
        let mut upload = storage.below(place).writer("large", IfExists::Overwrite).await.unwrap();
        upload.write(part.clone()).await.unwrap();
        uploads.push(upload);
    }
    storage.below("swept").sweep().await.unwrap();
    let other = uploads.pop().unwrap();
    uploads.pop().unwrap().finish().await.unwrap_err();
    other.finish().await.unwrap();
    let left: Vec<_> = storage.list_all("").await.unwrap().into_iter().map(|object| object.key).collect();
    assert_eq!(left, ["other/large"]);
    storage.delete("other/large").await.unwrap();
}
