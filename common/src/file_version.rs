//! What tells one content of a file from another without reading it.
//!
//! A [`FileVersion`], size and time of change, is the same on every host that has the file under the same path, or a
//! copy that kept its time; so it stands in descriptors, and the reader of the file compares. Which file it is
//! (device and inode) means something on one host only, and there it also finds a file that was replaced by another
//! of the same size and time. Deliberately absent: the time of change of the inode, which moves when a file is
//! linked or its permissions change; [`FileContent`](crate::file_content::FileContent) has it.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;

use crate::timestamp::{format_us, now_us};

/// The coarsest clock of a file system, seconds: of a file that was changed so shortly before it was looked at, a change
/// afterwards need not show.
const COARSE: i64 = 2;

/// Another change of a file that was changed then or later, seconds since the Unix epoch, need not show.
pub fn certain_before() -> i64 {
    let now = i64::try_from(now_us() / 1_000_000).unwrap_or(i64::MAX);
    now.saturating_sub(COARSE)
}

/// Size and time of change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Bytes.
    pub size: u64,
    /// Time of change: whole seconds since the Unix epoch, rounded down.
    pub seconds: i64,
    /// The rest of it, below 10^9.
    pub nanoseconds: u32,
}

/// A file as it was seen on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeenFile {
    /// Size and time of change.
    pub version: FileVersion,
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl FileVersion {
    /// Stands for a file that could not be looked at; no file has it.
    pub const UNSEEN: Self = Self { size: 0, seconds: 0, nanoseconds: u32::MAX };

    /// As the system tells it.
    pub fn of(metadata: &Metadata) -> Self {
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or_default();
        Self { size: metadata.size(), seconds: metadata.mtime(), nanoseconds }
    }

    /// In words, what is different `now`; nothing where nothing is.
    pub fn difference(&self, now: &Self) -> Option<String> {
        if *self == Self::UNSEEN {
            return Some("it was not there then, or could not be looked at".to_owned());
        }
        if self.size != now.size {
            return Some(format!("it had {} bytes and has {} now", self.size, now.size));
        }
        (self != now).then(|| format!("it was last written at {} and again at {}", self.time(), now.time()))
    }

    fn time(&self) -> String {
        let Self { seconds, nanoseconds, .. } = *self;
        match u64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000)) {
            Some(us) => format!("{}.{nanoseconds:09}Z", format_us(us).trim_end_matches(".000000Z")),
            None => format!("{seconds}.{nanoseconds:09} s"),
        }
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.{:09}", self.size, self.seconds, self.nanoseconds)
    }
}

/// A text that is no version of a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the version of a file")]
pub struct NotAFileVersion(String);

impl FromStr for FileVersion {
    type Err = NotAFileVersion;

    fn from_str(text: &str) -> Result<Self, NotAFileVersion> {
        let parts = || {
            let (size, time) = text.split_once('-')?;
            let (seconds, nanoseconds) = time.split_once('.')?;
            Some(Self {
                size: size.parse().ok()?,
                seconds: seconds.parse().ok()?,
                nanoseconds: nanoseconds.parse().ok()?,
            })
        };
        parts().ok_or_else(|| NotAFileVersion(text.to_owned()))
    }
}

impl SeenFile {
    /// As the system tells it.
    pub fn of(metadata: &Metadata) -> Self {
        Self { version: FileVersion::of(metadata), device: metadata.dev(), inode: metadata.ino() }
    }

    /// The file that `path` names now, links followed.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// Whether both are one file, whatever became of its content.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// In words, what is different `now` of the file at `path`; nothing where nothing is.
    pub fn difference(&self, now: &Self, path: &Path) -> Option<String> {
        let is_replaced = || !self.is_same_file(now) && numbers_last(path);
        let replaced = || is_replaced().then(|| "another file has its name now".to_owned());
        self.version.difference(&now.version).or_else(replaced)
    }
}

/// Whether the file system at `path` gives a file one number as long as it lives. Those in user space and those of SMB
/// may number a file anew once no program holds it.
pub fn numbers_last(path: &Path) -> bool {
    const NUMBERED_ANEW: [u64; 4] = [0x6573_5546, 0x517b, 0xff53_4d42, 0xfe53_4d42];
    let kind = rustix::fs::statfs(path).map(|system| system.f_type as u64 & u64::from(u32::MAX));
    kind.is_ok_and(|kind| !NUMBERED_ANEW.contains(&kind))
}

/// The versions of the files of a mini-batch, one after the other: about nine bytes each, since the times of
/// neighbours are near each other.
#[derive(Debug, Clone, Default)]
pub struct PackedVersions {
    bytes: Vec<u8>,
    seconds: i64,
}

impl PackedVersions {
    /// Appends a version.
    pub fn push(&mut self, version: &FileVersion) {
        put_number(&mut self.bytes, version.size);
        put_distance(&mut self.bytes, self.seconds, version.seconds);
        self.seconds = version.seconds;
        self.bytes.extend_from_slice(&version.nanoseconds.to_le_bytes());
    }

    /// What [`unpack`] reads.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.seconds = 0;
    }
}

impl FromIterator<FileVersion> for PackedVersions {
    fn from_iter<I: IntoIterator<Item = FileVersion>>(versions: I) -> Self {
        let mut packed = Self::default();
        versions.into_iter().for_each(|version| packed.push(&version));
        packed
    }
}

/// Reads what [`PackedVersions`] wrote; ends where nothing more can be read.
pub fn unpack(bytes: &[u8]) -> impl Iterator<Item = FileVersion> {
    let (mut rest, mut seconds) = (bytes, 0_i64);
    std::iter::from_fn(move || {
        let size = take_number(&mut rest)?;
        seconds = take_distance(&mut rest, seconds)?;
        let (nanoseconds, after) = rest.split_first_chunk()?;
        rest = after;
        Some(FileVersion { size, seconds, nanoseconds: u32::from_le_bytes(*nanoseconds) })
    })
}

/// Appends a number: seven bits a byte, the lowest first; the highest bit says that more follow.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a number by its distance from the one before it: a small one is short, whether ahead or back.
pub(crate) fn put_distance(bytes: &mut Vec<u8>, before: i64, number: i64) {
    let moved = number.wrapping_sub(before);
    put_number(bytes, ((moved << 1) ^ (moved >> 63)) as u64);
}

/// Takes what [`put_distance`] appended off the front.
pub(crate) fn take_distance(rest: &mut &[u8], before: i64) -> Option<i64> {
    let moved = take_number(rest)?;
    Some(before.wrapping_add((moved >> 1) as i64 ^ -((moved & 1) as i64)))
}

/// Takes what [`put_number`] appended off the front.
pub(crate) fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(size: u64, seconds: i64, nanoseconds: u32) -> FileVersion {
        FileVersion { size, seconds, nanoseconds }
    }

    #[test]
    fn a_difference_is_told_in_words() {
        let before = version(10, 1_000_000_000, 5);
        assert_eq!(before.difference(&before), None);
        assert!(FileVersion::UNSEEN.difference(&version(0, 0, 0)).unwrap().contains("not there"));
        let told = before.difference(&version(12, 7, 5)).unwrap();
        assert_eq!(told, "it had 10 bytes and has 12 now");
        let told = before.difference(&version(10, 1_000_000_000, 6)).unwrap();
        assert_eq!(
            told,
            "it was last written at 2001-09-09T01:46:40.000000005Z and again at 2001-09-09T01:46:40.000000006Z"
        );
        assert!(before.difference(&version(10, -1, 0)).unwrap().ends_with("-1.000000000 s"));
        let seen = SeenFile { version: before, device: 1, inode: 2 };
        let root = Path::new("/");
        assert_eq!(seen.difference(&seen, root), None);
        let other = SeenFile { inode: 3, ..seen };
        assert_eq!(seen.difference(&other, root).as_deref(), Some("another file has its name now"));
    }

    #[test]
    fn a_file_is_seen_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "four").unwrap();
        let seen = SeenFile::at(&path).unwrap();
        assert_eq!(seen.version.size, 4);
        std::fs::rename(&path, folder.path().join("b")).unwrap();
        assert_eq!(SeenFile::at(&folder.path().join("b")).unwrap(), seen);
        std::fs::write(&path, "four").unwrap();
        assert!(!SeenFile::at(&path).unwrap().is_same_file(&seen));
        for text in ["", "v", "1-2", "1.2", "-1-2.3", "1-2.3.4"] {
            assert_eq!(text.parse::<FileVersion>(), Err(NotAFileVersion(text.to_owned())));
        }
    }

    #[test]
    fn neighbours_take_little_room() {
        let files = (0..1_000).map(|at| version(100_000 + at, 1_700_000_000 + at as i64, 999_999_999));
        let packed: PackedVersions = files.collect();
        assert!(packed.as_bytes().len() < 9_000, "{}", packed.as_bytes().len());
        assert_eq!(unpack(&packed.as_bytes()[..4]).count(), 0);
        assert_eq!(unpack(&[0xff; 30]).count(), 0);
    }

    proptest! {
        #[test]
        fn versions_survive_being_packed_and_written(
            versions in prop::collection::vec((any::<u64>(), any::<i64>(), 0u32..1_000_000_000), 0..20),
        ) {
            let versions: Vec<_> = versions.into_iter().map(|(size, s, ns)| version(size, s, ns)).collect();
            let packed: PackedVersions = versions.iter().copied().collect();
            prop_assert_eq!(unpack(packed.as_bytes()).collect::<Vec<_>>(), versions.clone());
            for version in versions {
                prop_assert_eq!(version.to_string().parse(), Ok(version));
            }
        }
    }
}
