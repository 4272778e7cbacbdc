//! Two jobs beside each other: the settings that differ, how long tries took, where the time went, and which files of their code differ.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use anyhow::Context;
use bytes::Bytes;
use prs_common::code::archive;
use prs_common::job::{JobSpec, hide_secret_variables};
use prs_common::statistics::{Histogram, Shares};
use serde_json::Value;

use crate::code::archive_of;
use crate::failure::Failure;
use crate::homes::{Home, Seen};
use crate::show::settings;
use crate::statistics::published;

/// Bytes of a file whose lines are compared.
const MOST_BYTES: u64 = 1 << 20;
/// Files that are named.
const MOST_FILES: usize = 200;

/// Of all the runs of a job the least, the quarters, 95 and 99 of 100, and the most, seconds.
pub type Quantiles = [f64; 7];

/// One of the two.
#[derive(Debug)]
pub struct Side {
    /// The job as it was seen.
    pub seen: Seen,
    /// How long `run()` took; nothing where nothing was published.
    pub run: Option<Quantiles>,
    /// How long making its argument took.
    pub load: Option<Quantiles>,
    /// Where the time of slots went, 0 to 1: in `run()` with the CPU and without, loading, other work of tries, `init()`, idle.
    pub shares: Option<[f64; 6]>,
}

/// A file of the code that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// Whether the first job has it, and the second.
    pub is_in: (bool, bool),
    /// Lines that only the first, and only the second has; nothing where the file is too long, or no text.
    pub lines: Option<(u64, u64)>,
}

/// Two jobs.
#[derive(Debug)]
pub struct Comparison {
    /// The first and the second.
    pub sides: [Side; 2],
    /// The settings that differ: key and both values; nothing where a job does not have it.
    pub settings: Vec<(String, Option<String>, Option<String>)>,
    /// The files of the code that differ.
    pub files: Vec<ChangedFile>,
    /// Files that differ and are not named.
    pub files_left_out: usize,
}

/// Compares two jobs.
///
/// # Errors
/// The storage fails, or the code of one of them is damaged.
pub async fn compare(homes: [&Home; 2], seen: [Seen; 2]) -> Result<Comparison, Failure> {
    let [one, other] = seen;
    let settings = differing(&one.record.as_given().spec, &other.record.as_given().spec);
    let same = one.record.as_given().code == other.record.as_given().code;
    let mut files = if same {
        Vec::new()
    } else {
        let codes =
            (archive_of(&**homes[0], &one.record).await?, archive_of(&**homes[1], &other.record).await?);
        let differing = tokio::task::spawn_blocking(move || changed(codes.0.as_ref(), codes.1.as_ref()));
        differing
            .await
            .context("the code was not compared")?
            .context("the code of a job cannot be unpacked")?
    };
    let files_left_out = files.len().saturating_sub(MOST_FILES);
    files.truncate(MOST_FILES);
    let sides = [side(homes[0], one).await?, side(homes[1], other).await?];
    Ok(Comparison { sides, settings, files, files_left_out })
}

async fn side(home: &Home, seen: Seen) -> Result<Side, Failure> {
    let published = published(&**home, &seen.record).await?;
    let summary = published.summary.as_ref();
    Ok(Side {
        run: summary.and_then(|summary| quantiles(&summary.run)),
        load: summary.and_then(|summary| quantiles(&summary.load)),
        shares: summary.and_then(|summary| shares(&summary.shares)),
        seen,
    })
}

fn quantiles(of: &Histogram) -> Option<Quantiles> {
    let seconds = |us: Option<u64>| us.map(|us| us as f64 / 1e6);
    let at = |share: f64| seconds(of.quantile_us(share));
    Some([seconds(of.min_us())?, at(0.25)?, at(0.5)?, at(0.75)?, at(0.95)?, at(0.99)?, seconds(of.max_us())?])
}

/// The parts of the time of all slots.
fn shares(of: &Shares) -> Option<[f64; 6]> {
    if of.slots_us == 0 {
        return None;
    }
    let tries = (of.run_us + of.load_us + of.other_us).max(1) as f64;
    // What tries say of themselves is in proportion to the time that slots were busy.
    let busy = of.busy_us.min(of.slots_us) as f64 / of.slots_us as f64;
    let init = of.init_us.min(of.slots_us) as f64 / of.slots_us as f64;
    let cpu = of.cpu_us.min(of.run_us) as f64;
    let part = |us: f64| us / tries * busy;
    Some([
        part(cpu),
        part(of.run_us as f64 - cpu),
        part(of.load_us as f64),
        part(of.other_us as f64),
        init,
        (1.0 - busy - init).max(0.0),
    ])
}

/// The settings that differ.
fn differing(one: &JobSpec, other: &JobSpec) -> Vec<(String, Option<String>, Option<String>)> {
    let of = |spec: &JobSpec| -> BTreeMap<String, Value> {
        let mut spec = spec.clone();
        hide_secret_variables(&mut spec.environment_variables);
        settings(&spec).into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    };
    let (one, other) = (of(one), of(other));
    let text = |value: Option<&Value>| {
        value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differs = keys.into_iter().filter(|key| one.get(*key) != other.get(*key));
    differs.map(|key| (key.clone(), text(one.get(key)), text(other.get(key)))).collect()
}

/// The files that two archives have not both, or not alike.
fn changed(one: Option<&Bytes>, other: Option<&Bytes>) -> std::io::Result<Vec<ChangedFile>> {
    let of = |body: Option<&Bytes>| body.map_or_else(|| Ok(BTreeMap::new()), |body| archive::files(body));
    let (first, second) = (of(one)?, of(other)?);
    let paths: BTreeSet<&PathBuf> = first.keys().chain(second.keys()).collect();
    let mut changed = Vec::new();
    for path in paths.into_iter().filter(|path| first.get(*path) != second.get(*path)) {
        let is_in = (first.contains_key(path), second.contains_key(path));
        let text = |body: Option<&Bytes>| -> std::io::Result<Option<String>> {
            let Some(body) = body else { return Ok(Some(String::new())) };
            Ok(match archive::file(body, path, MOST_BYTES)? {
                None => Some(String::new()),
                Some((_, content)) => content.and_then(|bytes| String::from_utf8(bytes).ok()),
            })
        };
        let lines = if changed.len() < MOST_FILES {
            text(one)?.zip(text(other)?).map(|(one, other)| lines_of_one(&one, &other))
        } else {
            None
        };
        changed.push(ChangedFile { path: path.display().to_string(), is_in, lines });
    }
    Ok(changed)
}

/// How many lines only the first text has, and only the second, whatever their order.
fn lines_of_one(one: &str, other: &str) -> (u64, u64) {
    let mut counts: HashMap<&str, i64> = HashMap::new();
    for line in one.lines() {
        *counts.entry(line).or_default() += 1;
    }
    for line in other.lines() {
        *counts.entry(line).or_default() -= 1;
    }
    let sum =
        |wanted: fn(i64) -> i64| counts.values().map(|count| wanted(*count)).sum::<i64>().unsigned_abs();
    (sum(|count| count.max(0)), sum(|count| count.min(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_on_both_sides() {
        for (one, other, expected) in [
            ("a\nb\n", "a\nb\n", (0, 0)),
            ("a\nb\n", "a\nc\nd\n", (1, 2)),
            ("", "a\na\n", (0, 2)),
            ("a\na\n", "a\n", (1, 0)),
        ] {
            assert_eq!(lines_of_one(one, other), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn settings_that_differ_are_named_with_both_values() {
        let one = JobSpec::new("job", "/a", "main.py", Vec::new());
        let mut other = one.clone();
        other.node_count = 4;
        other.environment_variables.insert("MY_TOKEN".to_owned(), "secret".to_owned());
        let found = differing(&one, &other);
        let keys: Vec<_> = found.iter().map(|(key, ..)| key.as_str()).collect();
        assert_eq!(keys, ["environment_variables", "node_count"]);
        assert_eq!(found[1].2.as_deref(), Some("4"));
        assert!(!format!("{found:?}").contains("secret"), "{found:?}");
    }

    #[test]
    fn shares_are_parts_of_all_slots() {
        let of = Shares {
            run_us: 60,
            cpu_us: 30,
            load_us: 20,
            other_us: 20,
            slots_us: 200,
            busy_us: 100,
            init_us: 20,
        };
        let found = shares(&of).unwrap();
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found[0] - 0.15).abs() < 1e-9 && (found[5] - 0.4).abs() < 1e-9, "{found:?}");
        assert!(shares(&Shares::default()).is_none());
    }
}
