//! Which reason a text gives: the texts of [`EndReason`] as patterns.

use prs_common::end_reason::EndReason;

/// What stands between a reason and its cause.
const CAUSE: &str = "; the most frequent error: ";

/// The texts that a reason may be one of, by its first line. A cause behind it is no part of it.
pub fn reasons_of(reason: &str) -> Vec<&'static str> {
    let first = reason.lines().next().unwrap_or_default();
    let first = first.split_once(CAUSE).map_or(first, |(reason, _)| reason);
    EndReason::TEXTS.iter().copied().filter(|text| !text.contains(CAUSE) && fits(text, first)).collect()
}

/// Whether `said` is `text` with something in the place of each `{field}`.
fn fits(text: &str, said: &str) -> bool {
    let mut fixed = text.split('{').map(|part| part.split_once('}').map_or(part, |(_, fixed)| fixed));
    let Some(mut rest) = said.strip_prefix(fixed.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = fixed.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_from_others() {
        let table = [
            ("3 items failed, more than error_threshold 2 allows", 1),
            ("3 items failed, more than error_threshold 2 allows; the most frequent error: E: x", 1),
            ("init() failed 3 times in a row: E: x\n  more", 1),
            ("interrupted (Ctrl-C)", 1),
            ("interrupted (Ctrl-C) and more", 0),
            ("the disk is full", 0),
        ];
        for (said, count) in table {
            assert_eq!(reasons_of(said).len(), count, "{said}: {:?}", reasons_of(said));
        }
    }
}
