//! Side inputs (spec P4): what a node needs to know of them to have them whole.
//!
//! They are uploaded and listed as inputs are ([`resolve`](super::resolve())). What stays where it is, on this machine, is
//! looked at: a later start of the job must find the same.

use std::sync::Arc;

use prs_common::dataset::left_out::Exclusions;
use prs_common::dataset::listing::{Listing, ListingError, ListingOptions};
use prs_common::dataset::remote::RemotePath;
use prs_common::file_version::certain_before;
use prs_common::hexadecimal;
use prs_common::job::{Input, InputKind, InputSource, SideInput};
use prs_common::storage::Storage;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use super::manifest::{File, ManifestError, ManifestReader, Source, Store};

/// Files looked at at a time.
const AT_ONCE: usize = 1_000;

/// The input that resolves as `side_input` does. No input of a job has a dot in its name.
pub(super) fn as_input(side_input: &SideInput) -> Input {
    Input {
        mode: side_input.mode,
        exclusions: Exclusions { is_whole: true, ..Exclusions::default() },
        ..Input::new(&format!("side.{}", side_input.name), InputKind::File, side_input.source.clone())
    }
}

/// Where Python keeps what it made of modules: importing one from a side input changes nothing.
const MADE_BY_PYTHON: &str = "__pycache__";

/// What local files were when they were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Checksum of their names, sizes and times of change, in hexadecimal.
    pub checksum: String,
    /// Whether all were changed so long before that another change shows.
    pub is_certain: bool,
}

/// Looks at the local files of `source`. Blocks.
///
/// # Errors
/// They cannot be listed.
pub fn seen(source: &InputSource) -> Result<Seen, ListingError> {
    let certain_before = certain_before();
    let mut is_certain = true;
    let mut listing = Listing::open(source, ListingOptions { versions: true })?;
    let mut hasher = Sha256::new();
    loop {
        let count = listing.visit(AT_ONCE, |entry| {
            if entry.relative.split('/').any(|part| part == MADE_BY_PYTHON) {
                return;
            }
            is_certain &= entry.version.is_some_and(|version| version.seconds < certain_before);
            let version = entry.version.map(|version| version.to_string()).unwrap_or_default();
            for part in [entry.relative.as_bytes(), &[0], version.as_bytes(), &[0]] {
                hasher.update(part);
            }
        })?;
        if count < AT_ONCE {
            return Ok(Seen { checksum: hexadecimal(&hasher.finalize()), is_certain });
        }
    }
}

/// A side input that nodes fetch, file by file.
#[derive(Debug)]
pub struct FetchedSideInput {
    /// What the files have in common, by the number in each.
    pub sources: Vec<Source>,
    /// The files.
    pub files: Vec<File>,
    /// Bytes in those whose size is known.
    pub bytes: u64,
    /// The name of the one file that it is; nothing for a folder.
    pub only_file: Option<String>,
    /// Names its content, in hexadecimal: the same for whatever job has the same files under the same names. Nothing where
    /// the version of one is not known.
    pub content: Option<String>,
}

/// Reads the listing of `side_input`, which was resolved, in the storage of its job. Blocks.
///
/// # Errors
/// It cannot be read; it is not fetched where it has no listing, which is damage too.
pub fn listing_of(
    side_input: &SideInput,
    storage: &Arc<dyn Storage>,
    handle: &Handle,
) -> Result<FetchedSideInput, ManifestError> {
    let InputSource::Manifest { key, checksum, .. } = &side_input.source else {
        let reason = "the side input has none".to_owned();
        return Err(ManifestError::Damaged { key: side_input.name.clone(), reason });
    };
    let mut reader = ManifestReader::open(Arc::clone(storage), key, Some(checksum), handle)?;
    let mut files = Vec::new();
    while let Some(block) = reader.next_block()? {
        files.extend(block);
    }
    let sources = reader.sources().to_vec();
    let named = side_input.given();
    let named = RemotePath::parse(&named).map_or(named, |url| url.name());
    let only_file = match &files[..] {
        [file] if sources[file.source as usize].origin.clone() + &file.relative == named => {
            Some(file.relative.clone())
        }
        _ => None,
    };
    let bytes = files.iter().filter_map(|file| file.size).sum();
    Ok(FetchedSideInput { content: content_of(&sources, &files), sources, files, bytes, only_file })
}

/// Names what the files are, below the folder of the side input.
fn content_of(sources: &[Source], files: &[File]) -> Option<String> {
    let mut hasher = Sha256::new();
    for file in files {
        let source = &sources[file.source as usize];
        // The key of an uploaded file names its content.
        let place = match &source.store {
            Store::Shared => "",
            Store::Url(url) if !file.version.is_empty() => url,
            Store::Url(_) | Store::Local => return None,
        };
        let key = key_of(source, file);
        for part in [&*file.relative, place, &key, &file.version] {
            hasher.update(part.as_bytes());
            hasher.update([0]);
        }
    }
    Some(hexadecimal(&hasher.finalize()))
}

/// The key of a file in its store.
pub fn key_of(source: &Source, file: &File) -> String {
    format!("{}{}", source.prefix, if file.key.is_empty() { &file.relative } else { &file.key })
}
