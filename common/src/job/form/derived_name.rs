//! The name of a job, from what Azure allows as one: letters of both cases, digits, `_` and `.`, up to 255 of them.

/// Longest name of a job.
const LONGEST: usize = 32;
/// Shortest one.
const SHORTEST: usize = 3;
/// What a name begins with that would begin with something else than a letter, or be too short.
const PREFIX: &str = "job-";

/// `given` in lower case, with `-` for everything that is neither a letter nor a digit, cut to the length of a name.
pub(super) fn derived_name(given: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mut name: String = given.trim().chars().map(letter).collect();
    name = name.trim_matches('-').to_owned();
    if name.is_empty() {
        return "parallel-job".to_owned();
    }
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) || name.len() < SHORTEST {
        name.insert_str(0, PREFIX);
    }
    name.truncate(LONGEST);
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::super::check_name;
    use super::*;

    #[test]
    fn a_name_is_derived_from_any_text() {
        for (given, expected) in [
            ("score", "score"),
            ("Batch_Scoring.v2", "batch-scoring-v2"),
            ("iris-batch-prediction-using-parallel", "iris-batch-prediction-using-para"),
            ("a-name-whose-thirty-second-lette-r", "a-name-whose-thirty-second-lette"),
            ("a-name-whose-thirty-second-is-a-dash", "a-name-whose-thirty-second-is-a"),
            ("1a", "job-1a"),
            ("ab", "job-ab"),
            ("Été 2026", "t--2026"),
            ("日本", "parallel-job"),
            ("", "parallel-job"),
        ] {
            assert_eq!(derived_name(given), expected, "{given:?}");
            assert_eq!(check_name(expected), Ok(()));
        }
    }
}
