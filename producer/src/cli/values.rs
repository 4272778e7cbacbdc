//! Values that options take.

use std::net::SocketAddr;
use std::time::Duration;

use prs_common::job::check_target;
use prs_common::ledger::JobState;

pub(super) fn state(text: &str) -> Result<JobState, String> {
    let known = JobState::ALL.map(JobState::as_str);
    let of_this_name = JobState::ALL.into_iter().find(|state| state.as_str() == text);
    of_this_name.ok_or_else(|| format!("it is one of {}", known.join(", ")))
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let parse = |(unit, seconds)| Some(text.strip_suffix(unit)?.parse::<u64>().ok()?.saturating_mul(seconds));
    let seconds = units.into_iter().find_map(parse);
    seconds.map(Duration::from_secs).ok_or_else(|| "give a number and s, m, h or d, as in 2d".to_owned())
}

pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(key, _)| !key.trim().is_empty())
        .map(|(key, value)| (key.trim().to_owned(), value.to_owned()))
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))
}

pub(super) fn target(name: &str) -> Result<String, String> {
    check_target(name).map(|()| name.to_owned())
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an address of this host and a port, as in 127.0.0.1:9465, or 0.0.0.0:9465 for all of its addresses".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood_or_refused() {
        assert_eq!(key_value("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(["a", "=b"].iter().all(|text| key_value(text).is_err()));
        assert_eq!(state("failed"), Ok(JobState::Failed));
        assert!(state("broken").unwrap_err().contains("queued, "));
        let times = [("90s", 90), ("30m", 1800), ("2d", 172_800)];
        assert!(times.iter().all(|(text, seconds)| time(text) == Ok(Duration::from_secs(*seconds))));
        assert!(["", "d", "2", "-1d", "2w"].iter().all(|text| time(text).is_err()));
        assert_eq!(address("[::1]:9465"), Ok(([0, 0, 0, 0, 0, 0, 0, 1], 9465).into()));
        for text in ["", "9465", ":9465", "localhost:9465", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(address(text).unwrap_err().contains("127.0.0.1:9465"), "{text}");
        }
    }
}
