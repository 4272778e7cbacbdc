//! What the files that mini-batches write below their output folder may be called.
//!
//! A name is lengthened before it stands in the output: several mini-batches may write the same one, and files of others
//! may have it. It is judged where it is written, with all that may be added: there it fails one try, and later it would
//! fail the job.

use crate::mini_batch::id_of;
use crate::storage::is_kept_by_stores;

/// Longest name of a file or folder on the file systems that an output may be brought to, bytes.
const LONGEST_ON_DISK: usize = 255;

/// What publishing may add to a name, bytes: `.` and the id of the mini-batch, `-` and a number, and `.` and the id once
/// more.
pub fn longest_addition() -> usize {
    let id = 1 + id_of(u64::from(u32::MAX)).len();
    let number = 1 + u32::MAX.to_string().len();
    id + number + id
}

/// What is wrong with `name`, the `/`-separated path of a file below the output folder, and what to do; `longest` bytes
/// of it are the most that all stores of the job take.
pub fn check_output_name(name: &str, longest: usize) -> Result<(), String> {
    if is_kept_by_stores(name) {
        return Err(
            "stores keep names for themselves that begin with .tmp or .prs-claim: give it another one"
                .to_owned(),
        );
    }
    if name.contains('\\') || name.chars().any(|letter| letter.is_control() || is_no_character(letter)) {
        return Err("its name has a backslash or a control character, which not every store takes: give it another one"
            .to_owned());
    }
    let most = LONGEST_ON_DISK - longest_addition();
    if let Some(part) = name.split('/').find(|part| part.len() > most) {
        return Err(format!(
            "a part of its name has {} bytes, and {most} are the most, since the id of the mini-batch may be added: \
             shorten {part:?}",
            part.len()
        ));
    }
    if name.len() > longest {
        return Err(format!(
            "its path below EntryScript().output_dir has {} bytes, and {longest} are the most that the storage and the \
             output of this job take: shorten it",
            name.len()
        ));
    }
    Ok(())
}

/// Whether it can stand in no XML, and so in no listing of a bucket.
fn is_no_character(letter: char) -> bool {
    matches!(letter, '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_judged_with_all_that_may_be_added() {
        assert_eq!(longest_addition(), ".mb-4294967295-4294967295.mb-4294967295".len());
        let (part, longer) = ("x".repeat(216), "x".repeat(217));
        let deep = [&*part; 4].join("/");
        for name in ["a", "a b/ü.csv", ".hidden", ".tmp-like", "a/.tmp/b", &part, &deep] {
            assert_eq!(check_output_name(name, 867), Ok(()), "{name}");
        }
        for (name, says) in [
            (&*longer, "a part of its name has 217 bytes, and 216 are the most"),
            (&format!("a/{longer}/b"), "shorten \"xxx"),
            (&format!("{deep}x"), "a part of its name has 217 bytes"),
            (
                &format!("{deep}/y"),
                "its path below EntryScript().output_dir has 869 bytes, and 867 are the most",
            ),
            ("a\\b", "a backslash or a control character"),
            ("a\nb", "a backslash or a control character"),
            ("a\u{85}b", "a backslash or a control character"),
            ("a\u{ffff}", "a backslash or a control character"),
            (".tmp/a", "begin with .tmp or .prs-claim"),
            (".prs-claim", "begin with .tmp or .prs-claim"),
        ] {
            let told = check_output_name(name, 867).unwrap_err();
            assert!(told.contains(says), "{name:?}: {told}");
        }
    }
}
