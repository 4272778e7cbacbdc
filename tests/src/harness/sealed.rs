//! Records that a test changes behind the back of prs, sealed again so that they are taken for what prs wrote.

use prs_common::seal::seal;
use serde_json::Value;

/// The text of a record with these members.
pub fn sealed(mut record: Value) -> String {
    if let Some(members) = record.as_object_mut() {
        members.remove("crc32c");
    }
    seal(serde_json::to_string_pretty(&record).unwrap())
}
