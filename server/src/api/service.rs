//! The server itself.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::app::App;
use crate::auth::Known;
use crate::metrics::MEDIA_TYPE;
use crate::problem::{Kind, Problem};

/// `GET /whoami`.
pub(crate) async fn whoami(Known(who): Known) -> Response {
    Json(who).into_response()
}

/// `GET /version`.
pub(crate) async fn version() -> Response {
    Json(json!({ "version": env!("CARGO_PKG_VERSION"), "api": ["v1"], "schema": prs_jobs::records::SCHEMA }))
        .into_response()
}

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let text = app.metrics.text(&app).await;
    ([(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))], text).into_response()
}

/// `GET /livez`.
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// `GET /readyz`.
pub(crate) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    if app.stop.is_cancelled() {
        return Err(Problem::new(Kind::BUSY, "The server is about to end.").retry_after(5));
    }
    app.index.snapshot().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    Ok("ok\n")
}
