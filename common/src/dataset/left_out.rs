//! Entries that are left out of a folder that an input names: by which rules, and how many.
//!
//! Nothing is left out without a word: what a rule leaves out is counted, and told with its first name. What a path, a list
//! or a part of a glob names is never left out. The rules are the same for folders of this machine, buckets and servers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use globset::{Error, GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::input::{Input, InputKind};
use super::remote::is_remote;

/// Exclusions of one job, beside those of every job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusions {
    /// Globs of the job file: without a `/` for names at any depth, with one for paths below the folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Folders that the job writes its output to, absolute paths or URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Whether nothing is left out, by any rule: a side input is whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
}

impl Exclusions {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.ignore.is_empty() && self.outputs.is_empty() && !self.is_whole
    }
}

/// Reads a glob of `ignore`.
///
/// # Errors
/// It is not well formed; the text says how.
pub fn ignored_by(glob: &str) -> Result<GlobMatcher, String> {
    let compiled = |glob: &str| -> Result<GlobMatcher, Error> {
        Ok(GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build()?.compile_matcher())
    };
    let below = glob.trim_end_matches('/').trim_start_matches("./");
    let below =
        if below.contains('/') { below.trim_start_matches('/').to_owned() } else { format!("**/{below}") };
    compiled(&below).map_err(|error| error.kind().to_string())
}

/// Why something is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The folder of a run of prs.
    Run,
    /// The output of this job, or what another one is writing.
    Output,
    /// Not data, but a mark of the program that wrote the tables of the folder.
    Mark,
    /// The input's `ignore` says so.
    Ignored,
}

/// So many entries, folders as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub entries: u64,
    /// The first name of all, bytewise, below the folder that the input names.
    pub first: String,
}

/// How much was left out, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeftOut(BTreeMap<Reason, Count>);

impl LeftOut {
    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts an entry.
    pub fn add(&mut self, reason: Reason, name: &str) {
        let count = self.0.entry(reason).or_insert_with(|| Count { entries: 0, first: name.to_owned() });
        count.entries += 1;
        if name < &*count.first {
            name.clone_into(&mut count.first);
        }
    }

    /// Adds what another part of the same input left out.
    pub fn extend(&mut self, other: &Self) {
        for (reason, count) in &other.0 {
            let sum = self.0.entry(*reason).or_insert_with(|| Count { entries: 0, ..count.clone() });
            sum.entries += count.entries;
            if count.first < sum.first {
                sum.first.clone_from(&count.first);
            }
        }
    }

    /// A sentence for people for each reason, of the input `input`.
    pub fn sentences(&self, input: &str) -> Vec<String> {
        self.0.iter().map(|(reason, count)| format!("input {input}: {}", Told(*reason, count))).collect()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (reason, count)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{}", Told(*reason, count))?;
        }
        Ok(())
    }
}

struct Told<'a>(Reason, &'a Count);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(reason, Count { entries, first }) = self;
        let (one, more, remedy) = match reason {
            Reason::Run => ("folder of a run", "folders of runs", ": a path or glob that names it reads it"),
            Reason::Output => {
                ("folder of an output", "folders of outputs", ": a path or glob that names it reads it")
            }
            Reason::Mark => (
                "entry that programs write beside tables",
                "entries that programs write beside tables",
                ": a glob or list that names it reads it",
            ),
            Reason::Ignored => ("entry that ignore names", "entries that ignore names", ""),
        };
        let what = if *entries == 1 { one } else { more };
        let such = if *entries == 1 { "" } else { "such as " };
        write!(f, "{entries} {what} left out ({such}{first}){remedy}")
    }
}

/// The rules that an input's folder or glob is read by.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    ignore: Vec<GlobMatcher>,
    outputs: Vec<String>,
    has_marks: bool,
}

impl Rules {
    /// Rules of `input`, for a folder that it names or for what a glob of it picks.
    pub fn of(input: &Input, is_glob: bool) -> Self {
        let Exclusions { ignore, outputs, is_whole } = &input.exclusions;
        if *is_whole {
            return Self::default();
        }
        Self {
            // The job file was read with them.
            ignore: ignore.iter().filter_map(|glob| ignored_by(glob).ok()).collect(),
            outputs: outputs.clone(),
            has_marks: !is_glob && input.kind == InputKind::Tabular,
        }
    }

    /// Whether they leave out nothing by its name.
    pub fn are_none(&self) -> bool {
        self.ignore.is_empty() && self.outputs.is_empty() && !self.has_marks
    }

    /// Why the file or folder with the path `relative` below `base` is left out, whose folders are not.
    pub fn reason(&self, base: &str, relative: &str, is_folder: bool) -> Option<Reason> {
        let below = |output: &String| {
            output.strip_prefix(base.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'))
                == Some(relative)
        };
        if is_folder && self.outputs.iter().any(below) {
            return Some(Reason::Output);
        }
        let name = relative.rsplit('/').next().unwrap_or(relative);
        if self.has_marks && is_mark(name, is_folder) {
            return Some(Reason::Mark);
        }
        self.ignore.iter().any(|glob| glob.is_match(relative)).then_some(Reason::Ignored)
    }

    /// Why the file with the path `relative` below `base` is left out, or a folder that it is in: with the path of that.
    pub fn reason_of_file<'a>(&self, base: &str, relative: &'a str) -> Option<(Reason, &'a str)> {
        if self.are_none() {
            return None;
        }
        let folders = relative.match_indices('/').map(|(slash, _)| (&relative[..slash], true));
        folders
            .chain([(relative, false)])
            .find_map(|(path, is_folder)| Some((self.reason(base, path, is_folder)?, path)))
    }
}

/// Whether programs that write tables give this name to what is no table: Spark, Databricks, Dask, Delta, macOS.
fn is_mark(name: &str, is_folder: bool) -> bool {
    if is_folder {
        return matches!(name, "_temporary" | "_delta_log");
    }
    matches!(name, "_SUCCESS" | "_metadata" | "_common_metadata" | ".DS_Store")
        || name.starts_with("_committed_")
        || name.starts_with("_started_")
        || (name.starts_with('.') && Path::new(name).extension().is_some_and(|suffix| suffix == "crc"))
}

/// Whether `output` is below what one of `named` names: then a listing of it would have what the job itself writes.
pub fn may_hold(named: &str, output: &str) -> bool {
    let fixed = if is_remote(named) {
        &named
            [..named.find(['*', '?', '[', '{']).map_or(named.len(), |at| named[..at].rfind('/').unwrap_or(0))]
    } else {
        super::listing::PathPattern::fixed_part(named)
    };
    output
        .strip_prefix(fixed.trim_end_matches('/'))
        .is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(ignore: &[&str], has_marks: bool) -> Rules {
        let ignore = ignore.iter().map(|glob| ignored_by(glob).unwrap()).collect();
        Rules { ignore, outputs: vec!["/in/data/out".to_owned(), "s3://bucket/in/out".to_owned()], has_marks }
    }

    #[test]
    fn marks_of_programs_are_no_data_and_other_names_are() {
        let rules = rules(&[], true);
        for name in [
            "_SUCCESS",
            "a/_committed_17",
            "_started_17",
            "_metadata",
            "x/_common_metadata",
            ".part-0.csv.crc",
            ".DS_Store",
            "_temporary/0/part.csv",
            "t/_delta_log/0.json",
        ] {
            assert_eq!(
                rules.reason_of_file("/in", name).map(|(reason, _)| reason),
                Some(Reason::Mark),
                "{name}"
            );
        }
        for name in [
            "_success",
            "_SUCCESS.csv",
            "_part.csv",
            ".part.csv",
            "part.crc",
            "_temporary",
            "_delta_log",
            "_metadata/a.csv",
            "_x/a.csv",
            ".x/a.csv",
            "success",
        ] {
            assert_eq!(rules.reason_of_file("/in", name), None, "{name}");
        }
        assert_eq!(self::rules(&[], false).reason_of_file("/in", "_SUCCESS"), None);
    }

    #[test]
    fn ignore_names_names_at_any_depth_and_paths_below_the_folder() {
        for (glob, name, is) in [
            ("*.tmp", "a.tmp", true),
            ("*.tmp", "deep/er/a.tmp", true),
            ("*.tmp", "a.tmp.csv", false),
            ("old", "old/a.csv", true),
            ("old/", "x/old/a.csv", true),
            ("/old", "old/a.csv", true),
            ("/old/*.csv", "old/a.csv", true),
            ("old/*.csv", "x/old/a.csv", false),
            ("old/*.csv", "old/x/a.csv", false),
            ("**/old/*.csv", "x/old/a.csv", true),
            ("{a,b}.csv", "b.csv", true),
        ] {
            let found = rules(&[glob], false).reason_of_file("/in", name);
            assert_eq!(found.is_some_and(|(reason, _)| reason == Reason::Ignored), is, "{glob} {name}");
        }
        assert!(ignored_by("[").is_err());
    }

    #[test]
    fn the_output_of_the_job_is_no_input_of_it() {
        let rules = rules(&[], false);
        for (base, name, folder) in [
            ("/in/data", "out/a.csv", Some("out")),
            ("/in/", "data/out/x/a.csv", Some("data/out")),
            ("/", "in/data/out/a", Some("in/data/out")),
            ("s3://bucket/in/", "out/a.csv", Some("out")),
            ("/in/data", "outer/a.csv", None),
            ("/in/data", "out", None),
            ("/other", "out/a.csv", None),
        ] {
            assert_eq!(
                rules.reason_of_file(base, name),
                folder.map(|folder| (Reason::Output, folder)),
                "{base} {name}"
            );
        }
        for (named, output, holds) in [
            ("/in", "/in/out", true),
            ("/in/*/x/*.csv", "/in/out", true),
            ("/in/data/*.csv", "/in/out", false),
            ("/in/", "/in", false),
            ("/in", "/inner/out", false),
            ("s3://b/in", "s3://b/in/out", true),
            ("s3://b/in/*.csv", "s3://b/in/out", true),
            ("s3://b", "s3://c/out", false),
        ] {
            assert_eq!(may_hold(named, output), holds, "{named} {output}");
        }
    }

    #[test]
    fn what_is_left_out_is_told_with_its_number_and_first_name() {
        let mut left_out = LeftOut::default();
        left_out.add(Reason::Mark, "_SUCCESS");
        left_out.add(Reason::Run, "prs-runs/a");
        let mut more = LeftOut::default();
        more.add(Reason::Mark, "x/_SUCCESS");
        left_out.extend(&more);
        assert_eq!(
            left_out.sentences("rows"),
            [
                "input rows: 1 folder of a run left out (prs-runs/a): a path or glob that names it reads it",
                "input rows: 2 entries that programs write beside tables left out (such as _SUCCESS): a glob or list that names \
                 it reads it"
            ]
        );
        let json = serde_json::to_string(&left_out).unwrap();
        assert_eq!(serde_json::from_str::<LeftOut>(&json).unwrap(), left_out);
        assert!(LeftOut::default().is_empty() && left_out.to_string().contains("; 2 entries"));
    }
}
