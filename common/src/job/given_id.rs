//! The id of a job that its user chooses (`--job-name`), and what such an id may be.
//!
//! It is the name of a folder, a part of the keys of a store and of the names of queues, and the ids of the steps of a pipeline
//! begin with it. Whether it is free is looked at where the job is submitted.

/// The longest one: the id of a step follows it, and both are the name of one folder.
const LONGEST: usize = 128;

/// What an id may be.
const JOB_ID: &str = "1 to 128 letters, digits, `_`, `.` and `-` that begin with a letter or digit, and do not end with `.`, or \
                      with `.` and a number";

/// What is wrong with `id` as the id of a job.
///
/// # Errors
/// What it is to be.
pub fn check_job_id(id: &str) -> Result<(), String> {
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let begins = id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    // A later start of job `a` has its queue and its ledger under `a.2`.
    let is_start =
        id.rsplit_once('.').is_some_and(|(_, last)| last.bytes().all(|byte| byte.is_ascii_digit()));
    if plain && begins && !is_start && id.len() <= LONGEST {
        return Ok(());
    }
    Err(format!("{id:?} is not the id of a job: give {JOB_ID}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_name_of_a_folder_and_of_no_start_of_another_job() {
        for (id, is) in [
            ("nightly", true),
            ("Nightly_7.v2", true),
            ("7", true),
            (&*"a".repeat(128), true),
            (&*"a".repeat(129), false),
            ("", false),
            ("-a", false),
            (".a", false),
            ("a/b", false),
            ("a b", false),
            ("a.2", false),
            ("a.", false),
            ("a\u{e9}", false),
        ] {
            assert_eq!(check_job_id(id).is_ok(), is, "{id}");
        }
    }
}
