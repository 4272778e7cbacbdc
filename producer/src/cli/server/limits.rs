//! What can be said of how much a server takes: requests, their sizes, and the time for them.

use std::time::Duration;

use clap::Args;
use prs_server::{Limits, Sizes, Times};

/// The heading of these options.
const LIMITS: &str = "Limits";
/// Units of sizes.
const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
/// Least and most bytes: what is less would refuse what the pages send, and what is more no storage takes at once.
const BODY: (u64, u64) = (64 << 10, 5 << 30);
/// The same of addresses and headers, which lie in memory for each connection.
const HEAD: (u64, u64) = (8 << 10, 1 << 20);

/// Limits of a server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = LIMITS)]
pub(crate) struct ServeLimits {
    /// Requests a second of one token or session that change nothing; twice as many at once.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    read_rate: u32,
    /// Requests a second of one token or session that change something; four times as many at once.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    write_rate: u32,
    /// Requests a second of an address that does not say who asks; three times as many at once.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    stranger_rate: u32,
    /// Wrong tokens and logins of an address in a minute; after them no more of them are looked up, and get 429.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    max_wrong_tokens: u32,
    /// Requests that may be under way together; more get 503.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_requests: u32,
    /// The same of one token or session.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    max_requests_of_one: u32,
    /// Searches in logs of one token or session that may be under way together; more get 429.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    max_searches_of_one: u32,
    /// Previews of files of one token or session that may be under way together; more get 429.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    max_previews_of_one: u32,
    /// Streams of events that may be open together; more get 429.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    max_streams: u32,
    /// The same of one token or session.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    max_streams_of_one: u32,
    /// Connections that may be open together; more are closed.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Bytes of a body of JSON, or with KiB, MiB, GiB behind the number; more get 413.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = body)]
    max_json: u64,
    /// The same of a body of YAML, and of a field of a form that is no file.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = body)]
    max_yaml: u64,
    /// The same of a form with files.
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = body)]
    max_form: u64,
    /// The same of a blob, a file that is sent before what needs it.
    #[arg(long, value_name = "SIZE", default_value = "5GiB", value_parser = body)]
    max_blob: u64,
    /// Bytes of an address with its query; longer ones get 414.
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = head)]
    max_address: u64,
    /// Bytes of an address and the headers of a request; longer ones get 431.
    #[arg(long, value_name = "SIZE", default_value = "32KiB", value_parser = head)]
    max_headers: u64,
    /// Seconds until the answer to a request that changes nothing begins; one that takes longer gets 503.
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    read_timeout: u32,
    /// The same for requests that change something.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    write_timeout: u32,
    /// The same for those that hand in jobs, code or files; where files come along they have half an hour.
    #[arg(long, value_name = "S", default_value_t = 75, value_parser = clap::value_parser!(u32).range(1..))]
    hand_in_timeout: u32,
    /// Seconds in which no byte of an upload comes, or none of an answer is taken, until its client is left.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    idle_timeout: u32,
    /// Seconds after which a stream of events ends; clients come again.
    #[arg(long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..))]
    stream_timeout: u32,
}

impl From<&ServeLimits> for Limits {
    fn from(of: &ServeLimits) -> Self {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            reads: of.read_rate,
            writes: of.write_rate,
            strangers: of.stranger_rate,
            guesses: of.max_wrong_tokens,
            at_once: of.max_requests,
            at_once_of_one: of.max_requests_of_one,
            searches: of.max_searches_of_one,
            previews: of.max_previews_of_one,
            streams: (of.max_streams, of.max_streams_of_one),
            connections: of.max_connections,
            times: Times {
                read: seconds(of.read_timeout),
                write: seconds(of.write_timeout),
                handing_in: seconds(of.hand_in_timeout),
                idle: seconds(of.idle_timeout),
                stream: seconds(of.stream_timeout),
            },
            sizes: Sizes {
                json: size(of.max_json),
                yaml: size(of.max_yaml),
                form: size(of.max_form),
                blob: of.max_blob,
                address: size(of.max_address),
                headers: size(of.max_headers),
            },
        }
    }
}

fn body(text: &str) -> Result<u64, String> {
    size(text, BODY)
}

fn head(text: &str) -> Result<u64, String> {
    size(text, HEAD)
}

/// A number of bytes, or of one of the units.
fn size(text: &str, (least, most): (u64, u64)) -> Result<u64, String> {
    let (number, unit) =
        UNITS.iter().find_map(|(word, unit)| Some((text.strip_suffix(word)?, *unit))).unwrap_or((text, 1));
    let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| (least..=most).contains(bytes)).ok_or_else(|| {
        format!(
            "it is no size between {} KiB and {} KiB: give bytes, or 64KiB, 4MiB, 5GiB",
            least >> 10,
            most >> 10
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        limits: ServeLimits,
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        for (text, expected) in [
            ("65536", Some(64 << 10)),
            ("64KiB", Some(64 << 10)),
            ("4 MiB", Some(4 << 20)),
            ("5GiB", Some(5 << 30)),
            ("6GiB", None),
            ("1KiB", None),
            ("1MB", None),
            ("-1", None),
            ("99999999999999999999GiB", None),
        ] {
            assert_eq!(body(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn what_nobody_says_is_what_a_server_takes_by_itself() {
        let limits = Limits::from(&Words::parse_from(["prs"]).limits);
        assert_eq!(format!("{limits:?}"), format!("{:?}", Limits::DEFAULT));
    }
}
