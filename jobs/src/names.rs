//! Names in a sentence.

use std::fmt::Display;

/// The first `most` of these, and how many more there are: `a, b and 3 more`.
pub fn first<N: Display>(names: impl IntoIterator<Item = N>, most: usize) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let shown = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        for (count, expected) in [(0, ""), (1, "0"), (2, "0, 1"), (5, "0, 1 and 3 more")] {
            assert_eq!(first(0..count, 2), expected);
        }
    }
}
