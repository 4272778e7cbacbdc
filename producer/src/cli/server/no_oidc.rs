//! Nothing can be said of an identity provider: the program was built without the feature `oidc`.

use clap::Args;
use prs_server::OidcOptions;

use crate::failure::Failure;

/// There is none.
#[derive(Debug, Clone, Args)]
pub(crate) struct Provider {}

impl Provider {
    /// Nothing.
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the other one reads a file")]
    pub(crate) fn options(&self) -> Result<Option<OidcOptions>, Failure> {
        Ok(None)
    }
}
