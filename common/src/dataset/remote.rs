//! `s3://` URLs of inputs, taken apart.
//!
//! Nothing is connected to here, and nothing is decoded: what follows the bucket is the key as it stands.

use std::fmt;

const SCHEME: &str = "s3://";
const EXPECTED: &str = "give s3://bucket/folder, s3://bucket/object or a glob below a bucket";

/// A place in a bucket: a folder, an object, or a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePath {
    /// The bucket alone: `s3://bucket`.
    pub bucket: String,
    /// What follows it, without a `/` at its beginning; empty for the whole bucket.
    pub key: String,
}

/// Whether `text` is such a URL, well formed or not.
pub fn is_remote(text: &str) -> bool {
    text.trim_start().get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
}

impl RemotePath {
    /// Takes `url` apart. The message of an error holds nothing that could be a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = if is_remote(url) { url.trim_start().get(SCHEME.len()..) } else { None };
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
}

impl fmt::Display for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.key)
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
            ("https://user:secret@host/x", "no s3:// URL"),
            ("s3://user:secret@bucket/x", "no credentials"),
            ("s3:///x", "not the name of a bucket"),
            ("s3://b*/x", "not the name of a bucket"),
            ("s3://bucket//x", "two slashes"),
        ] {
            let message = RemotePath::parse(url).unwrap_err();
            assert!(message.contains(says) && !message.contains("secret"), "{url}: {message}");
        }
    }
}
