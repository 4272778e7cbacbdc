//! Times without a time zone as pandas writes them.
//!
//! Times that are formatted together look alike: dates only when all are midnights, else with seconds and
//! as many digits after them (none, 3, 6 or 9) as any of them needs.

use arrow_schema::TimeUnit;

use super::number::write_int;

/// How much of a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precision {
    Date,
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

/// How many of `unit` make a second.
fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The precision that shows all of `times`.
pub(super) fn precision(times: impl Iterator<Item = i64>, unit: TimeUnit) -> Precision {
    let second = per_second(unit);
    times.fold(Precision::Date, |precision, time| {
        let fraction = time.rem_euclid(second) * (1_000_000_000 / second);
        precision.max(if fraction % 1_000 != 0 {
            Precision::Nanoseconds
        } else if fraction % 1_000_000 != 0 {
            Precision::Microseconds
        } else if fraction != 0 {
            Precision::Milliseconds
        } else if time.rem_euclid(86_400 * second) != 0 {
            Precision::Seconds
        } else {
            Precision::Date
        })
    })
}

/// Writes times; remembers the last date, which the next time often shares.
#[derive(Debug, Clone)]
pub(super) struct TimeFormat {
    unit: TimeUnit,
    precision: Precision,
    day: i64,
    date: Vec<u8>,
}

impl TimeFormat {
    pub(super) fn new(unit: TimeUnit, precision: Precision) -> Self {
        let mut date = vec![];
        write_date(0, &mut date);
        Self { unit, precision, day: 0, date }
    }

    pub(super) fn unit(&self) -> TimeUnit {
        self.unit
    }

    /// Appends a time.
    pub(super) fn write(&mut self, time: i64, out: &mut Vec<u8>) {
        let second = per_second(self.unit);
        let (seconds, fraction) = (time.div_euclid(second), time.rem_euclid(second));
        let (day, seconds) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        if day != self.day {
            self.day = day;
            self.date.clear();
            write_date(day, &mut self.date);
        }
        out.extend_from_slice(&self.date);
        if self.precision == Precision::Date {
            return;
        }
        let mut text = *b" hh:mm:ss.nnnnnnnnn";
        write_digits(seconds / 3_600, &mut text[1..3]);
        write_digits(seconds / 60 % 60, &mut text[4..6]);
        write_digits(seconds % 60, &mut text[7..9]);
        write_digits(fraction * (1_000_000_000 / second), &mut text[10..]);
        let length = match self.precision {
            Precision::Date | Precision::Seconds => 9,
            Precision::Milliseconds => 13,
            Precision::Microseconds => 16,
            Precision::Nanoseconds => 19,
        };
        out.extend_from_slice(&text[..length]);
    }
}

/// Writes the last digits of `value`, with zeros in front.
fn write_digits(mut value: i64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Appends the date of a day counted from 1970-01-01, in the Gregorian calendar carried on both ways.
fn write_date(day: i64, out: &mut Vec<u8>) {
    // Count from 0000-03-01, so that a leap day ends its year, and by cycles of 400 years.
    let day = day + 719_468;
    let (cycle, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = cycle * 400 + year + carry;
    if (0..10_000).contains(&year) {
        let mut digits = [0; 4];
        write_digits(year, &mut digits);
        out.extend_from_slice(&digits);
    } else if (-999..0).contains(&year) {
        // pandas counts the sign among the four places.
        let mut digits = [0; 3];
        write_digits(-year, &mut digits);
        out.push(b'-');
        out.extend_from_slice(&digits);
    } else {
        write_int(year, out);
    }
    let mut text = *b"-mm-dd";
    write_digits(month, &mut text[1..3]);
    write_digits(day_of_month, &mut text[4..6]);
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

    fn shown(times: &[i64], unit: TimeUnit) -> Vec<String> {
        let mut format = TimeFormat::new(unit, precision(times.iter().copied(), unit));
        let text = |&time: &i64| {
            let mut out = vec![];
            format.write(time, &mut out);
            String::from_utf8(out).unwrap()
        };
        times.iter().map(text).collect()
    }

    #[test]
    fn times_are_those_of_pandas() {
        let table: [(&[i64], TimeUnit, &[&str]); 14] = [
            (&[0, 86_400], Second, &["1970-01-01", "1970-01-02"]),
            (&[1, -1], Second, &["1970-01-01 00:00:01", "1969-12-31 23:59:59"]),
            (&[1_000_000_000_001], Second, &["33658-09-27 01:46:41"]),
            (&[-62_135_596_801], Second, &["0000-12-31 23:59:59"]),
            (&[-63_000_000_000, -70_000_000_000], Second, &["-027-08-11 08:00:00", "-249-10-15 19:33:20"]),
            (&[-100_000_000_000], Second, &["-1199-02-15 14:13:20"]),
            (&[1_000, 1], Millisecond, &["1970-01-01 00:00:01.000", "1970-01-01 00:00:00.001"]),
            (&[60_000], Millisecond, &["1970-01-01 00:01:00"]),
            (&[1_000], Microsecond, &["1970-01-01 00:00:00.001"]),
            (&[-1], Microsecond, &["1969-12-31 23:59:59.999999"]),
            (&[1_000], Nanosecond, &["1970-01-01 00:00:00.000001"]),
            (&[1, 0], Nanosecond, &["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000000000"]),
            (&[951_782_400, 951_868_800], Second, &["2000-02-29", "2000-03-01"]),
            (&[4_107_456_000, 4_107_542_400], Second, &["2100-02-28", "2100-03-01"]),
        ];
        for (times, unit, expected) in table {
            assert_eq!(shown(times, unit), expected, "{times:?} {unit:?}");
        }
    }
}
