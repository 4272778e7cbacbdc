//! Where each setting of a job comes from, for who wonders why it is what it is. Nothing of a job depends on it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::form::RawSetting;
use super::keys::JOB;

/// What the options of the command line begin with, in the places that messages name.
const OPTION: &str = "--";

/// The origins of the settings of a job, by their keys. A setting without one is the default, or was worked out from others; of a job that
/// an older prs loaded there are none.
pub type Origins = BTreeMap<String, Origin>;

/// What gave a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The file as it was named, a deployment in words, or an option: `score.yml`, `deployment a of endpoint b`, `--set node_count`.
    pub by: String,
    /// Line in the file, from 1; nothing where it is not of a file, or the file is one line of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The key with its place in the file, where that is called otherwise than the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Origin {
    /// That an option, or something else than a file, gave it.
    pub fn of(by: impl Into<String>) -> Self {
        Self { by: by.into(), line: None, key: None }
    }
}

impl fmt::Display for Origin {
    /// `score.yml:12, as task.entry_script`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.by)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.key {
            Some(key) => write!(f, ", as {key}"),
            None => Ok(()),
        }
    }
}

/// The origins of the settings that were `given`. `options` are the keys of `--set`, and `place` tells which file a line is of, and which line
/// of that.
pub(super) fn origins(
    given: &[RawSetting],
    options: &[(String, String)],
    place: impl Fn(Option<usize>) -> (String, Option<usize>),
) -> Origins {
    let known = given.iter().filter(|setting| JOB.find(&setting.key).is_some() && !setting.value.is_null());
    let origin = |setting: &RawSetting| {
        if setting.shown.starts_with(OPTION) {
            return Origin::of(&setting.shown);
        }
        // Of what an option replaces in the file the key is there still, with its line.
        if let Some((option, _)) = options.iter().rev().find(|(option, _)| holds(option, &setting.shown)) {
            return Origin::of(format!("--set {option}"));
        }
        let (by, line) = place(setting.line);
        let key = Some(&setting.shown).filter(|shown| **shown != setting.key).cloned();
        Origin { by, line, key }
    };
    known.map(|setting| (setting.key.clone(), origin(setting))).collect()
}

/// Whether the key `option` names all of the place `shown`.
fn holds(option: &str, shown: &str) -> bool {
    shown.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::super::yaml::scalar;
    use super::*;

    fn given(key: &str, shown: &str, line: Option<usize>) -> RawSetting {
        RawSetting { key: key.to_owned(), shown: shown.to_owned(), line, value: scalar("x") }
    }

    #[test]
    fn a_setting_is_of_a_file_or_of_an_option() {
        let all = [
            given("name", "name", Some(1)),
            given("entry_script", "task.entry_script", Some(7)),
            given("node_count", "--set node_count", None),
            given("mini_batch_size", "jobs.a.mini_batch_size", Some(9)),
            given("environment", "jobs.b.environment", Some(9)),
            given("no_such_key", "no_such_key", Some(3)),
            RawSetting { value: scalar("null"), ..given("output", "output", Some(4)) },
        ];
        let options =
            [("jobs.a".to_owned(), String::new()), ("jobs.b.environment.image".to_owned(), String::new())];
        let found = origins(&all, &options, |line| ("score.yml".to_owned(), line));
        let told: Vec<_> = found.iter().map(|(key, origin)| (key.as_str(), origin.to_string())).collect();
        let expected = [
            ("entry_script", "score.yml:7, as task.entry_script"),
            ("environment", "score.yml:9, as jobs.b.environment"),
            ("mini_batch_size", "--set jobs.a"),
            ("name", "score.yml:1"),
            ("node_count", "--set node_count"),
        ];
        assert_eq!(told, expected.map(|(key, text)| (key, text.to_owned())));
    }
}
