//! What the command lines of `prs-worker` and `prs-producer` share: the servers of a fleet, and what is logged.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::process::exit;

use clap::{Args, Parser};
use prs_common::servers::{ConnectError, ServerUrls};
use tracing_subscriber::EnvFilter;

/// What to log on standard error.
const LOG_VARIABLE: &str = "PRS_LOG";
/// Exit code where a help that was asked for cannot be written.
const UNWRITTEN: i32 = 42;

/// The arguments of the program. Wrong ones end it, and so does the wish for help or its version.
pub fn parse<P: Parser>() -> P {
    P::try_parse().unwrap_or_else(|error| {
        let written = error.print().and_then(|()| io::stdout().flush());
        let is_lost = written.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
        exit(if is_lost && !error.use_stderr() { UNWRITTEN } else { error.exit_code() })
    })
}

/// The servers of a fleet.
#[derive(Debug, Clone, Args)]
pub struct Servers {
    /// RabbitMQ, as in `amqp://user:password@host/vhost`.
    #[arg(long, env = "PRS_BROKER_URL", hide_env_values = true)]
    broker: Option<String>,
    /// Redis, as in `redis://user:password@host/0`.
    #[arg(long, env = "PRS_REDIS_URL", hide_env_values = true)]
    redis: Option<String>,
    /// Object storage, as in `s3://bucket/prefix` or `file:///shared/folder`.
    #[arg(long, env = "PRS_STORAGE_URL", hide_env_values = true)]
    storage: Option<String>,
}

impl Servers {
    /// All three, or an error that names what is missing.
    pub fn urls(&self) -> Result<ServerUrls, ConnectError> {
        ServerUrls::all(self.broker.clone(), self.redis.clone(), self.storage.clone())
    }

    /// The same; nothing where none is named. An empty variable names none.
    pub fn urls_if_any(&self) -> Result<Option<ServerUrls>, ConnectError> {
        let Self { broker, redis, storage } = self;
        if [broker, redis, storage].into_iter().flatten().all(String::is_empty) {
            return Ok(None);
        }
        self.urls().map(Some)
    }
}

/// What `PRS_LOG` says cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error(
    "{LOG_VARIABLE}={} cannot be understood: {reason}; give a level, or one for each part, as in {LOG_VARIABLE}=info or {LOG_VARIABLE}=warn,prs_common=debug",
    value.display()
)]
pub struct BadLogFilter {
    value: OsString,
    reason: String,
}

/// Logs on standard error from here on: what `PRS_LOG` says, or else what is `usual`.
pub fn log(usual: &str) -> Result<(), BadLogFilter> {
    let filter = filter(std::env::var_os(LOG_VARIABLE).unwrap_or_default(), usual)?;
    // A line that standard error does not take is lost: nothing can be said of it there.
    let lines = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
    lines.with_writer(io::stderr).with_target(false).init();
    Ok(())
}

fn filter(named: OsString, usual: &str) -> Result<EnvFilter, BadLogFilter> {
    if named.is_empty() {
        return Ok(EnvFilter::new(usual));
    }
    let refused = |value, reason: &dyn std::fmt::Display| BadLogFilter { value, reason: reason.to_string() };
    let named = named.into_string().map_err(|value| refused(value, &"it is not UTF-8"))?;
    EnvFilter::try_new(&named).map_err(|error| refused(named.into(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_understood_is_refused_by_its_value() {
        for (named, expected) in
            [("", "warn"), ("info", "info"), ("off,prs_common=debug", "prs_common=debug,off")]
        {
            assert_eq!(filter(named.into(), "warn").unwrap().to_string(), expected, "{named:?}");
        }
        let error = filter("prs_common=loud".into(), "warn").unwrap_err().to_string();
        assert!(
            error.starts_with("PRS_LOG=prs_common=loud cannot") && error.contains("PRS_LOG=info"),
            "{error}"
        );
    }

    #[test]
    fn some_servers_are_no_fleet() {
        let servers = |broker: Option<&str>, redis: Option<&str>, storage: Option<&str>| {
            let [broker, redis, storage] = [broker, redis, storage].map(|url| url.map(str::to_owned));
            Servers { broker, redis, storage }
        };
        assert!(servers(None, Some(""), None).urls_if_any().unwrap().is_none());
        assert!(servers(None, None, None).urls().is_err());
        assert!(servers(Some("x"), Some(""), None).urls_if_any().is_err());
        assert!(servers(Some("x"), Some("x"), Some("x")).urls_if_any().unwrap().is_some());
    }
}
