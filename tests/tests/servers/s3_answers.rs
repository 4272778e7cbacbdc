//! What a server answers is checked: a write that something else than a store answered is made again, a short range is
//! read again, and what was damaged on the way or at rest is never taken for the object. What a server
//! does not confirm to have deleted is deleted again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::storage::{
    IfExists, PutMode, S3Credentials, S3Options, S3Storage, Storage, StorageError, StorageErrorKind,
    StorageExt, TransferError,
};
use prs_tests::deadline::eventually;
use prs_tests::harness::servers::Store;
use prs_tests::harness::servers::proxy::{Fault, HttpFaults, HttpProxy};
use prs_tests::harness::servers::s3::{Checksums, Rights, S3Server, S3Settings};

const BUCKET: &str = "bucket";
const REPLACE: PutMode = PutMode::Overwrite;

fn server(checksums: Checksums) -> S3Server {
    let server = S3Server::start_with(S3Settings { checksums, ..S3Settings::default() });
    server.make_bucket(BUCKET);
    server
}

/// A way to `server` on which `percent` of the requests meet `fault`.
fn spoiled(server: &S3Server, percent: u64, fault: Fault) -> HttpProxy {
    HttpProxy::start(
        server.address(),
        HttpFaults { seed: 7, percent, stall: Duration::ZERO, kinds: vec![fault] },
    )
}

async fn open(server: &S3Server, endpoint: String) -> S3Storage {
    let (access_key, secret_key) = server.key(Rights::All);
    let options = S3Options {
        endpoint: Some(endpoint),
        credentials: Some(S3Credentials { access_key, secret_key }),
        ..S3Options::default()
    };
    loop {
        match S3Storage::open(BUCKET, "", &options).await {
            Err(error) if error.is_retryable() => {}
            storage => return storage.unwrap(),
        }
    }
}

/// Bytes of which no two stretches are the same.
fn content(size: usize) -> Bytes {
    (0..size.div_ceil(8)).flat_map(|at| (at * 31).to_le_bytes()).take(size).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_a_web_page_answers_is_made_again() {
    let server = server(Checksums::Kept);
    let proxy = spoiled(&server, 40, Fault::WebPage);
    let storage = open(&server, proxy.endpoint()).await;
    let large = content((20 << 20) + 7);
    let again =
        async |call: &mut dyn FnMut()
            -> futures_util::future::BoxFuture<'static, Result<(), StorageError>>| {
            loop {
                match call().await {
                    Err(error) if error.is_retryable() => {}
                    done => return done.unwrap(),
                }
            }
        };
    for round in 0..10 {
        let (key, copy, gone) = (format!("o{round}"), format!("c{round}"), format!("g{round}"));
        let (shared, body) = (storage.clone(), content(10_000 + round));
        again(&mut || {
            let (storage, key, copy, gone, body) =
                (shared.clone(), key.clone(), copy.clone(), gone.clone(), body.clone());
            Box::pin(async move {
                storage.put(&gone, body.clone().into(), REPLACE).await?;
                storage.put(&key, body.into(), REPLACE).await?;
                storage.copy(&key, &copy, IfExists::Overwrite).await?;
                storage.delete(&gone).await
            })
        })
        .await;
        assert_eq!(server.object(BUCKET, &key).unwrap(), content(10_000 + round));
        assert_eq!(server.object(BUCKET, &copy).unwrap(), content(10_000 + round));
        assert_eq!(server.object(BUCKET, &gone), None, "a page that answers a delete deletes nothing");
    }
    let (shared, body) = (storage.clone(), large.clone());
    again(&mut || {
        let (storage, body) = (shared.clone(), body.clone());
        Box::pin(async move { storage.put("large", body.into(), REPLACE).await.map(drop) })
    })
    .await;
    assert!(server.object(BUCKET, "large").unwrap() == large);
    assert!(proxy.count(Fault::WebPage) > 20, "{}", proxy.count(Fault::WebPage));
}

#[tokio::test]
async fn a_short_answer_is_asked_for_again() {
    let server = server(Checksums::Kept);
    let proxy = spoiled(&server, 30, Fault::Short);
    server.put_object(BUCKET, "object", &content(100_000));
    let storage = open(&server, proxy.endpoint()).await;
    for start in 0..40 {
        let range = storage.get_range("object", start..start + 50_000).await.unwrap();
        assert!(range == content(100_000)[start as usize..start as usize + 50_000]);
    }
    assert!(proxy.count(Fault::Short) > 5, "{}", proxy.count(Fault::Short));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_stops_is_gone_on_with() {
    let server = server(Checksums::Kept);
    let proxy = spoiled(&server, 0, Fault::Error);
    server.put_object(BUCKET, "object", &content(100_000));
    let storage = open(&server, proxy.endpoint()).await;
    proxy.spoil("GET /bucket/object", Fault::StopMiddle);
    let began = Instant::now();
    let read = tokio::spawn(async move { storage.get("object").await });
    eventually("the answer to stop", || async { (proxy.count(Fault::StopMiddle) == 1).then_some(()) }).await;
    proxy.accept();
    assert!(read.await.unwrap().unwrap() == content(100_000));
    let waited = began.elapsed();
    assert!((8..20).contains(&waited.as_secs()), "{waited:?}");
}

/// Each fault of a store is reported as a store that is away, within the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_is_away_however_it_fails() {
    let failing = async |fault: Fault, stall: Duration| {
        let server = server(Checksums::Kept);
        let proxy =
            HttpProxy::start(server.address(), HttpFaults { seed: 7, percent: 0, stall, kinds: vec![fault] });
        server.put_object(BUCKET, "object", &content(100_000));
        let storage = open(&server, proxy.endpoint()).await;
        proxy.spoil("", fault);
        let began = Instant::now();
        let (read, listed) = tokio::join!(storage.get("object"), storage.list_all(""));
        for error in [read.map(drop).unwrap_err(), listed.map(drop).unwrap_err()] {
            assert_eq!(error.kind, StorageErrorKind::Unavailable, "{fault:?}: {error}");
        }
        assert!(began.elapsed() < Duration::from_secs(50), "{fault:?}: {:?}", began.elapsed());
        assert!(proxy.count(fault) > 2, "{fault:?}: {}", proxy.count(fault));
        proxy.accept();
        assert!(storage.get("object").await.unwrap() == content(100_000), "{fault:?}");
    };
    tokio::join!(
        failing(Fault::Error, Duration::ZERO),
        failing(Fault::CutBefore, Duration::ZERO),
        failing(Fault::WebPage, Duration::ZERO),
        failing(Fault::Stall, Duration::from_mins(10)),
    );
}

#[tokio::test]
async fn a_bit_that_flips_on_the_way_is_noticed_where_the_server_has_a_checksum() {
    let server = server(Checksums::Kept);
    let proxy = spoiled(&server, 40, Fault::Flip);
    let storage = open(&server, proxy.endpoint()).await;
    storage.put("object", content(100_000).into(), REPLACE).await.unwrap();
    for _ in 0..30 {
        assert!(storage.get("object").await.unwrap() == content(100_000));
    }
    assert!(proxy.count(Fault::Flip) > 5, "{}", proxy.count(Fault::Flip));
}

#[tokio::test]
async fn a_damaged_object_is_told_and_not_waited_for() {
    let server = server(Checksums::Kept);
    let storage = open(&server, server.endpoint()).await;
    storage.put("object", content(1_000).into(), REPLACE).await.unwrap();
    server.damage(BUCKET, "object", &mut |bytes| bytes[500] ^= 4);
    let error = storage.get("object").await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Damaged, "{error}");
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("object") && error.to_string().contains("damaged"), "{error}");
}

/// What is read in ranges is compared as a whole: of a range no store has a checksum.
#[tokio::test]
async fn a_large_object_is_compared_with_the_checksum_of_its_store() {
    let server = server(Checksums::Kept);
    let storage = open(&server, server.endpoint()).await;
    let whole = content((20 << 20) + 7);
    server.put_object(BUCKET, "object", &whole);
    let version = storage.head("object").await.unwrap().version;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("object");
    let size = storage.download("object", &file, Some(&version)).await.unwrap();
    assert_eq!(size, whole.len() as u64);
    assert!(std::fs::read(&file).unwrap() == whole);

    server.damage(BUCKET, "object", &mut |bytes| bytes[17 << 20] ^= 4);
    let TransferError::Store(error) = storage.download("object", &file, Some(&version)).await.unwrap_err()
    else {
        panic!("the disk is sound");
    };
    assert_eq!(error.kind, StorageErrorKind::Damaged, "{error}");
    assert!(error.to_string().contains("not those of the checksum"), "{error}");
}

#[tokio::test]
async fn a_bit_that_flips_on_the_way_of_a_large_object_costs_a_second_read() {
    let server = server(Checksums::Kept);
    let proxy = spoiled(&server, 0, Fault::Flip);
    let storage = open(&server, proxy.endpoint()).await;
    let whole = content((20 << 20) + 7);
    server.put_object(BUCKET, "object", &whole);
    let version = storage.head("object").await.unwrap().version;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("object");
    proxy.spoil("GET /bucket/object", Fault::Flip);
    let (read, into) = (storage.clone(), file.clone());
    let read = tokio::spawn(async move { read.download("object", &into, Some(&version)).await });
    eventually("a bit to flip", || async { (proxy.count(Fault::Flip) > 0).then_some(()) }).await;
    proxy.accept();
    read.await.unwrap().unwrap();
    assert!(std::fs::read(&file).unwrap() == whole);
}

/// Servers that know no checksums, or refuse them, are used as before.
#[tokio::test]
async fn a_server_without_checksums_is_written_and_read() {
    for checksums in [Checksums::Ignored, Checksums::Refused] {
        let server = server(checksums);
        let storage = open(&server, server.endpoint()).await;
        for size in [(20 << 20) + 7, 0, 1_000] {
            storage.put("object", content(size).into(), REPLACE).await.unwrap();
            assert!(storage.get("object").await.unwrap() == content(size), "{checksums:?}");
        }
        let new = PutMode::Create;
        assert_eq!(
            storage.put("object", content(7).into(), new).await.unwrap_err().kind,
            StorageErrorKind::AlreadyExists
        );
    }
}

async fn with_objects(settings: S3Settings, count: usize) -> (S3Server, S3Storage, Vec<String>) {
    let server = S3Server::start_with(settings);
    server.make_bucket(BUCKET);
    let keys: Vec<_> = (0..count).map(|number| format!("many/{number}")).collect();
    for key in &keys {
        server.put_object(BUCKET, key, b"x");
    }
    let storage = open(&server, server.endpoint()).await;
    (server, storage, keys)
}

#[tokio::test]
async fn a_thousand_objects_go_with_one_request() {
    let (server, storage, keys) = with_objects(S3Settings::default(), 2_500).await;
    storage.delete_all(&keys).await.unwrap();
    assert_eq!((server.objects(BUCKET), server.deletes()), (vec![], 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_many_objects_goes_page_by_page() {
    let (server, storage, _) = with_objects(S3Settings::default(), 17_500).await;
    storage.delete_below("many/", None).await.unwrap();
    assert_eq!((server.objects(BUCKET), server.deletes()), (vec![], 18));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_whose_listing_is_damaged_goes_whole() {
    let (server, _, keys) = with_objects(S3Settings::default(), 40).await;
    let proxy = spoiled(&server, 20, Fault::Flip);
    let storage = open(&server, proxy.endpoint()).await;
    // A flipped bit is often one of a name: it is that of another object then, or of one that is not below the folder.
    for round in 0..20 {
        for key in &keys {
            server.put_object(BUCKET, key, b"x");
        }
        while let Err(error) = storage.delete_below("many/", None).await {
            assert!(error.is_retryable(), "{error}");
        }
        assert_eq!(server.objects(BUCKET), vec![], "round {round}");
    }
    assert!(proxy.count(Fault::Flip) > 5, "{}", proxy.count(Fault::Flip));
}

#[tokio::test]
async fn a_server_that_deletes_one_object_at_a_time_is_asked_so() {
    let (server, storage, keys) =
        with_objects(S3Settings { bulk_deletes: false, ..S3Settings::default() }, 2_500).await;
    storage.delete_all(&keys).await.unwrap();
    assert_eq!((server.objects(BUCKET), server.deletes()), (vec![], 2_500));
}

#[tokio::test]
async fn an_object_that_the_server_keeps_is_named() {
    let locked = Some("many/1234".to_owned());
    let (server, storage, keys) = with_objects(S3Settings { locked, ..S3Settings::default() }, 2_500).await;
    let error = storage.delete_all(&keys).await.unwrap_err();
    assert_eq!((error.kind, &*error.key), (StorageErrorKind::PermissionDenied, "many/1234"), "{error}");
    assert!(server.objects(BUCKET).iter().any(|(key, _)| key == "many/1234"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_answers_many_deletes_deletes_nothing() {
    let (server, _, keys) = with_objects(S3Settings::default(), 2_500).await;
    let proxy = spoiled(&server, 40, Fault::WebPage);
    let storage = open(&server, proxy.endpoint()).await;
    for keys in keys.chunks(100) {
        while let Err(error) = storage.delete_all(keys).await {
            assert!(error.is_retryable(), "{error}");
        }
    }
    assert!(server.objects(BUCKET).is_empty());
    assert!(proxy.count(Fault::WebPage) > 5, "{}", proxy.count(Fault::WebPage));
}

mod refusals {
    use super::*;

    /// A store behind a proxy that refuses what it is told to, with a patience of so many
    /// seconds. One call repeats its requests for about three.
    async fn scene(patience: u64) -> (S3Server, HttpProxy, S3Storage) {
        let server = server(Checksums::Kept);
        let proxy = spoiled(&server, 0, Fault::Error);
        let (access_key, secret_key) = server.key(Rights::All);
        let options = S3Options {
            endpoint: Some(proxy.endpoint()),
            credentials: Some(S3Credentials { access_key, secret_key }),
            refusal_patience: Some(Duration::from_secs(patience)),
            ..S3Options::default()
        };
        let storage = S3Storage::open(BUCKET, "", &options).await.unwrap();
        (server, proxy, storage)
    }

    fn passes(error: &StorageError) {
        let said = error.to_string();
        assert!(error.is_retryable() && said.contains("AccessDenied"), "{said}");
        assert!(said.contains("the same was accepted before"), "{said}");
    }

    fn stands(error: &StorageError) {
        assert_eq!(error.kind, StorageErrorKind::PermissionDenied, "{error}");
    }

    #[tokio::test]
    async fn credentials_that_were_good_may_be_good_again() {
        let (_server, proxy, storage) = scene(60).await;
        storage.put("a/b", content(10).into(), REPLACE).await.unwrap();
        proxy.refuse("");
        let (read, written, listed) = tokio::join!(
            storage.get("a/b"),
            storage.put("new/c", content(1).into(), REPLACE),
            storage.list_all("a/")
        );
        for error in [read.map(drop).unwrap_err(), written.unwrap_err(), listed.map(drop).unwrap_err()] {
            passes(&error);
        }
        proxy.accept();
        assert!(storage.get("a/b").await.unwrap() == content(10));
        storage.put("new/c", content(1).into(), REPLACE).await.unwrap();
        // Each time anew.
        proxy.refuse("");
        passes(&storage.get("a/b").await.unwrap_err());
    }

    #[tokio::test]
    async fn what_does_not_pass_is_a_refusal_in_the_end() {
        let (_server, proxy, storage) = scene(6).await;
        proxy.refuse("");
        passes(&storage.delete("a").await.unwrap_err());
        let last = eventually("the refusal to stand", || async {
            storage.delete("a").await.err().filter(|error| !error.is_retryable())
        })
        .await;
        stands(&last);
        assert!(last.to_string().contains("has been refused for"), "{last}");
        proxy.accept();
        storage.delete("a").await.unwrap();
        proxy.refuse("");
        passes(&storage.delete("a").await.unwrap_err());
    }

    #[tokio::test]
    async fn an_object_that_alone_is_forbidden_is_told_at_once() {
        let (server, proxy, storage) = scene(60).await;
        server.put_object(BUCKET, "secret/a", b"x");
        server.put_object(BUCKET, "secret/b", b"x");
        storage.get("secret/b").await.unwrap();
        proxy.refuse("GET /bucket/secret/a");
        let before = proxy.requests();
        let error = storage.get("secret/a").await.unwrap_err();
        stands(&error);
        assert!(!error.to_string().contains("accepted before"), "{error}");
        // It is asked for while there are doubts, each of which reads the probe, and not for the patience of a minute.
        assert_eq!((proxy.count(Fault::Refuse), proxy.requests() - before), (3, 3));
        proxy.refuse("HEAD /bucket/secret/a");
        stands(&storage.head("secret/a").await.unwrap_err());
    }

    #[tokio::test]
    async fn a_write_may_be_allowed_again_where_it_was_and_nowhere_else() {
        let (_server, proxy, storage) = scene(6).await;
        storage.put("jobs/a/x", content(1).into(), REPLACE).await.unwrap();
        proxy.refuse("PUT /bucket/");
        passes(&storage.put("jobs/a/y", content(1).into(), REPLACE).await.unwrap_err());
        stands(&storage.put("other/y", content(1).into(), REPLACE).await.unwrap_err());
        // What others are allowed meanwhile does not keep it waiting without an end.
        let last = eventually("the refusal to stand", || async {
            storage.list_all("").await.unwrap();
            storage
                .put("jobs/a/y", content(1).into(), REPLACE)
                .await
                .err()
                .filter(|error| !error.is_retryable())
        })
        .await;
        stands(&last);
    }
}
