//! What a file has that is compressed as a whole, while it is read: the kind shows in its first bytes, whatever it is called.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use bzip2::read::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;
use prs_common::dataset::input::Compression;
use zip::ZipArchive;
use zip::read::ZipFile;

/// So many bytes at the beginning of a file tell its kind.
pub(super) const BEGIN: usize = 10;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
    Zip,
}

impl Packing {
    /// Of a file that begins so; nothing of one that is not compressed as a whole.
    pub(super) fn of(begin: &[u8]) -> Option<Self> {
        let is = |magic: &[u8]| begin.starts_with(magic);
        let is_bzip2 = is(b"BZh")
            && begin.get(3).is_some_and(|level| (b'1'..=b'9').contains(level))
            && (begin[4..].starts_with(&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59])
                || begin[4..].starts_with(&[0x17, 0x72, 0x45, 0x38, 0x50, 0x90]));
        if is(&[0x1f, 0x8b]) {
            Some(Self::Gzip)
        // A frame, or one with data of the compressor's own, to be skipped.
        } else if is(&[0x28, 0xb5, 0x2f, 0xfd]) || matches!(begin, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]) {
            Some(Self::Zstd)
        } else if is_bzip2 {
            Some(Self::Bzip2)
        } else if is(b"\xfd7zXZ\0") {
            Some(Self::Xz)
        } else if is(b"PK\x03\x04") || is(b"PK\x05\x06") {
            Some(Self::Zip)
        } else {
            None
        }
    }

    /// As the job file asks for it.
    ///
    /// # Errors
    /// The first bytes are those of another one, or of none; the text says so.
    pub(super) fn as_asked(asked: Compression, begin: &[u8]) -> Result<Option<Self>, String> {
        let found = Self::of(begin);
        let wanted = match asked {
            Compression::Infer => return Ok(found),
            Compression::None => return Ok(None),
            Compression::Gzip => Self::Gzip,
            Compression::Bz2 => Self::Bzip2,
            Compression::Xz => Self::Xz,
            Compression::Zip => Self::Zip,
            Compression::Zstd => Self::Zstd,
        };
        if found == Some(wanted) {
            return Ok(found);
        }
        let like = found.map_or("none of the kinds that prs reads", Self::name);
        Err(format!("it is not compressed by {}, as compression says: it looks like {like}", wanted.name()))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "Zstandard",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zip => "zip",
        }
    }

    /// What is in `file`, of which `begin` was read. All members of a gzip file, all frames of a Zstandard one and all streams
    /// of the others count; a Zstandard frame that asks for a window of more than 128 MiB is damage.
    pub(super) fn reader<'a>(self, begin: Vec<u8>, file: &'a File) -> io::Result<Box<dyn Read + 'a>> {
        let whole = Cursor::new(begin).chain(file);
        Ok(match self {
            Self::Gzip => Box::new(Members::new(BufReader::new(whole))),
            Self::Zstd => Box::new(zstd::Decoder::new(whole)?),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(BufReader::new(whole))),
            Self::Xz => Box::new(XzReader::new(BufReader::new(whole), true)),
            Self::Zip => unreachable!("a zip file is read by its directory"),
        })
    }
}

/// The only file in `archive`; beside it there may be folders, and what macOS adds.
pub(super) fn only_member<'a, 'b>(
    archive: &'a mut ZipArchive<&'b File>,
) -> io::Result<ZipFile<'a, &'b File>> {
    let mut files = Vec::new();
    for (index, name) in archive.file_names().enumerate() {
        let name = name?;
        if !name.ends_with('/') && !name.starts_with("__MACOSX/") {
            files.push(index);
        }
    }
    let [file] = files[..] else {
        let message = format!("the zip file has {} files: unpack it, and name the files", files.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    };
    Ok(archive.by_index(file)?)
}

/// The members of a gzip file, one behind the other. Zeros behind the last one fill a block of a tape or disk, and are no data.
struct Members<R> {
    /// Nothing behind the last one.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    fn new(inner: R) -> Self {
        Self { member: Some(GzDecoder::new(inner)) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            match member.read(buffer)? {
                0 if !buffer.is_empty() => {}
                count => return Ok(count),
            }
            let Some(mut rest) = self.member.take().map(GzDecoder::into_inner) else { break };
            let mut has_zeros = false;
            loop {
                let zeros = rest.fill_buf()?.iter().take_while(|byte| **byte == 0).count();
                if zeros == 0 {
                    break;
                }
                has_zeros = true;
                rest.consume(zeros);
            }
            match rest.fill_buf()? {
                [] => {}
                _ if has_zeros => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "there is data behind zeros"));
                }
                _ => self.member = Some(GzDecoder::new(rest)),
            }
        }
        Ok(0)
    }
}
