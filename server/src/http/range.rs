//! Which bytes of a file are asked for (RFC 9110, 14.1.2): one range. Several at once, and other units, are as if none were asked for.

use std::ops::Range;

use axum::http::HeaderMap;
use axum::http::header::RANGE;

/// What a request wants of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All of it.
    All,
    /// These bytes, all of which are there.
    Part(Range<u64>),
    /// Bytes behind its end.
    Nothing,
}

/// What of a file of `size` bytes a request with `headers` wants.
pub(crate) fn asked(headers: &HeaderMap, size: u64) -> Asked {
    let range = headers
        .get(RANGE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("bytes="));
    let Some((from, to)) =
        range.filter(|range| !range.contains(',')).and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::All;
    };
    let range = match (from.trim(), to.trim()) {
        ("", last) => match last.parse::<u64>() {
            Ok(0) => return Asked::Nothing,
            Ok(last) => size.saturating_sub(last)..size,
            Err(_) => return Asked::All,
        },
        (from, "") => match from.parse() {
            Ok(from) => from..size,
            Err(_) => return Asked::All,
        },
        (from, to) => match (from.parse::<u64>(), to.parse::<u64>()) {
            (Ok(from), Ok(to)) if from <= to => from..to.saturating_add(1).min(size),
            _ => return Asked::All,
        },
    };
    if range.is_empty() { Asked::Nothing } else { Asked::Part(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood() {
        let table = [
            (None, Asked::All),
            (Some("bytes=0-9"), Asked::Part(0..10)),
            (Some("bytes=90-"), Asked::Part(90..100)),
            (Some("bytes=-5"), Asked::Part(95..100)),
            (Some("bytes=-500"), Asked::Part(0..100)),
            (Some("bytes=99-200"), Asked::Part(99..100)),
            (Some("bytes=100-"), Asked::Nothing),
            (Some("bytes=100-18446744073709551615"), Asked::Nothing),
            (Some("bytes=-0"), Asked::Nothing),
            (Some("bytes=9-0"), Asked::All),
            (Some("bytes=0-1,5-6"), Asked::All),
            (Some("lines=0-9"), Asked::All),
            (Some("bytes=x-y"), Asked::All),
        ];
        for (given, expected) in table {
            let mut headers = HeaderMap::new();
            headers.extend(given.map(|given| (RANGE, given.parse().unwrap())));
            assert_eq!(asked(&headers, 100), expected, "{given:?}");
        }
    }
}
