//! What failures of calls on jobs are over HTTP.

use prs_jobs::{Failure, FailureKind, OutputAway, ServerFault};
use tracing::{error, warn};

use super::{Kind, Problem};

/// Seconds after which servers that are away may be there again.
const AWAY: u32 = 5;

impl Problem {
    /// What it means that a call failed; `refused` is the kind where the request is at fault. What only the server's operator may
    /// know goes to the log.
    pub(crate) fn of(failure: &Failure, refused: &'static Kind) -> Self {
        if failure.is_full() {
            warn!(%failure, "no room is left where the jobs are kept");
            return Self::new(Kind::NO_ROOM, "No room is left where the jobs are kept.");
        }
        if failure.cause::<OutputAway>().is_some() {
            return Self::new(Kind::SERVERS_UNREACHABLE, failure).retry_after(AWAY);
        }
        // A place that a caller named may refuse this server, and is no server of the jobs.
        let is_of_caller = failure.is_usage() && refused != Kind::INTERNAL;
        if !is_of_caller && let Some(fault) = failure.server_fault() {
            warn!(%failure, "a server behind this one fails");
            return Self::of_server(fault);
        }
        match failure.kind {
            FailureKind::NotFound if refused.status == 404 => Self::new(refused, failure),
            FailureKind::NotFound => Self::new(Kind::JOB_NOT_FOUND, failure).hint("prs list lists the jobs"),
            FailureKind::Usage => Self::new(refused, failure),
            FailureKind::CannotConnect => {
                warn!(%failure, "a server does not answer");
                Self::new(
                    Kind::SERVERS_UNREACHABLE,
                    "Storage or ledger of the jobs cannot be used at the moment.",
                )
                .retry_after(AWAY)
            }
            FailureKind::Failed => {
                error!(%failure, "a call failed");
                Self::new(Kind::INTERNAL, "The call failed; the log of the server says why.")
            }
            FailureKind::Interrupted => {
                Self::new(Kind::BUSY, "The server is about to end.").retry_after(AWAY)
            }
        }
    }
    /// What it means that a server behind this one failed.
    fn of_server(ServerFault { server, is_away }: ServerFault) -> Self {
        if is_away {
            let detail = format_args!("The {server} of the jobs does not answer.");
            return Self::new(Kind::SERVERS_UNREACHABLE, detail).retry_after(AWAY);
        }
        let detail = format_args!(
            "The {server} of the jobs refuses what this server asks of it, or answers wrongly; the log of the server says more."
        );
        Self::new(Kind::BAD_SERVERS, detail)
    }
}
