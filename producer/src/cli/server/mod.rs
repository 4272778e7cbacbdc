//! What can be said of a server.

mod limits;
#[cfg_attr(not(feature = "oidc"), path = "no_oidc.rs")]
mod oidc;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use prs_common::storage::Reach;
use prs_server::{Listen, Network, Origin, RoleMap};
use url::Url;

use super::WhereaboutsArguments;
use super::servers::{FleetServers, Servers};
use limits::ServeLimits;
use oidc::Provider;

/// Where a server listens unless it is told otherwise.
const LISTEN: &str = "127.0.0.1:8470";

/// Arguments of `serve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// Address and port of this machine, with port 0 any that is free; or `unix:PATH`, a socket for your user alone.
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    pub(crate) listen: Listen,
    /// What its users call it, where that is not the address that it listens on.
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(crate) url: Option<Url>,
    /// A further name that it answers to; may stand several times.
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) allowed_hosts: Vec<String>,
    /// An origin such as `https://dashboards.example.org` whose pages may ask for what programs ask for, with a token of their own; may
    /// stand several times.
    #[arg(long = "cors-origin", value_name = "URL")]
    pub(crate) origins: Vec<Origin>,
    /// Its certificate, in PEM: it is reached by https, and reads the file again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen for other machines without TLS: a proxy before the server has that.
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) insecure_http: bool,
    /// A folder of this machine that the paths of jobs which are handed in may lead into, beside what comes with them; may stand
    /// several times.
    #[arg(long = "allow-path", value_name = "DIR")]
    pub(crate) allowed_paths: Vec<PathBuf>,
    /// A place elsewhere that jobs which are handed in may read, beside the bucket of the storage and public HTTPS servers:
    /// `s3://bucket/prefix`, or `https://host/prefix` wherever that host is; may stand several times.
    #[arg(long = "allow-input", value_name = "URL", value_parser = Reach::place)]
    pub(crate) allowed_inputs: Vec<String>,
    /// Send callers that ask for a result or another file on to the S3 storage, with a URL that holds for 5 minutes: the bytes do
    /// not pass through the server.
    #[arg(long)]
    pub(crate) direct_downloads: bool,
    /// Let programs send files straight to the S3 storage, with URLs that hold for an hour.
    #[arg(long)]
    pub(crate) direct_uploads: bool,
    /// Who may use it: holders of a token, of its secret or of a link that it printed; with `proxy` users that a proxy before it names,
    /// too; or everyone who reaches it.
    #[arg(long, value_enum, default_value_t = Auth::Local)]
    pub(crate) auth: Auth,
    /// A network of proxies, or one address, whose `X-Forwarded-For` says where a request began, and with `--auth proxy` who asks; may
    /// stand several times.
    #[arg(long = "trust-proxy", value_name = "CIDR")]
    pub(crate) trusted_proxies: Vec<Network>,
    #[command(flatten)]
    pub(crate) provider: Provider,
    /// The roles of groups that a proxy names, such as `admin=prs-admins,submit=ml-*,read=*`; `*` alone is everybody who is known.
    #[arg(long, value_name = "ROLE=GROUP,...")]
    pub(crate) role_map: Option<RoleMap>,
    /// Tell metrics, and whether the server is well, at this address and port, too, without a token.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Open it in the browser.
    #[arg(long)]
    pub(crate) open: bool,
    /// Start nothing: print a link to the server that runs at this port.
    #[arg(long, conflicts_with_all = ["open", "url", "allowed_hosts", "origins", "allowed_paths", "allowed_inputs", "direct_downloads", "direct_uploads", "auth", "trusted_proxies", "role_map", "tls_cert", "insecure_http", "metrics_listen", "ServeLimits"])]
    pub(crate) link: bool,
    #[command(flatten)]
    pub(crate) limits: ServeLimits,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Arguments of `take-up`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TakeUp {
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
    /// The order of the server.
    #[arg(value_name = "ORDER")]
    pub(crate) order: PathBuf,
}

/// Who may use a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Auth {
    /// Holders of a token, programs of its user, and browsers that one of them logged in.
    Local,
    /// The same, and whom a proxy at an address of `--trust-proxy` names in `X-Forwarded-User`, with the role that `--role-map` gives the
    /// groups in `X-Forwarded-Groups`.
    Proxy,
    /// Everybody who reaches it, on a loopback address: for containers and tests.
    None,
}

impl Servers {
    /// Whether no fleet is used, whatever else says.
    pub(crate) fn is_local(&self) -> bool {
        self.local
    }

    /// The options that lead another program to the same configuration, where that is no fleet.
    pub(crate) fn configuration(&self) -> Vec<OsString> {
        let FleetServers { profile, config, .. } = &self.fleet;
        let mut words = Vec::new();
        if let Some(profile) = profile {
            words.extend(["--profile".into(), profile.into()]);
        }
        if let Some(config) = config {
            words.extend(["--config".into(), config.into()]);
        }
        words
    }
}

fn url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.path() != "/" || url.query().is_some() {
        return Err("it is an address such as https://prs.example.org, without a path".to_owned());
    }
    Ok(url)
}
