//! Names of columns: one, or a list of them.

use std::collections::HashSet;

use super::super::form::RawSetting;
use super::super::reader::Reader;
use super::super::yaml::Value;

/// The names that `setting` has, none twice; nothing where they are wrong.
pub(super) fn names(fields: &mut Reader<'_>, setting: &RawSetting) -> Option<Vec<String>> {
    let items = match &setting.value.value {
        Value::Sequence(items) => items.as_slice(),
        _ => std::slice::from_ref(&setting.value),
    };
    let mut names: Vec<String> = Vec::with_capacity(items.len());
    let mut seen = HashSet::new();
    for item in items {
        let Some(name) = item.as_text().filter(|name| !name.is_empty()) else {
            let message =
                format!("{} where the name of a column is expected, or a list of them", item.describe());
            fields.refuse_at(&setting.shown, item.line.or(setting.line), message);
            return None;
        };
        if !seen.insert(name) {
            let message = format!("{name:?} is there twice: remove one");
            fields.refuse_at(&setting.shown, item.line.or(setting.line), message);
            return None;
        }
        names.push(name.to_owned());
    }
    Some(names)
}
