//! Pictures among the files of an output. What a file is its first bytes say, never its name: a page of HTML that is called a picture
//! is none, and neither is SVG, which can hold scripts.

use bytes::Bytes;
use prs_common::storage::{GetOptions, Storage, StorageError};

/// Bytes of the largest picture that is shown.
pub const MOST_BYTES: u64 = 4 << 20;
/// First bytes that tell what a file is.
const SIGN: u64 = 16;
/// How names of pictures end.
const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// The media type of a picture that browsers show, by its first bytes; nothing for anything else.
pub fn media_type(head: &[u8]) -> Option<&'static str> {
    let signs = [
        (&b"\x89PNG\r\n\x1a\n"[..], "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
    ];
    let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    let known = signs.into_iter().find(|(sign, _)| head.starts_with(sign));
    known.map(|(_, media_type)| media_type).or_else(|| is_webp.then_some("image/webp"))
}

/// Whether it is worth a look whether a file of this name and size is a picture: it is called one, or has no ending.
pub fn may_be_picture(path: &str, bytes: u64) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_called_so = match name.rsplit_once('.') {
        Some((_, ending)) => ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)),
        None => true,
    };
    is_called_so && (SIGN..=MOST_BYTES).contains(&bytes)
}

/// Whether the file `path` of so many bytes in `storage` is a picture that is shown. Its first bytes are read alone.
///
/// # Errors
/// There is no such file, or the storage fails.
pub async fn is_picture(storage: &dyn Storage, path: &str, bytes: u64) -> Result<bool, StorageError> {
    if !(SIGN..=MOST_BYTES).contains(&bytes) {
        return Ok(false);
    }
    let head = storage.get_opts(path, GetOptions { range: Some(0..SIGN), version: None }).await?;
    Ok(media_type(&head.bytes).is_some())
}

/// A file that was asked for as a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Picture {
    /// Its media type and all of it.
    Shown(&'static str, Bytes),
    /// It has so many bytes, more than are shown.
    TooLarge(u64),
    /// It is something else.
    None,
}

/// The file `path` in `storage` as a picture.
///
/// # Errors
/// There is no such file, or the storage fails.
pub async fn picture(storage: &dyn Storage, path: &str) -> Result<Picture, StorageError> {
    let meta = storage.head(path).await?;
    if !is_picture(storage, path, meta.size.min(MOST_BYTES)).await? {
        return Ok(Picture::None);
    }
    if meta.size > MOST_BYTES {
        return Ok(Picture::TooLarge(meta.size));
    }
    let options = GetOptions { range: Some(0..meta.size), version: Some(meta.version) };
    let bytes = storage.get_opts(path, options).await?.bytes;
    // It may have been another a moment ago.
    Ok(media_type(&bytes).map_or(Picture::None, |media_type| Picture::Shown(media_type, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_what_a_file_is() {
        for (head, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF....WEBPVP8 ", Some("image/webp")),
            (b"RIFF....WAVE", None),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\">", None),
            (b"<!DOCTYPE html>", None),
            (b"\x89PN", None),
            (b"", None),
        ] {
            assert_eq!(media_type(head), expected, "{head:?}");
        }
    }

    #[test]
    fn what_is_called_otherwise_is_not_looked_into() {
        for (path, bytes, expected) in [
            ("charts/a.PNG", 100, true),
            ("a.jpeg", MOST_BYTES, true),
            ("a.jpeg", MOST_BYTES + 1, false),
            ("charts.png/a", 100, true),
            ("a.csv", 100, false),
            ("a.svg", 100, false),
            ("a.png", 3, false),
        ] {
            assert_eq!(may_be_picture(path, bytes), expected, "{path}");
        }
    }
}
