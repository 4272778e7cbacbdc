//! A job: its record, what programs share to work on it, and who serves it.

pub mod active;
pub mod context;
pub mod corrected_plan;
mod count;
pub(crate) mod error_pattern;
pub mod errors;
pub mod findings;
pub mod fleet;
pub mod init_failures;
pub mod leases;
pub mod log_shipper;
pub mod membership;
pub mod policy;
pub mod queue;
pub mod reach;
pub mod record;
pub mod reuse;
pub mod status;
pub mod targets;
pub(crate) mod traces;
pub mod words;
pub mod workers;

use prs_common::ledger::LedgerError;
use prs_common::storage::StorageError;

pub use count::count;
pub(crate) use error_pattern::pattern;

/// A server that keeps what is known of a job failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum ServerError {
    /// The ledger failed.
    Ledger(#[from] LedgerError),
    /// The store failed.
    Storage(#[from] StorageError),
}

impl ServerError {
    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Ledger(error) => error.is_retryable(),
            Self::Storage(error) => error.is_retryable(),
        }
    }
}
