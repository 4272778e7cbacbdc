//! Signing in at this server: its provider, the cookie that a browser brings back, and the roles of groups.

use prs_jobs::tokens::{Role, SessionKeys};
use url::Url;

use super::super::role::{How, Principal};
use super::super::role_map::RoleMap;
use super::super::session::SignedIn;
use super::{Known, OidcOptions, Provider, Returning};
use crate::http::conditional::short_checksum;

/// What the ids of users of the provider begin with: no token has one like it.
const OF_PROVIDER: &str = "oidc:";

/// How users sign in.
#[derive(Debug)]
pub(crate) struct SignIn {
    pub(crate) provider: Provider,
    pub(crate) returning: Returning,
    roles: RoleMap,
    /// What changes with the provider and the roles.
    rules: String,
}

impl SignIn {
    /// With the provider of `options`, whose groups have these `roles`; at a server that browsers reach at `url`. Nothing where the program
    /// was built without it.
    pub(crate) fn new(
        options: &OidcOptions,
        roles: &RoleMap,
        (url, port): (&Url, u16),
        keys: SessionKeys,
    ) -> Option<Self> {
        let redirect = url.join(super::RETURN).ok()?;
        let text = format!("{} {} {roles:?}", options.issuer, options.client_id);
        Some(Self {
            returning: Returning::new(port, url.scheme() == "https", keys),
            provider: Provider::new(options.clone(), redirect)?,
            roles: roles.clone(),
            rules: short_checksum(text.as_bytes()),
        })
    }

    /// The user with the role of the groups; nothing where they have none.
    pub(crate) fn signed_in(&self, known: Known) -> Option<SignedIn> {
        let Known { subject, name, groups } = known;
        let role = self.roles.role_of(&groups)?;
        Some(SignedIn { subject: format!("{OF_PROVIDER}{subject}"), name, role, rules: self.rules.clone() })
    }

    /// Who has such a session; nobody where the rules are others by now.
    pub(crate) fn principal(&self, user: SignedIn, until_us: u64) -> Option<Principal> {
        let SignedIn { subject, name, role, rules } = user;
        let endpoints = if role == Role::Invoke { vec!["*".to_owned()] } else { Vec::new() };
        (rules == self.rules).then_some(Principal {
            name,
            role,
            endpoints,
            expires_us: Some(until_us),
            how: How::Session,
            token_id: None,
            subject: Some(subject),
        })
    }
}
