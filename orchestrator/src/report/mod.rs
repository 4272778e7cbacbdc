//! The reports and logs that the orchestrator writes (spec section 5).

pub mod error_list;
pub mod init_errors;
pub mod job_result;
pub mod journal;
pub mod processed_mini_batches;
pub mod progress_overview;
pub mod readme;
pub mod starts;
pub mod summaries;

/// Appends a CSV field, quoted where that is needed.
fn push_csv(line: &mut String, field: &str) {
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
            assert_eq!(line, expected);
        }
    }
}
