//! No clients of RabbitMQ and Redis: the program was built without the feature `fleet`.

use std::sync::Arc;

use super::{ConnectError, ServerUrls, Servers};
use crate::absent::absent;
use crate::calls::Calls;
use crate::ledger::{Ledger, LedgerError, LedgerErrorKind};
use crate::queue::{Queue, QueueError, QueueErrorKind};

/// Whether this program has them.
pub(super) const ARE_HERE: bool = false;

/// Fails.
pub async fn connect(_: &ServerUrls) -> Result<Servers, ConnectError> {
    Err(ConnectError::Absent)
}

/// Fails.
pub async fn open_broker(_: &str) -> Result<Arc<dyn Queue>, QueueError> {
    Err(QueueError::new(QueueErrorKind::Refused, "", absent("fleet", "fleet")))
}

/// Fails.
pub async fn open_ledger(_: &str, _: Option<Arc<dyn Calls>>) -> Result<Arc<dyn Ledger>, LedgerError> {
    let message = absent("fleet", "fleet");
    Err(LedgerError { kind: LedgerErrorKind::Refused, job: String::new(), message })
}

/// Nothing: no URL is read.
pub fn broker_place(_: &str) -> Option<String> {
    None
}

/// Nothing: no URL is read.
pub fn ledger_place(_: &str) -> Option<String> {
    None
}
