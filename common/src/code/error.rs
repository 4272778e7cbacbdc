//! Why code cannot go along with a job.
//!
//! Finding the files, packing and unpacking them fail in the same words; each names the path that is meant.

use std::io;
use std::path::PathBuf;

/// Largest sum of file sizes that is packed, and unpacked, bytes.
pub const LARGEST: u64 = 512 << 20;
/// Most files that are packed, and unpacked.
pub const MOST_FILES: usize = 100_000;

/// Why code cannot be packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A link, pipe or device that cannot be packed.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Too much for code.
    #[error(
        "source_directory {} holds more than {} MiB, or more than {MOST_FILES} files ({biggest}): exclude what is not code with {}, or name \
         a smaller folder",
        path.display(), LARGEST >> 20, path.join(ignore_file).display()
    )]
    TooLarge {
        /// The folder.
        path: PathBuf,
        /// What of it takes most, in words.
        biggest: String,
        /// The ignore file that counts, or would.
        ignore_file: &'static str,
    },
    /// An entry of an archive would end up outside the target.
    #[error("the code archive holds {entry}, which is not a plain relative path")]
    Escapes {
        /// Its path.
        entry: String,
    },
    /// An archive holds more than is ever packed.
    #[error("the code archive holds more than {} MiB or {MOST_FILES} files: nobody packed it so", LARGEST >> 20)]
    Swells,
}
