//! Plain text of a tabular file, which is UTF-8: itself, or its decompressed or decoded copy in the scratch folder.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use prs_common::dataset::mltable::Encoding;
use prs_common::file_version::SeenFile;
use prs_common::storage::DiskError;

use super::PlanError;
use super::encoding::Utf8Reader;

/// A file that can be read at any offset.
#[derive(Debug)]
pub(super) struct PlainText {
    /// Where the plain text is.
    pub(super) path: PathBuf,
    /// The same for a descriptor: relative to the work folder where it is a copy, so that a run can be moved.
    pub(super) name: PathBuf,
    /// Version of the original file, from before it was read.
    pub(super) version: String,
    /// Where and why decompression ended too early.
    pub(super) broken: Option<(u64, String)>,
}

/// Where a plain copy goes.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    /// The work folder.
    pub(super) work: &'a Path,
    /// A path below it.
    pub(super) name: String,
}

/// Why a file has no plain text.
#[derive(Debug)]
pub(super) enum PlainTextError {
    /// The input cannot be read.
    Input(io::Error),
    /// The scratch folder cannot be written.
    Scratch(PlanError),
}

/// Opens `origin`; a compressed file, or one of another encoding, is decompressed and decoded into `scratch`, until `stop`. One that changes meanwhile is an error: a
/// copy holds what the file held at one moment.
pub(super) fn open(
    origin: &Path,
    encoding: Encoding,
    scratch: &Scratch<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<PlainText, PlainTextError> {
    let mut file = File::open(origin).map_err(PlainTextError::Input)?;
    let meta = file.metadata().map_err(PlainTextError::Input)?;
    if meta.is_dir() {
        return Err(PlainTextError::Input(io::ErrorKind::IsADirectory.into()));
    }
    let before = SeenFile::of(&meta);
    let version = before.version.to_string();
    let mut begin = Vec::with_capacity(4);
    Read::by_ref(&mut file).take(4).read_to_end(&mut begin).map_err(PlainTextError::Input)?;
    let decompressed = decoder(begin.clone(), &file).map_err(PlainTextError::Input)?;
    let is_compressed = decompressed.is_some();
    let mut decoder = match decompressed {
        None if encoding.is_utf8() => {
            return Ok(PlainText { path: origin.to_owned(), name: origin.to_owned(), version, broken: None });
        }
        Some(decoder) if encoding.is_utf8() => decoder,
        Some(decoder) => Box::new(Utf8Reader::new(decoder, encoding)),
        None => Box::new(Utf8Reader::new(io::Cursor::new(begin).chain(&file), encoding)),
    };
    let path = scratch.work.join(&scratch.name);
    let broken = decompress(&mut *decoder, is_compressed, &path, stop).map_err(|source| {
        PlainTextError::Scratch(PlanError::Scratch(DiskError { path: path.clone(), source }))
    })?;
    let after = file.metadata().map_err(PlainTextError::Input)?;
    if let Some(change) = before.difference(&SeenFile::of(&after), origin) {
        let told = format!("it changed while it was decompressed: {change}");
        return Err(PlainTextError::Input(io::Error::other(told)));
    }
    Ok(PlainText { path, name: scratch.name.clone().into(), version, broken })
}

/// What decompresses `file`, of which `begin` was read; nothing where that is not how a compressed file begins. All members
/// of a gzip file and all frames of a Zstandard one count; a frame that asks for a window of more than 128 MiB is damage.
fn decoder<'a>(begin: Vec<u8>, file: &'a File) -> io::Result<Option<Box<dyn Read + 'a>>> {
    let is_gzip = begin.starts_with(&[0x1f, 0x8b]);
    // A frame, or one with data of the compressor's own, to be skipped.
    let is_zstd = matches!(begin[..], [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
    let whole = io::Cursor::new(begin).chain(file);
    Ok(if is_gzip {
        Some(Box::new(MultiGzDecoder::new(whole)))
    } else if is_zstd {
        Some(Box::new(zstd::Decoder::new(whole)?))
    } else {
        None
    })
}

/// Copies until the end or the first damage; an error is one of the scratch folder.
fn decompress(
    decoder: &mut dyn Read,
    is_compressed: bool,
    scratch: &Path,
    stop: &dyn Fn() -> bool,
) -> io::Result<Option<(u64, String)>> {
    if let Some(folder) = scratch.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut target = BufWriter::with_capacity(1 << 20, File::create(scratch)?);
    let mut block = vec![0; 256 << 10];
    let mut written = 0;
    let broken = loop {
        match decoder.read(&mut block) {
            Ok(0) => break None,
            Ok(_) if stop() => break None,
            Ok(count) => {
                target.write_all(&block[..count])?;
                written += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_compressed => {
                break Some((written, format!("the compressed data is damaged: {error}")));
            }
            Err(error) => break Some((written, error.to_string())),
        }
    };
    target.flush()?;
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn parts_are_joined_and_damage_is_located() {
        let zstd = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
        let to_skip = [&[0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3], &zstd(b"a,b\n1,2\n")[..]].concat();
        for [first, second] in [
            [gzip(b"a,b\n1,2\n"), gzip(b"3,4\n")],
            [zstd(b"a,b\n1,2\n"), zstd(b"3,4\n")],
            [to_skip, zstd(b"3,4\n")],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let origin = folder.path().join("a.csv.compressed");
            let scratch = Scratch { work: folder.path(), name: "scratch/a".to_owned() };
            let bytes = [first, second].concat();
            std::fs::write(&origin, &bytes).unwrap();
            let plain = open(&origin, Encoding::Utf8, &scratch, &|| false).unwrap();
            assert!(plain.broken.is_none(), "{plain:?}");
            assert_eq!(plain.name, Path::new("scratch/a"));
            assert_eq!(std::fs::read(&plain.path).unwrap(), b"a,b\n1,2\n3,4\n");

            for (damaged, whole) in
                [(bytes[..bytes.len() - 9].to_vec(), 8), ([&bytes[..], b"xyz"].concat(), 12)]
            {
                std::fs::write(&origin, damaged).unwrap();
                let plain = open(&origin, Encoding::Utf8, &scratch, &|| false).unwrap();
                let (offset, reason) = plain.broken.unwrap();
                assert!(offset >= whole, "what is before the damage is there: {offset}");
                assert!(reason.starts_with("the compressed data is damaged"), "{reason}");
            }
        }
    }

    #[test]
    fn a_file_that_changes_while_it_is_decompressed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("a.csv.gz");
        std::fs::write(&origin, gzip(&b"a,b\n1,2\n".repeat(200_000))).unwrap();
        let scratch = Scratch { work: folder.path(), name: "a".to_owned() };
        // Looked at between two blocks.
        let grow = || {
            let mut file = File::options().append(true).open(&origin).unwrap();
            file.write_all(b"x").unwrap();
            false
        };
        let error = open(&origin, Encoding::Utf8, &scratch, &grow).unwrap_err();
        let PlainTextError::Input(error) = error else { panic!("{error:?}") };
        assert!(error.to_string().starts_with("it changed while it was decompressed: it had "), "{error}");
    }

    #[test]
    fn a_plain_file_is_its_own_text() {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("a.csv");
        std::fs::write(&origin, b"x").unwrap();
        let scratch = Scratch { work: folder.path(), name: "s".to_owned() };
        assert_eq!(open(&origin, Encoding::Utf8, &scratch, &|| false).unwrap().path, origin);
        assert!(matches!(
            open(folder.path(), Encoding::Utf8, &scratch, &|| false),
            Err(PlainTextError::Input(_))
        ));
    }
}
