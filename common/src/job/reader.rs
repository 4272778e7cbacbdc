//! Typed reading of settings: one call a key, every problem noted, none of them the end.
//!
//! A reader hands out `None` both for a key that is absent and for one that is wrong; the latter has
//! left a problem behind, so that the caller can go on with a default and find the next one.

use serde::de::DeserializeOwned;

use super::error::Problem;
use super::form::{RawSetting, RawSettings};
use super::keys::Key;
use super::names::Names;
use super::near_name::nearest;
use super::takes::Takes;
use super::yaml::{Node, Value};

/// The settings of a job, or of one of its inputs, and what is wrong with them so far.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    raw: RawSettings,
    /// Keys of a mapping without a value: absent where they are known, and wrong where they are not.
    empty: Vec<RawSetting>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(raw: RawSettings, problems: &'a mut Vec<Problem>) -> Self {
        Self { raw, empty: Vec::new(), problems }
    }

    /// The keys of a mapping inside the file, shown as `place.key`; those of the file itself where there is no place. Null
    /// is absent.
    pub(crate) fn of_mapping(place: &str, node: &Node, problems: &'a mut Vec<Problem>) -> Self {
        let mut reader = Self::new(RawSettings::default(), problems);
        if let Value::Mapping(entries) = &node.value {
            let dot = if place.is_empty() { "" } else { "." };
            let settings = entries.iter().map(|(key, value)| {
                let (line, option) = match (value.line, &value.value) {
                    (None, Value::Scalar { .. }) => (None, "--set "),
                    _ => (Some(key.line), ""),
                };
                let shown = format!("{option}{place}{dot}{}", key.name);
                RawSetting { key: key.name.clone(), shown, line, value: value.clone() }
            });
            (reader.empty, reader.raw.settings) = settings.partition(|setting| setting.value.is_null());
        }
        reader
    }

    pub(crate) fn get(&self, key: &str) -> Option<RawSetting> {
        self.raw.get(key).cloned()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.raw.get(key).is_some()
    }

    /// What names of data stand for.
    pub(super) fn names(&self) -> Names {
        self.raw.names.clone()
    }

    /// Whether a problem explains already why `key` is absent.
    pub(super) fn is_told(&self, key: &str) -> bool {
        self.raw.told.contains(&key)
    }

    /// Adds a setting that is given elsewhere than under its key.
    pub(crate) fn add(&mut self, setting: RawSetting) {
        self.raw.settings.push(setting);
    }

    /// Puts a setting in the place of what is given under its key.
    pub(super) fn replace(&mut self, setting: RawSetting) {
        self.raw.settings.retain(|present| present.key != setting.key);
        self.raw.settings.push(setting);
    }

    /// Has the author of the job told something about what is given for `setting`.
    pub(super) fn note(&mut self, setting: &RawSetting, message: impl Into<String>) {
        self.raw.note(setting, message);
    }

    /// All that was given.
    pub(super) fn given(&self) -> Vec<RawSetting> {
        self.raw.settings.clone()
    }

    /// What the author is to be told, in the order of the file.
    pub(super) fn into_notes(self) -> Vec<Problem> {
        let mut notes = self.raw.notes;
        notes.sort_by_key(|note| note.line.unwrap_or(usize::MAX));
        notes
    }

    /// Notes a problem with what is given for `setting`.
    pub(crate) fn refuse(&mut self, setting: &RawSetting, message: impl Into<String>) {
        self.refuse_at(&setting.shown, setting.line, message);
    }

    /// Notes a problem at a place of the file.
    pub(crate) fn refuse_at(&mut self, key: &str, line: Option<usize>, message: impl Into<String>) {
        self.problems.push(Problem { key: key.to_owned(), line, message: message.into() });
    }

    /// Notes every key that is not one of `known`, the keys `of` something; which there are is said once.
    pub(crate) fn refuse_unknown(&mut self, known: &[&'static str], of: &str) {
        let is_unknown = |setting: &&RawSetting| !known.contains(&setting.key.as_str());
        let given = self.raw.settings.iter().chain(&self.empty);
        let unknown: Vec<RawSetting> = given.filter(is_unknown).cloned().collect();
        let all = format!("the keys of {of} are {}", known.join(", "));
        let mut is_said = unknown.is_empty() || self.problems.iter().any(|problem| problem.message == all);
        for setting in unknown {
            let Some(nearest) = nearest(&setting.key, known) else {
                self.refuse(&setting, "there is no such key: remove it");
                if !std::mem::replace(&mut is_said, true) {
                    self.refuse_at("", None, &*all);
                }
                continue;
            };
            self.refuse(&setting, format!("there is no such key: did you mean `{nearest}`?"));
        }
    }

    /// The settings in the mapping under `key`, which has no other keys than `known`.
    pub(super) fn nested(&mut self, key: &str, known: &[&'static str]) -> Vec<RawSetting> {
        let Some(setting) = self.get(key) else { return Vec::new() };
        if !matches!(setting.value.value, Value::Mapping(_)) {
            let given = setting.value.describe();
            let message = format!("{given} where a mapping is expected: give {}", known.join(", "));
            self.refuse(&setting, message);
            return Vec::new();
        }
        let mut nested = Reader::of_mapping(&setting.shown, &setting.value, self.problems);
        nested.refuse_unknown(known, key);
        nested.raw.settings.retain(|setting| known.contains(&setting.key.as_str()));
        nested.raw.settings
    }

    /// Notes that a key which has no default is absent.
    pub(super) fn refuse_absent(&mut self, key: &Key) {
        self.refuse_at(key.name, None, format!("the key is missing: give {}", key.takes));
    }

    pub(crate) fn problems(&mut self) -> &mut Vec<Problem> {
        self.problems
    }

    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        let setting = self.get(key)?;
        if let Some(text) = setting.value.as_text() {
            return Some(text.to_owned());
        }
        self.refuse(&setting, format!("{} where text is expected", setting.value.describe()));
        None
    }

    /// Text with something in it; spaces around it do not count.
    pub(crate) fn filled_text(&mut self, key: &str, expected: &str) -> Option<String> {
        let text = self.text(key)?.trim().to_owned();
        if text.is_empty() {
            let setting = self.get(key)?;
            self.refuse(&setting, format!("it is empty: give {expected}"));
            return None;
        }
        Some(text)
    }

    /// The value of `key`, as its type in the table reads it. The type of `T` is that of the table.
    pub(super) fn value<T: DeserializeOwned>(&mut self, key: &Key) -> Option<T> {
        self.take(key.name, &key.takes)
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Option<bool> {
        self.take(key, &Takes::Boolean)
    }

    /// The value under `key`, which is of this type.
    fn take<T: DeserializeOwned>(&mut self, key: &str, takes: &Takes) -> Option<T> {
        let value = self.judge(key, |given| takes.read(given))?;
        Some(serde_json::from_value(value).expect("the table has the type of the field"))
    }

    /// What `judge` makes of the value under `key`.
    pub(super) fn judge<T>(
        &mut self,
        key: &str,
        judge: impl FnOnce(&Node) -> Result<T, String>,
    ) -> Option<T> {
        let setting = self.get(key)?;
        judge(&setting.value).map_err(|message| self.refuse(&setting, message)).ok()
    }

    /// What `read` makes of the text of `key`, which has something in it; spaces around it do not count.
    pub(super) fn read<T>(&mut self, key: &Key, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.filled_text(key.name, &key.takes.to_string())?;
        self.judge(key.name, |_| read(&text))
    }

    /// The texts of a list, each with its place.
    pub(crate) fn texts(&mut self, key: &str) -> Option<Vec<RawSetting>> {
        let setting = self.get(key)?;
        let Value::Sequence(items) = &setting.value.value else {
            self.refuse(&setting, format!("{} where a list is expected", setting.value.describe()));
            return None;
        };
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let shown = format!("{}[{index}]", setting.shown);
            if item.as_text().is_none() {
                let message =
                    format!("{} where text is expected: quote it to give it as text", item.describe());
                self.refuse_at(&shown, item.line, message);
            } else {
                texts.push(RawSetting { key: key.to_owned(), shown, line: item.line, value: item.clone() });
            }
        }
        Some(texts)
    }

    /// The texts of a mapping, in the order of the file, each with its place and under its own name.
    pub(crate) fn text_mapping(&mut self, key: &str) -> Option<Vec<RawSetting>> {
        let setting = self.get(key)?;
        let Value::Mapping(entries) = &setting.value.value else {
            self.refuse(&setting, format!("{} where a mapping is expected", setting.value.describe()));
            return None;
        };
        let mut texts = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            let shown = format!("{}.{}", setting.shown, name.name);
            if value.as_text().is_none() {
                let message = format!("{} where text is expected: write \"\" for none", value.describe());
                self.refuse_at(&shown, Some(name.line), message);
            } else {
                let (key, value) = (name.name.clone(), value.clone());
                texts.push(RawSetting { key, shown, line: Some(name.line), value });
            }
        }
        Some(texts)
    }
}
