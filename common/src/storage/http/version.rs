//! Which state of a file an answer of an HTTP server is about.
//!
//! Servers tell it by an `ETag`, by the time of the last change, or not at all; then the size is all there is to compare.

use std::fmt;

/// Between the parts of a version. No header can hold it.
const BETWEEN: char = '\n';

/// What a server says of the state of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeenState {
    /// The `ETag` as it stands in the header; empty without one.
    pub(super) etag: String,
    /// `Last-Modified`; empty without one.
    pub(super) modified: String,
    /// Bytes.
    pub(super) size: u64,
}

impl SeenState {
    /// What the version of an object says, which `Display` wrote.
    pub(super) fn parse(version: &str) -> Option<Self> {
        let mut parts = version.split(BETWEEN);
        let (size, etag, modified) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
        Some(Self { etag: etag.to_owned(), modified: modified.to_owned(), size })
    }

    /// The version of the file as it is listed. Where nothing but the size is told, that is another each time: a file of the
    /// same size need not be the same, and no job takes the output of a former one for it.
    pub(super) fn listed(&self) -> String {
        if !self.etag.is_empty() || !self.modified.is_empty() {
            return self.to_string();
        }
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        format!("{self}{BETWEEN}{now}")
    }

    /// Whether both can be about one state of the file. A weak `ETag`, which some servers make of a strong one on the way,
    /// counts like it; what one of the two does not say is not compared.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let both = |a: &str, b: &str| !a.is_empty() && !b.is_empty();
        if self.size != other.size {
            return false;
        }
        if both(&self.etag, &other.etag) {
            return opaque(&self.etag) == opaque(&other.etag);
        }
        !both(&self.modified, &other.modified) || self.modified == other.modified
    }

    /// The condition that a request for this state states: its header, and the value. A weak `ETag` matches nothing there.
    pub(super) fn condition(&self) -> Option<(&'static str, &str)> {
        if self.etag.starts_with('"') {
            return Some(("if-match", &self.etag));
        }
        (self.etag.is_empty() && !self.modified.is_empty()).then_some(("if-unmodified-since", &self.modified))
    }
}

/// An `ETag` without the mark of a weak one.
fn opaque(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

impl fmt::Display for SeenState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{BETWEEN}{}{BETWEEN}{}", self.size, self.etag, self.modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(etag: &str, modified: &str, size: u64) -> SeenState {
        SeenState { etag: etag.to_owned(), modified: modified.to_owned(), size }
    }

    #[test]
    fn states_of_a_file_are_compared_by_what_both_say() {
        for (one, other, agrees) in [
            (seen("\"a\"", "Mon", 1), seen("\"a\"", "Tue", 1), true),
            (seen("\"a\"", "Mon", 1), seen("\"b\"", "Mon", 1), false),
            (seen("\"a\"", "Mon", 1), seen("W/\"a\"", "Mon", 1), true),
            (seen("0xA", "", 1), seen("\"0xA\"", "", 1), true),
            (seen("\"a\"", "Mon", 1), seen("\"a\"", "Mon", 2), false),
            (seen("", "Mon", 1), seen("\"a\"", "Mon", 1), true),
            (seen("", "Mon", 1), seen("", "Tue", 1), false),
            (seen("", "", 1), seen("", "Tue", 1), true),
        ] {
            assert_eq!(one.agrees(&other), agrees, "{one:?} {other:?}");
            assert_eq!(SeenState::parse(&one.to_string()), Some(one));
        }
        assert_eq!(SeenState::parse("abc-7"), None);
        let told = seen("", "Mon", 1);
        assert_eq!(told.listed(), told.to_string());
        let untold = seen("", "", 1);
        assert_ne!(untold.listed(), untold.listed());
        assert_eq!(SeenState::parse(&untold.listed()), Some(untold));
    }

    #[test]
    fn a_request_states_what_a_server_can_match() {
        assert_eq!(seen("\"a\"", "Mon", 1).condition(), Some(("if-match", "\"a\"")));
        assert_eq!(seen("W/\"a\"", "Mon", 1).condition(), None);
        assert_eq!(seen("", "Mon", 1).condition(), Some(("if-unmodified-since", "Mon")));
        assert_eq!(seen("", "", 1).condition(), None);
    }
}
