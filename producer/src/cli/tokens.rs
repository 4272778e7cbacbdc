//! What can be said to `token`: with tokens programs show a server who they are.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use prs_jobs::tokens::Role;

use super::jobs::WhereaboutsArguments;

/// Create, list and revoke tokens, with which programs show a server who they are.
#[derive(Debug, Args)]
pub(crate) struct Token {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum TokenCommand {
    /// Create a token and print it, which happens once.
    #[command(disable_version_flag = true)]
    Create(CreateToken),
    /// Print a token that no registry has yet, for the variable `PRS_TOKEN` of a server, which enters it.
    #[command(disable_version_flag = true)]
    Generate,
    /// List the tokens, without their secrets, which nobody keeps.
    #[command(disable_version_flag = true)]
    List(ListTokens),
    /// End a token: within 10 s no server takes it any more.
    #[command(disable_version_flag = true)]
    Revoke(RevokeToken),
}

impl TokenCommand {
    pub(super) fn whereabouts_mut(&mut self) -> Option<&mut WhereaboutsArguments> {
        match self {
            Self::Create(CreateToken { whereabouts, .. })
            | Self::List(ListTokens { whereabouts })
            | Self::Revoke(RevokeToken { whereabouts, .. }) => Some(whereabouts),
            Self::Generate => None,
        }
    }
}

/// Create a token.
#[derive(Debug, Args)]
pub(crate) struct CreateToken {
    /// Who or what will have it, for the list and the audit.
    pub(crate) name: String,
    /// What it allows: figures for scrapers; runs of endpoints; looking at everything; jobs, which run code; all of it.
    #[arg(long, value_parser = role())]
    pub(crate) role: Role,
    /// An endpoint that a token of the role `invoke` may invoke, or `*` for all; may be given several times.
    #[arg(long = "endpoint", value_name = "ENDPOINT")]
    pub(crate) endpoints: Vec<String>,
    /// Days until it expires; 0 for never.
    #[arg(long, value_name = "N", default_value_t = 90)]
    pub(crate) days: u32,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// List the tokens.
#[derive(Debug, Args)]
pub(crate) struct ListTokens {
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// End a token.
#[derive(Debug, Args)]
pub(crate) struct RevokeToken {
    /// Its id, as the list has it: the second part of the token.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::as_str))
        .map(|word| Role::parse(&word).expect("it is one of the possible values"))
}
