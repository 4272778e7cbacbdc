//! The reports and logs that the orchestrator writes (spec section 5).

pub mod error_list;
pub mod init_errors;
pub(crate) mod items;
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

use std::io;
use std::path::Path;

use prs_common::timestamp::push_seconds;
use prs_common::tree;

/// Writes a whole report: a reader finds the former one or this one, and never a part. It is written below `work` at first, a
/// folder of the same file system where neither readers nor the shipper of logs look. The folder of `path` is made.
pub(crate) fn write_whole(work: &Path, path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let aside = work.join(format!("{}.new", name.display()));
    tree::write(&aside, content)?;
    path.parent().map_or(Ok(()), tree::make_folders)?;
    tree::rename(&aside, path)
}

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

    #[test]
    fn a_reader_has_a_whole_report() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("user/error.txt");
        super::write_whole(folder.path(), &path, "first").unwrap();
        let mut open = std::fs::File::open(&path).unwrap();
        super::write_whole(folder.path(), &path, "second").unwrap();
        let mut read = String::new();
        std::io::Read::read_to_string(&mut open, &mut read).unwrap();
        assert_eq!((read.as_str(), std::fs::read_to_string(&path).unwrap().as_str()), ("first", "second"));
        // What cannot be written leaves the former one.
        assert!(super::write_whole(&folder.path().join("none"), &path, "third").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
    }
}
