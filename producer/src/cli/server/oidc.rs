//! What can be said of an identity provider.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use prs_server::OidcOptions;
use url::Url;

use crate::failure::Failure;

/// The identity provider that browsers sign in with.
#[derive(Debug, Clone, Args)]
pub(crate) struct Provider {
    /// The address of an identity provider (OpenID Connect) that browsers sign in with; its groups have the roles of `--role-map`.
    #[arg(long, value_name = "URL", requires = "oidc_client_id", conflicts_with = "link")]
    oidc_issuer: Option<Url>,
    /// What the server is called at the provider.
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    oidc_client_id: Option<String>,
    /// A file with the secret that the server has at the provider.
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    oidc_client_secret_file: Option<PathBuf>,
    /// The claim of the provider's tokens that has the groups; `groups` without it.
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    oidc_groups_claim: Option<String>,
    /// What people call the provider; its host without it.
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    oidc_name: Option<String>,
}

impl Provider {
    /// The provider that is named.
    pub(crate) fn options(&self) -> Result<Option<OidcOptions>, Failure> {
        let (Some(issuer), Some(client_id)) = (&self.oidc_issuer, &self.oidc_client_id) else {
            return Ok(None);
        };
        let read = |path: &PathBuf| {
            let secret = std::fs::read_to_string(path).map(|text| text.trim().to_owned());
            secret
                .with_context(|| format!("--oidc-client-secret-file {}", path.display()))
                .map_err(Failure::usage)
        };
        Ok(Some(OidcOptions {
            client_secret: self.oidc_client_secret_file.as_ref().map(read).transpose()?,
            groups_claim: self.oidc_groups_claim.clone().unwrap_or_else(|| "groups".to_owned()),
            name: self.oidc_name.clone().unwrap_or_else(|| issuer.host_str().unwrap_or_default().to_owned()),
            issuer: issuer.clone(),
            client_id: client_id.clone(),
        }))
    }
}
