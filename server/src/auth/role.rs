//! Who asks.

use prs_common::job::{JobSpec, Submitter};
use prs_common::timestamp::format_us;
use prs_jobs::tokens::{self, Role};
use serde::{Serialize, Serializer};

/// How a caller is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum How {
    /// By a proxy before the server.
    Proxy,
    /// By the secret of a server on the same machine, or because such a server asks nobody.
    Local,
    /// By the session of a browser.
    Session,
    /// By a token of the registry.
    Token,
}

/// That who asks gets what is their own alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnOnly;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Principal {
    /// Their name.
    #[serde(rename = "principal")]
    pub(crate) name: String,
    /// What they may do.
    pub(crate) role: Role,
    /// Of the role `invoke` the endpoints, or `*` for all; empty for others.
    pub(crate) endpoints: Vec<String>,
    /// From when on they are not known any more, microseconds since the Unix epoch.
    #[serde(rename = "expires_at", serialize_with = "moment")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) expires_us: Option<u64>,
    /// How they are known.
    pub(crate) how: How,
    /// The id of their token.
    pub(crate) token_id: Option<String>,
    /// What tells them from all others where they have no token and are not the user of the server.
    #[serde(skip)]
    pub(crate) subject: Option<String>,
}

impl Principal {
    /// The user of the server.
    pub(crate) fn local(how: How) -> Self {
        Self {
            name: "local".to_owned(),
            role: Role::Admin,
            endpoints: Vec::new(),
            expires_us: None,
            how,
            token_id: None,
            subject: None,
        }
    }

    /// What tells it from all others: names may be those of several tokens.
    pub(crate) fn id(&self) -> &str {
        self.own_id().unwrap_or(&self.name)
    }

    /// The same; nothing of the user of the server.
    pub(crate) fn own_id(&self) -> Option<&str> {
        self.token_id.as_deref().or(self.subject.as_deref())
    }

    /// Whether a browser says who they are without being asked, so that a page of another site could make it ask for something.
    pub(crate) fn is_ambient(&self) -> bool {
        matches!(self.how, How::Session | How::Proxy)
    }

    /// The same as a job keeps who handed it in.
    pub(crate) fn submitter(&self) -> Submitter {
        Submitter { name: self.name.clone(), id: Some(self.id().to_owned()) }
    }

    /// Whether they handed the job in.
    pub(crate) fn owns(&self, spec: &JobSpec) -> bool {
        spec.submitted_by.as_deref().is_some_and(|by| by.id.as_deref() == Some(self.id()))
    }

    /// A holder of a token.
    pub(crate) fn of_token(of: tokens::Principal, how: How) -> Self {
        let tokens::Principal { token_id, name, role, endpoints, expires_us } = of;
        Self { name, role, endpoints, expires_us, how, token_id: Some(token_id), subject: None }
    }
}

#[allow(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn moment<S: Serializer>(us: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    us.map(format_us).serialize(to)
}
