//! `token`: creates, lists and revokes tokens, in the registry of the fleet or of this machine.

use std::process::ExitCode;
use std::time::Duration;

use console::Term;
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::records;
use prs_jobs::tokens::{NewToken, Secret, Token, Tokens};

use super::who::who;
use crate::cli::{CreateToken, Format, ListTokens, RevokeToken, TokenCommand};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use crate::terminal::table::Table;

/// Does what is said of tokens.
pub(super) async fn token(command: TokenCommand, format: Format) -> Result<ExitCode, Failure> {
    match command {
        TokenCommand::Create(arguments) => create(arguments, format).await?,
        TokenCommand::Generate => output::line(Secret::generate().expose())?,
        TokenCommand::List(arguments) => list(&arguments, format).await?,
        TokenCommand::Revoke(arguments) => revoke(&arguments, format).await?,
    }
    Ok(Code::Completed.into())
}

/// Prints the token on standard output, and what to know of it elsewhere.
async fn create(arguments: CreateToken, format: Format) -> Result<(), Failure> {
    let CreateToken { name, role, endpoints, days, whereabouts } = arguments;
    let lifetime = (days > 0).then(|| Duration::from_hours(24 * u64::from(days)));
    let new = NewToken { name, role, endpoints, lifetime };
    let tokens = Tokens::open(&whereabouts.settled()?).await?;
    let now = now_us();
    let (token, secret) = tokens.create(&new, who().as_str(), now).await?;
    let id = token.id.clone();
    let expires = token
        .expires_us
        .map_or_else(|| "never expires".to_owned(), |us| format!("expires at {} UTC", minute(us)));
    let printed = match format {
        Format::Json => output::json(&records::CreatedToken::new(now, token, &secret)),
        Format::Table => output::line(secret.expose()),
    };
    printed.map_err(|failure| {
        failure.and(format_args!(
            "token {id} was created and cannot be shown again: prs token revoke {id} ends it"
        ))
    })?;
    output::note(format_args!(
        "token {id} of the role {role} {expires}; it is shown this once, and prs keeps only its checksum: put it where your program \
         keeps its secrets (prs token revoke {id} ends it)"
    ));
    Ok(())
}

async fn list(arguments: &ListTokens, format: Format) -> Result<(), Failure> {
    let (tokens, damaged) = Tokens::open(&arguments.whereabouts.settled()?).await?.list().await?;
    for error in damaged {
        output::print_error(error);
    }
    let now = now_us();
    if format == Format::Json {
        let tokens = tokens.into_iter().map(|token| records::Token::at(now, token).into()).collect();
        return output::json(&records::Tokens { tokens });
    }
    if tokens.is_empty() {
        output::note("there is no token; prs token create makes one");
        return Ok(());
    }
    let row = |token: Token| {
        let state = token.state(now).as_str().to_owned();
        let role = token.role.as_str();
        let role = if token.endpoints.is_empty() {
            role.to_owned()
        } else {
            format!("{role} {}", token.endpoints.join(", "))
        };
        let expires = token.expires_us.map_or_else(|| "never".to_owned(), minute);
        vec![token.id, token.name, role, state, expires, minute(token.created_us), token.created_by]
    };
    let heads = ["ID", "NAME", "ROLE", "STATE", "EXPIRES (UTC)", "CREATED (UTC)", "BY"];
    let table = Table::new(&heads, tokens.into_iter().map(row).collect());
    output::text(&table.fit(&Term::stdout(), &["BY", "CREATED (UTC)"]).text())
}

async fn revoke(arguments: &RevokeToken, format: Format) -> Result<(), Failure> {
    let tokens = Tokens::open(&arguments.whereabouts.settled()?).await?;
    let now = now_us();
    let token = tokens.revoke(&arguments.id, now).await?;
    let (id, name, at) = (token.id.clone(), token.name.clone(), token.revoked_us.unwrap_or(now));
    if format == Format::Json {
        output::json(&records::Token::at(now, token))?;
    }
    output::note(if at == now {
        format!("token {id} ({name}) is revoked: within 10 s no server takes it any more")
    } else {
        format!("token {id} ({name}) was revoked before, at {} UTC", minute(at))
    });
    Ok(())
}

/// `2026-11-21 10:20`.
fn minute(us: u64) -> String {
    format_us(us)[..16].replace('T', " ")
}
