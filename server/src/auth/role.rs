//! Roles, and who has one.

use std::fmt;

use serde::Serialize;

/// What somebody may do. Each role may what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// See all jobs, their logs and outputs.
    Read,
    /// Submit, cancel, resume.
    Submit,
    /// Remove jobs of others.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Admin => "admin",
        })
    }
}

/// How somebody is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum How {
    /// By the secret of a server on the same machine, or because such a server asks nobody.
    Local,
    /// By the session of a browser.
    Session,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Principal {
    /// Their name.
    #[serde(rename = "principal")]
    pub(crate) name: String,
    /// What they may do.
    pub(crate) role: Role,
    /// How they are known.
    pub(crate) how: How,
}
