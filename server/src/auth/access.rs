//! Who asks, found before a handler runs; what a handler needs, it says by the type [`May`].

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use prs_common::timestamp::now_us;
use prs_jobs::tokens::{Refusal, Role, Tokens};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tracing::warn;

use super::link::{Codes, Secret};
use super::oidc::SignIn;
use super::proxy::Proxies;
use super::role::{How, Principal};
use super::session::{Session, Sessions};
use crate::http::hosts::Hosts;
use crate::http::rates::Guesses;
use crate::problem::{Kind, Problem};

/// Who may ask, and for what.
#[derive(Debug)]
pub(crate) struct Access {
    /// The names that the server answers to.
    pub(crate) hosts: Hosts,
    /// The sessions of browsers.
    pub(crate) sessions: Sessions,
    /// The codes that log in.
    pub(crate) codes: Codes,
    /// SHA-256 of the secret that a program of the same user sends.
    secret: [u8; 32],
    /// Whether everybody who reaches the server may do everything.
    pub(crate) is_open: bool,
    /// The proxies that are believed.
    pub(crate) proxies: Proxies,
    /// The identity provider, where there is one.
    pub(crate) sign_in: Option<SignIn>,
    /// What `prs token create` made.
    pub(crate) tokens: Tokens,
    /// Wrong credentials, by where they come from.
    pub(crate) guesses: Guesses,
}

impl Access {
    /// Access with this secret, the browsers' `sessions`, and `tokens`.
    pub(crate) fn new(
        hosts: Hosts,
        sessions: Sessions,
        secret: &Secret,
        is_open: bool,
        (proxies, sign_in): (Proxies, Option<SignIn>),
        (tokens, guesses): (Tokens, Guesses),
    ) -> Self {
        Self {
            hosts,
            sessions,
            codes: Codes::new(secret),
            secret: Sha256::digest(secret.text().as_bytes()).into(),
            is_open,
            proxies,
            sign_in,
            tokens,
            guesses,
        }
    }

    /// Who sends a request with `headers` from `address`; nothing where that is not said. Wrong credentials are a problem. A token counts
    /// for more than what a proxy has `forwarded`, and that for more than a session.
    pub(crate) async fn principal(
        &self,
        headers: &HeaderMap,
        address: IpAddr,
        forwarded: Option<Principal>,
    ) -> Result<Option<Principal>, Problem> {
        if let Some(value) = headers.get(AUTHORIZATION) {
            let token = value.to_str().ok().and_then(|text| {
                let (scheme, token) = text.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
            });
            // What else stands there may be meant for the proxy.
            if token.is_some() || forwarded.is_none() {
                return self.bearer(token.unwrap_or_default(), address).await.map(Some);
            }
        }
        if forwarded.is_some() {
            return Ok(forwarded);
        }
        if self.is_open {
            return Ok(Some(Principal::local(How::Local)));
        }
        let session = self.sessions.session(headers, now_us()).await;
        match session.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))? {
            None => Ok(None),
            Some(Session::Local) => Ok(Some(Principal::local(How::Session))),
            Some(Session::SignedIn(user, until_us)) => {
                Ok(self.sign_in.as_ref().and_then(|sign_in| sign_in.principal(user, until_us)))
            }
            Some(Session::Token(id)) => match self.tokens.of_id(&id, now_us()).await {
                Ok(of) => Ok(Some(Principal::of_token(of, How::Session))),
                Err(refusal) if refusal.is_of_store() => Err(not_looked_up(&refusal)),
                // The session ends with the token, and the login says what is next.
                Err(_) => Ok(None),
            },
        }
    }

    /// Who sends this token. Where too many of this address were wrong, none is looked up that nobody has shown here yet.
    pub(crate) async fn bearer(&self, token: &str, address: IpAddr) -> Result<Principal, Problem> {
        if self.is_secret(token) {
            return Ok(Principal::local(How::Local));
        }
        if !self.tokens.knows(token) {
            self.guesses.check(address)?;
        }
        match self.tokens.verify(token, now_us()).await {
            Ok(of) => Ok(Principal::of_token(of, How::Token)),
            Err(refusal) if refusal.is_of_store() => Err(not_looked_up(&refusal)),
            Err(refusal) => {
                if refusal.is_of_guess() {
                    self.guesses.count(address)?;
                }
                Err(Problem::new(Kind::WRONG_CREDENTIALS, refusal))
            }
        }
    }

    /// Whether it is the secret of this server.
    pub(crate) fn is_secret(&self, token: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        digest.ct_eq(&self.secret).into()
    }
}

fn not_looked_up(refusal: &Refusal) -> Problem {
    warn!(%refusal, "cannot look a token up");
    let detail = "The storage of the registry does not give the token, so it is not known who asks.";
    Problem::new(Kind::SERVERS_UNREACHABLE, detail).retry_after(5)
}

/// Who asks, where they have the role with this number at least: 0 reads, 1 submits, 2 administers.
#[derive(Debug)]
pub(crate) struct May<const ROLE: u8>(pub(crate) Principal);

/// May see jobs.
pub(crate) type MayRead = May<0>;
/// May remove jobs.
pub(crate) type MayAdmin = May<2>;
/// May change jobs.
pub(crate) type MaySubmit = May<1>;

impl<const ROLE: u8, S: Sync> FromRequestParts<S> for May<ROLE> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let needed = [Role::Read, Role::Submit, Role::Admin][usize::from(ROLE)];
        let Some(who) = parts.extensions.get::<Principal>() else {
            return Err(not_known());
        };
        check(who, needed)?;
        Ok(Self(who.clone()))
    }
}

/// Who asks, of any role.
#[derive(Debug)]
pub(crate) struct Known(pub(crate) Principal);

impl<S: Sync> FromRequestParts<S> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Principal>().cloned().map(Self).ok_or_else(not_known)
    }
}

/// The problem of a request that does not say who asks.
pub(crate) fn not_known() -> Problem {
    Problem::new(Kind::UNAUTHENTICATED, "Log in, or send a token.").hint(
        "prs token create NAME --role read makes a token; where the server listens on a loopback address, prs serve --link prints a link that logs a browser in",
    )
}

/// Refuses `who` where they may not do what `needed` may.
pub(crate) fn check(who: &Principal, needed: Role) -> Result<(), Problem> {
    if who.role.allows(needed) {
        return Ok(());
    }
    let (role, name) = (who.role, &who.name);
    Err(Problem::new(
        Kind::FORBIDDEN,
        format_args!("{name} has the role {role}; this needs the role {needed}."),
    ))
}
