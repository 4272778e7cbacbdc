//! Who asks.

use prs_jobs::tokens::Role;
use serde::Serialize;

/// How somebody is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum How {
    /// By the secret of a server on the same machine, or because such a server asks nobody.
    Local,
    /// By the session of a browser.
    Session,
    /// By a token of the registry.
    Token,
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
