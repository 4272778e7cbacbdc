//! The seal of a JSON object: its last member is the CRC32C of the text before it.
//!
//! The text stays plain JSON. It finds damage, not forgery: everyone can compute it.

use crate::checksum::crc32c;

/// Name of the last member.
const MEMBER: &str = "crc32c";

/// What a seal tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// The text is what was sealed.
    Whole,
    /// It is not.
    Broken,
    /// It was never sealed.
    Absent,
}

/// Seals the text of a JSON object that is printed over several lines.
pub fn seal(text: String) -> String {
    let Some(members) = text.strip_suffix("\n}") else { return text };
    let sum = crc32c(members.as_bytes());
    format!("{members},\n  \"{MEMBER}\": \"{sum:08x}\"\n}}")
}

/// Looks at the seal of a text.
pub fn check(text: &[u8]) -> Seal {
    let mark = format!(",\n  \"{MEMBER}\": \"");
    let Some(at) = text.len().checked_sub(mark.len() + 8 + "\"\n}".len()) else { return Seal::Absent };
    let (members, end) = text.split_at(at);
    if !end.starts_with(mark.as_bytes()) {
        return Seal::Absent;
    }
    if end == format!("{mark}{:08x}\"\n}}", crc32c(members)).as_bytes() { Seal::Whole } else { Seal::Broken }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_bit_of_a_sealed_object_matters() {
        let object = json!({"a": 1, "b": {"c": "x"}});
        let sealed = seal(serde_json::to_string_pretty(&object).unwrap());
        assert_eq!(check(sealed.as_bytes()), Seal::Whole);
        let read: Value = serde_json::from_str(&sealed).unwrap();
        assert_eq!((&read["a"], &read["b"]), (&object["a"], &object["b"]));
        for bit in 0..sealed.len() * 8 {
            let mut other = sealed.clone().into_bytes();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(check(&other), Seal::Whole, "bit {bit}");
        }
        for other in ["", "{}", "{\n  \"a\": 1\n}"] {
            assert_eq!(check(other.as_bytes()), Seal::Absent, "{other}");
        }
    }
}
