//! A token as the registry keeps it: everything but its secret.

use prs_common::timestamp::format_us;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::role::Role;

/// The endpoint that stands for all.
pub(super) const ANY: &str = "*";

/// The object `tokens/<id>`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredToken {
    /// SHA-256 of the whole token. It has 256 random bits, so a slow hash would add nothing.
    pub(super) sha256: String,
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) endpoints: Vec<String>,
    #[serde(with = "moment")]
    pub(super) created_at: u64,
    pub(super) created_by: String,
    /// The id of the token with which that was done, where it was a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created_by_id: Option<String>,
    /// The last day on which it was shown, `2026-11-25`; nothing before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_used_on: Option<String>,
    #[serde(with = "moment_if_any")]
    pub(super) expires_at: Option<u64>,
    #[serde(with = "moment_if_any")]
    pub(super) revoked_at: Option<u64>,
    /// What another version of prs notes.
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

impl StoredToken {
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("it holds plain values only")
    }
}

/// A token, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is called by: the second part of its text.
    pub id: String,
    /// Who or what has it, for people.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// Of the role `invoke` the endpoints, or `*` for all; empty for others.
    pub endpoints: Vec<String>,
    /// When it was created, microseconds since 1970.
    pub created_us: u64,
    /// Who did that.
    pub created_by: String,
    /// The id of their token, where they had one.
    pub created_by_id: Option<String>,
    /// The last day on which it was shown to a server, in UTC: `2026-11-25`.
    pub last_used_on: Option<String>,
    /// From when on it is refused, microseconds since 1970; nothing where it never expires.
    pub expires_us: Option<u64>,
    /// When it was revoked, microseconds since 1970; nothing where it was not.
    pub revoked_us: Option<u64>,
}

/// Whether a token is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TokenState {
    /// It is.
    Active,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl TokenState {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl Token {
    pub(super) fn of(id: &str, entry: StoredToken) -> Self {
        let StoredToken { name, role, endpoints, created_at, created_by, expires_at, revoked_at, .. } = entry;
        let (created_by_id, last_used_on) = (entry.created_by_id, entry.last_used_on);
        Self {
            id: id.to_owned(),
            name,
            role,
            endpoints,
            created_us: created_at,
            created_by,
            created_by_id,
            last_used_on,
            expires_us: expires_at,
            revoked_us: revoked_at,
        }
    }

    /// Whether it is taken at `now_us`.
    pub fn state(&self, now_us: u64) -> TokenState {
        match self.expires_us {
            _ if self.revoked_us.is_some() => TokenState::Revoked,
            Some(at) if at <= now_us => TokenState::Expired,
            _ => TokenState::Active,
        }
    }
}

/// Who presents a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The id of the token.
    pub token_id: String,
    /// Its name.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// As those of [`Token`].
    pub endpoints: Vec<String>,
    /// From when on it is refused, microseconds since 1970; nothing where it never expires.
    pub expires_us: Option<u64>,
}

impl Principal {
    /// Whether it may invoke this endpoint.
    pub fn may_invoke(&self, endpoint: &str) -> bool {
        let names_it = || self.endpoints.iter().any(|one| one == ANY || one == endpoint);
        self.role.allows(Role::Invoke) && (self.role != Role::Invoke || names_it())
    }
}

impl From<Token> for Principal {
    fn from(Token { id, name, role, endpoints, expires_us, .. }: Token) -> Self {
        Self { token_id: id, name, role, endpoints, expires_us }
    }
}

/// Microseconds since 1970 as RFC 3339.
mod moment {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{format_us, us_of};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(super) fn serialize<S: Serializer>(us: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format_us(*us))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        us_of(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The same, or null.
mod moment_if_any {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{format_us, us_of};

    #[allow(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(super) fn serialize<S: Serializer>(us: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        us.map(format_us).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| us_of(&text)).transpose().map_err(D::Error::custom)
    }
}

fn us_of(text: &str) -> Result<u64, String> {
    let moment: jiff::Timestamp =
        text.parse().map_err(|_| format!("{text:?} is no time as RFC 3339 has it"))?;
    u64::try_from(moment.as_microsecond()).map_err(|_| format!("{text:?} is before 1970"))
}
