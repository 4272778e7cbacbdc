//! How S3 servers are reached, as the environment and the configuration say it. Nothing is connected to.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// Options for every bucket, as [`S3Options::set`] got them.
pub(super) static GIVEN: OnceLock<S3Options> = OnceLock::new();
/// Buckets that are reached in a way of their own.
pub(super) static OF_BUCKETS: OnceLock<BTreeMap<String, S3Options>> = OnceLock::new();

/// How an S3 server is reached. Everything that is absent is looked up where the AWS tools look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct S3Options {
    /// The server's URL; absent for AWS itself.
    pub endpoint: Option<String>,
    /// The region that requests are signed for; `us-east-1` when nothing names one.
    pub region: Option<String>,
    /// The profile of the AWS tools that credentials and region are taken from, where `AWS_PROFILE` names none.
    pub aws_profile: Option<String>,
    /// Whether the bucket stands in the host name also at an endpoint of one's own, which otherwise has it in
    /// the path.
    pub virtual_host: Option<bool>,
    /// A PEM file with certificates to trust beside those of the system.
    pub certificates: Option<PathBuf>,
    /// The key that signs requests.
    pub credentials: Option<S3Credentials>,
    /// Whether nobody does: requests are not signed, as a public bucket takes them.
    pub anonymous: bool,
    /// Whether credentials come from `aws_profile` alone, whatever variables say.
    pub is_profile_alone: bool,
    /// How long a refusal of what was accepted before may last before it counts as one; 5 minutes when nothing else is
    /// said.
    pub refusal_patience: Option<Duration>,
}

/// An access key and its secret, which no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Credentials {
    /// The key's name.
    pub access_key: String,
    /// The key itself.
    pub secret_key: String,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Credentials").finish_non_exhaustive()
    }
}

impl S3Options {
    /// Uses these, as a profile gives them, for every bucket that is opened from now on, where no variable says otherwise.
    /// Only the first call counts.
    pub fn set(self) {
        let _ = GIVEN.set(self);
    }

    /// Uses these for the buckets of these names that are opened from now on, whatever variables say. Only the first call
    /// counts.
    pub fn set_for_buckets(buckets: BTreeMap<String, Self>) {
        let _ = OF_BUCKETS.set(buckets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let credentials = S3Credentials { access_key: "hidden".into(), secret_key: "hidden".into() };
        let options = S3Options { credentials: Some(credentials), ..S3Options::default() };
        assert!(!format!("{options:?}").contains("hidden"));
    }
}
