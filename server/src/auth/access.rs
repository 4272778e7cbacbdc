//! Who asks, found before a handler runs; what a handler needs, it says by the type [`May`].

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use prs_common::timestamp::now_us;
use prs_jobs::tokens::{Role, Tokens};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tracing::warn;

use super::link::{Codes, Secret};
use super::role::{How, Principal};
use super::session::Sessions;
use crate::http::hosts::Hosts;
use crate::problem::{Kind, Problem};

/// Wrong credentials that are answered at once, within [`WINDOW`].
const TRIES: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);

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
    /// What `prs token create` made.
    tokens: Tokens,
    /// When wrong credentials came.
    wrong: Mutex<VecDeque<Instant>>,
}

impl Access {
    /// Access to the server at `port` with this secret.
    pub(crate) fn new(hosts: Hosts, port: u16, secret: &Secret, is_open: bool, tokens: Tokens) -> Self {
        Self {
            hosts,
            sessions: Sessions::new(port, secret.key("sessions")),
            codes: Codes::new(secret),
            secret: Sha256::digest(secret.text().as_bytes()).into(),
            is_open,
            tokens,
            wrong: Mutex::default(),
        }
    }

    /// Who sends a request with `headers`; nothing where that is not said. Wrong credentials are a problem.
    pub(crate) async fn principal(&self, headers: &HeaderMap) -> Result<Option<Principal>, Problem> {
        if let Some(value) = headers.get(AUTHORIZATION) {
            let token = value.to_str().ok().and_then(|text| {
                let (scheme, token) = text.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
            });
            return self.bearer(token.unwrap_or_default()).await.map(Some);
        }
        if self.is_open {
            return Ok(Some(local()));
        }
        Ok(self.sessions.principal(headers, now_us()))
    }

    /// Who sends this token.
    async fn bearer(&self, token: &str) -> Result<Principal, Problem> {
        if self.is_secret(token) {
            return Ok(local());
        }
        match self.tokens.verify(token, now_us()).await {
            Ok(of) => Ok(Principal { name: of.name, role: of.role, how: How::Token }),
            Err(refusal) if refusal.is_of_store() => {
                warn!(%refusal, "cannot look a token up");
                Err(Problem::new(Kind::SERVERS_UNREACHABLE, "The token cannot be looked up.").retry_after(5))
            }
            Err(refusal) => {
                self.count_wrong()?;
                Err(Problem::new(Kind::WRONG_CREDENTIALS, refusal))
            }
        }
    }

    /// Whether it is the secret of this server.
    pub(crate) fn is_secret(&self, token: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        digest.ct_eq(&self.secret).into()
    }

    /// Counts wrong credentials, and refuses more of them for a while.
    pub(crate) fn count_wrong(&self) -> Result<(), Problem> {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        while wrong.front().is_some_and(|at| at.elapsed() > WINDOW) {
            wrong.pop_front();
        }
        if wrong.len() >= TRIES {
            return Err(Problem::new(Kind::TOO_MANY_REQUESTS, "Wrong credentials came too often.")
                .retry_after(WINDOW.as_secs() as u32));
        }
        wrong.push_back(Instant::now());
        Ok(())
    }
}

/// The user of the server.
fn local() -> Principal {
    Principal { name: "local".to_owned(), role: Role::Admin, how: How::Local }
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
            return Err(Problem::new(Kind::UNAUTHENTICATED, "Log in, or send a token.")
                .hint("prs serve --link prints a link that logs a browser in"));
        };
        if !who.role.allows(needed) {
            let (role, name) = (who.role, &who.name);
            return Err(Problem::new(
                Kind::FORBIDDEN,
                format_args!("{name} has the role {role}; this needs the role {needed}."),
            ));
        }
        Ok(Self(who.clone()))
    }
}
