//! The storage over S3 passes what the embedded one passes; says what is wrong when it cannot be opened; moves
//! large objects in parts and leaves none behind; and gets everything right on a way that is not safe.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use prs_common::storage::{
    IfExists, Payload, PutMode, S3Credentials, S3Options, S3Storage, Storage, StorageError, StorageErrorKind,
    StorageExt, TransferError, open, probe_writable,
};
use prs_tests::conformance::storage::run;
use prs_tests::deadline::{stays_pending, wait_for};
use prs_tests::harness::servers::proxy::{Fault, HttpFaults, HttpProxy, TcpProxy};
use prs_tests::harness::servers::s3::{Conditions, Rights, S3Server, S3Settings};
use prs_tests::harness::servers::{Store, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BUCKET: &str = "bucket";
const PREFIX: &str = "some/place";
const SECRET: &str = "that-nobody-may-see";
const NEW: PutMode = PutMode::Create;
const REPLACE: PutMode = PutMode::Overwrite;

fn server_with(settings: S3Settings) -> S3Server {
    let server = S3Server::start_with(settings);
    server.make_bucket(BUCKET);
    server
}

fn options(server: &S3Server, rights: Rights) -> S3Options {
    let (access_key, secret_key) = server.key(rights);
    assert!(secret_key.contains(SECRET));
    S3Options {
        endpoint: Some(server.endpoint()),
        credentials: Some(S3Credentials { access_key, secret_key }),
        ..S3Options::default()
    }
}

async fn opened(server: &S3Server) -> S3Storage {
    S3Storage::open(BUCKET, PREFIX, &options(server, Rights::All)).await.unwrap()
}

async fn opened_through(proxy: &HttpProxy, server: &S3Server) -> S3Storage {
    let options = S3Options { endpoint: Some(proxy.endpoint()), ..options(server, Rights::All) };
    // Opening tries less often than the rest: a user waits for it.
    let mut again = 0..5;
    loop {
        match S3Storage::open(BUCKET, PREFIX, &options).await {
            Err(error) if error.is_retryable() && again.next().is_some() => {}
            storage => return storage.unwrap(),
        }
    }
}

async fn fresh() -> (S3Storage, S3Server) {
    let server = server_with(S3Settings::default());
    (opened(&server).await, server)
}

/// Bytes of which no two stretches are the same.
fn content(seed: usize, size: usize) -> Bytes {
    (0..size.div_ceil(8)).flat_map(|at| (at * 31 + seed * 7_919).to_le_bytes()).take(size).collect()
}

mod conformance {
    prs_tests::storage_conformance!(super::fresh().await);
}

mod opening {
    use super::*;

    async fn refused(bucket: &str, options: &S3Options) -> StorageError {
        let start = Instant::now();
        let error = S3Storage::open(bucket, PREFIX, options).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(20), "{error} after {:?}", start.elapsed());
        assert!(!error.to_string().contains(SECRET), "{error}");
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
        error
    }

    fn assert_told(error: &StorageError, kind: StorageErrorKind, words: &str) {
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_run_is_unavailable() {
        let server = server_with(S3Settings::default());
        let port = free_port();
        let endpoint = Some(format!("http://127.0.0.1:{port}"));
        let error = refused(BUCKET, &S3Options { endpoint, ..options(&server, Rights::All) }).await;
        assert_told(&error, StorageErrorKind::Unavailable, "AWS_ENDPOINT_URL_S3");
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_is_cut_off_is_unavailable() {
        let server = server_with(S3Settings::default());
        let way = TcpProxy::start(server.address());
        way.cut_off();
        let endpoint = Some(format!("http://{}", way.address()));
        let error = refused(BUCKET, &S3Options { endpoint, ..options(&server, Rights::All) }).await;
        assert_told(&error, StorageErrorKind::Unavailable, "can be reached");
    }

    #[tokio::test]
    async fn something_that_speaks_no_s3_is_told() {
        let server = server_with(S3Settings::default());
        let proxy = HttpProxy::start(
            server.address(),
            HttpFaults { percent: 100, kinds: vec![Fault::Error], ..HttpFaults::default() },
        );
        let options = S3Options { endpoint: Some(proxy.endpoint()), ..options(&server, Rights::All) };
        let error = refused(BUCKET, &options).await;
        assert_told(&error, StorageErrorKind::Unavailable, "HTTP 500");
        assert!(proxy.count(Fault::Error) > 1, "an error of the server is tried again");
    }

    /// A server for people takes every request for a page.
    #[tokio::test]
    async fn a_server_of_web_pages_is_told() {
        let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 29\r\n\r\n\
                    <html><p>It works!</p></html>";
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pages = tokio::spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let mut request = vec![0; 16 << 10];
                    while connection.read(&mut request).await.is_ok_and(|read| read > 0) {
                        if connection.write_all(page.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let server = server_with(S3Settings::default());
        let endpoint = Some(format!("http://{address}"));
        let error = refused(BUCKET, &S3Options { endpoint, ..options(&server, Rights::All) }).await;
        assert_told(&error, StorageErrorKind::Unavailable, "AWS_ENDPOINT_URL_S3");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        pages.abort();
    }

    #[tokio::test]
    async fn wrong_credentials_are_told_apart() {
        let server = server_with(S3Settings::default());
        let (access_key, secret_key) = server.key(Rights::All);
        let credentials = Some(S3Credentials { access_key, secret_key: format!("x{secret_key}") });
        let wrong_secret = S3Options { credentials, ..options(&server, Rights::All) };
        let error = refused(BUCKET, &wrong_secret).await;
        assert_told(&error, StorageErrorKind::PermissionDenied, "AWS_SECRET_ACCESS_KEY");

        let credentials = Some(S3Credentials { access_key: "unknown".to_owned(), secret_key });
        let wrong_key = S3Options { credentials, ..options(&server, Rights::All) };
        let error = refused(BUCKET, &wrong_key).await;
        assert_told(&error, StorageErrorKind::PermissionDenied, "AWS_ACCESS_KEY_ID");
    }

    #[tokio::test]
    async fn a_missing_permission_is_named() {
        let server = server_with(S3Settings::default());
        let error = refused(BUCKET, &options(&server, Rights::None)).await;
        assert_told(&error, StorageErrorKind::PermissionDenied, "cannot be listed");
        let error = refused(BUCKET, &options(&server, Rights::List)).await;
        assert_told(&error, StorageErrorKind::PermissionDenied, "cannot be read");

        let reader = S3Storage::open(BUCKET, PREFIX, &options(&server, Rights::Read)).await.unwrap();
        let error = probe_writable(&reader).await.unwrap_err();
        assert_told(&error, StorageErrorKind::PermissionDenied, "permission");
        let writer = opened(&server).await;
        probe_writable(&writer).await.unwrap();
        assert!(server.objects(BUCKET).is_empty(), "a probe leaves nothing");
        assert!(writer.probe("probe").await.unwrap());
    }

    #[tokio::test]
    async fn a_missing_bucket_is_not_found() {
        let server = server_with(S3Settings::default());
        let error = refused("another", &options(&server, Rights::All)).await;
        assert_told(&error, StorageErrorKind::NotFound, "the bucket does not exist");
    }

    #[tokio::test]
    async fn malformed_places_are_refused() {
        for url in ["s3://", "s3://bucket//a", "gs://bucket", "bucket", "s3://key:that-nobody-may-see@bucket"]
        {
            let error = open(url).await.unwrap_err();
            assert_eq!(error.kind, StorageErrorKind::InvalidKey, "{error}");
            assert!(!error.to_string().contains(SECRET), "{error}");
        }
        let endpoint = Some("http://key:that-nobody-may-see@host".to_owned());
        let error = refused(BUCKET, &S3Options { endpoint, ..S3Options::default() }).await;
        assert_told(&error, StorageErrorKind::InvalidKey, "endpoint");
    }

    /// A process of its own, because the environment is of the whole process: this test once more, which then
    /// opens what the variable says.
    const URL: &str = "PRS_TEST_S3_URL";

    fn opened_in(home: &Path, variables: &[(String, String)]) -> (String, Duration) {
        opened_by(Command::new(std::env::current_exe().unwrap()), home, variables)
    }

    /// The same by a command that runs what follows it.
    fn opened_by(mut child: Command, home: &Path, variables: &[(String, String)]) -> (String, Duration) {
        let start = Instant::now();
        child.args(["--exact", "s3::opening::the_environment_says_how", "--nocapture"]).env_clear();
        child.env("HOME", home).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        child.env(URL, format!("s3://{BUCKET}/{PREFIX}"));
        let ended = child.envs(variables.iter().cloned()).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        (String::from_utf8(ended.stdout).unwrap(), start.elapsed())
    }

    #[tokio::test]
    async fn the_environment_says_how() {
        if let Ok(url) = std::env::var(URL) {
            match open(&url).await {
                Ok(storage) => {
                    storage.put("opened", "x".into(), REPLACE).await.unwrap();
                    println!("opened {storage}");
                }
                Err(error) => println!("{:?} {error}", error.kind),
            }
            return;
        }
        let server = server_with(S3Settings::default());
        let home = tempfile::tempdir().unwrap();
        let (told, _) = opened_in(home.path(), &server.env());
        assert!(told.contains("opened s3://bucket/some/place"), "{told}");
        assert_eq!(server.objects(BUCKET), [("some/place/opened".to_owned(), 1)]);

        // No credentials anywhere.
        let server_only: Vec<_> =
            server.env().into_iter().filter(|(name, _)| name.contains("ENDPOINT")).collect();
        let (told, elapsed) = opened_in(home.path(), &server_only);
        assert!(told.contains("PermissionDenied") && told.contains("AWS_ACCESS_KEY_ID"), "{told}");
        assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");

        // In a profile.
        let (key, secret) = server.key(Rights::All);
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let profile = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n");
        std::fs::write(home.path().join(".aws/credentials"), profile).unwrap();
        let (told, _) = opened_in(home.path(), &server_only);
        assert!(told.contains("opened"), "{told}");
    }

    #[tokio::test]
    async fn a_private_authority_is_trusted_where_it_is_named() {
        let server = server_with(S3Settings { tls: true, ..S3Settings::default() });
        let home = tempfile::tempdir().unwrap();
        let (told, elapsed) = opened_in(home.path(), &server.env());
        assert!(told.contains("Unavailable") && told.contains("certificate"), "{told}");
        assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
        let bundle = ("AWS_CA_BUNDLE".to_owned(), server.authority().display().to_string());
        let (told, _) = opened_in(home.path(), &[server.env(), vec![bundle.clone()]].concat());
        assert!(told.contains("opened s3://bucket/some/place"), "{told}");
        assert_eq!(server.objects(BUCKET), [("some/place/opened".to_owned(), 1)]);

        // The certificate is for another name.
        let endpoint = ("AWS_ENDPOINT_URL_S3".to_owned(), format!("https://{}", server.address()));
        let (told, _) = opened_in(home.path(), &[server.env(), vec![bundle, endpoint]].concat());
        assert!(told.contains("Unavailable") && told.contains("certificate"), "{told}");
    }

    /// Not every system knows that names below `localhost` are its own, so the child gets a file of names.
    #[tokio::test]
    async fn the_bucket_is_in_the_name_of_the_host_where_that_is_wished() {
        const UNDER_NAMES: &str = r#"mount --bind "$1" /etc/hosts && shift && exec "$@""#;
        let server = server_with(S3Settings::default());
        let home = tempfile::tempdir().unwrap();
        let names = home.path().join("hosts");
        std::fs::write(&names, format!("127.0.0.1 localhost {BUCKET}.localhost\n")).unwrap();
        let port = server.address().port();
        for virtual_host in [true, false] {
            let variables = [
                ("AWS_ENDPOINT_URL_S3", format!("http://localhost:{port}")),
                ("PRS_S3_VIRTUAL_HOST", virtual_host.to_string()),
            ];
            let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
            let mut child = Command::new("unshare");
            child.args(["--mount", "sh", "-c", UNDER_NAMES, "sh"]).arg(&names);
            child.arg(std::env::current_exe().unwrap());
            let before = server.requests_by_host();
            let (told, _) = opened_by(child, home.path(), &[server.env(), variables].concat());
            assert!(told.contains("opened s3://bucket/some/place"), "{told}");
            let by_host = server.requests_by_host() - before;
            assert_eq!(by_host > 0, virtual_host, "{by_host} requests");
        }
    }
}

mod large_objects {
    use super::*;

    const SIZE: usize = (41 << 20) + 17;

    /// Every writer that knows parts, and every reader.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn come_back_as_they_were_written() {
        let (storage, server) = fresh().await;
        let folder = tempfile::tempdir().unwrap();
        let whole = content(1, SIZE);

        storage.put("put", whole.clone().into(), REPLACE).await.unwrap();
        storage.put("new", whole.clone().into(), NEW).await.unwrap();
        let exists = storage.put("new", content(2, SIZE).into(), NEW).await.unwrap_err();
        assert_eq!(exists.kind, StorageErrorKind::AlreadyExists, "{exists}");
        let parts: Vec<_> = whole.chunks(3_333_333).map(Bytes::copy_from_slice).collect();
        storage.put("parts", parts.into(), REPLACE).await.unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, &whole).unwrap();
        storage.put("file", Payload::File(file.clone()), PutMode::Overwrite).await.unwrap();
        assert!(!file.exists(), "the file is consumed");
        for (key, step) in [("upload", 1_234_567), ("upload-at-once", SIZE)] {
            let mut upload = storage.writer(key, IfExists::Overwrite).await.unwrap();
            for part in whole.chunks(step) {
                upload.write(Bytes::copy_from_slice(part)).await.unwrap();
            }
            assert_eq!(storage.get(key).await.unwrap_err().kind, StorageErrorKind::NotFound);
            assert_eq!(server.incomplete_uploads(BUCKET).len(), 1, "it is on its way in parts");
            upload.finish().await.unwrap();
        }
        storage.copy("put", "copy", IfExists::Overwrite).await.unwrap();

        for key in ["put", "new", "parts", "file", "upload", "upload-at-once", "copy"] {
            assert!(storage.get(key).await.unwrap() == whole, "{key}");
            assert_eq!(storage.download(key, &file, None).await.unwrap(), SIZE as u64);
            assert!(std::fs::read(&file).unwrap() == whole, "{key}, downloaded");
        }
        assert!(server.incomplete_uploads(BUCKET).is_empty());
    }

    #[tokio::test]
    async fn too_large_to_copy_at_once_are_copied_in_parts() {
        let settings = S3Settings { largest_copy: 1 << 20, ..S3Settings::default() };
        let server = server_with(settings);
        let storage = opened(&server).await;
        let whole = content(3, 3 << 20);
        storage.put("a b+é%", whole.clone().into(), REPLACE).await.unwrap();
        storage.copy("a b+é%", "copy", IfExists::Overwrite).await.unwrap();
        assert!(storage.get("copy").await.unwrap() == whole);
        assert!(server.incomplete_uploads(BUCKET).is_empty());
    }

    #[tokio::test]
    async fn that_are_given_up_leave_no_part() {
        let (storage, server) = fresh().await;
        let mut upload = storage.writer("dropped", IfExists::Overwrite).await.unwrap();
        upload.write(content(1, 20 << 20)).await.unwrap();
        assert_eq!(server.incomplete_uploads(BUCKET).len(), 1);
        drop(upload);
        storage.flush().await.unwrap();
        assert!(server.incomplete_uploads(BUCKET).is_empty());
    }

    #[tokio::test]
    async fn of_killed_writers_are_taken_back_on_demand() {
        killed_writers_are_taken_back(true).await;
    }

    #[tokio::test]
    async fn of_killed_writers_are_taken_back_where_uploads_have_no_prefix() {
        killed_writers_are_taken_back(false).await;
    }

    async fn killed_writers_are_taken_back(uploads_by_prefix: bool) {
        let server = server_with(S3Settings { uploads_by_prefix, ..S3Settings::default() });
        let storage = opened(&server).await;
        let mut killed = storage.writer("killed", IfExists::Overwrite).await.unwrap();
        killed.write(content(1, 9 << 20)).await.unwrap();
        // Nothing of it runs any more, as after a kill.
        std::mem::forget(killed);
        for (others, left) in [(1, 1), (100, 1)] {
            let keys: Vec<String> = (0..others).map(|number| format!("other-{number}")).collect();
            storage.sweep_of(&keys).await.unwrap();
            assert_eq!(server.incomplete_uploads(BUCKET).len(), left);
        }
        let elsewhere = S3Storage::open(BUCKET, "another", &options(&server, Rights::All)).await.unwrap();
        elsewhere.sweep().await.unwrap();
        assert_eq!(server.incomplete_uploads(BUCKET).len(), 1);
        storage.sweep().await.unwrap();
        assert!(server.incomplete_uploads(BUCKET).is_empty());
        for others in [0, 100] {
            let mut killed = storage.writer("killed", IfExists::Overwrite).await.unwrap();
            killed.write(content(1, 9 << 20)).await.unwrap();
            std::mem::forget(killed);
            let others = (0..others).map(|number| format!("other-{number}"));
            let keys: Vec<String> = others.chain(["killed".to_owned()]).collect();
            storage.sweep_of(&keys).await.unwrap();
            assert!(server.incomplete_uploads(BUCKET).is_empty());
        }
    }
}

#[tokio::test]
async fn a_server_without_conditional_writes_is_looked_at_first() {
    for (conditions, probes) in [
        (Conditions::Refused, &[false, true][..]),
        (Conditions::OfNewObjects, &[false, true]),
        // That it ignores the condition of a new object tells the probe alone.
        (Conditions::Ignored, &[true]),
    ] {
        for &probe in probes {
            let server = server_with(S3Settings { conditions, ..S3Settings::default() });
            let storage = opened(&server).await;
            if probe {
                assert!(!storage.probe("probe").await.unwrap(), "{conditions:?}");
                assert!(server.objects(BUCKET).is_empty());
            }
            storage.put("new", "first".into(), NEW).await.unwrap();
            let exists = storage.put("new", "second".into(), NEW).await.unwrap_err();
            assert_eq!(exists.kind, StorageErrorKind::AlreadyExists, "{conditions:?}");
            assert_eq!(storage.get("new").await.unwrap(), "first");
            run("new_copy_keeps_what_came_first", &storage).await;
            run("new_upload_keeps_what_came_first", &storage).await;
            run("update_replaces_its_version_and_no_other", &storage).await;
        }
    }
}

#[tokio::test]
async fn a_local_folder_that_is_missing_is_no_missing_object() {
    let (storage, _server) = fresh().await;
    storage.put("object", "x".into(), REPLACE).await.unwrap();
    let error = storage.download("object", Path::new("/nowhere/at/all"), None).await.unwrap_err();
    assert!(matches!(error, TransferError::Disk(_)), "{error}");
}

#[tokio::test]
async fn objects_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::start_in(folder.path(), S3Settings::default());
    server.make_bucket(BUCKET);
    let storage = opened(&server).await;
    let key = format!("{}/é +%?#", "long".repeat(100));
    storage.put(&key, "former".into(), REPLACE).await.unwrap();
    storage.put(&key, "kept".into(), REPLACE).await.unwrap();
    let listed = storage.list_all("").await.unwrap();
    let port = server.address().port();
    drop(server);
    // The port is free again a moment later.
    let free = || TcpListener::bind(("127.0.0.1", port)).ok();
    wait_for("the port", Duration::from_secs(10), free);
    let _again = S3Server::start_in(folder.path(), S3Settings { port, ..S3Settings::default() });
    assert_eq!(storage.get(&key).await.unwrap(), "kept");
    assert_eq!(storage.list_all("").await.unwrap(), listed);
}

mod unsafe_way {
    use super::*;

    fn spoiled(percent: u64, stall: Duration, kinds: &[Fault]) -> (S3Server, HttpProxy) {
        let server = server_with(S3Settings::default());
        let faults = HttpFaults { seed: 7, percent, stall, kinds: kinds.to_vec() };
        let proxy = HttpProxy::start(server.address(), faults);
        (server, proxy)
    }

    /// Downloads an object over a disk that does not fail.
    async fn download(storage: &S3Storage, key: &str, file: &Path) -> Result<u64, StorageError> {
        storage.download(key, file, None).await.map_err(|error| match error {
            TransferError::Store(error) => error,
            TransferError::Disk(error) => panic!("{error}"),
        })
    }

    /// Makes a call again when it may be, as every caller in prs does.
    async fn again<T, F: Future<Output = Result<T, StorageError>>>(call: impl Fn() -> F) -> T {
        for _ in 0..3 {
            match call().await {
                Err(error) if error.is_retryable() => {}
                outcome => return outcome.unwrap(),
            }
        }
        call().await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn everything_written_is_read_back() {
        const WORKERS: usize = 32;
        const ROUNDS: usize = 12;
        let (server, proxy) = spoiled(20, Duration::from_secs(1), &Fault::ALL);
        let storage = opened_through(&proxy, &server).await;
        let work = (0..WORKERS).map(|worker| {
            let storage = storage.clone();
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let body = content(worker * ROUNDS + round, 10_000 + round * 1_000);
                    let key = format!("{worker:02}/{round:02}");
                    again(|| storage.put(&key, body.clone().into(), REPLACE)).await;
                    assert!(again(|| storage.get(&key)).await == body, "{key}");
                    assert!(again(|| storage.get_range(&key, 5_000..7_000)).await == body[5_000..7_000]);
                    let name = format!("{worker:02}/new-{round:02}");
                    match storage.put(&name, body.clone().into(), NEW).await {
                        // A call that was given up may have been done.
                        Err(error) => assert!(error.is_retryable(), "nobody else writes it: {error}"),
                        Ok(_) => assert!(again(|| storage.get(&name)).await == body),
                    }
                    again(|| storage.delete(&name)).await;
                }
                let folder = format!("{worker:02}/");
                let listed = again(|| storage.list_all(&folder)).await;
                let sizes: Vec<_> = listed.iter().map(|object| object.size as usize).collect();
                assert_eq!(sizes, (0..ROUNDS).map(|round| 10_000 + round * 1_000).collect::<Vec<_>>());
            })
        });
        join_all(work).await.into_iter().for_each(Result::unwrap);
        for fault in Fault::ALL {
            // Only some of the answers can be short: those to requests for a range.
            let least = if fault == Fault::Short { 5 } else { 20 };
            assert!(proxy.count(fault) > least, "{fault:?} happened {} times", proxy.count(fault));
        }
        let share = proxy.faults() * 100 / proxy.requests();
        assert!((15..=25).contains(&share), "{share} % of {} requests", proxy.requests());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_objects_are_whole_and_leave_no_part() {
        let (server, proxy) = spoiled(20, Duration::from_secs(1), &Fault::ALL);
        let storage = opened_through(&proxy, &server).await;
        let folder = tempfile::tempdir().unwrap();
        let whole = content(5, (45 << 20) + 5);
        for round in 0..3 {
            let key = format!("upload-{round}");
            let write = || async {
                let mut upload = storage.writer(&key, IfExists::Overwrite).await?;
                for part in whole.chunks(5 << 20) {
                    upload.write(Bytes::copy_from_slice(part)).await?;
                }
                upload.finish().await
            };
            again(write).await;
            let copy = format!("copy-{round}");
            again(|| storage.copy(&key, &copy, IfExists::Overwrite)).await;
            assert!(again(|| storage.get(&key)).await == whole);
            let file = folder.path().join("file");
            assert_eq!(again(|| download(&storage, &copy, &file)).await, whole.len() as u64);
            assert!(std::fs::read(&file).unwrap() == whole);
            std::fs::write(&file, &whole).unwrap();
            again(|| storage.put(&key, Payload::File(file.clone()), PutMode::Overwrite)).await;
            again(|| storage.put(&copy, vec![whole.clone(), whole.slice(..1)].into(), PutMode::Overwrite))
                .await;
            assert!(again(|| storage.get(&key)).await == whole);
        }
        assert!(proxy.faults() > 20, "{} faults", proxy.faults());
        // Beginning an upload twice, because the first answer was lost, leaves one.
        again(|| storage.sweep()).await;
        assert!(server.incomplete_uploads(BUCKET).is_empty());
        assert_eq!(server.objects(BUCKET).len(), 6);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn answers_that_break_off_are_never_short_reads() {
        let (server, proxy) = spoiled(50, Duration::ZERO, &[Fault::CutMiddle]);
        opened(&server).await.put("object", content(6, 3 << 20).into(), REPLACE).await.unwrap();
        let storage = opened_through(&proxy, &server).await;
        for _ in 0..20 {
            assert!(again(|| storage.get("object")).await == content(6, 3 << 20));
            let range = again(|| storage.get_range("object", 100..2_000_000)).await;
            assert!(range == content(6, 3 << 20)[100..2_000_000]);
        }
        assert!(proxy.count(Fault::CutMiddle) > 10, "{} cuts", proxy.count(Fault::CutMiddle));
    }

    /// A put on a condition that was done although nobody said so is no other's.
    #[tokio::test]
    async fn own_object_is_not_taken_for_anothers() {
        let (server, proxy) = spoiled(40, Duration::ZERO, &[Fault::CutAfter]);
        let storage = opened_through(&proxy, &server).await;
        let names: Vec<_> = (0..32).map(|number| number.to_string()).collect();
        let puts = join_all(names.iter().map(|name| storage.put(name, "own".into(), NEW))).await;
        let refused: Vec<_> = puts.into_iter().filter_map(Result::err).collect();
        assert!(refused.iter().all(StorageError::is_retryable), "{refused:?}");
        assert!(refused.len() < 8, "{refused:?}");
        assert!(proxy.count(Fault::CutAfter) > 10);
        let other = opened(&server).await;
        for name in names {
            let exists = other.put(&name, "another's".into(), NEW).await.unwrap_err();
            assert_eq!(exists.kind, StorageErrorKind::AlreadyExists);
        }
    }

    /// Cases of the conformance suite in which writers meet, or much is sent.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn conformance_holds() {
        // Of a million calls, fewer than one gets six failures in a row.
        let (server, proxy) = spoiled(10, Duration::from_millis(200), &Fault::ALL);
        let storage = opened_through(&proxy, &server).await;
        for case in [
            "object_comes_back_as_it_was_put",
            "put_replaces_an_object",
            "absent_object_is_not_found",
            "if_absent_keeps_the_first",
            "update_replaces_its_version_and_no_other",
            "racing_updates_of_one_version_have_one_winner",
            "racing_writers_of_a_new_object_have_one_winner",
            "racing_writers_of_one_object_never_mix",
            "ranges_are_cut_at_the_end",
            "large_object_by_parts",
            "file_is_moved_into_the_store",
            "upload_is_seen_when_finished",
            "racing_uploads_of_a_new_object_have_one_winner",
            "new_upload_keeps_what_came_first",
            "racing_uploads_of_one_object_never_mix",
            "copy_is_an_object_of_its_own",
            "new_copy_keeps_what_came_first",
            "listing_shows_what_was_written_before",
            "names_of_any_letters",
            "deleting_twice_succeeds",
            "download_is_the_object",
        ] {
            run(case, &storage).await;
        }
        assert!(proxy.faults() > 30, "{} faults", proxy.faults());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_call_outlives_a_way_that_is_cut_off_for_a_while() {
        let (server, proxy) = spoiled(0, Duration::ZERO, &[]);
        let storage = opened_through(&proxy, &server).await;
        storage.put("before", "x".into(), REPLACE).await.unwrap();
        proxy.cut_off();
        let mut cut = tokio::spawn({
            let storage = storage.clone();
            async move { storage.put("during", "y".into(), REPLACE).await }
        });
        stays_pending("the put", &mut cut).await;
        assert!(server.objects(BUCKET).iter().all(|(key, _)| !key.ends_with("during")));
        proxy.restore();
        cut.await.unwrap().unwrap();
        assert_eq!(storage.get("during").await.unwrap(), "y");
    }

    #[tokio::test]
    async fn a_way_that_stays_cut_off_is_unavailable() {
        let (server, proxy) = spoiled(0, Duration::ZERO, &[]);
        let storage = opened_through(&proxy, &server).await;
        proxy.cut_off();
        let start = Instant::now();
        let error = storage.get("object").await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
    }
}
