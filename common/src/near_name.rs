//! Which name was probably meant by one that does not exist.

/// The one of `known` that `key` may be a misspelling of.
pub fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let spell = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let wanted = spell(key);
    let allowed = (wanted.chars().count() / 3).max(1);
    known
        .iter()
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
    fn edits_count_swaps_once() {
        assert_eq!(edits("abcd", "abdc"), 1);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "abc"), 0);
    }
}
