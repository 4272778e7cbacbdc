//! Points in time as the logs and reports show them: UTC, ISO 8601.
//!
//! Written by hand because a report has one for each of millions of tries.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since the Unix epoch.
pub fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Appends `2026-11-21T10:20:12.123456Z`.
pub fn push_us(out: &mut String, us: u64) {
    let seconds = us / 1_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    let in_day = seconds % 86_400;
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    digits(&mut text[0..4], year);
    digits(&mut text[5..7], month);
    digits(&mut text[8..10], day);
    digits(&mut text[11..13], in_day / 3600);
    digits(&mut text[14..16], in_day / 60 % 60);
    digits(&mut text[17..19], in_day % 60);
    digits(&mut text[20..26], us % 1_000_000);
    out.push_str(std::str::from_utf8(&text).expect("ASCII"));
}

/// `2026-11-21T10:20:12.123456Z`.
pub fn format_us(us: u64) -> String {
    let mut out = String::with_capacity(27);
    push_us(&mut out, us);
    out
}

/// `20261121`, the day in UTC.
pub fn format_day(us: u64) -> String {
    let (year, month, day) = civil(us / 1_000_000 / 86_400);
    format!("{year:04}{month:02}{day:02}")
}

/// Appends microseconds as seconds, with six decimals.
pub fn push_seconds(out: &mut String, us: u64) {
    use std::fmt::Write;
    let mut decimals = *b"000000";
    digits(&mut decimals, us % 1_000_000);
    let decimals = std::str::from_utf8(&decimals).expect("ASCII");
    write!(out, "{}.{decimals}", us / 1_000_000).expect("writing to a string cannot fail");
}

fn digits(place: &mut [u8], mut value: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Year, month and day of the day that is `days` after 1970-01-01, by counting from March in 400-year eras.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_calendar_library() {
        for us in (0..4_102_444_800_000_000).step_by(7_777_777_777_777).chain([951_782_400_000_000]) {
            let expected = jiff::Timestamp::from_microsecond(us as i64).unwrap();
            assert_eq!(format_us(us), expected.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
            assert_eq!(format_day(us), expected.strftime("%Y%m%d").to_string());
        }
        let mut out = String::new();
        push_seconds(&mut out, 12_000_345);
        assert_eq!(out, "12.000345");
    }
}
