//! What is logged on standard error, and in which form.

mod json;

use std::ffi::OsString;
use std::io;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

use json::JsonLines;

/// What to log on standard error.
const LOG_VARIABLE: &str = "PRS_LOG";
/// In which form.
const FORMAT_VARIABLE: &str = "PRS_LOG_FORMAT";
/// What events lie in, as a part that logs: asked for where lines have fields for it.
const SURROUNDINGS: &str = "context=trace";
/// How the parts that log are called, or begin.
const PARTS: [&str; 8] = ["prs", "aws", "h2", "hyper", "lapin", "redis", "rustls", "tokio"];

/// How much is logged where `PRS_LOG` does not say it. What the clients of the broker
/// and of S3 have to say comes as our own errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// What went wrong.
    Error,
    /// And what may go wrong.
    Warn,
    /// And what is done.
    Info,
    /// And how.
    Debug,
    /// And every step.
    Trace,
}

impl Level {
    const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// This level, as many higher or lower as the command line wants.
    pub(crate) fn as_told(self, quiet: bool, verbose: u8) -> Self {
        let level = (self as usize).saturating_sub(quiet.into()) + usize::from(verbose);
        Self::ALL.get(level).copied().unwrap_or(Self::Trace)
    }

    fn filter(self) -> &'static str {
        match self {
            Self::Error => "error,lapin=off,aws_config=error",
            Self::Warn => "warn,lapin=off,aws_config=error",
            Self::Info => "warn,lapin=off,aws_config=error,prs=info",
            Self::Debug => "warn,lapin=off,aws_config=error,prs=debug",
            Self::Trace => "debug,lapin=off,aws_config=error,prs=trace",
        }
    }
}

/// What `PRS_LOG` says cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error(
    "{LOG_VARIABLE}={} cannot be understood: {reason}; give a level, or one for each part, as in {LOG_VARIABLE}=info or {LOG_VARIABLE}=warn,prs_common=debug",
    value.display()
)]
pub(crate) struct BadLogFilter {
    value: OsString,
    reason: String,
}

/// What `PRS_LOG_FORMAT` says is no form of lines.
#[derive(Debug, thiserror::Error)]
#[error("{FORMAT_VARIABLE}={} is no form of log lines; give text, or json for one object a line", .0.display())]
pub(crate) struct BadLogFormat(OsString);

/// Why nothing is logged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadLog {
    /// What is to be logged cannot be understood.
    #[error(transparent)]
    Filter(#[from] BadLogFilter),
    /// The form cannot.
    #[error(transparent)]
    Format(#[from] BadLogFormat),
}

/// The form of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Logs on standard error from here on: what `PRS_LOG` says, or else as much as `usual`, as `PRS_LOG_FORMAT` says.
pub(crate) fn log(usual: Level) -> Result<(), BadLog> {
    let filter = filter(std::env::var_os(LOG_VARIABLE).unwrap_or_default(), usual)?;
    match format(std::env::var_os(FORMAT_VARIABLE).unwrap_or_default())? {
        Format::Text => {
            // A line that standard error does not take is lost: nothing can be said of it there.
            let lines = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
            lines.with_writer(io::stderr).with_target(false).init();
        }
        Format::Json => {
            let surroundings = SURROUNDINGS.parse().expect("a part and a level make a filter");
            Registry::default().with(filter.add_directive(surroundings)).with(JsonLines).init();
        }
    }
    Ok(())
}

fn format(named: OsString) -> Result<Format, BadLogFormat> {
    match named.to_str() {
        Some("" | "text") => Ok(Format::Text),
        Some("json") => Ok(Format::Json),
        _ => Err(BadLogFormat(named)),
    }
}

fn filter(named: OsString, usual: Level) -> Result<EnvFilter, BadLogFilter> {
    if named.is_empty() {
        return Ok(EnvFilter::new(usual.filter()));
    }
    let refused = |value, reason: &dyn std::fmt::Display| BadLogFilter { value, reason: reason.to_string() };
    let named = named.into_string().map_err(|value| refused(value, &"it is not UTF-8"))?;
    if let Some(word) = named.split(',').map(str::trim).find(|word| !is_known(word)) {
        let reason = format!("{word} is no level, and no part that logs");
        return Err(refused(named.into(), &reason));
    }
    EnvFilter::try_new(&named).map_err(|error| refused(named.into(), &error))
}

/// Whether a word of a filter is one that [`EnvFilter`] can mean something by: it takes any that stands alone for a part.
fn is_known(word: &str) -> bool {
    let is_part = || PARTS.iter().any(|part| word.starts_with(part));
    word.is_empty() || word.contains(['=', '[']) || word.parse::<LevelFilter>().is_ok() || is_part()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_understood_is_refused_by_its_value() {
        for (named, expected) in [
            ("", "aws_config=error,lapin=off,warn"),
            ("info", "info"),
            ("off,prs_common=debug", "prs_common=debug,off"),
        ] {
            assert_eq!(filter(named.into(), Level::Warn).unwrap().to_string(), expected, "{named:?}");
        }
        for word in ["info,lapin", "prs_common,warn", "2", "[span]"] {
            assert!(filter(word.into(), Level::Warn).is_ok(), "{word}");
        }
        for word in ["banana", "warn,bananas", "inof"] {
            let error = filter(word.into(), Level::Warn).unwrap_err().to_string();
            assert!(error.contains("no level") && error.contains("PRS_LOG=info"), "{error}");
        }
        let error = filter("prs_common=loud".into(), Level::Warn).unwrap_err().to_string();
        assert!(
            error.starts_with("PRS_LOG=prs_common=loud cannot") && error.contains("PRS_LOG=info"),
            "{error}"
        );
    }

    #[test]
    fn lines_are_text_or_json() {
        for (named, expected) in [("", Format::Text), ("text", Format::Text), ("json", Format::Json)] {
            assert_eq!(format(named.into()).unwrap(), expected);
        }
        for named in ["JSON", "logfmt", "json "] {
            let error = format(named.into()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("PRS_LOG_FORMAT={named} is no form")), "{error}");
        }
    }

    #[test]
    fn the_command_line_says_how_much_more_or_less() {
        for (quiet, verbose, of_a_command, of_a_worker) in [
            (false, 0, Level::Warn, Level::Info),
            (true, 0, Level::Error, Level::Warn),
            (false, 1, Level::Info, Level::Debug),
            (false, 2, Level::Debug, Level::Trace),
            (false, 9, Level::Trace, Level::Trace),
        ] {
            assert_eq!(Level::Warn.as_told(quiet, verbose), of_a_command, "{quiet} {verbose}");
            assert_eq!(Level::Info.as_told(quiet, verbose), of_a_worker, "{quiet} {verbose}");
        }
    }
}
