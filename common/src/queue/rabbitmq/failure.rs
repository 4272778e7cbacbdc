//! What the broker's refusals mean: one table from AMQP errors to kinds.

use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::{Error, ErrorKind};

use super::super::{QueueError, QueueErrorKind};

const UNANSWERED: &str = "the broker has not answered";

/// An error about the queue (or the broker) `name`.
pub(super) fn error(kind: QueueErrorKind, name: &str, message: impl Into<String>) -> QueueError {
    QueueError { kind, name: name.to_owned(), message: message.into() }
}

/// No answer to a call about `name` came within `limit`.
pub(super) fn unanswered(name: &str, limit: Duration) -> QueueError {
    error(QueueErrorKind::Unavailable, name, format!("{UNANSWERED} for {} s", limit.as_secs()))
}

/// Whether this is the error of a call that was given no answer.
pub(super) fn is_unanswered(error: &QueueError) -> bool {
    error.message.starts_with(UNANSWERED)
}

/// What `failure` means for a call about the queue `name`.
pub(super) fn of(name: &str, failure: &Error) -> QueueError {
    error(kind(failure), name, text(failure))
}

/// The broker's own words where it said any.
pub(super) fn text(failure: &Error) -> String {
    match failure.kind() {
        ErrorKind::ProtocolError(said) => said.get_message().to_string(),
        ErrorKind::ChannelsLimitReached => {
            "the broker allows no more channels on this connection; raise channel_max of the broker"
                .to_owned()
        }
        ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidChannel(_) => {
            "its channel was closed".to_owned()
        }
        ErrorKind::InvalidConnectionState(_) => "the connection to the broker was lost".to_owned(),
        ErrorKind::MissingHeartbeatError => {
            "the broker has sent no heartbeat; the connection is lost".to_owned()
        }
        ErrorKind::IOError(cause) => format!("the connection to the broker was lost: {cause}"),
        _ => failure.to_string(),
    }
}

fn kind(failure: &Error) -> QueueErrorKind {
    let ErrorKind::ProtocolError(said) = failure.kind() else { return QueueErrorKind::Unavailable };
    match said.kind() {
        // Also said of a queue whose process or host is down, which comes back.
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) if said.get_message().as_str().contains("no queue") => {
            QueueErrorKind::NotFound
        }
        AMQPErrorKind::Soft(
            AMQPSoftError::ACCESSREFUSED
            | AMQPSoftError::PRECONDITIONFAILED
            | AMQPSoftError::RESOURCELOCKED
            | AMQPSoftError::CONTENTTOOLARGE,
        )
        | AMQPErrorKind::Hard(
            AMQPHardError::NOTALLOWED
            | AMQPHardError::NOTIMPLEMENTED
            | AMQPHardError::COMMANDINVALID
            | AMQPHardError::SYNTAXERROR,
        ) => QueueErrorKind::Refused,
        _ => QueueErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use super::*;

    #[test]
    fn refusals_have_kinds() {
        let soft = |error: AMQPSoftError, text: &str| AMQPError::new(error.into(), text.into());
        let hard = |error: AMQPHardError, text: &str| AMQPError::new(error.into(), text.into());
        for (said, kind) in [
            (
                soft(AMQPSoftError::NOTFOUND, "NOT_FOUND - no queue 'q' in vhost '/'"),
                QueueErrorKind::NotFound,
            ),
            (
                soft(
                    AMQPSoftError::NOTFOUND,
                    "NOT_FOUND - home node of durable queue 'q' is down or inaccessible",
                ),
                QueueErrorKind::Unavailable,
            ),
            (
                soft(AMQPSoftError::PRECONDITIONFAILED, "PRECONDITION_FAILED - inequivalent arg"),
                QueueErrorKind::Refused,
            ),
            (soft(AMQPSoftError::ACCESSREFUSED, "ACCESS_REFUSED - access to queue"), QueueErrorKind::Refused),
            (hard(AMQPHardError::NOTALLOWED, "NOT_ALLOWED - vhost gone"), QueueErrorKind::Refused),
            (
                hard(AMQPHardError::CONNECTIONFORCED, "CONNECTION_FORCED - shutdown"),
                QueueErrorKind::Unavailable,
            ),
            (hard(AMQPHardError::INTERNALERROR, "INTERNAL_ERROR"), QueueErrorKind::Unavailable),
        ] {
            let words = said.get_message().to_string();
            let error = of("q", &ErrorKind::ProtocolError(said).into());
            assert_eq!(error.kind, kind, "{words}");
            assert_eq!(error.message, words);
        }
        let lost = Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert!(of("q", &lost).is_retryable());
        assert!(of("q", &ErrorKind::MissingHeartbeatError.into()).is_retryable());
    }
}
