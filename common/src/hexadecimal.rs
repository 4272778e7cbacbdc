//! Checksums as text.

use std::fmt::Write;

/// The bytes of a digest, two lowercase digits each.
pub fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hexadecimal(&[0, 10, 255]), "000aff");
    }
}
