//! CRC32C (Castagnoli), the checksum of bytes that leave this process and come back: rows, slices, descriptors.
//!
//! It finds what disks, memory and networks do to bytes by accident: every change of up to 32 bits in a row, and
//! all but one in 2^32 of the others. It is no signature: a forger computes it as well. The processor has
//! instructions for it, so that a byte costs less to check than to copy.

use std::io::{self, Read};

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

/// Bytes read from a stream at a time.
const READ_BUFFER: usize = 256 << 10;

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of the last `length` bytes of some, from that of all before them and that of all.
pub fn part_of(before: u32, all: u32, length: u64) -> u32 {
    // Each byte behind some moves what they add to the sum, whatever its value.
    let moved = checksum_combine(CrcAlgorithm::Crc32Iscsi, u64::from(before), 0, length);
    all ^ moved as u32
}

/// A checksum of bytes that come piece by piece; however they are cut, it is [`crc32c()`] of all of them.
#[derive(Debug, Clone)]
pub struct Crc32c {
    digest: Digest,
}

impl Default for Crc32c {
    fn default() -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc32Iscsi) }
    }
}

impl Crc32c {
    /// Of no bytes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u32 {
        self.digest.finalize() as u32
    }
}

/// CRC-64/NVME of bytes that come piece by piece: of whole files, of which there are many.
#[derive(Debug, Clone)]
pub struct Crc64 {
    digest: Digest,
}

impl Default for Crc64 {
    fn default() -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc64Nvme) }
    }
}

impl Crc64 {
    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u64 {
        self.digest.finalize()
    }
}

/// The checksum that a store keeps of a whole object. The writer of the object chose the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredChecksum {
    /// CRC-32 as of zlib (ISO/HDLC).
    Crc32(u32),
    /// CRC-32C (Castagnoli).
    Crc32c(u32),
    /// CRC-64/NVME.
    Crc64Nvme(u64),
}

impl StoredChecksum {
    /// Begins to compare bytes that come piece by piece with it.
    pub fn compare(self) -> Comparison {
        let algorithm = match self {
            Self::Crc32(_) => CrcAlgorithm::Crc32IsoHdlc,
            Self::Crc32c(_) => CrcAlgorithm::Crc32Iscsi,
            Self::Crc64Nvme(_) => CrcAlgorithm::Crc64Nvme,
        };
        Comparison { digest: Digest::new(algorithm), stored: self }
    }

    fn value(self) -> u64 {
        match self {
            Self::Crc32(value) | Self::Crc32c(value) => value.into(),
            Self::Crc64Nvme(value) => value,
        }
    }
}

/// Bytes on their way to be compared with a [`StoredChecksum`].
#[derive(Debug, Clone)]
pub struct Comparison {
    digest: Digest,
    stored: StoredChecksum,
}

impl Comparison {
    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// Whether all bytes so far are those of the object, as far as a checksum tells.
    pub fn is_equal(&self) -> bool {
        self.digest.finalize() == self.stored.value()
    }
}

/// Length and [`crc32c()`] of what is left to read of `source`.
pub fn crc32c_of(mut source: impl Read) -> io::Result<(u64, u32)> {
    let mut sum = Crc32c::new();
    let mut piece = vec![0; READ_BUFFER];
    let mut length = 0;
    loop {
        match source.read(&mut piece) {
            Ok(0) => return Ok((length, sum.finish())),
            Ok(count) => {
                sum.update(&piece[..count]);
                length += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_checksum_that_others_compute() {
        // RFC 3720, B.4, and the check value of the catalogue of CRC algorithms.
        let ascending: Vec<u8> = (0..32).collect();
        let table: [(&[u8], u32); 5] = [
            (b"", 0),
            (b"123456789", 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
        ];
        for (bytes, expected) in table {
            assert_eq!(crc32c(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_part_has_the_checksum_that_is_left_of_the_whole() {
        let bytes: Vec<u8> = (0..1_000u32).map(|at| (at.wrapping_mul(at) / 7) as u8).collect();
        for (from, to) in
            [(0, 0), (0, 1), (0, 1_000), (1, 1), (1, 2), (17, 900), (999, 1_000), (1_000, 1_000)]
        {
            let (before, all) = (crc32c(&bytes[..from]), crc32c(&bytes[..to]));
            assert_eq!(part_of(before, all, (to - from) as u64), crc32c(&bytes[from..to]), "{from}..{to}");
        }
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..100_000u32).map(|at| (at.wrapping_mul(at) / 7) as u8).collect();
        for piece in [1, 7, 64, 1_000, 99_999] {
            let mut sum = Crc32c::new();
            bytes.chunks(piece).for_each(|piece| sum.update(piece));
            assert_eq!(sum.finish(), crc32c(&bytes), "{piece}");
        }
        let read = crc32c_of(bytes.as_slice()).unwrap();
        assert_eq!(read, (bytes.len() as u64, crc32c(&bytes)));
    }

    #[test]
    fn bytes_are_compared_with_what_a_store_keeps() {
        // The check values of the catalogue of CRC algorithms.
        for stored in [
            StoredChecksum::Crc32(0xcbf4_3926),
            StoredChecksum::Crc32c(0xe306_9283),
            StoredChecksum::Crc64Nvme(0xae8b_1486_0a79_9888),
        ] {
            let mut compared = stored.compare();
            compared.update(b"1234");
            assert!(!compared.is_equal(), "{stored:?}");
            compared.update(b"56789");
            assert!(compared.is_equal(), "{stored:?}");
        }
    }
}
