//! Tokens, and who changed what.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::audit::AuditLine;
use prs_jobs::tokens::{Role, Token};
use prs_portal::view::{AuditPage, AuditRow, ConfirmPage, GivenToken, TokenRow, TokensPage};
use serde::Deserialize;

use crate::api::{audit, tokens};
use crate::app::App;
use crate::audit::Made;
use crate::auth::{How, May, MayAdmin, MayRead, MaySubmit, Principal};
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
}

/// `GET /admin/tokens`.
pub(super) async fn tokens_page(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let given = GivenToken { days: "90".to_owned(), ..GivenToken::default() };
    page(&app, &who, given, "", None).await
}

async fn page(
    app: &App,
    who: &Principal,
    given: GivenToken,
    wrong: &str,
    made: Option<(&str, &str)>,
) -> Result<Html<String>, Problem> {
    let now = now_us();
    let tokens = tokens::visible(app, who).await?;
    let is_admin = who.role == Role::Admin;
    let makes = is_admin || (who.role == Role::Submit && who.how == How::Session);
    let roles = Role::ALL.into_iter().filter(|role| makes && who.role.allows(*role));
    let page = TokensPage {
        chrome: &app.chrome,
        total: tokens.len(),
        tokens: tokens.into_iter().take(MOST).map(|token| row(token, now)).collect(),
        is_admin,
        roles: roles.map(Role::as_str).collect(),
        given,
        wrong,
        made,
    };
    Ok(Html(page.html()))
}

/// A moment for people and for programs.
fn moment(us: u64) -> (String, String) {
    let text = format_us(us);
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
    let Fields { name, role, endpoints, days } = fields;
    let given = GivenToken { name, role, endpoints, days };
    let separate = |letter: char| letter.is_whitespace() || letter == ',';
    let words = given.endpoints.split(separate).filter(|word| !word.is_empty());
    let made = match (Role::parse(&given.role), given.days.trim().parse()) {
        (None, _) => Err(Problem::new(Kind::BAD_REQUEST, format_args!("{:?} is no role.", given.role))),
        (_, Err(_)) => {
            Err(Problem::new(Kind::BAD_REQUEST, format_args!("{:?} is no number of days.", given.days)))
        }
        (Some(role), Ok(days)) => {
            let endpoints = words.map(str::to_owned).collect();
            tokens::make(&app, &who, given.name.trim().to_owned(), role, endpoints, days).await
        }
    };
    match made {
        Ok((token, secret)) => {
            let kept = GivenToken { days: "90".to_owned(), ..GivenToken::default() };
            let shown = page(&app, &who, kept, "", Some((&token.name, secret.expose()))).await?;
            let mut response = shown.into_response();
            response.extensions_mut().insert(Made(format!("/api/v1/tokens/{}", token.id)));
            Ok(response)
        }
        Err(problem) if problem.kind.status < 500 => {
            Ok(page(&app, &who, given, &problem.detail, None).await?.into_response())
        }
        Err(problem) => Err(problem),
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
        at: (format!("{} UTC", of.at.get(..19).unwrap_or(&of.at).replace('T', " ")), of.at),
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
