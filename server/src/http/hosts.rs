//! The names that the server answers to, and the origins that may change something.
//!
//! A page of another site can make the browser of a user send requests here, with the user's session. Two rules keep it out: the
//! server answers under names that it knows, also where another name leads to its address (DNS rebinding); and a change that a
//! session asks for must come from a page of this server, which the browser says in `Sec-Fetch-Site`, or in `Origin`.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri};
use url::Url;

use super::cors::{self, Origin};
use crate::problem::{Kind, Problem};

/// Addresses that tell nothing, and are asked by what calls the server by its address, or nothing.
const OF_PROBES: [&str; 2] = ["/livez", "/readyz"];

/// The names that the server answers to.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    /// Names and addresses without a port, in lower case.
    known: Vec<String>,
    /// The origin of the pages, as their readers have it.
    origin: Option<String>,
    /// Pages elsewhere that may ask for what programs ask for.
    pub(crate) others: Vec<Origin>,
}

impl Hosts {
    /// Those of a server that is reached from this machine, that of `url`, and `more`; pages of the origins `others` may ask, too.
    pub(crate) fn new(url: Option<&Url>, more: &[String], others: &[Origin]) -> Self {
        let mut known: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into();
        known.extend(url.and_then(Url::host_str).map(str::to_ascii_lowercase));
        known.extend(more.iter().map(|host| match host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host.to_ascii_lowercase(),
        }));
        Self { known, origin: url.map(|url| url.origin().ascii_serialization()), others: others.to_vec() }
    }

    /// Refuses a request to a name that is not known, or to more than one.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(Problem::new(Kind::BAD_REQUEST, "The request names more than one host."));
        }
        if OF_PROBES.contains(&uri.path()) {
            return Ok(());
        }
        let of_header = || headers.get(HOST).and_then(|host| host.to_str().ok());
        let named = uri.authority().map(Authority::as_str).or_else(of_header);
        let Some(named) = named else {
            return Err(Problem::new(Kind::UNKNOWN_HOST, "The request names no host."));
        };
        if self.knows(without_port(named)) {
            return Ok(());
        }
        let named: String = named.chars().take(200).collect();
        Err(Problem::new(Kind::UNKNOWN_HOST, format_args!("The server does not answer to {named:?}."))
            .hint("prs serve --allow-host NAME adds a name"))
    }

    fn knows(&self, host: &str) -> bool {
        self.known.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Refuses a change that a page of another site may have asked for. `is_ambient` is whether a browser says who asks without
    /// being told to, by its session or by what the proxy knows it by; who sends a token means it.
    pub(crate) fn check_origin(
        &self,
        (method, path): (&Method, &str),
        headers: &HeaderMap,
        is_ambient: bool,
    ) -> Result<(), Problem> {
        // A page that was let in shows a token of its own.
        let is_let_in =
            headers.contains_key(AUTHORIZATION) && cors::of(&self.others, path, headers).is_some();
        if method.is_safe() || (is_let_in && !is_ambient) {
            return Ok(());
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_ours = match (text("sec-fetch-site"), text(ORIGIN.as_str())) {
            (Some(site), _) => matches!(site, "same-origin" | "none"),
            // A proxy may call the server something else.
            (None, Some(origin)) if self.origin.as_deref() == Some(origin) => true,
            (None, Some(origin)) => {
                let host = text(HOST.as_str()).unwrap_or_default();
                let named = origin.split_once("://").map_or("", |(_, host)| host);
                named.eq_ignore_ascii_case(host) && self.knows(without_port(named))
            }
            // No browser sends neither.
            (None, None) => !is_ambient,
        };
        if is_ours {
            return Ok(());
        }
        Err(Problem::new(
            Kind::CROSS_ORIGIN,
            "A change that a browser asks for must come from a page of this server.",
        ))
    }
}

/// `example.org:8470` without the port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_server_answers_to_names_that_it_knows() {
        let url = Url::parse("https://prs.example.org:8443/").unwrap();
        let hosts = Hosts::new(Some(&url), &["10.0.0.7".to_owned(), "fe80::7".to_owned()], &[]);
        for (host, expected) in [
            ("localhost:8470", true),
            ("LOCALHOST", true),
            ("127.0.0.1:8470", true),
            ("[::1]:8470", true),
            ("[::1]", true),
            ("prs.example.org", true),
            ("prs.example.org:1", true),
            ("10.0.0.7:8470", true),
            ("[fe80::7]:8470", true),
            ("evil.example.org", false),
            ("localhost.evil.example.org", false),
            ("127.0.0.1.evil.example.org:8470", false),
            ("user@localhost", false),
            ("", false),
        ] {
            let found = hosts.check(&Uri::from_static("/jobs"), &headers(&[("host", host)]));
            assert_eq!(found.is_ok(), expected, "{host}");
        }
        assert!(hosts.check(&Uri::from_static("/jobs"), &HeaderMap::new()).is_err());
        let mut two = headers(&[("host", "localhost")]);
        two.append(HOST, "localhost".parse().unwrap());
        for path in ["/jobs", "/livez"] {
            let refused = hosts.check(&Uri::from_static(path), &two).unwrap_err();
            assert_eq!(refused.kind.status, 400, "{path}");
        }
        for (path, expected) in
            [("/livez", true), ("/readyz?verbose", true), ("/livez/x", false), ("/", false)]
        {
            for given in [headers(&[("host", "evil.example.org")]), HeaderMap::new()] {
                assert_eq!(hosts.check(&Uri::from_static(path), &given).is_ok(), expected, "{path}");
            }
        }
        // HTTP/2 names the host in the address.
        let uri = Uri::from_static("http://evil.example.org/jobs");
        assert!(hosts.check(&uri, &headers(&[("host", "localhost")])).is_err());
    }

    #[test]
    fn changes_come_from_pages_of_this_server() {
        let url = Url::parse("https://prs.example.org").unwrap();
        let others = ["https://a.example.org".parse().unwrap()];
        let hosts = Hosts::new(Some(&url), &[], &others);
        let site = |site: &str| headers(&[("sec-fetch-site", site)]);
        let origin = |origin: &str| headers(&[("origin", origin), ("host", "localhost:8470")]);
        for (given, expected) in [
            (site("same-origin"), true),
            (site("none"), true),
            (site("cross-site"), false),
            (site("same-site"), false),
            (origin("http://localhost:8470"), true),
            (origin("http://localhost:9999"), false),
            (origin("null"), false),
            (origin("https://prs.example.org"), true),
            (origin("http://prs.example.org"), false),
            (HeaderMap::new(), false),
        ] {
            let found = hosts.check_origin((&Method::POST, "/api/v1/jobs"), &given, true);
            assert_eq!(found.is_ok(), expected, "{given:?}");
            assert!(hosts.check_origin((&Method::GET, "/jobs"), &given, true).is_ok());
        }
        assert!(hosts.check_origin((&Method::POST, "/jobs"), &HeaderMap::new(), false).is_ok(), "a program");
        let foreign = headers(&[("sec-fetch-site", "cross-site")]);
        assert!(
            hosts.check_origin((&Method::POST, "/jobs"), &foreign, false).is_err(),
            "no session, and a browser all the same"
        );
        let elsewhere = |more: &[(&'static str, &str)]| {
            headers(
                &[&[("origin", "https://a.example.org"), ("sec-fetch-site", "cross-site")], more].concat(),
            )
        };
        let with_token = elsewhere(&[("authorization", "Bearer x")]);
        for (given, path, is_ambient, expected) in [
            (&with_token, "/api/v1/jobs", false, true),
            (&with_token, "/api/v1/jobs", true, false),
            (&with_token, "/jobs/x/cancel", false, false),
            (&elsewhere(&[]), "/api/v1/jobs", false, false),
        ] {
            let found = hosts.check_origin((&Method::POST, path), given, is_ambient);
            assert_eq!(found.is_ok(), expected, "{path} {given:?}");
        }
    }
}
