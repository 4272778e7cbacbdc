//! The session of a browser: a cookie that says who logged in, signed by a server. There is no list of sessions.
//!
//! Who logged in with a token of the registry is that token, looked up at each request: the session ends with it, and all
//! servers over the registry know it, for they sign with the same key. Who logged in with the secret of one start of a server, or with
//! a link made of it, is known to that server alone. Who signed in with an identity provider is in the cookie with name and role, which
//! hold as long as the session does, and as long as servers give the groups of that provider the same roles.

use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prs_jobs::Failure;
use prs_jobs::tokens::{Role, SessionKeys};
use serde::{Deserialize, Serialize};

use super::signed::Key;

/// How long a session lasts.
const LASTS: Duration = Duration::from_hours(12);
/// What the keys of the registry are for.
const PURPOSE: &str = "sessions";

/// Makes sessions, and knows its own again.
#[derive(Debug)]
pub(crate) struct Sessions {
    cookie: String,
    /// Whether browsers come by https.
    is_secure: bool,
    local: Key,
    keys: SessionKeys,
}

/// Who logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Session {
    /// The user of this server.
    Local,
    /// The holder of the token with this id.
    Token(String),
    /// A user of the identity provider, until this moment, microseconds since the Unix epoch.
    SignedIn(SignedIn, u64),
}

/// A user of the identity provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignedIn {
    /// What never changes of the user.
    pub(crate) subject: String,
    /// The name.
    pub(crate) name: String,
    /// The role of the groups.
    pub(crate) role: Role,
    /// What changes with the provider, and with the roles that its groups have.
    pub(crate) rules: String,
}

impl Sessions {
    /// Sessions of the server at `port`, which browsers reach by https where it `is_secure`.
    pub(crate) fn new(port: u16, is_secure: bool, local: Key, keys: SessionKeys) -> Self {
        // The prefix keeps names beside this one from setting the cookie, and is for https alone. Cookies do not know ports:
        // two servers of a machine have two names.
        let cookie = if is_secure { "__Host-prs".to_owned() } else { format!("prs-{port}") };
        Self { cookie, is_secure, local, keys }
    }

    /// What an answer sets in the browser of the user of this server, who logged in now.
    pub(crate) fn begin(&self, now_us: u64) -> HeaderValue {
        let value = self.local.sign(&format!("1.{:x}", until(now_us)));
        self.header(&value, LASTS.as_secs())
    }

    /// The same for a person who logged in with the token of this id.
    pub(crate) async fn begin_of(&self, token_id: &str, now_us: u64) -> Result<HeaderValue, Failure> {
        let (number, key) = self.keys.newest(now_us).await?;
        let key = Key::new(&key, PURPOSE);
        let value = key.sign(&format!("2.{number:x}.{token_id}.{:x}", until(now_us)));
        Ok(self.header(&value, LASTS.as_secs()))
    }

    /// The same for a user of the identity provider, whose page the browser comes from.
    pub(crate) async fn begin_signed_in(&self, user: &SignedIn, now_us: u64) -> Result<HeaderValue, Failure> {
        let (number, key) = self.keys.newest(now_us).await?;
        let key = Key::new(&key, PURPOSE);
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(user).unwrap_or_default());
        let value = key.sign(&format!("3.{number:x}.{text}.{:x}", until(now_us)));
        Ok(self.header_of(&value, LASTS.as_secs(), true))
    }

    /// What an answer sets in the browser of a person who logs out.
    pub(crate) fn end(&self) -> HeaderValue {
        self.header("", 0)
    }

    fn header(&self, value: &str, seconds: u64) -> HeaderValue {
        // Lax, so that a link in a message leads to the page and not to the login. A change needs more than the cookie anyway.
        self.header_of(value, seconds, self.is_secure)
    }

    fn header_of(&self, value: &str, seconds: u64, is_lax: bool) -> HeaderValue {
        let secure = if self.is_secure { "Secure; " } else { "" };
        let site = if is_lax { "Lax" } else { "Strict" };
        let rules = format!("{secure}HttpOnly; SameSite={site}");
        let text = format!("{}={value}; Path=/; Max-Age={seconds}; {rules}", self.cookie);
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }

    /// Who logged in, by the cookie of a request with `headers`.
    pub(crate) async fn session(&self, headers: &HeaderMap, now_us: u64) -> Result<Option<Session>, Failure> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let Some(value) = pairs.find_map(|(name, value)| (name == self.cookie).then_some(value)) else {
            return Ok(None);
        };
        let Some(rest) = value.strip_prefix("2.").or_else(|| value.strip_prefix("3.")) else {
            let text = self.local.open(value).and_then(|text| text.strip_prefix("1."));
            return Ok(text.filter(|until| is_ahead(until, now_us)).map(|_| Session::Local));
        };
        let number = rest.split_once('.').and_then(|(number, _)| u64::from_str_radix(number, 16).ok());
        let Some(number) = number else { return Ok(None) };
        let Some(key) = self.keys.valid(number, now_us).await? else { return Ok(None) };
        let key = Key::new(&key, PURPOSE);
        let parts: Vec<&str> = key.open(value).unwrap_or_default().split('.').collect();
        let [kind, _, who, until] = parts[..] else { return Ok(None) };
        if !is_ahead(until, now_us) {
            return Ok(None);
        }
        if kind == "2" {
            return Ok(Some(Session::Token(who.to_owned())));
        }
        let read = URL_SAFE_NO_PAD.decode(who).ok().and_then(|body| serde_json::from_slice(&body).ok());
        let until_us = u64::from_str_radix(until, 16).unwrap_or_default();
        Ok(read.map(|user| Session::SignedIn(user, until_us)))
    }
}

fn until(now_us: u64) -> u64 {
    now_us + LASTS.as_micros() as u64
}

fn is_ahead(until: &str, now_us: u64) -> bool {
    u64::from_str_radix(until, 16).is_ok_and(|until| until > now_us)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prs_common::job::Names;
    use prs_jobs::Whereabouts;
    use prs_jobs::tokens::Tokens;

    use super::*;
    use crate::heard::Heard;

    async fn sessions(runs: &std::path::Path, port: u16, is_secure: bool, secret: &[u8]) -> Sessions {
        let whereabouts =
            Whereabouts::new(None, runs.to_owned(), Names::default(), Arc::new(Heard::default()));
        let keys = Tokens::open(&whereabouts).await.unwrap().session_keys();
        Sessions::new(port, is_secure, Key::new(secret, "local"), keys)
    }

    fn cookie(set: &HeaderValue) -> HeaderMap {
        let pair = set.to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(COOKIE, format!("a=b; {pair}").parse().unwrap())])
    }

    const TWELVE_HOURS: u64 = 12 * 3600 * 1_000_000;

    #[tokio::test]
    async fn a_session_of_the_user_lasts_twelve_hours_at_one_server() {
        let runs = tempfile::tempdir().unwrap();
        let here = sessions(runs.path(), 8470, false, b"secret").await;
        let there = sessions(runs.path(), 8471, false, b"secret").await;
        let set = here.begin(1_000_000);
        let text = set.to_str().unwrap();
        assert!(text.starts_with("prs-8470=") && text.ends_with("; HttpOnly; SameSite=Strict"), "{text}");
        let headers = cookie(&set);
        assert_eq!(here.session(&headers, TWELVE_HOURS).await.unwrap(), Some(Session::Local));
        assert_eq!(here.session(&headers, TWELVE_HOURS + 1_000_000).await.unwrap(), None);
        assert_eq!(there.session(&headers, 0).await.unwrap(), None, "another name");
        let restarted = sessions(runs.path(), 8470, false, b"another").await;
        assert_eq!(restarted.session(&headers, 0).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_session_of_a_token_holds_at_every_server_of_the_registry() {
        let runs = tempfile::tempdir().unwrap();
        let here = sessions(runs.path(), 8470, true, b"one").await;
        let there = sessions(runs.path(), 8471, true, b"other").await;
        let now = 1_795_262_400_000_000;
        let set = here.begin_of("0a1b2c3d4e5f", now).await.unwrap();
        let text = set.to_str().unwrap().to_owned();
        assert!(text.starts_with("__Host-prs=2.") && text.ends_with("; Secure; HttpOnly; SameSite=Lax"));
        let headers = cookie(&set);
        let expected = Some(Session::Token("0a1b2c3d4e5f".to_owned()));
        assert_eq!(there.session(&headers, now + TWELVE_HOURS - 1).await.unwrap(), expected);
        assert_eq!(there.session(&headers, now + TWELVE_HOURS).await.unwrap(), None);
        for (from, to) in [("0a1b2c3d4e5f", "ffffffffffff"), ("=2.", "=2.7"), ("=2.", "=1."), ("~", "~A")] {
            let forged = HeaderValue::from_str(&text.replacen(from, to, 1)).unwrap();
            assert_eq!(here.session(&cookie(&forged), now).await.unwrap(), None, "{to}");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        let stranger = sessions(elsewhere.path(), 8470, true, b"one").await;
        assert_eq!(stranger.session(&headers, now).await.unwrap(), None, "another registry");
    }

    #[tokio::test]
    async fn a_session_of_the_identity_provider_has_the_user_in_it() {
        let runs = tempfile::tempdir().unwrap();
        let here = sessions(runs.path(), 8470, false, b"one").await;
        let there = sessions(runs.path(), 8470, false, b"other").await;
        let now = 1_795_262_400_000_000;
        let user = SignedIn {
            subject: "oidc:0a.1b".to_owned(),
            name: "Ana ~ B\u{e4}r".to_owned(),
            role: Role::Submit,
            rules: "x".to_owned(),
        };
        let set = here.begin_signed_in(&user, now).await.unwrap();
        assert!(set.to_str().unwrap().ends_with("; HttpOnly; SameSite=Lax"), "it comes from another site");
        let headers = cookie(&set);
        let until = now + TWELVE_HOURS;
        let found = there.session(&headers, until - 1).await.unwrap();
        assert_eq!(found, Some(Session::SignedIn(user, until)));
        assert_eq!(there.session(&headers, until).await.unwrap(), None);
        let forged = set.to_str().unwrap().replacen("=3.", "=2.", 1);
        let forged = HeaderValue::from_str(&forged).unwrap();
        assert_eq!(here.session(&cookie(&forged), now).await.unwrap(), None);
    }
}
