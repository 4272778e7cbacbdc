//! Bundles: the tables of contents of many segments in one object, so that who takes a job over reads few objects and
//! not one for each segment.
//!
//! Layout: the MessagePack-encoded segments, each with key, size and encoded index; the CRC32C of that as `u32`,
//! little-endian; [`MAGIC`]. A bundle says nothing that its segments do not: one that is damaged, or of other segments
//! than the reader looks for, is left aside.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::ReadIndex;
use crate::checksum::crc32c;
use crate::message_pack;

/// Last bytes of every bundle.
const MAGIC: &[u8; 8] = b"PRSIDX01";
/// Bytes after the segments: their checksum and [`MAGIC`].
const TRAILER: usize = 12;

/// A segment in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundled {
    /// Key of the object.
    pub key: String,
    /// Its size, bytes.
    pub size: u64,
    /// Its table of contents, as it is at its end.
    pub encoded: Bytes,
}

impl Bundled {
    /// What the table of contents says; nothing where it is none of such a segment.
    pub fn read(self) -> Option<ReadIndex> {
        ReadIndex::new(&self.key, self.size, self.encoded).ok()
    }
}

/// Segments in the order of their commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The segments.
    pub segments: Vec<Bundled>,
}

impl Bundle {
    /// The object.
    pub fn encode(&self) -> Bytes {
        let encoded = rmp_serde::to_vec(self).expect("a bundle holds only integers, strings and bytes");
        let mut object = BytesMut::with_capacity(encoded.len() + TRAILER);
        object.put_slice(&encoded);
        object.put_u32_le(crc32c(&encoded));
        object.put_slice(MAGIC);
        object.freeze()
    }

    /// Reads an object; nothing where it is not as it was written.
    pub fn decode(object: &[u8]) -> Option<Self> {
        let (encoded, trailer) = object.split_at_checked(object.len().checked_sub(TRAILER)?)?;
        let (sum, magic) = trailer.split_at(4);
        if magic != MAGIC || sum != crc32c(encoded).to_le_bytes() {
            return None;
        }
        message_pack::decode(encoded).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ProcessRef, SegmentBuilder, TryRecord, TryStatus};
    use super::*;

    fn bundled(key: &str, index: u64) -> Bundled {
        let mut builder = SegmentBuilder::default();
        let record = TryRecord { last: true, ..TryRecord::new(index, b"", TryStatus::RunDone) };
        builder.add(record, &ProcessRef::default(), "rows".into());
        let (parts, index) = builder.seal(key, 1, 0, "");
        let size = parts.iter().map(Bytes::len).sum::<usize>() as u64;
        Bundled { key: key.to_owned(), size, encoded: rmp_serde::to_vec(&index).unwrap().into() }
    }

    #[test]
    fn segments_come_back_as_they_were() {
        let bundle = Bundle { segments: vec![bundled("a", 3), bundled("b", 1)] };
        let read = Bundle::decode(&bundle.encode()).unwrap();
        assert_eq!(read, bundle);
        let indices: Vec<_> = read.segments.into_iter().map(|one| one.read().unwrap().index).collect();
        assert_eq!((&*indices[0].key, indices[1].tries[0].index), ("a", 1));
        assert_eq!(Bundle::decode(&Bundle::default().encode()), Some(Bundle::default()));
    }

    #[test]
    fn what_was_changed_is_none() {
        let object = Bundle { segments: vec![bundled("a", 3)] }.encode();
        for bit in 0..object.len() * 8 {
            let mut other = object.to_vec();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Bundle::decode(&other), None, "bit {bit}");
        }
        for length in [0, 1, TRAILER - 1, TRAILER, object.len() - 1] {
            assert_eq!(Bundle::decode(&object[..length]), None, "{length}");
        }
        assert_eq!(Bundled { key: "b".to_owned(), ..bundled("a", 3) }.read(), None);
        assert_eq!(Bundled { size: 3, ..bundled("a", 3) }.read(), None);
    }
}
