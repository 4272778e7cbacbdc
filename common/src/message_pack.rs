//! MessagePack that comes from elsewhere: read without trust in how deep it is nested.

use rmp_serde::Deserializer;
use rmp_serde::decode::{Error, ReadRefReader};
use serde::{Deserialize, Serialize};

/// How deep what is read may be nested; nothing of prs comes near. Each level takes stack, also of what is skipped.
const DEPTH: usize = 64;

/// Reads a value, borrowing from `body`.
pub fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    T::deserialize(&mut reader(body))
}

/// Writes a value of prs, which has only what MessagePack has.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec(value).expect("it holds only integers, strings, bytes, lists and maps of them")
}

/// Reads one value after the other.
pub fn reader(body: &[u8]) -> Deserializer<ReadRefReader<'_, [u8]>> {
    let mut reader = Deserializer::from_read_ref(body);
    reader.set_max_depth(DEPTH);
    reader
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    #[test]
    fn what_is_nested_too_deep_is_refused() {
        let nested = |levels: usize| [&vec![0x91; levels][..], &[0x01]].concat();
        decode::<IgnoredAny>(&nested(DEPTH - 1)).unwrap();
        for levels in [DEPTH + 1, 100_000] {
            let refused = decode::<IgnoredAny>(&nested(levels)).unwrap_err();
            assert!(matches!(refused, Error::DepthLimitExceeded), "{refused}");
        }
    }
}
