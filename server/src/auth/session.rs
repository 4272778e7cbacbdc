//! The session of a browser: a cookie that says who logged in, signed by the server. There is no list of sessions.

use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use prs_jobs::tokens::Role;

use super::role::{How, Principal};
use super::signed::Key;

/// How long a session lasts.
const LASTS: Duration = Duration::from_hours(12);

/// Makes sessions, and knows its own again.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Cookies do not know ports: two servers of a machine have two names.
    cookie: String,
    key: Key,
}

impl Sessions {
    /// Sessions of the server at `port`.
    pub(crate) fn new(port: u16, key: Key) -> Self {
        Self { cookie: format!("prs-{port}"), key }
    }

    /// What an answer sets in the browser of somebody who logged in now.
    pub(crate) fn begin(&self, now_us: u64) -> HeaderValue {
        let until = now_us + LASTS.as_micros() as u64;
        let value = self.key.sign(&format!("1.{until:x}"));
        self.header(&value, LASTS.as_secs())
    }

    /// What an answer sets in the browser of somebody who logs out.
    pub(crate) fn end(&self) -> HeaderValue {
        self.header("", 0)
    }

    fn header(&self, value: &str, seconds: u64) -> HeaderValue {
        let text = format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict", self.cookie);
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }

    /// Who asks, by the cookie of a request with `headers`.
    pub(crate) fn principal(&self, headers: &HeaderMap, now_us: u64) -> Option<Principal> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let value = pairs.find_map(|(name, value)| (name == self.cookie).then_some(value))?;
        let until = self.key.open(value)?.strip_prefix("1.")?;
        (u64::from_str_radix(until, 16).ok()? > now_us).then(|| Principal {
            name: "local".to_owned(),
            role: Role::Admin,
            how: How::Session,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_twelve_hours_at_its_own_server() {
        let sessions = |port| Sessions::new(port, Key::new(b"secret", "sessions"));
        let (here, there) = (sessions(8470), sessions(8471));
        let set = here.begin(1_000_000);
        let set = set.to_str().unwrap();
        assert!(set.starts_with("prs-8470=") && set.ends_with("; HttpOnly; SameSite=Strict"), "{set}");
        let pair = set.split(';').next().unwrap();
        let headers = |pair: &str| HeaderMap::from_iter([(COOKIE, format!("a=b; {pair}").parse().unwrap())]);
        let twelve_hours = 12 * 3600 * 1_000_000;
        assert!(here.principal(&headers(pair), twelve_hours).is_some());
        assert!(here.principal(&headers(pair), twelve_hours + 1_000_000).is_none());
        assert!(there.principal(&headers(pair), 0).is_none(), "another name");
        let forged = "prs-8470=1.ffffffffffff~AAAA";
        assert!(here.principal(&headers(forged), 0).is_none());
    }
}
