//! The configuration of a user: named profiles of servers, and which of them a command uses.
//!
//! ```yaml
//! default_profile: staging
//! profiles:
//!   staging:
//!     broker: amqp://prs:${BROKER_PASSWORD}@mq.example.org/prs
//!     redis: rediss://prs@redis.example.org/0
//!     redis_password_file: redis.password
//!     storage: s3://jobs/staging
//!     s3: {endpoint: "https://minio.example.org:9000", region: eu-central-1, aws_profile: prs}
//! datastores:
//!   pictures: s3://pictures/2024
//! ```
//!
//! | module | duty |
//! |---|---|
//! | `file` | a configuration file: where it is, whether it may be used, what it says |
//! | `names` | what names in job files stand for: references, datastores, computes |
//! | `url` | URLs with references to variables, and without their passwords |
//! | `choice` | what a command uses: options, the profile of `--profile`, variables, another profile |
//! | `passwords` | which variables bring passwords |
//!
//! Nothing is connected to.

mod choice;
mod file;
mod names;
mod passwords;
#[cfg(test)]
mod tests;
mod url;

use std::path::PathBuf;

use crate::job::JobFileError;

pub use choice::{Choice, Options, ProfileInUse, Server, Source, choose, names};
pub use file::{ConfigFile, ConfigValue, Profile};
pub use names::{Datastore, NamesOfFile};
pub use passwords::{find_password_variables, password_variables};
pub use url::without_password;

/// Names the configuration file, in place of `--config`.
pub const CONFIG_VARIABLE: &str = "PRS_CONFIG";
/// Names the profile, in place of `--profile`.
pub const PROFILE_VARIABLE: &str = "PRS_PROFILE";

/// Why a configuration cannot be used. Never retryable: the configuration, or the command, has to change.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Other users could write into the file.
    #[error(
        "the configuration file {} {why}, so others could send your jobs elsewhere: {remedy}, or name another file with --config",
        path.display()
    )]
    Unsafe {
        /// The file.
        path: PathBuf,
        /// How they could, as the end of a sentence.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// What is wrong in a file, all of it.
    #[error(transparent)]
    Malformed(#[from] JobFileError),
    /// No file has the profile.
    #[error("there is no profile {name:?} ({named_by}): {remedy}")]
    NoProfile {
        /// The profile.
        name: String,
        /// Who names it.
        named_by: String,
        /// What to do.
        remedy: String,
    },
    /// A value of the profile that is used cannot be completed.
    #[error("{}:{line}: {key}: {message}", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The line of the key.
        line: usize,
        /// The key.
        key: String,
        /// The reason.
        message: String,
    },
}
