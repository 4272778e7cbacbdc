//! Plain text of a tabular file, which is UTF-8: itself, or its decompressed or decoded copy in the scratch folder.

use std::fs::File;
use std::io::{self, BufWriter, Cursor, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use prs_common::dataset::input::Compression;
use prs_common::dataset::mltable::Encoding;
use prs_common::file_version::SeenFile;
use prs_common::storage::DiskError;
use prs_common::tree;
use zip::ZipArchive;

use super::PlanError;
use super::encoding::{BadText, Utf8Reader};
use super::json_array::ArrayLines;
use super::unpacked::{BEGIN, Packing, only_member};

/// How Parquet begins, and ends.
const PARQUET: &[u8; 4] = b"PAR1";
const IS_PARQUET: &str = "it is Parquet: give format: parquet, or leave format out";
/// So many bytes tell lines of JSON from one array.
const JSON_BEGIN: usize = 1_024;
const INDENTED: &str =
    "it is one JSON object over several lines: write an object a line, or one array of objects";

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

/// How the bytes of a file become plain text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reading {
    /// How its text is encoded. A byte order mark of UTF-16 or UTF-32 says so itself where this is UTF-8.
    pub(super) encoding: Encoding,
    /// How it is compressed.
    pub(super) compression: Compression,
    /// Whether one JSON array stands for its elements, an element a line.
    pub(super) takes_array: bool,
    /// Whether what begins as Parquet does is Parquet, for nothing says what it is.
    pub(super) finds_parquet: bool,
}

/// What a file is.
#[derive(Debug)]
pub(super) enum Opened {
    Text(PlainText),
    /// Parquet, by its first bytes.
    Parquet,
}

/// Opens `origin`; a compressed file, one of another encoding, and one JSON array is copied into `scratch` as plain text, until
/// `stop`. One that changes meanwhile is an error: a copy holds what the file held at one moment.
pub(super) fn open(
    origin: &Path,
    reading: Reading,
    scratch: &Scratch<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Opened, PlainTextError> {
    let mut file = File::open(origin).map_err(PlainTextError::Input)?;
    let meta = file.metadata().map_err(PlainTextError::Input)?;
    if meta.is_dir() {
        return Err(PlainTextError::Input(io::ErrorKind::IsADirectory.into()));
    }
    let before = SeenFile::of(&meta);
    let version = before.version.to_string();
    let begin = first_bytes(&mut file, BEGIN).map_err(PlainTextError::Input)?;
    let mut end = [0; PARQUET.len()];
    let ends_at = before.version.size.saturating_sub(PARQUET.len() as u64);
    if begin.starts_with(PARQUET) && file.read_exact_at(&mut end, ends_at).is_ok() && end == *PARQUET {
        return if reading.finds_parquet { Ok(Opened::Parquet) } else { Err(refused(IS_PARQUET)) };
    }
    let packing = Packing::as_asked(reading.compression, &begin).map_err(|reason| refused(&reason))?;
    let mut archive = match packing {
        Some(Packing::Zip) => {
            Some(ZipArchive::new(&file).map_err(|error| PlainTextError::Input(error.into()))?)
        }
        _ => None,
    };
    let unpacked: Box<dyn Read + '_> = match (&mut archive, packing) {
        (Some(archive), _) => Box::new(only_member(archive).map_err(PlainTextError::Input)?),
        (None, Some(packing)) => packing.reader(begin, &file).map_err(PlainTextError::Input)?,
        (None, None) => Box::new(Cursor::new(begin).chain(&file)),
    };
    let (text, encoding) = with_mark(unpacked, reading.encoding);
    let text: Box<dyn Read + '_> =
        if encoding.is_utf8() { Box::new(text) } else { Box::new(Utf8Reader::new(text, encoding)) };
    let (text, is_array) = if reading.takes_array {
        let (begin, text) = peek(text, JSON_BEGIN);
        let shape = Shape::of(&begin);
        if shape == Shape::Indented {
            return Err(refused(INDENTED));
        }
        (text, shape == Shape::Array)
    } else {
        (text, false)
    };
    if packing.is_none() && encoding.is_utf8() && !is_array {
        return Ok(Opened::Text(PlainText {
            path: origin.to_owned(),
            name: origin.to_owned(),
            version,
            broken: None,
        }));
    }
    let mut text: Box<dyn Read + '_> = if is_array { Box::new(ArrayLines::new(text)) } else { text };
    let path = scratch.work.join(&scratch.name);
    let broken = decompress(&mut *text, packing.is_some(), &path, stop).map_err(|source| {
        PlainTextError::Scratch(PlanError::Scratch(DiskError { path: path.clone(), source }))
    })?;
    let after = file.metadata().map_err(PlainTextError::Input)?;
    if let Some(change) = before.difference(&SeenFile::of(&after), origin) {
        let told = format!("it changed while it was decompressed: {change}");
        return Err(PlainTextError::Input(io::Error::other(told)));
    }
    Ok(Opened::Text(PlainText { path, name: scratch.name.clone().into(), version, broken }))
}

fn refused(reason: &str) -> PlainTextError {
    PlainTextError::Input(io::Error::new(io::ErrorKind::InvalidData, reason))
}

/// Up to `count` bytes of what `reader` has left.
fn first_bytes(reader: &mut dyn Read, count: usize) -> io::Result<Vec<u8>> {
    let mut begin = Vec::with_capacity(count);
    reader.take(count as u64).read_to_end(&mut begin)?;
    Ok(begin)
}

/// The first bytes of `reader`, up to `count`, and what reads all of it. An error behind them comes when they were read.
fn peek<'a>(mut reader: Box<dyn Read + 'a>, count: usize) -> (Vec<u8>, Box<dyn Read + 'a>) {
    let mut begin = Vec::with_capacity(count);
    let failed = Read::by_ref(&mut reader).take(count as u64).read_to_end(&mut begin).err();
    let whole = Cursor::new(begin.clone()).chain(Failed(failed)).chain(reader);
    (begin, Box::new(whole))
}

/// Fails once where there is an error.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// The text, and its encoding: what a byte order mark says, where `encoding` is the one that is taken without a word.
fn with_mark(text: Box<dyn Read + '_>, encoding: Encoding) -> (Box<dyn Read + '_>, Encoding) {
    if encoding != Encoding::Utf8 {
        return (text, encoding);
    }
    let (begin, text) = peek(text, 4);
    let found = match begin[..] {
        [0xff, 0xfe, 0, 0] | [0, 0, 0xfe, 0xff] => Encoding::Utf32,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Encoding::Utf16,
        _ => encoding,
    };
    (text, found)
}

/// What a text of JSON begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Lines,
    /// One array.
    Array,
    /// An object that its first line does not hold.
    Indented,
}

impl Shape {
    fn of(begin: &[u8]) -> Self {
        let text = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin).trim_ascii_start();
        match text {
            [b'[', ..] => Self::Array,
            [b'{', rest @ ..] => {
                let line = rest.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or(rest);
                let is_line = line.len() < rest.len();
                if is_line && line.trim_ascii().is_empty() { Self::Indented } else { Self::Lines }
            }
            _ => Self::Lines,
        }
    }
}

/// Copies until the end or the first damage; an error is one of the scratch folder.
fn decompress(
    decoder: &mut dyn Read,
    is_compressed: bool,
    scratch: &Path,
    stop: &dyn Fn() -> bool,
) -> io::Result<Option<(u64, String)>> {
    if let Some(folder) = scratch.parent() {
        tree::make_folders(folder)?;
    }
    let mut target = BufWriter::with_capacity(1 << 20, tree::create(scratch)?);
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
            Err(error) if is_compressed && !BadText::is(&error) => {
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

    fn text(
        origin: &Path,
        scratch: &Scratch<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<PlainText, PlainTextError> {
        match open(origin, Reading { takes_array: true, ..Reading::default() }, scratch, stop)? {
            Opened::Text(text) => Ok(text),
            Opened::Parquet => panic!("it is Parquet"),
        }
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
            let plain = text(&origin, &scratch, &|| false).unwrap();
            assert!(plain.broken.is_none(), "{plain:?}");
            assert_eq!(plain.name, Path::new("scratch/a"));
            assert_eq!(std::fs::read(&plain.path).unwrap(), b"a,b\n1,2\n3,4\n");

            for (damaged, whole) in
                [(bytes[..bytes.len() - 9].to_vec(), 8), ([&bytes[..], b"xyz"].concat(), 12)]
            {
                std::fs::write(&origin, damaged).unwrap();
                let plain = text(&origin, &scratch, &|| false).unwrap();
                let (offset, reason) = plain.broken.unwrap();
                assert!(offset >= whole, "what is before the damage is there: {offset}");
                assert!(reason.starts_with("the compressed data is damaged"), "{reason}");
            }
        }
    }

    fn packed(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packed").join(name)
    }

    fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    #[test]
    fn what_is_packed_or_encoded_is_known_by_its_first_bytes() {
        let (csv, rows) = ("a,b\n1,\u{e4}\n", "{\"a\": 1}\n{\"a\": 2}\n");
        let bzip2 = |text: &[u8]| {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let utf16: Vec<u8> = csv.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let utf16 = [&[0xfe, 0xff], &*utf16].concat();
        let utf32: Vec<u8> = csv.chars().flat_map(|one| (one as u32).to_le_bytes()).collect();
        let array = b"\xef\xbb\xbf [{\"a\": 1},{\"a\": 2}]".to_vec();
        let marked = [b"\xef\xbb\xbf", csv.as_bytes()].concat();
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("file");
        let scratch = Scratch { work: folder.path(), name: "scratch/a".to_owned() };
        for (bytes, expected) in [
            ([gzip(csv.as_bytes()), vec![0; 700_000]].concat(), csv),
            ([bzip2(b"a,b\n"), bzip2("1,\u{e4}\n".as_bytes())].concat(), csv),
            (bzip2(b""), ""),
            (std::fs::read(packed("rows.csv.xz")).unwrap(), csv),
            (zip_of(&[("__MACOSX/._a.csv", b"x"), ("in/a.csv", csv.as_bytes())]), csv),
            (utf16.clone(), csv),
            (gzip(&utf16), csv),
            ([&[0xff, 0xfe, 0, 0], &*utf32].concat(), csv),
            (array.clone(), rows),
            (gzip(&array), rows),
            (zip_of(&[("a.json", &array)]), rows),
            (marked.clone(), std::str::from_utf8(&marked).unwrap()),
            (b"BZh9,b\n1,2\n".to_vec(), "BZh9,b\n1,2\n"),
            (b"PAR1,b\n1,2\n".to_vec(), "PAR1,b\n1,2\n"),
        ] {
            std::fs::write(&origin, &bytes).unwrap();
            let plain = text(&origin, &scratch, &|| false).unwrap();
            assert!(plain.broken.is_none(), "{plain:?}");
            assert_eq!(std::fs::read_to_string(&plain.path).unwrap(), expected);
        }
        // A text that is wrong is no damage of what it came in.
        std::fs::write(&origin, gzip(b"[{},]")).unwrap();
        let (_, reason) = text(&origin, &scratch, &|| false).unwrap().broken.unwrap();
        assert_eq!(reason, "bad JSON: it is no array at byte 4");
        // What is behind the zeros may be a file that something else wrote.
        std::fs::write(&origin, [gzip(b"a\n"), vec![0; 3], b"x".to_vec()].concat()).unwrap();
        let (offset, reason) = text(&origin, &scratch, &|| false).unwrap().broken.unwrap();
        assert!(offset == 2 && reason.ends_with("there is data behind zeros"), "{reason}");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("file");
        let scratch = Scratch { work: folder.path(), name: "scratch/a".to_owned() };
        let object = b"{\r\n \"a\": 1\n}".to_vec();
        for (bytes, says) in [
            (zip_of(&[("a.csv", b"a\n"), ("b.csv", b"a\n")]), "the zip file has 2 files: unpack it"),
            (zip_of(&[]), "the zip file has 0 files"),
            (object.clone(), "it is one JSON object over several lines: write an object a line"),
            (gzip(&object), "it is one JSON object over several lines"),
            (b"PAR1....PAR1".to_vec(), "it is Parquet: give format: parquet"),
        ] {
            std::fs::write(&origin, bytes).unwrap();
            let Err(PlainTextError::Input(error)) = text(&origin, &scratch, &|| false) else {
                panic!("{says}")
            };
            assert!(error.to_string().contains(says), "{error}");
        }
        // As the job file says, whatever the first bytes do.
        std::fs::write(&origin, gzip(b"a\n")).unwrap();
        let as_said =
            |compression| open(&origin, Reading { compression, ..Reading::default() }, &scratch, &|| false);
        let Ok(Opened::Text(plain)) = as_said(Compression::None) else { panic!("it is text") };
        assert_eq!(plain.path, origin);
        assert!(as_said(Compression::Gzip).is_ok());
        let Err(PlainTextError::Input(error)) = as_said(Compression::Xz) else { panic!("it is no xz") };
        assert_eq!(error.to_string(), "it is not compressed by xz, as compression says: it looks like gzip");
        std::fs::write(&origin, b"PAR1....PAR1").unwrap();
        let reading = Reading { finds_parquet: true, ..Reading::default() };
        assert!(matches!(open(&origin, reading, &scratch, &|| false), Ok(Opened::Parquet)));
        // Without the end of Parquet it is what it is called.
        std::fs::write(&origin, b"PAR1,b\n1,2\n").unwrap();
        assert!(matches!(open(&origin, reading, &scratch, &|| false), Ok(Opened::Text(_))));
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
        let error = text(&origin, &scratch, &grow).unwrap_err();
        let PlainTextError::Input(error) = error else { panic!("{error:?}") };
        assert!(error.to_string().starts_with("it changed while it was decompressed: it had "), "{error}");
    }

    #[test]
    fn a_plain_file_is_its_own_text() {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("a.csv");
        std::fs::write(&origin, b"x").unwrap();
        let scratch = Scratch { work: folder.path(), name: "s".to_owned() };
        assert_eq!(text(&origin, &scratch, &|| false).unwrap().path, origin);
        assert!(matches!(
            open(folder.path(), Reading::default(), &scratch, &|| false),
            Err(PlainTextError::Input(_))
        ));
    }
}
