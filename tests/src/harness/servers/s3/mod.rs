//! An S3 server of the test's own: over HTTP, with signatures checked, conditional puts, uploads in parts and
//! keys with fewer rights.
//!
//! It answers what prs and the usual tools ask, as AWS does where the two can be told apart. What lies in its
//! folder outlives it: a server that is started there again has the same objects.

mod objects;
mod service;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prs_common::checksum::crc32c;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use super::certificates::Certificates;
use super::store::Store;
use super::{free_port, in_process};
use objects::{Condition, Objects};
use service::{Gate, Hosts, Noted, Service, checksum_of};
pub use service::{LISTS_ALL, LISTS_FOLDER};

/// How long what a killed server does with its files may take.
const END: Duration = Duration::from_secs(10);

/// How a server is started.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// The port on this host; 0 for a free one.
    pub port: u16,
    /// Who may do everything.
    pub access_key: String,
    /// The secret of this and of every other key.
    pub secret_key: String,
    /// Larger objects, in bytes, are not copied in one call.
    pub largest_copy: u64,
    /// What it does with the conditions of writes.
    pub conditions: Conditions,
    /// Whether it deletes many objects in one request, which not every server does.
    pub bulk_deletes: bool,
    /// Objects with this in their name are not deleted, as those that are locked.
    pub locked: Option<String>,
    /// Whether incomplete uploads are listed by prefix; MinIO takes the prefix for the name of one object.
    pub uploads_by_prefix: bool,
    /// What it does with the checksums that clients send.
    pub checksums: Checksums,
    /// Whether it speaks TLS, with a certificate for `localhost` of an [authority](S3Server::authority) that nobody
    /// knows.
    pub tls: bool,
}

impl Default for S3Settings {
    fn default() -> Self {
        Self {
            port: 0,
            access_key: "test-key".to_owned(),
            secret_key: "test-secret-that-nobody-may-see".to_owned(),
            largest_copy: 5 << 30,
            conditions: Conditions::Heeded,
            bulk_deletes: true,
            locked: None,
            uploads_by_prefix: true,
            checksums: Checksums::Kept,
            tls: false,
        }
    }
}

/// What a server does with the condition that an object is new (`If-None-Match`), or of one version (`If-Match`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditions {
    /// It heeds both.
    Heeded,
    /// It heeds that an object is new, and ignores the other.
    OfNewObjects,
    /// It ignores both.
    Ignored,
    /// It refuses requests with one.
    Refused,
}

/// What a server does with the checksums that clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// It compares and keeps them, and sends them back.
    Kept,
    /// It does not know them.
    Ignored,
    /// It refuses requests with one.
    Refused,
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    All,
    /// List and read.
    Read,
    /// List only.
    List,
    /// Nothing.
    None,
}

impl Rights {
    /// The access key that has these rights, beside the `main` one that has all.
    fn key(self, main: &str) -> String {
        match self {
            Self::All => main.to_owned(),
            Self::Read => format!("{main}-read"),
            Self::List => format!("{main}-list"),
            Self::None => format!("{main}-none"),
        }
    }

    fn of_key(main: &str, key: &str) -> Option<Self> {
        [Self::All, Self::Read, Self::List, Self::None].into_iter().find(|rights| rights.key(main) == key)
    }

    fn allow(self, operation: &str) -> bool {
        match self {
            Self::All => true,
            Self::Read => matches!(operation, "GetObject" | "HeadObject") || Self::List.allow(operation),
            Self::List => matches!(operation, "HeadBucket" | "ListObjectsV2"),
            Self::None => false,
        }
    }
}

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    settings: S3Settings,
    objects: Arc<Objects>,
    by_host: Arc<AtomicU64>,
    deletes: Arc<AtomicU64>,
    noted: Arc<Noted>,
    runtime: Option<Runtime>,
    certificates: Option<(Certificates, TempDir)>,
    /// The folder, where it is to go with the server.
    temporary: Option<TempDir>,
}

impl S3Server {
    /// Starts one on a free port in a temporary folder, without buckets.
    pub fn start() -> Self {
        Self::start_with(S3Settings::default())
    }

    /// The same, with settings.
    pub fn start_with(settings: S3Settings) -> Self {
        let folder = tempfile::Builder::new().prefix("prs-s3-").tempdir().unwrap();
        let mut server = Self::start_in(folder.path(), settings);
        server.temporary = Some(folder);
        server
    }

    /// Starts one on what lies in `folder`.
    pub fn start_in(folder: &Path, mut settings: S3Settings) -> Self {
        if settings.port == 0 {
            // Its own also while it is killed, so none of those that the system gives to clients.
            settings.port = free_port();
        }
        let certificates = settings.tls.then(|| {
            let folder = tempfile::Builder::new().prefix("prs-s3-tls-").tempdir().unwrap();
            (Certificates::make(folder.path()), folder)
        });
        let mut server = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, settings.port)),
            settings,
            objects: Arc::new(Objects::open(folder).unwrap()),
            by_host: Arc::default(),
            deletes: Arc::default(),
            noted: Arc::default(),
            runtime: None,
            certificates,
            temporary: None,
        };
        server.serve();
        server
    }

    fn serve(&mut self) {
        let mut auth = SimpleAuth::new();
        for rights in [Rights::All, Rights::Read, Rights::List, Rights::None] {
            auth.register(rights.key(&self.settings.access_key), self.settings.secret_key.clone().into());
        }
        let mut service = S3ServiceBuilder::new(Service {
            objects: Arc::clone(&self.objects),
            settings: self.settings.clone(),
            deletes: Arc::clone(&self.deletes),
        });
        service.set_auth(auth);
        let noted = Arc::clone(&self.noted);
        service.set_access(Gate { access_key: self.settings.access_key.clone(), noted });
        service.set_host(Hosts { count: Arc::clone(&self.by_host) });
        let tls = self.certificates.as_ref().map(|(certificates, _)| certificates.acceptor());
        let runtime = in_process::runtime();
        let listener = in_process::listen(&runtime, self.settings.port);
        runtime.spawn(serve(listener, service.build(), tls));
        self.runtime = Some(runtime);
    }

    /// Requests so far that had the bucket in the name of the host, as in `bucket.localhost`.
    pub fn requests_by_host(&self) -> u64 {
        self.by_host.load(Ordering::Relaxed)
    }

    /// Requests so far that deleted something, one object or many.
    pub fn deletes(&self) -> u64 {
        self.deletes.load(Ordering::Relaxed)
    }

    /// The requests since the last call, or nothing the first time: each with its operation and the key it is about.
    pub fn requests(&self) -> Vec<(String, String)> {
        self.noted.take()
    }

    /// The URL that clients call their endpoint.
    pub fn endpoint(&self) -> String {
        if self.settings.tls {
            return format!("https://localhost:{}", self.address.port());
        }
        format!("http://{}", self.address)
    }

    /// The certificate of the authority behind its own. It must speak TLS.
    pub fn authority(&self) -> PathBuf {
        self.certificates.as_ref().expect("a server with TLS").0.authority.clone()
    }

    /// Whether there is such a bucket.
    pub fn has_bucket(&self, bucket: &str) -> bool {
        self.objects.has_bucket(bucket).is_ok()
    }
}

impl Store for S3Server {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn key(&self, rights: Rights) -> (String, String) {
        (rights.key(&self.settings.access_key), self.settings.secret_key.clone())
    }

    fn env(&self) -> Vec<(String, String)> {
        let (key, secret) = self.key(Rights::All);
        [
            ("AWS_ACCESS_KEY_ID", key.as_str()),
            ("AWS_SECRET_ACCESS_KEY", &secret),
            ("AWS_ENDPOINT_URL_S3", &self.endpoint()),
            ("AWS_REGION", "us-east-1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    fn make_bucket(&self, bucket: &str) {
        self.objects.make_bucket(bucket).unwrap();
    }

    fn put_object(&self, bucket: &str, key: &str, bytes: &[u8]) {
        let kept = self.settings.checksums == Checksums::Kept;
        let checksum = kept.then(|| checksum_of(crc32c(bytes)));
        let mut writing = self.objects.write(bucket, key, HashMap::default(), checksum).unwrap();
        writing.append(bytes).unwrap();
        self.objects.place(writing, &Condition::None).unwrap();
    }

    fn delete_object(&self, bucket: &str, key: &str) {
        self.objects.delete(bucket, key).unwrap();
    }

    fn object(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let (_, mut file) = self.objects.find(bucket, key).unwrap()?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        Some(bytes)
    }

    fn objects(&self, bucket: &str) -> Vec<(String, u64)> {
        let all = self.objects.list(bucket, "", "", usize::MAX).unwrap();
        all.into_iter().map(|(key, object)| (key, object.size)).collect()
    }

    fn incomplete_uploads(&self, bucket: &str) -> Vec<String> {
        self.objects.uploads(bucket).unwrap().into_iter().map(|upload| upload.key).collect()
    }

    fn damage(&self, bucket: &str, key: &str, change: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut bytes = self.object(bucket, key).expect("an object of this name");
        change(&mut bytes);
        self.objects.overwrite(bucket, key, &bytes).unwrap();
    }

    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(END);
        }
    }

    fn restart(&mut self) {
        self.kill();
        self.objects = Arc::new(Objects::open(self.objects.root()).unwrap());
        self.serve();
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        drop(self.temporary.take());
    }
}

async fn serve(listener: TcpListener, service: S3Service, tls: Option<TlsAcceptor>) {
    loop {
        // Out of descriptors for a moment, or gone before it was taken.
        let Ok((connection, _)) = listener.accept().await else { continue };
        let _ = connection.set_nodelay(true);
        let (service, tls) = (service.clone(), tls.clone());
        tokio::spawn(async move {
            let Some(tls) = tls else { return answer(connection, service).await };
            // A client that does not trust it goes away.
            if let Ok(connection) = tls.accept(connection).await {
                answer(connection, service).await;
            }
        });
    }
}

async fn answer(connection: impl AsyncRead + AsyncWrite + Unpin, service: S3Service) {
    let mut http = hyper::server::conn::http1::Builder::new();
    // A client that goes away in the middle is no concern of the server's.
    let _ = http.half_close(false).serve_connection(TokioIo::new(connection), service).await;
}
