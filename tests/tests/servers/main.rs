//! The interfaces to queue, ledger and storage over real servers, and when those fail.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

mod alone;
mod embedded_conformance;
mod https;
mod job_text;
mod minio;
mod rabbitmq;
mod redis;
mod s3;
mod s3_answers;
mod storage_elsewhere;
