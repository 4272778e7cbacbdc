//! The commands: each a function from arguments to an exit code.

mod inspect;
mod run;
mod validate;

use std::process::ExitCode;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::cli::{Arguments, Command, Servers};
use crate::failure::Failure;

/// What to log on standard error.
const LOG_VARIABLE: &str = "PRS_LOG";

/// Does what the command line says.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::WARN.into())
        .with_env_var(LOG_VARIABLE)
        .from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let format = arguments.output;
    runtime.block_on(async {
        match arguments.command {
            Command::Submit(submit) => run::submit(&submit, format).await,
            Command::Resume(resume) => run::resume(&resume, format).await,
            Command::Validate(validate) => validate::validate(&validate, format),
            Command::Result(fetch) => inspect::result(&fetch, format).await,
            Command::Status(job) => inspect::status(&job, format).await,
            Command::List(list) => inspect::list(&list, format).await,
            Command::Logs(logs) => inspect::logs(&logs, format),
        }
    })
}

/// Embedded when no server is named. One or two of three are a mistake.
fn embedded_only(servers: &Servers) -> Result<(), Failure> {
    let named = [
        ("--broker (PRS_BROKER_URL)", &servers.broker),
        ("--redis (PRS_REDIS_URL)", &servers.redis),
        ("--storage (PRS_STORAGE_URL)", &servers.storage),
    ];
    let missing: Vec<&str> = named.iter().filter(|(_, url)| url.is_none()).map(|(name, _)| *name).collect();
    match missing.len() {
        3 => Ok(()),
        0 => Err(Failure::wrong(
            "running on a fleet is not supported yet; leave out --broker, --redis and --storage to run the job here",
        )),
        _ => Err(Failure::wrong(format!(
            "a fleet needs broker, redis and storage; missing: {}; give all three, or none to run the job here",
            missing.join(", ")
        ))),
    }
}
