//! The calls that a server alone makes: its addresses and pages ask for more than a command line does.
//!
//! Its folders and files, from the bottom up: `fleet`, `servers`, `idempotency`, `intake`, `phase`, `index`, `code`, `pictures`,
//! `preview`, `compare`, `mini_batches`, `error_groups`; each uses those before it alone.

pub mod code;
pub mod compare;
pub mod error_groups;
pub mod fleet;
pub mod idempotency;
pub mod index;
pub mod intake;
pub mod mini_batches;
pub mod phase;
pub mod pictures;
pub mod preview;
pub mod servers;
