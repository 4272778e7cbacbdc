//! Which requests a server makes for its callers. The address of a host is looked up once for each connection, and the connection goes
//! to what was found: a name that means another address a moment later changes nothing.
//!
//! Where a proxy is set, it makes the connections. Then a host is looked up before, too, and refused where it has an address that is not
//! public; what the proxy makes of a name that is not known here, is up to the proxy.

use std::net::IpAddr;
use std::sync::Arc;

use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::dns::{DnsFuture, ResolveDns, ResolveDnsError};
use url::{Host, Url};

use super::answer::HttpFailure;
use crate::dataset::http_url;
use crate::storage::StorageErrorKind::PermissionDenied;
use crate::storage::{Reach, is_public};

/// What an error says of an address that is refused.
pub(super) const NOT_PUBLIC: &str = "its address is not a public one";
/// Variables that name proxies.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// What may be read.
pub(super) struct Guard {
    pub(super) reach: Arc<Reach>,
    /// For what is not named.
    pub(super) connector: Connector,
}

impl Guard {
    /// Whether the operator named `url`, wherever it is.
    pub(super) fn names(&self, url: &Url) -> bool {
        let mut plain = url.clone();
        let _ = (plain.set_username(""), plain.set_password(None));
        plain.set_query(None);
        plain.set_fragment(None);
        self.reach.names(plain.as_str())
    }
}

/// Refuses `url`, which nobody named, where it is not encrypted, not at a public address or not on the host of `own`, as far as that is
/// known before there is a connection.
pub(super) async fn check_public(url: &Url, own: &Url) -> Result<(), HttpFailure> {
    if url.host() != own.host() {
        let shown = http_url::shown(url.as_str()).into_owned();
        let message =
            format!("the server redirects to another host, {shown}: give that URL itself if it is meant");
        return Err(HttpFailure::of(PermissionDenied, message));
    }
    if url.scheme() != "https" {
        return Err(HttpFailure::of(PermissionDenied, "it is not encrypted: give an https:// URL"));
    }
    let is_fine = match url.host() {
        Some(Host::Ipv4(address)) => is_public(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => is_public(IpAddr::V6(address)),
        Some(Host::Domain(name)) if has_proxy() => {
            all(name).await.is_none_or(|all| all.into_iter().all(is_public))
        }
        Some(Host::Domain(_)) => true,
        None => false,
    };
    if is_fine { Ok(()) } else { Err(refused(url)) }
}

/// What is said of a host whose address is refused.
pub(super) fn refused(url: &Url) -> HttpFailure {
    let host = url.host_str().unwrap_or_default();
    HttpFailure::of(
        PermissionDenied,
        format!(
            "{NOT_PUBLIC}, and the server that took the job reads no others: send the file along, or have the server started with --allow-input https://{host}"
        ),
    )
}

/// The addresses of a name; nothing where it has none.
async fn all(name: &str) -> Option<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((name, 0)).await.ok()?;
    Some(found.map(|address| address.ip()).collect())
}

fn has_proxy() -> bool {
    PROXIES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Looks names up, and refuses those with an address that is not public; but for the proxies of the environment.
#[derive(Debug, Clone)]
pub(super) struct PublicNames {
    proxies: Arc<[String]>,
}

impl PublicNames {
    pub(super) fn new() -> Self {
        let host = |name: &&str| {
            let value = std::env::var(name).ok()?;
            let value = if value.contains("://") { value } else { format!("http://{value}") };
            Some(Url::parse(&value).ok()?.host_str()?.to_ascii_lowercase())
        };
        Self { proxies: PROXIES.iter().filter_map(host).collect() }
    }
}

impl ResolveDns for PublicNames {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        DnsFuture::new(async move {
            let found = tokio::net::lookup_host((name, 0)).await.map_err(ResolveDnsError::new)?;
            let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
            let is_proxy = self.proxies.iter().any(|proxy| name.eq_ignore_ascii_case(proxy));
            if is_proxy || found.iter().copied().all(is_public) {
                Ok(found)
            } else {
                Err(ResolveDnsError::new(NOT_PUBLIC))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_public_hosts_are_asked() {
        let own = |url: &str| Url::parse(url).unwrap();
        for (url, expected) in [
            ("https://example.org/a", true),
            ("https://8.8.8.8/a", true),
            ("http://example.org/a", false),
            ("https://127.0.0.1/a", false),
            ("https://127.1/a", false),
            ("https://2130706433/a", false),
            ("https://0x7f.0.0.1/a", false),
            ("https://[::1]/a", false),
            ("https://[::ffff:10.0.0.1]/a", false),
            ("https://169.254.169.254/latest/meta-data", false),
        ] {
            let url = own(url);
            assert_eq!(check_public(&url, &url).await.is_ok(), expected, "{url}");
        }
        assert!(check_public(&own("https://other.org/a"), &own("https://example.org/a")).await.is_err());
        let refused = PublicNames::new().resolve_dns("localhost").await.unwrap_err();
        assert!(crate::storage::s3::causes(&refused).contains(NOT_PUBLIC));
    }

    #[test]
    fn a_name_of_the_operator_holds_for_the_url_that_is_asked() {
        let reach = Arc::new(Reach::new(None, ["https://localhost:8443/data".to_owned()]));
        let guard = Guard { reach, connector: super::super::client::connector(None) };
        for (url, expected) in [
            ("https://me:secret@localhost:8443/data/a?sig=x#y", true),
            ("https://localhost:8443/data/../a", false),
            ("https://localhost:8443/data/%2e%2e/a", false),
            ("https://localhost/data/a", false),
            ("https://localhost:8443@evil.org/data/a", false),
        ] {
            assert_eq!(guard.names(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
