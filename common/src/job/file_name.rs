//! What the result file of a job may be called.
//!
//! Some names are taken: those of what prs itself keeps in an output. A store may take more than equal names for the same
//! file (upper and lower case, dots at the end, letters that nobody sees), so what comes close to a taken name is refused
//! everywhere: a job must not lose its result on one store that it brings on another.

use crate::layout::FAILED_MINI_BATCHES;
use crate::storage::is_kept_by_stores;

/// Characters that the name must not have.
const NOT_IN_FILE_NAME: &str = "~\"#%&*:<>?/\\{|}";
/// What names begin with that prs gives to files of its own.
const OWN_PREFIX: &str = ".prs-";
/// Longest name, bytes.
const LONGEST: usize = 255;

/// What is wrong with `name` as the name of the result file (`append_row_file_name`), with the remedy.
pub fn check_file_name(name: &str) -> Result<(), String> {
    let refused = |c: char| NOT_IN_FILE_NAME.contains(c) || c.is_control();
    let folded = folded(name);
    // `.`, `..`, and what a store takes for these.
    if folded.is_empty() || name.len() > LONGEST || name.contains(refused) {
        return Err(format!(
            "{name:?} is not a file name: give 1 to {LONGEST} bytes without any of {NOT_IN_FILE_NAME}"
        ));
    }
    if folded == FAILED_MINI_BATCHES || folded.starts_with(OWN_PREFIX) || is_kept_by_stores(&folded) {
        return Err(format!(
            "{name:?} is, or some stores take it for, a name that prs itself uses in an output: give another one, such \
             as parallel_run_step.txt"
        ));
    }
    Ok(())
}

/// `name` as the least particular of stores knows it.
fn folded(name: &str) -> String {
    // Both ways: there are letters with the same capital, and others with the same small letter.
    let letters = name.chars().filter(|letter| !is_unseen(*letter));
    let folded = letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>();
    folded.trim_end_matches(['.', ' ']).to_owned()
}

/// Letters that have no shape; file systems that ignore case ignore them too.
fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_prs_uses_are_refused_in_any_spelling() {
        for name in [
            "failed_mini_batches.jsonl",
            "FAILED_mini_batches.JSONL",
            "Failed_Mini_Batches.JSONL.",
            "failed_mini_batches.jsonl.",
            "failed_mini_batches.jsonl . ",
            "failed_mini_batche\u{17f}.jsonl",
            "failed_\u{200b}mini_batches.jsonl",
            ".tmp",
            ".TMP",
            ".tmp.",
            ".prs-claim",
            ".Prs-Claim",
            ".pr\u{17f}-claim",
            ".prs-anything",
        ] {
            let refused = check_file_name(name).unwrap_err();
            assert!(
                refused.contains("that prs itself uses") && refused.contains("give another one"),
                "{refused}"
            );
        }
        for name in
            ["", ".", "..", "...", ". ", " ", "\u{200b}", "a/b", "a\\b", "a:b", "a\nb", &"n".repeat(256)]
        {
            assert!(check_file_name(name).unwrap_err().contains("is not a file name"), "{name:?}");
        }
        for name in [
            "parallel_run_step.txt",
            "failed.jsonl",
            "failed_mini_batches.json",
            "failed_mini_batches.jsonl.txt",
            ".tmp-like",
            ".prs",
            ".hidden",
            "prs-claim",
            "\u{e9}t\u{e9}.csv",
            &"n".repeat(255),
        ] {
            assert_eq!(check_file_name(name), Ok(()), "{name:?}");
        }
    }
}
