//! What a job is and where its things live.

pub mod dataset;
pub mod job;
