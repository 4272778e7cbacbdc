//! Archives as people and programs send them: tar.gz as `tar` writes it, and zip. Nothing of one gets outside of its folder, and no
//! more into it than there may be; links, devices and names that lead elsewhere are refused with their name.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use prs_common::{code, tree};

use flate2::read::GzDecoder;
use tar::EntryType;

/// Bytes that an archive may hold, as code may.
pub const LARGEST: u64 = code::LARGEST;
/// Files and folders that it may hold.
pub const MOST: usize = code::MOST_FILES;
/// Bytes that are written at a time.
const PIECE: usize = 64 << 10;

/// Why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is neither.
    #[error("this is neither a tar.gz nor a zip archive: make one with tar czf code.tar.gz -C FOLDER .")]
    Unknown,
    /// It cannot be read.
    #[error("the archive cannot be read: {0}")]
    Damaged(String),
    /// An entry of it.
    #[error("the archive holds {name}, which {why}: leave it out")]
    Refused {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It holds too much.
    #[error("the archive holds more than {} MiB or {MOST} files: send less", LARGEST >> 20)]
    TooLarge,
    /// This machine fails.
    #[error("the archive cannot be unpacked: {0}")]
    Disk(io::Error),
}

/// Whether a file of this name is an archive to be unpacked.
pub fn is_archive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".tar.gz", ".tgz", ".zip"].iter().any(|end| name.ends_with(end))
}

/// Unpacks `archive` into `folder`, which is there.
pub fn unpack(archive: &Path, folder: &Path) -> Result<(), UnpackError> {
    let mut file = File::open(archive).map_err(UnpackError::Disk)?;
    let mut magic = [0; 4];
    let length = file.read(&mut magic).map_err(UnpackError::Disk)?;
    file.seek(SeekFrom::Start(0)).map_err(UnpackError::Disk)?;
    match &magic[..length] {
        [0x1f, 0x8b, ..] => {
            // It is read twice, for a list of what is in it stands nowhere.
            untar(&file, &mut Room::new(folder, false))?;
            file.seek(SeekFrom::Start(0)).map_err(UnpackError::Disk)?;
            untar(&file, &mut Room::new(folder, true))
        }
        [b'P', b'K', 3, 4] | [b'P', b'K', 5, 6] => unzip(file, &mut Room::new(folder, true)),
        _ => Err(UnpackError::Unknown),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it stands behind map_err")]
fn damaged(error: impl ToString) -> UnpackError {
    UnpackError::Damaged(error.to_string())
}

fn untar(file: &File, room: &mut Room<'_>) -> Result<(), UnpackError> {
    // Names and gaps count, too: a tar of very many empty entries swells as well.
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(2 * LARGEST));
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mode = entry.header().mode().unwrap_or(0o644);
        match entry.header().entry_type() {
            EntryType::XGlobalHeader => {}
            EntryType::Directory => drop(room.folder_of(&name)?),
            EntryType::Regular | EntryType::Continuous => room.write(&name, mode, &mut entry)?,
            EntryType::Symlink | EntryType::Link => {
                return Err(UnpackError::Refused { name, why: "is a link" });
            }
            _ => return Err(UnpackError::Refused { name, why: "is no file" }),
        }
    }
    Ok(())
}

fn unzip(file: File, room: &mut Room<'_>) -> Result<(), UnpackError> {
    let mut archive = zip::ZipArchive::new(file).map_err(damaged)?;
    let declared = archive.decompressed_size().unwrap_or_default();
    if archive.len() > MOST || declared > u128::from(LARGEST) {
        return Err(UnpackError::TooLarge);
    }
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?.into_owned();
        let mode = entry.unix_mode().unwrap_or(0o644);
        if entry.is_dir() {
            room.folder_of(&name)?;
        } else if entry.is_symlink() {
            return Err(UnpackError::Refused { name, why: "is a link" });
        } else {
            room.write(&name, mode, &mut entry)?;
        }
    }
    Ok(())
}

/// Where what is called `name` goes in `folder`; nothing where that leads out of it, or no file can have the name.
pub(super) fn place_in(folder: &Path, name: &str) -> Option<PathBuf> {
    if name.contains(['\\', '\0']) {
        return None;
    }
    let mut place = folder.to_owned();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => place.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(place)
}

/// Where an archive is unpacked to, and how much more fits.
struct Room<'a> {
    folder: &'a Path,
    /// Whether anything is written; else it is only looked whether all of it would fit.
    writes: bool,
    bytes: u64,
    entries: usize,
    piece: Vec<u8>,
}

impl<'a> Room<'a> {
    fn new(folder: &'a Path, writes: bool) -> Self {
        Self { folder, writes, bytes: LARGEST, entries: MOST, piece: vec![0; PIECE] }
    }

    /// Where an entry goes; its parts are plain names, however it is written.
    fn place(&mut self, name: &str) -> Result<PathBuf, UnpackError> {
        self.entries = self.entries.checked_sub(1).ok_or(UnpackError::TooLarge)?;
        place_in(self.folder, name).ok_or_else(|| UnpackError::Refused {
            name: name.to_owned(),
            why: "has a name that leads out of its folder, or that no file can have",
        })
    }

    fn folder_of(&mut self, name: &str) -> Result<PathBuf, UnpackError> {
        let place = self.place(name)?;
        if self.writes {
            tree::make_folders(&place).map_err(UnpackError::Disk)?;
        }
        Ok(place)
    }

    fn write(&mut self, name: &str, mode: u32, from: &mut impl Read) -> Result<(), UnpackError> {
        let place = self.place(name)?;
        if place == self.folder {
            return Err(UnpackError::Refused { name: name.to_owned(), why: "has no name" });
        }
        let mut file = if self.writes {
            if let Some(parent) = place.parent() {
                tree::make_folders(parent).map_err(UnpackError::Disk)?;
            }
            Some(tree::create(&place).map_err(UnpackError::Disk)?)
        } else {
            None
        };
        loop {
            let count = from.read(&mut self.piece).map_err(damaged)?;
            if count == 0 {
                break;
            }
            self.bytes = self.bytes.checked_sub(count as u64).ok_or(UnpackError::TooLarge)?;
            if let Some(file) = &mut file {
                io::Write::write_all(file, &self.piece[..count]).map_err(UnpackError::Disk)?;
            }
        }
        let Some(file) = file else { return Ok(()) };
        // The owner can read it whatever the archive says, and nobody gets a right beyond that.
        let mode = (mode & 0o755) | 0o600;
        file.set_permissions(fs::Permissions::from_mode(mode)).map_err(UnpackError::Disk)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn tar_gz(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, kind, body) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_size(body.len() as u64);
            header.set_mode(0o644);
            // As an attacker would write it.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, *body).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for (name, body) in entries {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(body).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn unpacked(body: &[u8]) -> (tempfile::TempDir, Result<(), UnpackError>) {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        fs::create_dir(&into).unwrap();
        fs::write(folder.path().join("archive"), body).unwrap();
        let done = unpack(&folder.path().join("archive"), &into);
        (folder, done)
    }

    #[test]
    fn archives_as_programs_make_them_come_out() {
        let file = EntryType::Regular;
        let tar = tar_gz(&[
            ("./", EntryType::Directory, b""),
            ("./pkg/", EntryType::Directory, b""),
            ("./pkg/a.py", file, b"a"),
            ("b.py", file, b"b"),
        ]);
        for body in [tar, zip(&[("pkg/a.py", b"a"), ("b.py", b"b")])] {
            let (folder, done) = unpacked(&body);
            done.unwrap();
            assert_eq!(fs::read(folder.path().join("into/pkg/a.py")).unwrap(), b"a");
            assert_eq!(fs::read(folder.path().join("into/b.py")).unwrap(), b"b");
        }
    }

    #[test]
    fn what_would_leave_the_folder_is_refused() {
        let file = EntryType::Regular;
        let archives = [
            tar_gz(&[("../evil.py", file, b"x")]),
            tar_gz(&[("/tmp/evil.py", file, b"x")]),
            tar_gz(&[("a/../../evil.py", file, b"x")]),
            tar_gz(&[("a\\..\\evil.py", file, b"x")]),
            tar_gz(&[("link", EntryType::Symlink, b"")]),
            tar_gz(&[("hard", EntryType::Link, b"")]),
            tar_gz(&[("pipe", EntryType::Fifo, b"")]),
            zip(&[("../evil.py", b"x")]),
            zip(&[("/tmp/evil.py", b"x")]),
            zip(&[("a\\..\\..\\evil.py", b"x")]),
        ];
        for (at, body) in archives.iter().enumerate() {
            let (folder, done) = unpacked(body);
            let error = done.unwrap_err();
            assert!(matches!(error, UnpackError::Refused { .. }), "{at}: {error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{at}");
        }
        assert!(matches!(unpacked(b"hello").1.unwrap_err(), UnpackError::Unknown));
        assert!(matches!(unpacked(b"").1.unwrap_err(), UnpackError::Unknown));
        let cut = tar_gz(&[("a", file, &[b'x'; 5000])]);
        assert!(matches!(unpacked(&cut[..cut.len() / 2]).1.unwrap_err(), UnpackError::Damaged(_)));
    }

    #[test]
    fn what_swells_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut room = Room { bytes: 10, entries: 3, ..Room::new(folder.path(), true) };
        room.write("a", 0o644, &mut &b"12345"[..]).unwrap();
        assert!(matches!(room.write("b", 0o644, &mut &b"123456"[..]), Err(UnpackError::TooLarge)));
        room.folder_of("c").unwrap();
        assert!(matches!(room.folder_of("d"), Err(UnpackError::TooLarge)));
        // Before anything is written.
        let empty = EntryType::Regular;
        let names: Vec<String> = (0..=MOST).map(|number| number.to_string()).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), empty, &b""[..])).collect();
        let late = [("a", empty, &b"a"[..]), ("b", EntryType::Fifo, b"")];
        for (archive, count) in [(tar_gz(&many), 0), (tar_gz(&late), 0)] {
            let (folder, done) = unpacked(&archive);
            assert!(matches!(done, Err(UnpackError::TooLarge | UnpackError::Refused { .. })));
            assert_eq!(fs::read_dir(folder.path().join("into")).unwrap().count(), count);
        }
    }
}
