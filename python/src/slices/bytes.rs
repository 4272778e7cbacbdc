//! The bytes of a slice, as they were planned.
//!
//! A slice is what was planned or nothing: its bytes have a checksum, and a file of the user is looked at before and
//! after they are read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use prs_common::checksum::crc32c;
use prs_common::file_version::{FileVersion, SeenFile};
use prs_common::mini_batch::SliceRef;
use prs_common::wire::ErrorInfo;

use super::load_error;
use crate::changes;

/// A file that stays open from one slice of it to the next.
pub(super) struct Held {
    path: String,
    file: File,
    seen: SeenFile,
}

/// Reads exactly the bytes of the slice, as they were planned.
pub(super) fn read(
    held: &mut Option<Held>,
    scratch: &Path,
    slice: SliceRef<'_>,
    bytes: &mut Vec<u8>,
) -> Result<(), ErrorInfo> {
    let path = scratch.join(slice.key);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(slice, &(slice.start..slice.end), &path),
        io::ErrorKind::NotFound => load_error("FileNotFoundError", slice, &error),
        _ => load_error("OSError", slice, &error),
    };
    let is_copy = slice.key != slice.origin;
    let look = || {
        if is_copy { SeenFile::at(&path).map_err(failed) } else { changes::look(&path, slice.origin) }
    };
    let before = look()?;
    if !is_copy {
        let planned: FileVersion =
            slice.version.parse().map_err(|error| load_error("DescriptorError", slice, &error))?;
        refuse_change(slice, planned.difference(&before.version))?;
    }
    let kept = held.take().filter(|held| held.path == slice.key && held.seen.is_same_file(&before));
    let Held { file, seen, .. } = held.insert(if let Some(kept) = kept {
        Held { seen: before, ..kept }
    } else {
        let file = File::open(&path).map_err(failed)?;
        let seen = SeenFile::of(&file.metadata().map_err(failed)?);
        Held { path: slice.key.to_owned(), file, seen }
    });
    if seen.version.size < slice.end && is_copy {
        return Err(damaged(slice, &(slice.start..slice.end), &path));
    }
    let length = slice.end.min(seen.version.size).saturating_sub(slice.start);
    let length = usize::try_from(length).map_err(|error| load_error("DescriptorError", slice, &error))?;
    bytes.clear();
    bytes.resize(length, 0);
    let read = file.read_exact_at(bytes, slice.start);
    if !is_copy {
        let after = SeenFile::of(&file.metadata().map_err(failed)?);
        refuse_change(slice, before.difference(seen, &path))?;
        refuse_change(slice, before.difference(&after, &path))?;
        refuse_change(slice, before.difference(&look()?, &path))?;
    }
    read.map_err(failed)?;
    if crc32c(bytes) == slice.checksum {
        return Ok(());
    }
    Err(if is_copy {
        damaged(slice, &(slice.start..slice.end), &path)
    } else {
        changes::changed(slice.origin, &other_bytes(slice))
    })
}

pub(super) fn refuse_change(slice: SliceRef<'_>, what: Option<String>) -> Result<(), ErrorInfo> {
    what.map_or(Ok(()), |what| Err(changes::changed(slice.origin, &what)))
}

fn other_bytes(slice: SliceRef<'_>) -> String {
    let SliceRef { start, end, .. } = slice;
    format!("its bytes {start}-{end} are other ones, though it has the size and the time of change it had")
}

/// What to say of a copy that prs made and that does not hold what it was made of.
pub(super) fn damaged(slice: SliceRef<'_>, place: &Range<u64>, copy: &Path) -> ErrorInfo {
    let Range { start, end } = place;
    let what = format!(
        "its copy {} is damaged: bytes {start}-{end} are not those that were planned; look at the disk and the memory \
         of this host, and resume the job, which makes a new copy",
        copy.display()
    );
    load_error("DamagedCopy", slice, &what)
}
