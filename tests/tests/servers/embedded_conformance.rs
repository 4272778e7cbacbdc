//! The embedded queue, ledger and storage pass what the servers pass, and leave nothing behind in the folder.

mod queue {
    use prs_common::queue::EmbeddedQueue;

    prs_tests::queue_conformance!((EmbeddedQueue::default(), ()));
}

mod ledger {
    use prs_common::ledger::EmbeddedLedger;

    prs_tests::ledger_conformance!((EmbeddedLedger::default(), ()));
}

mod storage {
    use std::path::Path;

    use prs_common::storage::{
        IfExists, LocalStorage, Payload, PutMode, Storage, StorageErrorKind, StorageExt, is_kept_by_stores,
    };
    use tempfile::TempDir;

    fn fresh() -> (LocalStorage, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (LocalStorage::new(folder.path()), folder)
    }

    prs_tests::storage_conformance!(fresh());

    /// Every file below `folder`, whichever program put it there.
    fn files(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(files(&path));
            } else {
                found.push(path.display().to_string());
            }
        }
        found
    }

    #[tokio::test]
    async fn no_temporary_file_is_left() {
        let (storage, folder) = fresh();
        let mut upload = storage.writer("a/dropped", IfExists::Overwrite).await.unwrap();
        upload.write("part".into()).await.unwrap();
        assert_eq!(files(folder.path()).len(), 1, "an upload in the making is a file");
        drop(upload);
        assert!(files(folder.path()).is_empty());

        storage.put("a/object", "x".into(), PutMode::Create).await.unwrap();
        storage.put("a/object", "y".into(), PutMode::Create).await.unwrap_err();
        storage.put("a/object", "z".into(), PutMode::Overwrite).await.unwrap();
        for _ in 0..2 {
            storage.copy("a/object", "a/copy", IfExists::Overwrite).await.unwrap();
        }
        storage.copy("a/none", "a/never", IfExists::Overwrite).await.unwrap_err();
        let absent = Payload::File(folder.path().join("none"));
        storage.put("a/none", absent, PutMode::Overwrite).await.unwrap_err();
        let mut upload = storage.writer("a/upload", IfExists::Overwrite).await.unwrap();
        upload.write("part".into()).await.unwrap();
        upload.finish().await.unwrap();
        // The target is a folder: the write fails at its very end.
        storage.put("a", "x".into(), PutMode::Overwrite).await.unwrap_err();
        storage.put("a", "x".into(), PutMode::Create).await.unwrap_err();
        storage.writer("a", IfExists::Overwrite).await.unwrap().finish().await.unwrap_err();

        let mut left = files(folder.path());
        left.sort_unstable();
        assert_eq!(
            left,
            ["copy", "object", "upload"].map(|name| folder.path().join("a").join(name).display().to_string())
        );
    }

    #[tokio::test]
    async fn only_the_temporary_folder_and_the_claim_are_reserved() {
        let (storage, _folder) = fresh();
        storage.put(".tmp-like/object", "x".into(), PutMode::Overwrite).await.unwrap();
        assert_eq!(storage.list_all("").await.unwrap()[0].key, ".tmp-like/object");
        for key in [".tmp", ".tmp/object", ".prs-claim"] {
            assert!(is_kept_by_stores(key));
            let refused = storage.put(key, "x".into(), PutMode::Overwrite).await.unwrap_err();
            assert_eq!(refused.kind, StorageErrorKind::InvalidKey);
        }
    }

    #[tokio::test]
    async fn a_name_too_long_for_a_folder_is_refused_for_good() {
        let (storage, _folder) = fresh();
        let long = "a".repeat(300);
        let refused = storage.put(&long, "x".into(), PutMode::Overwrite).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::InvalidKey);
    }

    #[tokio::test]
    async fn the_folder_is_made_with_the_first_object() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("not/yet/there");
        let storage = LocalStorage::new(&root);
        assert!(storage.list_all("").await.unwrap().is_empty());
        assert_eq!(storage.get("a").await.unwrap_err().kind, StorageErrorKind::NotFound);
        assert!(!root.exists());
        storage.put("a", "x".into(), PutMode::Overwrite).await.unwrap();
        assert_eq!(std::fs::read(root.join("a")).unwrap(), b"x");
    }
}
