//! A job: its record, what programs share to work on it, and who serves it.

pub mod active;
pub mod context;
mod count;
mod error_pattern;
pub mod errors;
pub mod findings;
pub mod fleet;
pub mod init_failures;
pub mod leases;
pub mod log_shipper;
pub mod membership;
pub mod policy;
pub mod queue;
pub mod record;
pub mod status;
pub mod words;
pub mod workers;

pub use count::count;
pub(crate) use error_pattern::pattern;
