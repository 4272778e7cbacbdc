//! Lists of numbers in few bytes: seven bits of a number a byte, the lowest first. Nearly all counts in statistics are
//! small, and most of those in a histogram are zero.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list of numbers; in an encoding, a string of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Varints(pub(super) Vec<u64>);

impl Varints {
    /// The numbers up to the last one that is not zero.
    pub(super) fn trimmed(numbers: &[u64]) -> Self {
        let length = numbers.iter().rposition(|number| *number != 0).map_or(0, |last| last + 1);
        Self(numbers[..length].to_vec())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        // Each number has one byte below 128: what is allocated follows from what is there.
        let count = bytes.iter().filter(|byte| **byte < 0x80).count();
        let mut numbers = Vec::with_capacity(count);
        let (mut number, mut shift) = (0_u64, 0_u32);
        for byte in bytes {
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || (shift == 63 && bits > 1) {
                return None;
            }
            number |= bits << shift;
            shift += 7;
            if *byte < 0x80 {
                numbers.push(number);
                (number, shift) = (0, 0);
            }
        }
        (shift == 0).then_some(Self(numbers))
    }
}

impl Serialize for Varints {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(self.0.len() + 16);
        for number in &self.0 {
            let mut rest = *number;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Varints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Varints;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers as bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Varints, E> {
                Varints::decode(bytes).ok_or_else(|| E::custom("a list of numbers that ends within one"))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_pack;

    #[test]
    fn numbers_come_back() {
        for numbers in
            [vec![], vec![0], vec![127, 128, 0, 300, 1 << 35, u64::MAX, 1], (0..2_000).collect::<Vec<_>>()]
        {
            let encoded = message_pack::encode(&Varints(numbers.clone()));
            assert_eq!(message_pack::decode::<Varints>(&encoded).unwrap().0, numbers);
        }
        assert_eq!(Varints::trimmed(&[0, 3, 0, 0]).0, [0, 3]);
        assert_eq!(Varints::trimmed(&[0, 0]).0, [0; 0]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bytes in
            [&[0x80][..], &[1, 0xff], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert_eq!(Varints::decode(bytes), None, "{bytes:?}");
        }
    }
}
