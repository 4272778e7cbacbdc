//! The user's code on its way to the nodes: a content-addressed archive of `source_directory`.
//!
//! The same files give the same archive, at any time and on any host; [`CodeFiles`] says which files that are. Unpacking
//! refuses everything that could leave its folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use super::error::{CodeError, LARGEST, MOST_FILES};
use super::files::{CodeFile, CodeFiles};
use crate::hexadecimal;
use crate::tree;

/// Largest archive before it is compressed: names and gaps of very many small files count too.
const LARGEST_TAR: u64 = 2 * LARGEST;
/// Room for the two empty blocks that end an archive, and for one byte that shows that there is more, bytes.
const SLACK: u64 = 1025;
/// Bytes decompressed at a time.
const READ_BUFFER: usize = 256 << 10;
/// Bytes of a block of an archive.
const BLOCK: u64 = 512;

/// A packed folder.
#[derive(Debug)]
pub struct CodeArchive {
    /// Checksum of the content, in hexadecimal.
    pub checksum: String,
    /// The archive: tar, gzip.
    pub body: Vec<u8>,
    /// What is in it, and what stayed behind.
    pub files: CodeFiles,
}

/// Packs the code in `folder`.
pub fn pack(folder: &Path) -> Result<CodeArchive, CodeError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| CodeError::Io { path, source }
    };
    let files = CodeFiles::find(folder)?;
    // Nothing of it is read before.
    if files.size() > LARGEST || size_of_tar(&files) > LARGEST_TAR {
        return Err(files.too_large(folder));
    }
    let mut builder = Builder::new(Vec::new());
    for CodeFile { path: name, .. } in &files.files {
        let path = folder.join(name);
        let file = File::open(&path).map_err(at(&path))?;
        let meta = file.metadata().map_err(at(&path))?;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(meta.len());
        header.set_mode(if meta.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 });
        header.set_mtime(0);
        builder.append_data(&mut header, name, file.take(meta.len())).map_err(at(&path))?;
        if builder.get_ref().len() as u64 > LARGEST_TAR {
            return Err(files.too_large(folder));
        }
    }
    let tar = builder.into_inner().map_err(at(folder))?;
    let checksum = hexadecimal(&Sha256::digest(&tar));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let body =
        io::copy(&mut tar.as_slice(), &mut encoder).and_then(|_| encoder.finish()).map_err(at(folder))?;
    Ok(CodeArchive { checksum, body, files })
}

/// The size of an archive of `files`, bytes: a block for each name, and whole blocks for what is in it.
fn size_of_tar(files: &CodeFiles) -> u64 {
    files.files.iter().map(|file| BLOCK + file.size.next_multiple_of(BLOCK)).sum()
}

/// Whether `body` is the archive that [`pack`] gave this checksum. Damage anywhere in it is found, whatever becomes of
/// the decompressed bytes.
pub fn is_intact(body: &[u8], checksum: &str) -> bool {
    let mut hasher = Sha256::new();
    // A longer one than any archive of `pack` has another checksum in any case.
    let mut tar = GzDecoder::new(body).take(LARGEST_TAR + SLACK);
    let mut piece = vec![0; READ_BUFFER];
    loop {
        match tar.read(&mut piece) {
            Ok(0) => return hexadecimal(&hasher.finalize()) == checksum,
            Ok(count) => hasher.update(&piece[..count]),
            Err(_) => return false,
        }
    }
}

/// The files of an archive with the checksums of their contents and whether they may be executed: what tells two
/// archives apart, file by file.
pub fn files(body: &[u8]) -> io::Result<BTreeMap<PathBuf, (String, bool)>> {
    let mut archive = Archive::new(GzDecoder::new(body).take(LARGEST_TAR + SLACK));
    let mut files = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let mut hasher = Sha256::new();
        let mut piece = vec![0; READ_BUFFER];
        loop {
            match entry.read(&mut piece)? {
                0 => break,
                count => hasher.update(&piece[..count]),
            }
        }
        let may_execute = entry.header().mode().unwrap_or(0) & 0o111 != 0;
        files.insert(name, (hexadecimal(&hasher.finalize()), may_execute));
    }
    Ok(files)
}

/// The files of an archive with their sizes, in their order.
///
/// # Errors
/// It cannot be read.
pub fn sizes(body: &[u8]) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut archive = Archive::new(GzDecoder::new(body).take(LARGEST_TAR + SLACK));
    let mut files = Vec::new();
    for entry in archive.entries()? {
        let entry = entry?;
        files.push((entry.path()?.into_owned(), entry.size()));
    }
    Ok(files)
}

/// The size of a file of an archive and, where that is no more than `most` bytes, its content; nothing where there is no such file.
///
/// # Errors
/// It cannot be read.
pub fn file(body: &[u8], path: &Path, most: u64) -> io::Result<Option<(u64, Option<Vec<u8>>)>> {
    let mut archive = Archive::new(GzDecoder::new(body).take(LARGEST_TAR + SLACK));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if *entry.path()? != *path {
            continue;
        }
        let size = entry.size();
        if size > most {
            return Ok(Some((size, None)));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        return Ok(Some((size, Some(content))));
    }
    Ok(None)
}

/// Unpacks an archive into `folder`, which is made. It need not be one that [`pack`] made: nothing gets outside of the
/// folder, and no more into it than [`LARGEST`].
pub fn unpack(body: &[u8], folder: &Path) -> Result<(), CodeError> {
    unpack_within(LARGEST, body, folder)
}

fn unpack_within(largest: u64, body: &[u8], folder: &Path) -> Result<(), CodeError> {
    let mut archive = Archive::new(GzDecoder::new(body).take(2 * largest + SLACK));
    let unpacked = unpack_entries(largest, &mut archive, folder);
    // It was cut, wherever that was.
    if archive.into_inner().limit() == 0 { Err(CodeError::Swells) } else { unpacked }
}

fn unpack_entries(largest: u64, archive: &mut Archive<impl Read>, folder: &Path) -> Result<(), CodeError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| CodeError::Io { path, source }
    };
    tree::make_folders(folder).map_err(at(folder))?;
    let mut left = largest;
    for (index, entry) in archive.entries().map_err(at(folder))?.enumerate() {
        if index >= MOST_FILES {
            return Err(CodeError::Swells);
        }
        let mut entry = entry.map_err(at(folder))?;
        let name = entry.path().map_err(at(folder))?.into_owned();
        let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || entry.header().entry_type() != EntryType::Regular {
            return Err(CodeError::Escapes { entry: name.display().to_string() });
        }
        left = left.checked_sub(entry.size()).ok_or(CodeError::Swells)?;
        let target = folder.join(&name);
        if let Some(parent) = target.parent() {
            tree::make_folders(parent).map_err(at(parent))?;
        }
        let mode = entry.header().mode().unwrap_or(0o644);
        let mut file = tree::create(&target).map_err(at(&target))?;
        io::copy(&mut entry, &mut file).map_err(at(&target))?;
        file.set_permissions(fs::Permissions::from_mode(mode & 0o777)).map_err(at(&target))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gunzip(body: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        GzDecoder::new(body).read_to_end(&mut bytes).ok().map(|_| bytes)
    }

    #[test]
    fn the_same_files_give_the_same_archive_and_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let (code, out) = (folder.path().join("code"), folder.path().join("out"));
        fs::create_dir_all(code.join("pkg/__pycache__")).unwrap();
        fs::write(code.join("pkg/main.py"), "x = 1").unwrap();
        fs::write(code.join("pkg/__pycache__/main.pyc"), "no").unwrap();
        fs::write(code.join("run.sh"), "#!").unwrap();
        fs::set_permissions(code.join("run.sh"), fs::Permissions::from_mode(0o700)).unwrap();
        let first = pack(&code).unwrap();
        fs::write(code.join("pkg/main.py"), "x = 1").unwrap();
        assert_eq!(pack(&code).unwrap().checksum, first.checksum);
        unpack(&first.body, &out).unwrap();
        assert_eq!(fs::read_to_string(out.join("pkg/main.py")).unwrap(), "x = 1");
        assert!(is_intact(&first.body, &first.checksum));
        let listed = files(&first.body).unwrap();
        assert_eq!(listed.keys().collect::<Vec<_>>(), [Path::new("pkg/main.py"), Path::new("run.sh")]);
        assert_eq!(listed[Path::new("run.sh")], (hexadecimal(&Sha256::digest("#!")), true));
        assert!(!listed[Path::new("pkg/main.py")].1);
        for bit in [0, 8 * 20 + 3, first.body.len() * 4, first.body.len() * 8 - 1] {
            let mut damaged = first.body.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The header of gzip has bytes that mean nothing: then it is the same archive.
            assert_eq!(
                is_intact(&damaged, &first.checksum),
                gunzip(&damaged) == gunzip(&first.body),
                "{bit}"
            );
        }
        assert!(!is_intact(b"", &first.checksum));
        assert!(!out.join("pkg/__pycache__").exists());
        assert_eq!(fs::metadata(out.join("run.sh")).unwrap().permissions().mode() & 0o777, 0o755);
        fs::write(code.join("pkg/main.py"), "x = 2").unwrap();
        assert_ne!(pack(&code).unwrap().checksum, first.checksum);
    }

    #[test]
    fn what_swells_is_refused_before_it_fills_the_disk() {
        const LARGEST: u64 = 10_000;
        let packed = |files: &[(&str, usize)]| {
            let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
            for (name, size) in files {
                let mut header = Header::new_gnu();
                header.set_size(*size as u64);
                header.set_mode(0o644);
                builder.append_data(&mut header, name, &*vec![0; *size]).unwrap();
            }
            builder.into_inner().unwrap().finish().unwrap()
        };
        let names: Vec<String> = (0..100).map(|number| format!("{number}.py")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), 0)).collect();
        for files in [&[("a", 20_000_000)][..], &[("a", 6_000), ("b", 6_000)], &many] {
            let folder = tempfile::tempdir().unwrap();
            let error = unpack_within(LARGEST, &packed(files), folder.path()).unwrap_err();
            assert!(matches!(error, CodeError::Swells), "{error}");
            let sizes =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
            assert!(sizes.sum::<u64>() <= LARGEST);
        }
        let folder = tempfile::tempdir().unwrap();
        unpack_within(LARGEST, &packed(&[("a", 6_000), ("b", 4_000)]), folder.path()).unwrap();
    }

    #[test]
    fn what_would_leave_the_folder_is_refused() {
        for (name, kind) in [("../evil.py", EntryType::Regular), ("link", EntryType::Symlink)] {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            // The safe setter refuses such a name; write it as an attacker would.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            builder.append(&header, io::empty()).unwrap();
            let body = builder.into_inner().unwrap().finish().unwrap();
            let folder = tempfile::tempdir().unwrap();
            let error = unpack(&body, &folder.path().join("out")).unwrap_err();
            assert!(matches!(error, CodeError::Escapes { .. }), "{error}");
        }
    }
}
