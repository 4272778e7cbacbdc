//! Archives of code, as storage gives them back: nothing outside of their folder, nothing without a bound.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use prs_common::code::archive::{is_intact, pack, unpack};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use crate::segments::memory;

/// What tells an archive that is compressed for the check from one that is as it stands.
const PLAIN: u8 = b'p';
/// What lies beside the folder of the archive.
const BESIDE: &str = "not theirs";

/// A byte that says whether the rest is compressed already, and an archive.
pub(crate) struct Archives {
    outer: TempDir,
}

impl Default for Archives {
    fn default() -> Self {
        let outer = tempfile::Builder::new().prefix("prs-fuzz-").tempdir_in(memory()).unwrap();
        fs::write(outer.path().join("beside"), BESIDE).unwrap();
        Self { outer }
    }
}

impl Target for Archives {
    const LONGEST: usize = 16 << 10;
    const WORDS: &'static [&'static [u8]] = &[
        b"../",
        b"/etc/passwd",
        b"..",
        b"./",
        b"//",
        b"ustar\x0000",
        b"ustar  \0",
        b"0000644\0",
        b"00000000000\0",
        b"77777777777\0",
        b"\x80\0\0\0\0\0\0\xff\xff\xff\xff",
        b"30 path=../beside\n",
        b"19 size=99999999\n",
        b"././@LongLink",
        b"\0\0\0\0\0\0\0\0",
        b"beside",
        b"out",
    ];

    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        if random.below(3) == 0 {
            return self.packed(random);
        }
        let mut builder = Builder::new(Vec::new());
        for _ in 0..random.below(4) {
            entry(random, &mut builder);
        }
        let mut input = builder.into_inner().unwrap();
        input.insert(0, PLAIN);
        input
    }

    /// The checksum of the first header.
    fn mend(&mut self, input: &mut Vec<u8>, random: &mut Random) {
        if input.first() != Some(&PLAIN) || random.below(4) == 0 {
            return;
        }
        for header in input[1..].chunks_exact_mut(512) {
            if header.get(257..262) == Some(b"ustar") {
                header[148..156].fill(b' ');
                let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
                header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
        }
    }

    fn check(&mut self, input: &[u8]) -> String {
        let body = match input.split_first() {
            Some((&PLAIN, plain)) => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Some((_, body)) => body.to_owned(),
            None => Vec::new(),
        };
        assert!(!is_intact(&body, &"0".repeat(64)));
        let out = self.outer.path().join("out");
        let unpacked = unpack(&body, &out);
        let mut names: Vec<_> =
            fs::read_dir(self.outer.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert!(names == ["beside", "out"] || names == ["beside"], "{names:?}");
        assert_eq!(fs::read_to_string(self.outer.path().join("beside")).unwrap(), BESIDE);
        let files = plain_files(&out);
        let became = match unpacked {
            Ok(()) => {
                self.comes_back(&out, &files);
                format!("{} files", files.len().min(4))
            }
            Err(error) => kind_of(error),
        };
        fs::remove_dir_all(&out).unwrap();
        became
    }
}

impl Archives {
    /// What [`pack`] makes of some files, which comes back.
    fn packed(&self, random: &mut Random) -> Vec<u8> {
        let code = self.outer.path().join("code");
        for number in 0..=random.below(4) {
            let folder = code.join(["", "a", "a/b", &"n".repeat(120)][random.below(4) as usize]);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("{number}.py")), "x = 1\n".repeat(random.below(200) as usize))
                .unwrap();
        }
        let (archive, files) = (pack(&code).unwrap(), plain_files(&code));
        assert!(is_intact(&archive.body, &archive.checksum));
        let out = self.outer.path().join("out");
        unpack(&archive.body, &out).unwrap();
        assert_eq!(plain_files(&out), files);
        for folder in [code, out] {
            fs::remove_dir_all(folder).unwrap();
        }
        [b"z", &archive.body[..]].concat()
    }

    /// What was unpacked can be packed, and gives the same; some folders are never packed.
    fn comes_back(&self, out: &Path, files: &BTreeMap<String, Vec<u8>>) {
        let Ok(archive) = pack(out) else { return };
        let again = self.outer.path().join("again");
        unpack(&archive.body, &again).unwrap();
        for (name, content) in plain_files(&again) {
            assert_eq!(files.get(&name), Some(&content), "{name}");
        }
        fs::remove_dir_all(again).unwrap();
    }
}

/// The files below `folder`, where there is nothing else than files and folders.
fn plain_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(next) = ahead.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            assert!(meta.is_file() || meta.is_dir(), "{} is something else", path.display());
            if meta.is_dir() {
                ahead.push(path);
                continue;
            }
            assert_eq!(meta.permissions().mode() & 0o7000, 0, "{} is privileged", path.display());
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}

fn entry(random: &mut Random, builder: &mut Builder<Vec<u8>>) {
    let kinds = [
        EntryType::Regular,
        EntryType::Regular,
        EntryType::Regular,
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Fifo,
        EntryType::Char,
        EntryType::GNUSparse,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
        EntryType::Continuous,
    ];
    let names = [
        "a.py",
        "a",
        "a/b.py",
        "../beside",
        "/tmp/prs-fuzz-outside",
        "a/../../beside",
        "./a",
        ".git/config",
        "é",
    ];
    let content = ["", "x = 1\n", "20 path=../beside\n", "16 size=1000000\n"][random.below(4) as usize];
    let mut header = if random.below(2) == 0 { Header::new_gnu() } else { Header::new_ustar() };
    header.set_entry_type(kinds[random.below(kinds.len() as u64) as usize]);
    header.set_size(content.len() as u64);
    header.set_mode([0o644, 0o755, 0o7777, 0][random.below(4) as usize]);
    let name = names[random.below(names.len() as u64) as usize].as_bytes();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    let target = [&b"../beside"[..], b"/etc", b"a"][random.below(3) as usize];
    header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target);
    header.set_cksum();
    builder.append(&header, content.as_bytes()).unwrap();
}
