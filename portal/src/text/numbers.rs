//! Numbers with their units: thin spaces between groups of digits, and no more digits than say something.

/// Between groups of digits, and between a number and its unit: a narrow space that no line breaks at.
const THIN: char = '\u{202f}';

/// `1 234 567`, with thin spaces. Four digits stand together.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut out = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(digit);
    }
    out
}

/// `1 item`, `12 345 items`, `2 mini-batches`, `2 tries`.
pub fn counted(number: u64, what: &str) -> String {
    let plural = match what {
        _ if number == 1 => what.to_owned(),
        _ if what.ends_with("ch") || what.ends_with('s') => format!("{what}es"),
        _ if what.ends_with('y') => format!("{}ies", &what[..what.len() - 1]),
        _ => format!("{what}s"),
    };
    format!("{} {plural}", count(number))
}

/// `41.2 %`, of which 100 is said only of all, and 0 only of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "\u{2013}".to_owned();
    }
    if part >= whole {
        return format!("100{THIN}%");
    }
    if part == 0 {
        return format!("0{THIN}%");
    }
    let tenths = u128::from(part) * 1_000 / u128::from(whole);
    match tenths {
        0 => format!("<{THIN}0.1{THIN}%"),
        tenths if tenths.is_multiple_of(10) => format!("{}{THIN}%", tenths / 10),
        tenths => format!("{}.{}{THIN}%", tenths / 10, tenths % 10),
    }
}

/// A number of about three digits that says something: `8 130`, `812`, `8.1`, `0.42`.
pub fn short(number: f64) -> String {
    match number.abs() {
        100.0.. => count(number.round().abs() as u64),
        1.0.. => trimmed(&format!("{number:.1}")),
        _ => trimmed(&format!("{number:.2}")),
    }
}

/// A number without the zeros at the end of its fraction.
fn trimmed(text: &str) -> String {
    let is_fraction = text.contains('.');
    let text = if is_fraction { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    text.to_owned()
}

/// `812.5/s`; below one a second `1 every 4.2 s`.
pub fn per_second(rate: f64) -> String {
    match rate {
        rate if !rate.is_finite() || rate <= 0.0 => "0/s".to_owned(),
        1.0.. => format!("{}/s", short(rate)),
        _ => format!("1 every {}", super::times::duration(1.0 / rate)),
    }
}

/// `1.2 GB`, in steps of a thousand.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (bytes as f64, 0);
    // 999.95 would be written as 1000.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        (size, unit) = (size / 1_000.0, unit + 1);
    }
    let number =
        if unit == 0 || size >= 100.0 { format!("{size:.0}") } else { trimmed(&format!("{size:.1}")) };
    format!("{number}{THIN}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With plain spaces, so that tables can be read.
    fn plain(text: impl AsRef<str>) -> String {
        text.as_ref().replace(THIN, " ")
    }

    #[test]
    fn digits_stand_in_groups() {
        for (number, expected) in [
            (0, "0"),
            (1_234, "1234"),
            (12_345, "12 345"),
            (1_000_000, "1 000 000"),
            (u64::MAX, "18 446 744 073 709 551 615"),
        ] {
            assert_eq!(plain(count(number)), expected);
        }
        for (number, what, expected) in [
            (1, "item", "1 item"),
            (2, "try", "2 tries"),
            (0, "mini-batch", "0 mini-batches"),
            (10_000, "node", "10 000 nodes"),
        ] {
            assert_eq!(plain(counted(number, what)), expected);
        }
    }

    #[test]
    fn a_hundred_percent_is_all_and_none_is_nothing() {
        for (part, whole, expected) in [
            (0, 10, "0 %"),
            (1, 10_000_000, "< 0.1 %"),
            (412, 1_000, "41.2 %"),
            (1, 2, "50 %"),
            (9_999_999, 10_000_000, "99.9 %"),
            (10, 10, "100 %"),
            (u64::MAX - 1, u64::MAX, "99.9 %"),
            (0, 0, "\u{2013}"),
        ] {
            assert_eq!(plain(percent(part, whole)), expected);
        }
    }

    #[test]
    fn rates_and_sizes_say_what_matters() {
        for (rate, expected) in [
            (0.0, "0/s"),
            (f64::NAN, "0/s"),
            (0.24, "1 every 4.2 s"),
            (0.01, "1 every 1 min 40 s"),
            (1.0, "1/s"),
            (8.13, "8.1/s"),
            (812.46, "812/s"),
            (81_304.6, "81 305/s"),
        ] {
            assert_eq!(plain(per_second(rate)), expected);
        }
        for (size, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1 kB"),
            (999_949, "1 MB"),
            (1_250_000, "1.2 MB"),
            (123_456_789, "123 MB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(plain(bytes(size)), expected);
        }
    }
}
