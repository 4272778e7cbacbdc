//! Side inputs (spec P4): what a node needs to know of them to have them whole.
//!
//! They are uploaded and listed as inputs are ([`resolve`](super::resolve())). What stays where it is, on this machine, is
//! looked at: a later start of the job must find the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prs_common::dataset::left_out::Exclusions;
use prs_common::dataset::listing::{Entry, Listing, ListingError, ListingOptions};
use prs_common::dataset::remote::RemotePath;
use prs_common::end_reason::EndReason;
use prs_common::file_content::{LARGEST, Reading, checksum};
use prs_common::hexadecimal;
use prs_common::job::{Input, InputKind, InputSource, SideInput};
use prs_common::storage::Storage;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use super::listed::{Listed, ListingSum};
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
    /// Checksum of their names and contents, in hexadecimal; of files of more than [`LARGEST`] bytes, the sizes and times of change
    /// stand for the contents.
    pub checksum: String,
    /// Whether another change of any would have shown.
    pub is_certain: bool,
}

/// What this program saw of files whose names, sizes, times of change and inodes have this checksum.
static SEEN: Mutex<BTreeMap<String, Seen>> = Mutex::new(BTreeMap::new());

/// Looks at the local files of `source`, and reads them unless this program did so before. Blocks.
///
/// # Errors
/// They cannot be listed.
pub fn seen(source: &InputSource) -> Result<Seen, ListingError> {
    let mut listing = Listing::open(source, ListingOptions { versions: true })?;
    let (mut files, mut listed) = (Vec::new(), ListingSum::default());
    loop {
        let count = listing.visit(AT_ONCE, |entry| {
            if !entry.relative.split('/').any(|part| part == MADE_BY_PYTHON) {
                listed.push_entry(&entry);
                files.push(entry.to_entry());
            }
        })?;
        if count < AT_ONCE {
            break;
        }
    }
    let key = listed.finish().and_then(Listed::surely);
    let known = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(seen) = key.as_ref().and_then(|key| known().get(key).cloned()) {
        return Ok(seen);
    }
    let seen = read(&files);
    if let Some(key) = key {
        known().insert(key, seen.clone());
    }
    Ok(seen)
}

fn read(files: &[Entry]) -> Seen {
    let (mut hasher, mut is_certain) = (Sha256::new(), true);
    for file in files {
        let read = file.state.and_then(|state| checksum(&file.path(), &state, Reading::Whole).ok()?);
        let version = || file.state.map(|state| state.seen.version.to_string()).unwrap_or_default();
        let size = file.state.map(|state| state.seen.version.size);
        let content = match (read, size) {
            (Some(read), Some(size)) => format!("{size} {read:016x}"),
            (_, Some(size)) if size > LARGEST => {
                is_certain &= file.state.is_some_and(|state| !state.is_young());
                version()
            }
            _ => {
                is_certain = false;
                version()
            }
        };
        for part in [file.relative.as_bytes(), &[0], content.as_bytes(), &[0]] {
            hasher.update(part);
        }
    }
    Seen { checksum: hexadecimal(&hasher.finalize()), is_certain }
}

/// Compares a side input that stays where it is with what the job knows of it. Blocks.
///
/// # Errors
/// It is another, or cannot be read.
pub fn check(side_input: &SideInput) -> Result<(), EndReason> {
    let SideInput { name, source, seen: known, .. } = side_input;
    let (InputSource::Paths(paths), Some(known)) = (source, known) else { return Ok(()) };
    if seen(source).map_err(|error| not_read(side_input, error.to_string()))?.checksum == *known {
        return Ok(());
    }
    let path = paths.join(", ");
    Err(if side_input.is_model() {
        EndReason::ModelChanged { path }
    } else {
        EndReason::SideInputChanged { name: name.clone(), path }
    })
}

/// Why a job has no side input, or no model.
pub fn not_read(side_input: &SideInput, error: String) -> EndReason {
    if side_input.is_model() {
        EndReason::NoModel { path: side_input.named(), error }
    } else {
        EndReason::SideInputNotRead { name: side_input.name.clone(), error }
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
