//! Signing in with an identity provider: `OpenID` Connect, by a code that the browser brings from there (PKCE, S256).
//!
//! Users whom the provider knows get sessions with the roles of their groups; those whose groups have no role get none. What the browser has
//! to bring back is in a signed cookie of ten minutes, so that any server may take it and no other browser can.
//!
//! A program without the feature `oidc` has no provider (`off`).

#[cfg_attr(not(feature = "oidc"), path = "off.rs")]
mod provider;
mod returning;
mod sign_in;

use std::fmt;

use url::Url;

pub(crate) use provider::Provider;
pub(crate) use returning::{Awaited, Returning};
pub(crate) use sign_in::SignIn;

/// The address that the provider sends browsers back to.
pub(crate) const RETURN: &str = "/oidc/return";

/// An identity provider, and who a server is there.
#[derive(Clone)]
pub struct OidcOptions {
    /// Its address, as its tokens have it.
    pub issuer: Url,
    /// What the server is called there.
    pub client_id: String,
    /// The secret of the server there; nothing of one that has none.
    pub client_secret: Option<String>,
    /// The claim with the groups.
    pub groups_claim: String,
    /// What people call the provider.
    pub name: String,
}

impl fmt::Debug for OidcOptions {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcOptions")
            .field("issuer", &self.issuer.as_str())
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// A user whom the provider knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// What never changes of them.
    pub(crate) subject: String,
    /// What people call them.
    pub(crate) name: String,
    /// Their groups.
    pub(crate) groups: Vec<String>,
}

/// Why a user did not get in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The provider gives no answer, or none that can be used; why is for the log.
    #[error("the identity provider gives no answer that can be used")]
    Away(String),
    /// What it says of a user does not hold; why is for the log.
    #[error("what the identity provider says does not hold")]
    Untrue(String),
}

/// Whether a provider may be asked at this address: over TLS, or on this machine.
pub(crate) fn is_safe(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_asked_over_tls_or_on_this_machine() {
        for (url, expected) in [
            ("https://id.example.org/realms/a", true),
            ("http://id.example.org", false),
            ("http://localhost:8080", true),
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example.org", false),
            ("ftp://localhost", false),
        ] {
            assert_eq!(is_safe(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
