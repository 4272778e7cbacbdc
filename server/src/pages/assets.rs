//! The stylesheet, the script and the picture of the tab, under names that change with them: a browser asks for each once.

use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::http::conditional::short_checksum;
use crate::problem::{Kind, Problem};

/// Their addresses.
#[derive(Debug, Clone)]
pub(crate) struct Assets {
    pub(crate) css: String,
    pub(crate) js: String,
    pub(crate) icon: String,
}

impl Assets {
    pub(crate) fn new() -> Self {
        Self {
            css: address("app", "css", prs_portal::CSS),
            js: address("app", "js", prs_portal::JS),
            icon: address("icon", "svg", prs_portal::ICON),
        }
    }
}

fn address(name: &str, kind: &str, content: &str) -> String {
    format!("/static/{name}-{}.{kind}", short_checksum(content.as_bytes()))
}

/// `GET /static/{name}`.
pub(crate) async fn one(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Problem> {
    let assets = &app.chrome;
    let wanted = format!("/static/{name}");
    let (kind, content) = if wanted == assets.css {
        ("text/css; charset=utf-8", prs_portal::CSS)
    } else if wanted == assets.js {
        ("text/javascript; charset=utf-8", prs_portal::JS)
    } else if wanted == assets.icon {
        ("image/svg+xml", prs_portal::ICON)
    } else {
        return Err(Problem::new(Kind::NOT_FOUND, "There is no such file; another version of prs had it."));
    };
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, content).into_response())
}
