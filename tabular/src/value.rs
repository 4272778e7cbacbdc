//! What a single field means: missing, a whole number, a number, a truth value, or just text.
//!
//! The rules are those of `pandas.read_csv` with its defaults. Numbers are rounded correctly, as pandas 3.1
//! does; older ones do with `float_precision="round_trip"`, and may be off in the last digit by default.

use wide::u8x16;

/// What a field could be, alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Missing,
    /// Fits 64 bits with a sign; `negative` is about the sign that is written.
    Int {
        negative: bool,
    },
    /// Needs all 64 bits.
    UInt,
    /// A whole number too long for 64 bits.
    BigInt,
    Float,
    Bool,
    Text,
}

/// Tells what a field, already without quotes, could be that is not missing.
pub(crate) fn kind(text: &[u8]) -> Kind {
    match whole_number(text) {
        Some(Whole { negative, magnitude: Some(magnitude) }) => {
            if i64::try_from(magnitude).is_ok() || (negative && magnitude == i64::MIN.unsigned_abs()) {
                Kind::Int { negative }
            } else if negative {
                Kind::BigInt
            } else {
                Kind::UInt
            }
        }
        Some(Whole { magnitude: None, .. }) => Kind::BigInt,
        None if float(text).is_some() => Kind::Float,
        None if boolean(text).is_some() => Kind::Bool,
        None => Kind::Text,
    }
}

/// Tells this of the field of `length` bytes that `bytes` begin with, where it is a number of at most 32 bytes, with a minus sign, a
/// point and an exponent or without, or a truth value; nothing of any other.
#[expect(clippy::inline_always, reason = "it is compiled for its caller's processor")]
#[inline(always)]
pub(crate) fn kind_of_plain_value(bytes: &[u8], length: usize) -> Option<Kind> {
    if length == 0 || length > WINDOW {
        return None;
    }
    if let Some(window) = bytes.first_chunk() {
        return kind_in_window(window, length);
    }
    let mut window = [0; WINDOW];
    window[..length].copy_from_slice(&bytes[..length]);
    kind_in_window(&window, length)
}

/// Bytes that are compared at once.
const WINDOW: usize = 32;

#[expect(clippy::inline_always, reason = "it is compiled for its caller's processor")]
#[inline(always)]
fn kind_in_window(window: &[u8; WINDOW], length: usize) -> Option<Kind> {
    let (halves, _) = window.as_chunks::<16>();
    // Bit `i` says that byte `i` is no digit.
    let mut others = halves.iter().rev().fold(0u32, |others, half| {
        let value = u8x16::new(*half) - u8x16::splat(b'0');
        (others << 16) | u32::from(!(value.min(u8x16::splat(9)).simd_eq(value).to_bitmask() as u16))
    });
    others &= u32::MAX >> (WINDOW - length);
    let negative = window[0] == b'-';
    others &= !u32::from(negative);
    let start = usize::from(negative);
    let digits = length - start - others.count_ones() as usize;
    if others == 0 {
        return (1..=18).contains(&digits).then_some(Kind::Int { negative });
    }
    let mut at = others.trailing_zeros() as usize;
    let has_point = window[at] == b'.';
    if has_point {
        others &= others - 1;
        if others == 0 {
            return (digits > 0).then_some(Kind::Float);
        }
        at = others.trailing_zeros() as usize;
    }
    if window[at] | 0x20 == b'e' && at > start + usize::from(has_point) {
        others &= others - 1;
        let mut exponent = at + 1;
        if others == 1u32.unbounded_shl(exponent as u32) && matches!(window[exponent], b'+' | b'-') {
            others = 0;
            exponent += 1;
        }
        return (others == 0 && exponent < length).then_some(Kind::Float);
    }
    // Small letters have this bit, capital ones lack it.
    let [letters, ..] = window.as_chunks().0 else { return None };
    let letters =
        (u64::from_le_bytes(*letters) | 0x2020_2020_2020_2020) & (u64::MAX >> (64 - 8 * length.min(8)));
    (letters == TRUE || letters == FALSE).then_some(Kind::Bool)
}

const TRUE: u64 = u64::from_le_bytes(*b"true\0\0\0\0");
const FALSE: u64 = u64::from_le_bytes(*b"false\0\0\0");

/// Whether pandas takes the text for a missing value.
#[inline]
pub(crate) fn is_missing(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b'#' | b'-' | b'1' | b'<' | b'N' | b'n', ..] if text.len() <= 9 => is_missing_word(text),
        _ => false,
    }
}

fn is_missing_word(text: &[u8]) -> bool {
    matches!(
        text,
        b"#N/A"
            | b"#N/A N/A"
            | b"#NA"
            | b"-1.#IND"
            | b"-1.#QNAN"
            | b"-NaN"
            | b"-nan"
            | b"1.#IND"
            | b"1.#QNAN"
            | b"<NA>"
            | b"N/A"
            | b"NA"
            | b"NULL"
            | b"NaN"
            | b"None"
            | b"n/a"
            | b"nan"
            | b"null"
    )
}

/// A whole number as written; no magnitude when it is beyond 64 bits.
struct Whole {
    negative: bool,
    magnitude: Option<u64>,
}

#[inline]
fn trim(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    match (text.first(), text.last()) {
        (Some(first), Some(last)) if blank(first) || blank(last) => {
            let start = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
            let end = text.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
            &text[start..end]
        }
        _ => text,
    }
}

#[inline]
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn whole_number(text: &[u8]) -> Option<Whole> {
    let (negative, digits) = sign(trim(text));
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits
        .iter()
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    Some(Whole { negative, magnitude })
}

/// The value of up to 18 digits, which cannot overflow.
#[inline]
fn short_digits(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

/// The value of a field that [`kind`] calls `Int`.
#[inline]
pub(crate) fn int64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if let Some(value) = short_digits(digits) {
        return Some(if negative { -(value as i64) } else { value as i64 });
    }
    let Whole { negative, magnitude } = whole_number(text)?;
    let magnitude = magnitude?;
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// The value of a whole number without a minus sign that fits 64 bits.
#[inline]
pub(crate) fn uint64(text: &[u8]) -> Option<u64> {
    match whole_number(text)? {
        Whole { negative: false, magnitude } => magnitude,
        Whole { .. } => None,
    }
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// `-123.45` and the like: at most 15 digits and perhaps a point among them. The digits and the power of
/// ten are exact, so one division rounds correctly.
#[inline]
pub(crate) fn short_decimal(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut value = 0u64;
    let mut point = None;
    for (index, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + u64::from(digit);
        } else if *byte == b'.' && point.is_none() {
            point = Some(index);
        } else {
            return None;
        }
    }
    let decimals = match point {
        None if digits.len() <= 15 => 0,
        Some(index) if digits.len() > 1 => digits.len() - 1 - index,
        _ => return None,
    };
    let value = value as f64 / POWERS[decimals];
    Some(if negative { -value } else { value })
}

/// The value of a field that [`kind`] calls `Int`, `UInt`, `BigInt` or `Float`.
#[inline]
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    short_decimal(text).or_else(|| any_float(text))
}

fn any_float(text: &[u8]) -> Option<f64> {
    let (negative, digits) = sign(trim(text));
    let value = match digits.first()? {
        b'0'..=b'9' | b'.' => fast_float2::parse::<f64, _>(digits).ok()?,
        b'i' | b'I' => {
            // pandas allows no blanks around these.
            let (_, word) = sign(text);
            if !word.eq_ignore_ascii_case(b"inf") && !word.eq_ignore_ascii_case(b"infinity") {
                return None;
            }
            f64::INFINITY
        }
        _ => return None,
    };
    Some(if negative { -value } else { value })
}

/// The truth value a field spells, in any case.
#[inline]
pub(crate) fn boolean(text: &[u8]) -> Option<bool> {
    match text.len() {
        4 if text.eq_ignore_ascii_case(b"true") => Some(true),
        5 if text.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NullValues;
    use proptest::prelude::*;

    #[test]
    fn fields_are_what_pandas_takes_them_for() {
        let int = Kind::Int { negative: false };
        let minus = Kind::Int { negative: true };
        let table: [(Kind, &[&str]); 8] = [
            (
                Kind::Missing,
                &[
                    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
                    "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
                ],
            ),
            (
                int,
                &[
                    "1",
                    "+1",
                    " 1",
                    "1 ",
                    " 1 ",
                    "\t1",
                    "\u{b}1",
                    "1\u{b}",
                    "00012",
                    "+0",
                    "9223372036854775807",
                ],
            ),
            (int, &["0000000000000000000000000000001"]),
            (minus, &["-1", "-0", "-9223372036854775808"]),
            (Kind::UInt, &["9223372036854775808", "18446744073709551615"]),
            (Kind::BigInt, &["18446744073709551616", "-9223372036854775809", "99999999999999999999999"]),
            (
                Kind::Float,
                &[
                    "1.5",
                    " 1.5 ",
                    "1e5",
                    "1E5",
                    "1e+5",
                    "1e-5",
                    ".5",
                    "5.",
                    "-.5",
                    "+.5",
                    "inf",
                    "INF",
                    "+inf",
                    "-inf",
                    "Infinity",
                    "-Infinity",
                    "+Infinity",
                    "infinity",
                    "+Inf",
                    "-INFINITY",
                    "1e400",
                    "1e-400",
                    "1.e5",
                    "1e5 ",
                    "0e99999999999999999",
                    "1.000000000000000000000000000000",
                ],
            ),
            (Kind::Bool, &["True", "true", "TRUE", "tRuE", "false", "fALSE"]),
        ];
        for (expected, texts) in table {
            for text in texts {
                assert_eq!(NullValues::default().kind(text.as_bytes()), expected, "{text:?}");
            }
        }
        for text in [
            ".", "-", "+", "1e", "1e+", "e5", "1e5.0", "0x10", "1_000", "1,000", " inf", "inf ", "NAN",
            "+nan", " True", "t", "1d5", "1f", "- 1", "+ 1", "--1", "+-1", "-+1.5", "1 2", "1.5 2", "0.0.0",
            "1e 5", "1 e5", "  ", " ", "\u{a0}1", "infin", "infty", "-infty", " NA", "NA ", "none", "na",
            "\u{661}", "i", "-", "- inf", "..", "-.",
        ] {
            assert_eq!(NullValues::default().kind(text.as_bytes()), Kind::Text, "{text:?}");
        }
    }

    /// Every field of at most seven bytes of these, at the end of a slice and before others.
    #[test]
    fn plain_values_are_told_as_all_are() {
        let letters = b"0.-+e9 t";
        for length in 1..=7 {
            for number in 0..letters.len().pow(length) {
                let letter = |place| letters[number / letters.len().pow(place) % letters.len()];
                let field: Vec<u8> = (0..length).map(letter).collect();
                let before_others = [&field, &b",12345678,e5,-.\nTrue,17,0.5,nan"[..]].concat();
                for bytes in [&field, &before_others] {
                    if let Some(found) = kind_of_plain_value(bytes, field.len()) {
                        assert_eq!(found, kind(&field), "{:?}", String::from_utf8_lossy(&field));
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn long_plain_values_are_told_as_all_are(
            field in "-?[0-9]{0,34}(\\.[0-9]{0,20})?([eE][-+]?[0-9]{0,12})?|(?i:true|false|truf|inf)",
            behind in "[,0-9a-z.-]{0,40}",
        ) {
            let bytes = format!("{field}{behind}");
            let found = kind_of_plain_value(bytes.as_bytes(), field.len());
            let expected = kind(field.as_bytes());
            prop_assert!(found.is_none_or(|found| found == expected), "{:?} {:?}", found, expected);
            let is_plain = matches!(expected, Kind::Int { .. } | Kind::Float | Kind::Bool);
            if is_plain && field.len() <= 18 && !field.to_lowercase().ends_with("inf") {
                prop_assert_eq!(found, Some(expected));
            }
        }

        #[test]
        fn decimals_are_rounded_correctly(text in "-?[0-9]{0,18}(\\.[0-9]{0,18})?(e-?[0-9]{1,3})?") {
            prop_assume!(text.bytes().any(|byte| byte.is_ascii_digit()));
            if let Ok(expected) = text.parse::<f64>() {
                prop_assert_eq!(float(text.as_bytes()).map(f64::to_bits), Some(expected.to_bits()), "{}", text);
            }
        }

        #[test]
        fn whole_numbers_are_read_exactly(value: i64, unsigned: u64) {
            prop_assert_eq!(int64(value.to_string().as_bytes()), Some(value));
            prop_assert_eq!(uint64(unsigned.to_string().as_bytes()), Some(unsigned));
            prop_assert_eq!(int64(unsigned.to_string().as_bytes()), i64::try_from(unsigned).ok());
        }
    }
}
