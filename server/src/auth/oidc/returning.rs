//! What a browser has to bring back from the identity provider, in a cookie that a server signed: ten minutes long, for the browser that
//! began alone.

use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prs_jobs::Failure;
use prs_jobs::tokens::SessionKeys;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::super::random_text;
use super::super::signed::Key;

/// How long signing in may take at the provider.
const LASTS: Duration = Duration::from_mins(10);
/// What the keys of the registry are for here.
const PURPOSE: &str = "oidc";

/// What is to come back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Awaited {
    /// What the provider gives back as it was.
    pub(crate) state: String,
    /// What its token has to have.
    pub(crate) nonce: String,
    /// What the code is worth nothing without.
    pub(crate) verifier: String,
    /// Where the browser goes on.
    pub(crate) next: String,
    /// Until when, microseconds since the Unix epoch.
    until_us: u64,
}

impl Awaited {
    /// A new one, for a browser that goes on at `next`.
    pub(crate) fn new(next: &str, now_us: u64) -> Self {
        Self {
            state: random_text::<24>(),
            nonce: random_text::<24>(),
            // 43 letters, as RFC 7636 asks for at least.
            verifier: random_text::<32>(),
            next: next.to_owned(),
            until_us: now_us + LASTS.as_micros() as u64,
        }
    }

    /// Whether the provider gave this back.
    pub(crate) fn is(&self, state: &str) -> bool {
        self.state.as_bytes().ct_eq(state.as_bytes()).into()
    }
}

/// The cookie.
#[derive(Debug)]
pub(crate) struct Returning {
    cookie: String,
    is_secure: bool,
    keys: SessionKeys,
}

impl Returning {
    /// Of the server at `port`, which browsers reach by https where it `is_secure`.
    pub(crate) fn new(port: u16, is_secure: bool, keys: SessionKeys) -> Self {
        let cookie = if is_secure { "__Host-prs-oidc".to_owned() } else { format!("prs-oidc-{port}") };
        Self { cookie, is_secure, keys }
    }

    /// What an answer sets in the browser that goes to the provider.
    pub(crate) async fn set(&self, awaited: &Awaited, now_us: u64) -> Result<HeaderValue, Failure> {
        let (number, key) = self.keys.newest(now_us).await?;
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(awaited).unwrap_or_default());
        let value = Key::new(&key, PURPOSE).sign(&format!("{number:x}.{text}"));
        Ok(self.header(&value, LASTS.as_secs()))
    }

    /// What an answer sets in the browser that came back.
    pub(crate) fn clear(&self) -> HeaderValue {
        self.header("", 0)
    }

    fn header(&self, value: &str, seconds: u64) -> HeaderValue {
        // Lax: the browser comes back from another site.
        let secure = if self.is_secure { "Secure; " } else { "" };
        let text =
            format!("{}={value}; Path=/; Max-Age={seconds}; {secure}HttpOnly; SameSite=Lax", self.cookie);
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }

    /// What the browser with these headers is to bring back; nothing where it did not begin here, or a while ago.
    pub(crate) async fn awaited(&self, headers: &HeaderMap, now_us: u64) -> Result<Option<Awaited>, Failure> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let found = pairs.find_map(|(name, value)| (name == self.cookie).then_some(value));
        let number = found.and_then(|value| u64::from_str_radix(value.split_once('.')?.0, 16).ok());
        let (Some(value), Some(number)) = (found, number) else { return Ok(None) };
        let Some(key) = self.keys.valid(number, now_us).await? else { return Ok(None) };
        let key = Key::new(&key, PURPOSE);
        let read = key.open(value).and_then(|text| {
            let body = URL_SAFE_NO_PAD.decode(text.split_once('.')?.1).ok()?;
            serde_json::from_slice::<Awaited>(&body).ok()
        });
        Ok(read.filter(|awaited| awaited.until_us > now_us))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prs_common::job::Names;
    use prs_jobs::Whereabouts;
    use prs_jobs::tokens::Tokens;

    use super::*;
    use crate::heard::Heard;

    #[tokio::test]
    async fn a_browser_brings_back_what_it_took_within_ten_minutes() {
        let runs = tempfile::tempdir().unwrap();
        let whereabouts =
            Whereabouts::new(None, runs.path().to_owned(), Names::default(), Arc::new(Heard::default()));
        let tokens = Tokens::open(&whereabouts).await.unwrap();
        let (here, there) = (
            Returning::new(8470, true, tokens.session_keys()),
            Returning::new(8471, true, tokens.session_keys()),
        );
        let now = 1_795_262_400_000_000;
        let awaited = Awaited::new("/jobs", now);
        let set = here.set(&awaited, now).await.unwrap().to_str().unwrap().to_owned();
        assert!(
            set.starts_with("__Host-prs-oidc=") && set.ends_with("Secure; HttpOnly; SameSite=Lax"),
            "{set}"
        );
        let headers = |set: &str| {
            let pair = set.split(';').next().unwrap();
            HeaderMap::from_iter([(COOKIE, pair.parse().unwrap())])
        };
        let ten_minutes = 600_000_000;
        assert_eq!(
            there.awaited(&headers(&set), now + ten_minutes - 1).await.unwrap(),
            Some(awaited.clone())
        );
        assert_eq!(here.awaited(&headers(&set), now + ten_minutes).await.unwrap(), None);
        assert!(awaited.is(&awaited.state) && !awaited.is("") && !awaited.is(&awaited.nonce));
        let forged = set.replacen('.', ".A", 1);
        assert_eq!(here.awaited(&headers(&forged), now).await.unwrap(), None);
        assert_eq!(here.awaited(&HeaderMap::new(), now).await.unwrap(), None);
        assert!(awaited.verifier.len() >= 43);
    }
}
