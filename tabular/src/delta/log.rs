//! Which files a log has, by their names, and which of them a version takes.

use std::collections::{BTreeMap, BTreeSet};

use super::DeltaError;

/// Digits of a version in a name.
const DIGITS: usize = 20;
/// Digits of the number of a part.
const PART_DIGITS: usize = 10;

/// The files of a log, by what their names say.
#[derive(Debug, Clone, Default)]
pub struct Log {
    commits: BTreeSet<u64>,
    /// Versions with a checkpoint in one file.
    whole: BTreeSet<u64>,
    /// Of checkpoints in parts, by version and number of parts, which are there.
    parts: BTreeMap<(u64, u32), BTreeSet<u32>>,
    /// Versions with a checkpoint of the form v2.
    v2: BTreeSet<u64>,
}

/// The name of the commit that makes `version`.
pub fn commit_name(version: u64) -> String {
    format!("{version:020}.json")
}

impl Log {
    /// Notes a file of the log by its name. Of names that say nothing of a version nothing is noted. Gives the version of a
    /// commit.
    pub fn add(&mut self, name: &str) -> Option<u64> {
        let (digits, rest) = name.split_at_checked(DIGITS)?;
        let version = number(digits)?;
        if rest == ".json" {
            self.commits.insert(version);
            return Some(version);
        }
        let rest = rest.strip_prefix(".checkpoint.")?;
        if rest == "parquet" {
            self.whole.insert(version);
            return None;
        }
        let (stem, suffix) = rest.rsplit_once('.')?;
        let parts =
            stem.split_once('.').filter(|(part, all)| [part, all].iter().all(|one| one.len() == PART_DIGITS));
        if let Some((part, all)) = parts {
            let parts = number(part).zip(number(all)).filter(|_| suffix == "parquet")?;
            let (part, all) = (u32::try_from(parts.0).ok()?, u32::try_from(parts.1).ok()?);
            self.parts.entry((version, all)).or_default().insert(part);
        } else if suffix == "parquet" || suffix == "json" {
            // The name has a UUID.
            self.v2.insert(version);
        }
        None
    }

    /// The first version that can be read, and the last.
    pub fn versions(&self) -> Result<(u64, u64), DeltaError> {
        let last = self.commits.last().copied().max(self.checkpoint_up_to(u64::MAX)).ok_or_else(|| {
            self.v2.last().map_or(DeltaError::NoLog, |version| DeltaError::V2Checkpoint(*version))
        })?;
        if self.commits.contains(&0) {
            return Ok((0, last));
        }
        let whole = self.whole.first().copied();
        let parts = self.parts.keys().find(|key| self.is_complete(**key)).map(|(version, _)| *version);
        match whole.into_iter().chain(parts).min() {
            Some(first) => Ok((first, last)),
            None if self.v2.is_empty() => Err(DeltaError::Gap { version: last, missing: commit_name(0) }),
            None => Err(DeltaError::V2Checkpoint(last)),
        }
    }

    /// The names of the files that `version` takes, to be read in this order.
    pub fn files_of(&self, version: u64) -> Result<Vec<String>, DeltaError> {
        let (first, last) = self.versions()?;
        if !(first..=last).contains(&version) {
            return Err(DeltaError::NoVersion { version, first, last });
        }
        let base = self.checkpoint_up_to(version);
        let mut names = base.map(|base| self.checkpoint_names(base)).unwrap_or_default();
        for needed in base.map_or(0, |base| base + 1)..=version {
            if !self.commits.contains(&needed) {
                let after_base = base.map_or(0, |base| base + 1)..=version;
                return Err(match self.v2.range(after_base).next() {
                    Some(_) => DeltaError::V2Checkpoint(version),
                    None => DeltaError::Gap { version, missing: commit_name(needed) },
                });
            }
            names.push(commit_name(needed));
        }
        Ok(names)
    }

    fn is_complete(&self, key: (u64, u32)) -> bool {
        let (_, all) = key;
        self.parts.get(&key).is_some_and(|parts| all > 0 && (1..=all).all(|part| parts.contains(&part)))
    }

    /// The last version up to `version` that has a checkpoint with all of its parts.
    fn checkpoint_up_to(&self, version: u64) -> Option<u64> {
        let whole = self.whole.range(..=version).next_back().copied();
        let up_to = self.parts.range(..=(version, u32::MAX)).rev();
        let parts = up_to.map(|(key, _)| *key).find(|key| self.is_complete(*key)).map(|(version, _)| version);
        whole.max(parts)
    }

    fn checkpoint_names(&self, version: u64) -> Vec<String> {
        if self.whole.contains(&version) {
            return vec![format!("{version:020}.checkpoint.parquet")];
        }
        let complete =
            self.parts.range((version, 0)..=(version, u32::MAX)).find(|(key, _)| self.is_complete(**key));
        let all = complete.map_or(0, |((_, all), _)| *all);
        (1..=all).map(|part| format!("{version:020}.checkpoint.{part:010}.{all:010}.parquet")).collect()
    }
}

/// A number that is written with digits alone.
fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Whether the file `name` of a log is a commit.
pub(super) fn is_commit(name: &str) -> bool {
    name.split_at_checked(DIGITS).is_some_and(|(_, rest)| rest == ".json")
}

/// The version that the file `name` of a log is about.
pub(super) fn version_of(name: &str) -> Option<u64> {
    number(name.get(..DIGITS)?)
}
