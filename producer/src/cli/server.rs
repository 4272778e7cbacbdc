//! What can be said of a server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use url::Url;

use super::WhereaboutsArguments;

/// Where a server listens unless it is told otherwise.
const LISTEN: &str = "127.0.0.1:8470";

/// Arguments of `serve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// Address and port of this machine; with port 0 any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    pub(crate) listen: SocketAddr,
    /// What its users call it, where a proxy stands before it.
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(crate) url: Option<Url>,
    /// A further name that it answers to; may stand several times.
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) allowed_hosts: Vec<String>,
    /// A folder of this machine that the paths of jobs which are handed in may lead into, beside what comes with them; may stand
    /// several times.
    #[arg(long = "allow-path", value_name = "DIR")]
    pub(crate) allowed_paths: Vec<PathBuf>,
    /// Who may use it: whoever has its secret or a link that it printed, or everybody who reaches it.
    #[arg(long, value_enum, default_value_t = Auth::Local)]
    pub(crate) auth: Auth,
    /// Open it in the browser.
    #[arg(long)]
    pub(crate) open: bool,
    /// Start nothing: print a link to the server that runs at this port.
    #[arg(long, conflicts_with_all = ["open", "url", "allowed_hosts", "allowed_paths", "auth"])]
    pub(crate) link: bool,
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
    /// Programs of its user, and browsers that a link logged in.
    Local,
    /// Everybody who reaches it: for containers and tests.
    None,
}

fn url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.path() != "/" || url.query().is_some() {
        return Err("it is an address such as https://prs.example.org, without a path".to_owned());
    }
    Ok(url)
}
