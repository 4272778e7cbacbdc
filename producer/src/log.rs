//! What is logged on standard error.

use std::ffi::OsString;
use std::io;

use tracing_subscriber::EnvFilter;

/// What to log on standard error.
const LOG_VARIABLE: &str = "PRS_LOG";
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

/// Logs on standard error from here on: what `PRS_LOG` says, or else what is `usual`.
pub(crate) fn log(usual: &str) -> Result<(), BadLogFilter> {
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
}
