//! The logs of a job as one archive, tar.gz, made while it is sent.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream::try_unfold;
use prs_common::layout;
use prs_common::storage::Storage;
use prs_jobs::logs::archive::Packer;
use prs_jobs::logs::list;
use prs_jobs::records::Log;

use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// Bytes of all logs of an archive.
const MOST: u64 = 2 << 30;
/// The kinds of logs: what each is called, and what the names of its logs begin with, below `logs/`.
const KINDS: [(&str, &[&str]); 7] = [
    ("result", &["job_"]),
    ("error", &["user/error/", "job_error"]),
    ("stdout", &["user/stdout/"]),
    ("stderr", &["user/stderr/"]),
    ("system", &["sys/"]),
    ("perf", &["perf/"]),
    ("progress", &["job_progress"]),
];

/// Whether a log is of one of these kinds, any where there is none, and of the node.
pub(super) fn fits(log: &Log, kinds: &[&str], node: Option<u64>) -> bool {
    let begins = |kind: &&str| {
        let known = KINDS.iter().find(|(word, _)| word == kind);
        known.is_some_and(|(_, begins)| begins.iter().any(|begin| log.file.starts_with(begin)))
    };
    let of_node = |node: u64| {
        let number = node.to_string();
        log.file.split('/').any(|part| part == number)
    };
    (kinds.is_empty() || kinds.iter().any(begins)) && node.is_none_or(of_node)
}

/// The kinds that a request names.
pub(super) fn kinds(params: &Params) -> Result<Vec<&str>, Problem> {
    let kinds = params.all("kind");
    if let Some(odd) = kinds.iter().find(|kind| !KINDS.iter().any(|(word, _)| word == *kind)) {
        let known = KINDS.map(|(word, _)| word).join(", ");
        return Err(bad("kind", format_args!("{odd:?} is none of {known}")));
    }
    Ok(kinds)
}

/// `GET /jobs/{job}/logs.tar.gz`.
pub(crate) async fn archive(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["kind", "node"])?;
    let node = params.number("node", (0, u64::from(u32::MAX)))?;
    let kinds = kinds(&params)?;
    let home = app.home(&id).await?;
    let mut logs = list(&*home).await.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    logs.retain(|log| fits(log, &kinds, node));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_nodes_choose_logs() {
        let log = |file: &str| Log { file: file.to_owned(), bytes: 1 };
        for (file, kinds, node, expected) in [
            ("user/stdout/3/process000.stdout.txt", &["stdout"][..], None, true),
            ("user/stdout/3/process000.stdout.txt", &["stderr", "stdout"], Some(3), true),
            ("user/stdout/3/process000.stdout.txt", &[], Some(0), false),
            ("job_result.txt", &["result"], None, true),
            ("job_result.txt", &["error"], None, false),
            ("sys/node/3/process000.txt", &["system"], Some(3), true),
        ] {
            assert_eq!(fits(&log(file), kinds, node), expected, "{file} {kinds:?} {node:?}");
        }
    }
}
