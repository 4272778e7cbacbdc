//! The reports and logs that the orchestrator writes (spec section 5).

pub mod error_list;
pub mod init_errors;
pub mod job_result;
pub mod journal;
mod lost_nodes;
pub mod page;
pub mod processed_mini_batches;
pub mod progress_overview;
pub mod starts;
pub(crate) mod statistics;
pub mod summaries;
pub mod summary;
pub(crate) mod try_table;

pub use statistics::{group_id_of, read as read_published};

use prs_common::timestamp::push_seconds;

/// Appends durations, microseconds, as CSV fields of seconds, each after a comma.
fn push_durations(line: &mut String, durations_us: [u64; 3]) {
    for duration in durations_us {
        line.push(',');
        push_seconds(line, duration);
    }
}

/// Appends a CSV field after a comma, quoted where that is needed.
pub fn push_csv(line: &mut String, field: &str) {
    line.push(',');
    if field.contains([',', '"', '\n', '\r']) {
        line.push('"');
        for part in field.split_inclusive('"') {
            line.push_str(part);
            if part.ends_with('"') {
                line.push('"');
            }
        }
        line.push('"');
    } else {
        line.push_str(field);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_are_quoted_where_needed() {
        for (field, expected) in
            [("a b", "a b"), ("a,b", "\"a,b\""), ("a\"\nb\"", "\"a\"\"\nb\"\"\""), ("", "")]
        {
            let mut line = String::new();
            super::push_csv(&mut line, field);
            assert_eq!(line, format!(",{expected}"));
        }
    }
}
