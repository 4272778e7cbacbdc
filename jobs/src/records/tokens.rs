//! Tokens: none of these but [`CreatedToken`] has a secret.

use prs_common::timestamp::format_us;
use serde::Serialize;

use super::Versioned;
use crate::tokens::{self, Role, Secret, TokenState};

/// A token.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Token {
    /// What it is called by.
    pub id: String,
    /// Who or what has it, for people.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// Of the role invoke the endpoints, or `*` for all; empty for others.
    pub endpoints: Vec<String>,
    /// Whether it is taken now.
    pub state: TokenState,
    /// When it was created: UTC, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub created_at: String,
    /// Who created it.
    pub created_by: String,
    /// The id of their token; null where they had none.
    pub created_by_id: Option<String>,
    /// The last day on which it was shown to a server, in UTC; null where it was not yet.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date")))]
    pub last_used_on: Option<String>,
    /// From when on it is refused: UTC, RFC 3339; null where it never expires.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub expires_at: Option<String>,
    /// When it was revoked: UTC, RFC 3339; null where it was not.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub revoked_at: Option<String>,
}

impl Token {
    /// A token as it stands at `now_us`.
    pub fn at(now_us: u64, token: tokens::Token) -> Self {
        let state = token.state(now_us);
        Self {
            id: token.id,
            name: token.name,
            role: token.role,
            endpoints: token.endpoints,
            state,
            created_at: format_us(token.created_us),
            created_by: token.created_by,
            created_by_id: token.created_by_id,
            last_used_on: token.last_used_on,
            expires_at: token.expires_us.map(format_us),
            revoked_at: token.revoked_us.map(format_us),
        }
    }
}

/// A token that was created.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedToken {
    #[serde(flatten)]
    token: Token,
    /// The token itself, which is not to be had again.
    secret: String,
}

impl CreatedToken {
    /// A token that was created at `now_us`.
    pub fn new(now_us: u64, token: tokens::Token, secret: &Secret) -> Self {
        Self { token: Token::at(now_us, token), secret: secret.expose().to_owned() }
    }
}

/// Tokens.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tokens {
    /// The tokens, the newest first.
    pub tokens: Vec<Versioned<Token>>,
}
