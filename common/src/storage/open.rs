//! Opening a store by its URL, and finding out early whether it can be written.
//!
//! What a fleet works with is written ([`open`]); what holds inputs is only read ([`open_input`]).

use std::path::PathBuf;
use std::sync::Arc;

use crate::dataset::http_url::is_http;

use super::fenced::FencedStorage;
use super::remote;
use super::{LocalStorage, Reach, Storage, StorageError, StorageErrorKind, Use, is_valid_key};

/// A place that a URL names.
#[derive(Debug, PartialEq, Eq)]
enum StoreUrl {
    Folder(PathBuf),
    Bucket { name: String, prefix: String },
}

/// Opens the store at `url`: `s3://bucket/prefix`, reached as the environment and the configuration say, or
/// `file:///absolute/folder`. What stands in the URL is taken as it is, without decoding. A bucket is asked
/// whether it is there and lets itself be listed and read, within about 25 seconds.
pub async fn open(url: &str) -> Result<Arc<dyn Storage>, StorageError> {
    match parse(url)? {
        StoreUrl::Folder(folder) => Ok(Arc::new(LocalStorage::new(folder))),
        StoreUrl::Bucket { name, prefix } => remote::open_bucket(&name, &prefix).await,
    }
}

/// Opens the store of an input at `url`, which is only read: one as [`open`] takes it, or an HTTP server,
/// `https://host` or `http://user:password@host:port`, which is asked nothing yet.
pub async fn open_input(url: &str) -> Result<Arc<dyn Storage>, StorageError> {
    if is_http(url) {
        return remote::open_http(url, None);
    }
    open(url).await
}

/// The same store, of which no more may be used than `reach` allows.
pub async fn open_within(url: &str, reach: Option<Arc<Reach>>) -> Result<Arc<dyn Storage>, StorageError> {
    let Some(reach) = reach else { return open_input(url).await };
    if is_http(url) {
        return remote::open_http(url, Some(reach));
    }
    // Nothing is asked of a store of which nothing may be used.
    if !reach.may_have_some_of(url) {
        let message = reach.check_key(url, Use::Read).err().unwrap_or_default();
        let kind = StorageErrorKind::PermissionDenied;
        return Err(StorageError { kind, place: url.to_owned(), key: String::new(), message });
    }
    Ok(Arc::new(FencedStorage::new(open(url).await?, url, reach)))
}

/// Puts and deletes a small object, for a caller that is about to write much. Says so where the store does not decide
/// itself who of many writes first.
pub async fn probe_writable(storage: &dyn Storage) -> Result<(), StorageError> {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let key = format!(".prs-probe-{}-{:x}", std::process::id(), now.as_nanos());
    if !storage.probe(&key).await? {
        tracing::warn!(
            %storage,
            "the storage does not refuse to replace an object that has changed meanwhile (conditional writes): prs looks \
             first and then writes, and where two orchestrators or commands write at the same moment, the later one wins"
        );
    }
    Ok(())
}

fn parse(url: &str) -> Result<StoreUrl, StorageError> {
    const FORMS: &str = "give s3://bucket/prefix or file:///absolute/folder";
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(malformed(url, &format!("not a URL: {FORMS}")));
    };
    match scheme {
        "file" if rest.starts_with('/') => Ok(StoreUrl::Folder(rest.into())),
        "file" => {
            Err(malformed(url, "the folder must be absolute: file:///absolute/folder, with three slashes"))
        }
        "s3" => {
            let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
            if name.contains(['@', ':']) {
                return Err(malformed(
                    url,
                    "credentials and ports do not belong in it: set AWS_PROFILE, \
                    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_ENDPOINT_URL_S3",
                ));
            }
            let fits = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
            if !(3..=63).contains(&name.len()) || !name.chars().all(fits) {
                return Err(malformed(
                    url,
                    "the bucket's name must have 3 to 63 letters, digits, dots and hyphens",
                ));
            }
            if !prefix.is_empty() && !is_valid_key(prefix) {
                return Err(malformed(url, "the prefix must not have empty, `.` or `..` parts"));
            }
            Ok(StoreUrl::Bucket { name: name.to_owned(), prefix: prefix.to_owned() })
        }
        _ => Err(malformed(url, &format!("prs has no storage of this kind: {FORMS}"))),
    }
}

pub(super) fn malformed(url: &str, message: &str) -> StorageError {
    // Whatever stands before an `@` may be a password.
    let shown = match url.rsplit_once('@') {
        Some((secret, rest)) => {
            format!(
                "{}***@{rest}",
                secret.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"))
            )
        }
        None => url.to_owned(),
    };
    StorageError {
        kind: StorageErrorKind::InvalidKey,
        place: "storage".to_owned(),
        key: shown,
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::StorageExt;
    use super::*;

    #[test]
    fn urls_name_places() {
        let bucket = |name: &str, prefix: &str| StoreUrl::Bucket { name: name.into(), prefix: prefix.into() };
        for (url, place) in [
            ("s3://data", bucket("data", "")),
            ("s3://data/", bucket("data", "")),
            ("s3://data/a/b", bucket("data", "a/b")),
            ("s3://data/a b/%20+é/", bucket("data", "a b/%20+é")),
            ("file:///a b/c", StoreUrl::Folder("/a b/c".into())),
        ] {
            assert_eq!(parse(url).unwrap(), place, "{url}");
        }
    }

    #[test]
    fn malformed_urls_are_refused_without_their_passwords() {
        for (url, told) in [
            ("", "not a URL"),
            ("data/a", "not a URL"),
            ("s3:/data", "not a URL"),
            ("s3://", "3 to 63"),
            ("s3://no!bucket", "3 to 63"),
            ("s3://data//a", "prefix"),
            ("s3://data/a/../b", "prefix"),
            ("s3://key:hidden@data/a", "credentials"),
            ("file://host/a", "three slashes"),
            ("gs://data/a", "no storage of this kind"),
            ("https://user:hidden@host/a", "no storage of this kind"),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind, StorageErrorKind::InvalidKey);
            assert!(error.to_string().contains(told), "{error}");
            assert!(!error.to_string().contains("hidden"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_probe_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let storage = open(&format!("file://{}", folder.path().display())).await.unwrap();
        probe_writable(&*storage).await.unwrap();
        assert!(storage.list_all("").await.unwrap().is_empty());
    }
}
