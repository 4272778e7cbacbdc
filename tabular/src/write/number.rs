//! Numbers as numpy writes them when it makes strings of a column.
//!
//! The shortest digits that give the number back, at least one after the point; with an exponent of at
//! least two digits when the magnitude is below 1e-4 or reaches a limit.

use std::io::Write;

/// From which magnitude on a float of 64 bits is written with an exponent.
const EXPONENT_FROM: f64 = 1e16;
/// Below which magnitude any float is.
const EXPONENT_BELOW: f64 = 1e-4;
/// Up to which magnitude millionths of a float are counted in whole numbers of at most 15 digits.
const MILLIONTHS_BELOW: f64 = 1e9;

/// Appends a whole number.
#[inline]
pub(super) fn write_int(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a float of 64 bits that is not NaN.
#[inline]
pub(super) fn write_f64(value: f64, out: &mut Vec<u8>) {
    let magnitude = value.abs();
    if magnitude < MILLIONTHS_BELOW {
        // A decimal of at most 15 digits that rounds to the value is the shortest one: no two of them round
        // to the same float.
        let millionths = (magnitude * 1e6 + 0.5) as u64;
        if (millionths as f64 / 1e6).to_bits() == magnitude.to_bits()
            && (magnitude >= EXPONENT_BELOW || millionths == 0)
        {
            write_millionths(value.is_sign_negative(), millionths, out);
            return;
        }
    }
    if (EXPONENT_BELOW..EXPONENT_FROM).contains(&magnitude) {
        out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    } else if value.is_infinite() {
        write_infinity(value > 0.0, out);
    } else {
        write_with_exponent(&format!("{value:e}"), out);
    }
}

/// Appends a float of 32 bits that is not NaN.
pub(super) fn write_f32(value: f32, exponent_from: f32, out: &mut Vec<u8>) {
    let magnitude = value.abs();
    if value.is_infinite() {
        write_infinity(value > 0.0, out);
    } else if magnitude == 0.0 || (f64::from(magnitude) >= EXPONENT_BELOW && magnitude < exponent_from) {
        // Shows such numbers without an exponent.
        write!(out, "{value:?}").expect("a buffer takes all bytes");
    } else {
        write_with_exponent(&format!("{value:e}"), out);
    }
}

fn write_infinity(positive: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if positive { b"inf" } else { b"-inf" });
}

fn write_millionths(negative: bool, millionths: u64, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    let (whole, mut fraction) = (millionths / 1_000_000, (millionths % 1_000_000) as u32);
    write_int(whole, out);
    let mut text = *b".0000000";
    let mut length = 2;
    for place in (1..7).rev() {
        let digit = (fraction % 10) as u8;
        fraction /= 10;
        text[place] = b'0' + digit;
        if digit != 0 && length == 2 {
            length = place + 1;
        }
    }
    out.extend_from_slice(&text[..length]);
}

/// Appends a number that `text` shows as `1.5e-7` or `1e300`, with a sign and at least two digits in the exponent.
fn write_with_exponent(text: &str, out: &mut Vec<u8>) {
    let (mantissa, exponent) = text.split_once('e').expect("it is shown with an exponent");
    let (sign, digits) = exponent.strip_prefix('-').map_or(("e+", exponent), |digits| ("e-", digits));
    let zero = if digits.len() < 2 { "0" } else { "" };
    for part in [mantissa, sign, zero, digits] {
        out.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64_text(value: f64) -> String {
        let mut out = vec![];
        write_f64(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn f32_text(value: f32, exponent_from: f32) -> String {
        let mut out = vec![];
        write_f32(value, exponent_from, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_of_64_bits_are_those_of_numpy() {
        let table = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123_456.789_012, "123456.789012"),
            (100.0, "100.0"),
            (999_999_999.999_999, "999999999.999999"),
            (1e9, "1000000000.0"),
            (0.0001, "0.0001"),
            (0.000_1 - f64::EPSILON / 1e4, "9.999999999999998e-05"),
            (0.000_01, "1e-05"),
            (0.000_012, "1.2e-05"),
            (0.000_123_45, "0.00012345"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1e22, "1e+22"),
            (1e100, "1e+100"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in table {
            assert_eq!(f64_text(value), expected);
        }
    }

    #[test]
    fn floats_of_32_bits_are_those_of_numpy() {
        let table = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (1e-4, "1e-04"),
            (1.1e-4, "0.00011"),
            (1e-5, "1e-05"),
            (100_000.0, "100000.0"),
            (999_999.94, "999999.94"),
            (1e6, "1e+06"),
            (16_777_216.0, "1.6777216e+07"),
            (1e16, "1e+16"),
            (f32::INFINITY, "inf"),
        ];
        for (value, expected) in table {
            assert_eq!(f32_text(value, 1e6), expected);
        }
        assert_eq!(f32_text(1e6, 1e16), "1000000.0");
        assert_eq!(f32_text(123_456_790.0, 1e16), "123456790.0");
        assert_eq!(f32_text(1e15, 1e16), "1000000000000000.0");
        assert_eq!(f32_text(1e16, 1e16), "1e+16");
    }
}
