//! The logs of a job as one archive, tar.gz, made while it is sent.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream::try_unfold;
use prs_common::layout;
use prs_common::storage::Storage;
use prs_jobs::logs::all;
use prs_jobs::logs::archive::Packer;

use super::logs::choice;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Bytes of all logs of an archive.
const MOST: u64 = 2 << 30;
/// `GET /jobs/{job}/logs.tar.gz`.
pub(crate) async fn archive(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["kind", "node", "process", "prefix"])?;
    let wanted = choice(&params)?;
    let home = app.home(&id).await?;
    let logs = all(&*home, &wanted).await.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    let all: u64 = logs.iter().map(|log| log.bytes).sum();
    if all > MOST {
        return Err(Problem::new(
            Kind::TOO_LARGE,
            format_args!("The logs have {all} bytes, and {MOST} are the most."),
        )
        .hint("kind and node choose some of them; /logs/NAME gives one"));
    }
    let packer = Packer::new(Arc::clone(home.storage()) as Arc<dyn Storage>, layout::LOGS, logs);
    let pieces = try_unfold(packer, |mut packer| async move {
        let piece = packer
            .next()
            .await
            .inspect_err(|error| tracing::warn!(%error, "an archive of logs breaks off"))?;
        Ok::<_, std::io::Error>(piece.map(|piece| (bytes::Bytes::from(piece), packer)))
    });
    let headers = [
        (CONTENT_TYPE, "application/gzip".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"logs-{id}.tar.gz\"")),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}
