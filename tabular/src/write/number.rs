//! Numbers as numpy writes them when it makes strings of a column.
//!
//! The shortest digits that give the number back, at least one after the point; with an exponent of at
//! least two digits when the magnitude is below 1e-4 or reaches a limit.

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
    if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
        return;
    }
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value);
    if (EXPONENT_BELOW..EXPONENT_FROM).contains(&magnitude) {
        out.extend_from_slice(text.as_bytes());
    } else {
        Decimal::parse(text).write_with_exponent(out);
    }
}

/// Appends a float of 32 bits that is not NaN.
pub(super) fn write_f32(value: f32, exponent_from: f32, out: &mut Vec<u8>) {
    if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
        return;
    }
    let mut buffer = ryu::Buffer::new();
    let decimal = Decimal::parse(buffer.format_finite(value));
    let magnitude = value.abs();
    if magnitude == 0.0 || (f64::from(magnitude) >= EXPONENT_BELOW && magnitude < exponent_from) {
        decimal.write_plainly(out);
    } else {
        decimal.write_with_exponent(out);
    }
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

/// A finite number as `0.DIGITS * 10^point`; no digits for zero.
struct Decimal {
    negative: bool,
    digits: [u8; 32],
    length: usize,
    point: i32,
}

impl Decimal {
    /// Reads what `ryu` wrote: `-12.5`, `0.00012`, `1.5e-7`, `1e16`.
    fn parse(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut decimal = Self { negative, digits: [0; 32], length: 0, point: 0 };
        let mut after_point = false;
        for byte in mantissa.bytes() {
            match byte {
                b'.' => after_point = true,
                b'0' if decimal.length == 0 => decimal.point -= i32::from(after_point),
                _ => {
                    decimal.digits[decimal.length] = byte;
                    decimal.length += 1;
                    decimal.point += i32::from(!after_point);
                }
            }
        }
        while decimal.length > 0 && decimal.digits[decimal.length - 1] == b'0' {
            decimal.length -= 1;
        }
        decimal.point += exponent.parse::<i32>().expect("ryu writes whole exponents");
        decimal
    }

    fn write_plainly(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        let digits = &self.digits[..self.length];
        let point = usize::try_from(self.point).unwrap_or(0);
        if point == 0 {
            out.push(b'0');
        }
        for place in 0..point {
            out.push(digits.get(place).copied().unwrap_or(b'0'));
        }
        out.push(b'.');
        out.extend((self.point..0).filter(|_| !digits.is_empty()).map(|_| b'0'));
        match digits.get(point..) {
            Some(rest) if !rest.is_empty() => out.extend_from_slice(rest),
            _ => out.push(b'0'),
        }
    }

    fn write_with_exponent(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        out.push(self.digits[0]);
        if self.length > 1 {
            out.push(b'.');
            out.extend_from_slice(&self.digits[1..self.length]);
        }
        let exponent = self.point - 1;
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        write_int(exponent.unsigned_abs(), out);
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
