//! What the schemas of several records have in common.

use prs_common::ledger::JobState;
use schemars::{Schema, SchemaGenerator, json_schema};

/// The states of a job.
pub fn states(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": JobState::ALL.map(JobState::as_str) })
}

/// A state, or none.
pub fn state_or_null(_: &mut SchemaGenerator) -> Schema {
    let states: Vec<_> = JobState::ALL.map(JobState::as_str).into_iter().map(Some).chain([None]).collect();
    json_schema!({ "type": ["string", "null"], "enum": states })
}
