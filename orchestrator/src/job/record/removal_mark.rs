//! What stands in the place of `job.json` while a job is removed.

use serde::{Deserialize, Serialize};

/// Says that a job is removed, so that no program starts it again.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RemovalMark {
    removed: bool,
    /// The last start of the job; nothing where it had no record.
    pub(crate) start: Option<u32>,
}

impl RemovalMark {
    /// The mark of a job whose last start this was, as it is stored.
    pub(crate) fn of(start: Option<u32>) -> String {
        serde_json::to_string_pretty(&Self { removed: true, start }).expect("a mark holds only plain values")
    }

    /// Reads a mark; nothing where `body` is a record.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let begins_as_one = body.starts_with(b"{\n  \"removed\":");
        begins_as_one.then(|| serde_json::from_slice(body).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::RemovalMark;
    use crate::job::record::tests::record;

    #[test]
    fn a_mark_says_the_last_start_and_no_record_is_one() {
        for start in [None, Some(1), Some(12)] {
            let mark = RemovalMark::parse(RemovalMark::of(start).as_bytes());
            assert_eq!(mark.map(|mark| mark.start), Some(start));
        }
        let record = serde_json::to_string_pretty(&record()).unwrap();
        assert!(RemovalMark::parse(record.as_bytes()).is_none());
        assert!(RemovalMark::parse(b"{}").is_none());
    }
}
