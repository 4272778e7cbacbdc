//! Points in time, in UTC, and durations.

use prs_common::timestamp::format_us;

/// Between a number and its unit.
const THIN: char = '\u{202f}';

/// `1 d 4 h`, `1 h 02 min`, `12 min 04 s`, `4.2 s`, `31 ms`, `7 µs`: never more than two units.
pub fn duration(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
    let whole = seconds.round() as u64;
    match whole {
        86_400.. => format!("{}{THIN}d {}{THIN}h", whole / 86_400, whole / 3_600 % 24),
        3_600.. => format!("{}{THIN}h {:02}{THIN}min", whole / 3_600, whole / 60 % 60),
        60.. => format!("{}{THIN}min {:02}{THIN}s", whole / 60, whole % 60),
        _ if seconds >= 9.95 => format!("{seconds:.0}{THIN}s"),
        _ if seconds >= 0.9995 => format!("{}{THIN}s", one_decimal(seconds)),
        _ if seconds >= 0.009_95 => format!("{:.0}{THIN}ms", seconds * 1e3),
        _ if seconds >= 0.000_999_5 => format!("{}{THIN}ms", one_decimal(seconds * 1e3)),
        _ if seconds > 0.0 => format!("{:.0}{THIN}\u{b5}s", (seconds * 1e6).max(1.0)),
        _ => format!("0{THIN}s"),
    }
}

fn one_decimal(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The same of microseconds.
pub fn duration_us(micros: u64) -> String {
    duration(micros as f64 / 1e6)
}

/// `12:20:05`, in UTC.
pub fn clock(us: u64) -> String {
    format_us(us)[11..19].to_owned()
}

/// `2026-11-21 12:20:05`, in UTC.
pub fn day_and_clock(us: u64) -> String {
    format_us(us)[..19].replace('T', " ")
}

/// `2026-11-21T12:20:05.123Z`: what the markup of a page takes, which knows no microseconds.
pub fn machine(us: u64) -> String {
    format!("{}Z", &format_us(us)[..23])
}

/// A point in time for people, with its zone, and for programs.
pub fn utc(us: u64) -> (String, String) {
    (format!("{} UTC", day_and_clock(us)), machine(us))
}

/// `21 Nov`, in UTC.
pub fn day(us: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = format_us(us);
    let month = text[5..7].parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    format!("{} {}", text[8..10].trim_start_matches('0'), month.unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, expected) in [
            (0.0, "0 s"),
            (-1.0, "0 s"),
            (f64::NAN, "0 s"),
            (0.000_000_2, "1 \u{b5}s"),
            (0.000_7, "700 \u{b5}s"),
            (0.004_2, "4.2 ms"),
            (0.031, "31 ms"),
            (0.9996, "1 s"),
            (4.23, "4.2 s"),
            (41.2, "41 s"),
            (59.6, "1 min 00 s"),
            (724.0, "12 min 04 s"),
            (3_725.0, "1 h 02 min"),
            (100_800.0, "1 d 4 h"),
        ] {
            assert_eq!(duration(seconds).replace(THIN, " "), expected, "{seconds}");
        }
    }

    #[test]
    fn points_in_time_are_read_in_utc() {
        let at = 1_763_719_212_123_456;
        assert_eq!((clock(at).as_str(), day_and_clock(at).as_str()), ("10:00:12", "2025-11-21 10:00:12"));
        assert_eq!(machine(at), "2025-11-21T10:00:12.123Z");
        assert_eq!(day(at), "21 Nov");
        assert_eq!(day(0), "1 Jan");
    }
}
