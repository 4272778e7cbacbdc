//! No identity provider: the program was built without the feature `oidc`.

use url::Url;

use super::{Awaited, Known, OidcOptions, Refused};

/// Is never there.
#[derive(Debug)]
pub(crate) enum Provider {}

impl Provider {
    /// There is none.
    pub(crate) fn new(_: OidcOptions, _: Url) -> Option<Self> {
        None
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    /// Where a browser goes to sign in.
    #[expect(clippy::unused_async, reason = "the other one asks the provider")]
    pub(crate) async fn begin(&self, _: &Awaited) -> Result<String, Refused> {
        match *self {}
    }

    /// Who a browser is that came back with `code`.
    #[expect(clippy::unused_async, reason = "the other one asks the provider")]
    pub(crate) async fn end(&self, _: &str, _: &Awaited) -> Result<Known, Refused> {
        match *self {}
    }
}
