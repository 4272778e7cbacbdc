//! How buckets are reached where the environment does not say it: set once, by the profile that a program uses.
//!
//! It stands in for variables of the environment, and so holds, as they do, for every bucket that the program opens.

use std::path::PathBuf;
use std::sync::OnceLock;

static ACCESS: OnceLock<BucketAccess> = OnceLock::new();

/// How buckets are reached. Everything that is absent is looked up where the AWS tools look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketAccess {
    /// URL of the server, in place of `AWS_ENDPOINT_URL_S3`.
    pub endpoint: Option<String>,
    /// Region, in place of `AWS_REGION`.
    pub region: Option<String>,
    /// Profile of the AWS tools, in place of `AWS_PROFILE`.
    pub aws_profile: Option<String>,
    /// Whether the bucket stands in the host name, in place of `PRS_S3_VIRTUAL_HOST`.
    pub virtual_host: Option<bool>,
    /// PEM file with certificates to trust, in place of `AWS_CA_BUNDLE`.
    pub certificates: Option<PathBuf>,
}

impl BucketAccess {
    /// Uses these settings for every bucket that is opened from now on. Only the first call counts.
    pub fn set(self) {
        let _ = ACCESS.set(self);
    }

    /// What was set, or nothing.
    pub(super) fn get() -> Self {
        ACCESS.get().cloned().unwrap_or_default()
    }
}
