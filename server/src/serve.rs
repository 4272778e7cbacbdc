//! The listener, from its start to its end.

use std::fmt;
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
use futures_util::FutureExt;
use prs_common::storage::Reach;
use prs_common::timestamp::now_us;
use prs_jobs::audit::Audit;
use prs_jobs::intake::{Desk, Program};
use prs_jobs::tokens::{TokenState, Tokens};
use prs_jobs::{Failure, Whereabouts};
use prs_portal::view::Chrome;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use tracing::{error, info, warn};
use url::Url;

use crate::app::{App, Direct, Shared};
use crate::audit::audited;
use crate::auth::link::{LinkError, Secret, ServerFile, link};
use crate::auth::oidc::{OidcOptions, SignIn, is_safe};
use crate::auth::proxy::{Network, Proxies};
use crate::auth::role_map::RoleMap;
use crate::auth::session::Sessions;
use crate::auth::{Access, random_text};
use crate::door::{Door, TlsFiles};
use crate::fleet::FleetView;
use crate::frame::{admit, frame};
use crate::heard::Heard;
use crate::http::cors::Origin;
use crate::http::hosts::Hosts;
use crate::http::rates::{Counts, Guesses, Limits};
use crate::index::Index;
use crate::listen::{Listen, Listener, Peer, SocketFile};
use crate::live::Watches;
use crate::metrics::Metrics;
use crate::pages::Assets;
use crate::problem::Places;
use crate::roles::authorize;
use crate::servers::ServersView;
use crate::shared_looks::SharedLooks;
use crate::{api, pages};

/// A client that sends no whole request for so long is left.
const HEADER: Duration = Duration::from_secs(10);
/// How long a server that others reach goes on taking requests when it is to end: what is before it hears meanwhile, at `/readyz`,
/// that others are to have them.
const CATCH_UP: Duration = Duration::from_secs(5);
/// How long requests that are under way may take when the server ends.
const DRAIN: Duration = Duration::from_secs(25);

/// Between two writes of which tokens were shown.
const USES: Duration = Duration::from_secs(15);
/// How long the last lines of the audit may take to be written.
const LAST_LINES: Duration = Duration::from_secs(10);

/// How a server is reached, and who may ask.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens; port 0 takes one that is free.
    pub listen: Listen,
    /// What its users call it, where that is not its address.
    pub url: Option<Url>,
    /// Further names that it answers to.
    pub allowed_hosts: Vec<String>,
    /// Pages elsewhere that may ask for what programs ask for.
    pub origins: Vec<Origin>,
    /// Whether everybody who reaches it may do everything.
    pub is_open: bool,
    /// The networks of proxies that are believed to say where requests began.
    pub trusted_proxies: Vec<Network>,
    /// The roles of users whom these proxies name; nothing where they name none.
    pub proxy_roles: Option<RoleMap>,
    /// The identity provider that browsers sign in with, and the roles of its groups.
    pub oidc: Option<(OidcOptions, RoleMap)>,
    /// The certificate, where it is reached by https without a proxy.
    pub tls: Option<TlsFiles>,
    /// Whether it may be reached from other machines without TLS of its own: a proxy has that.
    pub may_be_plain: bool,
    /// How many requests it takes.
    pub limits: Limits,
    /// Where it tells figures without a token.
    pub metrics: Option<SocketAddr>,
    /// A token that is entered into the registry before the first request.
    pub first_token: Option<FirstToken>,
    /// What runs a job of this machine that is handed in.
    pub program: Program,
    /// Folders that the paths of jobs which are handed in may lead into.
    pub allowed_paths: Vec<PathBuf>,
    /// Places elsewhere that these jobs may read, beside the bucket of their storage, public HTTP servers and what the configuration
    /// names; as [`Reach::place`] gives them.
    pub allowed_inputs: Vec<String>,
    /// Whether who asks gets files straight from the storage, and sends them straight there, where that can be.
    pub direct: Direct,
    /// The commit that the program was built of; `unknown` where nobody knows.
    pub commit: &'static str,
}

/// A token that was made elsewhere.
#[derive(Clone)]
pub struct FirstToken(pub String);

impl fmt::Debug for FirstToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstToken")
    }
}

/// What the list of tokens says of one that a server entered.
const FIRST_TOKEN: &str = "PRS_TOKEN";

/// Why a server cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It would be reached from other machines, and everybody there might do everything.
    #[error(
        "{0} is reached from other machines, and with --auth none everybody there might run code: leave --auth out, and make a token (prs token create NAME --role read)"
    )]
    OpenToAll(SocketAddr),
    /// It would be reached from other machines, and tokens would go over the network in the clear.
    #[error(
        "{0} is reached from other machines, and tokens must not go there in the clear: give --tls-cert and --tls-key, or --insecure-http where a proxy before it has the TLS; or listen on a loopback address such as 127.0.0.1:{port}, and let others in by ssh -L {port}:127.0.0.1:{port} HOST",
        port = .0.port()
    )]
    InTheClear(SocketAddr),
    /// It would be reached from other machines, and does not know its name there.
    #[error(
        "{0} is reached from other machines: give --url, the address that users have there, such as https://prs.example.org"
    )]
    NoUrl(SocketAddr),
    /// Nobody could ask.
    #[error(
        "{0} is reached from other machines, and there is no token yet that could be shown: make one with prs token create NAME --role admin, or give one that prs token generate printed in the variable PRS_TOKEN"
    )]
    NoToken(Listen),
    /// Proxies say who asks, and none is believed.
    #[error(
        "with --auth proxy a proxy says who asks: give its addresses with --trust-proxy, such as --trust-proxy 10.1.2.3"
    )]
    NoProxy,
    /// Groups have roles, and nobody would have one.
    #[error("nobody has a role: give --role-map, such as --role-map admin=prs-admins,submit=ml-*,read=*")]
    NoRoles,
    /// What the identity provider says would come in the clear.
    #[error("--oidc-issuer {0} is not encrypted: give an address with https, or one of this machine")]
    ProviderInTheClear(Url),
    /// It would be called by another scheme than it speaks.
    #[error("with --tls-cert the server is reached by https, and --url says {0}")]
    OtherScheme(Url),
    /// The certificate cannot be used.
    #[error("cannot use the certificate {}: {error}; --tls-cert and --tls-key take files in PEM, the key without a password", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The place is taken, or is not of this machine.
    #[error(
        "cannot listen on {place}: {error}; --listen takes another address, with port 0 any that is free, or unix:PATH, a socket in a folder of yours"
    )]
    Listen {
        /// The place.
        place: Listen,
        /// Why.
        error: io::Error,
    },
    /// The address for metrics is taken, or is not of this machine.
    #[error(
        "cannot tell metrics on {address}: {error}; --metrics-listen takes another address, and port 0 any that is free"
    )]
    ListenForMetrics {
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
    listener: Listener,
    socket: Option<SocketFile>,
    app: App,
    secret: Secret,
    door: Door,
    tls: Option<TlsFiles>,
    metrics: Option<TcpListener>,
    _file: Option<ServerFile>,
}

impl Server {
    /// Begins to listen, in front of the jobs that are there. Requests wait until [`Self::run`].
    pub async fn start(
        options: &Options,
        whereabouts: Whereabouts,
        place: String,
    ) -> Result<Self, ServeError> {
        let is_public = options.check()?;
        let metrics = Metrics::new(options.commit);
        let door = Door::open(options.tls.as_ref(), &options.limits, metrics.refused_connections()).await;
        let door = door.map_err(|(path, error)| ServeError::Tls { path, error })?;
        let failed = |error| ServeError::Listen { place: options.listen.clone(), error };
        let (listener, socket) = options.listen.open().map_err(failed)?;
        let listen = options.listen.found(&listener).map_err(failed)?;
        let metrics_listener = options.metrics.map(|address| {
            let failed = |error| ServeError::ListenForMetrics { address, error };
            let listener = TcpListener::bind(address).map_err(failed)?;
            info!(address = %listener.local_addr().map_err(failed)?, "metrics are served");
            Ok::<_, ServeError>(listener)
        });
        let metrics_listener = metrics_listener.transpose()?;
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let url = options.url.as_ref().map_or_else(
            || match &listen {
                Listen::Port(address) => format!("{scheme}://{address}"),
                Listen::Socket(_) => format!("{scheme}://localhost"),
            },
            |url| url.as_str().trim_end_matches('/').to_owned(),
        );
        let is_secure = url.starts_with("https:");
        let whereabouts = whereabouts.heard_by(Arc::new(Heard::default())).counted_by(metrics.calls());
        let own = whereabouts.urls.as_ref().map(|urls| urls.storage.clone());
        let allowed = options.allowed_inputs.iter().cloned().chain(whereabouts.names.configured_places());
        let reach = Reach::new(own.as_deref(), allowed);
        let whereabouts = whereabouts.within(Some(Arc::new(reach)));
        let tokens = Tokens::open(&whereabouts).await.map_err(ServeError::Jobs)?;
        if let Some(FirstToken(text)) = &options.first_token {
            enter(&tokens, text).await.map_err(ServeError::Jobs)?;
        }
        let is_known_elsewhere = options.proxy_roles.is_some() || options.oidc.is_some();
        if is_public
            && !is_known_elsewhere
            && !tokens.is_any_active(now_us()).await.map_err(ServeError::Jobs)?
        {
            return Err(ServeError::NoToken(listen));
        }
        let (program, paths) = (options.program.clone(), options.allowed_paths.clone());
        let desk = Desk::open(&whereabouts, program, paths).await.map_err(ServeError::Jobs)?;
        let secret = Secret::new();
        let hosts = Hosts::new(options.url.as_ref(), &options.allowed_hosts, &options.origins);
        let sessions = Sessions::new(listen.port(), is_secure, secret.key("sessions"), tokens.session_keys());
        let proxies = Proxies::new(options.trusted_proxies.clone(), options.proxy_roles.clone());
        let own = Url::parse(&url).ok();
        let sign_in = options.oidc.as_ref().zip(own.as_ref()).and_then(|((provider, roles), own)| {
            SignIn::new(provider, roles, (own, listen.port()), tokens.session_keys())
        });
        let assets = Assets::new();
        let user = if options.is_open || is_public { "" } else { "local" };
        let guesses = Guesses::new(options.limits.guesses);
        let app = App::new(Shared {
            access: Access::new(
                hosts,
                sessions,
                &secret,
                options.is_open,
                (proxies, sign_in),
                (tokens, guesses),
            ),
            desk,
            index: Index::new(whereabouts.clone(), format!("{url} {}", random_text::<9>())),
            fleet: FleetView::new(whereabouts.clone()),
            servers: ServersView::new(whereabouts.clone()),
            counts: Counts::new(&options.limits),
            limits: options.limits,
            audit: Audit::open(&whereabouts).await.map_err(ServeError::Jobs)?,
            watches: Watches::new(whereabouts.clone(), &options.limits, &metrics),
            looks: SharedLooks::default(),
            metrics,
            chrome: Chrome {
                place,
                css: assets.css,
                js: assets.js,
                icon: assets.icon,
                icons: assets.icons,
                user: user.to_owned(),
                has_fleet: whereabouts.urls.is_some(),
                is_open: options.is_open,
            },
            places: Places::new(&whereabouts),
            url: url.clone(),
            direct: options.direct,
            has_links: !is_public,
            is_secure,
            commit: options.commit,
            stop: CancellationToken::new(),
            whereabouts,
        });
        if is_public && !is_secure {
            warn!(
                url,
                "tokens and sessions go over the network in the clear: have a proxy with TLS before the server, and an --url with https"
            );
        }
        // Where others come in, everybody has a token: the secret of this start is told to nobody.
        let file = if is_public { None } else { Some(ServerFile::write(&url, &listen, &secret)?) };
        let tls = options.tls.clone();
        Ok(Self { listener, socket, app, secret, door, tls, metrics: metrics_listener, _file: file })
    }

    /// What its users call it.
    pub fn url(&self) -> &str {
        &self.app.url
    }

    /// A link that logs a browser in once; nothing where everybody has a token, or nobody needs one.
    pub fn link(&self) -> Option<String> {
        (self.app.has_links && !self.app.access.is_open).then(|| link(self.url(), &self.secret))
    }

    /// Answers requests until `ends`; then lets those that are under way end.
    pub async fn run(self, ends: impl Future<Output = ()>) -> Result<(), ServeError> {
        let handle = Handle::new();
        let mut server =
            axum_server::Server::<Peer>::from_listener(self.listener).acceptor(self.door.clone());
        // It goes when nothing comes in any more.
        let _socket = self.socket;
        let headers = self.app.limits.sizes.headers;
        server.http_builder().http1().header_read_timeout(HEADER).max_buf_size(headers);
        server.http_builder().http2().max_concurrent_streams(100).max_header_list_size(headers as u32);
        let service = router(self.app.clone()).into_make_service_with_connect_info::<SocketAddr>();
        let desk = self.app.desk.clone();
        let tidying = tokio::spawn(async move { desk.tidy().await });
        let app = self.app.clone();
        let keeping = tokio::spawn(async move {
            let (index, history) =
                (app.index.keep().boxed(), app.fleet.keep_history(app.index.owner()).boxed());
            tokio::join!(index, history)
        });
        let serving = server.handle(handle.clone()).first_request_timeout(HEADER).serve(service);
        tokio::pin!(serving);
        let metrics = tell_metrics(self.metrics, &self.app);
        tokio::pin!(metrics);
        tokio::select! {
            ended = &mut metrics => return ended.map_err(ServeError::Broken),
            ended = &mut serving => return ended.map_err(ServeError::Broken),
            () = self.door.watch(self.tls.as_ref()) => {}
            () = self.app.audit.keep() => {}
            () = note_uses(&self.app) => {}
            () = ends => {}
        }
        tidying.abort();
        keeping.abort();
        // Streams end by themselves.
        self.app.stop.cancel();
        if !self.app.has_links {
            tokio::select! {
                ended = &mut metrics => return ended.map_err(ServeError::Broken),
                ended = &mut serving => return ended.map_err(ServeError::Broken),
                () = tokio::time::sleep(CATCH_UP) => {}
            }
        }
        handle.graceful_shutdown(Some(DRAIN));
        // Figures are told until the last request has its answer.
        let ended = tokio::select! {
            ended = serving => ended,
            ended = metrics => ended,
            () = self.app.audit.keep() => Ok(()),
        };
        match tokio::time::timeout(LAST_LINES, self.app.audit.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => error!(%failure, "the last lines of the audit are lost"),
            Err(_) => error!("the last lines of the audit are lost: the storage does not answer"),
        }
        ended.map_err(ServeError::Broken)
    }
}

/// Writes which tokens are shown, again and again. Never returns.
async fn note_uses(app: &App) {
    loop {
        tokio::time::sleep(USES).await;
        if let Err(failure) = app.access.tokens.write_uses().await {
            warn!(%failure, "when tokens were shown is written later");
        }
    }
}

/// Tells figures, and whether the server is well, to every host that reaches this address. Never ends where there is none.
async fn tell_metrics(listener: Option<TcpListener>, app: &App) -> io::Result<()> {
    let Some(listener) = listener else { return std::future::pending().await };
    let mut server = axum_server::from_tcp(listener)?;
    server.http_builder().http1().header_read_timeout(HEADER).max_buf_size(app.limits.sizes.headers);
    let service = api::of_machines().layer(from_fn_with_state(app.clone(), frame)).with_state(app.clone());
    server.first_request_timeout(HEADER).serve(service.into_make_service()).await
}

impl Options {
    /// Whether it is reached from other machines, where that is allowed.
    fn check(&self) -> Result<bool, ServeError> {
        if let (Some(_), Some(url)) = (&self.tls, &self.url)
            && url.scheme() != "https"
        {
            return Err(ServeError::OtherScheme(url.clone()));
        }
        match &self.oidc {
            Some((provider, _)) if !is_safe(&provider.issuer) => {
                return Err(ServeError::ProviderInTheClear(provider.issuer.clone()));
            }
            Some((_, roles)) if roles.is_empty() => return Err(ServeError::NoRoles),
            _ => {}
        }
        match &self.proxy_roles {
            Some(_) if self.trusted_proxies.is_empty() => return Err(ServeError::NoProxy),
            Some(roles) if roles.is_empty() => return Err(ServeError::NoRoles),
            _ => {}
        }
        let Listen::Port(address) = self.listen else { return Ok(false) };
        if address.ip().to_canonical().is_loopback() {
            return Ok(false);
        }
        if self.is_open {
            return Err(ServeError::OpenToAll(address));
        }
        if self.tls.is_none() && !self.may_be_plain {
            return Err(ServeError::InTheClear(address));
        }
        if self.url.is_none() {
            return Err(ServeError::NoUrl(address));
        }
        Ok(true)
    }
}

/// Enters a token that was made elsewhere, where it is not there yet.
async fn enter(tokens: &Tokens, text: &str) -> Result<(), Failure> {
    let now = now_us();
    let token = tokens
        .enter(text, FIRST_TOKEN, "prs serve", now)
        .await
        .map_err(|failure| failure.and("the variable PRS_TOKEN takes what prs token generate printed"))?;
    match token.state(now) {
        TokenState::Active => info!(id = token.id, role = %token.role, "the token of PRS_TOKEN is taken"),
        state => warn!(id = token.id, state = state.as_str(), "the token of PRS_TOKEN is not taken"),
    }
    Ok(())
}

/// All addresses, with what stands around each.
pub(crate) fn router(app: App) -> Router {
    let panicked = |_: Box<dyn std::any::Any + Send>| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        response
    };
    let Limits { sizes, times, .. } = app.limits;
    Router::new()
        .merge(api::router(&sizes))
        .merge(pages::router(&sizes))
        .layer(axum::extract::DefaultBodyLimit::max(sizes.json))
        .layer(RequestBodyTimeoutLayer::new(times.idle))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), authorize))
        .layer(from_fn_with_state(app.clone(), admit))
        .layer(from_fn_with_state(app.clone(), audited))
        .layer(from_fn_with_state(app.clone(), frame))
        .layer(CompressionLayer::new())
        .with_state(app)
}
