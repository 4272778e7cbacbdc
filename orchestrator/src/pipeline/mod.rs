//! Pipelines: how one stands, what its steps are given, and how it ends.
//!
//! A step is an ordinary job with a record of its own, which says how it stands. Nothing else is written down between two
//! steps: the program that drives a pipeline looks at the records, asks [`decide`](prs_common::job::pipeline::decide) what is next, and
//! does it; the next one can do the same from wherever it was left. Who drives is the program that submitted it in one
//! process, and on a fleet the one that has its lease (`drive`).

mod binding;
mod delivery;
mod drive;
mod ending;
mod intact;
mod look;
mod report;
mod tables;

pub use binding::bound;
pub use delivery::{Delivery, deliver, open};
pub use drive::{DriveError, Driven, context, drive, hand_in_pipeline, store_waiting};
pub use ending::{Ended, conclude, end_unrun, fail_step};
pub use intact::{Given, given, outputs};
pub use look::{StepView, look, states};
