//! What a job needs of the machine of who hands it in: a program that packs for the server asks here what to pack, so that the rules of
//! job files and of ignore files are those of prs, whatever the program is written in.

use std::collections::BTreeMap;
use std::path::Path;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use prs_common::code::files::{ENVIRONMENT_MARKS, IGNORE_FILES, IgnoreRules, NEVER_CODE};
use prs_common::job::LocalPath;
use prs_jobs::intake::unpack::{LARGEST, MOST};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::received::{json, set_of};
use crate::app::App;
use crate::auth::MaySubmit;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// A job file, and what it refers to.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PackedJob"))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Asked {
    yaml: Option<String>,
    spec: Option<Map<String, Value>>,
    set: Map<String, Value>,
    /// Texts that it refers to, such as components, by their paths from its folder.
    files: BTreeMap<String, String>,
}

/// The form of a path of the machine of who hands a job in.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "LocalPath")]
#[expect(dead_code, reason = "its form counts")]
struct LocalPathRecord {
    /// From the folder that relative paths begin in, empty for that itself; or absolute. What stands in it may be a pattern.
    path: String,
    /// The key, with its place, that has it; empty where it is not known.
    key: String,
    /// Line of that, from 1.
    line: Option<usize>,
    /// The input, or side input, whose path it is.
    input: Option<String>,
    /// Whether it is a folder of code.
    is_code: bool,
}

/// What is to come with a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ToSend {
    #[cfg_attr(test, schemars(with = "Vec<LocalPathRecord>"))]
    value: Vec<LocalPath>,
    /// Of code, names that stay behind wherever they are.
    never_code: [&'static str; NEVER_CODE.len()],
    /// Of code, a folder with one of these in it stays behind.
    environment_marks: [&'static str; ENVIRONMENT_MARKS.len()],
    /// The first of these that a folder of code has says what else stays behind.
    ignore_files: [&'static str; IGNORE_FILES.len()],
    /// Bytes of all that comes along, before and after it is packed.
    most_bytes: u64,
    most_files: usize,
}

/// `POST /job-paths`.
pub(crate) async fn job_paths(
    _: MaySubmit,
    State(app): State<App>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (asked, _): (Asked, _) = json(request).await?;
    let text = match (asked.yaml, asked.spec) {
        (Some(yaml), None) => yaml,
        // JSON is YAML.
        (None, Some(spec)) => Value::Object(spec).to_string(),
        _ => {
            return Err(Problem::new(
                Kind::BAD_REQUEST,
                "A job has either yaml, the text of a job file, or spec, the keys of one.",
            ));
        }
    };
    let set = set_of(asked.set)?;
    let value = app.desk.local_paths(&text, &set, &asked.files).await;
    let value = value.map_err(|failure| Problem::of(&failure, Kind::BAD_REQUEST))?;
    Ok(Json(ToSend {
        value,
        never_code: NEVER_CODE,
        environment_marks: ENVIRONMENT_MARKS,
        ignore_files: IGNORE_FILES,
        most_bytes: LARGEST,
        most_files: MOST,
    })
    .into_response())
}

/// Files and folders of code, and the ignore file beside them.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CodePaths"))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Found {
    ignore_file: String,
    text: String,
    /// Paths from the folder of the ignore file; those of folders end with `/`.
    paths: Vec<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct KeptOut {
    kept_out: Vec<String>,
}

/// `POST /kept-out`.
pub(crate) async fn kept_out(_: MaySubmit, params: Params, request: Request) -> Result<Response, Problem> {
    params.check(&[])?;
    let (Found { ignore_file, text, mut paths }, _) = json(request).await?;
    let rules = IgnoreRules::parse(Path::new(&ignore_file), &text);
    let rules = rules.map_err(|error| Problem::new(Kind::JOB_FILE, error))?;
    let is_below = |path: &String| !path.starts_with('/') && !path.split('/').any(|part| part == "..");
    if let Some(other) = paths.iter().find(|path| !is_below(path)) {
        return Err(Problem::new(
            Kind::BAD_REQUEST,
            format_args!("{other:?} is no path below the folder of the ignore file."),
        ));
    }
    paths.retain(|path| rules.keep_out(Path::new(path.trim_end_matches('/')), path.ends_with('/')));
    Ok(Json(KeptOut { kept_out: paths }).into_response())
}
