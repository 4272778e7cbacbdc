//! Which name was probably meant by one that does not exist, and which there are.
//!
//! Names come from users, each of many messages has some of them, and so no message looks at more than a few.

use std::fmt;

/// Longest name that is compared, bytes: the comparison takes the product of two lengths.
const LONGEST: usize = 256;
/// Names that one is compared with, and that a message lists.
const MOST: usize = 100;

/// Names that there are, for a message: the first, and how many more.
#[derive(Debug)]
pub(crate) struct Few<'a> {
    first: Vec<&'a str>,
    more: usize,
}

/// The first names of `known`; however many there are, no more are looked at.
pub(crate) fn few<'a>(known: impl ExactSizeIterator<Item = &'a str>) -> Few<'a> {
    let more = known.len().saturating_sub(MOST);
    Few { first: known.take(MOST).collect(), more }
}

impl<'a> Few<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The one of them that `key` may be a misspelling of.
    pub(crate) fn nearest(&self, key: &str) -> Option<&'a str> {
        nearest(key, &self.first)
    }
}

impl fmt::Display for Few<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_empty(), self.more) {
            (true, _) => f.write_str("none"),
            (false, 0) => f.write_str(&self.first.join(", ")),
            (false, more) => write!(f, "{} and {more} more", self.first.join(", ")),
        }
    }
}

/// The one of `known` that `key` may be a misspelling of.
pub fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    if key.len() > LONGEST {
        return None;
    }
    let spell = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let wanted = spell(key);
    let letters = wanted.chars().count();
    let allowed = (letters / 3).max(1);
    known
        .iter()
        .take(MOST)
        .filter(|candidate| candidate.len() <= LONGEST)
        // So many letters have to come or go.
        .filter(|candidate| candidate.chars().count().abs_diff(letters) <= allowed)
        .map(|&candidate| (edits(&wanted, &spell(candidate)), candidate))
        .filter(|&(distance, candidate)| distance <= allowed && distance < candidate.len())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
pub(crate) fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                let swapped: usize = before[j - 2];
                best = best.min(swapped + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::keys::JOB;

    #[test]
    fn nearest_key() {
        for (given, expected) in [
            ("node_cout", Some("node_count")),
            ("node-count", Some("node_count")),
            ("Node_Count", Some("node_count")),
            ("nodecount", Some("node_count")),
            ("entry_scirpt", Some("entry_script")),
            ("input", Some("inputs")),
            ("outputt", Some("outputs")),
            ("side_input", Some("side_inputs")),
            ("minibatch_size", Some("mini_batch_size")),
            ("max_retries", None),
            ("x", None),
        ] {
            assert_eq!(nearest(given, &JOB.names()), expected, "{given}");
        }
    }

    #[test]
    fn long_names_and_long_lists_are_cut() {
        let names: Vec<String> = (0..1000).map(|number| format!("name{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let listed = |names: &[&str]| few(names.iter().copied()).to_string();
        assert_eq!(listed(&[]), "none");
        assert_eq!(listed(&names[..2]), "name0, name1");
        assert!(listed(&names).ends_with(", name99 and 900 more"));
        assert_eq!(nearest(&"x".repeat(1 << 20), &[&"x".repeat((1 << 20) - 1)]), None);
    }

    #[test]
    fn edits_count_swaps_once() {
        assert_eq!(edits("abcd", "abdc"), 1);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "abc"), 0);
    }
}
