//! Which places elsewhere the jobs of a server may use. Who hands a job in, or calls an endpoint, names URLs, and a server and its
//! workers read them with their own rights and from their own network.
//!
//! The rule goes with the job ([`JobSpec::reach`](crate::job::JobSpec)), so that it holds in every program that reads for it. Here it
//! is decided by the URL alone; what name a host has, and what address, `http` looks at when it connects.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::dataset::{http_url, remote};

/// What nobody's job reads of the storage of a fleet: who could read it might make tokens and sessions, or see who did what.
const SECRET: [&str; 4] = ["registry/keys/", "registry/tokens/", "registry/idempotency/", "audit/"];

/// What is done at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It is read, or listed.
    Read,
    /// Something new is put there.
    Write,
}

/// The places that a job may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The storage of the jobs, as an URL; nothing where that is a folder of this machine.
    own: Option<String>,
    /// Further places, without a `/` at their end: `s3://bucket/prefix`, `https://host/prefix`.
    allowed: Vec<String>,
}

impl Reach {
    /// The bucket of the storage at `own`, and `allowed` places: `s3://` and `https://` URLs, and those that the operator of the
    /// server gave names in its configuration.
    pub fn new(own: Option<&str>, allowed: impl IntoIterator<Item = String>) -> Self {
        let plain = |url: &str| url.trim_end_matches('/').to_owned();
        Self { own: own.map(plain), allowed: allowed.into_iter().map(|url| plain(&url)).collect() }
    }

    /// A place that the operator of a server allows: `s3://bucket`, `s3://bucket/prefix` or `https://host/prefix`.
    ///
    /// # Errors
    /// It is something else.
    pub fn place(text: &str) -> Result<String, String> {
        const FORMS: &str = "give s3://bucket/prefix or https://host/prefix";
        let text = text.trim().trim_end_matches('/');
        let (scheme, rest) = text.split_once("://").ok_or_else(|| format!("it is no URL: {FORMS}"))?;
        let (place, key) = rest.split_once('/').unwrap_or((rest, ""));
        if place.contains('@') {
            return Err(format!(
                "it has credentials: {FORMS}, and those of buckets come from the environment"
            ));
        }
        if rest.contains(['*', '?', '#', '\\', '%']) || rest.contains(char::is_whitespace) {
            return Err(format!("it is no plain prefix: {FORMS}; all that is below it is allowed"));
        }
        if !key.is_empty() && key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(format!("it has empty parts, or dots in place of names: {FORMS}"));
        }
        match scheme.to_ascii_lowercase().as_str() {
            "s3" => remote::RemotePath::parse(&format!("s3://{rest}")).map(|_| format!("s3://{rest}")),
            "https" => {
                // Its parser wants a file.
                remote::RemotePath::parse(&format!("https://{place}/file"))?;
                let place = place.to_ascii_lowercase();
                let place = place.strip_suffix(":443").unwrap_or(&place);
                Ok(format!("https://{place}/{key}").trim_end_matches('/').to_owned())
            }
            _ => Err(format!("{scheme}:// is not read from: {FORMS}")),
        }
    }

    /// Whether the object, the folder or the glob at `url` may be used so, as far as that is known before a host is looked up.
    ///
    /// # Errors
    /// It may not, and why.
    pub fn check(&self, url: &str, usage: Use) -> Result<(), String> {
        let url = url.trim_start();
        if !http_url::is_http(url) {
            return self.check_key(url, usage);
        }
        let shown = http_url::shown(url);
        if usage == Use::Write {
            return Err(format!("{shown} is an HTTP server, which is only read"));
        }
        let at = remote::RemotePath::parse(url).map_err(|message| format!("{shown}: {message}"))?;
        let is_named = self.names(&format!("{}/{}", at.place(), at.path()));
        if http_url::scheme(url) != Some("https://") && !is_named {
            return Err(format!(
                "{shown} is not encrypted, and this server reads no such URLs: give https://"
            ));
        }
        Ok(())
    }

    /// The same for a place in a bucket, or in a storage that is a folder.
    pub(super) fn check_key(&self, url: &str, usage: Use) -> Result<(), String> {
        let url = match url.split_once("://") {
            Some((scheme, rest)) => format!("{}://{rest}", scheme.to_ascii_lowercase()),
            None => url.to_owned(),
        };
        if let Some(own) = &self.own {
            let inside = below(&url, own);
            if inside
                .is_some_and(|key| usage == Use::Write || SECRET.iter().any(|secret| key.starts_with(secret)))
            {
                return Err(format!("{url} is within what prs keeps in its storage, which is not for jobs"));
            }
            if below(&url, bucket(own)).is_some() {
                return Ok(());
            }
        }
        if self.names(&url) {
            return Ok(());
        }
        let mut told = format!("{url} is not among the places that this server reads");
        if remote::is_in_bucket(&url) {
            let _ = write!(
                told,
                ": those in the bucket of its own storage, and those of --allow-input; send the files along, or have the server started with --allow-input {}",
                bucket(&url)
            );
        }
        Err(told)
    }

    /// Whether some of the store at `url`, a bucket or a storage that is a folder, may be used.
    pub(super) fn may_have_some_of(&self, url: &str) -> bool {
        let mut places = self.own.iter().chain(&self.allowed);
        places.any(|place| below(place, url).is_some() || below(url, place).is_some())
    }

    /// Whether the operator named `url`, without credentials, or a place that it is below.
    pub(super) fn names(&self, url: &str) -> bool {
        let path = http_url::path_of(url);
        // What is encoded may be decoded to a way out.
        let lower = path.to_ascii_lowercase();
        let is_plain = !http_url::is_http(url)
            || !(["%2e", "%2f", "%5c"].iter().any(|code| lower.contains(code))
                || path.contains('\\')
                || path.split('/').any(|part| matches!(part, "." | "..")));
        self.allowed.iter().any(|place| {
            let is_whole = place.matches('/').count() == 2;
            (is_plain || is_whole) && below(path, place).is_some()
        })
    }
}

/// What follows `place` in `url`, where that is it or is below it.
fn below<'a>(url: &'a str, place: &str) -> Option<&'a str> {
    let rest = url.strip_prefix(place)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// The bucket of a place in one; another place as it is.
fn bucket(place: &str) -> &str {
    let Some(rest) = place.strip_prefix("s3://") else { return place };
    let name = rest.split('/').next().unwrap_or_default();
    &place[..place.len() - rest.len() + name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_a_server_reads_its_bucket_and_what_is_allowed() {
        let allowed = ["s3://data/in", "s3://whole", "https://files.example.org/a"].map(str::to_owned);
        let reach = Reach::new(Some("s3://jobs/prs"), allowed);
        for (url, reads, writes) in [
            ("s3://jobs/inputs/a.csv", true, true),
            ("s3://jobs/prs/jobs/a/output/x", true, false),
            ("S3://jobs/**/*.csv", true, true),
            ("s3://jobs/prs/registry/keys/session-1", false, false),
            ("s3://jobs/prs/registry/tokens/0a", false, false),
            ("s3://jobs/prs/audit/2026/x.jsonl", false, false),
            ("s3://jobs/prs/registry/data/x", true, false),
            ("s3://jobs2/a", false, false),
            ("s3://data/in", true, true),
            ("s3://data/in/a", true, true),
            ("s3://data/input", false, false),
            ("s3://data", false, false),
            ("s3://data/*", false, false),
            ("s3://whole", true, true),
            ("s3://whole/a", true, true),
            ("https://example.org/a", true, false),
            ("https://files.example.org/a/b?sig=secret", true, false),
            ("http://files.example.org/a/b", false, false),
            ("HTTP://example.org/a", false, false),
            ("file:///etc/passwd", false, false),
            ("ftp://host/a", false, false),
        ] {
            assert_eq!(reach.check(url, Use::Read).is_ok(), reads, "read {url}");
            assert_eq!(reach.check(url, Use::Write).is_ok(), writes, "write {url}");
        }
        let refused = reach.check("https://me:secret@host/a?sig=secret", Use::Write).unwrap_err();
        assert!(!refused.contains("secret"), "{refused}");
        let folder = Reach::new(None, []);
        assert!(folder.check("s3://jobs/a", Use::Read).unwrap_err().contains("--allow-input s3://jobs"));
        let shared = Reach::new(Some("file:///srv/prs/"), []);
        assert!(shared.check("file:///srv/prs/jobs/a/output/x", Use::Read).is_ok());
        assert!(shared.check("file:///srv/prs/registry/keys/session-1", Use::Read).is_err());
        assert!(shared.check("file:///srv/prs2/x", Use::Read).is_err());
    }

    #[test]
    fn a_name_holds_for_what_is_below_it() {
        let reach = Reach::new(None, ["https://host/a".to_owned(), "https://all".to_owned()]);
        for (url, expected) in [
            ("https://host/a", true),
            ("https://host/a/b", true),
            ("https://host/a?x=/../", true),
            ("https://host/ab", false),
            ("https://host/a/../b", false),
            ("https://host/a/%2e%2e/b", false),
            ("https://host/a/..%2Fb", false),
            ("https://host/a\\..\\b", false),
            ("https://host:8443/a", false),
            ("https://all/%2fx", true),
            ("https://all.example.org/x", false),
        ] {
            assert_eq!(reach.names(url), expected, "{url}");
        }
    }

    #[test]
    fn a_place_that_is_allowed_is_a_plain_prefix() {
        for (text, expected) in [
            ("s3://bucket", Some("s3://bucket")),
            ("S3://bucket/a b/", None),
            ("s3://bucket/a/b/", Some("s3://bucket/a/b")),
            ("HTTPS://Host.Example:443/A/", Some("https://host.example/A")),
            ("https://host:8443", Some("https://host:8443")),
            ("http://host/a", None),
            ("https://me:x@host/a", None),
            ("https://host/a?b", None),
            ("https://host/a/../b", None),
            ("s3://b*/x", None),
            ("file:///data", None),
            ("/data", None),
            ("", None),
        ] {
            assert_eq!(Reach::place(text).ok().as_deref(), expected, "{text}");
        }
    }
}
