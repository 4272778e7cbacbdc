//! Tokens, and who changed what.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::hexadecimal;
use prs_common::timestamp::now_us;
use prs_jobs::audit::AuditLine;
use prs_jobs::idempotency::is_key;
use prs_jobs::tokens::{Role, Secret, Token};
use prs_portal::text::times::machine;
use prs_portal::view::{AuditPage, AuditRow, ConfirmPage, GivenToken, TokenRow, TokensPage};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tracing::warn;

use crate::api::once::{Once, begin_of_page};
use crate::api::{audit, tokens};
use crate::app::App;
use crate::audit::Made;
use crate::auth::{May, MayAdmin, MayRead, MaySubmit, Principal, random_text};
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Tokens on the page.
const MOST: usize = 500;
/// Filters of the audit, with their labels.
const FILTERS: [(&str, &str); 7] = [
    ("principal", "Who: a name, or the id of a token"),
    ("action", "What: job.submit, or job. for all of jobs"),
    ("resource", "Beginning of the address"),
    ("result", "Status: 403, or 4 for all that were refused"),
    ("request_id", "Number of the request"),
    ("since", "Since: 2d, 6h, or 2026-11-21T12:00:00Z"),
    ("until", "Until"),
];

/// What the form sends.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    name: String,
    role: String,
    #[serde(default)]
    endpoints: String,
    #[serde(default)]
    days: String,
    /// Another one each time that the form is shown: who presses twice makes one token.
    #[serde(default)]
    key: String,
}

/// `GET /admin/tokens`.
pub(super) async fn tokens_page(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    page(&app, &who, empty(), Became::Nothing).await
}

/// A form that nobody has filled in.
fn empty() -> GivenToken {
    GivenToken { days: "90".to_owned(), ..GivenToken::default() }
}

/// What became of a form.
enum Became<'a> {
    /// Nothing yet.
    Nothing,
    /// It was refused: why.
    Refused(&'a str),
    /// A token was made: its name and its secret.
    Made(&'a str, &'a str),
    /// The same form came before, and made this token.
    MadeBefore(&'a str),
}

async fn page(
    app: &App,
    who: &Principal,
    given: GivenToken,
    became: Became<'_>,
) -> Result<Html<String>, Problem> {
    let (mut wrong, mut made, mut made_before) = ("", None, None);
    match became {
        Became::Nothing => {}
        Became::Refused(why) => wrong = why,
        Became::Made(name, secret) => made = Some((name, secret)),
        Became::MadeBefore(id) => made_before = Some(id),
    }
    let now = now_us();
    let tokens = tokens::visible(app, who).await?;
    let is_admin = who.role == Role::Admin;
    let makes = is_admin || (who.role == Role::Submit && who.is_ambient());
    let roles = Role::ALL.into_iter().filter(|role| makes && who.role.allows(*role));
    let page = TokensPage {
        chrome: &app.chrome,
        total: tokens.len(),
        tokens: tokens.into_iter().take(MOST).map(|token| row(token, now)).collect(),
        is_admin,
        roles: roles.map(Role::as_str).collect(),
        given,
        key: &random_text::<16>(),
        wrong,
        made,
        made_before,
    };
    Ok(Html(page.html()))
}

/// A moment for people and for programs.
fn moment(us: u64) -> (String, String) {
    let text = machine(us);
    (format!("{} UTC", text[..16].replace('T', " ")), text)
}

fn row(token: Token, now: u64) -> TokenRow {
    let state = token.state(now).as_str();
    let by = token.created_by_id.map(|id| format!(" ({id})")).unwrap_or_default();
    TokenRow {
        state,
        id: token.id,
        name: token.name,
        role: token.role.to_string(),
        endpoints: token.endpoints.join(", "),
        created: moment(token.created_us),
        created_by: format!("{}{by}", token.created_by),
        expires: token.expires_us.map(moment),
        last_used_on: token.last_used_on.unwrap_or_default(),
    }
}

/// `POST /admin/tokens`.
pub(super) async fn make(
    May(who): MaySubmit,
    State(app): State<App>,
    Form(fields): Form<Fields>,
) -> Result<Response, Problem> {
    let Fields { name, role, endpoints, days, key } = fields;
    let given = GivenToken { name, role, endpoints, days };
    let key = Some(key).filter(|key| is_key(key));
    let fingerprint = hexadecimal(&Sha256::digest(format!("{given:?}")));
    let held = match begin_of_page(&app, &who, "POST /admin/tokens", key.as_deref(), &fingerprint).await? {
        Once::Do(held) => held,
        // The secret was in the answer to the first, and is nowhere else.
        Once::Done(id) => {
            return Ok(page(&app, &who, empty(), Became::MadeBefore(&id)).await?.into_response());
        }
    };
    let made = wanted(&given, &app, &who).await;
    match (held, &made) {
        (Some(held), Ok((token, _))) => {
            if let Err(failure) = held.done(&token.id).await {
                warn!(%failure, id = token.id, "pressed twice, the form of this token would make another");
            }
        }
        (Some(held), Err(_)) => held.forget().await,
        (None, _) => {}
    }
    match made {
        Ok((token, secret)) => {
            let shown = page(&app, &who, empty(), Became::Made(&token.name, secret.expose())).await?;
            let mut response = shown.into_response();
            response.extensions_mut().insert(Made(format!("/api/v1/tokens/{}", token.id)));
            Ok(response)
        }
        Err(problem) if problem.kind.status < 500 => {
            Ok(page(&app, &who, given, Became::Refused(&problem.detail)).await?.into_response())
        }
        Err(problem) => Err(problem),
    }
}

/// Makes the token that a form asks for.
async fn wanted(given: &GivenToken, app: &App, who: &Principal) -> Result<(Token, Secret), Problem> {
    let separate = |letter: char| letter.is_whitespace() || letter == ',';
    let words = given.endpoints.split(separate).filter(|word| !word.is_empty());
    let wrong = |why: std::fmt::Arguments<'_>| Err(Problem::new(Kind::BAD_REQUEST, why));
    match (Role::parse(&given.role), given.days.trim().parse()) {
        (None, _) => wrong(format_args!("{:?} is no role.", given.role)),
        (_, Err(_)) => wrong(format_args!("{:?} is no number of days.", given.days)),
        (Some(role), Ok(days)) => {
            let endpoints = words.map(str::to_owned).collect();
            tokens::make(app, who, given.name.trim().to_owned(), role, endpoints, days).await
        }
    }
}

/// `GET /admin/tokens/{token}/revoke`.
pub(super) async fn ask_to_revoke(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let found = tokens::visible(&app, &who).await?;
    let token = found.into_iter().find(|token| token.id == id);
    let token = token
        .ok_or_else(|| Problem::new(Kind::TOKEN_NOT_FOUND, format_args!("There is no token {id:?}.")))?;
    let page = ConfirmPage {
        chrome: &app.chrome,
        title: &format!("Revoke the token of {}?", token.name),
        says: &format!(
            "Within 10 seconds no server takes the token {} any more, and the sessions that began with it end. That cannot be undone.",
            token.id
        ),
        button: "Revoke",
        action: &format!("/admin/tokens/{}/revoke", token.id),
        back: "/admin/tokens",
    };
    Ok(Html(page.html()))
}

/// `POST /admin/tokens/{token}/revoke`.
pub(super) async fn revoke(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Redirect, Problem> {
    tokens::end(&app, &who, &id).await?;
    Ok(Redirect::to("/admin/tokens"))
}

/// `GET /admin/audit`.
pub(super) async fn audit_page(
    _: MayAdmin,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    let (found, next) = audit::find(&app, &params).await?;
    let value = |name: &str| params.all(name).first().map(|value| (*value).to_owned()).unwrap_or_default();
    let query = params.without(&["cursor"]);
    let next = next.map(|cursor| {
        if query.is_empty() { format!("cursor={cursor}") } else { format!("{query}&cursor={cursor}") }
    });
    let page = AuditPage {
        chrome: &app.chrome,
        lines: found.lines.into_iter().map(line).collect(),
        filters: FILTERS.iter().map(|(name, label)| (*name, *label, value(name))).collect(),
        next: next.unwrap_or_default(),
        query,
    };
    Ok(Html(page.html()))
}

fn line(of: AuditLine) -> AuditRow {
    let how = of.how.map(|how| format!(" ({how})")).unwrap_or_default();
    AuditRow {
        at: (
            format!("{} UTC", of.at.get(..19).unwrap_or(&of.at).replace('T', " ")),
            format!("{}Z", of.at.get(..23).unwrap_or(&of.at)),
        ),
        principal: of.principal.unwrap_or_default(),
        role: format!("{}{how}", of.role.unwrap_or_default()),
        address: of.address,
        action: of.action,
        resource: of.resource,
        made: of.made.map(|made| made.replace("/api/v1/jobs/", "/jobs/")).unwrap_or_default(),
        result: of.result,
        problem: of.problem.unwrap_or_default(),
        request_id: of.request_id,
    }
}
