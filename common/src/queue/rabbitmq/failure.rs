//! What the broker's refusals mean: one table from AMQP errors to kinds.

use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::{Error, ErrorKind};

use super::super::{QueueError, QueueErrorKind};

/// No answer to a call about `name` came within `limit`, which means `kind`.
pub(super) fn unanswered(kind: QueueErrorKind, name: &str, limit: Duration) -> QueueError {
    QueueError::new(kind, name, format!("the broker has not answered for {} s", limit.as_secs()))
}

/// The broker lists the queue, empty and not consumed, and does not answer for it.
pub(super) fn not_served(name: &str, vhost: &str) -> QueueError {
    let message = format!(
        "the broker lists the queue and does not serve it, as when its leader or the majority of its hosts is missing; \
         it is left alone and comes back with them. `rabbitmqctl list_queues -p {vhost} name state leader online members` \
         shows it, `rabbitmq-queues check_if_node_is_quorum_critical` what misses a host. Delete it by hand \
         (`rabbitmqctl delete_queue -p {vhost} {name}`) only when all hosts are up and it still has no leader; prs then \
         makes it anew"
    );
    QueueError::new(QueueErrorKind::NotServed, name, message)
}

/// The broker takes no messages about `name` for now.
pub(super) fn blocked(name: &str) -> QueueError {
    let message =
        "the broker takes no messages because it is short of memory or disk; see `rabbitmqctl status`";
    QueueError::new(QueueErrorKind::Unavailable, name, message)
}

/// What `failure` means for a call about the queue `name`; `if_it_failed`, where the broker failed over the call.
pub(super) fn of(name: &str, failure: &Error, if_it_failed: QueueErrorKind) -> QueueError {
    QueueError::new(kind(failure, if_it_failed), name, text(failure))
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

fn kind(failure: &Error, if_it_failed: QueueErrorKind) -> QueueErrorKind {
    let ErrorKind::ProtocolError(said) = failure.kind() else { return QueueErrorKind::Unavailable };
    match said.kind() {
        // Also said of a queue whose host is down: then to declare it fails with the same code.
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => QueueErrorKind::NotFound,
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => QueueErrorKind::Forbidden,
        AMQPErrorKind::Soft(
            AMQPSoftError::PRECONDITIONFAILED
            | AMQPSoftError::RESOURCELOCKED
            | AMQPSoftError::CONTENTTOOLARGE,
        )
        | AMQPErrorKind::Hard(
            AMQPHardError::NOTALLOWED
            | AMQPHardError::NOTIMPLEMENTED
            | AMQPHardError::COMMANDINVALID
            | AMQPHardError::SYNTAXERROR,
        ) => QueueErrorKind::Refused,
        AMQPErrorKind::Hard(AMQPHardError::INTERNALERROR) => if_it_failed,
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
                soft(AMQPSoftError::PRECONDITIONFAILED, "PRECONDITION_FAILED - inequivalent arg"),
                QueueErrorKind::Refused,
            ),
            (
                soft(AMQPSoftError::ACCESSREFUSED, "ACCESS_REFUSED - access to queue"),
                QueueErrorKind::Forbidden,
            ),
            (hard(AMQPHardError::NOTALLOWED, "NOT_ALLOWED - vhost gone"), QueueErrorKind::Refused),
            (
                hard(AMQPHardError::CONNECTIONFORCED, "CONNECTION_FORCED - shutdown"),
                QueueErrorKind::Unavailable,
            ),
            (hard(AMQPHardError::INTERNALERROR, "INTERNAL_ERROR"), QueueErrorKind::Unavailable),
        ] {
            let words = said.get_message().to_string();
            let error = of("q", &ErrorKind::ProtocolError(said).into(), QueueErrorKind::Unavailable);
            assert_eq!(error.kind, kind, "{words}");
            assert_eq!(error.message, words);
        }
        let of_queue = |failure: Error| of("q", &failure, QueueErrorKind::NotServed);
        let failed = ErrorKind::ProtocolError(hard(AMQPHardError::INTERNALERROR, "INTERNAL_ERROR")).into();
        assert_eq!(of_queue(failed).kind, QueueErrorKind::NotServed);
        let lost = Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(of_queue(lost).kind, QueueErrorKind::Unavailable);
        assert_eq!(of_queue(ErrorKind::MissingHeartbeatError.into()).kind, QueueErrorKind::Unavailable);
    }
}
