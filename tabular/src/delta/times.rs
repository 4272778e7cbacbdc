//! Which version a table had at a time.

/// Why a table has no version of a time: the version and time, milliseconds since 1970, of the nearest commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeTravelError {
    /// It is before the first commit, which is this.
    Before(u64, i64),
    /// It is after the last commit, which is this.
    After(u64, i64),
}

/// The version at the time `wanted`, of `commits` in the order of their versions, each with the time of its file. A file that
/// is not later than the one before counts as a millisecond later, as it does to other readers.
pub fn at_time(commits: &[(u64, i64)], wanted: i64) -> Option<Result<u64, TimeTravelError>> {
    let (first, _) = commits.first()?;
    let mut found = None;
    let mut before = i64::MIN;
    for (version, written) in commits {
        let time = (*written).max(before.saturating_add(1));
        if time > wanted {
            return Some(found.ok_or(TimeTravelError::Before(*first, time)));
        }
        (found, before) = (Some(*version), time);
    }
    match commits.last() {
        Some((last, _)) if before < wanted => Some(Err(TimeTravelError::After(*last, before))),
        _ => found.map(Ok),
    }
}
