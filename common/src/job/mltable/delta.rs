//! `read_delta_lake` of an MLTable: which version of which Delta table (dialects B.2).
//!
//! What its log says is read when the job is submitted, by `orchestrator/src/inputs/delta.rs`.

use std::path::Path;

use super::super::form::RawSetting;
use super::super::reader::Reader;
use super::super::takes::Takes;
use crate::dataset::http_url::is_http;
use crate::dataset::input::InputSource;
use crate::dataset::mltable::{AsOf, DeltaTable};
use crate::dataset::remote::is_glob;

/// The transformation.
pub(super) const READ: &str = "read_delta_lake";
/// Its arguments.
pub(super) const ARGUMENTS: [&str; 4] =
    ["timestamp_as_of", "version_as_of", "include_path_column", "path_column"];
const HOW: &str = "give {version_as_of: 3}, or {timestamp_as_of: '2024-05-01T00:00:00Z'}";

/// Which version the arguments ask for.
pub(super) fn as_of(given: &mut Reader<'_>, transformation: &RawSetting) -> Option<DeltaTable> {
    let as_of = match (given.get("version_as_of"), given.get("timestamp_as_of")) {
        (Some(version), None) => {
            let count = Takes::Whole(0..=i64::MAX, ", of the table").read(&version.value);
            let count = count.map_err(|message| given.refuse(&version, message)).ok()?;
            AsOf::Version(count.as_u64()?)
        }
        (None, Some(time)) => timestamp(given, &time)?,
        (Some(version), Some(_)) => {
            let message =
                "it is there beside timestamp_as_of, and one of them says which version: remove the other";
            given.refuse(&version, message);
            return None;
        }
        (None, None) => {
            refuse_without(given, transformation);
            return None;
        }
    };
    Some(DeltaTable { as_of, version: None, columns: Vec::new() })
}

/// The time that `setting` has.
fn timestamp(given: &mut Reader<'_>, setting: &RawSetting) -> Option<AsOf> {
    let text = setting.value.as_text().unwrap_or_default().trim().to_owned();
    let Ok(read) = text.parse::<jiff::Timestamp>() else {
        let message = format!(
            "{} where a time is expected as RFC 3339 has it, with its zone, such as '2024-05-01T00:00:00Z'",
            setting.value.describe()
        );
        given.refuse(setting, message);
        return None;
    };
    Some(AsOf::Timestamp { text, milliseconds: read.as_millisecond() })
}

/// Refuses the transformation without arguments.
pub(super) fn refuse_without(given: &mut Reader<'_>, transformation: &RawSetting) {
    given.refuse(transformation, format!("it does not say which version of the table: {HOW}"));
}

/// Refuses `paths` that cannot be a Delta table: it is one folder.
pub(super) fn check_source(fields: &mut Reader<'_>, source: &InputSource) {
    let Some(setting) = fields.get("paths") else { return };
    let (paths, is_remote) = match source {
        InputSource::Paths(paths) => (paths, false),
        InputSource::Remote(urls) => (urls, true),
        _ => return,
    };
    let [path] = &paths[..] else {
        let message =
            format!("{READ} takes one folder, and there are {}: make them tables of their own", paths.len());
        return fields.refuse(&setting, message);
    };
    let wrong = if is_remote {
        if is_http(path) {
            Some("it is on an HTTP server, and a Delta table has to be in a bucket or on this machine: copy it there".to_owned())
        } else {
            is_glob(path)
                .then(|| format!("{path} is a pattern: give the folder, as in `- folder: s3://bucket/table`"))
        }
    } else if !Path::new(path).is_dir() {
        Some(format!("{path} is no folder: give that of the table, as in `- folder: ./table`"))
    } else if !Path::new(path).join("_delta_log").is_dir() {
        Some(format!("{path} has no folder _delta_log, so it is no Delta table: give the folder of one"))
    } else {
        None
    };
    if let Some(wrong) = wrong {
        fields.refuse(&setting, format!("{READ}: {wrong}"));
    }
}
