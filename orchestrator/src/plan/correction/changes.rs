//! Changes of inputs that mini-batches have rows of, for a person.

use std::collections::BTreeMap;
use std::fmt;

use prs_common::file_version::FileVersion;
use prs_common::message_pack;
use prs_common::mini_batch::MiniBatchIndex;
use prs_tabular::TableReader;

/// Files that are named, at most.
const MOST_FILES: usize = 3;
/// Groups of mini-batches of a file, or columns, that are named, at most.
const MOST_NAMED: usize = 5;

/// How a file is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// It is not there any more, or not among the inputs.
    Gone,
    /// Its content is another; in words, where its size and time of change tell.
    Content(Option<String>),
    /// Its columns are others, in words.
    Types(String),
    /// It is not in the group that it was in, or is new there.
    Group,
    /// An input has it more than once, so that its mini-batches cannot be told apart.
    Twice,
    /// It cannot be read.
    Unread(String),
}

impl Change {
    /// The change of a file of these versions, then and now.
    pub(super) fn content(versions: Option<(FileVersion, FileVersion)>) -> Self {
        Self::Content(versions.and_then(|(then, now)| then.difference(&now)))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("is gone"),
            Self::Content(None) => f.write_str("has other content there"),
            Self::Content(Some(difference)) => write!(f, "changed ({difference})"),
            Self::Types(difference) => write!(f, "has other columns now ({difference})"),
            Self::Group => f.write_str("came into their group, or left it"),
            Self::Twice => f.write_str("is more than once among the inputs"),
            Self::Unread(error) => write!(f, "cannot be read ({error})"),
        }
    }
}

/// Changed files, each with the mini-batches that have rows of it.
#[derive(Debug, Default)]
pub(super) struct Changes {
    files: BTreeMap<String, (Change, Vec<MiniBatchIndex>)>,
}

impl Changes {
    pub(super) fn add(&mut self, file: &str, index: MiniBatchIndex, change: Change) {
        let (_, indexes) = self.files.entry(file.to_owned()).or_insert_with(|| (change, Vec::new()));
        indexes.push(index);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (file, (change, indexes))) in self.files.iter().take(MOST_FILES).enumerate() {
            let mut indexes = indexes.clone();
            indexes.sort_unstable();
            indexes.dedup();
            let noun = if indexes.len() == 1 { "mini-batch" } else { "mini-batches" };
            let before = if at > 0 { "; " } else { "" };
            write!(f, "{before}{file} {change}, and {noun} {} had it", ranges(&indexes))?;
        }
        match self.files.len().saturating_sub(MOST_FILES) {
            0 => Ok(()),
            more => write!(f, "; and {more} more files"),
        }
    }
}

/// Numbers in words: those that follow one another by the first and the last.
fn ranges(indexes: &[MiniBatchIndex]) -> String {
    let groups: Vec<_> = indexes.chunk_by(|one, next| one + 1 == *next).collect();
    let named = groups.iter().take(MOST_NAMED).map(|group| match group {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    });
    let named = named.collect::<Vec<_>>().join(", ");
    match groups.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named} and {more} more groups"),
    }
}

/// The change of a file that was read one way (an encoded `TableReader`) and is to be read in another now.
pub(super) fn types_differ(was: &[u8], is: &[u8]) -> Change {
    let columns = |reader| message_pack::decode::<TableReader>(reader).ok()?.column_types();
    let (Some(was), Some(is)) = (columns(was), columns(is)) else { return Change::Content(None) };
    match was.differences(&is) {
        told if told.is_empty() => Change::Types("text is read by other rules".to_owned()),
        mut told => {
            told.truncate(MOST_NAMED);
            Change::Types(told.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_file_and_mini_batch() {
        let mut changes = Changes::default();
        for index in [9, 3, 4, 5, 3] {
            changes.add("/d/a.csv", index, Change::Content(None));
        }
        changes.add("/d/b.csv", 0, Change::Gone);
        assert_eq!(
            changes.to_string(),
            "/d/a.csv has other content there, and mini-batches 3-5, 9 had it; /d/b.csv is gone, and mini-batch 0 had it"
        );
        for file in ["/d/c", "/d/d"] {
            changes.add(file, 1, Change::Group);
        }
        assert!(changes.to_string().ends_with("; and 1 more files"), "{changes}");
    }
}
