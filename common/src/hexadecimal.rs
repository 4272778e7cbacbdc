//! Checksums as text.

use std::fmt::Write;

/// The bytes of a digest, two lowercase digits each.
pub fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that [`hexadecimal`] wrote; nothing where it did not write this.
pub fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let (pairs, []) = digits.as_deref()?.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hexadecimal(&[0, 10, 255]), "000aff");
        assert_eq!(bytes_of("000aff"), Some(vec![0, 10, 255]));
        assert_eq!((bytes_of("00a"), bytes_of("0g"), bytes_of("é")), (None, None, None));
    }
}
