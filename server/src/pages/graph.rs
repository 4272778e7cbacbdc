//! The steps of a pipeline as a picture.

use axum::extract::{Path, State};
use axum::response::Html;
use prs_jobs::report;
use prs_portal::view::GraphPage;

use super::tabs::ON_TABS;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// `GET /jobs/{job}/graph`.
pub(super) async fn page(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let home = app.home(&id).await?;
    let facts = report::facts(&*home, &app.whereabouts, &ON_TABS, false, Some(("/jobs/", ""))).await;
    let (_, facts) = facts.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    Ok(Html(GraphPage::new(&facts, &app.chrome).html()))
}
