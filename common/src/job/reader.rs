//! Typed reading of settings: one call a key, every problem noted, none of them the end.
//!
//! A reader hands out `None` both for a key that is absent and for one that is wrong; the latter has
//! left a problem behind, so that the caller can go on with a default and find the next one. Numbers
//! and booleans may be written as text, as azureml and `--set` do.

use std::ops::RangeInclusive;

use super::error::Problem;
use super::form::{RawSetting, RawSettings};
use super::keys;
use super::yaml::{Node, ScalarKind, Value};

/// The largest count and the longest time, 68 years: azureml's `int.max`.
pub(crate) const INT_MAX: i64 = i32::MAX as i64;

/// The settings of a job, or of one of its inputs, and what is wrong with them so far.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    raw: RawSettings,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(raw: RawSettings, problems: &'a mut Vec<Problem>) -> Self {
        Self { raw, problems }
    }

    /// The keys of a mapping inside the file, shown as `place.key`. Null is absent.
    pub(crate) fn of_mapping(place: &str, node: &Node, problems: &'a mut Vec<Problem>) -> Self {
        let mut raw = RawSettings::default();
        if let Value::Mapping(entries) = &node.value {
            let given = entries.iter().filter(|(_, value)| !value.is_null());
            raw.settings.extend(given.map(|(key, value)| RawSetting {
                key: key.name.clone(),
                shown: format!("{place}.{}", key.name),
                line: Some(key.line),
                value: value.clone(),
            }));
        }
        Self::new(raw, problems)
    }

    pub(crate) fn get(&self, key: &str) -> Option<RawSetting> {
        self.raw.get(key).cloned()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.raw.get(key).is_some()
    }

    /// Adds a setting that is given elsewhere than under its key.
    pub(crate) fn add(&mut self, setting: RawSetting) {
        self.raw.settings.push(setting);
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
        let unknown: Vec<RawSetting> = self.raw.settings.iter().filter(is_unknown).cloned().collect();
        let all = format!("the keys of {of} are {}", known.join(", "));
        for setting in unknown {
            let Some(nearest) = keys::nearest(&setting.key, known) else {
                self.refuse(&setting, "there is no such key: remove it");
                if self.problems.iter().all(|problem| problem.message != all) {
                    self.refuse_at("", None, &*all);
                }
                continue;
            };
            self.refuse(&setting, format!("there is no such key: did you mean `{nearest}`?"));
        }
    }

    /// Notes that `key`, which has no default, is absent.
    pub(crate) fn refuse_absent(&mut self, key: &str, expected: &str) {
        self.refuse_at(key, None, format!("the key is missing: give {expected}"));
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

    /// A whole number in `range`; `meaning` adds what a reader should know of it.
    pub(crate) fn integer(&mut self, key: &str, range: RangeInclusive<i64>, meaning: &str) -> Option<i64> {
        let setting = self.get(key)?;
        let (low, high) = (range.start(), range.end());
        let expected = if *high == i64::MAX {
            format!("give a whole number of at least {low}{meaning}")
        } else {
            format!("give a whole number from {low} to {high}{meaning}")
        };
        let given = setting.value.describe();
        let number = setting.value.as_text().map(str::trim).filter(|text| is_whole(text));
        match number.map(str::parse::<i64>) {
            Some(Ok(number)) if range.contains(&number) => return Some(number),
            Some(_) => self.refuse(&setting, format!("{given} is out of range: {expected}")),
            None => self.refuse(&setting, format!("{given} is not a whole number: {expected}")),
        }
        None
    }

    /// A number in `range`.
    pub(crate) fn number(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let setting = self.get(key)?;
        let given = setting.value.describe();
        let expected = format!("give a number from {} to {}", range.start(), range.end());
        match setting.value.as_text().map(|text| text.trim().parse::<f64>()) {
            Some(Ok(number)) if range.contains(&number) => return Some(number),
            Some(Ok(number)) if !number.is_nan() => {
                self.refuse(&setting, format!("{given} is out of range: {expected}"));
            }
            _ => self.refuse(&setting, format!("{given} is not a number: {expected}")),
        }
        None
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Option<bool> {
        self.choice(key, &[("true", true), ("false", false)])
    }

    /// One of a few words, whatever their case.
    pub(crate) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let setting = self.get(key)?;
        let text = setting.value.as_text().unwrap_or_default().trim();
        if let Some((_, choice)) = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
            return Some(*choice);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let message = format!("{} is not one of {}", setting.value.describe(), words.join(", "));
        self.refuse(&setting, message);
        None
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

    /// Notes a key whose feature is not built, unless its value asks for nothing.
    pub(crate) fn not_supported_yet(&mut self, key: &str, remedy: &str) {
        let Some(setting) = self.get(key) else { return };
        let asks_for_nothing = match &setting.value.value {
            Value::Null => true,
            Value::Sequence(items) => items.is_empty(),
            Value::Mapping(entries) => entries.is_empty(),
            Value::Scalar { text, kind } => {
                *kind == ScalarKind::Boolean && text.eq_ignore_ascii_case("false")
            }
        };
        if !asks_for_nothing {
            self.refuse(&setting, format!("not supported yet: {remedy}"));
        }
    }
}

/// Whether `text` is a whole number of any size.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
