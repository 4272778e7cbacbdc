//! Manifests: a blob of JSON lines that lists blobs as the files of a folder.

use std::collections::HashSet;

use prs_common::dataset::names;
use prs_common::storage::{StorageExt, is_valid_key};
use serde::Deserialize;

use super::{BlobError, Blobs, is_digest, key_of};
use crate::failure::Failure;

/// Files of a manifest at most.
pub const MOST_FILES: usize = 100_000;
/// Bytes of a manifest at most.
const LARGEST: u64 = 64 << 20;
/// Problems of a manifest that are told.
const TOLD: usize = 20;

/// A file of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its path below the folder.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// The digest of its content.
    pub sha256: String,
}

/// The files that `text` lists.
///
/// # Errors
/// What is wrong with it, with the lines.
pub fn read_manifest(text: &str) -> Result<Vec<Listed>, String> {
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    let (mut seen, mut folders) = (HashSet::new(), HashSet::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let judged = serde_json::from_str::<Listed>(line).map_err(|error| error.to_string());
        let judged = judged.and_then(|file| {
            let (path, sha256) = (&file.path, &file.sha256);
            if !is_valid_key(path) || names::unusable(path).is_some() {
                return Err(format!("{path:?} is not the path of a file below a folder"));
            }
            if !is_digest(sha256) {
                return Err(format!("{sha256:?} is no SHA-256 of 64 hexadecimal digits"));
            }
            folders.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
            if !seen.insert(path.clone()) {
                return Err(format!("{path} stands there twice"));
            }
            Ok(file)
        });
        match judged {
            Ok(file) => files.push(file),
            Err(why) if wrong.len() < TOLD => wrong.push(format!("line {}: {why}", at + 1)),
            Err(_) => {}
        }
    }
    if let Some(path) = seen.iter().find(|path| folders.contains(*path)) {
        wrong.push(format!("{path} is a file and a folder"));
    }
    if files.len() > MOST_FILES {
        wrong.push(format!("there are {} files, and a manifest has {MOST_FILES} at most", files.len()));
    }
    match (files.is_empty(), wrong.is_empty()) {
        (_, false) => Err(wrong.join("; ")),
        (true, true) => Err("it lists no file".to_owned()),
        (false, true) => Ok(files),
    }
}

impl Blobs {
    /// The files that the manifest `digest` lists. It and all of them are claimed, and there.
    ///
    /// # Errors
    /// The manifest or a file is not there, it cannot be used, or the store fails.
    pub async fn manifest(&self, digest: &str) -> Result<Vec<Listed>, BlobError> {
        self.need(&[digest]).await?;
        let wrong = |why: String| {
            BlobError::Failed(Failure::wrong(format!("the manifest {digest} cannot be used: {why}")))
        };
        let size = self.size(digest).await?.unwrap_or(0);
        if size > LARGEST {
            return Err(wrong(format!("it has {size} bytes, and one has {LARGEST} at most")));
        }
        let body = self.storage().get(&key_of(digest)).await?;
        let text = std::str::from_utf8(&body).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        let files = read_manifest(text).map_err(wrong)?;
        let digests: Vec<&str> = files.iter().map(|file| &*file.sha256).collect();
        self.need(&digests).await?;
        let sizes = self.sizes(&digests).await?;
        let other = files.iter().zip(sizes).find(|(file, size)| *size != Some(file.bytes));
        if let Some((Listed { path, bytes, .. }, Some(size))) = other {
            return Err(wrong(format!("{path} has {size} bytes, and {bytes} are listed")));
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_lists_files_of_a_folder() {
        let digest = "ab".repeat(32);
        let line = |path: &str| format!("{{\"path\": \"{path}\", \"bytes\": 3, \"sha256\": \"{digest}\"}}\n");
        let files = read_manifest(&(line("a/b.csv") + "\n" + &line("c"))).unwrap();
        assert_eq!(files.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["a/b.csv", "c"]);
        for (text, expected) in [
            (String::new(), "no file"),
            ("x\n".to_owned(), "line 1"),
            (line("../x"), "is not the path"),
            (line("/etc/x"), "is not the path"),
            (line("a") + &line("a"), "line 2: a stands there twice"),
            (line("a") + &line("a/b"), "a is a file and a folder"),
            (line("a").replace("ab", "xx"), "is no SHA-256"),
            (line("a").replace("bytes", "size"), "line 1"),
        ] {
            let wrong = read_manifest(&text).unwrap_err();
            assert!(wrong.contains(expected), "{text}: {wrong}");
        }
    }
}
