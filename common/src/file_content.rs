//! Content of local files as mini-batches had it: by which a later start, or another job, tells whether the files are the same.
//!
//! Many ways to replace a file keep its size and time of change (`cp -p`, `rsync -a`, archives). On the host that had the file, its
//! inode tells more: the number, and the time of its own last change. These move without a change of content as well (`chmod`, a
//! hard link, a restored copy), so a difference in them is a question, which the checksum of the content answers for files of up to
//! [`LARGEST`] bytes. Inodes are never compared between hosts. Devices have no part in it: they get other numbers at a restart, and
//! only a copy of a whole device has a file with the same inode and the same time of its change.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut};
use std::ops::AddAssign;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::checksum::{Crc64, crc32c};
use crate::file_version::{
    FileVersion, SeenFile, certain_before, numbers_last, put_distance, put_number, take_distance, take_number,
};
use crate::host_id;

/// Size of the largest file whose content has a checksum, bytes.
pub const LARGEST: u64 = 64 << 20;
/// Bytes read at a time.
const BLOCK: usize = 256 << 10;

/// Another change of the file need not show.
const IS_YOUNG: u8 = 1;
/// The checksum of its content follows.
const HAS_CHECKSUM: u8 = 2;

/// A file with its inode, as this host sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// The file.
    pub seen: SeenFile,
    /// Last change of the inode: seconds since the Unix epoch, and nanoseconds.
    changed: (i64, u32),
    /// Checksum of the rights, owners and number of names of the file, whose changes are changes of the inode alone.
    status: u32,
}

impl FileState {
    /// As the system tells it.
    pub fn of(metadata: &Metadata) -> Self {
        let nanoseconds = u32::try_from(metadata.ctime_nsec()).unwrap_or_default();
        let mut status = [0; 20];
        status[..8].copy_from_slice(&metadata.nlink().to_le_bytes());
        for (at, part) in [metadata.mode(), metadata.uid(), metadata.gid()].into_iter().enumerate() {
            status[8 + 4 * at..][..4].copy_from_slice(&part.to_le_bytes());
        }
        Self {
            seen: SeenFile::of(metadata),
            changed: (metadata.ctime(), nanoseconds),
            status: crc32c(&status),
        }
    }

    /// The file that `path` names now, links followed.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// Number of the inode, and its last change: seconds since the Unix epoch, and nanoseconds.
    pub fn inode(&self) -> (u64, i64, u32) {
        (self.seen.inode, self.changed.0, self.changed.1)
    }

    /// Tells whether another change need not show, for the last one is too young.
    pub fn is_young(&self) -> bool {
        self.seen.version.seconds.max(self.changed.0) >= certain_before()
    }

    /// Tells whether the file may have been written with its time of change set back: its inode changed, and neither rights,
    /// owners nor names say why.
    pub fn is_in_doubt(&self, now: &Self, path: &Path) -> bool {
        let is_changed = self.changed != now.changed && self.status == now.status;
        self.seen == now.seen && is_changed && numbers_last(path)
    }
}

/// How the content of a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// From memory alone. A file that the system does not hold there as a whole has no checksum.
    Cached,
    /// From wherever it is.
    Whole,
}

/// Returns the checksum (CRC-64/NVME) of the content of the file at `path`, which is in this state. A file larger than [`LARGEST`],
/// or in another state before or after, has none.
///
/// # Errors
/// It cannot be read.
pub fn checksum(path: &Path, state: &FileState, reading: Reading) -> io::Result<Option<u64>> {
    let size = state.seen.version.size;
    if size > LARGEST {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path)?;
    if FileState::of(&file.metadata()?) != *state {
        return Ok(None);
    }
    let mut reading = reading;
    let mut buffer = vec![0; BLOCK.min(size as usize + 1)];
    let (mut sum, mut at) = (Crc64::default(), 0);
    while at < size {
        let read = match reading {
            Reading::Whole => file.read_at(&mut buffer, at)?,
            Reading::Cached => match read_cached(&file, &mut buffer, at) {
                Ok(read) => read,
                // Not all file systems tell what they have; those that hold nothing are left alone.
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) if numbers_last(path) => {
                    reading = Reading::Whole;
                    continue;
                }
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        if read == 0 {
            return Ok(None);
        }
        sum.update(&buffer[..read]);
        at += read as u64;
    }
    let is_as_it_was = at == size && FileState::of(&file.metadata()?) == *state;
    Ok(is_as_it_was.then(|| sum.finish()))
}

fn read_cached(file: &File, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    preadv2(file, &mut [IoSliceMut::new(buffer)], at, ReadWriteFlags::NOWAIT)
}

/// A file as it was, beside its [`FileVersion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileContent {
    inode: u64,
    changed: (i64, u32),
    status: u32,
    is_young: bool,
    /// Checksum of the content, where it is known.
    pub checksum: Option<u64>,
}

impl FileContent {
    /// A file in this state.
    pub fn new(state: &FileState, checksum: Option<u64>) -> Self {
        let FileState { seen, changed, status } = *state;
        Self { inode: seen.inode, changed, status, is_young: state.is_young(), checksum }
    }

    /// Returns in words how the content of the file at `path` is another than it was, when it had the version `then`; nothing
    /// where it is the same. `of_this_host` says whether it was seen here. May read the file.
    ///
    /// # Errors
    /// The file is not there, or cannot be read.
    pub fn difference(
        &self,
        then: FileVersion,
        of_this_host: bool,
        path: &Path,
    ) -> io::Result<Option<String>> {
        let now = FileState::at(path)?;
        let version = now.seen.version;
        let has_version = then == version;
        let has_inode = self.inode == now.seen.inode && self.changed == now.changed;
        let raises_question = of_this_host && !has_inode && numbers_last(path);
        if has_version && !raises_question && !self.is_young {
            return Ok(None);
        }
        if then.size != version.size {
            return Ok(then.difference(&version));
        }
        if let Some(known) = self.checksum {
            return match checksum(path, &now, Reading::Whole)? {
                Some(found) if found == known => Ok(None),
                Some(_) if has_version => Ok(Some(OTHER.to_owned())),
                Some(_) => Ok(then.difference(&version)),
                None => Err(io::Error::new(ErrorKind::ResourceBusy, "it changes at this moment")),
            };
        }
        let is_explained = self.inode == now.seen.inode && self.status != now.status;
        Ok(match has_version {
            true if !raises_question || is_explained => None,
            true => Some(UNKNOWN.to_owned()),
            false => then.difference(&version),
        })
    }
}

const OTHER: &str = "it has other content, though it has the size and the time of change it had";
const UNKNOWN: &str =
    "its inode changed or is another, and there is no checksum to tell whether its content did";

/// A sum over the contents of files, in whatever order they are added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentSum {
    /// Files that are in it.
    pub files: u64,
    /// Sum of the checksums of all of them, in two halves.
    sum: (u64, u64),
}

impl ContentSum {
    /// Adds a file of the input at this position, by its path, size and the checksum of its content.
    pub fn add(&mut self, input: u32, path: &str, size: u64, checksum: u64) {
        let mut hasher = Sha256::new();
        for part in [u64::from(input), path.len() as u64, size, checksum] {
            hasher.update(part.to_le_bytes());
        }
        hasher.update(path);
        let hash = hasher.finalize();
        let half = |at: usize| u64::from_le_bytes(*hash[at..].first_chunk().expect("32 bytes"));
        *self += Self { files: 1, sum: (half(0), half(8)) };
    }
}

impl AddAssign for ContentSum {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.sum.0 = self.sum.0.wrapping_add(other.sum.0);
        self.sum.1 = self.sum.1.wrapping_add(other.sum.1);
    }
}

/// Contents of the local files of one mini-batch, one after the other: some thirty bytes each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The host that saw them, as [`host_id`] numbers it.
    pub host: u64,
    /// Sum over those whose content is known, each once in a job.
    pub sum: ContentSum,
    #[serde(with = "serde_bytes")]
    files: Vec<u8>,
}

impl Contents {
    /// None yet, of files that this host has.
    pub fn here() -> Self {
        Self { host: host_id(), ..Self::default() }
    }

    /// Appends a file.
    pub fn push(&mut self, content: &FileContent) {
        let FileContent { inode, changed, status, is_young, checksum } = *content;
        let mut flags = 0;
        if is_young {
            flags |= IS_YOUNG;
        }
        if checksum.is_some() {
            flags |= HAS_CHECKSUM;
        }
        let bytes = &mut self.files;
        bytes.push(flags);
        put_number(bytes, inode);
        put_distance(bytes, 0, changed.0);
        bytes.extend_from_slice(&changed.1.to_le_bytes());
        bytes.extend_from_slice(&status.to_le_bytes());
        bytes.extend(checksum.into_iter().flat_map(u64::to_le_bytes));
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files; ends where nothing more can be read.
    pub fn iter(&self) -> impl Iterator<Item = FileContent> {
        let mut rest = &self.files[..];
        std::iter::from_fn(move || {
            let (&flags, after) = rest.split_first()?;
            rest = after;
            let inode = take_number(&mut rest)?;
            let seconds = take_distance(&mut rest, 0)?;
            let nanoseconds = u32::from_le_bytes(*chunk(&mut rest)?);
            let status = u32::from_le_bytes(*chunk(&mut rest)?);
            let has_checksum = flags & HAS_CHECKSUM != 0;
            let checksum = if has_checksum { Some(u64::from_le_bytes(*chunk(&mut rest)?)) } else { None };
            let is_young = flags & IS_YOUNG != 0;
            Some(FileContent { inode, changed: (seconds, nanoseconds), status, is_young, checksum })
        })
    }
}

fn chunk<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (chunk, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(chunk)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use super::*;

    /// Time of change of all files here, long ago.
    fn then() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
    }

    fn write(path: &Path, content: &str) {
        fs::write(path, content).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(then()).unwrap();
    }

    /// A file as it is now, without regard to how young its inode is.
    fn seen(path: &Path, has_checksum: bool) -> (FileVersion, FileContent) {
        let state = FileState::at(path).unwrap();
        let checksum = checksum(path, &state, Reading::Whole).unwrap().filter(|_| has_checksum);
        (state.seen.version, FileContent { is_young: false, ..FileContent::new(&state, checksum) })
    }

    /// Words for a change of a file: with a checksum of its content, and without one.
    fn told(change: impl Fn(&Path)) -> [Option<String>; 2] {
        [true, false].map(|has_checksum| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            write(&path, "four");
            let (version, content) = seen(&path, has_checksum);
            change(&path);
            content.difference(version, true, &path).unwrap()
        })
    }

    #[test]
    fn other_content_is_a_change_and_nothing_else_is() {
        assert_eq!(told(|_| {}), [None, None]);
        // What says why the inode changed is believed.
        assert_eq!(
            told(|path| fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap()),
            [None, None]
        );
        assert_eq!(told(|path| fs::hard_link(path, path.with_extension("link")).unwrap()), [None, None]);
        let restored = |path: &Path| {
            let copy = path.with_extension("copy");
            write(&copy, "four");
            fs::rename(copy, path).unwrap();
        };
        let unknown = Some(UNKNOWN.to_owned());
        assert_eq!(told(restored), [None, unknown.clone()]);
        assert_eq!(told(|path| write(path, "five")), [Some(OTHER.to_owned()), unknown]);
        let [known, _] = told(|path| fs::write(path, "four").unwrap());
        assert_eq!(known, None, "it was written again");
        for told in told(|path| fs::write(path, "five").unwrap()) {
            assert!(told.unwrap().contains("again at"));
        }
        for told in told(|path| fs::write(path, "seven").unwrap()) {
            assert_eq!(told.unwrap(), "it had 4 bytes and has 5 now");
        }
    }

    #[test]
    fn inodes_of_other_hosts_say_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, "four");
        let (version, content) = seen(&path, true);
        write(&path, "five");
        assert_eq!(content.difference(version, false, &path).unwrap(), None);
        let young = FileContent { is_young: true, ..content };
        assert_eq!(young.difference(version, false, &path).unwrap().as_deref(), Some(OTHER));
        fs::remove_file(&path).unwrap();
        assert_eq!(content.difference(version, true, &path).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_checksum_is_of_one_state_of_a_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, vec![7; 3 * BLOCK + 1]).unwrap();
        let state = FileState::at(&path).unwrap();
        assert!(state.is_young());
        let whole = checksum(&path, &state, Reading::Whole).unwrap();
        assert!(whole.is_some());
        // Its pages were just written.
        assert_eq!(checksum(&path, &state, Reading::Cached).unwrap(), whole);
        let mut file = File::options().write(true).open(&path).unwrap();
        io::Write::write_all(&mut file, &[8]).unwrap();
        assert_eq!(checksum(&path, &state, Reading::Whole).unwrap(), None);
        file.set_len(LARGEST + 1).unwrap();
        assert_eq!(checksum(&path, &FileState::at(&path).unwrap(), Reading::Whole).unwrap(), None);
        fs::write(&path, "").unwrap();
        assert!(checksum(&path, &FileState::at(&path).unwrap(), Reading::Cached).unwrap().is_some());
    }

    #[test]
    fn contents_survive_being_packed_and_sums_have_no_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut contents = Contents { host: 7, ..Contents::default() };
        let mut all = Vec::new();
        for (text, has_checksum) in [("one", true), ("two", false), ("", true)] {
            write(&path, text);
            let (_, content) = seen(&path, has_checksum);
            let content = FileContent { is_young: text == "two", ..content };
            contents.push(&content);
            all.push(content);
        }
        assert_eq!(contents.iter().collect::<Vec<_>>(), all);
        let cut = Contents { files: contents.files[..contents.files.len() - 1].to_vec(), ..contents };
        assert_eq!(cut.iter().count(), 2);
        let sum = |files: &[(u32, &str, u64, u64)]| {
            let mut sum = ContentSum::default();
            for (input, path, size, checksum) in files {
                sum.add(*input, path, *size, *checksum);
            }
            sum
        };
        let (one, other) = ((0, "/a", 1, 2), (0, "/b", 3, 4));
        assert_eq!(sum(&[one, other]), sum(&[other, one]));
        for changed in [(1, "/a", 1, 2), (0, "/c", 1, 2), (0, "/a", 2, 2), (0, "/a", 1, 3)] {
            assert_ne!(sum(&[changed, other]), sum(&[one, other]), "{changed:?}");
        }
        assert_ne!(sum(&[one, one]), sum(&[other, other]));
    }
}
