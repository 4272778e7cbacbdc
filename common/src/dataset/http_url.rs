//! `https://` and `http://` URLs of inputs, taken apart, and as people may read them.
//!
//! A URL may hold a password, or a query that is one (a signature): neither gets into a log, a message or the name of a file.
//! Nothing is connected to here.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// What no request line may hold as it stands.
const UNSAFE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// The same in the name of a blob, of which every character means itself.
const UNSAFE_IN_NAME: &AsciiSet =
    &UNSAFE.add(b'%').add(b'?').add(b'#').add(b'[').add(b']').add(b'+').add(b'&');
/// Hosts whose folders can be listed: containers of Azure's blob storage.
const LISTED: &str = ".blob.core.windows.net";

/// Whether `text` begins as such a URL does.
pub fn is_http(text: &str) -> bool {
    scheme(text).is_some()
}

/// The scheme of such a URL, with `://`.
pub(crate) fn scheme(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    ["https://", "http://"]
        .into_iter()
        .find(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

/// Such a URL, whose credentials and query `Display` of what holds it must not show.
pub(super) struct HttpUrl {
    /// `https://user:password@host:port`.
    pub(super) host: String,
    /// Path and query, without a `/` at its beginning.
    pub(super) key: String,
}

impl HttpUrl {
    /// Takes `url` apart. The message of an error holds nothing of it but its scheme.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let scheme = scheme(url).ok_or("this is no https:// URL")?;
        let rest = &url.trim()[scheme.len()..];
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let wrong = |what: &str| format!("{what}: give {scheme}host/path");
        if user.is_some_and(|user| user.contains(|letter: char| letter.is_control() || letter == ' ')) {
            return Err(wrong("its user and password have characters that must be percent-encoded"));
        }
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (host, None),
        };
        let is_name = |letter: u8| letter.is_ascii_alphanumeric() || b".-_".contains(&letter);
        let is_address = |letter: u8| letter.is_ascii_hexdigit() || b":.".contains(&letter);
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_host = match address {
            Some(address) => !address.is_empty() && address.bytes().all(is_address),
            None => !name.is_empty() && name.bytes().all(is_name),
        };
        if !is_host || port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return Err(wrong("it names no host, or no port of one"));
        }
        if rest.contains(char::is_control) {
            return Err(wrong("it has a control character"));
        }
        let host = host.to_ascii_lowercase();
        let host = match user {
            Some(user) => format!("{scheme}{user}@{host}"),
            None => format!("{scheme}{host}"),
        };
        let key = rest.strip_prefix('/').unwrap_or(rest);
        let parsed = Self { host, key: utf8_percent_encode(key, UNSAFE).to_string() };
        let path = path_of(&parsed.key);
        if !lists(&parsed.host) && (path.is_empty() || path.ends_with('/') || path.contains('*')) {
            return Err(FOLDER.to_owned());
        }
        Ok(parsed)
    }
}

/// What is said of a folder, or a glob, that only a listing could tell the files of.
pub const FOLDER: &str = "a folder cannot be listed over HTTP: give the URL of one file (https://host/file), name the \
                          files in an MLTable or a list, or copy them to s3:// or a folder";

/// Whether the folders of `host`, with its scheme, can be listed.
pub fn lists(host: &str) -> bool {
    let (name, _) = split_port(without_credentials(host).1);
    name.ends_with(LISTED)
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (host, None),
    }
}

/// The scheme and the rest of a host, `user:password@` left out.
fn without_credentials(host: &str) -> (&str, &str) {
    let (scheme, rest) = match host.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => ("https", host),
    };
    (scheme, rest.rsplit_once('@').map_or(rest, |(_, host)| host))
}

/// `https://user:password@host` without `user:password@`; anything else as it stands.
pub fn host_shown(host: &str) -> Cow<'_, str> {
    if !is_http(host) || !host.contains('@') {
        return host.into();
    }
    let (scheme, rest) = without_credentials(host);
    format!("{scheme}://{rest}").into()
}

/// `user:password` of `https://user:password@host`, decoded.
pub fn credentials(host: &str) -> Option<String> {
    let (_, rest) = host.split_once("://")?;
    let (user, _) = rest.rsplit_once('@')?;
    Some(percent_decode_str(user).decode_utf8_lossy().into_owned())
}

/// What stands before the query.
pub fn path_of(key: &str) -> &str {
    key.split_once('?').map_or(key, |(path, _)| path)
}

/// The query of `key` with its `?`; empty where it has none.
pub fn query_of(key: &str) -> &str {
    &key[path_of(key).len()..]
}

/// `key` with `...` in place of what its query says.
pub fn key_shown(key: &str) -> Cow<'_, str> {
    if query_of(key).is_empty() { key.into() } else { format!("{}?...", path_of(key)).into() }
}

/// Any path or URL as it may be printed: an `https://` or `http://` one without its credentials and with `?...` for its
/// query, well formed or not.
pub fn shown(url: &str) -> Cow<'_, str> {
    let Some(scheme) = scheme(url) else { return url.into() };
    let rest = &url.trim()[scheme.len()..];
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // A password that is not percent-encoded may hold any of these.
    let (host, rest) = match (authority.rsplit_once('@'), path_of(rest).rfind('@')) {
        (Some((_, host)), _) => (host, rest),
        (None, Some(at)) if authority.contains(':') && split_port(authority).1.is_none() => {
            ("...", &rest[at + 1..])
        }
        (None, _) => (authority, rest),
    };
    format!("{scheme}{host}{}", key_shown(rest)).into()
}

/// `relative`, part of the path of a URL, as the name of a file: decoded, where that gives one.
pub fn file_name(relative: &str) -> String {
    let part = |part: &str| match percent_decode_str(part).decode_utf8() {
        Ok(name) if !name.contains(|letter: char| letter == '/' || letter.is_control()) => name.into_owned(),
        _ => part.to_owned(),
    };
    path_of(relative).split('/').map(part).collect::<Vec<_>>().join("/")
}

/// The name of a blob as the path of a URL has it.
pub fn encoded_name(name: &str) -> String {
    utf8_percent_encode(name, UNSAFE_IN_NAME).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, host, key) in [
            ("https://host/a.csv", "https://host", "a.csv"),
            ("HTTPS://Host:8443/a/b c.csv", "https://host:8443", "a/b%20c.csv"),
            (" http://[::1]:80/a//b?sig=x/y?z#part", "http://[::1]:80", "a//b?sig=x/y?z"),
            ("https://me:p%40ss@host/ä", "https://me:p%40ss@host", "%C3%A4"),
            ("https://a.blob.core.windows.net/c/in/", "https://a.blob.core.windows.net", "c/in/"),
            (
                "https://a.blob.core.windows.net/c/*.csv?sig=s",
                "https://a.blob.core.windows.net",
                "c/*.csv?sig=s",
            ),
        ] {
            let parsed = HttpUrl::parse(url).unwrap();
            assert_eq!((&*parsed.host, &*parsed.key), (host, key), "{url}");
        }
    }

    #[test]
    fn what_names_no_file_is_refused_without_its_secrets() {
        for (url, says) in [
            ("https://", "no host"),
            ("https:///a", "no host"),
            ("https://me:secret@/a", "no host"),
            ("https://ho st/a", "no host"),
            ("https://host:x/secret", "no host"),
            ("https://me:sec ret@host/x", "percent-encoded"),
            ("https://host/a\nsecret", "control character"),
            ("https://host", "cannot be listed"),
            ("https://me:secret@host/in/?sig=secret", "cannot be listed"),
            ("https://host/in/*.csv", "cannot be listed"),
        ] {
            let message = HttpUrl::parse(url).err().unwrap();
            assert!(message.contains(says) && !message.contains("secret"), "{url}: {message}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        for (url, expected) in [
            ("https://host/a.csv", "https://host/a.csv"),
            ("https://me:secret@host:1/a.csv", "https://host:1/a.csv"),
            ("https://host:1/a@b", "https://host:1/a@b"),
            ("https://host/a.csv?sig=secret", "https://host/a.csv?..."),
            ("https://host?secret", "https://host?..."),
            ("https://me:se/cret@host/a", "https://...host/a"),
            ("/data/a?b", "/data/a?b"),
            ("s3://bucket/a?b", "s3://bucket/a?b"),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
        assert_eq!(host_shown("https://me:secret@host"), "https://host");
        assert_eq!(credentials("https://me:p%40ss@host").as_deref(), Some("me:p@ss"));
        assert_eq!(credentials("https://host"), None);
    }

    #[test]
    fn files_have_the_names_that_people_read() {
        for (relative, name) in [
            ("a%20b.csv?sig=x", "a b.csv"),
            ("in/a%2Fb", "in/a%2Fb"),
            ("%ff", "%ff"),
            ("a%0Ab", "a%0Ab"),
            ("%C3%A4/b", "ä/b"),
        ] {
            assert_eq!(file_name(relative), name, "{relative}");
        }
        for name in ["a b", "50%", "a?b#c", "ä/b"] {
            assert_eq!(file_name(&encoded_name(name)), name);
        }
    }
}
