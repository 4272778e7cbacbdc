//! The listener, from its start to its end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use axum::middleware::from_fn_with_state;
use axum_server::Handle;
use prs_jobs::intake::{Desk, Program};
use prs_jobs::tokens::Tokens;
use prs_jobs::{Failure, Whereabouts};
use prs_portal::view::Chrome;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use url::Url;

use crate::app::{App, Shared};
use crate::auth::Access;
use crate::auth::link::{LinkError, Secret, ServerFile, link};
use crate::frame::{admit, frame};
use crate::heard::Heard;
use crate::http::hosts::Hosts;
use crate::index::Index;
use crate::live::Watches;
use crate::pages::Assets;
use crate::{api, pages};

/// A client that sends no whole request for so long is left.
const HEADER: Duration = Duration::from_secs(10);
/// Bytes of the headers of a request.
const HEADERS: usize = 32 << 10;
/// Bytes of the body of a request that takes no file.
const BODY: usize = 1 << 20;
/// How long requests that are under way may take when the server ends.
const DRAIN: Duration = Duration::from_secs(25);

/// How a server is reached, and who may ask.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens; port 0 takes one that is free.
    pub listen: SocketAddr,
    /// What its users call it, where that is not its address.
    pub url: Option<Url>,
    /// Further names that it answers to.
    pub allowed_hosts: Vec<String>,
    /// Whether everybody who reaches it may do everything.
    pub is_open: bool,
    /// What runs a job of this machine that is handed in.
    pub program: Program,
    /// Folders that the paths of jobs which are handed in may lead into.
    pub allowed_paths: Vec<PathBuf>,
}

/// Why a server cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is reached from other machines.
    #[error(
        "{0} is reached from other machines, and this server knows no users: listen on a loopback address such as 127.0.0.1:{port}, and let others in by ssh -L {port}:127.0.0.1:{port} HOST",
        port = .0.port()
    )]
    NotLoopback(SocketAddr),
    /// The address is taken, or is not of this machine.
    #[error(
        "cannot listen on {address}: {error}; --listen takes another address, and port 0 any that is free"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Programs of this user cannot be told of it.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The storage of the jobs cannot be used.
    #[error("{0}")]
    Jobs(Failure),
    /// It broke off.
    #[error("the server ended: {0}")]
    Broken(io::Error),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    app: App,
    secret: Secret,
    address: SocketAddr,
    _file: ServerFile,
}

impl Server {
    /// Begins to listen, in front of the jobs that are there. Requests wait until [`Self::run`].
    pub async fn start(
        options: &Options,
        whereabouts: Whereabouts,
        place: String,
    ) -> Result<Self, ServeError> {
        let address = options.listen;
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let url = options
            .url
            .as_ref()
            .map_or_else(|| format!("http://{address}"), |url| url.as_str().trim_end_matches('/').to_owned());
        let whereabouts = whereabouts.heard_by(Arc::new(Heard::default()));
        let tokens = Tokens::open(&whereabouts).await.map_err(ServeError::Jobs)?;
        let (program, paths) = (options.program.clone(), options.allowed_paths.clone());
        let desk = Desk::open(&whereabouts, program, paths).await.map_err(ServeError::Jobs)?;
        let secret = Secret::new();
        let hosts = Hosts::new(options.url.as_ref(), &options.allowed_hosts);
        let assets = Assets::new();
        let user = if options.is_open { "" } else { "local" };
        let app = App::new(Shared {
            access: Access::new(hosts, address.port(), &secret, options.is_open, tokens),
            desk,
            index: Index::new(whereabouts.clone()),
            watches: Watches::new(whereabouts.clone()),
            chrome: Chrome {
                place,
                css: assets.css,
                js: assets.js,
                icon: assets.icon,
                user: user.to_owned(),
                is_open: options.is_open,
            },
            url: url.clone(),
            stop: CancellationToken::new(),
            whereabouts,
        });
        let file = ServerFile::write(&url, address.port(), &secret)?;
        Ok(Self { listener, app, secret, address, _file: file })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its users call it.
    pub fn url(&self) -> &str {
        &self.app.url
    }

    /// A link that logs a browser in once.
    pub fn link(&self) -> String {
        link(self.url(), &self.secret)
    }

    /// Answers requests until `ends`; then lets those that are under way end.
    pub async fn run(self, ends: impl Future<Output = ()>) -> Result<(), ServeError> {
        let handle = Handle::new();
        let mut server = axum_server::from_tcp(self.listener).map_err(ServeError::Broken)?;
        server.http_builder().http1().header_read_timeout(HEADER).max_buf_size(HEADERS);
        server.http_builder().http2().max_concurrent_streams(100).max_header_list_size(HEADERS as u32);
        let service = router(self.app.clone()).into_make_service();
        let desk = self.app.desk.clone();
        let tidying = tokio::spawn(async move { desk.tidy().await });
        let serving = server.handle(handle.clone()).first_request_timeout(HEADER).serve(service);
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => return ended.map_err(ServeError::Broken),
            () = ends => {}
        }
        tidying.abort();
        // Streams end by themselves.
        self.app.stop.cancel();
        handle.graceful_shutdown(Some(DRAIN));
        serving.await.map_err(ServeError::Broken)
    }
}

/// All addresses, with what stands around each.
pub(crate) fn router(app: App) -> Router {
    let panicked = |_: Box<dyn std::any::Any + Send>| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        response
    };
    Router::new()
        .merge(api::router())
        .merge(pages::router())
        .layer(axum::extract::DefaultBodyLimit::max(BODY))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), admit))
        .layer(from_fn_with_state(app.clone(), frame))
        .layer(CompressionLayer::new())
        .with_state(app)
}
