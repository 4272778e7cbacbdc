//! URLs of inputs, `s3://` and `https://` (`http://`), taken apart.
//!
//! Nothing is connected to here, and of `s3://` nothing is decoded: what follows the bucket is the key as it stands.

use std::borrow::Cow;
use std::fmt;

use super::http_url::{self, HttpUrl, is_http};

const SCHEME: &str = "s3://";
const EXPECTED: &str = "give s3://bucket/folder, s3://bucket/object or a glob below a bucket";

/// A place in a bucket: a folder, an object, or a glob. Or a file of an HTTP server, whose `Display` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct RemotePath {
    /// The bucket alone: `s3://bucket`. Of an HTTP server its URL, with the credentials in it.
    pub bucket: String,
    /// What follows it, without a `/` at its beginning; empty for the whole bucket. Of an HTTP server path and query.
    pub key: String,
}

/// Whether `text` is such a URL, well formed or not.
pub fn is_remote(text: &str) -> bool {
    is_in_bucket(text) || is_http(text)
}

/// Whether `text` is the URL of something in a bucket, well formed or not.
pub fn is_in_bucket(text: &str) -> bool {
    text.trim_start().get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
}

/// The scheme of such a URL, with `://`.
pub fn scheme(text: &str) -> Option<&'static str> {
    if is_in_bucket(text) { Some(SCHEME) } else { http_url::scheme(text) }
}

/// Whether a URL names what only a listing tells. A `?` begins the query of an HTTP one.
pub fn is_glob(url: &str) -> bool {
    if is_http(url) { http_url::path_of(url).contains('*') } else { url.contains(['*', '?']) }
}

/// The absolute path of a `file://` URL, of which nothing is decoded; any other text as it is.
pub fn without_file_scheme(text: &str) -> &str {
    text.strip_prefix("file://").filter(|path| path.starts_with('/')).unwrap_or(text)
}

impl RemotePath {
    /// Takes `url` apart. The message of an error holds nothing that could be a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        if is_http(url) {
            let HttpUrl { host, key } = HttpUrl::parse(url)?;
            return Ok(Self { bucket: host, key });
        }
        let rest = if is_in_bucket(url) { url.trim_start().get(SCHEME.len()..) } else { None };
        let rest = rest.ok_or_else(|| format!("this is no s3:// URL: {EXPECTED}"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains('@') {
            return Err(format!(
                "a URL must hold no credentials, they come from the environment or a profile: {EXPECTED}"
            ));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(plain) {
            return Err(format!("{bucket:?} is not the name of a bucket: {EXPECTED}"));
        }
        if key.starts_with('/') {
            return Err(format!("there are two slashes behind the bucket: {EXPECTED}"));
        }
        Ok(Self { bucket: format!("{SCHEME}{bucket}"), key: key.to_owned() })
    }

    /// Whether it is on an HTTP server.
    pub fn is_http(&self) -> bool {
        is_http(&self.bucket)
    }

    /// Whether what lies below it can be listed.
    pub fn lists(&self) -> bool {
        !self.is_http() || http_url::lists(&self.bucket)
    }

    /// The key without the query of an HTTP one.
    pub fn path(&self) -> &str {
        if self.is_http() { http_url::path_of(&self.key) } else { &self.key }
    }

    /// The query of an HTTP one, with its `?`; empty without.
    pub fn query(&self) -> &str {
        &self.key[self.path().len()..]
    }

    /// The bucket or server, without credentials, as names of files begin with it.
    pub fn place(&self) -> Cow<'_, str> {
        http_url::host_shown(&self.bucket)
    }

    /// What scripts and reports call the file `key` of it below `prefix`.
    pub fn relative<'a>(&self, prefix: &str, key: &'a str) -> Cow<'a, str> {
        let relative = key.strip_prefix(prefix).unwrap_or(key);
        if self.is_http() { http_url::file_name(relative).into() } else { relative.into() }
    }

    /// The name of the file that it is, as reports have it: without credentials and query.
    pub fn name(&self) -> String {
        let folder = self.path().rfind('/').map_or("", |slash| &self.path()[..=slash]);
        format!("{}/{folder}{}", self.place(), self.relative(folder, &self.key))
    }
}

impl fmt::Display for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, key } = self;
        if !self.is_http() {
            return write!(f, "{bucket}/{key}");
        }
        write!(f, "{}/{}", self.place(), http_url::key_shown(key))
    }
}

impl fmt::Debug for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemotePath({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, bucket, key) in [
            ("s3://bucket", "s3://bucket", ""),
            ("s3://bucket/", "s3://bucket", ""),
            ("S3://my.bucket-1/a/b c/%20/", "s3://my.bucket-1", "a/b c/%20/"),
            (" s3://bucket/**/*.csv", "s3://bucket", "**/*.csv"),
        ] {
            let expected = RemotePath { bucket: bucket.to_owned(), key: key.to_owned() };
            assert_eq!(RemotePath::parse(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_place_in_a_bucket_is_refused_without_its_secrets() {
        for (url, says) in [
            ("/data", "no s3:// URL"),
            ("s3:", "no s3:// URL"),
            ("ftp://user:secret@host/x", "no s3:// URL"),
            ("https://user:secret@host/", "cannot be listed"),
            ("s3://user:secret@bucket/x", "no credentials"),
            ("s3:///x", "not the name of a bucket"),
            ("s3://b*/x", "not the name of a bucket"),
            ("s3://bucket//x", "two slashes"),
        ] {
            let message = RemotePath::parse(url).unwrap_err();
            assert!(message.contains(says) && !message.contains("secret"), "{url}: {message}");
        }
    }

    #[test]
    fn a_file_of_an_http_server_is_shown_without_its_secrets() {
        let url = RemotePath::parse("https://me:secret@host/in/a%20b.csv?sig=secret").unwrap();
        assert_eq!((&*url.bucket, &*url.key), ("https://me:secret@host", "in/a%20b.csv?sig=secret"));
        assert_eq!(url.to_string(), "https://host/in/a%20b.csv?...");
        assert_eq!(url.name(), "https://host/in/a b.csv");
        assert_eq!((url.path(), url.query()), ("in/a%20b.csv", "?sig=secret"));
        assert!(!format!("{url:?}").contains("secret"));
        assert!(is_glob("s3://b/a?") && !is_glob("https://host/a?b=*"));
    }
}
