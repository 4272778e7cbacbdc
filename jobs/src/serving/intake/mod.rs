//! Jobs that are handed in to a server: with what came along, and nothing else of this machine.
//!
//! | file | duty |
//! |---|---|
//! | `unpack` | archives as people and programs send them |
//! | `staging` | the folder for what came with a job |
//! | `dry_run` | what would run |
//! | `order` | what a program of its own is to do for a server, and what it says of that |
//! | `program` | such programs: a job of this machine runs in one, whether the server does or not |
//! | `calls` | submit, resubmit and resume for a server: on a fleet in its process, on this machine in a program |
//!
//! A server may be killed at any moment. Everything up to the picking of an id is done again by the next request
//! ([`Requests`](crate::idempotency::Requests)). On this machine the folder of the run then appears at once, with all that came and
//! with the order; a program takes it up, which one of several does that try. A server that starts has those taken up that
//! nobody has. On a fleet, the steps of a submission may be repeated, and `calls` repeats them.

mod calls;
mod dry_run;
mod order;
mod program;
mod staging;
pub mod unpack;

pub use calls::{Call, Desk, Resumed, Submission};
pub use dry_run::DryRun;
pub use order::{Refusal, Word, take_up};
pub use program::Program;
pub use staging::Staging;
