//! Tests of prs as its users and its servers meet it.
//!
//! `conformance` holds one list of cases for each interface of `prs-common`, for every implementation of it.
//! `harness` starts the real programs in fresh folders and reads what they leave, as a user would. `fuzz` tries what
//! reads foreign bytes on inputs made from a seed. The tests themselves are in `tests/`, one file for each duty. Tests
//! of single functions are not here: they stand beside what they test.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

pub mod conformance;
pub mod deadline;
pub mod fuzz;
pub mod harness;
