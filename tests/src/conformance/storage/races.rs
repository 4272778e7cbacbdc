//! Writers and readers of one object at the same time.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use prs_common::storage::{IfExists, PutMode, Storage, StorageErrorKind, StorageExt};

use super::{get, put, written_by};
use crate::conformance::unique;
use crate::deadline::within;

pub(super) async fn racing_writers_of_a_new_object_have_one_winner(storage: &dyn Storage) {
    for _ in 0..5 {
        let key = format!("{}/object", unique("winner"));
        let outcomes =
            join_all((0..16).map(|number| storage.put(&key, written_by(number).into(), PutMode::Create)))
                .await;
        let winners: Vec<_> = (0..16).filter(|number| outcomes[*number].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let others = outcomes.into_iter().filter_map(Result::err);
        assert!(others.into_iter().all(|error| error.kind == StorageErrorKind::AlreadyExists));
        assert!(get(storage, &key).await == written_by(winners[0]), "the object is the winner's");
    }
}

pub(super) async fn racing_updates_of_one_version_have_one_winner(storage: &dyn Storage) {
    for probed in [false, true, true] {
        if probed {
            storage.probe(&unique("probe")).await.unwrap();
        }
        let key = format!("{}/object", unique("updated"));
        let first = storage.put(&key, "first".into(), PutMode::Create).await.unwrap();
        let update = |number| storage.put(&key, written_by(number).into(), PutMode::Update(first.clone()));
        let outcomes = join_all((0..8).map(update)).await;
        let winners: Vec<_> = (0..8).filter(|number| outcomes[*number].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let (found, version) = storage.get_versioned(&key).await.unwrap();
        assert!(found == written_by(winners[0]), "the object is the winner's");
        assert_eq!(outcomes[winners[0]].as_ref().unwrap(), &version);
        let others = outcomes.into_iter().filter_map(Result::err);
        assert!(others.into_iter().all(|error| error.kind == StorageErrorKind::Changed));
    }
}

pub(super) async fn many_who_count_lose_no_step(storage: &dyn Storage) {
    const WRITERS: usize = 6;
    const STEPS: usize = 5;
    let key = unique("count");
    storage.put(&key, "0".into(), PutMode::Create).await.unwrap();
    let count = async || {
        for _ in 0..STEPS {
            loop {
                let (body, version) = storage.get_versioned(&key).await.unwrap();
                let number: usize = std::str::from_utf8(&body).unwrap().parse().unwrap();
                let next = (number + 1).to_string();
                match storage.put(&key, next.into(), PutMode::Update(version)).await {
                    Err(error) if error.kind == StorageErrorKind::Changed => {}
                    written => {
                        written.unwrap();
                        break;
                    }
                }
            }
        }
    };
    join_all((0..WRITERS).map(|_| count())).await;
    assert_eq!(get(storage, &key).await, (WRITERS * STEPS).to_string());
}

pub(super) async fn racing_uploads_of_a_new_object_have_one_winner(storage: &dyn Storage) {
    for _ in 0..5 {
        let key = format!("{}/object", unique("winner"));
        let outcomes = join_all((0..8).map(async |number| {
            let mut upload = storage.writer(&key, IfExists::Fail).await.unwrap();
            upload.write(written_by(number)).await.unwrap();
            upload.finish().await
        }));
        let outcomes = outcomes.await;
        let winners: Vec<_> = (0..8).filter(|number| outcomes[*number].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let others = outcomes.into_iter().filter_map(Result::err);
        assert!(others.into_iter().all(|error| error.kind == StorageErrorKind::AlreadyExists));
        assert!(get(storage, &key).await == written_by(winners[0]), "the object is the winner's");
    }
}

pub(super) async fn racing_writers_of_one_object_never_mix(storage: &dyn Storage) {
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

pub(super) async fn reader_never_meets_a_part(storage: &dyn Storage) {
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
                    storage.put(&key, parts.into(), PutMode::Overwrite).await.unwrap();
                }
                _ => {
                    let mut upload = storage.writer(&key, IfExists::Overwrite).await.unwrap();
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
            for object in storage.list_all(&format!("{folder}/")).await.unwrap() {
                assert_eq!(object.key, key, "nothing but the object is seen");
                assert!((300_000..300_020).contains(&object.size), "{} bytes of a part", object.size);
            }
        }
        reads
    };
    let ((), reads) = within("all writes", async { tokio::join!(write, read) }).await;
    assert!(reads > 0, "the reader never met the object");
}

pub(super) async fn racing_uploads_of_one_object_never_mix(storage: &dyn Storage) {
    let key = format!("{}/object", unique("uploads"));
    let uploads = (0..6).map(|number| {
        let key = &key;
        async move {
            let mut upload = storage.writer(key, IfExists::Overwrite).await.unwrap();
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
