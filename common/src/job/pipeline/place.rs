//! Where an output of a step goes beside the output of its job: a place of its own, which the job file names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::dataset::remote::{self, RemotePath};
use crate::job::own_id::JOB_ID;
use crate::storage::is_valid_key;

/// The place of an output of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPlace {
    /// The step.
    pub step: String,
    /// The name that the output has there.
    pub output: String,
    /// Whether the output is a file, and not a folder.
    pub is_file: bool,
    /// The file or folder: an absolute path of the machine that submits, or an `s3://` URL; without a `/` at its end.
    pub to: String,
}

/// A place, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A path of the machine that submits.
    Local(PathBuf),
    /// A bucket, `s3://bucket`, and a key in it.
    Bucket {
        /// The bucket.
        bucket: String,
        /// The key of the file, or what those of the files of the folder begin with.
        key: String,
    },
}

impl OutputPlace {
    /// Whether it is on the machine that submits.
    pub fn is_local(&self) -> bool {
        !remote::is_in_bucket(&self.to)
    }

    /// Where it is.
    pub fn target(&self) -> Target {
        match RemotePath::parse(&self.to) {
            Ok(RemotePath { bucket, key }) => Target::Bucket { bucket, key },
            Err(_) => Target::Local(PathBuf::from(&self.to)),
        }
    }
}

/// The positions of paths that are, or are in, or have in them, a path before them, each with the position of that one.
pub(in crate::job) fn met(paths: &[&Path]) -> BTreeMap<usize, usize> {
    let mut sorted: Vec<usize> = (0..paths.len()).collect();
    // A folder stands right before all that is in it.
    sorted.sort_by_key(|at| (paths[*at], *at));
    let mut found = BTreeMap::new();
    let mut tell = |at: usize, other: usize| {
        if other < at {
            found.entry(at).and_modify(|first: &mut usize| *first = other.min(*first)).or_insert(other);
        }
    };
    // The folders around a path, each with the first path above and the first one below it.
    let mut around: Vec<(usize, usize, usize)> = Vec::new();
    for at in sorted.into_iter().map(Some).chain([None]) {
        let is_in = |folder: usize| at.is_some_and(|at| paths[at].starts_with(paths[folder]));
        while let Some((folder, _, below)) = around.pop_if(|(folder, ..)| !is_in(*folder)) {
            tell(folder, below);
            if let Some((_, _, first)) = around.last_mut() {
                *first = below.min(folder).min(*first);
            }
        }
        let Some(at) = at else { break };
        let above = around.last().map_or(usize::MAX, |(folder, above, _)| *folder.min(above));
        tell(at, above);
        around.push((at, above, usize::MAX));
    }
    found
}

/// What a place may be.
pub(in crate::job) const EXPECTED: &str = "give a path of this machine, or s3://bucket/folder";

/// The place in a bucket that `text` names, without a `/` at its end. The id of the job may be in it.
///
/// # Errors
/// It is none, and why.
pub(in crate::job) fn in_bucket(text: &str) -> Result<String, String> {
    let plain = text.trim().trim_end_matches('/');
    let RemotePath { key, .. } = RemotePath::parse(&plain.replace(JOB_ID, "id"))?;
    if key.contains(['*', '?', '[']) {
        return Err("a place has none of the characters `*`, `?` and `[`".to_owned());
    }
    if !key.is_empty() && !is_valid_key(&key) {
        return Err("a place has no empty parts, and no dots in place of names".to_owned());
    }
    Ok(plain.to_owned())
}

/// What is said of a place in something else than a folder or a bucket; of the URL the scheme alone, for what follows may hold a
/// password.
pub(in crate::job) fn refused(text: &str) -> String {
    let scheme = text.trim().split(':').next().unwrap_or_default();
    format!("an output cannot be put into {scheme}: {EXPECTED}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(to: &str) -> OutputPlace {
        OutputPlace { step: "a".to_owned(), output: "o".to_owned(), is_file: false, to: to.to_owned() }
    }

    #[test]
    fn places_that_meet_are_told() {
        for (one, other, meet) in [
            ("/out/a", "/out/a", true),
            ("/out", "/out/a", true),
            ("/out/a", "/out/ab", false),
            ("s3://bucket/a", "s3://bucket/a/b", true),
            ("s3://bucket/a", "s3://other/a", false),
            ("s3://bucket/a", "/bucket/a", false),
        ] {
            for [one, other] in [[one, other], [other, one]] {
                let found = met(&[one, "/x", other, "/y"].map(Path::new));
                assert_eq!(found, meet.then_some((2, 0)).into_iter().collect(), "{one} {other}");
            }
        }
        // Each is told of the first one that it meets.
        let many = ["/b/x", "/b/y", "/a", "/b", "/a/b/c", "/a/b", "/ab"].map(Path::new);
        assert_eq!(met(&many), [(3, 0), (4, 2), (5, 2)].into());
    }

    #[test]
    fn a_place_is_a_path_or_a_key_of_a_bucket() {
        let of_bucket = Target::Bucket { bucket: "s3://bucket".to_owned(), key: "a/b".to_owned() };
        assert_eq!(place("s3://bucket/a/b").target(), of_bucket);
        assert_eq!(place("/a/b").target(), Target::Local("/a/b".into()));
        assert!(place("/a/b").is_local() && !place("s3://bucket/a").is_local());
    }
}
