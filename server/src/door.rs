//! The way in: plain HTTP, or TLS with a certificate that is read again when its files change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum_server::accept::Accept;
use axum_server::tls_rustls::RustlsConfig;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use rustls::crypto::ring;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tracing::{info, warn};

use crate::connection::Connection;
use crate::http::rates::Limits;
use crate::listen::Stream;

/// Between two looks at the files of a certificate.
const LOOK: Duration = Duration::from_secs(10);

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a connection may take to hear that there is no place.
const REFUSAL: Duration = Duration::from_secs(1);

/// What a connection hears for which there is no place.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// The files of a certificate, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and those that lead from it to one that clients know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How connections come in. Clones share the certificate and the places.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    kind: Kind,
    /// For connections.
    places: Arc<Semaphore>,
    /// How long a client may take no byte of what is sent to it.
    patience: Duration,
    /// Counts those for which there is no place.
    refused: Counter,
}

/// Whether they have TLS.
#[derive(Clone)]
enum Kind {
    /// As they are.
    Plain,
    /// With TLS.
    Tls(RustlsConfig),
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Plain) { "Plain" } else { "Tls" })
    }
}

impl Door {
    /// With the certificate in these files, or plain where there are none; within these limits; `refused` counts connections for which there is no
    /// place.
    pub(crate) async fn open(
        files: Option<&TlsFiles>,
        limits: &Limits,
        refused: Counter,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let places = Arc::new(Semaphore::new(limits.connections.max(1) as usize));
        let of = |kind| Self { kind, places, patience: limits.times.idle, refused };
        let Some(files) = files else { return Ok(of(Kind::Plain)) };
        // The one that all of prs uses. That it was chosen before is fine.
        let _ = ring::default_provider().install_default();
        // The configuration does not say which of the two cannot be read.
        for path in [&files.certificate, &files.key] {
            std::fs::File::open(path).map_err(|error| (path.clone(), error))?;
        }
        let config = RustlsConfig::from_pem_file(&files.certificate, &files.key).await;
        let kind = config.map(Kind::Tls);
        kind.map(of).map_err(|error| (files.certificate.clone(), error))
    }

    /// Reads the certificate again whenever its files change. Never returns.
    pub(crate) async fn watch(&self, files: Option<&TlsFiles>) {
        let (Kind::Tls(config), Some(files)) = (&self.kind, files) else {
            return std::future::pending().await;
        };
        let mut known = files.marks();
        loop {
            tokio::time::sleep(LOOK).await;
            let marks = files.marks();
            if marks == known {
                continue;
            }
            match config.reload_from_pem_file(&files.certificate, &files.key).await {
                Ok(()) => {
                    info!(certificate = %files.certificate.display(), "the certificate is new");
                    known = marks;
                }
                // One of the two may be written still.
                Err(error) => {
                    warn!(%error, certificate = %files.certificate.display(), "the new certificate cannot be used; the former one stays");
                }
            }
        }
    }
}

impl TlsFiles {
    /// What changes when the files do.
    fn marks(&self) -> [Option<(SystemTime, u64)>; 2] {
        let mark = |path: &Path| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.modified().ok()?, file.len()))
        };
        [mark(&self.certificate), mark(&self.key)]
    }
}

impl<S: Send + 'static> Accept<Stream, S> for Door {
    type Stream = Connection<Either<Stream, TlsStream<Stream>>>;
    type Service = S;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, S)>>;

    fn accept(&self, mut stream: Stream, service: S) -> Self::Future {
        let door = self.clone();
        async move {
            let Ok(place) = Arc::clone(&door.places).try_acquire_owned() else {
                door.refused.inc();
                if matches!(door.kind, Kind::Plain) {
                    let _ = timeout(REFUSAL, stream.write_all(NO_PLACE)).await;
                }
                return Err(io::Error::other("as many connections as the server takes are open"));
            };
            match door.kind {
                Kind::Plain => Ok((Connection::new(Either::Left(stream), (place, door.patience)), service)),
                Kind::Tls(config) => {
                    let acceptor = TlsAcceptor::from(config.get_inner());
                    let stream = timeout(HANDSHAKE, acceptor.accept(stream)).await;
                    let stream = stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                    Ok((Connection::new(Either::Right(stream), (place, door.patience)), service))
                }
            }
        }
        .boxed()
    }
}
