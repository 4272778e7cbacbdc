//! Help, the components that pages are made of, what problems mean, and the addresses of the API.

use axum::extract::{Path, State};
use axum::response::Html;
use prs_portal::view::{ApiPage, ComponentsPage, HelpPage, ProblemPage, ProblemsPage};

use crate::api::ROUTES;
use crate::app::App;
use crate::http::params::Params;
use crate::problem::{ALL, Kind, Problem};

/// `GET /help`.
pub(crate) async fn page(State(app): State<App>, params: Params) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    Ok(Html(HelpPage { chrome: &app.chrome, url: &app.url }.html()))
}

/// `GET /help/components`.
pub(crate) async fn components(State(app): State<App>, params: Params) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    Ok(Html(ComponentsPage::new(&app.chrome).html()))
}

/// `GET /api`.
pub(crate) async fn api(State(app): State<App>, params: Params) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let routes = ROUTES.iter().map(|route| {
        (route.method.to_uppercase(), route.path, route.role, route.does, route.parameters.to_vec())
    });
    Ok(Html(ApiPage { chrome: &app.chrome, url: &app.url, routes: routes.collect() }.html()))
}

/// `GET /problems`.
pub(crate) async fn problems(State(app): State<App>, params: Params) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let kinds = ALL.iter().map(|kind| (kind.slug, kind.status, kind.title)).collect();
    Ok(Html(ProblemsPage { chrome: &app.chrome, kinds }.html()))
}

/// `GET /problems/{slug}`.
pub(crate) async fn problem(
    State(app): State<App>,
    Path(slug): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let kind =
        Kind::of(&slug).ok_or_else(|| Problem::new(Kind::NOT_FOUND, "There is no such kind of problem."))?;
    let page = ProblemPage {
        chrome: &app.chrome,
        title: kind.title,
        detail: "",
        hint: None,
        meaning: kind.meaning,
        request_id: "",
        near: Vec::new(),
    };
    Ok(Html(page.html()))
}
