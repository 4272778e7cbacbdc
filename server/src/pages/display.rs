//! How pages look to one reader: theme, clock, keys. The choice stays in the browser, as cookies.

use axum::Form;
use axum::extract::State;
use axum::http::header::{REFERER, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{AppendHeaders, Html, IntoResponse, Redirect, Response};
use prs_portal::view::DisplayPage;
use serde::Deserialize;

use super::login::back;
use crate::app::App;
use crate::http::look::{CHOICES, chosen, cookie};
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// How long a choice lasts, seconds: a year.
const LASTS: u64 = 31_536_000;

/// `GET /display`.
pub(crate) async fn page(
    State(app): State<App>,
    headers: HeaderMap,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let came_from = headers.get(REFERER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let from =
        came_from.strip_prefix(&app.url).filter(|path| !path.starts_with("/display")).unwrap_or_default();
    let mut now = CHOICES.iter().zip(chosen(&headers)).map(|((_, words), word)| word.unwrap_or(words[0]));
    let mut next_word = || now.next().unwrap_or_default();
    let page = DisplayPage {
        chrome: &app.chrome,
        theme: next_word(),
        zone: next_word(),
        keys: next_word(),
        next: back(from),
    };
    Ok(Html(page.html()))
}

/// What the form sends.
#[derive(Debug, Deserialize)]
pub(crate) struct Given {
    #[serde(default)]
    theme: String,
    #[serde(default)]
    zone: String,
    #[serde(default)]
    keys: String,
    #[serde(default)]
    next: String,
}

/// `POST /display`.
pub(crate) async fn choose(State(app): State<App>, Form(given): Form<Given>) -> Result<Response, Problem> {
    let mut cookies = Vec::new();
    for ((name, words), word) in CHOICES.iter().zip([&given.theme, &given.zone, &given.keys]) {
        let Some(word) = words.iter().find(|known| *known == word) else {
            let detail = format_args!("{name} is {}, and not {word:?}.", words.join(" or "));
            return Err(Problem::new(Kind::BAD_REQUEST, detail));
        };
        let secure = if app.is_secure { "; Secure" } else { "" };
        let text =
            format!("{}={word}; Path=/; Max-Age={LASTS}; HttpOnly; SameSite=Lax{secure}", cookie(name));
        cookies.push((SET_COOKIE, HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))));
    }
    let cookies: AppendHeaders<Vec<(HeaderName, HeaderValue)>> = AppendHeaders(cookies);
    Ok((cookies, Redirect::to(back(&given.next))).into_response())
}
