//! The listing of a container of Azure's blob storage, the one kind of HTTP server whose folders can be listed: anonymously,
//! or with the signature that the URL has for a query.

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::Inner;
use super::answer::HttpFailure;
use super::version::SeenState;
use crate::dataset::http_url::{encoded_name, path_of, query_of};
use crate::storage::ObjectMeta;
use crate::storage::StorageErrorKind::InvalidKey;

/// Largest page that is read, bytes: 5,000 names of the longest kind.
const LARGEST_PAGE: usize = 64 << 20;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    #[serde(default)]
    blobs: Blobs,
    #[serde(default)]
    next_marker: String,
}

#[derive(Debug, Default, Deserialize)]
struct Blobs {
    #[serde(rename = "Blob", default)]
    blobs: Vec<Blob>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: Name,
    properties: Properties,
}

#[derive(Debug, Deserialize)]
struct Name {
    #[serde(rename = "@Encoded", default)]
    is_encoded: bool,
    #[serde(rename = "$text", default)]
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Properties {
    #[serde(rename = "Content-Length")]
    size: u64,
    #[serde(default)]
    etag: String,
    #[serde(rename = "Last-Modified", default)]
    modified: String,
    #[serde(default)]
    resource_type: String,
}

impl Inner {
    /// One page of what lies below `prefix`, a container and a folder in it with the query of their URL, and what the next
    /// one is asked for with.
    pub(super) async fn page(
        &self,
        prefix: &str,
        marker: Option<&str>,
    ) -> Result<(Vec<ObjectMeta>, Option<String>), HttpFailure> {
        let (container, folder) = path_of(prefix).split_once('/').unwrap_or((path_of(prefix), ""));
        if container.is_empty() {
            return Err(HttpFailure::of(
                InvalidKey,
                "the URL names no container: give https://host/container/folder",
            ));
        }
        let folder = percent_decode_str(folder).decode_utf8_lossy();
        let signature = query_of(prefix).trim_start_matches('?');
        let mut query = format!("restype=container&comp=list&prefix={}", encoded_name(&folder));
        for (key, value) in
            [("marker=", marker.map(encoded_name).unwrap_or_default()), ("", signature.to_owned())]
        {
            if !value.is_empty() {
                query = format!("{query}&{key}{value}");
            }
        }
        let page = self.read_text(&format!("{container}?{query}"), LARGEST_PAGE).await?;
        parse(&page, container, query_of(prefix))
    }
}

/// The blobs in a page, and the marker of the next.
fn parse(page: &str, container: &str, query: &str) -> Result<(Vec<ObjectMeta>, Option<String>), HttpFailure> {
    let page: Page = quick_xml::de::from_str(page.trim_start_matches('\u{FEFF}')).map_err(|error| {
        HttpFailure::unanswered(format!("the answer is no listing of a container: {error}"))
    })?;
    let files = page.blobs.blobs.into_iter().filter(|blob| blob.properties.resource_type != "directory");
    let objects = files.map(|Blob { name, properties }| {
        let Properties { size, etag, modified, .. } = properties;
        let name = if name.is_encoded {
            percent_decode_str(&name.text).decode_utf8_lossy().into_owned()
        } else {
            name.text
        };
        // Listings leave out the quotes that headers have.
        let etag = if etag.is_empty() || etag.contains('"') { etag } else { format!("\"{etag}\"") };
        let version = SeenState { etag, modified, size }.to_string();
        let key = format!("{container}/{}{query}", encoded_name(&name));
        ObjectMeta { key, size, version, ..ObjectMeta::default() }
    });
    Ok((objects.collect(), Some(page.next_marker).filter(|marker| !marker.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_as_azure_writes_them() {
        let page = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults \
            ServiceEndpoint=\"https://a.blob.core.windows.net/\" ContainerName=\"c\"><Prefix>in/</Prefix><Blobs>\
            <Blob><Name>in/a b&amp;.csv</Name><Properties><Creation-Time>Mon</Creation-Time>\
            <Last-Modified>Tue</Last-Modified><Etag>0x8D</Etag><Content-Length>7</Content-Length>\
            <Content-MD5 /><BlobType>BlockBlob</BlobType></Properties><OrMetadata /></Blob>\
            <Blob><Name>in/deep</Name><Properties><Content-Length>0</Content-Length>\
            <ResourceType>directory</ResourceType></Properties></Blob>\
            <Blob><Name Encoded=\"true\">in/x%01</Name><Properties><Content-Length>0</Content-Length></Properties></Blob>\
            </Blobs><NextMarker>2!8</NextMarker></EnumerationResults>";
        let (objects, marker) = parse(page, "c", "?sig=s").unwrap();
        let seen: Vec<_> =
            objects.iter().map(|object| (&*object.key, object.size, &*object.version)).collect();
        assert_eq!(
            seen,
            [("c/in/a%20b%26.csv?sig=s", 7, "7\n\"0x8D\"\nTue"), ("c/in/x%01?sig=s", 0, "0\n\n")]
        );
        assert_eq!(marker.as_deref(), Some("2!8"));
        let empty = "<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        assert_eq!(parse(empty, "c", "").unwrap(), (Vec::new(), None));
        assert!(parse("<html>", "c", "").is_err());
    }
}
