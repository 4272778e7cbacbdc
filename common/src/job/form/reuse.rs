//! `force_rerun` and `is_deterministic` of Azure's forms: when no former output is given, whatever `allow_reuse` says.

use crate::job::form::{RawSetting, RawSettings};
use crate::job::reader::Reader;
use crate::job::takes::Takes;
use crate::job::yaml::Node;

/// Takes both keys of a step, and `force_rerun` of the pipeline around it.
pub(super) fn lift(fields: &mut Reader<'_>, of_pipeline: Option<&RawSetting>, raw: &mut RawSettings) {
    let given = [
        (of_pipeline.cloned(), true),
        (fields.get("force_rerun"), true),
        (fields.get("is_deterministic"), false),
    ];
    for (setting, runs_anew) in given {
        let Some(setting) = setting.filter(|setting| !setting.value.is_null()) else { continue };
        match Takes::Boolean.read(&setting.value) {
            Ok(value) if value == runs_anew => {
                raw.replace("allow_reuse", setting.shown, Node::text("false", setting.line));
            }
            Ok(_) => {}
            Err(message) => fields.refuse(&setting, message),
        }
    }
}
