//! The nodes of a job.

use axum::extract::{Path, State};
use axum::response::Html;
use prs_jobs::report;
use prs_portal::view::NodesPage;

use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// `GET /jobs/{job}/nodes`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let home = app.home(&id).await?;
    let facts = report::facts(&*home, &app.whereabouts, false, None).await;
    let (_, facts) = facts.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    Ok(Html(NodesPage::new(&app.chrome, &facts).html()))
}
