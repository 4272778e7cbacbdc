//! Tests of prs as its users and its servers meet it.
//!
//! `conformance` holds one list of cases for each interface of `prs-common`, for every implementation of it. The
//! tests themselves are in `tests/`, one file for each duty. Tests of single functions are not here: they stand
//! beside what they test.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

pub mod conformance;
pub mod deadline;
