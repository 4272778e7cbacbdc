//! Tests of prs as its users and its servers meet it.
//!
//! `conformance` holds one list of cases for each interface of `prs-common`, for every implementation of it.
//! `harness` starts the real programs in fresh folders and reads what they leave, as a user would. `fuzz` tries what
//! reads foreign bytes on inputs made from a seed. Tests of single functions stand beside what they test.
//!
//! `tests/` has seven programs, each a folder with a module for each duty: `embedded` (no server), `fleet`, `serve` (the HTTP
//! server), `servers` (clients of RabbitMQ, Redis and S3), `chaos`, `fuzz` and `cost`, which counts what is allocated. Tests of a program run side by side and share
//! one RabbitMQ, Redis and S3: with a compute target of their own ([`harness::Fleet::shared`]) or with a virtual host, a
//! database and a bucket ([`harness::Fleet::apart`]). A test that stops, empties, fills or measures a server starts its own
//! ([`harness::Fleet::start`]). Tests that measure time or fill the machine are in a module `alone`, and run one at a time.
//! One test: `cargo test -p prs-tests --test fleet NAME`.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

pub mod conformance;
pub mod deadline;
pub mod fuzz;
pub mod harness;
